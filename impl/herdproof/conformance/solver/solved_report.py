"""Reports what states from the solver showed of code; and makes the test that pytest collects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import TestCase

from herdproof.conformance.adapter import Adapter, check_adapter, check_load
from herdproof.conformance.solver.questions import Question
from herdspec.check.running.run import Step
from herdspec.language.specification import Specification, specification
from herdspec.language.surface import Spec

if TYPE_CHECKING:
    from herdproof.conformance.solver.solved import Solved, Tally

WIDEST = 72
"""Cases are told in so many letters."""


def lines(found: Solved) -> list[str]:
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
        told += ["", *difference(found, question)]
    for question in found.questions:
        told += ["", *open_question(found, question)]
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


def difference(found: Solved, question: Question) -> list[str]:
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


def open_question(found: Solved, question: Question) -> list[str]:
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


def states(
    spec: type[Spec] | Specification, adapter: type[Adapter], **wishes: Any
) -> type[TestCase]:
    """
    A test for pytest or unittest: assign it to a name of a module.

    `wishes` are the arguments of `solved`: sizes, and others. The test fails for a difference, for
    an open question, and where nothing was seen of a case of which the adapter does not say (by
    `loadable`) that it cannot be loaded; the report is its message.
    """
    made = spec if isinstance(spec, Specification) else specification(spec)
    check_adapter(made, adapter)
    check_load(adapter)

    class StatesFromTheSolver(TestCase):
        def test_states_from_the_solver(self) -> None:
            """The code does as the spec does, in every state that was picked."""
            from herdproof.conformance.solver.solved import solved

            found = solved(made, adapter, **wishes)
            if found.standing != "agrees":
                self.fail("\n".join(found.lines))

    StatesFromTheSolver.__qualname__ = StatesFromTheSolver.__name__ = f"{adapter.__name__}States"
    return StatesFromTheSolver
