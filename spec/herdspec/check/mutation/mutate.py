"""
The *mutate* reading: do the properties notice when the spec is wrong?

Every mutant (`mutants.py`) is explored at a small size. It is *killed* when something fails that
does not fail in the original. It is *equivalent here* when it takes the same steps from every
reachable state of the original (steps that change nothing left aside): at this size no property
could tell the two apart (if the original was cut at a bound, that is unknown). What is left has
*survived*: the properties have a hole, and the shortest behaviour that only one of the two shows
(`divergence.py`) names it. A survivor may be accepted with a reason, and so may a mutant that the
bound leaves unknown; a reason for a mutant that is killed, or that does not exist, is stale, and an
error.

Where a small size shows little, several are looked at in turn, the cheap ones first: what one of
them does not kill is judged at the next. Liveness, which takes longest, is judged at the first one
alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

from herdspec.check.exploration.bounds import TIMES, beyond, first_bound, raised
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED, Exploration, Story
from herdspec.check.exploration.explore import MEMORY_BYTES, Explorer, is_cut_by_naturals
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.refinement.divergence import BEGINNING, DivergenceRenderer, StepComparison
from herdspec.check.running.retell import Chain, StoryRenderer
from herdspec.check.running.run import Machine
from herdspec.check.verdict import ALWAYS_A_STEP, Standing, counted
from herdspec.engine.ground import Ground, GroundAction
from herdspec.engine.native_emit import DEADLOCK, UNDEFINED
from herdspec.language.errors import HerdspecError, UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import Expectation

Source = Callable[[], Specification]
"""Makes the spec again in another process: what can be pickled, such as a module's function."""
Progress = Callable[[int, int], None]
"""Told after each mutant: how many are judged, of how many."""


@dataclass(frozen=True)
class Killed:
    """A mutant that some property noticed, and how: `steps` of the story, -1 where none is told."""

    id: str
    line: int
    by: str
    steps: int
    at: int = 0
    """The number of the size that did, of those that were looked at in turn."""


@dataclass(frozen=True)
class AcceptedMutant:
    """
    A mutant that nobody noticed: where it first differs, and what property is missing.

    `story` leads to the state where they differ, `differs` says how; `reason` is why it may live.
    """

    id: str
    operator: str
    file: str
    line: int
    story: tuple[str, ...]
    differs: str
    missing: str
    reason: str | None = None


@dataclass
class Mutation:
    """
    Verdicts on a spec's mutants, at one size or at several in turn.

    `further` are the sizes after the first. `refused` mutants are no specs (the language refuses
    them), `unknown` ones were cut short. `failing` is what fails of the original at every size
    already, and so notices nothing.
    """

    spec: str
    sizes: Mapping[str, int]
    faults: int
    bound: int
    killed: list[Killed] = field(default_factory=list)
    equivalent: list[str] = field(default_factory=list)
    survivors: list[AcceptedMutant] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    excused: dict[str, str] = field(default_factory=dict)
    """The reasons for which unknown mutants are accepted."""
    further: tuple[Bounds, ...] = ()
    cut: str = ""
    """The bound that the original itself was cut at, and that was not meant."""
    disturbed: bool = True
    """True if the spec has faults, so that their budget is worth a word."""

    @property
    def at(self) -> list[str]:
        """Each size in words."""
        first = Bounds(self.sizes, self.faults, self.bound)
        return [bounds.said(self.disturbed) for bounds in (first, *self.further)]

    @property
    def undecided(self) -> list[str]:
        """The unknown mutants that have no reason to be accepted."""
        return [id for id in self.unknown if id not in self.excused]

    @property
    def holes(self) -> list[AcceptedMutant]:
        """The survivors that have no reason to be accepted."""
        return [s for s in self.survivors if s.reason is None]

    @property
    def judged(self) -> int:
        """The number of mutants that a property could have noticed."""
        return len(self.killed) + len(self.survivors)

    @property
    def score(self) -> float | None:
        """Of these, the part that was; None if there was none."""
        return len(self.killed) / self.judged if self.judged else None

    @property
    def standing(self) -> Standing:
        """Holes and stale reasons are failures; what was cut short is unknown without one."""
        if self.holes or self.stale:
            return Standing.FAILS
        return Standing.UNKNOWN if self.undecided or not self.judged else Standing.HOLDS

    @property
    def summary(self) -> str:
        """The numbers of mutants that were killed, survived or changed nothing, in one line."""
        counts = [
            f"{len(self.killed)} of {self.judged} killed",
            f"{len(self.equivalent)} without a difference at this size",
        ]
        accepted = len(self.survivors) - len(self.holes)
        counts += [f"{accepted} accepted with a reason"] * bool(accepted)
        also = f" ({len(self.excused)} accepted with a reason)" if self.excused else ""
        counts += [f"{len(self.unknown)} unknown{also}"] * bool(self.unknown)
        counts += [f"{len(self.refused)} refused by the language"] * bool(self.refused)
        return ", ".join(counts)


