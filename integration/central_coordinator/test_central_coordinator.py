"""
System B whole, on real services: records flow while coordinators and consumers are broken.

What is judged stands in `central_judgement.py`;
a mistake of the drafts must be caught by the very same judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.traces.line import read_files
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.pipeline.audit.audit import Audit
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.spark.sources import find_sources
from herdproof.pipeline.spark.store import OutputDirectory
from herdproof.protocols.central_coordinator.traces.lines import FORMATS, CentralStep
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.central_coordinator.central_cluster import BEHIND_S, Herd, Processes
from integration.central_coordinator.central_judgement import (
    assert_bounded_again,
    judge,
    judge_tenures,
    judge_traces,
)
from integration.clients import new_root

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

_numbers = count(1)


@pytest.fixture(scope="module")
def kafkas(zookeeper: EmbeddedZooKeeper) -> Iterator[list[EmbeddedKafka]]:
    """Two brokers, in a part of ZooKeeper of their own."""
    hosts = zookeeper.hosts + new_root(zookeeper)
    with ExitStack() as stack:
        yield [
            stack.enter_context(EmbeddedKafka(hosts, broker_id=number, heap_mb=192))
            for number in (1, 2)
        ]


@pytest.fixture
def herd(kafkas: list[EmbeddedKafka], tmp_path: Path) -> Iterator[Herd]:
    """A group of the test's own, without consumers and coordinators as yet."""
    number = next(_numbers)
    with Processes(tmp_path, kafkas[0], f"g{number}", f"flow{number}-") as herd:
        yield herd


def test_whatever_is_killed_or_paused_each_record_is_delivered_and_by_one_owner_at_a_time(
    herd: Herd, report: Callable[[str], None]
) -> None:
    """
    No partition has two owners at a time, no record is lost, and offsets never go back,
    while a topic and partitions appear, a coordinator dies, consumers and a coordinator are paused,
    and a consumer dies.
    Reference: PROTOCOLS.md, the contract and section B.
    """
    took: dict[str, float] = {}
    topic = herd.add_topic("a", 4)  # each member gets one of it
    for broker in ("1", "2"):
        herd.start_coordinator(broker)
    herd.start_consumers("first", a=0.2, b=0.2)
    took["started"] = herd.await_flow("a", "b")
    herd.start_consumers("second", c=0.2)
    herd.start_consumers("third", d=0.2)
    herd.add_topic("b", 2)
    took["members and a topic joined"] = herd.await_flow("a", "b", "c", "d")
    herd.add_partition(topic)
    took["partition added"] = herd.await_flow("a", "b", "c", "d")

    killed = herd.await_leader()
    herd.kill(killed)
    assert herd.await_leader(other_than=killed)
    took["coordinator killed"] = herd.await_flow("a", "b", "c", "d")
    herd.start_coordinator(killed)

    herd.pause("second")
    took["consumer paused"] = herd.await_flow("a", "b", "d")
    herd.resume("second")
    took["it is back"] = herd.await_flow("a", "b", "c", "d")

    paused = herd.await_leader()
    herd.pause(paused)
    other = herd.await_leader(other_than=paused)
    took["coordinator paused"] = herd.await_flow("a", "b", "c", "d")
    herd.resume(paused)

    herd.kill("third")
    took["consumer killed"] = herd.await_flow("a", "b", "c")
    assert herd.leader() == other
    herd.await_all_delivered()
    herd.watcher.stop()
    herd.end()

    summary = judge(herd.evidence(), epochs=3, generations=6, behind_s=BEHIND_S)
    report(
        f"central coordinator: {summary}; {judge_traces(herd.trace_files())}; resumed after "
        + ", ".join(f"{what} {seconds:.1f} s" for what, seconds in took.items())
    )


AT_HAND_S = 0.25
"""Of what comes again, how long before its consumer's end: that at hand, of pings each second."""


def test_what_was_finished_when_the_leader_was_killed_is_not_read_again(
    herd: Herd, report: Callable[[str], None]
) -> None:
    """
    Members that do not resume stop, and say to the next coordinator where: it stores that before it
    starts anybody. What nobody had reported would be up to a second's records, of each partition.
    Reference: docs/wire.md, "Bodies of version 4".
    """
    herd.resumes = False
    herd.add_topic("a", 2)
    herd.start_coordinators("1", "2")
    herd.start_consumers("first", a=0.0)
    herd.await_flow("a")
    herd.start_consumers("second", b=0.0)
    herd.await_flow("a", "b")
    herd.await_stored()

    killed = herd.await_leader()
    herd.kill(killed)
    successor = herd.await_leader(other_than=killed)
    herd.await_flow("a", "b")
    herd.await_stored()
    herd.await_all_delivered()
    herd.watcher.stop()
    herd.end()

    lines: list[CentralStep] = read_files(herd.trace_files(), FORMATS)
    brought = [x for x in lines if x.brought]
    assert {x.action for x in brought} == {"handle_register"}
    assert {x.node for x in brought} == {successor}
    assert {(t, n) for x in brought for t, n, _ in x.brought} == {
        (topic, str(number)) for topic, number in herd.flow.places
    }
    summary = judge(herd.evidence(), epochs=2, generations=2, behind_s=AT_HAND_S)
    report(f"brought to the next coordinator: {summary}; {judge_traces(herd.trace_files())}")


@pytest.mark.parametrize("flaw", ["", "no_barrier"])
def test_who_winds_up_is_waited_for(herd: Herd, flaw: str, spark: Any, tmp_path: Path) -> None:
    """
    The new owner starts only after the old one has stopped: a member that takes a second to wind
    up keeps its partitions as long; a coordinator that does not wait (a mistake of the drafts) is
    caught by the judgement that the other scenario passes, and so by the audit of the traces.
    Reference: PROTOCOLS.md, section B.
    """
    herd.add_topic("a", 2)
    herd.start_coordinator("1", flaw)
    herd.start_consumers("slow", slow=1.0)
    herd.await_flow("slow")

    herd.start_consumers("quick", quick=0.0)
    herd.await_flow("slow", "quick")
    herd.await_all_delivered()
    herd.end()

    sources = find_sources(map(str, herd.trace_files()))
    audited = Audit(spark, protocol_work()).run(
        sources, OutputDirectory(spark, str(tmp_path / "tables"))
    )
    assert (audited.records, audited.quarantined) == (audited.judged, {})
    if flaw:
        assert audited.verdicts["exclusive"] == {"violated": 1}
        with pytest.raises(AssertionError, match="exclusive"):
            judge_tenures(herd.tenures())
        with pytest.raises(AssertionError, match="no run of the specification"):
            judge_traces(herd.trace_files())
    else:
        assert judge_tenures(herd.tenures()) >= 1
        assert assert_bounded_again(herd.tenures(), 0.0) <= 2
        assert judge_traces(herd.trace_files())
        assert audited.violations == 0
        assert audited.verdicts["exclusive"] == audited.verdicts["conforms"] == {"holds": 1}
