"""
The bit-vector emitter: a ground spec as z3 formulas over one state, for bounded model checking.

A slot is a bool, or a bit-vector just wide enough for its values; it is widened where it is
compared or added to, so that no sum overflows. A step is one number: which instance is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import z3

from herdspec.engine.ground import Ground
from herdspec.engine.z3_operators import applied
from herdspec.language.graph import Expr
from herdspec.language.types import BOOL, Bool

Key = tuple[Any, ...]
State = Mapping[Key, Any]
"""A term for each slot."""


@dataclass
class BitEmitter:
    """Translates ground expressions over any state; `width` bits hold every number."""

    ground: Ground
    context: z3.Context = field(default_factory=z3.Context)

    def __post_init__(self) -> None:
        slots = max((slot.values for slot in self.ground.slots.values()), default=2)
        largest = max(slots, self.ground.spec.largest_number)
        self.width = max(largest.bit_length() + 2, MARGIN)

    def number(self, value: int) -> Any:
        """A constant."""
        return z3.BitVecVal(value, self.width, self.context)

    def fresh(self, name: str) -> dict[Key, Any]:
        """A state of its own: constants, one per slot."""
        found: dict[Key, Any] = {}
        for k, (key, slot) in enumerate(self.ground.slots.items()):
            if isinstance(slot.kind, Bool):
                found[key] = z3.Bool(f"{name}.{k}", self.context)
            else:
                bits = max((slot.values - 1).bit_length(), 1)
                found[key] = z3.BitVec(f"{name}.{k}", bits, self.context)
        return found

    def start(self) -> dict[Key, Any]:
        """The declared initial state."""
        found: dict[Key, Any] = {}
        for key, slot in self.ground.slots.items():
            if isinstance(slot.kind, Bool):
                found[key] = z3.BoolVal(bool(slot.initial), self.context)
            else:
                bits = max((slot.values - 1).bit_length(), 1)
                found[key] = z3.BitVecVal(slot.initial, bits, self.context)
        return found

    def over(self, state: State) -> Terms:
        """What translates expressions about this state."""
        return Terms(self, state)

    def narrowed(self, term: Any, like: Any) -> Any:
        """A number as wide as a slot's."""
        if z3.is_bool(like):
            return term
        return z3.simplify(z3.Extract(like.size() - 1, 0, term))

    def fits(self, key: Key, term: Any) -> Any:
        """Whether a number is among a slot's values; what comes below 0 is not."""
        top = self.number(self.ground.slots[key].values - 1)
        return z3.ULE(term, top)


MARGIN = 10
"""The least width of numbers: sums of a few slots, and what is below 0, are told apart."""


@dataclass
class Terms:
    """Expressions about one state; equal ones are translated once."""

    emit: BitEmitter
    state: State
    memo: dict[Expr, Any] = field(default_factory=dict)

    def of(self, e: Expr) -> Any:
        """An expression as a bool, or as a number of full width."""
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._term(e)
        return found

    def _term(self, e: Expr) -> Any:
        match e.op:
            case "slot":
                term = self.state[e.data]
                wide = self.emit.width - (0 if e.kind == BOOL else term.size())
                return term if e.kind == BOOL else z3.ZeroExt(wide, term)
            case "const" if e.kind == BOOL:
                return z3.BoolVal(e.data, self.emit.context)
            case "const":
                return self.emit.number(e.data)
        return applied(e, [self.of(a) for a in e.args], self.emit.number)
