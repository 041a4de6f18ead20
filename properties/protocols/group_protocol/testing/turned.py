"""
Consumers that do one thing at a turn, in no thread, for scenarios that are to be over at once.

They do what Kafka's own clients do of the group protocol, with range as assignor; each record is
committed when it was delivered. A connection that is broken is made anew, and what was asked over
it asked again.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    LeaveGroupRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from herdproof.broker.codec import RequestHead
from herdproof.consuming.consumer_protocol import read_assignment, write_assignment
from herdproof.testing import LocalBroker
from properties.protocols.group_protocol.testing.wired import MEMBER_ID_REQUIRED, WiredClient

TOPIC, PARTITIONS = "t", 4
SESSION_MS = 3_000
UNKNOWN_MEMBER_ID = 25
LISTENS_S = 0.002
"""How long a turn waits for an answer that others hold up."""
LEAVE_VERSION, OFFSETS_VERSION, FETCH_VERSION = 1, 5, 11


class TurnedConsumer:
    """One consumer; `positions` has what it reads next, by partition, while it is assigned any."""

    def __init__(self, broker: LocalBroker, name: str) -> None:
        self.broker = broker
        self.client = WiredClient(broker.bootstrap, name)
        self.positions: dict[int, int] | None = None
        self._waits: RequestHead | None = None
        self._is_joining = True

    def turn(self) -> None:
        """Go on by a step; a broken connection is made anew."""
        for step in self._steps():
            try:
                step()
            except ConnectionError:
                self._connect_again()

    def _steps(self) -> Iterator[Callable[[], None]]:
        """What is to be done now; whether it is a member still does not hold up who reads."""
        if self._waits is not None:
            yield partial(self._listen, self._waits)
        elif self.positions is None:
            yield self._join
        else:
            yield self._beat
            if self.positions is not None:
                yield self._read

    def stop(self) -> None:
        """Leave, and hang up."""
        self.client.close()
        again = self._successor()
        leaving = LeaveGroupRequest(group_id=again.group, member_id=again.member_id)
        try:
            again.ask(leaving, LEAVE_VERSION)
        except ConnectionError:
            return  # it was lost, and nobody is left to ask again
        finally:
            again.close()

    def _connect_again(self) -> None:
        """Another connection; who waited for an answer joins anew."""
        self.client.close()
        self.client = self._successor()
        if self._waits is not None:
            self._waits = None
            self.positions = None

    def _successor(self) -> WiredClient:
        """The same member, over another connection."""
        made = WiredClient(self.broker.bootstrap, self.client.name)
        made.member_id, made.generation = self.client.member_id, self.client.generation
        return made

    # ── Joining ─────────────────────────────────────────────────────────────────────────────

    def _join(self) -> None:
        joining = self.client.joining(rebalance_ms=SESSION_MS, session_ms=SESSION_MS)
        self._is_joining = True
        self._waits = self.client.send(joining, 9)

    def _join_again(self, error: int) -> None:
        """What it had is given up; who is unknown joins as somebody new."""
        self.positions = None
        if error == UNKNOWN_MEMBER_ID:
            self.client.member_id = ""

    def _listen(self, head: RequestHead) -> None:
        """Take the answer that is waited for, if it has come."""
        ready, _, _ = select.select([self.client.socket], [], [], LISTENS_S)
        if ready:
            told = self.client.receive(head)
            self._waits = None
            if self._is_joining:
                self._joined(told)
            else:
                self._synced(told)

    def _joined(self, told: Any) -> None:
        if told.error_code not in (0, MEMBER_ID_REQUIRED):
            self._join_again(told.error_code)
            return
        self.client.take(told)
        if told.error_code == 0:
            members = [each.member_id for each in told.members] if self.client.is_leader else []
            self._sync(members)

    def _sync(self, members: Sequence[str]) -> None:
        """Ask for the assignment; a leader gives each its range."""
        made = SyncGroupRequest.SyncGroupRequestAssignment
        each, more = divmod(PARTITIONS, len(members) or 1)
        numbers = iter(range(PARTITIONS))
        assignments = [
            made(member_id=member, assignment=write_assignment(
                [(TOPIC, next(numbers)) for _ in range(each + (place < more))]
            ))
            for place, member in enumerate(members)
        ]  # fmt: skip
        client = self.client
        self._is_joining = False
        self._waits = client.send(SyncGroupRequest(
            group_id=client.group, generation_id=client.generation, member_id=client.member_id,
            group_instance_id=None, protocol_type="consumer", protocol_name="range",
            assignments=assignments,
        ), 5)  # fmt: skip

    def _synced(self, told: Any) -> None:
        if told.error_code:
            self._join_again(told.error_code)
            return
        assigned = [number for _, number in read_assignment(told.assignment)]
        self.positions = self._committed(assigned) if assigned else {}

    def _committed(self, numbers: Sequence[int]) -> dict[int, int]:
        """Where to begin: at the committed offset, or at the first record."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        asked = [topic(name=TOPIC, partition_indexes=list(numbers))]
        told = self.client.ask(
            OffsetFetchRequest(group_id=self.client.group, topics=asked), OFFSETS_VERSION
        )
        return {
            part.partition_index: max(part.committed_offset, 0)
            for each in told.topics
            for part in each.partitions
        }

    # ── Reading ─────────────────────────────────────────────────────────────────────────────

    def _beat(self) -> None:
        """Say that it is alive."""
        error = self.client.heartbeat()
        if error:
            self._join_again(error)

    def _read(self) -> None:
        """Take a record, and commit it; that this is refused, the next heartbeat will explain."""
        assert self.positions is not None
        for number, position in self.positions.items():
            if self._end_of(number, position) > position:
                self.broker.delivered(self.client.name, (TOPIC, number, position))
                self.positions[number] = position + 1
                self.client.commit(position + 1, number, TOPIC)
                return

    def _end_of(self, number: int, position: int) -> int:
        """The offset behind a partition's last record."""
        topic = FetchRequest.FetchTopic
        part = topic.FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=position, log_start_offset=-1,
            partition_max_bytes=1024,
        )  # fmt: skip
        told = self.client.ask(FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1024, isolation_level=0,
            session_id=0, session_epoch=-1, topics=[topic(topic=TOPIC, partitions=[part])],
            forgotten_topics_data=[], rack_id="",
        ), FETCH_VERSION)  # fmt: skip
        return int(told.responses[0].partitions[0].high_watermark)


class TurnedConsumers:
    """The consumers of one group, as scenarios want them."""

    names: Sequence[str] = ("a", "b")
    group = "g"
    topic = TOPIC

    def __init__(self, broker: LocalBroker) -> None:
        self.broker = broker
        self.running: dict[str, TurnedConsumer] = {}

    def start(self, name: str) -> None:
        """Start a consumer."""
        self.running[name] = TurnedConsumer(self.broker, name)

    def stop(self, name: str) -> None:
        """Close a consumer."""
        self.running.pop(name).stop()

    def turn(self, name: str) -> None:
        """Let it go on by a step."""
        self.running[name].turn()