def mutate(
    spec: Specification,
    sizes: Mapping[str, int],
    *,
    faults: int,
    bound: int | None = None,
    within: bool = False,
    further: Sequence[Bounds] = (),
    reasons: Mapping[str, str] | None = None,
    memory_bytes: int = MEMORY_BYTES,
    source: Source | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> Mutation:
    """
    Judge every mutant of a spec at these sizes; `reasons` accept survivors, by their ids.

    What is not killed there is judged at the `further` sizes, in turn, but for its liveness. A
    `bound` that is not given is raised until the original is not cut; `within`: it is meant.
    With more than one process, each makes the spec again by `source`. Raises `UsageError` where the
    original cannot be explored to its end: its failures could not be told from a mutant's.
    """
    bounds = (Bounds(dict(sizes), faults, bound, memory_bytes, within), *further)
    if processes > 1 and source is None:
        raise UsageError("several processes need a source that makes the spec again in each")
    all_of_them = mutants(spec)
    made = Mutation(spec.name, dict(sizes), faults, bound or 0)
    made.further = tuple(further)
    made.disturbed = any(a.disturbs for a in spec.actions)
    with _verdicts(spec, bounds, len(all_of_them), source, processes) as (found, verdicts):
        made.failing, made.bound, made.cut = found.fails, found.bound, found.cut
        for number, (mutant, verdict) in enumerate(zip(all_of_them, verdicts, strict=True), 1):
            _file(made, mutant, verdict, dict(reasons or {}))
            if progress:
                progress(number, len(all_of_them))
    made.stale = _stale(made, reasons or {})
    made.excused = {id: why for id, why in (reasons or {}).items() if id in made.unknown}
    return made


def reasons_of(spec: Specification) -> Mapping[str, str]:
    """
    The reasons in the module that defines a spec: `SURVIVORS = {mutant: reason}`.

    A module of several specs names them first: `SURVIVORS = {spec: {mutant: reason}}`.
    """
    found: Mapping[str, Any] = getattr(sys.modules[spec.state.__module__], "SURVIVORS", {})
    if any(isinstance(reason, Mapping) for reason in found.values()):
        found = found.get(spec.name, {})
    return found


def _file(
    made: Mutation, mutant: Mutant, verdict: MutantVerdict, reasons: Mapping[str, str]
) -> None:
    """Put a mutant where it belongs."""
    if verdict.fate == "killed":
        made.killed.append(Killed(mutant.id, mutant.line, verdict.by, verdict.steps, verdict.at))
    elif verdict.fate == "survived":
        made.survivors.append(
            AcceptedMutant(
                mutant.id, mutant.operator, mutant.file, mutant.line, verdict.story,
                verdict.differs, verdict.missing, reasons.get(mutant.id),
            )
        )  # fmt: skip
    else:
        place = {
            "equivalent": made.equivalent, "unknown": made.unknown, "refused": made.refused,
        }  # fmt: skip
        place[verdict.fate].append(mutant.id)


def _stale(made: Mutation, reasons: Mapping[str, str]) -> list[str]:
    """Reasons for what is killed, or is no mutant of this spec any more."""
    excused = {s.id for s in made.survivors} | {*made.equivalent, *made.unknown}
    return [id for id in reasons if id not in excused]


# ── One or several processes ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Bounds:
    """A size at which mutants are judged."""

    sizes: Mapping[str, int]
    faults: int
    bound: int | None = None
    memory_bytes: int = MEMORY_BYTES
    within: bool = False

    def said(self, disturbed: bool) -> str:
        """The size in words."""
        sizes = [counted(n, name.lower()) for name, n in self.sizes.items()]
        found = [*sizes, *([counted(self.faults, "fault")] if disturbed else [])]
        return ", ".join(found) or "the only size"

    def ground(self, spec: Specification) -> Ground:
        """A spec at this size."""
        bound = first_bound(spec, self.faults) if self.bound is None else self.bound
        return Ground(spec, self.sizes, bound, self.faults)

    def explorer(self, spec: Specification, seconds: float | None = None) -> Explorer:
        """A search of a spec at this size, for so many seconds."""
        return Explorer(
            spec, self.sizes, self.faults, self.bound, memory_bytes=self.memory_bytes,
            seconds=seconds,
        )  # fmt: skip

    def explored(self, spec: Specification) -> Explorer:
        """A spec that was searched at this size; a bound that is not given is raised."""

        def attempt(bound: int, seconds: float | None) -> Explorer | None:
            explorer = replace(self, bound=bound).explorer(spec, seconds)
            explorer.run()
            return None if explorer.out_of_time else explorer

        first = first_bound(spec, self.faults) if self.bound is None else self.bound
        times = 0 if self.within or self.bound is not None else TIMES
        return raised(first, attempt, lambda e: is_cut_by_naturals(e.result), times)[0]


@contextmanager
def _verdicts(
    spec: Specification,
    bounds: Sequence[Bounds],
    number: int,
    source: Source | None,
    processes: int,
) -> Iterator[tuple[Original, Iterator[MutantVerdict]]]:
    """The failures of the original, and the verdicts on all mutants, in their order."""
    if source is None or processes < 2:
        judge = InTurn(spec, bounds)
        yield judge.original, (judge.verdict(k) for k in range(number))
        return
    pool = ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_begin, initargs=(source, bounds)
    )
    try:
        yield pool.submit(_original).result(), pool.map(_judge, range(number), chunksize=4)
    finally:
        pool.shutdown(cancel_futures=True)


