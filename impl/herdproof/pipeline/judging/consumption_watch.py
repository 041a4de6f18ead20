"""
Who may deliver what, watched: intervals of ownership, and the sentences that are about them.

A consumer may deliver a partition's records from its Start until it says that it does not, or its
lease is over, whichever comes first. A lease is its process's, for all that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.findings import Findings, name_of

SECOND = 1_000_000_000
FOR_EVER = 2**62
"""The lease of who has none."""


class Interval(Struct, kw_only=True):
    """A consumer's interval of a partition that has not ended."""

    node: str
    consumer: str
    member: str | None
    partition: e.Partition
    epoch: int | None
    generation: int | None
    from_ns: int
    from_offset: int | None
    """None: none was stored, and the consumer has not said what the reset came to."""
    to_offset: int | None = None
    known: bool = True
    resolved: int | None = None
    """What its consumer said first, where none was stored."""
    asked: bool = False
    """Whether its consumer has asked for that to be stored, or the source does not tell."""
    gone_ns: int | None = None
    """When its coordinator counted its member as gone."""


class Offsets:
    """By partition, what is stored, and up to where all is finished; both as far as is told."""

    def __init__(self) -> None:
        self.stored: dict[e.Partition, int] = {}
        self.finished: dict[e.Partition, int] = {}
        """From the first that was stored on."""
        self.doubted: set[e.Partition] = set()
        """
        Of these, until the next one begins with it, somebody may have finished more than is told:
        what was said is missing, or that he has it no more.
        """


