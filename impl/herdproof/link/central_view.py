"""What a whole trace of system B tells about one group, known before its replay begins."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from herdproof.central_coordinator.tracing import COORDINATOR, CentralLine
from herdproof.link.central_lines import Placed
from herdproof.wire.subscription import InvalidSubscription, Subscription, parse

Partition = tuple[str, str]
Key = tuple[str, int, int]
"""A connection: its consumer's id, the consumer's process (1, 2, …), the connection's number."""

MODELLED = frozenset({"accepted", "NOT_COORDINATOR", "STALE_EPOCH"})
"""Outcomes of a Register that the spec knows."""


@dataclass
class View:
    """One group of one run; what it numbers, it numbers in order of appearance or of size."""

    placed: Sequence[Placed]
    group: str
    brokers: dict[str, int] = field(default_factory=dict)
    partitions: dict[Partition, int] = field(default_factory=dict)
    stored: dict[Partition, int] = field(default_factory=dict)
    """Offsets that were stored before the trace begins."""
    most_members: int = 0
    """How many connections there were: no more members of the spec can be needed."""
    consumers: int = 0
    started: set[str] = field(default_factory=set)
    """The brokers of which a process has been seen, as far as the replay has come."""
    _offsets: dict[Partition, list[int]] = field(default_factory=dict)
    _epochs: dict[int, int] = field(default_factory=dict)
    """Their places."""
    _winners: dict[int, str] = field(default_factory=dict)
    _topics: list[CentralLine] = field(default_factory=list)
    _base: int = 0
    _handled: dict[Key, str] = field(default_factory=dict)
    flushes: dict[str, list[CentralLine]] = field(default_factory=dict)
    """By node, its writes of offsets."""
    _lives: dict[int, int] = field(default_factory=dict)
    """By line, which process of its node it is of."""
    _keys: dict[int, Key] = field(default_factory=dict)
    """By line, the connection that it is about."""
    _subscriptions: dict[str, Subscription | None] = field(default_factory=dict)
    _wanted: dict[str, Collection[int]] = field(default_factory=dict)
    """By subscription, the numbers of its partitions."""

    @classmethod
    def of(cls, placed: Sequence[Placed], group: str) -> View:
        """Look at every line once."""
        view = cls(placed, group)
        view._look()
        view._find_partitions()
        view._epochs = {epoch: rank for rank, epoch in enumerate(sorted(view._winners), start=1)}
        for offsets in view._offsets.values():
            offsets[:] = sorted(set(offsets) - {-1})
        view.most_members = len(view._handled)
        view.consumers = len({consumer for consumer, _, _ in view._handled})
        return view

    def _look(self) -> None:
        """A coordinator's line is about the latest connection of that consumer and number."""
        lives: dict[tuple[str, str], int] = {}
        latest: dict[tuple[str, int], Key] = {}
        for line, _, _ in self.placed:
            action, about = line.action, (line.consumer, line.connection)
            if line.role == COORDINATOR:
                self.brokers.setdefault(line.node, len(self.brokers))
            if action == "start":
                lives[line.role, line.node] = lives.get((line.role, line.node), 0) + 1
            if line.number or action == "register":
                self._lives[id(line)] = lives.get((line.role, line.node), 0)
            if line.connection:
                if line.role != COORDINATOR:
                    life = lives.get((line.role, line.node), 0)
                    latest[about] = (line.consumer, life, line.connection)
                self._keys[id(line)] = latest.get(about) or (*about, 0)
            if action in _OF_ALL:
                _OF_ALL[action](self, line)
            elif line.group == self.group:
                if action in _OF_ONE:
                    _OF_ONE[action](self, line)
                for topic, number, offset in line.partitions:
                    self._offsets.setdefault((topic, number), []).append(offset)

    def _look_at_winner(self, line: CentralLine) -> None:
        self._winners[line.epoch] = line.node

    def _look_at_topic(self, line: CentralLine) -> None:
        self._topics.append(line)

    def _look_at_register(self, line: CentralLine) -> None:
        self._subscription(line.subscription)

    def _look_at_registered(self, line: CentralLine) -> None:
        if line.outcome in MODELLED:
            self._handled[self.connection(line)] = line.node

    def _look_at_flush(self, line: CentralLine) -> None:
        self.flushes.setdefault(line.node, []).append(line)

    def _look_at_owners(self, line: CentralLine) -> None:
        self._base = self._base or line.generation

    def _look_at_start(self, line: CentralLine) -> None:
        for topic, number, offset in line.partitions:
            # The first time anybody says it, before any offset was written.
            if (topic, number) not in self._offsets and offset >= 0:
                self.stored[topic, number] = offset

    def _find_partitions(self) -> None:
        """Those of the topics that anybody of the group ever wants."""
        wanted = [s for s in self._subscriptions.values() if s is not None]
        for line in self._topics:
            for topic, number, _ in line.partitions:
                if any(subscription.streams(topic) for subscription in wanted):
                    self.partitions.setdefault((topic, number), len(self.partitions))

    def _subscription(self, text: str) -> Subscription | None:
        if text not in self._subscriptions:
            try:
                self._subscriptions[text] = parse(text)
            except InvalidSubscription:
                self._subscriptions[text] = None
        return self._subscriptions[text]

    # ── Names and numbers ───────────────────────────────────────────────────────────────────

    def wanted(self, line: CentralLine) -> Collection[int]:
        """The partitions that a Register asks for, by their numbers."""
        text = line.subscription
        if text not in self._wanted:
            subscription = self._subscription(text)
            self._wanted[text] = [
                index
                for (topic, _), index in self.partitions.items()
                if subscription is not None and subscription.streams(topic)
            ]
        return self._wanted[text]

    def rank(self, partition: Partition, offset: int) -> int:
        """The place of an offset among all that the trace tells of its partition; 0 for none."""
        return 0 if offset < 0 else bisect_left(self._offsets[partition], offset) + 1

    def epoch(self, epoch: int) -> int:
        """The place of an epoch among those that anybody coordinated in."""
        return self._epochs.get(epoch, 0)

    def winner(self, place: int) -> str:
        """The node that coordinated in the epoch at this place."""
        return next(node for epoch, node in self._winners.items() if self.epoch(epoch) == place)

    def generation(self, generation: int) -> int:
        """A generation, counted from the first that the trace tells."""
        return max(0, generation - self._base + 1) if self._base else 0

    def shown(self, p: Any) -> str:
        """A partition of the spec by its name."""
        topic, number = next(name for name, index in self.partitions.items() if index == p.index)
        return f"{topic}-{number}"

    # ── Processes and connections ───────────────────────────────────────────────────────────

    def process(self, line: CentralLine) -> tuple[str, int]:
        """The consumer's process that a line of its own is of."""
        return line.consumer, self._lives[id(line)]

    def connection(self, line: CentralLine) -> Key:
        """The connection that a line is about."""
        return self._keys[id(line)]

    def handled(self, line: CentralLine) -> str | None:
        """The node that handled this connection's Register, if any did."""
        return self._handled.get(self.connection(line))

    def ordered(self) -> Iterator[tuple[int, Placed]]:
        """The lines that concern this group, in the order of time, with their numbers."""
        group = self.group
        return ((k, p) for k, p in enumerate(self.placed) if p.line.group in ("", group))


