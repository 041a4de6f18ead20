"""
The bit-vector emitter: a ground spec as z3 formulas over one state, for bounded model checking.

A slot is a bool, or a bit-vector just wide enough for its values; it is widened where it is
compared or added to, as far as the sum may reach: none overflows. A step is one number: which
instance is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import z3

from herdspec.engine.ground import Ground, Slot
from herdspec.engine.z3_operators import applied
from herdspec.language.graph import Expr
from herdspec.language.types import BOOL, Bool

Key = tuple[Any, ...]
State = Mapping[Key, Any]
"""A term for each slot."""


@dataclass
class BitEmitter:
    """Translates ground expressions over any state; a number has at least `width` bits."""

    ground: Ground
    context: z3.Context = field(default_factory=z3.Context)

    def __post_init__(self) -> None:
        slots = max((slot.values for slot in self.ground.slots.values()), default=2)
        largest = max(slots, self.ground.spec.largest_number)
        self.width = max(largest.bit_length() + 2, MARGIN)

    def number(self, value: int, width: int = 0) -> Any:
        """A constant, as wide as is asked for."""
        return z3.BitVecVal(value, max(width, self.width), self.context)

    def fresh(self, name: str, slots: Iterable[Slot] | None = None) -> dict[Key, Any]:
        """A state of its own (or what these slots hold): constants, one per slot."""
        found: dict[Key, Any] = {}
        for k, slot in enumerate(self.ground.slots.values() if slots is None else slots):
            key = slot.field, slot.index
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
        """The translator of expressions about this state."""
        return Terms(self, state)

    def narrowed(self, term: Any, like: Any) -> Any:
        """A number as wide as a slot's."""
        if z3.is_bool(like):
            return term
        return z3.simplify(z3.Extract(like.size() - 1, 0, term))

    def fits(self, key: Key, term: Any) -> Any:
        """The condition that a number is among a slot's values; one below 0 is not."""
        top = self.number(self.ground.slots[key].values - 1, term.size())
        return z3.ULE(term, top)


MARGIN = 10
"""The least width of numbers: most sums need no more, and are as wide as their parts."""
Reach = tuple[int, int]
"""The least number that an expression may be, and the largest."""


@dataclass
class Terms:
    """Expressions about one state; equal ones are translated once."""

    emit: BitEmitter
    state: State
    memo: dict[Expr, Any] = field(default_factory=dict)
    _reaches: dict[Expr, Reach] = field(default_factory=dict)

    def of(self, e: Expr) -> Any:
        """An expression as a bool, or as a number that is wide enough."""
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._term(e)
        return found

    def _term(self, e: Expr) -> Any:
        match e.op:
            case "slot":
                term = self.state[e.data]
                if e.kind == BOOL:
                    return term
                return z3.ZeroExt(max(self.emit.width - term.size(), 1), term)
            case "const" if e.kind == BOOL:
                return z3.BoolVal(e.data, self.emit.context)
            case "const":
                return self.emit.number(e.data, bits(self.reach(e)))
        args = [self.of(a) for a in e.args]
        width = max([bits(self.reach(e)), *(a.size() for a in args if z3.is_bv(a))])
        narrow = [z3.is_bv(a) and a.size() < width for a in args]
        if any(narrow):
            pairs = zip(args, narrow, strict=True)
            args = [z3.SignExt(width - a.size(), a) if short else a for a, short in pairs]
        return applied(e, args, lambda value: self.emit.number(value, width))

    def reach(self, e: Expr) -> Reach:
        """The numbers that an expression may be, at most."""
        found = self._reaches.get(e)
        if found is None:
            found = self._reaches[e] = self._reach(e)
        return found

    def _reach(self, e: Expr) -> Reach:
        if e.kind == BOOL:
            return 0, 1
        if e.op == "slot":
            return 0, (1 << self.state[e.data].size()) - 1
        if e.op == "count":
            return 0, len(e.args)
        parts = [self.reach(a) for a in e.args if a.kind != BOOL]
        least, largest = [low for low, _ in parts], [high for _, high in parts]
        match e.op:
            case "const":
                return e.data, e.data
            case "add":
                return least[0] + e.data, largest[0] + e.data
            case "plus":
                return sum(least), sum(largest)
            case "minus":
                return least[0] - largest[1], largest[0] - least[1]
        given = [e.data] if isinstance(e.data, int) else []
        return min([0, *least, *given]), max([0, *largest, *given])


def bits(reach: Reach) -> int:
    """The number of bits that hold all these numbers, the sign among them."""
    return 1 + max(n.bit_length() for n in reach)
