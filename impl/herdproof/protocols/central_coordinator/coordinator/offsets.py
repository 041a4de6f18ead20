"""
The offsets of all groups: kept in memory, never going back, written in batches.

An answer to a ping only changes the map; it is written after `offset_flush_ms`, with whatever else
the group has told by then. A user's commit is written at once, or together with the next write if
one is under way, and answered when that is done. A group's offsets are read from ZooKeeper before
its first Start in an epoch; from then on this map is what counts, since nobody else can write them:
what a former coordinator still sends is refused by the fence.

Source: `002` (Batch Updating ZK Offset), PROTOCOLS.md (contract: Monotone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from herdproof.consuming.assignment import Partition
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.outbox import Question
from herdproof.protocols.central_coordinator.coordinator.store import StoreResult
from herdproof.protocols.central_coordinator.reports import What
from herdproof.zookeeper.operations import Answer, Data, Get, Refusal, Why

Then = Callable[[bool], None]
"""Goes on, told whether ZooKeeper has done what it was asked for."""


class Offsets(CorePart):
    """By group and partition, the highest offset that was stored or is to be stored."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.known: dict[str, dict[Partition, int]] = {}
        """`NO_OFFSET` where it is known that none is stored."""
        self.unwritten: dict[str, dict[Partition, int]] = {}
        """The offsets that are to be stored and are not on their way."""
        self._stored: dict[str, dict[Partition, int]] = {}
        """Offsets that ZooKeeper is known to hold; `NO_OFFSET` where it holds none."""
        self._store = context.store

    def forget(self, group: str) -> None:
        """Forget what was known of a group, as it may have changed; drop what is unwritten."""
        self.known.pop(group, None)
        self.unwritten.pop(group, None)
        self._stored.pop(group, None)

    def clear(self) -> None:
        """Nothing is known, and nothing will be written."""
        self.known.clear()
        self.unwritten.clear()
        self._stored.clear()

    # ── Reading ─────────────────────────────────────────────────────────────────────────────

    def missing(self, group: str, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions among these whose offset has not been read in this epoch."""
        known = self.known.get(group, {})
        return [partition for partition in partitions if partition not in known]

    def load(self, group: str, partitions: list[Partition], then: Then) -> None:
        """Read these offsets, at least one, and go on when all are there or one cannot be had."""
        reads = _Reads(len(partitions), then)
        self._outbox.ask_each(partitions, partial(self._question, group, reads))

    def _question(self, group: str, reads: _Reads, partition: Partition) -> Question:
        """Ask for one offset."""
        path = self._paths.offset(group, *partition)
        return Get(path), partial(self._loaded, group, partition, reads)

    def _loaded(self, group: str, partition: Partition, reads: _Reads, answer: Answer) -> None:
        """One offset has been read."""
        ok = True
        known = self.known.setdefault(group, {})
        if isinstance(answer, Data):
            known.setdefault(partition, read_offset(answer.data))
            stored = self._stored.setdefault(group, {})
            stored.setdefault(partition, read_offset(answer.data))
            self._store.stands(group, self._paths.offset(group, *partition))
        elif isinstance(answer, Refusal) and answer.why is Why.NO_NODE:
            known.setdefault(partition, NO_OFFSET)
        else:
            ok = False
            why = answer.why.value if isinstance(answer, Refusal) else type(answer).__name__
            self._outbox.report(What.ZOOKEEPER_TROUBLE, group, task="offsets", why=why)
        reads.done(ok)

    def stored(self, group: str, partitions: Iterable[Partition]) -> tuple[Offset, ...]:
        """Offsets of these partitions, which are read, as ZooKeeper is known to hold them."""
        stored = self._stored.get(group, {})
        return tuple(Offset(*place, stored.get(place, NO_OFFSET)) for place in partitions)

    # ── Writing ─────────────────────────────────────────────────────────────────────────────

    def note(self, group: str, partition: Partition, offset: int) -> None:
        """This offset is to be stored, unless a higher one is."""
        known = self.known.setdefault(group, {})
        if offset > known.get(partition, NO_OFFSET):
            known[partition] = offset
            self.unwritten.setdefault(group, {})[partition] = offset

    def flush_later(self) -> None:
        """Write what is unwritten after a while, together with what comes until then."""
        if self.unwritten and ("flush", 0) not in self._purgatory.watchers:
            self._after(self._settings.offset_flush_ms, ("flush", 0), self._flush_all)

    def is_written(self, group: str) -> bool:
        """True if every offset that is to be stored is stored."""
        return not self.unwritten.get(group) and self._store.is_idle(group)

    def are_stored(self, group: str, offsets: Mapping[Partition, int]) -> bool:
        """True if ZooKeeper holds at least these offsets."""
        stored = self._stored.get(group, {})
        return all(stored.get(p, NO_OFFSET) >= offset for p, offset in offsets.items())

    def flush(self, group: str, then: Then) -> None:
        """Write what is unwritten of a group, and go on when that is done or cannot be."""
        offsets = self.unwritten.pop(group, {})
        told = {
            self._paths.offset(group, *partition): Offset(*partition, offset)
            for partition, offset in offsets.items()
        }
        changes = {path: str(offset.offset).encode() for path, offset in told.items()}
        flushed = partial(self._flushed, group, offsets, self._outbox.now_ms, then)
        self._store.write(group, changes, flushed, offsets=told)

    def _flush_all(self) -> None:
        for group in list(self.unwritten):
            self.flush(group, ignore)

    def _flushed(
        self, group: str, offsets: dict[Partition, int], began_ms: int, then: Then,
        outcome: StoreResult,
    ) -> None:  # fmt: skip
        """
        A batch was written; if not, its offsets are unwritten again where none is higher.

        A higher one may be on its way by then: to write the lower one after it would go back.
        """
        done = outcome is StoreResult.DONE
        if done and group in self.known:
            self._stored.setdefault(group, {}).update(offsets)
        if done and offsets:
            taken_ms = self._outbox.now_ms - began_ms
            self._outbox.report(What.OFFSETS_STORED, group, offsets=len(offsets), ms=taken_ms)
        elif offsets and group in self.known:
            known = self.known[group]
            highest = {p: offset for p, offset in offsets.items() if offset == known[p]}
            if highest:
                self.unwritten[group] = {**highest, **self.unwritten.get(group, {})}
            self.flush_later()
        then(done)


class _Reads:
    """Number of reads that are still to be answered, and whether all were answered well."""

    def __init__(self, open_reads: int, then: Then) -> None:
        self._open = open_reads
        self._ok = True
        self._then = then

    def done(self, ok: bool) -> None:
        """One more was answered."""
        self._open -= 1
        self._ok = self._ok and ok
        if not self._open:
            self._then(self._ok)


def ignore(done: bool) -> None:
    """Go on with nothing."""
    del done
