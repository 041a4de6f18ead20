"""
Checks of `verify` that hold code to its spec: a row of the table for each way.

For each the adapter has to be able: what it cannot be asked is not asked, and not said.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from herdproof.conformance.adapter import Adapter, AdapterError
from herdproof.conformance.findings import conforms, differs, implementation, unknown
from herdproof.conformance.holding.seen import NOTHING_SEEN
from herdspec.check.cache import Result
from herdspec.check.verdict import Finding, counted
from herdspec.check.verify import Check, Tell
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.conformance.graphs.edges import Coverage
    from herdproof.conformance.holding.held import Held
    from herdproof.conformance.solver.found import Solved
    from herdproof.conformance.walks.walk import Walked
    from herdspec.check.plans import CheckConfig

RUNS, TURNS = 50, 40
"""The number of walks that are taken, and of the turns of each."""
SECONDS = 20.0
"""After how many seconds no further walk is begun."""


Row = tuple[str, str]
"""The name of a row of the table, and its sentence."""
World = Callable[[], "AbstractContextManager[type[Adapter]]"]
"""Makes a world that stands for as long as something is done in it."""


@dataclass(frozen=True)
class Code:
    """An adapter; `digest` is that of all that was imported with it."""

    adapter: type[Adapter]
    digest: str


def checks_of(looked: CheckConfig, code: Code) -> list[Check]:
    """All ways in which this code can be held to this spec."""
    ways = [walks(looked, code), edges(looked, code), stories(looked, code)]
    if hasattr(code.adapter, "load"):
        ways.append(states(looked, code))
    return ways


def rests_on(looked: CheckConfig, code: Code, *options: Any) -> tuple[Any, ...]:
    """All that a verdict about code depends on, as far as is known here."""
    return looked.subject, looked.spec, looked.sizes, code.digest, implementation(), *options


ON_WALKS = (
    "the code takes random walks as specified",
    "On random walks the code goes where the spec says, and refuses what it forbids.",
)


def walks(
    looked: CheckConfig, code: Code, runs: int = RUNS, turns: int = TURNS, row: Row = ON_WALKS,
    first: Callable[[Held], None] | None = None,
) -> Check:  # fmt: skip
    """
    Random walks: the code takes what the spec allows, and refuses what it does not.

    Each begins with what `first` does, if that is given.
    """

    def run(tell: Tell) -> Result:
        from herdproof.conformance.walks.walk import walk

        tell(f"{runs} walks of {turns} turns", None)
        walked = walk(
            looked.spec, code.adapter, looked.sizes, runs=runs, steps=turns, seconds=SECONDS,
            first=first,
        )  # fmt: skip
        bounds = f"{size_of(looked)}, {counted(walked.steps, 'step')}"
        measured = (
            f"{walked.runs:,} of {counted(runs, 'walk')}, {counted(walked.steps, 'step')},"
            f" {sum(walked.report.refused.values()):,} refused"
        )
        return Result((judged_walks(looked.subject, *row, bounds, walked),), measured)

    return Check(
        f"walk {code.adapter.__name__} beside {looked.subject}: {size_of(looked)}",
        run, lambda: rests_on(looked, code, runs, turns, SECONDS, row, first and first.__name__),
    )  # fmt: skip


def judged_walks(subject: str, row: str, sentence: str, bounds: str, walked: Walked) -> Finding:
    """The finding of walks: a pass says what it did not show."""
    if walked.difference is not None:
        return differs(subject, row, sentence, bounds, str(walked.difference))
    if walked.unknown:
        return unknown(subject, row, sentence, bounds, walked.unknown)
    return conforms(subject, row, sentence, bounds, "; ".join(walked.gaps))


ON_EDGES = (
    "the code takes every step as specified",
    "In every reachable state, each step leads the code where the spec says.",
)


def edges(
    looked: CheckConfig, code: Code, *, seconds: float | None = SECONDS, row: Row = ON_EDGES,
    whole: bool = False, world: World | None = None, **options: Any,
) -> Check:  # fmt: skip
    """
    Every edge of the explored graph, taken on the code in so many seconds; or a part of them.

    If it is to be the `whole`, what could be taken, and was not, is no pass. A `world` has an
    adapter of its own for as long as it stands. The other options are those of `cover`.
    """

    def run(tell: Tell) -> Result:
        from herdproof.conformance.graphs.edges import cover

        tell("every edge of the explored graph", None)
        of: Any = {"bound": looked.bound if looked.within else None, **options, **looked.sizes}
        try:
            with nullcontext(code.adapter) if world is None else world() as adapter:
                coverage = cover(looked.spec, adapter, faults=looked.faults, seconds=seconds, **of)
        except UsageError as error:
            found = unknown(looked.subject, *row, size_of(looked), str(error))
            return Result((found,), "not taken")
        bounds = f"{size_of(looked)}, {coverage.covered:,} of {counted(coverage.edges, 'edge')}"
        bounds += f", seed {options['seed']}" if "seed" in options else ""
        bounds += f", near {options['near']}" if "near" in options else ""
        judged = judged_edges(looked.subject, row, bounds, coverage, whole=whole)
        return Result((judged,), "; ".join([coverage.measured, *(m.line for m in coverage.missed)]))

    size = f"{size_of(looked)}, {counted(looked.faults, 'fault')}"
    how = looked.faults, looked.bound, looked.within, seconds, row, whole, sorted(options.items())
    return Check(
        f"take every edge of {looked.subject} on {code.adapter.__name__}: {size}",
        run, lambda: rests_on(looked, code, *how),
    )  # fmt: skip


def judged_edges(
    subject: str, row: Row, bounds: str, coverage: Coverage, *, whole: bool = False
) -> Finding:
    """The finding on a graph that was taken: an action that was never taken is not passed."""
    from herdproof.conformance.suites import shortfall

    if coverage.mismatch is not None:
        return differs(subject, *row, bounds, coverage.mismatch.story)
    left: dict[str, int] = {}
    for missed in coverage.missed:
        left[missed.action] = left.get(missed.action, 0) + missed.edges
    notes = [f"not taken: {', '.join(f'{n:,} of {name}' for name, n in left.items())}"] * bool(left)
    is_drawn = not left and not coverage.is_complete
    never = [name for name, n in coverage.taken.items() if is_drawn and not n]
    notes += [f"never taken: {', '.join(never)}"] * bool(never)
    notes += [f"{what}: {', '.join(names)}" for what, names in coverage.untried.items()]
    notes += [f"never seen: {', '.join(coverage.unseen)}"] * bool(coverage.unseen)
    notes += [f"nothing beyond {coverage.bound}"] * coverage.is_cut
    why = shortfall(coverage)
    if not why and whole and not coverage.is_whole:
        why = f"{coverage.edges - coverage.covered:,} steps were not taken"
    if why:
        return unknown(subject, *row, bounds, "; ".join([why, *notes]))
    return conforms(subject, *row, bounds, "; ".join(notes))


def stories(looked: CheckConfig, code: Code) -> Check:
    """The shortest story to each action, each `sometimes` and each side of a guard, on the code."""
    row = "the code follows the spec's stories"
    sentence = "The code goes along the shortest stories to all that can happen, and refuses there."

    def run(tell: Tell) -> Result:
        from unittest import SkipTest, defaultTestLoader

        from herdproof.conformance.holding.held import Differs
        from herdproof.conformance.story_tests import stories as made

        options: dict[str, Any] = {"bound": looked.bound if looked.within else None, **looked.sizes}
        case = made(looked.spec, code.adapter, faults=looked.faults, **options)
        names, left = defaultTestLoader.getTestCaseNames(case), dict[str, str]()
        judged: Finding | None = None
        taken = 0
        for number, name in enumerate(names):
            tell(name, number / len(names))
            try:
                getattr(case(name), name)()
                taken += 1
            except SkipTest as skip:
                left[name.removeprefix("test_")] = str(skip)
            except Differs as found:
                judged = differs(looked.subject, row, sentence, size_of(looked), str(found))
                break
            except UsageError as error:  # the graph is too large
                judged = unknown(looked.subject, row, sentence, size_of(looked), str(error))
                break
        followed = f"{taken:,} of {counted(len(names), 'story')}"
        if judged is None:
            note = f"not followed: {', '.join(left)}" if left else ""
            make = conforms if taken else unknown
            judged = make(looked.subject, row, sentence, f"{size_of(looked)}, {followed}", note)
        measured = "; ".join([followed, *(f"{name}: {why}" for name, why in left.items())])
        return Result((judged,), measured)

    size = f"{size_of(looked)}, {counted(looked.faults, 'fault')}"
    return Check(
        f"take stories of {looked.subject} along on {code.adapter.__name__}: {size}",
        run, lambda: rests_on(looked, code, looked.faults, looked.bound, looked.within),
    )  # fmt: skip


PICKED_AT = 5
"""States are picked at so many elements of a sort, unless there are to be more."""
PICKED, PICKING, SETTLING = 20, 20.0, 10.0
"""States picked of each case, seconds for picking them, and for looking for stories to them."""


def states(looked: CheckConfig, code: Code) -> Check:
    """States that z3 picks: from there, the code does as the spec does."""
    row = "the code steps as specified from states of the solver"
    sentence = "Put into states that satisfy what is proved, the code steps where the spec says."
    sizes = {sort: max(n, PICKED_AT) for sort, n in looked.sizes.items()}
    size = ", ".join(counted(n, sort.lower()) for sort, n in sizes.items()) or "one size"

    def run(tell: Tell) -> Result:
        from herdproof.conformance.solver.solved import solved

        tell("states that satisfy what is proved", None)
        options: dict[str, Any] = dict(sizes)
        try:
            found = solved(
                looked.spec, code.adapter, most=PICKED, seconds=PICKING, settling=SETTLING,
                looking=0.0, faults=looked.faults, **options,
            )  # fmt: skip
        except AdapterError as error:  # a channel, say, of whose states none are picked
            return Result((unknown(looked.subject, row, sentence, size, str(error)),), str(error))
        judged = judged_states(looked.subject, row, sentence, size, found)
        steps = sum(tally.loaded + tally.led for tally in found.tallies)
        return Result((judged,), f"{counted(found.states, 'state')}, {steps:,} steps from there")

    options = (PICKED, PICKING, SETTLING, looked.faults)
    return Check(
        f"put {code.adapter.__name__} into states of {looked.subject}: {size}",
        run, lambda: rests_on(looked, code, sizes, *options),
    )  # fmt: skip


def judged_states(subject: str, row: str, sentence: str, size: str, found: Solved) -> Finding:
    """The finding on states from the solver; an open question is neither a pass nor a failure."""
    asked = sum(tally.picked for tally in found.tallies)
    loaded = sum(tally.loaded for tally in found.tallies)
    bounds = f"{size}, {counted(found.states, 'state')}"
    if found.standing == "differs":
        return differs(subject, row, sentence, bounds, "\n".join(found.lines))
    if found.saw_nothing:
        return unknown(subject, row, sentence, bounds, NOTHING_SEEN)
    left = f"{asked - loaded:,} could not be loaded" if asked > loaded else ""
    unseen = f"never seen: {', '.join(found.unseen)}" if found.unseen else ""
    if found.standing == "agrees":
        never = dict.fromkeys(t.case.action.name for t in found.tallies if t.is_not_loadable)
        outside = f"of a case of {', '.join(never)} no state was come to" if never else ""
        told = "; ".join(filter(None, [left, outside, unseen]))
        return conforms(subject, row, sentence, bounds, told)
    story = tuple(found.lines)
    questions = f"questions: {len(found.questions)}" if found.questions else ""
    missed = [t.case.action.name for t in found.tallies if t.is_unknown]
    cases = f"of a case of {', '.join(dict.fromkeys(missed))} no state was loaded" if missed else ""
    note = "; ".join(filter(None, [questions, cases, left])) or "nothing was asked"
    return replace(unknown(subject, row, sentence, bounds, note), story=story)


def size_of(looked: CheckConfig) -> str:
    """The sizes of a spec's sorts, in words."""
    return ", ".join(counted(n, sort.lower()) for sort, n in looked.sizes.items()) or "one size"
