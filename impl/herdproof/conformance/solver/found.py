"""Verdicts on code that was taken into states from the solver: by case, by question, and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from herdproof.conformance.adapter import Adapter
from herdproof.conformance.holding.seen import saw_nothing
from herdproof.conformance.solver.cases import GuardCase
from herdproof.conformance.solver.hypotheses import Hypotheses
from herdproof.conformance.solver.questions import Question
from herdspec.check.running.run import Step
from herdspec.language.specification import Specification
from herdspec.language.surface import Property

IMPOSSIBLE = "no state allows it"
NOT_LOADABLE = "no state that can be loaded allows it"


WIDEST = 72
"""Cases are told in so many letters."""


@dataclass
class Tally:
    """The tally of one case of an action."""

    case: GuardCase
    picked: int = 0
    """Distinct states (with their arguments), up to the names of elements."""
    agreed: int = 0
    """In so many the code did as the spec does."""
    declined: Counter[str] = field(default_factory=Counter)
    """By reason, in how many the code could not be put."""
    otherwise: Counter[str] = field(default_factory=Counter)
    """By fields that are not what was to be loaded, in how many."""
    differed: int = 0
    led: int = 0
    """Distinct states of it to which the code was led by steps, from a picked one."""
    ended: str = ""
    """Why no more were picked before the time was over, if so."""
    again: int = 0

    @property
    def loaded(self) -> int:
        """Into how many states the code was put by `load`."""
        return self.agreed + self.differed - self.led

    @property
    def is_impossible(self) -> bool:
        """Tells whether no state that satisfies what was proved allows it, at this size."""
        return self.ended == IMPOSSIBLE

    @property
    def is_not_loadable(self) -> bool:
        """Tells whether the code cannot be put into any of its states, and was led to none."""
        return self.ended == NOT_LOADABLE and not self.led

    @property
    def is_unknown(self) -> bool:
        """Tells whether the code was in no state of it, though there may be some."""
        return not (self.loaded or self.led or self.is_impossible)


@dataclass
class Reachable:
    """Which of the states are known to be reachable."""

    known: int = 0
    of: int = 0
    how: str = "not looked"

    def __str__(self) -> str:
        return f"{self.known:,} of {self.of:,} ({self.how})" if self.of else self.how


@dataclass
class Solved:
    """The result of taking code into states from the solver: what it showed, and what not."""

    spec: Specification
    adapter: type[Adapter]
    sizes: dict[str, int]
    seed: int
    known: Hypotheses
    within: Property | None
    tallies: list[Tally] = field(default_factory=list)
    differences: list[Question] = field(default_factory=list)
    """The differences to which a story comes."""
    questions: list[Question] = field(default_factory=list)
    """The questions to which no story was found: a lemma is missing, or the code is wrong."""
    states: int = 0
    """Distinct states, up to the names of elements, whatever was asked in them."""
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of processor time that picking, loading and stepping took."""
    reachable: Reachable = field(default_factory=Reachable)
    unseen: tuple[str, ...] = ()
    initially: str = ""
    """The difference of the code in its initial state: then nothing else was asked."""

    @property
    def standing(self) -> str:
        """
        `differs`, `unknown` or `agrees`.

        Unknown: a question is open, or of some case nothing was seen, though the adapter does not
        say (by `loadable`) that it cannot be; or nothing was seen of the code at all.
        """
        if self.differences or self.initially:
            return "differs"
        missed = any(t.is_unknown and not t.is_not_loadable for t in self.tallies)
        seen = any(t.agreed for t in self.tallies) and not self.saw_nothing
        return "unknown" if self.questions or missed or not seen else "agrees"

    @property
    def saw_nothing(self) -> bool:
        """Tells whether nothing at all was seen of the code: then nothing was compared."""
        return saw_nothing(self.spec.rich, self.unseen)

    @property
    def measured(self) -> str:
        """One line of what was looked at."""
        sizes = ", ".join(f"{n} × {sort}" for sort, n in self.sizes.items())
        seen = sum(1 for t in self.tallies if t.loaded or t.led)
        possible = sum(1 for t in self.tallies if not t.is_impossible)
        return (
            f"{self.states:,} distinct states from the solver ({sizes}), {seen} of {possible} cases"
        )

    @property
    def a_minute(self) -> float:
        """Distinct states a minute."""
        return 60 * self.states / self.seconds if self.seconds else 0.0

    @property
    def lines(self) -> list[str]:
        """The report."""
        return _lines(self)


