"""
Initial states: every choice of a start's parameters at once, as columns.

A spec may begin in many states: its `@initial` methods have parameters, maps among them, and every
choice of these makes a state. Their number is a product, which nobody writes down: choices are
*numbered*, the last digit the fastest, and a column reads the digit that it needs off the number.
What a start does is lowered once, over leaves for its parameters; the state before it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from herdspec.engine.columns import Column, Columns, Key, holding
from herdspec.engine.ground import Ground, Number, Slot, SlotKey
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Action
from herdspec.language.surface import Expectation
from herdspec.language.types import NAT, MapOf, Scalar

Parameters = tuple[tuple[str, Expr], ...]
MOST_STARTS = 1 << 26
"""The most choices of its parameters that a start can have."""


@dataclass(frozen=True)
class DeclaredGround(Ground):
    """A ground spec in which nothing has happened: its slots hold what is declared."""

    def leaf(self, e: Expr, index: tuple[int, ...]) -> Expr:
        """The value that the field's entry is declared to have."""
        slot = self.slots[e.data, index]
        return self.constant(slot.kind, slot.initial)

    def environment(self, parameters: Parameters, arguments: tuple[Number, ...]) -> dict[Expr, Any]:
        """Leaves that parameters stand for, whatever is chosen: see `Choices`."""
        del arguments
        found: dict[Expr, Any] = {}
        for name, p in parameters:
            digits = self.digits(name, p)
            leaves = tuple((digit.index, digit.expr) for digit in digits)
            found[p] = leaves if isinstance(p.kind, MapOf) else digits[0].expr
        return found

    def digits(self, name: str, parameter: Expr) -> list[Slot]:
        """A parameter as slots: one, or (of a map) one for each key."""
        kind = parameter.kind
        scalar: Scalar = kind.value if isinstance(kind, MapOf) else kind
        many = self.values(scalar)
        return [Slot(f"({name})", k, scalar, many, 0) for k in self.indices(kind)]


class Choices:
    """All choices of some parameters, by number: each parameter's digits, the last the fastest."""

    def __init__(self, declared: DeclaredGround, name: str, parameters: Parameters) -> None:
        self.digits = [declared.digits(parameter, p) for parameter, p in parameters]
        self.are_maps = [isinstance(p.kind, MapOf) for _, p in parameters]
        self.number = prod(digit.values for digits in self.digits for digit in digits)
        if self.number > MOST_STARTS:
            what = f"{declared.spec.name}: {name} has more than {MOST_STARTS:,} choices"
            raise UsageError(f"{what} at this size; take smaller sizes")
        self.steps: dict[SlotKey, tuple[int, int]] = {}
        """The distance of numbers of which a digit is one more, and the number of its values."""
        step = self.number
        for digits in self.digits:
            for digit in digits:
                step //= digit.values
                self.steps[digit.field, digit.index] = step, digit.values

    def arguments(self, number: int) -> tuple[Number, ...]:
        """The choice with this number."""
        found: list[Number] = []
        for is_map, digits in zip(self.are_maps, self.digits, strict=True):
            steps = [self.steps[digit.field, digit.index] for digit in digits]
            plain = tuple(number // step % values for step, values in steps)
            found.append(plain if is_map else plain[0])
        return tuple(found)


class Chosen(Columns):
    """Expressions over a start's parameters, for the choices from `low` to before `high`."""

    def __init__(self, choices: Choices, low: int, high: int) -> None:
        self.choices = choices
        self.rows = np.arange(low, high, dtype=np.uint64)
        self.memo = {}

    def read(self, key: Key) -> Column:
        """The digits of these choices."""
        step, values = self.choices.steps[key]
        found: Column = self.rows // np.uint64(step) % np.uint64(values)
        return found.astype(holding((values - 1).bit_length()))


class Start:
    """
    One way to begin: by an `@initial` method, or (without an action) as it is declared.

    Over the leaves of its parameters: where it is `possible`, has a meaning (`defined`) and keeps
    the axioms (`kept`), and where what it leads to is `within` the bounds.
    """

    def __init__(
        self, declared: DeclaredGround, axioms: tuple[Expr, ...], action: Action | None
    ) -> None:
        self.action, slots = action, declared.slots
        self.possible = self.defined = fits = g.TRUE
        self.updates: Mapping[SlotKey, Expr] = {}
        if action is not None:
            made = declared.instance(action, ())
            self.possible, self.defined, fits = made.guard, made.defined, made.fits
            self.updates = made.updates
        named = (action.name, action.parameters) if action is not None else ("", ())
        self.choices = Choices(declared, *named)
        begun = {
            slot.expr: self.updates.get(key, declared.constant(slot.kind, slot.initial))
            for key, slot in slots.items()
        }
        self.kept = g.conj(*(g.substitute(axiom, begun) for axiom in axioms))
        bounded = {key: new for key, new in self.updates.items() if slots[key].is_bounded}
        tops = (g.le(new, g.const(NAT, slots[key].values - 1)) for key, new in bounded.items())
        self.within = g.conj(fits, *tops)


def starts(ground: Ground) -> list[Start]:
    """Every way to begin; what is assumed of all of them are the axioms."""
    declared = DeclaredGround(ground.spec, ground.sizes, ground.bound, ground.faults)
    assumed = (p for p in ground.spec.properties if p.expectation is Expectation.AXIOM)
    axioms = tuple(ground.property(p) for p in assumed)
    return [Start(declared, axioms, action) for action in ground.spec.starts or (None,)]
