"""
Specs of coordination protocols in plain Python, and their analyses.

What a spec and its properties are written with stands here; `herdspec.check` explores, proves and
replays it. A `Protocol` is a spec with its variants and checks, as commands know it; it comes by
name only, since a spec that imports everything (`*`) does not need it.
"""

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
    from herdspec.check.protocol import Protocol as Protocol

__all__ = [
    "Capacity", "Nat", "Property", "Sort", "Spec", "SpecError", "Specification", "UpTo",
    "UsageError", "action", "always", "axiom", "command", "constraint", "each", "empty",
    "eventually", "eventually_always", "fault", "from_source", "initial", "leads_to", "lemma",
    "never", "recoverable", "require", "sometimes", "specification", "step", "strong", "weak",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`Protocol`, once it is asked for: a spec needs nothing of the checkers."""
    if name == "Protocol":
        from herdspec.check import protocol

        return protocol.Protocol
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