_judges: list[InTurn | UsageError] = []


def _begin(source: Source, bounds: Sequence[Bounds]) -> None:
    """Make this process a judge; what the original lacks is said by the first verdict."""
    try:
        _judges.append(InTurn(source(), bounds))
    except UsageError as error:
        _judges.append(error)


def _own_judge() -> InTurn:
    judge = _judges[0]
    if isinstance(judge, UsageError):
        raise judge
    return judge


def _original() -> Original:
    return _own_judge().original


def _judge(number: int) -> MutantVerdict:
    return _own_judge().verdict(number)


# ── One mutant ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MutantVerdict:
    """The fate of one mutant: one of `FATES`, or killed, at the size of this number."""

    fate: str
    by: str = ""
    steps: int = -1
    at: int = 0
    story: tuple[str, ...] = ()
    differs: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Original:
    """The failures of the original at every size; the first size's bound, and where it was cut."""

    fails: list[str]
    bound: int
    cut: str


FATES = ("refused", "equivalent", "unknown", "survived")
"""The fates of a mutant that is not killed; the later ones say more about the properties."""


class InTurn:
    """Holds mutants against an original at several sizes, until one kills."""

    def __init__(self, spec: Specification, bounds: Sequence[Bounds]) -> None:
        self.judges = [Judge(spec, at, lively=at is bounds[0]) for at in bounds]

    @property
    def original(self) -> Original:
        """The failures of the original, and its bound."""
        fails = sorted(set.intersection(*(set(judge.fails) for judge in self.judges)))
        results = [j.explorer.result for j in self.judges if j.is_cut]
        cut = next((beyond(r.cuts, r.bound) for r in results), "")
        return Original(fails, self.judges[0].explorer.result.bound, cut)

    def verdict(self, number: int) -> MutantVerdict:
        """The verdict on this mutant."""
        found = []
        for at, judge in enumerate(self.judges):
            found.append(replace(judge.verdict(number), at=at))
            if found[-1].fate == "killed":
                return found[-1]
        return max(found, key=lambda verdict: FATES.index(verdict.fate))


