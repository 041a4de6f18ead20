"""
Offsets in ZooKeeper: read after the claim, and stored so that none goes back.

Each is written in a transaction that checks the version of the partition's claim, the member's
token, and that of the offset's own node: the one refuses whoever has lost the partition to a member
that counts its claims, the other whoever has lost it to one that does not (Kafka 0.8's).
One write of a partition is under way at a time. Where its answer was lost, the node is read before
the next one: its version says whether the write was done.

Source: `004` (The offset of the partition information object); the tokens are *ours*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from herdproof.consuming.assignment import Partition
from herdproof.consuming.kafka_nodes import read_offset
from herdproof.consuming.offsets import NO_OFFSET
from herdproof.protocols.self_rebalancing.core.context import (
    ConnectorContext,
    Round,
    Then,
    named,
    reason,
    told,
)
from herdproof.protocols.self_rebalancing.reports import What
from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Check,
    Create,
    Data,
    Done,
    Get,
    Multi,
    Refusal,
    Set,
    Why,
)

Outcome = Callable[[bool], None]
"""Told whether everything that was to be stored is stored."""


@dataclass(slots=True)
class StoredOffset:
    """One partition's offset, as ZooKeeper has it."""

    token: int
    """The version of the claim under which it is written."""
    offset: int = NO_OFFSET
    version: int | None = None
    """Of its node; None where none stands."""
    wanted: int = NO_OFFSET
    """The offset to be stored."""
    writing: int | None = None
    """The offset that is being stored; its answer may be lost."""
    is_in_doubt: bool = False
    is_refused: bool = False
    """Somebody else has stored since: nothing of this claim counts any more."""

    @property
    def is_done(self) -> bool:
        """Tells whether there is nothing left to store, or no way to."""
        return self.is_refused or (self.writing is None and self.wanted == self.offset)


@dataclass(slots=True, eq=False)
class Batch:
    """Offsets that were to be stored together, and who waits for them."""

    open: set[Partition]
    then: Outcome
    is_good: bool = True


