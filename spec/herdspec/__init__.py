"""
Specs of coordination protocols in plain Python, and their analyses.

What a spec and its properties are written with stands here; `herdspec.check` explores, proves and
replays it. A `Protocol` is a spec with its variants and checks, as commands know it. The contract
of all protocols, `GroupContract`, comes by name only: imported with everything (`*`) it would be
one more spec of the file that imports it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from herdspec.language.errors import SpecError, UsageError
from herdspec.language.specification import Specification, from_source, specification
from herdspec.language.surface import (
    Capacity,
    Nat,
    Property,
    Sort,
    Spec,
    UpTo,
    action,
    always,
    axiom,
    command,
    constraint,
    each,
    empty,
    eventually,
    eventually_always,
    fault,
    initial,
    leads_to,
    lemma,
    never,
    recoverable,
    require,
    sometimes,
    step,
    strong,
    weak,
)

if TYPE_CHECKING:
    from herdspec.check.protocol import Protocol
    from herdspec.protocols.contract import GroupContract as GroupContract

__all__ = [
    "Capacity", "Nat", "Property", "Protocol", "Sort", "Spec", "SpecError", "Specification", "UpTo",
    "UsageError", "action", "always", "axiom", "command", "constraint", "each", "empty",
    "eventually", "eventually_always", "fault", "from_source", "initial", "leads_to", "lemma",
    "never", "recoverable", "require", "sometimes", "specification", "step", "strong", "weak",
]  # fmt: skip

_MODULES = {
    "GroupContract": "herdspec.protocols.contract",
    "Protocol": "herdspec.check.protocol",
}


def __getattr__(name: str) -> Any:
    """A public name, once it is asked for: to import a spec brings nothing of the checkers."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
