"""Simulated runs that are held against promises as they go: what came of one, for campaigns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from herdproof.pipeline.campaign.runs import Asked, Broken, Config, Configured, Ran
from herdproof.simulator.clock import Timeline
from herdproof.simulator.traced import ProcessTracers
from herdspec.check.observation.observed import Judgement

SETTLES = "Once nothing goes wrong any more, one member consumes each partition that is wanted."


class LivedRun(Protocol):
    """A run of a simulated world."""

    seed: int
    timeline: Timeline

    @property
    def troubles(self) -> Sequence[Any]:
        """The troubles of the run: each has its `at_ms`."""

    @property
    def log(self) -> Sequence[Any]:
        """All that happened."""

    @property
    def digest(self) -> str | int:
        """A number of that."""


Run = TypeVar("Run", bound=LivedRun)


@dataclass(frozen=True)
class BrokenPromise:
    """A promise that was broken: which, when (true ms), and for whom."""

    promise: str
    time_ms: float
    of: Mapping[str, Any]


@dataclass
class JudgedRun(Generic[Run]):
    """The outcome of a run."""

    run: Run
    violations: list[BrokenPromise] = field(default_factory=list)
    rulings: Mapping[str, Judgement] = field(default_factory=dict)
    unsettled: Mapping[tuple[str, Any], Sequence[str]] = field(default_factory=dict)
    """Partitions that are wanted, and at the end not consumed by exactly one member."""

    @property
    def broken(self) -> set[str]:
        """The names of the promises that were broken; `settles` if the group did not."""
        return {seen.promise for seen in self.violations} | (
            {"settles"} if self.unsettled else set()
        )

    @property
    def story(self) -> list[str]:
        """The troubles before something was broken, and that."""
        troubles = [f"{t.at_ms / 1000:9.3f} s  {t}" for t in self.run.troubles]
        broken = [f"{b.time_ms / 1000:9.3f} s  {b.promise}: {dict(b.of)}" for b in self.violations]
        left = [
            f"at the end {topic}-{number} is consumed by {', '.join(members) or 'nobody'}"
            for (topic, number), members in self.unsettled.items()
        ]
        return [f"Seed {self.run.seed}.", *sorted([*troubles, *broken]), *left]

    def ran(self, texts: Sequence[str], sentences: Mapping[str, str]) -> Ran:
        """The run as a campaign is told of it: its trace, the watched promises, the story."""
        watched = {**sentences, "settles": SETTLES}
        return Ran(
            texts, f"seed {self.run.seed}", len(self.run.log), str(self.run.digest), watched,
            self._first_broken(watched),
        )  # fmt: skip

    def _first_broken(self, watched: Mapping[str, str]) -> Broken | None:
        """The promise that was broken first, with what went wrong before."""
        if not self.broken:
            return None
        first = next(iter(self.violations), None)
        name = first.promise if first else "settles"
        time_ns = round((first.time_ms if first else self.run.timeline.now) * 1e6)
        story = [f"{time_ns}|contract|contract|{line.replace('|', '¦')}" for line in self.story]
        return Broken(name, watched.get(name, SETTLES), time_ns, self.story[-1], story)


class JudgedRuns(Configured[Config], Generic[Config, Run]):
    """A simulator whose runs are judged as they go: `judged` is left to write."""

    tracers: ClassVar[Callable[[], ProcessTracers]]
    """Makes the tracers of a run's processes."""
    sentences: ClassVar[Mapping[str, str]]
    """The promises that are watched, by name."""

    def judged(self, asked: Asked, tracers: ProcessTracers | None = None) -> JudgedRun[Run]:
        """Live through a run, and judge it; its processes are traced by these, if there are any."""
        raise NotImplementedError

    def run(self, asked: Asked) -> Ran:
        """Live through the run of a seed, every process with its tracer."""
        tracers = type(self).tracers()
        return self.judged(asked, tracers).ran(tracers.texts(), self.sentences)

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """A run as the simulator tells it."""
        del shrink  # what went wrong is told, and little else
        return self.judged(asked).story