_OF_ALL: Mapping[str, Callable[[View, CentralLine], None]] = {
    "coordinator_startup": View._look_at_winner,
    "topic_change_listener": View._look_at_topic,
}
"""What is looked at of lines that concern all groups."""
_OF_ONE: Mapping[str, Callable[[View, CentralLine], None]] = {
    "register": View._look_at_register,
    "handle_register": View._look_at_registered,
    "flush_offsets": View._look_at_flush,
    "write_owners": View._look_at_owners,
    "send_start": View._look_at_start,
}
"""And of the group's own."""


class NoElement(Exception):
    """A trace has more connections than the spec has members."""


@dataclass
class Connection:
    """A consumer's connection to its coordinator, as the replay has it."""

    member: Any
    until_ns: int = 0
    handled: bool = False
    """Its Register was."""
    released: bool = False
    """Its consumer has given it up."""
    epoch: int = 0
    """The latest epoch that its consumer's process has heard of."""
    commits: int = 0
    """How many commits are on their way in the spec, too."""
    unsent: deque[CentralLine] = field(default_factory=deque)
    """What it has sent that the spec cannot yet: a commit behind an answer, and what follows."""


class Connections:
    """Which element of the spec stands for which connection."""

    def __init__(self, members: Sequence[Any]) -> None:
        self._free = list(members)
        self.begun: dict[Key, Connection] = {}
        self._present: dict[tuple[str, int], Connection] = {}
        """By process, its latest connection."""
        self._of: dict[Any, Connection] = {}
        self._registrations: dict[str, Any] = {}

    def begin(
        self, key: Key, process: tuple[str, int], is_gone: Callable[[Any], bool]
    ) -> Connection:
        """A connection begins: an element that is gone stands for it, its process's own first."""
        former = self._present.get(process)
        used = [*([former.member] if former else []), *self._of]
        member = next((m for m in used if is_gone(m)), None)
        if member is None:
            if not self._free:
                raise NoElement
            member = self._free.pop(0)
        connection = Connection(member, epoch=0 if former is None else former.epoch)
        self.begun[key] = self._present[process] = self._of[member] = connection
        return connection

    def name(self, registration: str, connection: Connection) -> None:
        """A coordinator calls a connection's registration so."""
        self._registrations[registration] = connection.member

    def registered(self, registration: str) -> Any:
        """The element behind a registration."""
        return self._registrations[registration]

    def present(self, member: Any) -> Connection:
        """The latest connection that a member stands for."""
        return self._of[member]

    def is_over(self, member: Any, time_ns: int) -> bool:
        """Whether a member was released by its consumer, or its lease has run out by then."""
        connection = self._of[member]
        return connection.released or connection.until_ns <= time_ns
