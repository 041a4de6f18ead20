"""
Writes of coordinators as the contract's fields: sent, done, refused, or never answered.

Until its answer, or until somebody reads what it wrote, a write may have been done or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.protocols.central_coordinator.judged.consumers import Consumers, Member, Partition
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdspec.check.observation.inconclusive import (
    UNKNOWN,
    Inconclusive,
    LastReported,
    is_lost,
    joined,
)
from herdspec.check.observation.observed import Observed
from herdspec.protocols.contract.spec import Stage


class StoredFields(Consumers):
    """Writes that are on their way to ZooKeeper, and what may be stored."""

    def __init__(self, seen: Observed, stored: Mapping[Partition, int]) -> None:
        super().__init__(seen, stored)
        self._epochs: dict[str, int] = {}
        """By node, the epoch in which it coordinates."""
        self._epoch = 0
        self._registered: dict[str, Member] = {}
        self._missed: set[Partition] = set()
        """Partitions of which an answer of this generation may be missing."""
        self._said: dict[Partition, dict[Member, set[int]]] = {}
        """Offsets that a member was heard to say in this generation, not stored yet."""
        self._writes: dict[tuple[str, int], CentralStep] = {}
        """Writes that are not answered, by node and number."""
        self._sending: CentralStep | None = None
        """The write that was sent last, if nothing has been told since."""
        self._in_doubt: list[CentralStep] = []
        """Writes of owners whose answer nobody knows."""
        self._late: set[tuple[str, int]] = set()
        """By node and time, writes that were sent when a later epoch than theirs had begun."""
        self._left: set[tuple[str, int]] = set()
        """
        Writes of processes of which no line comes any more, by node and time.

        Whatever came after these is not told.
        """
        self._maybe: dict[Partition, set[tuple[str, int]]] = {}
        """Offsets of writes whose answer nobody knows, and who sent them."""
        self._settled: dict[Any, Any] = {}
        """By partition (or () for the generation), what was stored before these writes."""
        self._is_changed = True
        """True if anything has changed since the owners were chosen."""

    def is_present(self, line: CentralStep) -> bool:
        """True if nobody is known to coordinate in a later epoch."""
        return self._epochs.get(line.node) == self._epoch != 0

    def settle(self) -> None:
        """The write that was sent last may be done by the time that something else is told."""
        write, self._sending = self._sending, None
        if write is None:
            return
        if write.action == "write_owners":
            self._settled.setdefault((), self._generation())
            self.seen.widen("generation", (), write.generation)
            for p, heir in self._heirs(write).items():
                self.seen.widen("owner", p, heir)
        else:
            for t, n, o in write.partitions:
                self._settled.setdefault((t, n), self._entries["committed"][t, n])
                self.seen.widen("committed", (t, n), o + 1)

    def coordinator_flush_offsets(self, line: CentralStep) -> None:
        """Offsets are sent that it must have taken, and are stored now or later."""
        self._sends(line)
        for t, n, o in line.partitions:
            p = self.partition((t, n))
            if self.is_present(line):
                self._takes(p, o + 1)
                self.seen.set("storing", p, o + 1)
        self.seen.step()
        self._sending = line

    def _sends(self, write: CentralStep) -> None:
        self._writes[write.node, write.number] = write
        if write.epoch < self._epoch:
            self._late.add(name_of(write))

    def _is_author(self, write: CentralStep) -> None:
        """Take this write for what the step in hand stores: done in its epoch, unless late."""
        self.seen.suppose("author", (), write.node)
        self.seen.suppose("term", write.node, write.epoch)
        if name_of(write) not in self._late:
            self.seen.suppose("epoch", (), write.epoch)

    def _takes(self, p: Partition, offset: int) -> None:
        """Silent: what is sent was taken, of what its owner was heard to say."""
        accepted = self._entries["accepted"][p]
        if is_lost(accepted):
            self.seen.refine("accepted", p, offset)
        elif type(accepted) is LastReported or offset > accepted:
            owner = self._entries["owner"][p]
            m = owner.value if type(owner) is LastReported else owner
            if not is_lost(m) and p in self._missed:
                self.seen.suppose("reported", (m, p), UNKNOWN)
            elif not is_lost(m) and offset in self._said.get(p, {}).get(m, ()):
                self.seen.suppose("reported", (m, p), offset)
            self.seen.set("accepted", p, offset)

    def _sent(self, p: Partition) -> list[int]:
        """The offsets of a partition in writes that are not answered."""
        under_way = [
            o + 1
            for write in self._writes.values()
            if write.action == "flush_offsets"
            for t, n, o in write.partitions
            if (t, n) == p
        ]
        return [*under_way, *(offset for _, offset in self._maybe.get(p, ()))]

    def _doubt(self, write: CentralStep) -> None:
        """Nobody knows whether a write was done."""
        if write.action == "write_owners":
            self._in_doubt.append(write)
        for t, n, o in write.partitions:
            self._maybe.setdefault((t, n), set()).add((write.node, o + 1))

    def _reads_offset(self, p: Partition, offset: int) -> None:
        """Read what is stored: where that was sent in a write in doubt, this one was done."""
        committed = self._entries["committed"][p]
        if not is_unsure(committed):
            return
        maybe = {x for _, x in self._maybe.pop(p, ())}
        before = self._settled.pop(p, UNKNOWN)
        if offset in maybe and before is not UNKNOWN and type(before) is not LastReported:
            self.seen.refine("committed", p, before)
            self.seen.suppose("storing", p, offset)
            self.seen.set("committed", p, offset)
        else:
            self.seen.refine("committed", p, offset)
        self.seen.step()
        if sent := self._sent(p):
            self._settled[p] = offset
            for x in sent:
                self.seen.widen("committed", p, x)

    def coordinator_write_owners(self, line: CentralStep) -> None:
        """The next owners are sent, and are written now or later."""
        self._sends(line)
        self._sending = line

    def _generation(self) -> tuple[Any, dict[Partition, Any]]:
        owners = {p: self._entries["owner"][p] for p in self._partitions}
        return self._entries["generation"][()], owners

    def _heirs(self, line: CentralStep) -> dict[Partition, Any]:
        named = {self.partition((t, n)): self._of_name(who) for t, n, who in line.owners}
        return {p: named.get(p) for p in self._partitions}

    def _of_name(self, name: str) -> Any:
        m = self._registered.get(name)
        if m is None:
            return UNKNOWN
        if m not in self._members:
            self._add(m)
        return m

    def coordinator_answered(self, line: CentralStep) -> None:
        """A write was done, or was not, or nobody knows."""
        write = self._writes.pop((line.node, line.number), None)
        if write is not self._sending or line.outcome == "unknown":
            self.settle()
        self._sending = None
        if write is None:
            if line.outcome != "refused":
                self.doubt_writes()
        elif line.outcome == "unknown":
            self._doubt(write)
        elif write.action == "flush_offsets":
            self._is_author(write)
            self._stored_or_not(write, is_done=line.outcome == "done")
        elif line.outcome == "done":
            self._hand_over(write, line.time_ns)
        else:
            self._unwritten()

    def doubt_writes(self) -> None:
        """A write that nobody has told of may have been done."""
        for p in self._partitions:
            for field in ("committed", "owner"):
                self.seen.forget(field, p)
        self.seen.forget("generation", ())
        self._settled.clear()

    def _stored_or_not(self, write: CentralStep, *, is_done: bool) -> None:
        """A write of offsets was done: what was stored before is one of all that others sent."""
        for t, n, o in write.partitions:
            p = (t, n)
            before = self._settled.pop(p, self._entries["committed"][p])
            sent = self._sent(p)
            known = joined([before, *sent]) if sent else before
            if known is not UNKNOWN:
                self.seen.refine("committed", p, known)
            if is_done:
                before = o + 1
                self.seen.set("committed", p, before)
                self._forget_said(p, before)
            if sent:
                self._settled[p] = before
                maybe = self._maybe.pop(p, set())
                self._maybe[p] = {x for x in maybe if x[0] != write.node}
        self.seen.step()
        for t, n, o in write.partitions if is_done else ():
            self._relearn((t, n), o + 1)
            for x in self._sent((t, n)):
                self.seen.widen("committed", (t, n), x)

    def _forget_said(self, p: Partition, stored: int) -> None:
        """Forget what is stored: it need not be explained again."""
        said = self._said.get(p, {})
        for m, offsets in said.items():
            said[m] = {x for x in offsets if x > stored}

    def _relearn(self, p: Partition, stored: int) -> None:
        """Learn again what was finished at least, where lines that told of more may be missing."""
        if self._entries["finished"][p] is UNKNOWN:
            known = (self._entries["position"][m, p] for m in self._members)
            at = [x for x in known if not isinstance(x, Inconclusive)]
            finished = max([stored, self._at_least.get(p, 0), *at])
            self.seen.refine("finished", p, self._at(finished))

    def _unwritten(self) -> None:
        """A write of owners was not done; another one may be on its way."""
        under_way = [w for w in self._writes.values() if w.action == "write_owners"]
        left = [*under_way, *self._in_doubt]
        if left or () not in self._settled:
            return
        generation, owners = self._settled.pop(())
        self.seen.refine("generation", (), generation)
        for p, owner in owners.items():
            self.seen.refine("owner", p, owner)

    def _hand_over(self, write: CentralStep, time_ns: int) -> None:
        """The next owners are written: older reports count no more, and nobody has begun."""
        self._in_doubt.clear()
        if () in self._settled:
            generation, owners = self._settled.pop(())
            self.seen.refine("generation", (), generation)
            for p, owner in owners.items():
                self.seen.refine("owner", p, owner)
        self._lapse_all(self._consumed, time_ns)
        self.seen.step()
        self._is_author(write)
        is_heard = name_of(write) not in self._left
        for p, heir in self._heirs(write).items():
            self.seen.set("owner", p, heir if is_heard or heir is UNKNOWN else LastReported(heir))
        self.seen.set("generation", (), write.generation)
        for field, value in (
            ("current", False), ("informed", False), ("reported", 0), ("committing", 0)
        ):  # fmt: skip
            self.seen.set_all(field, value)
        self.seen.set("stage", (), Stage.HANDED)
        self._said.clear()
        self._missed.clear()
        self._last.clear()
        self.seen.step()
        self._drop_ended()

    def _drop_ended(self) -> None:
        """Who consumes and owns nothing, and is counted as nobody's member, is dropped."""
        owners = [self._entries["owner"][p] for p in self._partitions]
        if self._writes or any(isinstance(m, Inconclusive) for m in owners):
            return
        for m in [*self._members]:
            if self._entries["live"][m] is False and m not in owners and self._has_ended(m):
                self._drop(m)
        kept = {*self._members, *self._dropped}
        self._registered = {name: m for name, m in self._registered.items() if m in kept}

    def _reads(self, line: CentralStep) -> None:
        while self._in_doubt:
            write = self._in_doubt.pop()
            if write.generation == line.generation:
                self._hand_over(write, line.time_ns)
            else:
                self._unwritten()
        generation = self._entries["generation"][()]
        if is_unsure(generation) or generation != line.generation:
            if not is_lost(generation) and type(generation) is not LastReported:
                for p in self._partitions:
                    self.seen.forget("owner", p)
            self.seen.refine("generation", (), line.generation)

    def _doubt_writes_of(self, node: str) -> None:
        for key in [k for k in self._writes if k[0] == node]:
            self._doubt(self._writes.pop(key))


def name_of(write: CentralStep) -> tuple[str, int]:
    """The node that has sent a write, and when."""
    return write.node, write.time_ns


def is_unsure(value: Any) -> bool:
    """True if it need not be what it was when it was told last."""
    return is_lost(value) or type(value) is LastReported
