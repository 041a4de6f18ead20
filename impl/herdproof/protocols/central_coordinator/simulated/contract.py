"""
The contract, watched at every step: what a group coordination protocol owes its users.

The monitors see what an outsider could see: what is consumed where, what ZooKeeper holds, what is
sent, and nothing of what a core believes. A promise that is broken is told by its sentence, once:
the run ends there.

Source: PROTOCOLS.md, "The contract"; *Settles* and *Complete* are judged by `settled.py` at a run's
end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.protocols.sentences import Sentence
from herdproof.simulator.clock import Timeline
from herdproof.zookeeper.operations import Check, Create, Delete, Multi, Operation, Set


class Broken(Exception):
    """A promise is broken: `sentence` says which, the text how."""

    def __init__(self, sentence: Sentence, how: str) -> None:
        super().__init__(how)
        self.sentence = sentence


Owned: TypeAlias = tuple[str, NamedPartition]
"""A group and a partition: what there is at most one consumer of."""


class Consumes(Protocol):
    """A consumer's process, as the contract sees it."""

    name: str
    group: str
    consumer_id: str

    def may_deliver(self) -> bool:
        """Whether it could hand a record to its application at this moment."""


class Writes(Protocol):
    """A broker's process, as the contract sees it."""

    name: str
    broker: str
    """The coordinator, as the election's epoch node names it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a partition, as its owner node has it."""

    consumer: str
    generation: int


@dataclass(frozen=True, slots=True)
class Told:
    """An offset that a consumer told a coordinator, and whether it was the owner when it did."""

    consumer: str
    generation: int
    owner: Owner | None

    @property
    def by_owner(self) -> bool:
        """Whether the partition was its own, in the generation that it spoke of."""
        return self.owner == Owner(self.consumer, self.generation)


