"""
What the lines of the central coordinator say that happened.

The teller keeps what later lines are short for: the writes that are not answered, what each
consumer has, who is a member and what he subscribed to, the topics that each coordinator knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from herdproof.consuming.subscription import InvalidSubscription, parse
from herdproof.pipeline.judging.events import (
    Assigned,
    Began,
    Commanded,
    Committed,
    Deposed,
    Elected,
    Ended,
    Event,
    Heard,
    Joined,
    Left,
    Missing,
    Noted,
    Partition,
    ProcessStarted,
    Rebalance,
    RebalanceFailed,
    Renewed,
    Reported,
    Requested,
    Settled,
    Share,
    TopicsChanged,
    Unneeded,
    Wrote,
)
from herdproof.protocols.central_coordinator.steps import LEFT

CONNECTIONS = 16
"""So many of a consumer's last connections are remembered: a coordinator may lag behind."""


class Coordinator:
    """What is known of one coordinator's process."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.topics: dict[str, tuple[str, ...]] = {}
        self.members: dict[str, tuple[str, int]] = {}
        """By registration: its consumer and connection."""
        self.writes: dict[int, tuple[Any, tuple[Share, ...] | None, int]] = {}
        """By number, those that are not answered: the line, what was to be shared out, members."""
        self.noted: dict[str, tuple[int, Any]] = {}
        """By registration, what it has told last, of which generation."""
        self.changed = True
        """Whether members or topics have changed since the plan can have been made."""

    def forget(self) -> None:
        """It coordinates no more."""
        self.epoch = None
        self.topics.clear()
        self.members.clear()
        self.writes.clear()
        self.noted.clear()


class Consumer:
    """What is known of one consumer's process."""

    def __init__(self) -> None:
        self.epoch = 0
        self.until_ns = 0
        self.has: dict[Partition, int] = {}
        """What it may deliver, and up to where it has said to have finished."""
        self.generation = 0


