"""
States from the solver: the induction step, asked of the code itself.

z3 picks states that satisfy what was proved and a case of an action's guard, at sizes that no
exploration reaches. The code is put there by the adapter's `load`, what was loaded is compared
first, it takes the step, and must arrive where the spec does. What it must refuse is offered, too.

Whether such a state can be reached nobody knows. So a difference is a *question* until a story
comes to it: then it is a mistake of the code. If none does, a lemma is missing, or it is one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

from herdproof.conformance.adapter import Adapter, CannotLoad, check_load
from herdproof.conformance.holding.held import Differs, Held, LoadedOtherwise
from herdproof.conformance.holding.seen import unlike_initially
from herdproof.conformance.solver.asking import Asker, ReportedDifference
from herdproof.conformance.solver.cases import GuardCase, cases_of
from herdproof.conformance.solver.found import (
    IMPOSSIBLE,
    NOT_LOADABLE,
    Reachable,
    Solved,
    Tally,
)  # fmt: skip
from herdproof.conformance.solver.hypotheses import Hypotheses, hypotheses
from herdproof.conformance.solver.onward import Onward
from herdproof.conformance.solver.picks import NoAnswer, Picked, Picker
from herdproof.conformance.solver.questions import Question, Settler
from herdproof.conformance.solver.reached import Reached, number_of, said
from herdspec.check.cache import Memory
from herdspec.check.proof.prove import Proof
from herdspec.check.running.run import Step
from herdspec.language import graph as g
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Spec

SECONDS = 60.0
"""The seconds for which states are picked, by default."""
SETTLING = 20.0
"""The seconds for which stories are looked for, by default."""
LOOKING = 5.0
"""The seconds for exploring which of the states can be reached, by default."""
LEADING = 20
"""From so many states at most the code is led on, by default, where so many states are wanted."""
AGAIN = 30
"""After so many states in a row that were had before a case is taken to have no others."""
MOST_QUESTIONS = 8
"""Of so many kinds of questions each is told; others are counted."""


def solved(
    spec: type[Spec] | Specification, adapter: type[Adapter], *, seconds: float = SECONDS,
    most: int | None = None, seed: int = 0, faults: int = 2, settling: float = SETTLING,
    looking: float = LOOKING, leading: int = LEADING, proof: Proof | None = None,
    memory: Memory | None = None, **sizes: int,
) -> Solved:  # fmt: skip
    """
    Put code into states that z3 picks, and hold each of its steps to the spec.

    It goes on for so many `seconds`, or until each case of each action has `most` distinct states:
    those of which no state can be loaded, too, as far as it is led there from `leading` others.
    `proof` is one of this very specification; without one it is proved now, but for what the
    `memory` knows. Stories are looked for with so many `faults`, for `settling` seconds in all;
    which states can be reached is explored for `looking` seconds. Raises `AdapterError`.
    """
    run = SolverRun(Held(spec, adapter, **sizes), seed, looking)
    check_load(adapter)
    known = hypotheses(run.held.spec, proof, memory)
    run.begin(known)
    if not run.found.initially:
        run.pick(seconds, most, leading)
        run.settle(faults, settling)
        run.look(faults)
    return run.found


class SolverRun:
    """One run of `solved`."""

    def __init__(self, held: Held, seed: int, looking: float) -> None:
        self.held = held
        self.reached = Reached(held.spec, held.machine.sizes, looking)
        self.chance = Random(seed)
        self.adapter = held.adapter
        self.seed = seed
        self.found: Solved
        self.kinds: dict[tuple[Any, ...], Question] = {}
        self.seen: set[tuple[Any, ...]] = set()
        self.alone: dict[tuple[Any, ...], Spec] = {}
        self.put: list[Picked] = []
        self.onward: Onward | None = None

    def begin(self, known: Hypotheses) -> None:
        """Begin the code once, as the spec begins; make the solver."""
        within = self.adapter.loadable
        self.found = Solved(
            self.held.spec, self.adapter, dict(self.held.machine.sizes), self.seed, known, within
        )
        try:
            with self.held:
                pass
        except Differs as error:
            self.found.initially = str(error)
            return
        spec = self.held.spec
        axioms = [p for p in spec.properties if p.expectation is Expectation.AXIOM]
        promises: list[DeclaredProperty] = [*axioms, *known.used]
        formulas = [p.formula for p in promises]
        loadable = spec.with_properties(within).properties[-1:] if within is not None else ()
        self.asker = Asker(self.held, [*promises, *loadable])
        bound = loadable[0].formula if loadable else g.TRUE
        self.picker = Picker(self.held.machine, formulas, self.chance, bound)
        self.found.tallies = [Tally(case) for case in self._cases()]
        if within is not None:
            self.onward = Onward(self.held, self.picker, self.found.tallies, self.chance)

    def _cases(self) -> Iterator[GuardCase]:
        """The questions to the code: each case of its actions, and what it must refuse."""
        adapter = self.adapter
        for action in self.held.spec.actions:
            if action.name not in adapter.absent:
                yield from cases_of(action, allowed=True)
            if action.name in adapter.offered and action.name not in adapter.chosen:
                yield from cases_of(action, allowed=False)

    # ── Picking ─────────────────────────────────────────────────────────────────────────────

    def pick(self, seconds: float, most: int | None, leading: int) -> None:
        """Pick states, one for each case in turn, until the time is over; lead the code on."""
        begun, cpu = time.monotonic(), time.process_time()
        ends = begun + seconds
        left = deque(self.found.tallies)
        while left and time.monotonic() < ends:
            tally = left.popleft()
            put = self._one(tally)
            if put is not None and most is None:
                self._lead(put)
            if not tally.ended and (most is None or tally.picked < most):
                left.append(tally)
        if most is not None:
            self._lead_on(most, ends, leading)
        self.found.seconds = time.monotonic() - begun
        self.found.cpu = time.process_time() - cpu
        self.found.states = len(self.alone)
        self.found.unseen = self.held.report.unseen

    def _lead_on(self, most: int, ends: float, leading: int) -> None:
        """Lead the code on until the cases that cannot be loaded have so many states, too."""
        cases = [t for t in self.found.tallies if t.ended == NOT_LOADABLE]
        for put in self.chance.sample(self.put, min(leading, len(self.put))):
            if time.monotonic() >= ends or all(t.led >= most for t in cases):
                return
            self._lead(put)

    def _one(self, tally: Tally) -> Picked | None:
        """One further state of a case; returned if the code was put there, and did as it must."""
        try:
            picked = self.picker.pick(tally.case)
        except NoAnswer:
            tally.ended = "z3 gave up"
            return None
        if picked is None:
            is_possible = self.found.within is not None and self.picker.is_possible(tally.case)
            tally.ended = NOT_LOADABLE if is_possible else IMPOSSIBLE
            return None
        key = (tally.case, picked.key)
        if key in self.seen or not self.asker.stands(picked.state, picked.case, picked.arguments):
            tally.again += 1
            tally.ended = "no others" if tally.again >= AGAIN else ""
            return None
        tally.again = 0
        tally.picked += 1
        self.seen.add(key)
        self.alone.setdefault(picked.alone, picked.state)
        return self.judge(picked, tally)

    def judge(self, picked: Picked, tally: Tally) -> Picked | None:
        """Put the code into a state, and have it take (or refuse) the step."""
        look = unlike_initially(picked.state, self.asker.initial)
        try:
            told = self.asker.ask(look, picked.case.action, picked.arguments)
        except CannotLoad as error:
            tally.declined[str(error) or "no reason given"] += 1
        except LoadedOtherwise as error:
            tally.otherwise[", ".join(error.fields)] += 1
        else:
            if told is None:
                tally.agreed += 1
                self.put += [picked] if self.onward else []
                return picked
            self._differs(picked, tally, told)
        return None

    def _differs(
        self, picked: Picked, tally: Tally, told: ReportedDifference, led: Differs | None = None
    ) -> None:
        tally.differed += 1
        if told.hangs:
            tally.ended = "it hangs"
        self._note(picked, told, led)

    def _lead(self, put: Picked) -> None:
        """Lead the code on from a state into which it can be put; hold each step to the spec."""
        if self.onward is None:
            return
        try:
            self.held.begin()
            self.held.put(unlike_initially(put.state, self.asker.initial))
            for tally, at in self.onward.next():
                self._led(tally, at, self.onward)
        except Differs:
            return  # it is noted; code that does not begin as before is asked nothing here
        finally:
            self.held.end()

    def _led(self, tally: Tally, at: Picked, onward: Onward) -> None:
        """Ask a question in a state to which the code was led; raises `Differs`."""
        key = (tally.case, at.key)
        is_new = key not in self.seen
        self.seen.add(key)
        try:
            answered = self.asker.step(self.held, at.case.action, at.arguments)
            onward.rest()
        except Differs as error:
            tally.led += 1
            self._differs(at, tally, ReportedDifference(error), error)
            raise
        if is_new and answered is at.case.allowed:
            tally.led += 1
            tally.agreed += 1
            self.alone.setdefault(at.alone, at.state)

    def _note(self, picked: Picked, told: ReportedDifference, led: Differs | None) -> None:
        """A question; of its kind the first is kept, and how many there were."""
        action = picked.case.action
        kind = (action.name, picked.case.allowed, *told.kind)
        known = self.kinds.get(kind)
        if known is None:
            sentence = Step(action, picked.arguments, picked.state).sentence
            known = self.kinds[kind] = Question(
                picked.case, picked.state, picked.arguments, sentence, told.lines, told.deeds,
                dict(self.held.machine.sizes), kind, led=led,
            )  # fmt: skip
        known.count += 1

    # ── Questions ───────────────────────────────────────────────────────────────────────────

    def settle(self, faults: int, seconds: float) -> None:
        """Look for a story to each kind of question."""
        ends = time.monotonic() + seconds
        for question in self.kinds.values():
            settler = Settler(self.asker, self.reached, question, faults, ends)
            settler.shrink()
            told = [*self.found.differences, *self.found.questions]
            like = next((q for q in told if q.kind == question.kind), None)
            if like is not None:
                like.count += question.count
                continue
            if time.monotonic() > ends or len(told) >= MOST_QUESTIONS:
                question.looked = "no story was looked for: the time was over"
            else:
                settler.settle()
            of = self.found.questions if question.story is None else self.found.differences
            of.append(question)

    # ── What can be reached ─────────────────────────────────────────────────────────────────

    def look(self, faults: int) -> None:
        """See which of the states an exploration of the same size comes to."""
        if self.reached.seconds <= 0 or not self.alone:
            return
        states = [*self.alone.values()]
        explorer = self.reached.explored(self.held.machine.sizes, faults, self.reached.seconds)
        if explorer is None:
            self.found.reachable = Reachable(how=self.reached.unexplored)
            return
        known = sum(number_of(explorer, state) is not None for state in states)
        self.found.reachable = Reachable(known, len(states), said(explorer.result))