@dataclass(eq=False)
class Contract:
    """The monitors of one run; each raises `Broken`."""

    timeline: Timeline
    epoch_path: str
    watches: frozenset[Sentence] = frozenset(Sentence)
    consuming: dict[Owned, list[Consumes]] = field(default_factory=dict)
    stored: dict[Owned, int] = field(default_factory=dict)
    owners: dict[Owned, Owner] = field(default_factory=dict)
    unfinished: dict[Owned, int] = field(default_factory=dict)
    """The first offset that no application has finished with; as stored at first."""
    generations: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each group, the epoch and the generation of its node."""
    epoch: int = 0
    winner: str = ""
    coordinators: dict[int, Writes] = field(default_factory=dict)
    told: dict[tuple[Writes, Owned], dict[int, Told]] = field(default_factory=dict)
    seen: dict[Consumes, int] = field(default_factory=dict)
    """The latest epoch of any frame that a consumer's process has taken."""
    last_change_ms: float = 0.0
    """When fetchers were last started or stopped."""
    counts: dict[str, int] = field(default_factory=dict)
    """How often things happened which a run should see happen."""

    def breaks(self, sentence: Sentence, how: str) -> None:
        """A promise is broken: `Broken`, if it is one that is watched."""
        if sentence in self.watches:
            raise Broken(sentence, how)

    def count(self, what: str) -> None:
        """Something happened that is worth a figure."""
        self.counts[what] = self.counts.get(what, 0) + 1

    # ── Exclusive ───────────────────────────────────────────────────────────────────────────

    def starts(self, consumer: Consumes, offsets: tuple[Offset, ...]) -> None:
        """A consumer's fetchers start."""
        self.last_change_ms = self.timeline.now
        for offset in offsets:
            owned = (consumer.group, NamedPartition(offset.topic, offset.partition))
            self.consuming.setdefault(owned, []).append(consumer)
            self._exclusive(owned, consumer)
            self._nothing_skipped(owned, offset.offset, f"{consumer.name} starts")

    def stops(self, consumer: Consumes) -> None:
        """A consumer's fetchers are closed, or its process is no more."""
        for consumers in self.consuming.values():
            if consumer in consumers:
                consumers.remove(consumer)
                self.last_change_ms = self.timeline.now

    def awake(self, consumer: Consumes) -> None:
        """A consumer that was paused goes on."""
        for owned, consumers in self.consuming.items():
            if consumer in consumers:
                self._exclusive(owned, consumer)

    def _exclusive(self, owned: Owned, consumer: Consumes) -> None:
        consumers = self.consuming[owned]
        if len(consumers) < 2 or not consumer.may_deliver():
            return
        for other in consumers:
            if other is not consumer and other.may_deliver():
                self.breaks(
                    Sentence.EXCLUSIVE,
                    f"{shown(owned)} is consumed by {other.name} and by {consumer.name}.",
                )

    # ── Nothing skipped ─────────────────────────────────────────────────────────────────────

    def delivers(self, consumer: Consumes, partition: NamedPartition, offset: int) -> None:
        """A record is handed to a consumer's application."""
        owned = (consumer.group, partition)
        self._exclusive(owned, consumer)
        if owned not in self.stored:
            self.breaks(
                Sentence.STORED_FIRST,
                f"{consumer.name} is given offset {offset} of {shown(owned)}, for which no offset "
                f"is stored.",
            )
        if offset < self.unfinished.get(owned, offset):
            self.count("delivered again")
        self.count("delivered")

    def finishes(self, consumer: Consumes, partition: NamedPartition, offset: int) -> None:
        """A consumer's application has finished with a record."""
        owned = (consumer.group, partition)
        first = self.unfinished.get(owned)
        if first is not None and offset == first:
            self.unfinished[owned] = offset + 1
        elif first is not None and offset > first:
            self.breaks(
                Sentence.NOTHING_SKIPPED,
                f"{consumer.name} finishes offset {offset} of {shown(owned)}; nobody has finished "
                f"{first}.",
            )

    def _nothing_skipped(self, owned: Owned, offset: int, who: str) -> None:
        first = self.unfinished.get(owned)
        if first is not None and offset > first:
            self.breaks(
                Sentence.NOTHING_SKIPPED,
                f"{who} with offset {offset} of {shown(owned)}; nobody has finished {first}.",
            )

    # ── What consumers and coordinators say ─────────────────────────────────────────────────

    def hears(
        self, writer: Writes, group: str, consumer: str, generation: int,
        offsets: tuple[Offset, ...],
    ) -> None:  # fmt: skip
        """A coordinator is told offsets by a consumer."""
        for offset in offsets:
            owned = (group, NamedPartition(offset.topic, offset.partition))
            told = Told(consumer, generation, self.owners.get(owned))
            known = self.told.setdefault((writer, owned), {})
            if told.by_owner or offset.offset not in known:
                known[offset.offset] = told

    def confirms(
        self, writer: Writes, group: str, consumer: str, generation: int,
        offsets: tuple[Offset, ...],
    ) -> None:  # fmt: skip
        """A coordinator answers a user's commit: accepted."""
        for offset in offsets:
            owned = (group, NamedPartition(offset.topic, offset.partition))
            if self.stored.get(owned, NO_OFFSET) < offset.offset:
                self.breaks(
                    Sentence.FENCED_COMMIT,
                    f"{writer.name} tells {consumer} that its commit of {offset.offset} of "
                    f"{shown(owned)} is accepted; {self.stored.get(owned)} is stored.",
                )
            told = self.told.get((writer, owned), {}).get(offset.offset)
            if told is None or not told.by_owner:
                self.breaks(
                    Sentence.FENCED_COMMIT,
                    f"{writer.name} accepts a commit of {shown(owned)} from {consumer} in "
                    f"generation {generation}; the owner was {told and told.owner}.",
                )
        self.count("commits accepted")

    def commands_start(
        self, writer: Writes, group: str, consumer: str, generation: int,
        offsets: tuple[Offset, ...],
    ) -> None:  # fmt: skip
        """A coordinator sends a Start."""
        now = self.generations.get(group, (0, 0))[1]
        if now > generation:
            return  # a coordinator of the past speaks: its consumer's fence decides
        for offset in offsets:
            owned = (group, NamedPartition(offset.topic, offset.partition))
            if now < generation or self.owners.get(owned) != Owner(consumer, generation):
                self.breaks(
                    Sentence.WRITTEN_FIRST,
                    f"{writer.name} tells {consumer} to start {shown(owned)} in generation "
                    f"{generation} before ZooKeeper has accepted that: the group's generation is "
                    f"{now}, the owner {self.owners.get(owned)}.",
                )
            stored = self.stored.get(owned, NO_OFFSET)
            if offset.offset < stored:
                self.breaks(
                    Sentence.MONOTONE,
                    f"{writer.name} tells {consumer} to start {shown(owned)} from "
                    f"{offset.offset}; {stored} was committed.",
                )

    def obeys(self, consumer: Consumes, epoch: int) -> None:
        """A consumer answers a request of a coordinator of this epoch."""
        if epoch < self.seen.get(consumer, 0):
            self.breaks(
                Sentence.FENCED_COMMAND,
                f"{consumer.name} obeys a request of epoch {epoch}; it has seen "
                f"{self.seen[consumer]}.",
            )

    def sees(self, consumer: Consumes, epoch: int) -> None:
        """A consumer takes a frame of this epoch."""
        self.seen[consumer] = max(epoch, self.seen.get(consumer, 0))

    # ── One coordinator ─────────────────────────────────────────────────────────────────────

    def elected(self, writer: Writes, epoch: int) -> None:
        """A broker is told that it coordinates."""
        other = self.coordinators.setdefault(epoch, writer)
        if other is not writer:
            self.breaks(
                Sentence.ONE_COORDINATOR,
                f"{other.name} and {writer.name} both coordinate in epoch {epoch}.",
            )
        self.count("elected")

    def deposed(self, writer: Writes, still_open: Collection[int]) -> None:
        """A broker has taken in that it coordinates no more; these of its channels are open."""
        if still_open:
            self.breaks(
                Sentence.COMMANDS_NOBODY,
                f"{writer.name} was deposed, and its channels {sorted(still_open)} are open.",
            )

    # ── What ZooKeeper accepts ──────────────────────────────────────────────────────────────

    def wrote(self, writer: Writes, operation: Operation, *, coordinates: bool) -> None:
        """ZooKeeper has done what a broker's core asked (`coordinates`: the coordinator's)."""
        parts = operation.operations if isinstance(operation, Multi) else (operation,)
        if coordinates and writer.broker != self.winner:
            self.breaks(
                Sentence.FENCED_WRITE,
                f"ZooKeeper accepts a write of {writer.name}; epoch {self.epoch} is of broker "
                f"{self.winner}.",
            )
        for part in parts:
            if isinstance(part, Create | Set):
                self._changed(writer, part.path, part.data)
            elif isinstance(part, Delete):
                self._deleted(part.path)
            else:
                assert isinstance(part, Check) or not coordinates

    def _changed(self, writer: Writes, path: str, data: bytes) -> None:
        if path == self.epoch_path:
            self.epoch, self.winner = self.epoch + 1, data.decode()
        elif (found := _GROUP.fullmatch(path)) is not None:
            self._new_generation(found[1], data)
        elif (found := _PARTITION.fullmatch(path)) is not None and data:
            group, kind, topic, partition = found.groups()
            owned = (group, NamedPartition(topic, partition))
            if kind == "owners":
                self.owners[owned] = read_owner(data)
            else:
                self._stores(writer, owned, int(data))

    def _deleted(self, path: str) -> None:
        found = _PARTITION.fullmatch(path)
        if found is None:
            return
        group, kind, topic, partition = found.groups()
        owned = (group, NamedPartition(topic, partition))
        if kind == "owners":
            self.owners.pop(owned, None)
        elif owned in self.stored:
            self.breaks(Sentence.MONOTONE, f"The committed offset of {shown(owned)} is deleted.")

    def _new_generation(self, group: str, data: bytes) -> None:
        if not data:
            return
        read = json.loads(data)
        after = (int(read["epoch"]), int(read["generation"]))
        before = self.generations.get(group, (0, 0))
        if after[0] < before[0] or after[1] < before[1]:
            self.breaks(
                Sentence.MONOTONE,
                f"Group {group} goes from epoch {before[0]} and generation {before[1]} to "
                f"{after[0]} and {after[1]}.",
            )
        if after[1] > before[1]:
            self.count("generations")
        self.generations[group] = after

    def _stores(self, writer: Writes, owned: Owned, offset: int) -> None:
        before = self.stored.get(owned)
        if before is not None and offset < before:
            self.breaks(
                Sentence.MONOTONE,
                f"{writer.name} stores offset {offset} of {shown(owned)}, after {before}.",
            )
        if before is None:
            self.unfinished[owned] = offset
        elif offset > self.unfinished[owned]:
            self.breaks(
                Sentence.ONLY_FINISHED,
                f"{writer.name} stores offset {offset} of {shown(owned)}; the first that nobody "
                f"has finished with is {self.unfinished[owned]}.",
            )
        if offset != before:
            self._is_told(writer, owned, offset)
        self.stored[owned] = offset

    def _is_told(self, writer: Writes, owned: Owned, offset: int) -> None:
        """What is stored was told by the owner, who still is it: not after the handover."""
        told = self.told.get((writer, owned), {}).get(offset)
        stores = f"{writer.name} stores offset {offset} of {shown(owned)}, which"
        if told is None:
            self.breaks(Sentence.FENCED_COMMIT, f"{stores} nobody told it.")
        elif not told.by_owner or self.owners.get(owned) != told.owner:
            self.breaks(
                Sentence.FENCED_COMMIT,
                f"{stores} {told.consumer} told it in generation {told.generation}, when the owner "
                f"was {told.owner}; it is {self.owners.get(owned)}.",
            )


_GROUP = re.compile(r"/herdproof/groups/([^/]+)")
_PARTITION = re.compile(r"/consumers/([^/]+)/(owners|offsets)/([^/]+)/([^/]+)")


def shown(owned: Owned) -> str:
    """A partition of a group, for a sentence."""
    group, partition = owned
    return f"{partition.topic}-{partition.partition} of group {group}"


def read_owner(data: bytes) -> Owner:
    """What an owner node says."""
    read: dict[str, Any] = json.loads(data)
    return Owner(str(read["consumer"]), int(read["generation"]))
