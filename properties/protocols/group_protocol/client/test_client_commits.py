"""Commits of our client that return a future, at a broker in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from herdproof import Consumer
from herdproof.consumer import CommitFailed
from herdproof.protocols.group_protocol.client.core.events import CommitResult
from herdproof.record import Record
from herdproof.testing import LocalBroker

PATIENCE_S = 60
"""Of a machine that has much else to do."""


class Group:
    """The broker, and members of a group that are closed after the test."""

    def __init__(self, broker: LocalBroker, stack: ExitStack) -> None:
        self.broker = broker
        self._stack = stack
        broker.create_topic("t", partitions=1)
        broker.produce("t", *(str(number) for number in range(9)))

    def member(self, name: str, **arguments: Any) -> Consumer:
        """A consumer that has subscribed, and commits by hand."""
        consumer = Consumer(
            "g", protocol="group_protocol", bootstrap_servers=self.broker.bootstrap,
            consumer_id=name, auto_offset_reset="smallest", auto_commit=False,
            heartbeat_interval_s=0.1, **arguments,
        )  # fmt: skip
        self._stack.callback(consumer.close)
        consumer.subscribe("t")
        return consumer


@pytest.fixture
def group(herdproof_broker: LocalBroker) -> Iterator[Group]:
    """A group of ours."""
    with ExitStack() as stack:
        yield Group(herdproof_broker, stack)


def taken(consumer: Consumer) -> Record:
    """The next record."""
    record = consumer.poll(PATIENCE_S)
    assert record is not None, "no record came"
    return record


def test_a_commit_is_stored_when_its_future_says_so(group: Group) -> None:
    """Two that are under way are stored in their order."""
    consumer = group.member("a")
    first, second = taken(consumer), taken(consumer)

    asked = [consumer.commit_async(record) for record in (first, second)]

    assert [each.result(PATIENCE_S) for each in asked] == [None, None]
    assert group.broker.group("g").offsets == {("t", 0): 2}
    assert consumer.committed(("t", 0)) == 2


def test_a_commit_that_is_refused_says_so_through_its_future(group: Group) -> None:
    """The application has gone on meanwhile."""
    consumer = group.member("a")
    record = taken(consumer)
    group.broker.fault("error", api="OffsetCommit", client="a", error="COORDINATOR_NOT_AVAILABLE")

    refused = consumer.commit_async(record).exception(PATIENCE_S)

    assert isinstance(refused, CommitFailed)
    assert refused.code is CommitResult.NOT_SENT
    assert taken(consumer).offset == 1


def test_what_was_sent_before_a_close_is_known_after_it(group: Group) -> None:
    """The farewell comes behind the commit, whose answer is late."""
    consumer = group.member("a")
    record = taken(consumer)
    group.broker.fault("delay", api="OffsetCommit", client="a", seconds=0.3)

    asked = consumer.commit_async(record)
    consumer.close(PATIENCE_S)

    assert asked.done()
    assert asked.result() is None
    assert group.broker.group("g").offsets == {("t", 0): 1}


def test_a_commit_after_a_revocation_is_refused(group: Group) -> None:
    """Its session is over: the partition may be another's, where the record comes again."""
    former = group.member("a")
    record = taken(former)
    group.broker.expire("a")

    refused = former.commit_async(record).exception(PATIENCE_S)

    assert isinstance(refused, CommitFailed)
    assert refused.code in (CommitResult.REFUSED, CommitResult.REBALANCING)
    assert group.broker.group("g").offsets == {("t", 0): 0}