class CentralTeller:
    """Tells one group's lines, one after the other."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._coordinators: dict[str, Coordinator] = {}
        self._consumers: dict[str, Consumer] = {}
        self._subscriptions: dict[str, dict[int, str]] = {}
        """By consumer and connection: what was subscribed to."""
        self._accepted: dict[str, dict[int, None]] = {}
        """By consumer, its connections that a coordinator has told of."""
        self._perhaps: dict[int, tuple[Any, tuple[Share, ...] | None, int]] = {}
        """By generation, the writes of owners of which nobody knows whether they were done."""
        self._generation = 0
        """The latest that is known to be stored."""
        self._read_back = (0, 0)
        """The generation, and its epoch, whose write was told when a coordinator had read it."""
        self._untold: set[str] = set()
        """Which roles are known to have traces that are not there."""

    def tell(self, line: Any) -> list[Event]:
        """What a line, the next one in order, says that happened."""
        tells = _TELLS.get((line.role, line.action))
        return [] if tells is None else tells(self, line)

    def _coordinator(self, line: Any) -> Coordinator:
        known = self._coordinators.get(line.node)
        if known is None:
            known = self._coordinators[line.node] = Coordinator()
        return known

    # ── Consumers ───────────────────────────────────────────────────────────────────────────

    def _consumer_starts(self, line: Any) -> list[Event]:
        self._consumers[line.node] = Consumer()
        return [_at(ProcessStarted, line, role="consumer")]

    def _register(self, line: Any) -> list[Event]:
        known = self._subscriptions.setdefault(line.consumer, {})
        known.pop(line.connection, None)
        known[line.connection] = line.subscription
        _shorten(known)
        return self._consumer_tells(line, [])

    def _commit(self, line: Any) -> list[Event]:
        return self._consumer_tells(line, self._reports(line))

    def _obey(self, line: Any) -> list[Event]:
        """A request was carried out and answered."""
        what = line.action[7:]
        told: list[Event] = [
            Commanded(
                time_ns=line.time_ns, place=line.place, epoch=line.epoch,
                generation=line.generation, node=line.node, what=what,
                consumer=line.consumer, connection=line.connection,
            )
        ]  # fmt: skip
        if line.connection not in self._accepted.get(line.consumer, ()):
            told += self._not_told(line, "coordinator", f"who accepted {line.consumer}")
        if what != "start":
            told += self._reports(line)
        elif not line.outcome:
            return told + self._begins(line)
        return self._consumer_tells(line, told)

    def _reports(self, line: Any) -> list[Event]:
        """What it has finished, where that is news."""
        if not line.partitions:
            return []
        has = self._consumer(line).has
        asks = line.action == "commit"
        told: list[Event] = []
        for topic, number, offset in line.partitions:
            partition = (topic, number)
            if offset < 0 or (has.get(partition) == offset and not asks):
                continue
            if partition in has:
                has[partition] = offset
            told.append(
                Reported(
                    time_ns=line.time_ns, place=line.place, generation=line.generation,
                    node=line.node, consumer=line.consumer, partition=partition, offset=offset,
                    asks=asks,
                )
            )  # fmt: skip
        return told

    def _begins(self, line: Any) -> list[Event]:
        """It fetches what a Start names, unless it does already."""
        consumer = self._consumer(line)
        same = {(t, n) for t, n, _ in line.partitions} == consumer.has.keys()
        if same and consumer.has and consumer.generation == line.generation:
            return self._consumer_tells(line, [])
        told = self._ends(line, "stopped")
        consumer.generation, consumer.epoch = line.generation, max(consumer.epoch, line.epoch)
        consumer.until_ns = line.until_ns
        for topic, number, offset in line.partitions:
            consumer.has[topic, number] = -2 if offset < 0 else offset
            told.append(
                Began(
                    time_ns=line.time_ns, place=line.place, epoch=line.epoch,
                    generation=line.generation, node=line.node, consumer=line.consumer,
                    partition=(topic, number), offset=offset, until_ns=line.until_ns,
                    connection=line.connection,
                )
            )  # fmt: skip
        return told

    def _consumer_tells(self, line: Any, told: list[Event]) -> list[Event]:
        """What every line of a consumer says: its lease, and the epoch that it has heard of."""
        consumer = self._consumer(line)
        if line.epoch > consumer.epoch:
            consumer.epoch = line.epoch
            told.append(_at(Heard, line, epoch=line.epoch))
        if line.until_ns != consumer.until_ns:
            consumer.until_ns = line.until_ns
            if line.until_ns > line.time_ns:
                told.append(
                    Renewed(
                        time_ns=line.time_ns, place=line.place, node=line.node,
                        consumer=line.consumer, until_ns=line.until_ns,
                    )
                )  # fmt: skip
        # Who fetches no more may still wind up, until it has answered the Stop or is lost.
        ends = _ENDS.get(line.action)
        if ends is not None and consumer.has and line.until_ns <= line.time_ns:
            told += self._ends(line, ends)
        return told

    def _ends(self, line: Any, how: str) -> list[Event]:
        has = self._consumer(line).has
        told: list[Event] = [
            _at(Ended, line, generation=line.generation or None, consumer=line.consumer,
                partition=partition, how=how, offset=offset if offset >= 0 else None)
            for partition, offset in has.items()
        ]  # fmt: skip
        has.clear()
        return told

    def _lost_connection(self, line: Any) -> list[Event]:
        return self._consumer_tells(line, [])

    def _consumer(self, line: Any) -> Consumer:
        known = self._consumers.get(line.node)
        if known is None:
            known = self._consumers[line.node] = Consumer()
        return known

    def _not_told(self, line: Any, role: str, who: str) -> list[Event]:
        """Somebody has no trace: what those of this role tell is not all."""
        if role in self._untold:
            return []
        self._untold.add(role)
        why = f"{who} has no trace here"
        return [_at(Missing, line, why=why, role=role, lasting=True)]

    # ── Coordinators ────────────────────────────────────────────────────────────────────────

    def _coordinator_starts(self, line: Any) -> list[Event]:
        self._in_doubt(self._coordinator(line))
        self._coordinators[line.node] = Coordinator()
        return [_at(ProcessStarted, line, role="coordinator")]

    def _coordinator_startup(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        own.forget()
        own.epoch = line.epoch
        return [_at(Elected, line, epoch=line.epoch)]

    def _step_down(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        self._in_doubt(own)
        own.forget()
        return [_at(Deposed, line, epoch=line.epoch)]

    def _topic(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        for topic in {t for t, _, _ in line.partitions}:
            own.topics[topic] = tuple(n for t, n, _ in line.partitions if t == topic)
        own.changed = True
        return [_at(TopicsChanged, line, epoch=own.epoch)]

    def _registered(self, line: Any) -> list[Event]:
        if line.outcome != "accepted":
            return []
        own = self._coordinator(line)
        own.members[line.member] = (line.consumer, line.connection)
        own.changed = True
        known = self._accepted.setdefault(line.consumer, {})
        known[line.connection] = None
        _shorten(known)
        told = [
            _at(Joined, line, epoch=own.epoch, member=line.member, consumer=line.consumer,
                connection=line.connection)
        ]  # fmt: skip
        if line.connection not in self._subscriptions.get(line.consumer, ()):
            told += self._not_told(line, "consumer", line.consumer)
        return told

    def _member_gone(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        own.members.pop(line.member, None)
        own.noted.pop(line.member, None)
        own.changed = True
        how = "failed" if line.action == "fail" else "closed"
        how = "left" if line.outcome == LEFT else how
        return [
            _at(Left, line, epoch=own.epoch, member=line.member, consumer=line.consumer, how=how)
        ]

    def _begin_rebalance(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        own.changed = False
        told = self._was_written(line, own)
        if line.outcome == "necessary":
            told.append(_at(Rebalance, line, epoch=own.epoch))
        else:
            told.append(
                _at(Unneeded, line, epoch=own.epoch, generation=line.generation,
                    subscribed=self._shares(own))
            )  # fmt: skip
        return told

    def _was_written(self, line: Any, reader: Coordinator) -> list[Event]:
        """Who has read that a generation is stored: a write in doubt was done."""
        if line.generation <= self._generation:
            return []
        for other in self._coordinators.values():
            if other is not reader:
                self._in_doubt(other)
        write = self._perhaps.get(line.generation)
        self._generation = line.generation
        if write is not None:
            self._read_back = (write[0].generation, write[0].epoch)
        self._perhaps = {g: w for g, w in self._perhaps.items() if g > line.generation}
        return [] if write is None else self._assigned(line, *write)

    def _send(self, line: Any) -> list[Event]:
        return [
            Requested(
                time_ns=line.time_ns, place=line.place, epoch=self._coordinator(line).epoch,
                generation=line.generation, node=line.node, what=line.action[5:],
                consumer=line.consumer, member=line.member, connection=line.connection,
                partitions=_offsets(line.partitions),
            )
        ]  # fmt: skip

    def _response(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        if line.action == "handle_stop_response":
            own.changed = False
        said = (line.generation, line.partitions)
        if not line.partitions or own.noted.get(line.member) == said:
            return []
        own.noted[line.member] = said
        return [
            Noted(
                time_ns=line.time_ns, place=line.place, epoch=own.epoch,
                generation=line.generation, node=line.node, member=line.member,
                consumer=line.consumer, partitions=_offsets(line.partitions),
            )
        ]  # fmt: skip

    def _handle_commit(self, line: Any) -> list[Event]:
        epoch = self._coordinator(line).epoch
        return [
            _at(Committed, line, epoch=epoch, generation=line.generation, partition=partition,
                offset=offset, outcome=line.outcome, consumer=line.consumer, member=line.member)
            for partition, offset in _offsets(line.partitions)
        ]  # fmt: skip

    def _finish(self, line: Any) -> list[Event]:
        return [_at(Settled, line, epoch=self._coordinator(line).epoch, generation=line.generation)]

    def _fail(self, line: Any) -> list[Event]:
        epoch = self._coordinator(line).epoch
        return [_at(RebalanceFailed, line, epoch=epoch, generation=line.generation)]

    # ── Writes ──────────────────────────────────────────────────────────────────────────────

    def _asks(self, line: Any) -> list[Event]:
        """A write is sent; what was to be shared out is known now, if at all."""
        own = self._coordinator(line)
        shares = None
        if line.action == "write_owners" and not own.changed:
            shares = self._shares(own)
        own.writes[line.number] = (line, shares, len(own.members))
        return []

    def _shares(self, own: Coordinator) -> tuple[Share, ...] | None:
        """What the members of a coordinator have subscribed to; None where one is not known."""
        wanted: list[tuple[str, str]] = []
        for member, (consumer, connection) in own.members.items():
            text = self._subscriptions.get(consumer, {}).get(connection)
            if text is None or streams(text, "") is None:
                return None
            wanted.append((member, text))
        shares = []
        for topic, numbers in sorted(own.topics.items()):
            every = ((member, streams(text, topic)) for member, text in wanted)
            threads = tuple((member, count) for member, count in every if count)
            if threads:
                shares.append((topic, numbers, threads))
        return tuple(shares)

    def _answered(self, line: Any) -> list[Event]:
        own = self._coordinator(line)
        write = own.writes.pop(line.number, None)
        if write is None:
            return []
        asked = write[0]
        if asked.action == "write_owners":
            return self._owners_answered(line, *write)
        if line.outcome == "refused":
            return []
        done = line.outcome == "done"
        told: list[Event] = []
        if done:
            told = [_at(Wrote, line, epoch=asked.epoch, asked_ns=asked.time_ns)]
        told += [
            _at(Committed, line, epoch=asked.epoch, partition=partition, offset=offset,
                outcome="stored" if done else "unknown")
            for partition, offset in _offsets(asked.partitions)
        ]  # fmt: skip
        return told

    def _owners_answered(
        self, line: Any, asked: Any, shares: tuple[Share, ...] | None, members: int
    ) -> list[Event]:
        if line.outcome == "done":
            wrote = _at(Wrote, line, epoch=asked.epoch, asked_ns=asked.time_ns)
            if self._read_back == (asked.generation, asked.epoch):
                return [wrote]  # its successor has read it, and it was told then
            self._generation = max(self._generation, asked.generation)
            self._perhaps = {g: w for g, w in self._perhaps.items() if g > asked.generation}
            return [wrote, *self._assigned(line, asked, shares, members)]
        if line.outcome == "unknown":
            self._perhaps[asked.generation] = (asked, shares, members)
        return []

    def _assigned(
        self, line: Any, asked: Any, shares: tuple[Share, ...] | None, members: int
    ) -> list[Event]:
        owners = tuple(((topic, number), member) for topic, number, member in asked.owners)
        return [
            Assigned(
                time_ns=line.time_ns, place=asked.place, epoch=asked.epoch,
                generation=asked.generation, node=asked.node, owners=owners, members=members,
                subscribed=shares,
            )
        ]  # fmt: skip

    def _in_doubt(self, own: Coordinator) -> None:
        """Writes of owners that will not be answered may have been done."""
        for write in own.writes.values():
            if write[0].action == "write_owners":
                self._perhaps[write[0].generation] = write


@lru_cache(maxsize=65_536)
def streams(subscription: str, topic: str) -> int | None:
    """How many streams of a topic a subscription wants; None where it is none."""
    try:
        return parse(subscription).streams(topic)
    except InvalidSubscription:
        return None


def _at(made: Any, line: Any, **told: Any) -> Any:
    """An event at a line."""
    return made(time_ns=line.time_ns, place=line.place, node=line.node, **told)


def _offsets(partitions: Iterable[tuple[str, str, int]]) -> tuple[tuple[Partition, int], ...]:
    return tuple(((topic, number), offset) for topic, number, offset in partitions)


def _shorten(known: dict[int, Any]) -> None:
    """Forget the oldest connection, where there are too many."""
    if len(known) > CONNECTIONS:
        del known[next(iter(known))]


_ENDS = {"handle_stop": "stopped", "on_lost_connection": "lost_connection"}
"""How an interval ends with a line, if its consumer may deliver nothing any more."""

_TELLS = {
    ("consumer", "start"): CentralTeller._consumer_starts,
    ("consumer", "register"): CentralTeller._register,
    ("consumer", "handle_ping"): CentralTeller._obey,
    ("consumer", "handle_stop"): CentralTeller._obey,
    ("consumer", "handle_start"): CentralTeller._obey,
    ("consumer", "commit"): CentralTeller._commit,
    ("consumer", "renew_lease"): CentralTeller._lost_connection,
    ("consumer", "on_lost_connection"): CentralTeller._lost_connection,
    ("coordinator", "start"): CentralTeller._coordinator_starts,
    ("coordinator", "coordinator_startup"): CentralTeller._coordinator_startup,
    ("coordinator", "step_down"): CentralTeller._step_down,
    ("coordinator", "topic_change_listener"): CentralTeller._topic,
    ("coordinator", "handle_register"): CentralTeller._registered,
    ("coordinator", "handle_closed"): CentralTeller._member_gone,
    ("coordinator", "fail"): CentralTeller._member_gone,
    ("coordinator", "begin_rebalance"): CentralTeller._begin_rebalance,
    ("coordinator", "send_ping"): CentralTeller._send,
    ("coordinator", "send_stop"): CentralTeller._send,
    ("coordinator", "send_start"): CentralTeller._send,
    ("coordinator", "handle_ping_response"): CentralTeller._response,
    ("coordinator", "handle_stop_response"): CentralTeller._response,
    ("coordinator", "handle_commit"): CentralTeller._handle_commit,
    ("coordinator", "finish_rebalance"): CentralTeller._finish,
    ("coordinator", "fail_rebalance"): CentralTeller._fail,
    ("coordinator", "flush_offsets"): CentralTeller._asks,
    ("coordinator", "write_owners"): CentralTeller._asks,
    ("coordinator", "answered"): CentralTeller._answered,
}
