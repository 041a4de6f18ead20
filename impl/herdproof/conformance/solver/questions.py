"""
Questions to code that differs from its spec in a state that may not be reachable, and stories.

Small sizes are explored; of the states that a run comes to, those in which the question's situation
is given (the same case of the guard, the same conditions of the step true and false) are tried on
the code. One that differs there, too, is a mistake, and the way to it is its story: code that is
taken along it step by step should differ as well. Where no size shows one, the question's own state
is looked for, by exploring and by short runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from herdproof.conformance.adapter import CannotLoad, method_of
from herdproof.conformance.holding.deeds import Deed
from herdproof.conformance.holding.held import Differs, Held, LoadedOtherwise
from herdproof.conformance.holding.seen import unlike_initially
from herdproof.conformance.holding.told import program
from herdproof.conformance.solver.asking import Asker, ReportedDifference
from herdproof.conformance.solver.cases import GuardCase, conditions
from herdproof.conformance.solver.reached import Reached, kept, said
from herdproof.conformance.walks.shorten import shortened
from herdspec.check.exploration.bounds import first_bound
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.explore import Explorer
from herdspec.check.exploration.numpy_engine import truths
from herdspec.check.proof.reachable import DEPTH, RESOURCES
from herdspec.check.running.run import Machine
from herdspec.check.simulation.search import search
from herdspec.engine.columns import Columns
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Spec, always
from herdspec.language.types import BOOL, MapOf, Option
from herdspec.language.values import encode

SMALL = (1, 2, 3)
"""At so many elements of each sort runs are looked for."""
EXPLORED_S = 5.0
"""The seconds for which one size is explored at most."""
TRIED = 400
"""In so many of the reached states in a question's situation the code is asked."""


@dataclass
class Question:
    """
    The code differs after (or at) a step from a state that satisfies all that was proved.

    `lines` say how; with a `story` the state at its end is reached.
    """

    case: GuardCase
    state: Spec
    arguments: tuple[Any, ...]
    sentence: str
    lines: tuple[str, ...]
    deeds: tuple[Deed, ...]
    sizes: dict[str, int]
    kind: tuple[Any, ...] = ()
    """The action, and what differs: of those alike one is told."""
    count: int = 0
    """In how many states the code differs like this."""
    story: Story | None = None
    walked: str = ""
    """The outcome of taking the code along the story, step by step."""
    looked: str = ""
    """The extent of the search for a story, if there is none."""
    led: Differs | None = None
    """The difference as it was found, if the code was led there by steps: no `load` can."""

    def program(self, spec: Specification, adapter: type[Any]) -> list[str]:
        """A program that puts the code there, and does the same again."""
        return program(spec, adapter, self.sizes, self.deeds)