class Consumption:
    """Intervals, and what is promised of them."""

    HEARS: ClassVar[Mapping[type[e.Event], str]] = {
        e.ProcessStarted: "started", e.Began: "began", e.Renewed: "renewed", e.Ended: "ended",
        e.Reported: "reported", e.Joined: "joined", e.Left: "left", e.Deposed: "deposed",
    }  # fmt: skip

    def __init__(self, findings: Findings, offsets: Offsets) -> None:
        self._found = findings
        self._offsets = offsets
        self._of: dict[e.Partition, list[Interval]] = {}
        """By partition, the intervals that have not ended."""
        self._has: dict[str, dict[e.Partition, Interval]] = {}
        """By node, the same."""
        self._leases: dict[str, int] = {}
        self._lapsed: dict[str, dict[e.Partition, None]] = {}
        """By node, what somebody else has got after its lease was over."""
        self._shared: set[e.Partition] = set()
        """Partitions of more than one interval."""
        self._last: dict[e.Partition, int] = {}
        """When the last interval of a partition that nobody has ended."""
        self._members: dict[tuple[str, int | None], str] = {}
        """By consumer and connection, the registration."""
        self._connections: dict[str, tuple[tuple[str, int | None], str | None]] = {}
        """By registration, the other way round, and whose it is."""
        self._nodes: dict[str, str] = {}
        """By registration, the node that has begun as it."""
        self.zombies = 0
        self.downtime_ns = 0
        self.again = 0

    # ── Beginning and ending ────────────────────────────────────────────────────────────────

    def started(self, event: e.ProcessStarted) -> None:
        """A process starts: the one before is no more."""
        node = event.node
        if event.role != "consumer" or node is None:
            self.deposed(event)
            return
        for interval in list(self._has.get(node, {}).values()):
            self._close(interval, event.time_ns, "lease_over")
        self._leases.pop(node, None)
        self._lapsed.pop(node, None)

    def began(self, event: e.Began) -> None:
        """A consumer has a partition."""
        found, partition, now = self._found, event.partition, event.time_ns
        node = event.node or event.consumer
        found.checked["EXCLUSIVE"] += 1
        found.note(event, partition, event.consumer)
        self._leases[node] = FOR_EVER if event.until_ns is None else event.until_ns
        for other in list(self._of.get(partition, ())):
            if other.node == node:
                self._close(other, now, "stopped")
            elif self._leases[other.node] <= now:
                self._close(other, now, "lease_over")
                self._lapsed.setdefault(other.node, {})[partition] = None
            else:
                self._two_at_once(event, other)
        self._lapsed.get(node, {}).pop(partition, None)
        self._measure(event)
        self._begins_at(event)
        member = self._members.get((event.consumer, event.connection))
        if member is not None:
            self._nodes[member] = node
        interval = Interval(
            node=node, consumer=event.consumer, member=member, partition=partition,
            epoch=event.epoch, generation=event.generation, from_ns=now,
            from_offset=None if event.offset < 0 else event.offset,
        )  # fmt: skip
        self._has.setdefault(node, {})[partition] = interval
        own = self._of.setdefault(partition, [])
        own.append(interval)
        if len(own) > 1:
            self._shared.add(partition)

    def renewed(self, event: e.Renewed) -> None:
        """A consumer's lease is longer."""
        node = event.node or event.consumer
        self._leases[node] = event.until_ns
        if not self._shared and node not in self._lapsed:
            return
        self._found.checked["EXCLUSIVE"] += 1
        if event.until_ns <= event.time_ns:
            return
        for partition in self._lapsed.pop(node, ()):
            for other in self._of.get(partition, ()):
                if other.node != node and self._leases[other.node] > event.time_ns:
                    self._two_at_once(event, other)

    def ended(self, event: e.Ended) -> None:
        """A consumer delivers nothing of a partition any more."""
        node = event.node or event.consumer
        self._found.note(event, event.partition, event.consumer)
        interval = self._has.get(node, {}).get(event.partition)
        if interval is None:
            self._lapsed.get(node, {}).pop(event.partition, None)
            return
        if event.offset is not None:
            interval.to_offset = event.offset
        self._close(interval, event.time_ns, event.how)

    def _close(self, interval: Interval, now: int, how: str) -> None:
        """An interval ends now, or ended when its lease was over."""
        lease = self._leases.get(interval.node, FOR_EVER)
        to_ns = max(interval.from_ns, min(now, lease))
        if lease < now:
            how = "lease_over"
        self._row(interval, to_ns, how)
        partition = interval.partition
        del self._has[interval.node][partition]
        own = self._of[partition]
        own.remove(interval)
        if len(own) < 2:
            self._shared.discard(partition)
        if not own:
            self._last[partition] = to_ns
        if interval.gone_ns is not None and to_ns > interval.gone_ns:
            self._zombie(interval, to_ns)

    def _row(self, interval: Interval, to_ns: int | None, how: str) -> None:
        topic, number = interval.partition
        self._found.row(
            "ownership", topic=topic, partition=number, consumer=interval.consumer,
            member=interval.member, epoch=interval.epoch, generation=interval.generation,
            from_ns=interval.from_ns, to_ns=to_ns, from_offset=interval.from_offset,
            to_offset=interval.to_offset, ended=how, known=interval.known,
        )  # fmt: skip

    def _two_at_once(self, event: e.Began | e.Renewed, other: Interval) -> None:
        if not other.known:
            return
        self._found.violate(
            "EXCLUSIVE", event,
            f"{name_of(other.partition)} is consumed by {other.consumer} and by {event.consumer}",
            (other.partition, other.consumer),
        )  # fmt: skip

    # ── Figures ─────────────────────────────────────────────────────────────────────────────

    def _measure(self, event: e.Began) -> None:
        """How long nobody had the partition."""
        ended_ns = self._last.pop(event.partition, None)
        if ended_ns is not None and not self._of.get(event.partition):
            waited = max(0, event.time_ns - ended_ns)
            self.downtime_ns += waited
            self._found.figure(
                "partition_downtime_s", waited / SECOND, event.time_ns,
                name_of(event.partition),
            )  # fmt: skip

    def joined(self, event: e.Joined) -> None:
        """A connection is a registration."""
        connection = (event.consumer, event.connection)
        self._members[connection] = event.member
        self._connections[event.member] = (connection, event.node)

    def left(self, event: e.Left) -> None:
        """A member is counted as gone, though it may still deliver."""
        node = self._nodes.get(event.member)
        self._forget(event.member)
        if node is not None:
            for interval in self._has.get(node, {}).values():
                if interval.member == event.member and interval.gone_ns is None:
                    interval.gone_ns = event.time_ns

    def deposed(self, event: e.Event) -> None:
        """Whoever was a member there is none any more, and may deliver until its lease is over."""
        for member in [m for m, (_, node) in self._connections.items() if node == event.node]:
            self._forget(member)

    def _forget(self, member: str) -> None:
        self._nodes.pop(member, None)
        known = self._connections.pop(member, None)
        if known is not None:
            self._members.pop(known[0], None)

    def _zombie(self, interval: Interval, to_ns: int) -> None:
        """For so long it could deliver after it was counted as gone; told once for all it had."""
        gone_ns = interval.gone_ns
        assert gone_ns is not None, "who calls has looked"
        self.zombies += 1
        self._found.figure(
            "zombie_s", (to_ns - gone_ns) / SECOND, to_ns, interval.member or interval.consumer
        )
        for other in self._has[interval.node].values():
            if other.gone_ns == gone_ns:
                other.gone_ns = None

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def _begins_at(self, event: e.Began) -> None:
        """A new owner starts at or before the first offset not yet processed."""
        offset, finished = event.offset, self._offsets.finished
        self._offsets.doubted.discard(event.partition)
        if offset < 0:
            return
        first = finished.get(event.partition)
        if first is None:
            finished[event.partition] = offset
            return
        self._found.checked["NOTHING_SKIPPED"] += 1
        if offset > first:
            finished[event.partition] = offset
            self._found.violate(
                "NOTHING_SKIPPED", event,
                f"{event.consumer} begins {name_of(event.partition)} at {offset}; nobody has "
                f"finished {first}",
                (event.partition, event.consumer),
            )  # fmt: skip
        elif offset < first:
            self.again += first - offset
            self._found.figure(
                "redelivered", first - offset, event.time_ns, name_of(event.partition)
            )

    def reported(self, event: e.Reported) -> None:
        """A consumer says up to where it has finished."""
        node = event.node or event.consumer
        partition, offset = event.partition, event.offset
        self._found.note(event, partition)
        interval = self._has.get(node, {}).get(partition)
        first = self._offsets.finished.get(partition)
        if interval is None:
            if first is not None and offset > first:
                self._offsets.finished[partition] = offset
            return
        if interval.from_offset is None:
            interval.from_offset = offset
            if interval.known:  # else it may have said something else before, and asked for that
                interval.resolved = offset
        interval.to_offset = offset
        if interval.resolved is not None:
            self._stored_first(event, interval, interval.resolved, stored=first is not None)
        if first is not None and offset > first and interval.from_offset <= first:
            self._offsets.finished[partition] = offset

    def _stored_first(
        self, event: e.Reported, interval: Interval, resolved: int, *, stored: bool
    ) -> None:
        """
        A start that was resolved by reset is stored before the first delivery.

        Who has never asked for it cannot know that it is, and should not have delivered either.
        """
        self._found.checked["STORED_FIRST"] += 1
        interval.asked = interval.asked or event.asks is not False
        if event.offset == resolved:
            return
        interval.resolved = None
        if stored and interval.asked:
            return
        if not stored:
            self._offsets.finished[event.partition] = event.offset
        why = "has not asked for its start to be stored" if stored else "no offset of it is stored"
        self._found.violate(
            "STORED_FIRST", event,
            f"{event.consumer} has finished {name_of(event.partition)} up to {event.offset}; {why}",
            (event.partition, event.consumer),
        )  # fmt: skip

    # ── Doubt, and the end ──────────────────────────────────────────────────────────────────

    def unsure(self) -> None:
        """Something is missing: what is live may have changed."""
        for own in self._has.values():
            for interval in own.values():
                interval.known = False
                interval.resolved = None
        self._last.clear()
        self._lapsed.clear()
        self._offsets.doubted.update(self._offsets.finished, self._of)
        self._offsets.finished.clear()

    def close(self, last_ns: int) -> None:
        """Nothing more comes: what is open ended when its lease was over, or is open still."""
        for node in sorted(self._has):
            for partition in sorted(self._has[node]):
                interval = self._has[node][partition]
                if self._leases[node] <= last_ns:
                    self._close(interval, last_ns, "lease_over")
                else:
                    self._row(interval, None, "open")
