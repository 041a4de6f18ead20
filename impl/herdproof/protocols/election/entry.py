"""The election, entered: its spec, the electors' code, and what is checked of that."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from herdproof.conformance.findings import covered, differs, implementation, replayed
from herdproof.protocols.implementation import Implementation
from herdspec.check.cache import Result
from herdspec.check.verdict import counted
from herdspec.check.verify import Check, Tell
from herdspec.protocols.election.plan import PROTOCOL

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.pipeline.audit.auditor import Auditor
    from herdproof.pipeline.campaign.runs import Simulated


def of_election() -> tuple[Any, ...]:
    """What the verdicts about the implementation of the election rest on."""
    from herdspec.protocols.election.properties import ELECTION

    return ELECTION, implementation()


def edges(subject: str) -> Check:
    """Every step of the explored graph, taken by the cores on the simulated ZooKeeper."""
    brokers, faults = 2, 2

    def run(tell: Tell) -> Result:
        from herdproof.conformance.graphs.edges import cover
        from herdproof.protocols.election.held.adapter import SimulatedElectors
        from herdspec.protocols.election.properties import ELECTION

        tell("on the simulated ZooKeeper", None)
        coverage = cover(ELECTION, SimulatedElectors, faults=faults, Broker=brokers)
        bounds = f"{counted(coverage.covered, 'step')} from {counted(coverage.states, 'state')}"
        return Result((covered(*row, bounds, coverage),), coverage.line)

    row = (
        subject, "the cores take every step as specified",
        "In every reachable state, each step leads the cores where the spec says.",
    )  # fmt: skip
    size = f"{counted(brokers, 'broker')}, {counted(faults, 'fault')}"
    return Check(f"cover every step on the simulated ZooKeeper: {size}", run, of_election)


def real_edges(subject: str) -> Check:
    """Each step of the smallest graph to which a real broker on a real ZooKeeper can be led."""
    brokers, faults = 1, 1

    def run(tell: Tell) -> Result:
        from herdproof.conformance.graphs.edges import TOURS, cover
        from herdproof.protocols.election.held.real import real_electors
        from herdproof.protocols.election.held.real_world import RealElection
        from herdproof.zookeeper.embedded import EmbeddedZooKeeper
        from herdspec.protocols.election.properties import ELECTION

        tell("on a real ZooKeeper", None)
        with EmbeddedZooKeeper() as zookeeper, RealElection(zookeeper, brokers) as world:
            coverage = cover(
                ELECTION, real_electors(world), by=TOURS, faults=faults, Broker=brokers
            )
        bounds = f"{coverage.covered:,} of {counted(coverage.edges, 'step')}"
        return Result((covered(*row, bounds, coverage),), coverage.line)

    row = (
        subject, "real brokers take steps as specified",
        "On a real ZooKeeper, each step that was taken leads the brokers where the spec says.",
    )  # fmt: skip
    size = f"{counted(brokers, 'broker')}, {counted(faults, 'fault')}"
    return Check(f"cover steps on a real ZooKeeper: {size}", run, of_election)


ROUNDS = 30


def real_runs(subject: str) -> Check:
    """Free-running brokers on a real ZooKeeper, disturbed; their traces are replayed."""
    row = "traces of real runs conform"
    sentence = "What real brokers do, undirected and disturbed, the spec allows."

    def run(tell: Tell) -> Result:
        from herdproof.protocols.election.held.real_runs import StaleWriteAccepted
        from herdproof.protocols.election.held.real_runs import run as disturb

        def told(rounds: int) -> None:
            tell(f"{rounds} of {counted(ROUNDS, 'leader')} disturbed", rounds / ROUNDS)

        with TemporaryDirectory(prefix="herdproof-traces-") as folder:
            try:
                runs = disturb(Path(folder), ROUNDS, told)
            except StaleWriteAccepted as error:
                found = differs(subject, row, sentence, "", str(error))
                return Result((found,), str(error))
            outcome = IMPLEMENTATION.conform(runs.traces, 0, lambda *_: None, invariants=True)
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


# ── Stories and traces ──────────────────────────────────────────────────────────────────────


def adapter(variant: str) -> type[Adapter]:
    """The electors' cores on the simulated ZooKeeper, with the variant's mistakes."""
    from herdproof.protocols.election.held.adapter import electors

    flaw = PROTOCOL.drafted() if variant == "drafted" else PROTOCOL.flaws().get(variant)
    return electors(flaw.switches) if flaw else electors()


def trace_map() -> TraceMap:
    """What the lines of electors' traces are to the spec."""
    from herdproof.protocols.election.traces.trace_map import TRACES

    return TRACES


def auditor() -> Auditor:
    """What the pipeline knows of electors' traces."""
    from herdproof.protocols.election.traces.auditor import ElectionAuditor
    from herdproof.protocols.election.traces.trace_map import TRACES

    return ElectionAuditor(PROTOCOL.name, TRACES, PROTOCOL.declared())


def simulated() -> Simulated:
    """The electors' simulator."""
    from herdproof.protocols.election.campaign import Election

    return Election(auditor().replay)


IMPLEMENTATION = Implementation(
    PROTOCOL, checks=(edges, real_edges, real_runs), adapter=adapter, trace_map=trace_map,
    auditor=auditor, simulated=simulated,
)  # fmt: skip