class Settler:
    """Looks for a story to one question."""

    def __init__(
        self, asker: Asker, reached: Reached, question: Question, faults: int, ends: float
    ) -> None:
        self.asker = asker
        self.reached = reached
        self.question = question
        self.faults = faults
        self.ends = ends
        self.machine = asker.held.machine
        self.spec = asker.held.spec

    def settle(self) -> None:
        """Find a story, or note how far it was looked for."""
        looked = []
        situation = self._situation()
        for size in SMALL:
            sizes = {sort: min(size, n) for sort, n in self.machine.sizes.items()}
            if situation is None or size > max(sizes.values(), default=1):
                break
            left = self.ends - time.monotonic()
            if left <= 0:
                break
            explorer = self.reached.explored(sizes, self.faults, min(left, EXPLORED_S))
            if explorer is None:
                continue
            if self._by_situation(explorer, situation):
                return
            looked.append(said(explorer.result))
        self._of_itself(looked)

    # ── Smaller ─────────────────────────────────────────────────────────────────────────────

    def shrink(self) -> None:
        """Have the state differ from the initial one in as few entries as can be."""
        if self.question.led is not None:
            self._shorten(self.question.led)
            return
        initial = self.machine.initial()
        ends = min(self.ends, time.monotonic() + EXPLORED_S)
        smaller = True
        while smaller and time.monotonic() < ends:
            smaller = False
            for tried in self._smaller(initial):
                if time.monotonic() > ends:
                    break
                smaller = self._differs_in(tried) or smaller

    def _shorten(self, led: Differs) -> None:
        """Leave out what can be spared of the steps that lead there."""
        seconds = min(self.ends - time.monotonic(), EXPLORED_S)
        told = ReportedDifference(shortened(self.asker.held, led, seconds=seconds))
        self.question.lines, self.question.deeds = told.lines, told.deeds

    def _smaller(self, initial: Spec) -> Iterator[Spec]:
        """The question's state with one of its numbers as initially, or less."""
        first = self.machine.numbers(initial)
        at = 0
        while at < len(first) - 1:
            now = self.machine.numbers(self.question.state)
            kind = [*self.machine.ground.slots.values()][at]
            wanted = [first[at]]
            if kind.is_bounded and now[at] > first[at]:
                wanted += [first[at] + 1, (first[at] + now[at]) // 2]
            for number in dict.fromkeys(wanted):
                if number != now[at]:
                    yield self.machine.state((*now[:at], number, *now[at + 1 :]))
            at += 1

    def _differs_in(self, state: Spec) -> bool:
        """Take this state if the same question can be asked in it."""
        question, case = self.question, self.question.case
        if not self.asker.stands(state, case, question.arguments):
            return False
        if self._situation_of(state) is not self._situation_of(question.state):
            return False
        try:
            look = unlike_initially(state, self.asker.initial)
            told = self.asker.ask(look, case.action, question.arguments)
        except (CannotLoad, LoadedOtherwise):
            return False
        if told is None:
            return False
        question.state, question.lines, question.deeds = state, told.lines, told.deeds
        question.kind = (*question.kind[:2], *told.kind)
        return True

    # ── Situations ──────────────────────────────────────────────────────────────────────────

    def _situation(self) -> Expr | None:
        """The condition that an action's parameters can be chosen as in the question."""
        maps = (isinstance(p.kind, MapOf) for _, p in self.question.case.action.parameters)
        return None if any(maps) else self._situation_of(self.question.state)

    def _situation_of(self, state: Spec) -> Expr:
        """The case, and the sign of each condition on the parameters alone."""
        action, ground = self.question.case.action, self.machine.ground
        numbers = []
        for (_, parameter), value in zip(action.parameters, self.question.arguments, strict=True):
            if isinstance(parameter.kind, MapOf):
                return self.question.case.way
            numbers.append(encode(parameter.kind, value))
        env = ground.environment(action.parameters, tuple(numbers))
        slots = zip(ground.slots.values(), self.machine.numbers(state), strict=True)
        by = {s.expr: g.const(s.expr.kind, bool(n) if s.expr.kind == BOOL else n) for s, n in slots}
        signed = []
        for condition in self._conditions():
            truth = g.substitute(ground.lower(condition, env), by)
            if truth is g.TRUE or truth is g.FALSE:
                signed.append(condition if truth is g.TRUE else g.negate(condition))
        return g.conj(self.question.case.way, *signed)

    def _conditions(self) -> list[Expr]:
        """The conditions of guard and updates on the parameters and what is kept for them."""
        action = self.question.case.action
        given = {p for _, p in action.parameters}
        parts = [action.guard, *action.updates.values()]
        return [e for e in conditions(parts) if g.leaves(e, "var") <= given]

    def _by_situation(self, explorer: Explorer, situation: Expr) -> bool:
        """Tells whether the code differs in a reached state, in the question's situation."""
        case, held = self.question.case, self._held(explorer.ground.sizes)
        machine, action = held.machine, case.action
        rows = explorer.rows
        columns = Columns(explorer.packing, rows)
        found: list[tuple[int, tuple[Any, ...]]] = []
        for numbers in explorer.ground.choices(action):
            env = explorer.ground.environment(action.parameters, numbers)
            formula = explorer.ground.lower(g.conj(situation, case.formula), env)
            arguments = machine.arguments(action, numbers)
            where = np.flatnonzero(truths(columns, formula))[:TRIED]
            found += [(int(k), arguments) for k in where]
        for number, arguments in sorted(found, key=lambda each: each[0])[:TRIED]:
            if time.monotonic() > self.ends:
                return False
            state = machine.state(explorer.packing.unpack(rows[number]))
            if self.question.led is not None:
                if self._found_along(held, explorer.story(number), arguments):
                    return True
            elif self._differs_at(held, state, arguments):
                story = explorer.story(number)
                self._found(held, story, arguments)
                return self.question.story is not None
        return False

    def _differs_at(self, held: Held, state: Spec, arguments: tuple[Any, ...]) -> bool:
        look = unlike_initially(state, held.machine.initial())
        try:
            return self.asker.ask(look, self.question.case.action, arguments, held) is not None
        except (CannotLoad, LoadedOtherwise):
            return False

    # ── The state itself ────────────────────────────────────────────────────────────────────

    def _of_itself(self, looked: list[str]) -> None:
        """Look for a run to the very state of the question, if not all states are known."""
        if self.question.led is not None:
            self.question.looked = f"no story comes to such a state ({'; '.join(looked)})"
            return
        state = self.question.state
        explorer, number = self.reached.number(state, self.faults)
        if explorer is not None and number is not None:
            held, story = self._held(self.machine.sizes), explorer.story(number)
            self._found(held, story, self.question.arguments)
            return
        if explorer is not None:
            looked.append(said(explorer.result))
        whole = explorer is not None and explorer.result.complete
        if not whole and time.monotonic() < self.ends:
            target = self._never(self.question.state)
            bare = replace(self.spec, properties=(*kept(self.spec), target))
            largest = max(self.machine.numbers(self.question.state), default=0)
            try:
                found = search(
                    bare, self.machine.sizes, faults=self.faults, depth=DEPTH,
                    bound=max(first_bound(self.spec, self.faults), largest + 1),
                    only=frozenset({target.name}), resources=RESOURCES,
                )  # fmt: skip
            except UsageError as error:
                looked.append(str(error))
            else:
                run = found.violations.get(target.name)
                if run is not None:
                    self._found(self._held(self.machine.sizes), run, self.question.arguments)
                    return
                looked.append(f"all runs of {found.depth} steps to this very state")
        far = "; ".join(dict.fromkeys(looked)) or "the time was over"
        self.question.looked = f"no story comes to it ({far})"

    def _never(self, state: Spec) -> DeclaredProperty:
        """The promise that the spec is never in this state."""
        parts = []
        numbers = self.machine.numbers(state)
        kinds = {f.name: f.kind for f in self.spec.fields}
        for (name, at), number in zip(self.machine.ground.slots, numbers, strict=True):
            if name in kinds:
                parts.append(_is(name, kinds[name], at, number))
        nowhere = always(_nowhere)
        return DeclaredProperty(
            nowhere.name, Expectation.ALWAYS, g.negate(g.conj(*parts)), nowhere.sentence,
            False, __file__, 0, nowhere,
        )  # fmt: skip

    # ── Stories ─────────────────────────────────────────────────────────────────────────────

    def _held(self, sizes: Mapping[str, int]) -> Held:
        if dict(sizes) == dict(self.machine.sizes):
            return self.asker.held
        return Held(self.spec, self.asker.held.adapter, **sizes)

    def _found_along(self, held: Held, story: Story, arguments: tuple[Any, ...]) -> bool:
        """Tells whether the code that is taken along a story differs at its end, and notes that."""
        walked = self._walked(held, story, arguments)
        if not walked:
            return False
        question = self.question
        question.story, question.walked, question.arguments = story, walked, arguments
        question.state = story.steps[-1].state if story.steps else story.initial
        question.sizes = dict(held.machine.sizes)
        return True

    def _found(self, held: Held, story: Story, arguments: tuple[Any, ...]) -> None:
        """A run comes to such a state: is the code otherwise that is taken along it, too?"""
        question = self.question
        state = story.steps[-1].state if story.steps else story.initial
        arguments = self._of(held.machine, state, arguments)
        look = unlike_initially(state, held.machine.initial())
        try:
            told = self.asker.ask(look, question.case.action, arguments, held)
        except (CannotLoad, LoadedOtherwise):
            told = None
        if told is None:
            return
        walked = self._walked(held, story, arguments)
        if walked is None:
            question.looked = (
                "a story comes to such a state, and code that was taken along it step by step does"
                " as the spec: `load` leaves something out, or puts in what is not"
            )
            return
        question.story = story
        question.walked, question.arguments, question.state = walked, arguments, state
        question.lines, question.deeds = told.lines, told.deeds
        question.sizes = dict(held.machine.sizes)

    def _of(self, machine: Machine, state: Spec, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with which the code differs at a story's end: states may be renamed."""
        held = self._held(machine.sizes)
        action = self.question.case.action
        for numbers in machine.ground.choices(action):
            tried = machine.arguments(action, numbers)
            if self.asker.stands(state, self.question.case, tried, machine) and self._differs_at(
                held, state, tried
            ):
                return tried
        return arguments

    def _walked(self, held: Held, story: Story, arguments: tuple[Any, ...]) -> str | None:
        """
        The difference of code that is taken along a story; None if there is none.

        Empty where it cannot be taken along: it does by itself what the story does otherwise.
        """
        action, adapter = self.question.case.action, self.asker.held.adapter
        steps = [*((s.action.name, s.arguments) for s in story.steps), (action.name, arguments)]
        try:
            with held:
                for number, (name, given) in enumerate(steps, start=1):
                    if not hasattr(adapter, method_of(name)):
                        held.wait()
                        continue
                    chosen = adapter.chosen.get(name, ())
                    names = [p for p, _ in held.possible.actions[name].parameters]
                    kept = [a for p, a in zip(names, given, strict=True) if p not in chosen]
                    if not held.offer(name, *kept) and number < len(steps):
                        return ""
        except Differs as error:
            return str(error)
        return None


def _nowhere(s: Any) -> bool:
    """The state of a question is never reached."""
    raise AssertionError(f"it is no function of the plain Python: {s}")


def _is(name: str, kind: Any, at: Sequence[int], number: int) -> Expr:
    """The condition that an entry has a value, given as slots hold it."""
    keys = kind.keys if isinstance(kind, MapOf) else ()
    value = kind.value if isinstance(kind, MapOf) else kind
    indices = [g.const(k, bool(n) if k == BOOL else n) for k, n in zip(keys, at, strict=True)]
    return g.eq(g.select(g.field(name, kind), *indices), _constant(value, number))


def _constant(kind: Any, number: int) -> Expr:
    if isinstance(kind, Option):
        return g.some(_constant(kind.of, number - 1)) if number else g.none(kind)
    return g.const(kind, bool(number) if kind == BOOL else number)
