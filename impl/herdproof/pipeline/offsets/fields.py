"""
What each record of `__consumer_offsets` says of the contract's fields: no guard, no judgement.

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

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from herdproof.pipeline.offsets import events as e
from herdproof.pipeline.offsets.records import Partition, name_of, partition_of
from herdspec.check.observation.doubt import UNKNOWN, is_lost
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.protocols.contract.properties import CONTRACT

INITIAL: Mapping[str, Any] = {
    "generation": UNKNOWN, "owner": UNKNOWN, "consumes": False, "committed": UNKNOWN,
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

Words: TypeAlias = Callable[[], str]
"""What is said of a step, if anybody asks."""


class OffsetsFields:
    """The events of one group, in the order of its log, as steps of the contract's fields."""

    def __init__(self) -> None:
        self.seen = Observed(WATCHES)
        self.doubts: dict[str, str] = {}
        """By field, why not all is known of it."""
        self._owned: dict[Partition, None] = {}

    def take(self, event: e.Event) -> Iterator[Words]:
        """What an event says, step by step; who is given one takes it."""
        fill = _FILLS.get(type(event))
        return iter(()) if fill is None else fill(self, event)

    def _tell(self, field: str, key: Any, value: Any) -> Any:
        """An entry becomes this; or is found to be this, if nobody knew. What it was."""
        before = self.seen.get(field, key)
        if is_lost(before):
            self.seen.refine(field, key, value)
        else:
            self.seen.set(field, key, value)
        return before

    # ── Generations ─────────────────────────────────────────────────────────────────────────

    def assigned(self, event: e.Assigned) -> Iterator[Words]:
        """A generation, and its owners."""
        owners: dict[Partition, str] = {}
        also = [(p, m) for p, m in event.owners if owners.setdefault(p, m) != m]
        for p in owners:
            self.seen.add("Partition", p)
            self._owned[p] = None
        before = {p: self._tell("owner", p, event.consumer_of(owners.get(p))) for p in self._owned}
        last = self._tell("generation", (), event.generation)
        yield partial(_generation_told, event, last, before)
        for p, m in also:
            self.seen.set("owner", p, event.consumer_of(m))
            yield partial("{} is assigned to {} and to {}".format, name_of(p), owners[p], m)
            self.seen.forget("owner", p)

    def deleted(self, event: e.Deleted) -> Iterator[Words]:
        """Another group of this name begins with generations of its own."""
        self.seen.amend("generation", (), 0)
        for p in self._owned:
            self.seen.amend("owner", p, None)
        yield lambda: event.told()[-1]

    # ── What members have ───────────────────────────────────────────────────────────────────

    def began(self, event: e.Began) -> Iterator[Words]:
        """A consumer is given a partition."""
        m, p = event.consumer, event.partition
        self.seen.add("Member", m)
        self.seen.add("Partition", p)
        self.seen.set("consumes", (m, p), True)
        yield lambda: f"{m} is given {name_of(p)}, which {' and '.join(self._others(m, p))} has"

    def _others(self, m: str, p: Partition) -> list[str]:
        every = self.seen.domains["Member"]
        return [x for x in every if x != m and self.seen.get("consumes", (x, p)) is True]

    def ended(self, event: e.Ended) -> Iterator[Words]:
        """A consumer has given a partition up."""
        if event.consumer in self.seen.domains["Member"]:
            self.seen.set("consumes", (event.consumer, event.partition), False)
            yield lambda: event.told()[-1]

    def left(self, event: e.Left) -> Iterator[Words]:
        """A consumer is no more."""
        if event.consumer in self.seen.domains["Member"]:
            for p in self.seen.domains["Partition"]:
                self.seen.set("consumes", (event.consumer, p), False)
            yield lambda: event.told()[-1]
            self.seen.drop("Member", event.consumer)

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def committed(self, event: e.Committed) -> Iterator[Words]:
        """An offset is stored, set back, or deleted."""
        if event.outcome != "stored":
            return
        p, offset = event.partition, event.offset
        self.seen.add("Partition", p)
        before = self.seen.get("committed", p)
        if offset is None:
            self.seen.amend("committed", p, 0)
        elif event.is_reset and not is_lost(before) and offset + 1 < before:
            self.seen.forget("committed", p)
            self.seen.refine("committed", p, offset + 1)
            why = f"{event.place}: whoever sets an offset back in a group without members may"
            self.doubts.setdefault("committed", why)
        else:
            self._tell("committed", p, offset + 1)
        yield lambda: f"offset {offset} of {name_of(p)} is stored, after {before - 1}"

    # ── What cannot be read ─────────────────────────────────────────────────────────────────

    def unread(self, event: e.Unread) -> Iterator[Words]:
        """What a record would have told is not known."""
        kind, seen = event.key.kind.name, self.seen
        for field in FILLED_BY.get(kind, ()):
            self.doubts.setdefault(field, f"{event.place} cannot be read")
        match kind:
            case "OffsetCommit":
                seen.forget("committed", partition_of(event.key))
            case "GroupMetadata" | "ConsumerGroupTargetAssignmentMetadata":
                seen.forget("generation", ())
                seen.forget_all("owner")
            case "ConsumerGroupCurrentMemberAssignment" if event.consumer in seen.domains["Member"]:
                seen.forget_all("consumes", event.consumer)
        yield lambda: event.told()[-1]


def _generation_told(event: e.Assigned, last: Any, before: Mapping[Partition, Any]) -> str:
    """A generation, and who has taken whose partition over in it."""
    took = [
        f"; {name_of(p)}, which was {before[p]}'s, is {m}'s"
        for p, m in event.owners
        if not is_lost(before[p]) and before[p] not in (None, event.consumer_of(m))
    ]
    return f"generation {event.generation} is stored, after {last}{''.join(took)}"


_FILLS: Mapping[type[e.Event], Callable[[OffsetsFields, Any], Iterator[Words]]] = {
    e.Assigned: OffsetsFields.assigned, e.Deleted: OffsetsFields.deleted,
    e.Began: OffsetsFields.began, e.Ended: OffsetsFields.ended, e.Left: OffsetsFields.left,
    e.Committed: OffsetsFields.committed, e.Unread: OffsetsFields.unread,
}  # fmt: skip
"""By event; others say nothing of these fields."""
