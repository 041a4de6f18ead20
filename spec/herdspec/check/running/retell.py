"""
Stories: a chain of packed states, taken again step by step in the plain Python.

A search keeps representatives; each step that is told is one whose canonical form is the next of
them, so that the labels are those of one consistent run. Of several such steps it is the first in
the spec's order, in every engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.initial import Initial
from herdspec.check.exploration.numpy_engine import step, truths
from herdspec.check.running.run import Machine, Step
from herdspec.check.running.starts import initially
from herdspec.check.running.undefined import undefined_step
from herdspec.engine.columns import BitField, Columns, Key, Packing, Words
from herdspec.engine.ground import GroundAction
from herdspec.language import graph as g
from herdspec.language.surface import Spec, Undefined

Row = NDArray[np.uint64]
Numbers = tuple[int, ...]
"""The words of a row, as plain numbers."""


class PathLink(NamedTuple):
    """A state of a path, and the number of the instance that it was found by."""

    row: Numbers
    by: int


Chain = Sequence[PathLink]


class StoryRenderer:
    """Tells paths through packed states as paths of the plain Python."""

    def __init__(self, machine: Machine, packing: Packing) -> None:
        self.machine = machine
        self.packing = packing
        self.ground = packing.ground
        self._tops = [slot.values for slot in self.ground.slots.values()]
        self._places = [self._places_of(key) for key in self.ground.slots]
        self.initial = Initial(machine)
        self._starts: dict[Numbers, Spec] = {}
        self._known: dict[tuple[Any, ...], tuple[Step, int]] = {}

    def _places_of(self, key: Key) -> tuple[BitField, ...] | BitField:
        one_hot = self.packing.one_hot.get(key)
        return self.packing.places[key] if one_hot is None else tuple(one_hot)

    def story(self, chain: Chain, last: int | None = None) -> Story:
        """The story of these states, the first of them initial; `last` is a further instance."""
        first, *others = chain
        initial = self.start(first.row)
        present, taken = initial, 0
        steps: list[Step] = []
        for link in others:
            made, taken = self._step_to(present, taken, link)
            steps.append(made)
            present = made.state
        if last is not None:
            row, instance = chain[-1].row, self.ground.instances[last]
            steps.append(self._step_by(present, taken, row, instance))
        return Story(initial, steps, initially=initially(self.machine, initial))

    def story_of_undefined(self, chain: Chain, instance: GroundAction) -> Story:
        """The story of a step that has no meaning: it is named last, and changes nothing."""
        story = self.story(chain)
        present = story.steps[-1].state if story.steps else story.initial
        for action, arguments in self.machine.choices:
            if action.name == instance.action.name and self._is_undefined(
                present, action.name, arguments
            ):
                last = undefined_step(self.machine, present, action, arguments)
                return replace(story, steps=[*story.steps, last])
        raise AssertionError("run and explore disagree: every step here has a meaning in Python")

    def _is_undefined(self, present: Spec, name: str, arguments: tuple[Any, ...]) -> bool:
        try:
            self.machine.at_every_turn().take(present, name, arguments)
        except Undefined:
            return True
        return False

    def start(self, row: Numbers) -> Spec:
        """The first initial state with this representative."""
        if row not in self._starts:
            found = self._starts[row] = self.initial.first(self.packing, row)
            same = self._packed(found, 0) == row
            assert same, "run and explore disagree: the Python begins in another state"
        return self._starts[row]

    def _step_to(self, present: Spec, taken: int, link: PathLink) -> tuple[Step, int]:
        """The first step that leads to a state; what one story has found, others need not."""
        key = (self.machine.numbers(present, taken), link.row)
        if key not in self._known:
            self._known[key] = self._found(present, taken, link)
        return self._known[key]

    def _found(self, present: Spec, taken: int, link: PathLink) -> tuple[Step, int]:
        for made in self._candidates(present, link):
            faults = taken + made.action.disturbs
            if self._packed(made.state, faults) == link.row:
                return made, faults
        raise AssertionError("run and explore disagree: no step of the Python leads to this state")

    def _candidates(self, present: Spec, link: PathLink) -> Iterator[Step]:
        """
        The steps that may lead to a state: each by itself is led to as the search said.

        Up to renaming it is another step by the same action, since what has a name has no order.
        """
        instance = self.ground.instances[link.by]
        if self.packing.blocks > 1:
            yield from self.machine.steps(present, instance.action.name)
            return
        arguments = self.machine.arguments(instance.action, instance.arguments)
        after = self.machine.take(present, instance.action.name, arguments)
        if after is not None:
            yield Step(instance.action, arguments, after)

    def _step_by(self, present: Spec, taken: int, state: Numbers, instance: GroundAction) -> Step:
        """The step of the plain Python that is, up to renaming, this instance from this state."""
        columns = Columns(self.packing, np.array([state], np.uint64))
        _, made = step(columns, instance, np.array([0]))
        wanted = tuple(self.packing.canonical(made)[0].tolist())
        for found in self.machine.steps(present, instance.action.name):
            if self._packed(found.state, taken + found.action.disturbs) == wanted:
                return found
        raise AssertionError("run and explore disagree: the last step is not possible in Python")

    def within(self, state: Spec, faults: int) -> bool:
        """Tells whether a state of the plain Python is within the bounds of this search."""
        numbers = self.machine.numbers(state, faults)
        return all(n < top for n, top in zip(numbers, self._tops, strict=True))

    def row(self, state: Spec, faults: int) -> Words:
        """A state of the plain Python, packed and canonical."""
        return self.packing.canonical(self.packing.pack(self.machine.numbers(state, faults)))

    def _packed(self, state: Spec, faults: int) -> Numbers | None:
        """The words of that row; None for a state beyond the bounds."""
        numbers = self.machine.numbers(state, faults)
        words = [0] * self.packing.words
        for key, number, top, at in zip(
            self.ground.slots, numbers, self._tops, self._places, strict=True
        ):
            if number >= top:
                return None
            if isinstance(at, BitField):
                words[at.word] |= number << at.shift
            elif number >= self.packing.first[key]:
                place = at[number - self.packing.first[key]]
                words[place.word] |= 1 << place.shift
        blocks = self.packing.blocks
        return (*sorted(words[:blocks]), *words[blocks:])


def first_instance(
    packing: Packing, row: Row, formulas: Mapping[int, g.Expr], within: bool = True
) -> int:
    """
    The first instance, of those with a formula, whose step from this state has it.

    Steps count that have a meaning and stay `within` the bounds, unless that is not asked.
    """
    columns = Columns(packing, row.reshape(1, -1))
    for number, formula in formulas.items():
        instance = packing.ground.instances[number]
        meant = instance.defined if within else g.TRUE
        if all(truths(columns, e)[0] for e in (instance.guard, meant, formula)):
            kept, _ = step(columns, instance, np.array([0]))
            if len(kept) or not within:
                return number
    raise AssertionError("no step from this state is what was looked for")
