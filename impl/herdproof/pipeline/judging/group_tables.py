"""Generations and memberships of a group, as rows, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

from herdproof.consuming.assignment import uneven_share
from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.consumption_watch import SECOND
from herdproof.pipeline.judging.findings import Findings, name_of


class Generation(Struct, kw_only=True):
    """The generation that is being made, or is the present one."""

    epoch: int | None
    coordinator: str | None
    begun_ns: int | None
    generation: int | None = None
    written_ns: int | None = None
    settled_ns: int | None = None
    members: int | None = None
    partitions: int | None = None
    trouble: str = ""
    """What is not complete in it."""
    changes: int = 0
    """How much had changed in the group when it was written."""
    judged: bool = False
    """Whether it is known what was to be shared out."""


class Member(Struct, kw_only=True):
    """A member that lives, as far as its coordinator knows."""

    consumer: str
    node: str | None
    joined_ns: int


class Groups:
    """Rebalances, generations, members."""

    HEARS: ClassVar[Mapping[type[e.Event], str]] = {
        e.ProcessStarted: "started", e.Elected: "elected", e.Deposed: "deposed",
        e.TopicsChanged: "changed",
        e.Joined: "joined", e.Left: "left", e.Rebalance: "rebalance", e.Assigned: "assigned",
        e.Settled: "settled", e.RebalanceFailed: "failed", e.Unneeded: "unneeded",
    }  # fmt: skip

    def __init__(self, findings: Findings) -> None:
        self._found = findings
        self._open: Generation | None = None
        self._members: dict[str, Member] = {}
        self._changes = 0
        self._assigned: e.Assigned | None = None
        """The latest, as far as is known."""
        self._topics_told = True
        """Whether all topics are told that the coordinator of today can know of."""
        self.rebalances = 0
        self.failures = 0
        self.came = 0
        self.went = 0

    # ── Members ─────────────────────────────────────────────────────────────────────────────

    def joined(self, event: e.Joined) -> None:
        """A member is accepted."""
        self._found.note(event, "")
        self._changes += 1
        self.came += 1
        self._members[event.member] = Member(
            consumer=event.consumer, node=event.node, joined_ns=event.time_ns
        )

    def left(self, event: e.Left) -> None:
        """A member is counted as gone."""
        self._found.note(event, "")
        self._changes += 1
        self.went += 1
        member = self._members.pop(event.member, None)
        if member is not None:
            self._gone(event.member, member, event.time_ns, event.how)

    def started(self, event: e.ProcessStarted) -> None:
        """A coordinator's process starts: the one before has no members any more."""
        if event.role == "coordinator":
            self._all_gone(event)

    def deposed(self, event: e.Deposed) -> None:
        """A coordinator that steps down has no members any more."""
        self._all_gone(event)

    def _all_gone(self, event: e.Event) -> None:
        self._changes += 1
        for name, member in list(self._members.items()):
            if member.node == event.node:
                del self._members[name]
                self._gone(name, member, event.time_ns, "deposed")

    def _gone(self, name: str, member: Member, left_ns: int | None, how: str) -> None:
        self._found.row(
            "memberships", member=name, consumer=member.consumer, joined_ns=member.joined_ns,
            left_ns=left_ns, how=how,
        )  # fmt: skip

    def elected(self, event: e.Elected) -> None:
        """Whoever begins to coordinate tells all topics anew."""
        del event
        self._topics_told = True

    def changed(self, event: e.TopicsChanged) -> None:
        """There is something else to share out."""
        del event
        self._changes += 1

    # ── Generations ─────────────────────────────────────────────────────────────────────────

    def rebalance(self, event: e.Rebalance) -> None:
        """A rebalance begins."""
        self._found.note(event, "")
        self.rebalances += 1
        self._end("superseded")
        self._open = Generation(epoch=event.epoch, coordinator=event.node, begun_ns=event.time_ns)

    def assigned(self, event: e.Assigned) -> None:
        """Its owners are stored."""
        own = self._open
        if own is None or own.coordinator != event.node or own.generation is not None:
            # Nobody has told of its beginning; or it was written by one who is gone.
            self._end("superseded")
            own = self._open = Generation(epoch=event.epoch, coordinator=event.node, begun_ns=None)
        own.epoch = event.epoch
        own.generation, own.written_ns = event.generation, event.time_ns
        own.members, own.partitions = event.members, len(event.owners)
        own.changes, own.judged = self._changes, event.subscribed is not None
        own.trouble = incomplete(event.owners, event.subscribed or ())
        self._assigned = event
        for partition, first, second in twice(event):
            self._found.violate(
                "COMPLETE", event, f"{name_of(partition)} is assigned to {first} and to {second}"
            )

    def settled(self, event: e.Settled) -> None:
        """Every member has started."""
        self._found.note(event, "")
        own = self._open
        if own is None or own.generation != event.generation or own.settled_ns is not None:
            return
        own.settled_ns = event.time_ns
        if own.begun_ns is not None:
            self._found.figure(
                "rebalance_latency_s", (event.time_ns - own.begun_ns) / SECOND,
                event.time_ns, f"generation {event.generation}",
            )  # fmt: skip
        if own.judged and own.changes == self._changes and self._topics_told:
            self._found.checked["COMPLETE"] += 1
            if own.trouble:
                self._found.violate("COMPLETE", event, own.trouble)
        self._end("settled")

    def unneeded(self, event: e.Unneeded) -> None:
        """A group is as it should be: all is given to those who are members now."""
        self._found.note(event, "")
        now = self._assigned
        if now is None or event.subscribed is None or now.generation != event.generation:
            return
        if not self._topics_told:
            return
        self._found.checked["COMPLETE"] += 1
        if trouble := incomplete(now.owners, event.subscribed):
            self._found.violate("COMPLETE", event, trouble)

    def failed(self, event: e.RebalanceFailed) -> None:
        """A rebalance has failed."""
        self._found.note(event, "")
        self.failures += 1
        self._end("failed")

    def _end(self, outcome: str) -> None:
        own, self._open = self._open, None
        if own is not None:
            self._found.row(
                "generations", epoch=own.epoch, generation=own.generation,
                coordinator=own.coordinator, begun_ns=own.begun_ns, written_ns=own.written_ns,
                settled_ns=own.settled_ns, members=own.members, partitions=own.partitions,
                outcome=outcome,
            )  # fmt: skip

    # ── Doubt, and the end ──────────────────────────────────────────────────────────────────

    def miss_topics(self) -> None:
        """A coordinator's lines are missing: it may know of topics that no line tells."""
        self._topics_told = False

    def unsure(self) -> None:
        """Something is missing: what was to be shared out may have changed."""
        self._assigned = None
        if self._open is not None:
            self._open.judged = False

    def close(self) -> None:
        """Nothing more comes."""
        self._end("open")
        for name in sorted(self._members):
            self._gone(name, self._members[name], None, "open")


def twice(event: e.Assigned) -> list[tuple[e.Partition, str, str]]:
    """Partitions that a generation gives to two members."""
    owners: dict[e.Partition, str] = {}
    return [
        (partition, owners[partition], member)
        for partition, member in event.owners
        if owners.setdefault(partition, member) != member
    ]


def incomplete(owned: Iterable[tuple[e.Partition, str]], subscribed: Iterable[e.Share]) -> str:
    """What an assignment lacks: a partition that nobody has, a share that is too big or small."""
    owners = dict(owned)
    for topic, numbers, threads in subscribed:
        streams = dict(threads)
        shares = dict.fromkeys(streams, 0)
        for number in numbers:
            owner = owners.pop((topic, number), None)
            if owner not in shares:
                whose = "nobody's" if owner is None else f"{owner}'s, who does not want it"
                return f"{name_of((topic, number))} is {whose}"
            shares[owner] += 1
        if member := uneven_share(len(numbers), shares, streams):
            return (
                f"{member} has {shares[member]} of the {len(numbers)} partitions of {topic} for "
                f"{streams[member]} of {sum(streams.values())} threads"
            )
    if owners:
        partition, owner = min(owners.items())
        return f"{owner} has {name_of(partition)}, which nobody wants"
    return ""
