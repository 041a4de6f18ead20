"""
System B whole, in containers: three brokers with coordinators, ten consumers, and what hits them.

The short scenario runs always; the whole one is `long`, and so is a mistake of the drafts, which
the same judgement must catch. On child processes there is `test_central_coordinator.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from integration.central_coordinator.central_cluster import BEHIND_S, Herd
from integration.central_coordinator.central_docker import Containers, Services
from integration.central_coordinator.central_judgement import judge, judge_tenures, judge_traces

pytestmark = [pytest.mark.docker, pytest.mark.real, pytest.mark.timeout(400)]

COORDINATORS = ("1", "2", "3")
MEMBERS = {"one": "abc", "two": "def", "three": "gh", "four": "ij"}
"""The consumers in each process; ten of them."""
WINDS_UP_S = {"one": 0.2, "two": 0.2, "three": 0.2, "four": 1.0}

_numbers = count(1)


@pytest.fixture(scope="module")
def services(on_docker: bool) -> Iterator[Services]:
    """ZooKeeper and Kafka; each test leaves them as it found them."""
    if not on_docker:
        pytest.skip("no Docker here")
    with ExitStack() as stack:
        yield Services(stack)


@pytest.fixture
def herd(services: Services, tmp_path: Path) -> Iterator[Herd]:
    """A group of the test's own, without consumers and coordinators as yet."""
    number = next(_numbers)
    with Containers(tmp_path, services, f"g{number}", f"flow{number}-") as herd:
        yield herd


class Scenario:
    """The herd, and how long it took after each event until the flow was whole again."""

    def __init__(self, herd: Herd, services: Services) -> None:
        self.herd = herd
        self.zookeeper = services.zookeeper
        self.kafka = services.kafka
        self.took: list[str] = []

    def start_consumers(self, *processes: str) -> None:
        """Start these processes."""
        for process in processes:
            members: dict[str, Any] = dict.fromkeys(MEMBERS[process], WINDS_UP_S[process])
            self.herd.start_consumers(process, **members)

    def flows(self, after: str, *, without: str = "") -> None:
        """Wait until all members but those of one process share what there is, and it is stored."""
        members = "".join(names for process, names in MEMBERS.items() if process != without)
        seconds = self.herd.await_flow(*members) + self.herd.await_stored()
        self.took.append(f"{after} {seconds:.1f} s")

    def judged(self, *, epochs: int, generations: int) -> str:
        """Have everything delivered, end it, and judge it; what there was, in words."""
        self.herd.await_all_delivered()
        self.herd.watcher.stop()
        self.herd.end()
        summary = judge(
            self.herd.evidence(), epochs=epochs, generations=generations, behind_s=BEHIND_S
        )
        traced = judge_traces(self.herd.trace_files())
        return f"{summary}; {traced}; the flow was whole again after {', '.join(self.took)}"


def test_in_containers_each_record_is_delivered_and_by_one_owner_at_a_time(
    herd: Herd, services: Services, report: Callable[[str], None]
) -> None:
    """
    No partition has two owners at a time, no record is lost, and offsets never go back, while a
    partition appears and a coordinator, ZooKeeper's leader and consumers die.
    Reference: PROTOCOLS.md, the contract and section B.
    """
    scenario = Scenario(herd, services)
    topic = herd.add_topic("a", 10, 3)
    herd.start_coordinators(*COORDINATORS)
    scenario.start_consumers(*MEMBERS)
    scenario.flows("the start")
    herd.add_partition(topic)
    scenario.flows("a partition was added")

    killed = herd.await_leader()
    herd.kill(killed)
    herd.await_leader(other_than=killed)
    scenario.flows("a coordinator was killed")
    server = scenario.zookeeper.leader()
    scenario.zookeeper.kill(server)
    scenario.flows("ZooKeeper's leader was killed")
    scenario.zookeeper.start_again(server)
    herd.kill("three")
    scenario.flows("consumers were killed", without="three")
    scenario.zookeeper.await_serving()

    report(f"central coordinator in Docker: {scenario.judged(epochs=2, generations=3)}")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_in_containers_whatever_is_killed_or_paused(
    herd: Herd, services: Services, report: Callable[[str], None]
) -> None:
    """
    The same through deaths and pauses of everything that there is: coordinators (also amid a
    rebalance), consumers, ZooKeeper's leader, Kafka's controller, and two of them at once.
    Reference: PROTOCOLS.md, the contract and section B.
    """
    scenario = Scenario(herd, services)
    topic = herd.add_topic("a", 10, 3)
    herd.start_coordinators(*COORDINATORS)
    scenario.start_consumers("one", "two", "three")
    scenario.flows("the start", without="four")
    scenario.start_consumers("four")
    herd.add_topic("b", 2, 3)
    scenario.flows("members and a topic joined")
    herd.add_partition(topic)
    scenario.flows("a partition was added")

    coordinators_fail(scenario)
    consumers_fail(scenario)
    zookeeper_fails(scenario)
    kafka_fails(scenario)
    two_fail_at_once(scenario)

    summary = scenario.judged(epochs=5, generations=12)
    report(f"central coordinator in Docker, all faults: {summary}")


