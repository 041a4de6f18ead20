"""What real members cannot read or may not write: they say so, and go on when it is mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from herdproof import Consumer
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import KafkaRefused
from herdproof.zookeeper.client import Digest
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Create, Delete, Exists, Found, Set
from integration.clients import TestClient, connected, eventually

pytestmark = pytest.mark.real

GOOD = b'{"version":1,"subscription":{"other":1},"pattern":"static","timestamp":"1"}'
SOMEBODY = Digest("somebody", "secret")

_names = count(1)


class Place:
    """A topic with two partitions, and whoever consumes it."""

    def __init__(
        self, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, stack: ExitStack
    ) -> None:
        self.kafka, self.hosts = kafka, zookeeper.hosts
        self.group = f"bad-{next(_names)}"
        self.topic = f"{self.group}-topic"
        self._stack = stack
        kafka.create_topic(self.topic, 2)

    def member(self, zookeeper: str = "") -> Consumer:
        """A consumer that has subscribed."""
        own = Consumer(
            self.group, protocol="self_rebalancing", zookeeper=zookeeper or self.hosts,
            bootstrap_servers=self.kafka.bootstrap, auto_offset_reset="smallest",
            session_timeout_s=4, rebalance_backoff_s=0.2,
        )  # fmt: skip
        self._stack.enter_context(own)
        own.subscribe(self.topic)
        return own


@pytest.fixture
def place(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper) -> Iterator[Place]:
    """A place of the test's own."""
    with ExitStack() as stack:
        yield Place(kafka, zookeeper, stack)


def make(client: TestClient, path: str, data: bytes = b"", **more: Any) -> None:
    """A node, with those above it."""
    names = path.split("/")[1:]
    for depth in range(1, len(names)):
        client.perform(Create("/" + "/".join(names[:depth])))
    client.perform(Create(path, data, **more))


def test_a_strangers_garbage_stops_all_until_it_is_mended(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A registration that nobody can read: nothing is consumed, and it is said whose it is."""
    own = place.member()
    eventually(lambda: len(own.assignment) == 2)
    bad = f"/consumers/{place.group}/ids/stranger"
    with connected(place.hosts) as stranger:
        stranger.perform(Create(bad, b"\x00 no JSON", ephemeral=True))
        eventually(lambda: own.assignment == () and f"{bad} cannot be read" in caplog.text)
        stranger.perform(Set(bad, GOOD))
        eventually(lambda: len(own.assignment) == 2)
        assert own.poll(0.1) is None


def test_what_an_acl_forbids_is_said_and_tried_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The group's nodes are another user's: the member waits until it may write there."""
    ids = f"/consumers/{place.group}/ids"
    with connected(place.hosts, digest=SOMEBODY) as somebody:
        somebody.perform(Create("/consumers"))
        make(somebody, ids)
        own = place.member()
        eventually(lambda: "ZooKeeper refuses it to this user" in caplog.text)
        assert own.assignment == ()
        somebody.perform(Delete(ids))
        somebody.perform(Delete(ids.rpartition("/")[0]))
    eventually(lambda: len(own.assignment) == 2)


def test_a_missing_chroot_is_said_and_waited_for(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be registered below a root that is not there; once it is, all goes on."""
    own = place.member(f"{place.hosts}/{place.group}-root")
    eventually(lambda: "is there the chroot" in caplog.text)
    assert own.assignment == ()
    with connected(place.hosts) as operator:
        operator.perform(Create(f"/{place.group}-root"))
        path = f"/{place.group}-root/consumers/{place.group}/ids/{own.consumer_id}"
        eventually(lambda: operator.perform(Exists(path)) != Found(None))


def is_made_anew(place: Place) -> bool:
    """Whether Kafka has made the topic; it refuses while it still deletes the one before."""
    try:
        place.kafka.create_topic(place.topic, 3)
    except KafkaRefused as refusal:
        if "marked for deletion" not in str(refusal):
            raise
        return False
    return True


def test_a_topic_that_is_deleted_is_given_back(place: Place) -> None:
    """Kafka deletes the topic: nobody owns anything of it; made anew, it is consumed again."""
    own = place.member()
    eventually(lambda: len(own.assignment) == 2)
    place.kafka.topics.delete(place.topic)
    eventually(lambda: own.assignment == ())
    eventually(lambda: is_made_anew(place))
    eventually(lambda: len(own.assignment) == 3)
    place.kafka.produce(place.topic, b"new", partition=2)
    record = own.poll(15)

    assert record is not None
    assert record.value == b"new"
