"""
Specs of coordination protocols in plain Python, and their readings.

What a spec is written with stands here; `herdspec.check` explores, proves and replays it.
"""

from herdspec.language.errors import SpecError, UsageError
from herdspec.language.specification import Specification, from_source, specification
from herdspec.language.surface import (
    Nat,
    Property,
    Sort,
    Spec,
    action,
    always,
    command,
    each,
    fault,
    lemma,
    recoverable,
    require,
    sometimes,
    step,
)

__all__ = [
    "Nat", "Property", "Sort", "Spec", "SpecError", "Specification", "UsageError", "action",
    "always", "command", "each", "fault", "from_source", "lemma", "recoverable", "require",
    "sometimes", "specification", "step",
]  # fmt: skip