class Judge:
    """Holds mutants against one explored original, at one size."""

    def __init__(self, spec: Specification, bounds: Bounds, *, lively: bool = True) -> None:
        self.spec, self.judges_liveness = spec, lively
        self.mutants: Sequence[Mutant] = mutants(spec)
        self.explorer = bounds.explored(spec)
        found = self.explorer.result
        self.bounds = replace(bounds, bound=found.bound)
        self.is_cut = bool(found.dropped) and not bounds.within
        if found.truncated:
            raise UsageError(
                f"{spec.name} is too big at {found.size} to judge its mutants: take a smaller size"
            )
        self.failing = {name for name, _ in failing(found)}
        self.lively = {name for name, _ in self.unlively(spec)[0]}
        self.kept = StepComparison(self.explorer)

    @property
    def fails(self) -> list[str]:
        """The properties that the original fails."""
        return sorted(self.failing | self.lively)

    def verdict(self, number: int) -> MutantVerdict:
        """The verdict on this mutant."""
        mutant = self.mutants[number]
        try:
            spec = mutant.of(self.spec)
            ground = self.bounds.ground(spec)
            difference = self.kept.first_difference(ground)
        except HerdspecError:
            return MutantVerdict("refused")
        same = MutantVerdict("unknown" if self.is_cut else "equivalent")
        if difference is None and mutant.operator != "unfair":
            return same
        found, cut = self.failures(spec)
        if found:
            return MutantVerdict("killed", by=found[0][0], steps=found[0][1])
        if cut:
            return MutantVerdict("unknown")
        if difference is None:
            return MutantVerdict("survived", missing=UNFAIR)
        if difference.telling is None:
            return same
        if difference.telling == BEGINNING:
            return MutantVerdict("survived", differs="it begins otherwise", missing=OTHERWISE)
        return self.survivor(ground, difference.telling)

    def failures(self, spec: Specification) -> tuple[list[tuple[str, int]], bool]:
        """
        The failures of a mutant but not of the original; and True if something was cut short.

        The search ends a level after that on which something fails: states are looked at when
        they are expanded, steps a level before.
        """
        explorer = self.bounds.explorer(spec)
        explorer.teller = Lengths(explorer.machine, explorer.packing)
        wrong = {p.name for p in spec.properties if p.expectation in FORBIDDING}
        wrong = {n for n in (*wrong, *NOTED) if NOTED.get(n, n) not in self.failing}
        noticed = False

        def enough(*_: int) -> None:
            nonlocal noticed
            explorer.result.truncated = noticed
            noticed = not wrong.isdisjoint(explorer.noted)

        try:
            result = explorer.run(enough)
        except UsageError:  # whoever explores it is told so, whatever its properties are
            return [(BEGINS, 0)], False
        found = [(name, steps) for name, steps in failing(result) if name not in self.failing]
        meant = self.explorer.result.dropped if self.bounds.within else 0
        cut = result.truncated or result.dropped > meant
        if not found and not cut:
            late, cut = self.unlively(spec)
            found = [(name, steps) for name, steps in late if name not in self.lively]
        return sorted(found, key=lambda f: f[1] if f[1] >= 0 else 1 << 30), cut

    def unlively(self, spec: Specification) -> tuple[list[tuple[str, int]], bool]:
        """The liveness properties that fail, and whether some could not be decided."""
        from herdspec.check.liveness.liveness import (  # scipy: only where it is needed
            live,
            liveness,
        )

        if not self.judges_liveness or not live(spec):
            return [], False
        b = self.bounds
        found = liveness(spec, b.sizes, faults=b.faults, bound=b.bound, memory_bytes=b.memory_bytes)
        failed = [(name, len(story.steps)) for name, story in found.violations.items()]
        return failed, bool(found.undecided)

    def survivor(self, ground: Ground, state: int) -> MutantVerdict:
        """A survivor, told by the first state from which it does something else."""
        story = self.explorer.story(state)
        present = story.steps[-1].state if story.steps else story.initial
        taken = sum(step.action.disturbs for step in story.steps)
        told = DivergenceRenderer(self.explorer.machine, Machine(ground), self.spec)
        differs, missing = told.first(present, taken)
        return MutantVerdict(
            "survived", story=tuple(story.labels), differs=differs, missing=missing
        )


FORBIDDING = {Expectation.ALWAYS, Expectation.STEP}
"""Expectations that one state or one step can break."""
NOTED = {DEADLOCK: ALWAYS_A_STEP, UNDEFINED: EVERY_VALUE_IS_DEFINED}
"""Names of what a search notes beside properties, as they are told in the end."""
BEGINS = "there is an initial state"
"""The property that a mutant breaks which cannot begin."""
OTHERWISE = "no property says in which states it may begin"
UNFAIR = "no liveness property needs this action to be fair"


@dataclass(frozen=True)
class Untold(Story):
    """A story of which only the length is wanted."""

    length: int


class Lengths(StoryRenderer):
    """Counts the steps of stories: to tell those of every mutant took longer than the search."""

    def story(self, chain: Chain, last: int | None = None) -> Story:
        """The length of a path."""
        return Untold(self.machine.initial(), [], len(chain) - 1 + (last is not None))

    def story_of_undefined(self, chain: Chain, instance: GroundAction) -> Story:
        """The length of a path and the step after it that has no meaning."""
        del instance
        return Untold(self.machine.initial(), [], len(chain))


def failing(result: Exploration) -> list[tuple[str, int]]:
    """The failures of an explored spec, with the length of each story (-1 where there is none)."""
    stories = dict(result.violations)
    if result.deadlock:
        stories[ALWAYS_A_STEP] = result.deadlock
    found = [
        (name, story.length if isinstance(story, Untold) else len(story.steps))
        for name, story in stories.items()
    ]
    return found + [(name, -1) for name in result.missing if result.complete]
