"""
Why a line of a trace is not explained: the nearest that the spec has, and what is missing for it.

Of all the states that were possible, the one that comes nearest is told: one in which the action
could be taken but ends elsewhere, else one in which it could be taken but something was seen
otherwise before it, else one in which the fewest conjuncts of its guard fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from herdspec.check.conformance.possible import CandidateState, Line, Possibilities, Possible
from herdspec.check.running.run import said
from herdspec.check.running.wording import conjuncts


@dataclass(frozen=True)
class Mismatch:
    """One line, the action that it names, and what the spec says instead, sentence by sentence."""

    where: str
    action: str
    """The nearest action, as a call."""
    kind: str
    """
    Where the spec and the line part: `after`, `before`, `answer` or `guard`; `promise` where the
    line is a step that breaks one; `nothing` where something else is wrong with it.
    """
    differences: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """The explanation, as lines of text."""
        heads = {
            "after": f"{self.action} was possible, but ends otherwise:",
            "before": f"{self.action} was possible, but not with what the line tells of before it:",
            "answer": f"{self.action} was possible, but not with this outcome:",
            "guard": f"{self.action} was not possible; of its guard this fails:",
            "nothing": f"{self.action}:",
            "promise": f"after {self.action}, what the spec promises is broken:",
        }
        return [f"{self.where}: {heads[self.kind]}", *(f"  {d}" for d in self.differences)]


@dataclass(frozen=True)
class Miss:
    """The part of a line that is missing in one state; the least is the nearest."""

    rank: int
    kind: str
    differences: tuple[str, ...]

    @property
    def distance(self) -> tuple[int, int]:
        """Which miss is nearer."""
        return self.rank, len(self.differences)


def nearest(possibilities: Possibilities, line: Line, sets: Iterable[Possible]) -> Mismatch:
    """The nearest miss; of equal ones, that in the first set, which supposes the least."""
    best = Miss(9, "nothing", ("no state was possible before this line",))
    for possible in sets:
        misses = [miss_of(possibilities, line, carried) for carried in possible.values()]
        if misses:
            best = min(best, *misses, key=lambda miss: miss.distance)
    node = possibilities.nodes[line.node]
    arguments = ", ".join(map(repr, line.arguments))
    action = f"{line.action}({arguments})" if line.action else f"a step of {node!r} without a name"
    return Mismatch(line.where, action, best.kind, best.differences)


def miss_of(possibilities: Possibilities, line: Line, carried: CandidateState) -> Miss:
    """The part of a line that is missing in one state."""
    state = carried.state
    before = _differences(possibilities, line, carried, line.before)
    if line.action is None:
        after = _differences(possibilities, line, carried, line.after)
        return Miss(0, "after", (*before, *after))
    action = possibilities.machine.spec.action(line.action)
    parts = conjuncts(action, possibilities.machine)
    names = [name for name, _ in action.parameters]
    given = ", ".join(f"{n} = {a!r}" for n, a in zip(names, line.arguments, strict=True))
    failed = [part for part in parts if not part.holds(state, *line.arguments)]
    if failed:
        told = (f"{p.text}  ({p.seen(state, line.arguments)}; {given})" for p in failed)
        return Miss(2 + len(before), "guard", (*told, *before))
    if before:
        return Miss(1, "before", before)
    answers = _answers(line, carried)
    if answers:
        return Miss(1, "answer", answers)
    made = possibilities.take(carried, line.action, line.arguments)
    became = {
        name: value
        for (name, value), (see, _) in zip(
            line.became.items(), possibilities.seen(line.became, line), strict=True
        )
        if see(made.state) != see(state)
    }
    return Miss(0, "after", _differences(possibilities, line, made, {**line.after, **became}))


def _differences(
    possibilities: Possibilities, line: Line, carried: CandidateState, values: Mapping[str, Any]
) -> tuple[str, ...]:
    node = possibilities.nodes[line.node]
    seen = possibilities.seen(values, line)
    return tuple(
        f"{name} of {node!r}: the spec has {said(see(carried.state))}, the trace {said(value)}"
        for (name, value), (see, _) in zip(values.items(), seen, strict=True)
        if see(carried.state) != value
    )


def _answers(line: Line, carried: CandidateState) -> tuple[str, ...]:
    found = []
    for helper, value in line.answers.items():
        wanted = getattr(carried.state, helper)(*line.arguments)
        if wanted != value:
            call = f"self.{helper}({', '.join(map(repr, line.arguments))})"
            found.append(f"{call}: the spec has {said(wanted)}, the trace {said(value)}")
    return tuple(found)
