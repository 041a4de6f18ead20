"""
What `verify` checks of the implementation, protocol by protocol.

Each entry of `IMPLEMENTATION` makes one `Check` for the column that it is told. A check yields
findings: `conforms` makes one that passed, `differs` one that did not, `unknown` one without a
verdict. Where a check cannot be carried out (a `HerdError`: no Java, say) that is its note, its
verdict is "unknown", and `verify` ends with 3.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from herdspec.check.cache import Result
from herdspec.check.digest import sources, versions
from herdspec.check.verdict import Finding, Mark, counted
from herdspec.check.verify import Check, Tell

if TYPE_CHECKING:
    from herdspec.check.conform import Outcome


def conforms(subject: str, row: str, sentence: str, bounds: str, note: str = "") -> Finding:
    """
    The implementation was run within these bounds (say what, and how much) and conformed.

    The note says what that does not show.
    """
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.CONFORMS, bounds=bounds,
        sentence=sentence, note=note,
    )  # fmt: skip


def differs(subject: str, row: str, sentence: str, bounds: str, story: str) -> Finding:
    """The implementation did what its spec does not allow; the story's lines say what."""
    lines = tuple(story.splitlines())
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.FAILS, bounds=bounds,
        sentence=sentence, note="differs", story=lines,
    )  # fmt: skip


def unknown(subject: str, row: str, sentence: str, bounds: str, note: str) -> Finding:
    """The check came to no verdict; the note says why."""
    return Finding(
        subject=subject, row=row, kind="check", mark=Mark.UNKNOWN, bounds=bounds,
        sentence=sentence, note=note,
    )  # fmt: skip


def implementation() -> tuple[Any, ...]:
    """What runs of the implementation rest on: its sources and, of ZooKeeper, client and jars."""
    import herdproof

    return sources(Path(herdproof.__file__).parent), versions(("kazoo", "pyspark"))


# ── Election ────────────────────────────────────────────────────────────────────────────────

EDGES_BROKERS, EDGES_FAULTS = 2, 2


def of_election() -> tuple[Any, ...]:
    """What the verdicts about the implementation of the election rest on."""
    from herdspec.protocols.election_properties import ELECTION

    return ELECTION, implementation()


def edges(subject: str) -> Check:
    """Every step of the explored graph, taken by the cores on the simulated ZooKeeper."""
    row = "the cores take every step as specified"
    sentence = "In every reachable state, each step leads the cores where the spec says."

    def run(tell: Tell) -> Result:
        from herdproof.link.cover import cover

        tell("on the simulated ZooKeeper", None)
        coverage = cover(EDGES_BROKERS, EDGES_FAULTS)
        bounds = f"{counted(coverage.covered, 'step')} from {counted(coverage.states, 'state')}"
        measured = f"{bounds}, {coverage.covered / coverage.seconds:,.0f} steps/s"
        if coverage.mismatch is None:
            return Result((conforms(subject, row, sentence, bounds),), measured)
        story = coverage.mismatch.story
        return Result((differs(subject, row, sentence, bounds, story),), measured)

    size = f"{counted(EDGES_BROKERS, 'broker')}, {counted(EDGES_FAULTS, 'fault')}"
    return Check(f"cover every step on the simulated ZooKeeper: {size}", run, of_election)


REAL_BROKERS, REAL_FAULTS = 1, 1


def real_edges(subject: str) -> Check:
    """Every step of the smallest graph, taken by a real broker on a real ZooKeeper."""
    row = "real brokers take every step as specified"
    sentence = "On a real ZooKeeper, each step leads the brokers where the spec says."

    def run(tell: Tell) -> Result:
        from herdproof.link.real_cover import Graph, cover
        from herdproof.link.real_world import RealElection
        from herdproof.zookeeper.embedded import EmbeddedZooKeeper

        def told(taken: int, of: int) -> None:
            tell(f"{taken:,} of {counted(of, 'step')}", taken / of)

        graph = Graph(REAL_BROKERS, REAL_FAULTS)
        with EmbeddedZooKeeper() as zookeeper, RealElection(zookeeper, REAL_BROKERS) as world:
            coverage = cover(world, graph, progress=told)
        bounds = f"{coverage.covered:,} of {counted(coverage.edges, 'step')}"
        if coverage.differing:
            story = next(iter(coverage.differing.values()))
            return Result((differs(subject, row, sentence, bounds, story),), coverage.line)
        if coverage.missed or not coverage.covered:
            note = f"{coverage.missed:,} steps were not taken"
            return Result((unknown(subject, row, sentence, bounds, note),), coverage.line)
        return Result((conforms(subject, row, sentence, bounds),), coverage.line)

    size = f"{counted(REAL_BROKERS, 'broker')}, {counted(REAL_FAULTS, 'fault')}"
    return Check(f"cover every step on a real ZooKeeper: {size}", run, of_election)


