"""
The contract's fields as records of `__consumer_offsets` fill them: no guard, no judgement.

- A `Member` is a consumer (a static one is its instance, whatever it is called in a generation), a
  `Partition` a topic and a number. Offsets are one more than stored, 0 is "none".
- A generation is one step: its number and its owners. Who is named as a second owner of a partition
  takes it over in a step of its own, within that generation.
- What members of a classic group consume is in no record. Of KIP-848 the owner is whom a partition
  is meant for; a member consumes what its coordinator has given it, until it has given that up.
- What is deleted begins anew, and is no step. Nor is what is set back while a group has no member:
  that is how users reset offsets, of which the contract does not speak; so it is unknown then.
- Of a record that cannot be read, what it would have told is unknown until it is told again.

Compaction takes a record away only if a later one of its key is there, and of the oldest first: no
record is missing between two of one key. So what they violate is violated; but what was taken away
may have violated something too: nothing holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.offsets import events as e
from herdproof.pipeline.offsets.records import Partition, partition_of
from herdspec.check.observation.inconclusive import is_lost
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.protocols.contract.properties import CONTRACT
from herdspec.protocols.contract.spec import Stage

INITIAL: Mapping[str, Any] = {
    "generation": 0, "owner": None, "live": False, "stage": Stage.OPEN, "consumes": False,
    "committed": 0,
}  # fmt: skip
"""The fields that this log fills, before anything is told."""

PROMISED = [p for p in CONTRACT.properties if p.expectation in JUDGED and not p.lemma]

UNLIKE: Mapping[str, str] = {
    "who_consumes_owns": "what is meant for a member is another's until that has given it up",
}
"""Promises that a group of KIP-848 does not make, if the owner is whom a partition is meant for."""

WATCHES = watches_of(CONTRACT, INITIAL, [p for p in PROMISED if p.name not in UNLIKE])

FILLED_BY: Mapping[str, tuple[str, ...]] = {
    "OffsetCommit": ("committed",),
    "GroupMetadata": ("generation", "owner"),
    "ConsumerGroupTargetAssignmentMetadata": ("generation", "owner"),
    "ConsumerGroupTargetAssignmentMember": ("owner",),
    "ConsumerGroupCurrentMemberAssignment": ("consumes",),
}
"""By kind of record, the fields of which it tells."""

Member = tuple[str]


class OffsetsFields:
    """The events of one group, in the order of its log, as steps of the contract's fields."""

    def __init__(self, seen: Observed) -> None:
        self.seen = seen
        self.tells: Changes | None = None
        self.doubts: dict[str, str] = {}
        """By field, why not all is known of it."""
        self._has_begun = False
        """True if a rebalance was told of that has made no generation yet."""
        self._is_broken = False

    def take(self, event: e.Event) -> bool:
        """The next event; whether it broke something."""
        self._is_broken = False
        fill = _FILLS.get(type(event))
        if fill is not None:
            fill(self, event)
            self._step()
        return self._is_broken

    def _step(self) -> None:
        self._is_broken = self.seen.step() or self._is_broken

    # ── Members and generations ─────────────────────────────────────────────────────────────

    def joined(self, event: e.Joined) -> None:
        """A member is counted as one."""
        m = (event.consumer,)
        if self.tells is not None:
            self.tells.named(m, event.member, event.consumer)
        self.seen.add("Member", m)
        self.seen.set("live", m, True)

    def left(self, event: e.Left) -> None:
        """A member is no more; nobody says how it went."""
        m = (event.consumer,)
        if self.tells is not None:
            self.tells.goes("unknown")
        self.seen.set("live", m, False)
        for p in self.seen.domains["Partition"]:
            self._consumes(m, p, False)
        self._step()
        self.seen.drop("Member", m)

    def rebalance(self, event: e.Rebalance) -> None:
        """A group of KIP-848 is to be rebalanced."""
        self._has_begun = True
        if self.tells is not None:
            self.tells.begins(event.epoch)
        self.seen.set("stage", (), Stage.OPEN)

    def assigned(self, event: e.GenerationStored) -> None:
        """A generation, and its owners."""
        before = self.seen.get("generation")
        is_new = is_lost(before) or event.generation != before
        if self.tells is not None and is_new and not self._has_begun:
            self.tells.has_begun()
        self._has_begun = False
        owners: dict[Partition, str] = {}
        also = [(p, m) for p, m in event.owners if owners.setdefault(p, m) != m]
        for p in owners:
            self.seen.add("Partition", p)
        self.seen.set("generation", (), event.generation)
        for p in self.seen.domains["Partition"]:
            self.seen.set("owner", p, event.consumer_of(owners.get(p)))
        self.seen.set("stage", (), Stage.HANDED)
        for p, m in also:
            self._step()
            self.seen.set("owner", p, event.consumer_of(m))
            self._step()
            self.seen.forget("owner", p)

    def settled(self, event: e.Settled) -> None:
        """Every member has what it is to have."""
        del event
        self.seen.set("stage", (), Stage.STABLE)

    def deleted(self, event: e.GroupDeleted) -> None:
        """Another group of this name begins with generations of its own."""
        del event
        self.seen.amend("generation", (), 0)
        for p in self.seen.domains["Partition"]:
            self.seen.amend("owner", p, None)

    # ── What members have ───────────────────────────────────────────────────────────────────

    def began(self, event: e.Began) -> None:
        """A consumer is given a partition."""
        m, p = (event.consumer,), event.partition
        self.seen.add("Member", m)
        self.seen.add("Partition", p)
        self._consumes(m, p, True)

    def ended(self, event: e.Ended) -> None:
        """A consumer has given a partition up."""
        m = (event.consumer,)
        if m in self.seen.domains["Member"]:
            self._consumes(m, event.partition, False)

    def _consumes(self, m: Member, p: Partition, value: bool) -> None:
        """It begins, or ends; or is found to have done so, if nobody knew."""
        if is_lost(self.seen.get("consumes", (m, p))):
            self.seen.refine("consumes", (m, p), value)
        else:
            self.seen.set("consumes", (m, p), value)

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def committed(self, event: e.OffsetStored) -> None:
        """An offset is stored, set back, or deleted."""
        p, offset = event.partition, event.offset
        if self.tells is not None:
            self.tells.commits(p, offset, event.outcome)
        if event.outcome != "stored":
            return
        self.seen.add("Partition", p)
        before = self.seen.get("committed", p)
        if offset is None:
            self.seen.amend("committed", p, 0)
        elif event.is_reset and not is_lost(before) and offset + 1 < before:
            self.seen.amend("committed", p, offset + 1)
            why = f"{event.place}: whoever sets an offset back in a group without members may"
            self.doubts.setdefault("committed", why)
        else:
            self.seen.set("committed", p, offset + 1)

    # ── What cannot be read ─────────────────────────────────────────────────────────────────

    def unread(self, event: e.Unread) -> None:
        """Forget what a record would have told."""
        kind, seen, m = event.key.kind.name, self.seen, (event.consumer,)
        for field in FILLED_BY.get(kind, ()):
            self.doubts.setdefault(field, f"{event.place} cannot be read")
        match kind:
            case "OffsetCommit":
                seen.forget("committed", partition_of(event.key))
            case "GroupMetadata" | "ConsumerGroupTargetAssignmentMetadata":
                seen.forget("generation", ())
                seen.forget_all("owner")
            case "ConsumerGroupCurrentMemberAssignment" if m in seen.domains["Member"]:
                seen.forget_all("consumes", m)
        if self.tells is not None:
            self.tells.lose()


_FILLS: Mapping[type[e.Event], Callable[[OffsetsFields, Any], None]] = {
    e.Joined: OffsetsFields.joined, e.Left: OffsetsFields.left,
    e.Rebalance: OffsetsFields.rebalance, e.GenerationStored: OffsetsFields.assigned,
    e.Settled: OffsetsFields.settled, e.GroupDeleted: OffsetsFields.deleted,
    e.Began: OffsetsFields.began, e.Ended: OffsetsFields.ended,
    e.OffsetStored: OffsetsFields.committed, e.Unread: OffsetsFields.unread,
}  # fmt: skip
"""The functions that fill the fields, by event."""
