"""Groups that rebalance by themselves, disturbed, on real services: the contract judges."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.protocols.implementation import implementation
from herdproof.protocols.self_rebalancing.tracing import SELF_REBALANCING
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.proxy import FaultProxy
from herdspec.check.conformance.conform import Verdict
from herdspec.protocols.self_rebalancing.plan import drafted
from integration.self_rebalancing.rebalancing_herd import RebalancingHerd
from integration.self_rebalancing.rebalancing_judgement import judge
from integration.trace_judgement import audited, judge_traces, violated

pytestmark = pytest.mark.real

_names = count(1)


Herds = Callable[..., RebalancingHerd]
HOLD = 3
"""So many sentences hold at least, of any trace of ours."""
WENT_BACK = "committed_offsets_never_go_back"
WHERE_OFFSETS_WENT_BACK = frozenset({WENT_BACK, "who_begins_does_so_at_the_stored_offset"})
"""Sentences that ours seem to violate where one of theirs has stored less: they go on there."""
DRAFTED = sorted(drafted().switches)


@pytest.fixture
def herd(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Herds:
    """Makes groups."""

    def make(*flaws: str, is_mixed: bool = False) -> RebalancingHerd:
        name = f"herd-{next(_names)}"
        return RebalancingHerd(
            tmp_path, name, f"{name}-topic", bootstrap=kafka.bootstrap, zookeeper=zookeeper.hosts,
            flaws=flaws, is_mixed=is_mixed,
        )  # fmt: skip

    return make


@pytest.mark.timeout(300)
def test_ours_alone_keep_the_contract(
    herd: Herds, zookeeper: EmbeddedZooKeeper, proxy: FaultProxy, report: Callable[[str], None]
) -> None:
    """Killed, paused beyond a session, cut off, closed: nothing is lost, and no promise broken."""
    with herd() as group:
        group.add_topic("", 6)
        group.start("a", "c")
        group.start("b", zookeeper=proxy.hosts)
        group.await_flow("a", "b", "c")
        proxy.refuse()
        proxy.cut()
        group.await_flow("a", "c")
        proxy.accept()
        group.await_flow("a", "b", "c")
        group.pause("a")
        group.await_flow("b", "c")
        group.resume("a")
        group.kill("c")
        group.await_flow("a", "b")
        group.close("a")
        group.await_flow("b")
        group.await_all_delivered()
        group.end()
        found = judge(group.evidence(zookeeper.directory))

    report(f"ours alone: {found}")
    assert found.is_clean, str(found)
    judge_traces(SELF_REBALANCING, group.traces, hold=HOLD)
    assert found.hands > 6


@pytest.mark.timeout(300)
def test_the_draft_alone_is_caught(
    herd: Herds, zookeeper: EmbeddedZooKeeper, proxy: FaultProxy, tmp_path: Path,
    report: Callable[[str], None],
) -> None:  # fmt: skip
    """Consumers with the draft's habits: one that is cut off consumes what another one has."""
    with herd(*DRAFTED) as group:
        group.add_topic("", 6)
        group.start("a")
        group.await_flow("a")
        group.start("b", zookeeper=proxy.hosts)
        group.await_flow("a", "b")
        proxy.freeze()
        group.await_flow("a")
        group.await_a_record_of("b")  # what `a` has had from before that
        told = group.traced("b")
        proxy.thaw()
        group.eventually(lambda: group.traced("b") > told)  # until when it has consumed
        group.await_all_delivered()
        group.end()
        found = judge(group.evidence(zookeeper.directory))

    report(f"the draft alone: {found}")
    assert {"exclusive", "who_consumes_owns"} <= {finding.promise for finding in found.owed}
    summary = audited(tmp_path / "tables", *group.traces)
    assert {"exclusive", "who_consumes_owns"} <= {each.property for each in summary.told}
    outcome = implementation(SELF_REBALANCING).conform(
        group.traces, 0, lambda *_: None, invariants=True
    )
    assert outcome.verdict is Verdict.DIFFERS


@pytest.mark.timeout(300)
def test_theirs_and_ours_in_one_group(
    herd: Herds, zookeeper: EmbeddedZooKeeper, tmp_path: Path, report: Callable[[str], None]
) -> None:
    """Two of Kafka 0.8.2.2's and two of ours: what breaks is what one of theirs did."""
    with herd(is_mixed=True) as group:
        group.add_topic("", 6)
        group.start("a", "b")
        group.start_old("old1", "old2")
        group.await_flow("a", "b", "old1", "old2")
        group.kill("old1")
        group.await_flow("a", "b", "old2")
        group.pause("old2")
        group.await_flow("a", "b")
        group.resume("old2")
        group.await_flow("a", "b", "old2")
        group.close("old2")
        group.await_flow("a", "b")
        group.await_all_delivered()
        group.end()
        found = judge(group.evidence(zookeeper.directory))

    report(f"theirs and ours: {found}")
    assert found.owes_nothing, str(found)
    summary = audited(tmp_path / "tables", *group.traces)
    excused = WHERE_OFFSETS_WENT_BACK if WENT_BACK in found.theirs else frozenset[str]()
    assert {each.property for each in summary.told} <= excused, violated(summary)
    assert found.hands > 6