ROUNDS = 30


def real_runs(subject: str) -> Check:
    """Free-running brokers on a real ZooKeeper, disturbed; their traces are replayed."""
    row = "traces of real runs conform"
    sentence = "What real brokers do, undirected and disturbed, the spec allows."

    def run(tell: Tell) -> Result:
        from herdproof.cli.real_runs import StaleWriteAccepted
        from herdproof.cli.real_runs import run as disturb
        from herdproof.link.conform import conform_files

        def told(rounds: int) -> None:
            tell(f"{rounds} of {counted(ROUNDS, 'leader')} disturbed", rounds / ROUNDS)

        with TemporaryDirectory(prefix="herdproof-traces-") as folder:
            try:
                runs = disturb(Path(folder), ROUNDS, told)
            except StaleWriteAccepted as error:
                found = differs(subject, row, sentence, "", str(error))
                return Result((found,), str(error))
            outcome = conform_files(runs.traces)
        bounds = f"{counted(outcome.matched, 'line')} of 3 brokers"
        epochs = len(set(runs.epochs))
        measured = (
            f"{counted(ROUNDS, 'leader')} disturbed in {counted(epochs, 'epoch')}, "
            f"{counted(runs.writes, 'write')} of which {runs.refused} stale and refused, "
            f"{counted(outcome.lines, 'line')} of traces"
        )
        return Result((replayed(subject, row, sentence, bounds, outcome),), measured)

    name = f"run and disturb 3 brokers on a real ZooKeeper: {ROUNDS} rounds"
    return Check(name, run, of_election)


def replayed(subject: str, row: str, sentence: str, bounds: str, outcome: Outcome) -> Finding:
    """What a replay comes to."""
    if outcome.mismatch is not None:
        return differs(subject, row, sentence, bounds, "\n".join(outcome.mismatch.lines))
    if outcome.reason or outcome.matched < outcome.lines or not outcome.lines:
        return unknown(subject, row, sentence, bounds, outcome.reason or "lines were left over")
    return conforms(subject, row, sentence, bounds)


# ── Central coordinator ─────────────────────────────────────────────────────────────────────

SIMULATED_RUNS = 60


def of_central_coordinator() -> tuple[Any, ...]:
    """What the verdicts about the implementation of the central coordinator rest on."""
    from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR

    return CENTRAL_COORDINATOR, implementation()


def simulated_runs(subject: str) -> Check:
    """Disturbed runs of the cores in the simulated world: the contract watched, traces replayed."""
    row = "simulated runs keep the contract, their traces conform"
    sentence = "What the cores do in the simulated world, disturbed, contract and spec allow."

    def run(tell: Tell) -> Result:
        from herdproof.link.central import conform_lines
        from herdproof.link.central_runs import traced

        lines = 0
        for seed in range(SIMULATED_RUNS):
            tell(f"{seed} of {counted(SIMULATED_RUNS, 'run')}", seed / SIMULATED_RUNS)
            made = traced(seed)
            bounds = f"{counted(seed + 1, 'run')}, {counted(lines + len(made.lines), 'line')}"
            if made.outcome.violation is not None:
                found = differs(subject, row, sentence, bounds, str(made.outcome))
                return Result((found,), bounds)
            outcome = conform_lines(made.lines)
            finding = replayed(subject, row, sentence, bounds, outcome)
            if finding.mark is not Mark.CONFORMS:
                return Result((finding,), f"seed {seed}")
            lines += outcome.lines
        return Result((finding,), bounds)

    return Check(f"simulate and replay {SIMULATED_RUNS} runs", run, of_central_coordinator)


IMPLEMENTATION: dict[str, tuple[Callable[[str], Check], ...]] = {
    "election": (edges, real_edges, real_runs),
    "central_coordinator": (simulated_runs,),
}
"""What is checked of each protocol's implementation, in this order."""
