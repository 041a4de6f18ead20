"""
Specs of coordination protocols in plain Python, and their readings.

What a spec is written with stands here; `herdspec.check` explores, proves and replays it.
"""

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

__all__ = [
    "Capacity", "Nat", "Property", "Sort", "Spec", "SpecError", "Specification", "UpTo",
    "UsageError", "action", "always", "axiom", "command", "constraint", "each", "empty",
    "eventually", "eventually_always", "fault", "from_source", "initial", "leads_to", "lemma",
    "never", "recoverable", "require", "sometimes", "specification", "step", "strong", "weak",
]  # fmt: skip
