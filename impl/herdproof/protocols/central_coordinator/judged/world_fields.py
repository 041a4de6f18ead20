"""
Events of a run as the contract's fields: no guard, no judgement.

The world tells what an outsider could see: ZooKeeper's tree, whose fetchers run, what is delivered,
what is said over a connection; nothing of what a core believes. Each group's fields are filled from
that, step by step, and the contract's own properties judge. Every entry is known at every moment,
so that every promise has an answer: one that stayed open would be a mistake in this table.

- A `Member` is a consumer's process, a `Broker` is called as the epoch's node calls it, a
  `Partition` is a topic and a number.
- Offsets are one more than told, 0 is "none stored": the contract's numbers are natural.
- Who may not deliver at the moment (paused, or its lease is over) does not consume: that is looked
  at where it matters, when another one begins, wakes or delivers, and when something is written.
- That an offset was taken is told by what comes of it: it is stored, or its sender is told so.
- An owner's node counts once the group's node is of its generation, and names a registration that
  was accepted.
- How a group stands is read when it must have settled (`world_end.py`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.protocols.central_coordinator.judged.world_promises import (
    OWN_WATCHES,
    WATCHES,
    judge,
    shown,
)
from herdproof.simulator.clock import Timeline
from herdproof.zookeeper.operations import Create, Delete, Multi, Operation, Set
from herdspec.check.observation.observed import Observed
from herdspec.protocols.central_coordinator.values import Asked

Partition: TypeAlias = tuple[str, str]


class Consumes(Protocol):
    """A consumer's process, as it is seen from outside."""

    name: str

    def may_deliver(self) -> bool:
        """True if it could hand a record to its application at this moment."""


class Writes(Protocol):
    """A broker's process, as it is seen from outside."""

    name: str
    broker: str
    """The coordinator, as the election's epoch node names it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A node of a group that was written, or deleted: then without data."""

    kind: str
    """Of a partition: owners, offsets; else empty, and it is the group's own node."""
    at: Partition
    data: bytes

    def __str__(self) -> str:
        what = f"{self.kind} {shown(self.at)}" if self.kind else "its node"
        return f"{what} = {self.data.decode() or None}"


class Fields:
    """The contract's fields of all groups of a run, and what else is counted of it."""

    def __init__(self, timeline: Timeline, epoch_path: str, watches: frozenset[str]) -> None:
        self.timeline = timeline
        self.watches = watches
        self.groups: dict[str, GroupFields] = {}
        self.counts: Counter[str] = Counter()
        """Number of times that things happened which a run should see happen."""
        self.last_change_ms = 0.0
        """When fetchers were last started or stopped."""
        self.terms: dict[str, int] = {}
        """
        The latest epoch that a broker has won, or was told that it coordinates in.

        What it has sent may be done until another one wins, whatever it knows or is by then.
        """
        self._epoch_path = epoch_path
        self._epoch = 0
        self._elected: str | None = None

    def of(self, group: str) -> GroupFields:
        """A group's fields."""
        if group not in self.groups:
            self.groups[group] = GroupFields(group, self)
            self._tell_terms(self.groups[group])
        return self.groups[group]

    def coordinates(self, broker: str, epoch: int) -> None:
        """A broker has won an epoch, or is told that it has."""
        self.terms[broker] = max(epoch, self.terms.get(broker, 0))
        if epoch >= self._epoch:
            self._epoch, self._elected = epoch, broker
        for fields in self.groups.values():
            self._tell_terms(fields)

    def _tell_terms(self, fields: GroupFields) -> None:
        fields.seen.set("epoch", (), self._epoch)
        fields.seen.set("elected", (), self._elected)
        for broker, epoch in self.terms.items():
            fields.seen.add("Broker", broker)
            fields.seen.set("term", broker, epoch)
        fields.step("broker", self._elected, "coordinates in epoch", self._epoch)

    def deposed(self, writer: Writes, still_open: Collection[int]) -> None:
        """A broker has taken in that it coordinates no more; these of its channels are open."""
        if not still_open:
            return
        seen = Observed(OWN_WATCHES)
        seen.add("Broker", writer.broker)
        for channel in still_open:
            seen.add("Member", channel)
            seen.set("books", channel, writer.broker)
        judge(seen, self.watches, writer, "was deposed")

    def wrote(self, writer: Writes, operation: Operation, *, coordinates: bool) -> None:
        """ZooKeeper has done what a broker asked (`coordinates`: what its coordinator did)."""
        parts = operation.operations if isinstance(operation, Multi) else (operation,)
        written: dict[str, list[Written]] = {}
        for part in parts:
            if not isinstance(part, Create | Set | Delete):
                continue
            data = b"" if isinstance(part, Delete) else part.data
            if part.path == self._epoch_path:
                self.coordinates(data.decode(), self._epoch + 1)
            elif (data or isinstance(part, Delete)) and (found := _NODE.fullmatch(part.path)):
                point, group, kind, topic, number = found.groups("")
                node = Written(kind, (topic, number), data)
                written.setdefault(point or group, []).append(node)
        for group, nodes in written.items():
            self.of(group).written(writer, nodes, coordinates=coordinates)


