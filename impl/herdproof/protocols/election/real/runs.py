"""
Real runs of the election for `verify`: free-running brokers on a real ZooKeeper, traced.

Three brokers stand; then, again and again, whoever leads writes and is disturbed: it resigns, its
session is ended at the server, or its connections are cut. Somebody must be elected then; where it
is another, the old leader tries one more write under its old epoch, which must be refused. All of
it is in the traces, which are then replayed in the spec.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from herdproof.conformance.traces.tracer import open_trace
from herdproof.errors import NotInTime
from herdproof.ports import LOOPBACK
from herdproof.protocols.election.shell import ZkElection
from herdproof.protocols.election.tracing import ElectorTracer
from herdproof.servers import eventually
from herdproof.zookeeper.client import expire_session
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Answer, Create, Exists, Refusal, Set, Why
from herdproof.zookeeper.proxy import FaultProxy

BROKERS = ("broker-1", "broker-2", "broker-3")
RUN = "verify"
PLAN = "/herdproof/plan"
PATIENCE_S = 30.0
SESSION_TIMEOUT_S = 2.0


class StaleWriteAccepted(Exception):
    """ZooKeeper accepted a write of an epoch that was over: what fencing must prevent."""


@dataclass
class Runs:
    """Runs of real brokers: where their traces lie, and what happened."""

    traces: list[Path] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    writes: int = 0
    refused: int = 0


class Candidate:
    """One broker: its elector behind a proxy, and its trace."""

    def __init__(self, name: str, port: int, trace: Path, told: Told, stack: ExitStack) -> None:
        self.name = name
        self.trace = trace
        self.proxy = FaultProxy(LOOPBACK, port).start()
        stack.callback(self.proxy.stop)
        self.tracer = ElectorTracer(name, RUN, stack.enter_context(open_trace(trace)))
        self.election = ZkElection(
            f"{LOOPBACK}:{self.proxy.port}",
            name,
            on_elected=lambda epoch: told.put((epoch, self)),
            on_deposed=lambda _: None,
            session_timeout_s=SESSION_TIMEOUT_S,
            observe=self.tracer,
        )
        stack.callback(self.election.close)
        self.election.start()

    def write(self, epoch: int) -> Answer:
        """Write under an epoch, and trace it."""
        since_ns = time.time_ns()
        answer = self.election.write(Set(PLAN, str(epoch).encode()), epoch=epoch)
        self.tracer.wrote(epoch, answer, since_ns)
        return answer


Told = queue.SimpleQueue[tuple[int, Candidate]]
Disturb = Callable[[Candidate, EmbeddedZooKeeper], None]


def resign(leader: Candidate, zookeeper: EmbeddedZooKeeper) -> None:
    """The leader resigns, and stands again."""
    del zookeeper
    leader.election.resign()
    leader.election.stand()


def expire(leader: Candidate, zookeeper: EmbeddedZooKeeper) -> None:
    """The leader's session ends at the server, before its client knows."""
    client = leader.election.client
    expire_session(zookeeper.hosts, client.session, client.password)


def cut(leader: Candidate, zookeeper: EmbeddedZooKeeper) -> None:
    """The leader's connections break."""
    del zookeeper
    leader.proxy.cut()


DISTURBANCES: tuple[Disturb, ...] = (resign, expire, cut)


def run(folder: Path, rounds: int, tell: Callable[[int], None]) -> Runs:
    """
    Disturb so many leaders; `tell` is told after each. In the end all are connected again.

    Raises `NotInTime`, `StaleWriteAccepted`, or what `EmbeddedZooKeeper` raises.
    """
    done = Runs()
    with ExitStack() as stack:
        zookeeper = stack.enter_context(EmbeddedZooKeeper())
        port, told = int(zookeeper.hosts.rpartition(":")[2]), Told()
        candidates = [
            Candidate(name, port, folder / f"{name}.jsonl", told, stack) for name in BROKERS
        ]
        done.traces = [c.trace for c in candidates]
        candidates[0].election.client.perform(Create(PLAN), PATIENCE_S)
        for candidate in candidates:
            candidate.election.stand()
        for number in range(rounds):
            disturbed(done, told, DISTURBANCES[number % len(DISTURBANCES)], zookeeper)
            tell(number + 1)
        for candidate in candidates:
            await_connected(candidate)
    return done


def await_connected(candidate: Candidate) -> None:
    """Wait until a candidate has a session: a new one, where the old one has ended."""
    client = candidate.election.client

    def answers() -> bool:
        return not isinstance(client.perform(Exists(PLAN), PATIENCE_S), Refusal)

    if not eventually(answers, PATIENCE_S):
        raise NotInTime(f"{candidate.name} has no session within {PATIENCE_S:g} s")


def disturbed(done: Runs, told: Told, disturb: Disturb, zookeeper: EmbeddedZooKeeper) -> None:
    """One leader writes, is disturbed, and, once another epoch has begun, tries to write again."""
    epoch, leader = awaited(told)
    done.epochs.append(epoch)
    leader.write(epoch)
    done.writes += 1
    disturb(leader, zookeeper)
    successor = awaited(told)
    told.put(successor)
    if successor[1] is leader:
        return  # it came back in time, or was elected anew: it has no old epoch to write under
    answer = leader.write(epoch)
    done.writes += 1
    if isinstance(answer, Refusal):
        done.refused += answer.why is Why.BAD_VERSION
    else:
        raise StaleWriteAccepted(f"{leader.name} wrote under epoch {epoch}, which was over")


def awaited(told: Told) -> tuple[int, Candidate]:
    """The next election."""
    try:
        return told.get(timeout=PATIENCE_S)
    except queue.Empty:
        raise NotInTime(f"nobody was elected within {PATIENCE_S:g} s") from None