def coordinators_fail(scenario: Scenario) -> None:
    """One dies, one dies amid a rebalance, one is paused."""
    herd = scenario.herd
    killed = herd.await_leader()
    herd.kill(killed)
    herd.await_leader(other_than=killed)
    scenario.flows("a coordinator was killed")
    herd.start_coordinator(killed)

    killed = herd.await_leader()
    herd.add_topic("c", 2, 3)
    herd.eventually(lambda: herd.is_rebalancing(killed), every_s=0.01)
    herd.kill(killed)
    herd.await_leader(other_than=killed)
    hit = "amid" if herd.is_rebalancing(killed) else "after"  # it takes a second: who wins?
    scenario.flows(f"a coordinator was killed {hit} a rebalance")
    herd.start_coordinator(killed)

    paused = herd.await_leader()
    herd.pause(paused)
    herd.await_leader(other_than=paused)
    scenario.flows("a coordinator was paused")
    herd.resume(paused)
    scenario.flows("it went on")


def consumers_fail(scenario: Scenario) -> None:
    """Some die and come back, some are paused."""
    herd = scenario.herd
    herd.kill("three")
    scenario.flows("consumers were killed", without="three")
    scenario.start_consumers("three")
    scenario.flows("they were started again")

    herd.pause("two")
    scenario.flows("consumers were paused", without="two")
    herd.resume("two")
    scenario.flows("they went on")


def zookeeper_fails(scenario: Scenario) -> None:
    """Its leader dies while a topic appears, and is paused."""
    server = scenario.zookeeper.leader()
    scenario.zookeeper.kill(server)
    scenario.herd.add_topic("d", 2, 3)
    scenario.flows("ZooKeeper's leader was killed, and a topic came")
    scenario.zookeeper.start_again(server)
    scenario.zookeeper.await_serving()

    server = scenario.zookeeper.leader()
    scenario.zookeeper.pause(server)
    scenario.zookeeper.await_leader(other_than=server)
    scenario.flows("ZooKeeper's leader was paused")
    scenario.zookeeper.resume(server)
    scenario.zookeeper.await_serving()
    scenario.flows("it went on")


def kafka_fails(scenario: Scenario) -> None:
    """Its controller, which leads partitions, too, dies and is paused."""
    broker = scenario.kafka.controller()
    scenario.kafka.kill(broker)
    scenario.flows("a broker was killed")
    scenario.kafka.start_again(broker)

    broker = scenario.kafka.controller()
    scenario.kafka.pause(broker)
    scenario.flows("a broker was paused")
    scenario.kafka.resume(broker)
    scenario.flows("it went on")


def two_fail_at_once(scenario: Scenario) -> None:
    """ZooKeeper's leader with the coordinator, a broker with consumers."""
    herd = scenario.herd
    server, killed = scenario.zookeeper.leader(), herd.await_leader()
    scenario.zookeeper.kill(server)
    herd.kill(killed)
    herd.await_leader(other_than=killed)
    scenario.flows("ZooKeeper's leader and a coordinator were killed")
    scenario.zookeeper.start_again(server)
    scenario.zookeeper.await_serving()
    herd.start_coordinator(killed)

    broker = scenario.kafka.controller()
    scenario.kafka.kill(broker)
    herd.kill("one")
    scenario.flows("a broker and consumers were killed", without="one")
    scenario.kafka.start_again(broker)
    scenario.start_consumers("one")
    scenario.flows("they were started again")


@pytest.mark.long
def test_in_containers_a_mistake_of_the_drafts_is_caught(herd: Herd) -> None:
    """
    A coordinator that does not wait for who winds up lets two have one partition, and the judgement
    says so, of deliveries and of traces.
    Reference: PROTOCOLS.md, section B.
    """
    herd.add_topic("a", 2)
    herd.start_coordinator("1", "no_barrier")
    herd.start_consumers("slow", slow=1.0)
    herd.await_flow("slow")
    herd.start_consumers("quick", quick=0.0)
    herd.await_flow("slow", "quick")
    herd.await_all_delivered()
    herd.end()

    with pytest.raises(AssertionError, match="exclusive"):
        judge_tenures(herd.tenures())
    with pytest.raises(AssertionError, match="no run of the specification"):
        judge_traces(herd.trace_files())