def _lines(found: Solved) -> list[str]:
    """The report."""
    sizes = ", ".join(f"{n} × {sort}" for sort, n in found.sizes.items())
    if found.initially:
        return [f"{found.adapter.__name__} differs initially", *found.initially.splitlines()]
    told = [
        f"{found.spec.name}, states from the solver on {found.adapter.__name__}: {found.standing}",
        f"  {found.states:,} distinct states ({sizes}) in {found.seconds:.1f} s,"
        f" {found.a_minute:,.0f} a minute; {found.cpu:.1f} s of processor time; seed {found.seed}",
        f"  hypotheses, all proved: {_names(p.name for p in found.known.used)}",
    ]
    told += [f"  not used: {name}: {why}" for name, why in found.known.left_out.items()]
    if found.within is not None:
        told.append(f"  only states are picked of which load is written: {found.within.sentence}")
        led = sum(t.led for t in found.tallies)
        told.append(f"  led on from there by steps, each compared: {led:,} more states of a case")
    told += [f"  known to be reachable: {found.reachable}"]
    told += [f"  never seen, so not compared: {_names(found.unseen)}"] if found.unseen else []
    told += ["", *_table(found.tallies)]
    told += _unknown(found.tallies)
    for question in found.differences:
        told += ["", *_difference(found, question)]
    for question in found.questions:
        told += ["", *_open_question(found, question)]
    return told


def _names(names: Any) -> str:
    return ", ".join(names) or "none"


def _table(tallies: list[Tally]) -> Iterator[str]:
    """A line for each case: distinct states, into how many the code was put, how many differ."""
    yield f"  {'states':>7} {'loaded':>7} {'led to':>7} {'differ':>7}  action and case"
    for tally in tallies:
        case = tally.case
        text = case.text if len(case.text) <= WIDEST else f"{case.text[:WIDEST]}…"
        refused = "" if case.allowed else "must be refused, "
        ended = f" ({tally.ended})" if tally.ended else ""
        yield (
            f"  {tally.picked:7,} {tally.loaded:7,} {tally.led:7,} {tally.differed:7,}"
            f"  {case.action.name}: {refused}{text}{ended}"
        )


def _unknown(tallies: list[Tally]) -> Iterator[str]:
    """Where nothing can be said: what could not be loaded, why, and how often."""
    declined, otherwise = Counter[str](), Counter[str]()
    for tally in tallies:
        declined.update(tally.declined)
        otherwise.update(tally.otherwise)
    for reason, count in declined.most_common():
        yield f"  unknown: {count:,} states that load declines: {reason}"
    for fields, count in otherwise.most_common():
        yield f"  unknown: {count:,} states that were loaded otherwise, in: {fields}"


def _difference(found: Solved, question: Question) -> list[str]:
    """A difference with its story."""
    assert question.story is not None, "a difference has a story"
    told = [f"✗ {_asked(question)} (in {question.count:,} states); a story comes to such a state"]
    if question.walked:
        told += ["  Code that is taken along it, step by step, differs, too:"]
        return [*told, *(f"  {line}" for line in question.walked.splitlines())]
    told += [f"  {line}" for line in question.story.lines]
    told += [f"  {line}" for line in question.lines]
    told += ["  (The code was loaded there: by itself it does not follow this story.)"]
    return [*told, *(f"  {line}" for line in question.program(found.spec, found.adapter))]


def _open_question(found: Solved, question: Question) -> list[str]:
    """A question: the state, the step, what differs, and how to settle it."""
    told = [f"? {_asked(question)} (in {question.count:,} states): a missing lemma, or a mistake"]
    told += [f"  {line}" for line in question.lines]
    told += [f"  {question.looked}."]
    told += [
        "  To settle it: if no run comes to such a state, write a lemma that excludes it, and prove"
        f" it; if one does, {found.adapter.__name__}'s code is wrong there."
    ]
    told += [f"  {line}" for line in question.program(found.spec, found.adapter)]
    return told


def _asked(question: Question) -> str:
    label = Step(question.case.action, question.arguments, question.state).label
    return label if question.case.allowed else f"{label}, which must be refused"
