"""
What a mutant of the cores is held against, cheapest first, until something notices it.

    python -m properties.protocols.central_coordinator.mutated.ladder FILE

holds the mutants of the sample against it, those that FILE does not have yet; FILE gets a line for
each (JSON). A mutant is planted in a process of its own, which ends with it. Only what runs one of
a mutant's lines is tried: all else comes to what it came to without the mistake.
"""

from __future__ import annotations

import inspect
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import msgspec
import pytest

from herdproof.conformance.adapter import quiet
from herdproof.conformance.graphs.edges import cover
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.simulated.world import Run
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines
from herdspec.check.conformance.conform import Verdict
from herdspec.protocols.central_coordinator.properties import HELD
from properties.protocols.central_coordinator.mutated.central_mutants import (
    CROWDED,
    CUT_OFF,
    DEFAULT,
    LARGER,
    LOST_MEMBERS,
    NEW_TOPICS,
    PAUSES,
    SESSIONS_END,
)
from properties.protocols.central_coordinator.mutated.central_suites import (
    CORE_TESTS,
    module_named,
    scenarios,
)
from properties.protocols.central_coordinator.mutated.made import CORES, Mutant, drawn

SEED, NUMBER = 18, 300
"""The sample, in which every mutant has the same chance."""

HERE = Path(__file__).parent
PROPERTIES = HERE.parents[2]
TESTED = (HERE.parent / "coordinator", HERE.parent / "client", HERE)
"""Where the tests of the cores are."""
SHELLS = {"test_central_session", "test_central_commits", "test_consumer_arguments"}
"""Among them, those of what has threads and sockets."""


def named(file: Path) -> str:
    """A module of tests by folder and name."""
    return ".".join(file.relative_to(PROPERTIES).with_suffix("").parts)


SCENARIOS = (
    *(name for name in CORE_TESTS if "central_coordinator" not in name or ".wire." in name),
    *(
        named(file)
        for folder in TESTED
        for file in sorted(folder.rglob("test_*.py"))
        if file.stem not in {*SHELLS, "test_core_mutants"}
    ),
    "protocols.election.test_edited_nodes",
    "protocols.election.test_elector_steps",
)
"""Tests of the cores; of each, the scenarios that need no fixture but `monkeypatch`."""

SEEDS: dict[Config, int] = {
    DEFAULT: 4, LARGER: 2, SESSIONS_END: 2, LOST_MEMBERS: 2, PAUSES: 2, NEW_TOPICS: 2, CROWDED: 1,
    CUT_OFF: 1,
}  # fmt: skip
"""Worlds of the simulator, with the number of runs in each."""
REPLAYED = 1
"""Number of runs, from seed 0 on, whose traces are replayed in the spec."""

PROBE_S, TIMES = 2.0, 10
"""A probe hangs that takes so much more of a processor, and so many times its own time."""
HUNG = 12
"""The most of a mutant's probes that may hang: another may end, and say what is wrong."""
CPU_S, WALL_S = 60, 900
"""A mutant hangs that takes more: of a processor, and in all (the machine is shared)."""
MEMORY_BYTES = 2 << 30
"""The most that a mutant may take besides what was taken before it."""


# ── What is tried ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Probe:
    """One thing to try: `run` says what it noticed, or raises, or neither."""

    rung: str
    name: str
    run: Callable[[], str | None]
    seconds: float = 0.0
    """What it takes of a processor, without a mistake."""

    def noticed(self) -> str:
        """By what something is noticed; "" if nothing is."""
        try:
            return self.run() or ""
        except (Exception, pytest.fail.Exception) as raised:
            return type(raised).__name__


Ladder: TypeAlias = Sequence[Probe]


def scenes(modules: Iterable[str] = SCENARIOS) -> Iterator[Probe]:
    """The scenarios of the cores' tests."""
    for module in modules:
        for name, scenario in scenarios(module_named(module), {"monkeypatch"}):
            yield Probe("tests", f"{module.rpartition('.')[2]}::{name}", partial(played, scenario))


def played(scenario: Callable[..., None]) -> None:
    """Run a scenario, with the fixture if it needs that."""
    if "monkeypatch" not in inspect.signature(scenario).parameters:
        scenario()
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        scenario(monkeypatch=monkeypatch)


def worlds() -> Iterator[Probe]:
    """Runs of the simulator, judged by the contract."""
    for config, number in SEEDS.items():
        for seed in range(number):
            yield Probe("simulator", f"seed {seed} of {config}", partial(broken, seed, config))


def broken(seed: int, config: Config) -> str | None:
    """The promise that a run breaks."""
    violation = Run(seed, config).run().violation
    return violation.promise if violation else None


def replays() -> Iterator[Probe]:
    """Traces of such runs, replayed in the spec."""
    for seed in range(REPLAYED):
        yield Probe("replay", f"seed {seed}", partial(differing, seed))


def differing(seed: int) -> str | None:
    """Tells that a run's trace is none of the spec's."""
    verdict = conform_lines(traced(seed).lines).verdict
    return None if verdict is Verdict.CONFORMS else verdict.name


def edges() -> Iterator[Probe]:
    """Every edge of the spec's graph at one of each, without faults, taken on the cores."""
    yield Probe("edges", "without faults", astray)


def astray() -> str | None:
    """Tells that the cores do not go along some edge that they go along."""
    found = cover(HELD, quiet(CentralCores), faults=0, bound=5, Broker=1, Member=1, Partition=1)
    return "mismatch" if found.mismatch else None if found.covered == 428 else "not followed"


def ladder() -> list[Probe]:
    """All that is tried, in this order."""
    return [*scenes(), *worlds(), *replays(), *edges()]


# ── What each of it runs ────────────────────────────────────────────────────────────────────