class OffsetCommits:
    """The stored offsets of the partitions that the member has claimed."""

    def __init__(self, context: ConnectorContext, refused: Then) -> None:
        self._context = context
        self._refused = refused
        self.stored: dict[Partition, StoredOffset] = {}
        self._batches: list[Batch] = []

    # ── Reading ─────────────────────────────────────────────────────────────────────────────

    def read(self, tokens: Mapping[Partition, int], then: Then) -> None:
        """Read the offsets of these partitions, which are claimed under these tokens."""
        self.stored = {}
        round_ = Round(self._context, then)
        for partition, token in tokens.items():
            path = self._context.dirs.offset(partition)
            round_.ask(Get(path), partial(self._read, round_, partition, token, False))
        round_.close()

    def _read(
        self, round_: Round, partition: Partition, token: int, is_watched: bool, answer: Answer
    ) -> None:
        """One that cannot be read is read again, watched: when it is mended, that is told."""
        if answer == Refusal(Why.NO_NODE):
            self.stored[partition] = StoredOffset(token)
            return
        path = self._context.dirs.offset(partition)
        offset = read_offset(answer.data) if isinstance(answer, Data) else NO_OFFSET
        if isinstance(answer, Data) and offset != NO_OFFSET:
            version = answer.stat.version
            self.stored[partition] = StoredOffset(token, offset, version, wanted=offset)
        elif not is_watched:
            again = partial(self._read, round_, partition, token, True)
            round_.ask(Get(path, watch=True), again)
        else:
            if isinstance(answer, Data):
                wrong = f"says {answer.data[:40]!r}, which is no offset"
            else:
                wrong = f"cannot be read: {reason(answer)}"
            self._context.report(What.BAD_OFFSET, f"{path} {wrong}")

    # ── Storing ─────────────────────────────────────────────────────────────────────────────

    def store(self, offsets: Mapping[Partition, int], then: Outcome) -> None:
        """Have these stored, of partitions that were read; an older one than is stored counts."""
        known = {partition for partition in offsets if partition in self.stored}
        batch = Batch(set(known), then, is_good=len(known) == len(offsets))
        self._batches.append(batch)
        for partition in sorted(known):
            stored = self.stored[partition]
            stored.wanted = max(stored.wanted, offsets[partition])
            self._go_on(partition)
        self._close_batches(known)
        if not known:
            self._close_batch(batch)

    def reset(self, partition: Partition, offset: int, then: Outcome) -> None:
        """Have the start stored that auto.offset.reset has found, whatever was stored before."""
        if partition in self.stored:
            self.stored[partition].wanted = offset
        self.store({partition: offset}, then)

    def write(self, partition: Partition, offset: int) -> Multi:
        """The transaction that stores an offset."""
        stored, dirs = self.stored[partition], self._context.dirs
        path, data = dirs.offset(partition), str(offset).encode()
        write = Create(path, data) if stored.version is None else Set(path, data, stored.version)
        return Multi((Check(dirs.claim(partition), stored.token), write))

    def cut_off(self) -> None:
        """The connection is lost: nobody knows what became of the writes that were under way."""
        self._batches.clear()
        for stored in self.stored.values():
            stored.is_in_doubt = stored.is_in_doubt or stored.writing is not None

    def _go_on(self, partition: Partition) -> None:
        """Write, unless there is nothing to write, or a write is under way."""
        stored = self.stored[partition]
        if stored.is_in_doubt:
            stored.is_in_doubt = False
            path = self._context.dirs.offset(partition)
            self._context.ask(Get(path), partial(self._looked, partition))
        elif stored.writing is None and not stored.is_done:
            stored.writing = stored.wanted
            number = self._context.ask(
                self.write(partition, stored.wanted), partial(self._written, partition)
            )
            self._tell(partition, number)

    def _tell(self, partition: Partition, number: int) -> None:
        stored = self.stored[partition]
        self._context.step(
            "commit", [named(partition, stored.wanted)], number=number, token=stored.token
        )

    def _written(self, partition: Partition, answer: Answer) -> None:
        """A write was answered."""
        stored = self.stored.get(partition)
        if stored is None or stored.writing is None:
            return
        self._context.step(
            "answered", [named(partition, stored.writing)], token=stored.token, outcome=told(answer)
        )
        if answer == Refusal(Why.NO_NODE, 1) and stored.version is None:
            round_ = Round(self._context, ignore_end)
            again = partial(self._try_again, partition)
            round_.make_parents(self._context.dirs.offset(partition), again)
            return
        if isinstance(answer, Done):
            written = answer.answers[-1]
            stored.version = written.stat.version if isinstance(written, Changed) else 0
            stored.offset, stored.writing = stored.writing, None
        else:
            self._refuse(partition, reason(answer))
        self._go_on(partition)
        self._close_batches({partition})

    def _try_again(self, partition: Partition, answer: Answer) -> None:
        """The nodes above the offset's stand."""
        stored = self.stored.get(partition)
        if stored is None:
            return
        if isinstance(answer, Refusal) and answer.why is not Why.NODE_EXISTS:
            self._refuse(partition, reason(answer))
            self._close_batches({partition})
            return
        stored.writing = None
        self._go_on(partition)

    def _looked(self, partition: Partition, answer: Answer) -> None:
        """Look whether the write was done whose answer was lost: its node's version says so."""
        stored = self.stored.get(partition)
        if stored is None or stored.writing is None:
            return
        offset, version = NO_OFFSET, None
        if isinstance(answer, Data):
            offset, version = read_offset(answer.data), answer.stat.version
        after = 0 if stored.version is None else stored.version + 1
        if version == after and offset == stored.writing:
            stored.offset, stored.version = offset, version
        elif version != stored.version:
            self._refuse(partition, "it was changed")
        stored.writing = None
        self._go_on(partition)
        self._close_batches({partition})

    def _refuse(self, partition: Partition, why: str) -> None:
        stored = self.stored[partition]
        stored.is_refused, stored.writing = True, None
        self._context.report(
            What.COMMIT_REFUSED,
            f"offset {stored.wanted} of {'-'.join(partition)} was not stored: {why}",
        )
        self._refused()

    def _close_batches(self, partitions: Iterable[Partition]) -> None:
        """Tell those who wait for what is done now."""
        done = {p for p in partitions if self.stored[p].is_done}
        refused = {p for p in done if self.stored[p].is_refused}
        for batch in list(self._batches):
            batch.is_good = batch.is_good and not batch.open & refused
            batch.open -= done
            if not batch.open:
                self._close_batch(batch)

    def _close_batch(self, batch: Batch) -> None:
        if batch in self._batches:
            self._batches.remove(batch)
            batch.then(batch.is_good)


def ignore_end() -> None:
    """Go on with nothing: the last answer leads on."""