class GroupFields:
    """The contract's fields of one group; a step that breaks a promise raises `Broken`."""

    def __init__(self, name: str, run: Fields) -> None:
        self.name = name
        self.seen = Observed(WATCHES)
        self._own = Observed(OWN_WATCHES)
        self.fetching: dict[Consumes, dict[Partition, None]] = {}
        """Whose fetchers run, and of which partitions."""
        self._run = run
        self._registered: dict[str, Consumes] = {}
        self._nodes: dict[Partition, tuple[object, int]] = {}
        """By owner's node: whom it names, and in which generation."""
        self._heard: dict[tuple[Writes, object, Partition, int], int] = {}
        """By whom it was heard from which owner how far that is: in which generation."""
        self._said: dict[tuple[Writes, Consumes, str], tuple[int, Sequence[Offset]]] = {}
        """Offsets that a coordinator has heard last: most often it is told the same again."""

    def get(self, field: str, key: Any = ()) -> Any:
        """An entry of a field."""
        return self.seen.entries[field][key]

    def step(self, *told: object) -> None:
        """Make a step of what was set; `told` are the words that say what has happened."""
        judge(self.seen, self._run.watches, *told, "in group", self.name)

    def _partition(self, at: Offset | NamedPartition) -> Partition:
        p = (at.topic, at.partition)
        self.seen.add("Partition", p)
        return p

    # ── Who consumes ────────────────────────────────────────────────────────────────────────

    def starts(self, consumer: Consumes, generation: int, offsets: Sequence[Offset]) -> None:
        """Fetchers start beside those that were not closed; it has begun in this generation."""
        begins = {self._partition(offset): offset.offset + 1 for offset in offsets}
        self._look_at_others(consumer, begins)
        self.fetching.setdefault(consumer, {}).update(dict.fromkeys(begins))
        self.seen.add("Member", consumer)
        self.seen.set("current", consumer, generation == self.get("generation"))
        for p, position in begins.items():
            self.seen.set("consumes", (consumer, p), True)
            self.seen.set("position", (consumer, p), position)
        self._run.last_change_ms = self._run.timeline.now
        self.step(consumer, "starts", *offsets)

    def stops(self, consumer: Consumes) -> None:
        """A consumer's fetchers are closed, or its process is no more."""
        for p in self.fetching.pop(consumer, ()):
            for field, value in (("consumes", False), ("position", 0), ("resolved", False)):
                self.seen.set(field, (consumer, p), value)
            self._run.last_change_ms = self._run.timeline.now
        self.step(consumer, "stops")

    def wakes(self, consumer: Consumes) -> None:
        """A consumer that was paused goes on."""
        self._look_at_others(consumer, self.fetching.get(consumer, ()))
        self._look_at(consumer)

    def _look_at_others(self, consumer: Consumes, which: Collection[Partition]) -> None:
        for other, had in self.fetching.items():
            if other is not consumer and not had.keys().isdisjoint(which):
                self._look_at(other)

    def _look_at(self, consumer: Consumes) -> None:
        """Amend whether a consumer whose fetchers run may deliver now; it does not begin anew."""
        may, consumes = consumer.may_deliver(), self.seen.entries["consumes"]
        changed = [p for p in self.fetching.get(consumer, ()) if consumes[consumer, p] is not may]
        for p in changed:
            self.seen.amend("consumes", (consumer, p), may)
        if changed:
            self.step(consumer, "may deliver" if may else "may not deliver")

    # ── How far ─────────────────────────────────────────────────────────────────────────────

    def resolves(self, consumer: Consumes, at: Offset) -> None:
        """A consumer has looked up where a partition begins of which no offset was stored."""
        p, position = self._partition(at), at.offset + 1
        self.seen.set("position", (consumer, p), position)
        self.seen.set("resolved", (consumer, p), True)
        if not self.get("committed", p):  # nobody owes anything of what comes before
            self.seen.set("finished", p, max(position, self.get("finished", p)))
        self.step(consumer, "resolves", at)

    def is_stored(self, consumer: Consumes, at: NamedPartition) -> None:
        """A consumer is told that what it resolved is stored."""
        self.seen.set("resolved", (consumer, self._partition(at)), False)
        self.step(consumer, "hears that its start is stored")

    def delivers(self, consumer: Consumes, at: NamedPartition, offset: int) -> None:
        """A consumer is given a record: so it consumes, whatever it may do."""
        p = self._partition(at)
        self._look_at_others(consumer, (p,))
        self.fetching.setdefault(consumer, {})[p] = None
        if not self.get("consumes", (consumer, p)):
            self.seen.amend("consumes", (consumer, p), True)
        self.seen.set("position", (consumer, p), offset + 1)
        self.step(consumer, "is given offset", offset, "of", p)
        self._run.counts["delivered"] += 1
        if offset + 1 < self.get("finished", p):
            self._run.counts["delivered again"] += 1

    def finishes(self, consumer: Consumes, at: NamedPartition, offset: int) -> None:
        """An application has finished with a record; it may be one of an earlier assignment."""
        p = self._partition(at)
        if offset + 1 == self.get("finished", p):
            self.seen.set("finished", p, offset + 2)
        self.seen.set("position", (consumer, p), offset + 2)
        self.step(consumer, "finishes offset", offset, "of", p)
        if p not in self.fetching.get(consumer, ()):
            self.seen.set("position", (consumer, p), 0)
            self.step(consumer, "has finished")

    # ── What is said ────────────────────────────────────────────────────────────────────────

    def sees(self, consumer: Consumes, epoch: int) -> None:
        """A consumer takes a frame of this epoch."""
        if epoch > self.get("heeded", consumer):
            self.obeys(consumer, epoch)

    def obeys(self, consumer: Consumes, epoch: int) -> None:
        """A consumer answers a request of a coordinator of this epoch."""
        if epoch != self.get("heeded", consumer):
            self.seen.add("Member", consumer)
            self.seen.set("heeded", consumer, epoch)
            self.step(consumer, "follows a coordinator of epoch", epoch)

    def admits(self, consumer: Consumes, registration: str) -> None:
        """A coordinator calls a consumer's connection this."""
        self.seen.add("Member", consumer)
        self._registered[registration] = consumer

    def commands(
        self, writer: Writes, consumer: Consumes, generation: int, offsets: Sequence[Offset]
    ) -> None:
        """A coordinator sends a Start; of one of the past, its consumer's fence decides."""
        if generation < self.get("generation"):
            return
        own, is_written = self._own, generation == self.get("generation")
        for offset in offsets:
            p = self._partition(offset)
            own.add("Partition", p)
            own.suppose("owner", p, self.get("owner", p) if is_written else None)
            own.suppose("committed", p, self.get("committed", p))
            own.suppose("given", (consumer, p), True)
            own.suppose("begin", (consumer, p), offset.offset + 1)
        own.set("asked", consumer, Asked.START)
        judge(own, self._run.watches, writer, "starts", consumer, *offsets, "in group", self.name)
        own.amend("asked", consumer, Asked.NONE)

    def hears(
        self, writer: Writes, consumer: Consumes, generation: int, field: str,
        offsets: Sequence[Offset],
    ) -> None:  # fmt: skip
        """A coordinator is told offsets, `reported` or `committing`: only those of now count."""
        said, key = (generation, offsets), (writer, consumer, field)
        if generation != self.get("generation") or self._said.get(key) == said:
            return
        self._said[key] = said
        for offset in offsets:
            p, position = self._partition(offset), offset.offset + 1
            self.seen.set(field, (consumer, p), position)
            if self.get("owner", p) is consumer:
                self._heard[writer, consumer, p, position] = generation
        self.step(writer, "hears from", consumer, *offsets)

    def confirms(self, writer: Writes, consumer: Consumes, offsets: Sequence[Offset]) -> None:
        """A coordinator tells a user that a commit was taken, and so that it is stored."""
        for offset in offsets:
            p, position = self._partition(offset), offset.offset + 1
            is_said = (writer, consumer, p, position) in self._heard
            self.seen.suppose("owner", p, consumer if is_said else None)  # when it was heard
            self.seen.suppose("accepted", p, 0)  # what was taken before, this was, too
            self._takes(p, position, consumer, is_said=is_said)
            stored = self.get("committed", p)
            self.seen.suppose("committed", p, stored)  # it is in the user's eyes alone
            self.seen.set("committed", p, max(position, stored))
        self.step(writer, "accepts the commit of", consumer, *offsets)
        self._run.counts["commits accepted"] += 1

    def _takes(self, p: Partition, position: int, owner: object, *, is_said: bool) -> None:
        """An offset is taken, as its owner has said it; or has not."""
        self.seen.suppose("reported", (owner, p), 0)
        self.seen.suppose("committing", (owner, p), position if is_said else 0)
        self.seen.set("accepted", p, position)

    # ── What ZooKeeper has accepted ─────────────────────────────────────────────────────────

    def written(self, writer: Writes, nodes: Sequence[Written], *, coordinates: bool) -> None:
        """Nodes of the group are written at once."""
        for consumer in [*self.fetching]:
            self._look_at(consumer)
        for node in nodes:
            if node.kind:
                self.seen.add("Partition", node.at)
            if node.kind == "offsets":
                self._is_taken(writer, node.at, _position(node))
        author = writer.broker if coordinates else None
        for node in nodes:
            if node.kind == "offsets":
                self.seen.suppose("storing", node.at, _position(node))
                self.seen.set("committed", node.at, _position(node))
            elif node.kind:
                self._names(node)
            elif node.data:
                read = json.loads(node.data)
                self._begins(read["generation"])
                if read["epoch"] != self._run.terms.get(writer.broker):
                    author = None  # whoever writes as in another's epoch does not own up to it
        self.seen.set("author", (), author)
        self.step(writer, "writes", *nodes)
        self.seen.amend("author", (), None)

    def _is_taken(self, writer: Writes, p: Partition, position: int) -> None:
        """An offset is about to be written: it was taken of who owns the partition, still."""
        if position > self.get("accepted", p):
            owner = self.get("owner", p)
            heard = self._heard.get((writer, owner, p, position))
            self._takes(p, position, owner, is_said=heard == self.get("generation"))
            self.step(writer, "takes offset", position - 1, "of", p)

    def _names(self, node: Written) -> None:
        """An owner's node is written, or deleted."""
        whom, generation = None, self.get("generation")
        if node.data:
            read = json.loads(node.data)
            whom = self._registered.get(read["member"], read["consumer"])
            generation = read["generation"]
        self._nodes[node.at] = whom, generation
        if generation == self.get("generation"):
            self.seen.set("owner", node.at, whom)

    def _begins(self, generation: int) -> None:
        """A generation is written: whom nodes name in it owns from now on, and nobody else."""
        before = self.get("generation")
        if generation == before:
            return
        self.seen.set("generation", (), generation)
        for p, (whom, of) in self._nodes.items():
            self.seen.set("owner", p, whom if of == generation else None)
        for field, value in (("current", False), ("reported", 0), ("committing", 0)):
            self.seen.set_all(field, value)
        if generation > before:
            self._run.counts["generations"] += 1


_NODE = re.compile(r"/herdproof/groups/([^/]+)|/consumers/([^/]+)/(owners|offsets)/([^/]+)/([^/]+)")


def _position(node: Written) -> int:
    return int(node.data) + 1 if node.data else 0