Line: TypeAlias = tuple[str, int]


class Reached:
    """By line of the cores, the probes that run it."""

    def __init__(self, probes: Ladder) -> None:
        self.probes: list[Probe] = []
        self.by_line: dict[Line, set[int]] = {}
        for number, probe in enumerate(probes):
            lines: set[Line] = set()
            began = time.process_time()
            with lines_run(lines):
                noticed = probe.noticed()
            self.probes.append(replace(probe, seconds=time.process_time() - began))
            assert not noticed, f"{probe.name} finds {noticed} in the cores as they are"
            for line in lines:
                self.by_line.setdefault(line, set()).add(number)

    def of(self, mutant: Mutant) -> list[Probe]:
        """The probes that come by a mutant: rung by rung, on each the quickest first."""
        rungs = list(dict.fromkeys(probe.rung for probe in self.probes))
        lines = [self.by_line.get((str(mutant.file), line), set()) for line in mutant.lines]
        numbers = sorted(
            set().union(*lines),
            key=lambda n: (rungs.index(self.probes[n].rung), self.probes[n].seconds),
        )
        return [self.probes[number] for number in numbers]


@contextmanager
def lines_run(found: set[Line]) -> Iterator[None]:
    """Note the lines of the cores that run meanwhile."""
    files = {str(file) for file in CORES}

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


# ── One mutant ──────────────────────────────────────────────────────────────────────────────

KILLED, SURVIVED, HANGS = "killed", "survived", "hangs"


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: by which rung, probe and notice it was killed, if it was."""

    id: str
    fate: str
    rung: str = ""
    probe: str = ""
    by: str = ""
    tried: int = 0
    seconds: float = 0.0


def fate(mutant: Mutant, probes: Ladder) -> Fate:
    """Plant a mutant in a process of its own, and try one probe after the other."""
    told = apart(lambda: tried(mutant, probes))
    return msgspec.json.decode(told, type=Fate) if told else Fate(mutant.id, HANGS)


def differences(mutant: Mutant, probes: Ladder) -> tuple[int, int]:
    """How often a mutant is come by, and how often its mistake would make a difference there."""
    return msgspec.json.decode(apart(lambda: differed(mutant, probes)), type=tuple[int, int])


def apart(do: Callable[[], Any]) -> bytes:
    """Do something in a process of its own, and answer with what comes of it, as JSON."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():  # of threads, none of which the child needs
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        with suppress(BaseException):
            os.close(reads)
            os.write(writes, msgspec.json.encode(do()))
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        ready, _, _ = select.select([pipe], [], [], WALL_S)
        told = pipe.read() if ready else b""
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return told


def differed(mutant: Mutant, probes: Ladder) -> tuple[int, int]:
    """The same, here, for ever."""
    differs = mutant.watch()
    for probe in probes:
        assert not probe.noticed(), "it changes nothing"
    return differs.total(), differs[True]


def tried(mutant: Mutant, probes: Ladder) -> Fate:
    """What becomes of a mutant, here, for ever."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_BYTES, taken + MEMORY_BYTES))
    signal.signal(signal.SIGPROF, too_long)
    mutant.plant()
    found, hung = Fate(mutant.id, SURVIVED, tried=len(probes)), 0
    for number, probe in enumerate(probes, start=1):
        signal.setitimer(signal.ITIMER_PROF, PROBE_S + TIMES * probe.seconds)
        try:
            by = probe.noticed()
        except TooLong:
            by = HANGS
        if by:
            fate = HANGS if by is HANGS else KILLED
            hung += fate is HANGS
            if not found.by or fate is KILLED:
                found = Fate(mutant.id, fate, probe.rung, probe.name, by, number)
            if fate is KILLED or hung == HUNG:
                break
    signal.setitimer(signal.ITIMER_PROF, 0)
    return replace(found, seconds=round(time.process_time(), 2))


class TooLong(BaseException):
    """A probe has been interrupted; no `except Exception` takes that for a notice."""


def too_long(number: int, frame: FrameType | None) -> None:
    """Interrupt what runs."""
    raise TooLong


# ── All of them ─────────────────────────────────────────────────────────────────────────────


def fates(sample: Iterable[Mutant], reached: Reached) -> Iterator[Fate]:
    """One mutant after the other."""
    for mutant in sample:
        yield fate(mutant, reached.of(mutant))


def unexplained(found: Iterable[Fate], reasons: Mapping[str, str]) -> list[str]:
    """What is neither killed nor has a reason to survive, and what has one and is killed."""
    return [
        f"{one.id}: {one.fate}" for one in found if (one.fate != KILLED) is not (one.id in reasons)
    ]


def summary(found: Sequence[Fate]) -> str:
    """How many there are of each fate, and who killed how many."""
    fates = Counter(one.fate for one in found)
    rungs = Counter(one.rung for one in found if one.fate == KILLED)
    killed = ", ".join(f"{number} by the {rung}" for rung, number in rungs.items())
    return (
        f"{fates[KILLED]} of {len(found)} killed ({killed}), {fates[SURVIVED]} survive, "
        f"{fates[HANGS]} hang"
    )


def kept(file: Path) -> list[Fate]:
    """The fates that a file has."""
    text = file.read_bytes().splitlines() if file.exists() else []
    return [msgspec.json.decode(line, type=Fate) for line in text]


def main(file: Path) -> None:
    """Hold the sample against the ladder, and go on where the file ends."""
    done = {one.id for one in kept(file)}
    left = [mutant for mutant in drawn(SEED, NUMBER) if mutant.id not in done]
    with file.open("ab") as stream:
        for one in fates(left, Reached(ladder())):
            stream.write(msgspec.json.encode(one) + b"\n")
            stream.flush()
    print(summary(kept(file)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
