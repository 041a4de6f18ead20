"""
A coordinator that is cut off from ZooKeeper while unmodified clients consume, in front of Kafka.

What it sends does not arrive, and it hears nothing, until another broker has taken over. Then all
that it has sent arrives: none of it is stored, no record is lost, no offset goes back, and what
both have told that they did conforms to the spec.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from herdproof.broker.answering import COORDINATORS_FROM
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.protocols.group_protocol.server.standing import PATHS
from herdproof.servers import eventually
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Create, Delete
from herdproof.zookeeper.proxy import FaultProxy
from integration.broker.broker_group import JAVA, PYTHON, BrokerGroup
from integration.broker.broker_judgement import judge_group
from integration.broker.test_broker import PARTITIONS, offsets, standing, traced, two_ports_in_a_row
from integration.broker.test_broker_scenarios import LONG_MS, SESSION_MS, await_that_leads
from integration.clients import connected, new_root
from integration.zookeeper.zookeeper_log import Transaction, transactions
from properties.protocols.group_protocol.testing.wired import WiredClient

GROUP = "cut-off"
STORED = ("complete_join", "share_out", "flush_offsets")
"""Steps that send a change to ZooKeeper."""
KINDS = [PYTHON, pytest.param((*PYTHON, JAVA), marks=pytest.mark.long)]


@dataclass
class Pair:
    """Two brokers in front of one Kafka; between the first and ZooKeeper there is a proxy."""

    kafka: EmbeddedKafka
    zookeeper: EmbeddedZooKeeper
    proxy: FaultProxy
    folder: Path
    stack: ExitStack

    def __post_init__(self) -> None:
        self.topic, self._root = f"orders-{uuid.uuid4()}", new_root(self.zookeeper)
        self._ports = [two_ports_in_a_row() for _ in range(2)]
        self.traces = [self.folder / f"{number}.ndjson" for number in range(2)]
        self.kafka.create_topic(self.topic, PARTITIONS)

    @property
    def bootstraps(self) -> list[str]:
        """Where each listens."""
        return [f"127.0.0.1:{port}" for port in self._ports]

    def start(self, session_ms: int) -> None:
        """Start both; the first coordinates."""
        for number, hosts in enumerate((self.proxy.hosts, self.zookeeper.hosts)):
            began = standing(
                self.folder / f"{number}", self.kafka, hosts + self._root, number + 1,
                self._ports[number], *traced(self.traces[number]), session_ms=session_ms,
            )  # fmt: skip
            self.stack.enter_context(began).await_lines(1)
            if number == 0:
                self.await_that_leads(0)

    def await_that_leads(self, number: int) -> None:
        """Wait until this one says that it coordinates."""
        await_that_leads(self.bootstraps[number])

    def told(self, number: int) -> set[tuple[int, str]]:
        """The coordinator, as this one says: by FindCoordinator, and among Kafka's brokers."""
        with closing(WiredClient(self.bootstraps[number])) as client:
            found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
            brokers = client.ask(MetadataRequest(topics=[]), 9).brokers
        return {
            *((each.node_id, f"{each.host}:{each.port}") for each in found.coordinators),
            *(
                (each.node_id, f"{each.host}:{each.port}")
                for each in brokers
                if each.node_id != self.kafka.broker_id
            ),
        }

    def depose(self) -> None:
        """Take the election's node from whoever leads, as an operator can."""
        with connected(self.zookeeper.hosts) as operator:
            operator.perform(Delete(self._root + PATHS.election.leader))

    def freeze(self) -> None:
        """Let nothing through to ZooKeeper any more, while nothing is being stored."""
        self.proxy.freeze()
        while self.is_storing():
            self.proxy.thaw()
            time.sleep(0.02)
            self.proxy.freeze()

    def is_storing(self) -> bool:
        """Whether the first has sent a change that it has no answer to, as its trace says."""
        lines = self.traces[0].read_text(encoding="utf-8").splitlines()
        took = Counter(json.loads(line)["action"] for line in lines if line.endswith("}"))
        return sum(took[action] for action in STORED) > took["answered"]

    def group(self) -> BrokerGroup:
        """A group whose members know both."""
        bootstrap = ",".join(self.bootstraps)
        return self.stack.enter_context(BrokerGroup(bootstrap, GROUP, self.topic, PARTITIONS))

    def committed(self, number: int) -> dict[int, int]:
        """What is committed, as this one says."""
        return offsets(self.bootstraps[number], GROUP, self.topic)

    def after_its_successor(self) -> list[Transaction]:
        """What the first one has asked ZooKeeper for once the second one was elected."""
        done = transactions(self.zookeeper.directory)
        leader = self._root + PATHS.election.leader
        first, second = (
            place
            for place, transaction in enumerate(done)
            if any(isinstance(w, Create) and w.path == leader for w in transaction.writes)
        )
        return [each for each in done[second:] if each.session == done[first].session]

    def is_of_groups(self, transaction: Transaction) -> bool:
        """Whether anything of groups is stored by it."""
        of_groups = self._root + PATHS.groups
        return any(write.path.startswith(of_groups) for write in transaction.writes)


@pytest.fixture
def pair(
    kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, proxy: FaultProxy, tmp_path: Path
) -> Iterator[Pair]:
    """Two brokers that have not been started."""
    with ExitStack() as stack:
        yield Pair(kafka, zookeeper, proxy, tmp_path, stack)


def test_a_coordinator_is_one_broker_to_clients_and_its_successor_another(pair: Pair) -> None:
    """
    Whoever is asked, as long as it leads; and none has the number that Kafka's own broker has.

    aiokafka keeps to its connection to a number: to a deposed coordinator's, which says that it
    coordinates nothing, for as long as the successor gives that number as its own.
    """
    pair.start(LONG_MS)

    def agree_on(number: int) -> bool:
        said = {(COORDINATORS_FROM + number + 1, pair.bootstraps[number])}
        return all(pair.told(asked) == said for asked in range(2))

    assert eventually(lambda: agree_on(0), 20.0)
    pair.proxy.freeze()
    pair.depose()
    pair.await_that_leads(1)
    pair.proxy.thaw()
    assert eventually(lambda: agree_on(1), 20.0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("ends", ["session", "epoch"])
def test_a_coordinator_that_is_cut_off_stores_nothing_and_nothing_is_lost(
    pair: Pair, ends: str, kinds: tuple[str, ...]
) -> None:
    """
    Its session ends, as nobody hears of it; or an operator takes the election's node from it.

    In the latter case its session lives on, and it goes on in good faith: what it has sent arrives,
    and is refused for its epoch.
    """
    pair.start(SESSION_MS if ends == "session" else LONG_MS)
    group = pair.group()
    for kind in kinds:
        group.start(kind, kind)
    group.settle(*kinds)
    committed = pair.committed(0)

    pair.freeze()
    group.hear_a_round()
    if ends == "epoch":
        assert eventually(pair.is_storing, 60.0)  # what has been sent by then arrives late
        pair.depose()
    pair.await_that_leads(1)
    pair.proxy.thaw()
    group.settle(*kinds)
    after = pair.committed(1)

    assert group.lost() == []
    assert all(after[number] >= offset > 0 for number, offset in committed.items())
    came_late = pair.after_its_successor()
    assert not any(map(pair.is_of_groups, came_late))
    assert any(each.is_refused for each in came_late) == (ends == "epoch")
    pair.stack.close()
    seen = judge_group(group, *pair.traces)
    assert seen["step_down", ""] == 1
    assert seen["found", ""] == 1
