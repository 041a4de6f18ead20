"""
The initial states of a spec, found by columns: thousands of choices at one time.

They come in the order of their choices, the least first, as the plain Python makes them (see
`Machine.starts`); so states are numbered, and stories begun, by every engine alike. What a start
would lead to beyond a bound, or beyond a channel's capacity, is counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.numpy_engine import truths
from herdspec.check.running.run import Machine
from herdspec.check.running.undefined import undefined_start
from herdspec.engine.columns import Column, Packing, Words
from herdspec.engine.ground import Ground, SlotKey
from herdspec.engine.starts import Chosen, Start, starts
from herdspec.language import graph as g
from herdspec.language.surface import Spec

AT_ONCE = 1 << 16
"""Choices that are looked at together."""


@dataclass(frozen=True)
class Begun:
    """Some initial states by one start: `which` of the choices that were looked at make one."""

    start: Start
    chosen: Chosen
    which: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.which)

    def choice(self, number: int) -> int:
        """The number of the choice that makes one of these states."""
        return int(self.chosen.rows[self.which[number]])

    def values(self) -> dict[SlotKey, Column | int]:
        """The values that the start has changed, by slot."""
        return {
            key: int(new.data) if new.op == "const" else self.chosen.of(new)[self.which]
            for key, new in self.start.updates.items()
        }

    def rows(self, packing: Packing) -> Words:
        """These states, packed and canonical."""
        declared = packing.pack([slot.initial for slot in packing.ground.slots.values()])
        found = np.repeat(declared, len(self), axis=0)
        for key, value in self.values().items():
            packing.write(found, key, value)
        return packing.canonical(found)

    def numbers(self, ground: Ground) -> NDArray[np.int64]:
        """These states as the numbers of their slots, a row each."""
        declared = [slot.initial for slot in ground.slots.values()]
        found = np.repeat(np.array([declared], np.int64), len(self), axis=0)
        places = {key: k for k, key in enumerate(ground.slots)}
        for key, value in self.values().items():
            found[:, places[key]] = value
        return found


class Initial:
    """A machine's initial states; `dropped` counts what was beyond the bounds so far."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.dropped = 0

    @cached_property
    def starts(self) -> list[Start]:
        """Every way to begin."""
        return starts(self.machine.ground)

    def __iter__(self) -> Iterator[Begun]:
        """Every initial state, from the first on."""
        self.dropped = 0
        for start in self.starts:
            number = start.choices.number if start.possible is not g.FALSE else 0
            for low in range(0, number, AT_ONCE):
                begun = self._begun(start, low, min(low + AT_ONCE, number))
                if len(begun):
                    yield begun

    def _begun(self, start: Start, low: int, high: int) -> Begun:
        chosen = Chosen(start.choices, low, high)
        possible = truths(chosen, start.possible)
        if possible.any():
            undefined = possible & ~truths(chosen, start.defined)
            if undefined.any():
                self._undefined(start, low + int(np.argmax(undefined)))
            possible = possible & truths(chosen, start.kept)
        within = possible & truths(chosen, start.within) if possible.any() else possible
        self.dropped += int(possible.sum() - within.sum())
        return Begun(start, chosen, np.flatnonzero(within))

    def _undefined(self, start: Start, choice: int) -> None:
        """The plain Python says what it is that has no meaning."""
        assert start.action is not None, "what is declared has a meaning"
        arguments = self.machine.arguments(start.action, start.choices.arguments(choice))
        raise undefined_start(self.machine, start.action, arguments)

    def state(self, start: Start, choice: int) -> Spec:
        """The state that a choice makes, in plain Python."""
        made: Spec | None = self.machine.initial()
        if start.action is not None:
            numbers = start.choices.arguments(choice)
            arguments = self.machine.arguments(start.action, numbers)
            made = self.machine.take(self.machine.initial(), start.action.name, arguments)
        assert made is not None, "run and explore disagree: nothing begins so in Python"
        return made

    def first(self, packing: Packing, row: tuple[int, ...]) -> Spec:
        """The first initial state with this representative."""
        wanted = np.array([row], np.uint64)
        for begun in self:
            same = (begun.rows(packing) == wanted).all(axis=1)
            if same.any():
                return self.state(begun.start, begun.choice(int(np.argmax(same))))
        raise AssertionError("run and explore disagree: no initial state is this one")