class Ground:
    """An ensemble and two brokers for one scenario, all of which may be broken."""

    def __init__(self, stack: ExitStack, folder: Path, *, is_mixed: bool) -> None:
        self.zookeeper = stack.enter_context(EmbeddedZooKeeper(3))
        self.brokers = [
            stack.enter_context(EmbeddedKafka(self.zookeeper.hosts, broker_id=number))
            for number in (1, 2)
        ]
        self.proxied = next(s for s in range(3) if s != self.zookeeper.leader())
        host, port = self.zookeeper.server_hosts[self.proxied].split(":")
        self.proxy = stack.enter_context(FaultProxy(host, int(port), patience_s=20.0))
        self.herd = stack.enter_context(
            RebalancingHerd(
                folder,
                "ground",
                "ground-topic",
                zookeeper=self.zookeeper.hosts,
                bootstrap=",".join(broker.bootstrap for broker in self.brokers),
                is_mixed=is_mixed,
            )
        )
        self.members: set[str] = set()
        self.waits: list[tuple[str, float]] = []

    def flows(self, what: str, *, without: str = "") -> None:
        """All partitions have an owner among the members, and records come of each."""
        members = self.members - {without}
        self.waits.append((what, self.herd.await_flow(*members)))

    def join(self, name: str, zookeeper: str = "") -> None:
        """A member starts, of ours or of theirs."""
        self.members.add(name)
        if name.startswith("old"):
            self.herd.start_old(name)
        else:
            self.herd.start(name, zookeeper=zookeeper)

    def leave(self, name: str, *, killed: bool) -> None:
        """A member is killed, or closes."""
        self.members.discard(name)
        (self.herd.kill if killed else self.herd.close)(name)

    def replace(self, name: str, heir: str, *, killed: bool) -> None:
        """One goes, and another one comes when the others have taken over."""
        self.leave(name, killed=killed)
        self.flows(f"{name} {'killed' if killed else 'closed'}")
        self.join(heir)
        self.flows(f"{heir} joined")

    def pause(self, name: str) -> None:
        """One stands still for longer than its session lasts."""
        self.herd.pause(name)
        self.flows(f"{name} paused", without=name)
        self.herd.resume(name)
        self.flows(f"{name} went on")

    def cut_off(self, name: str) -> None:
        """Its network breaks: for a moment, beyond its session, and behind what it has sent."""
        self.proxy.cut()
        self.flows(f"{name} suspended")
        self.proxy.refuse()
        self.proxy.cut()
        self.flows(f"{name} lost", without=name)
        self.proxy.accept()
        self.flows(f"{name} back")
        self.proxy.swallow_replies()
        self.proxy.wait_swallowed_reply()
        self.proxy.cut()
        self.flows(f"{name}'s replies swallowed")

    def break_services(self, name: str) -> None:
        """The ensemble's leader is killed, and a broker; `name` knows one server only."""
        leader = self.zookeeper.leader()
        self.zookeeper.kill(leader)
        self.flows("leader killed", without=name if leader == self.proxied else "")
        self.zookeeper.restart(leader)
        self.flows("leader back")
        self.brokers[1].kill()
        self.flows("broker killed")
        self.brokers[1].restart()
        self.flows("broker back")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("theirs", [("old1", "old2"), ()], ids=["with theirs", "ours alone"])
def test_every_disturbance(
    theirs: tuple[str, ...], tmp_path: Path, report: Callable[[str], None]
) -> None:
    """After each of them all partitions are owned and flow; in the end the contract judges."""
    with ExitStack() as stack:
        ground = Ground(stack, tmp_path, is_mixed=bool(theirs))
        topic = ground.herd.add_topic("", 6, replicas=2)
        for name in ("a", *theirs):
            ground.join(name)
        ground.join("b", ground.proxy.hosts)
        ground.flows("all joined")
        ground.replace("a", "c", killed=True)
        ground.replace("c", "d", killed=False)
        ground.pause("d")
        ground.cut_off("b")
        if theirs:
            ground.replace("old1", "old3", killed=True)
            ground.replace("old3", "old4", killed=False)
            ground.pause("old2")
        ground.break_services("b")
        ground.herd.add_partition(topic)
        ground.flows("partition added")
        ground.herd.add_topic("-more", 2, replicas=2)
        ground.flows("topic taken in")
        ground.join("e")
        ground.leave("d", killed=False)
        ground.join("f")
        ground.flows("members changed")
        ground.herd.await_all_delivered()
        ground.herd.end()
        found = judge(ground.herd.evidence(ground.zookeeper.directory, 3))

    report(f"every disturbance, {', '.join(theirs) or 'ours alone'}: {found}")
    report("; ".join(f"{what}: {seconds:.1f} s" for what, seconds in ground.waits))
    assert found.owes_nothing, str(found)
    assert theirs or found.is_clean, str(found)
    if not theirs:
        judge_traces(SELF_REBALANCING, ground.herd.traces, hold=HOLD)
