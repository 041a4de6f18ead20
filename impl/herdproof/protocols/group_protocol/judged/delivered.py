"""
Judges the deliveries that a test reports by the contract's own properties.

The eyes are those that look on simulated runs; here they see what a broker for tests has written
down. A member is known by its client's name. It begins to consume a partition with the first record
that it is given, and again with each that lies before the last one; that must be where its group's
offset is stored. A consumer that keeps a partition over a rebalance goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from herdproof.pipeline.campaign.judged import BrokenPromise
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoredMetadata,
    TopicPartition,
)
from herdproof.protocols.group_protocol.judged.eyes import PROMISES, GroupContractEyes
from herdproof.protocols.group_protocol.testing.errors import BadBrokerUse
from herdproof.protocols.group_protocol.testing.happened import (
    BrokerEvent,
    GenerationTold,
    GroupWasStored,
    OffsetsAsked,
    RecordDelivered,
    TermBegan,
    TopicAppeared,
)
from herdspec.check.observation.observed import Judgement

OWN = {
    "one_leader": "all members of a generation are told of one leader",
    "what_is_handed_out_is_stored": "no generation is told before it is stored",
}
"""The protocol's own sentences, beside the contract's."""


class ContractBroken(AssertionError):
    """Deliveries broke the contract; one line for each sentence and where."""


@dataclass(frozen=True, kw_only=True)
class GroupVerdict:
    """Verdict on a group: `broken` is empty if everything kept to the contract."""

    group: str
    broken: Sequence[BrokenPromise]
    rulings: Mapping[str, Judgement]
    """By the contract's sentences; one of which nothing was seen says so, and shows nothing."""
    repeats: int
    """Records that were delivered again, be it within bounds."""

    @property
    def sentences(self) -> list[str]:
        """The names of what was broken, each once."""
        return list(dict.fromkeys(each.promise for each in self.broken))

    def check(self) -> None:
        """Raise `ContractBroken` if anything is broken."""
        if self.broken:
            raise ContractBroken("\n".join(map(told, self.broken)))


def told(broken: BrokenPromise) -> str:
    """A broken sentence, in its own words."""
    name = broken.promise
    words = OWN[name] if name in OWN else PROMISES[name].sentence
    where = ", ".join(f"{key} = {value}" for key, value in broken.of.items())
    return f"{name} ({words}) is broken by {where}"


class DeliveredEyes(GroupContractEyes):
    """Sees one group of a broker for tests."""

    def __init__(self, *, fenced: bool, reset: str) -> None:
        super().__init__()
        self.repeats = 0
        self.now_ms = 0
        self._fenced = fenced
        self._resets_to_latest = reset == "latest"
        self._names: dict[str, str] = {}
        self._entered: dict[str, None] = {}
        self._finished: dict[TopicPartition, int] = {}
        """By partition, up to where all is finished."""
        self._delivered: dict[TopicPartition, set[int]] = {}

    @property
    def _now_ms(self) -> float:
        return self.now_ms

    def _enter(self, member: str) -> None:
        if member not in self._entered:
            self._entered[member] = None
            self.enters(member)

    # ── What the broker has written down ────────────────────────────────────────────────────

    def take(self, event: BrokerEvent) -> None:
        """Something happened."""
        match event:
            case TopicAppeared(name, partitions):
                self._appears(name, partitions)
            case TermBegan(epoch):
                self.epoch(epoch, f"coordinator {epoch}")
                self.coordinates(f"coordinator {epoch}", epoch)
            case GroupWasStored(_, stored, epoch):
                self._sees_stored(stored, epoch)
            case GenerationTold(_, client, generation, leader):
                self._enter(client)
                self.joins(client, generation, self._names.get(leader, leader))
            case OffsetsAsked(_, client, offsets):
                self._enter(client)
                self._resolve_by_commit(client, offsets)
                self.commits(client, offsets)
            case RecordDelivered(_, member, where, offset):
                self.delivered(member, where, offset)

    def _appears(self, topic: str, partitions: int) -> None:
        """Nothing lies before the first offset: up to there all is finished."""
        self.partitions({topic: partitions})
        for number in range(partitions):
            self._finish((topic, number), 0)

    def _sees_stored(self, stored: StoredClassicGroup, epoch: int) -> None:
        if stored.metadata is not None:
            self._name(stored.metadata)
        self.stored(f"coordinator {epoch}", stored, self._names)
        for where, commit in stored.offsets.items():
            self._finish(where, commit.offset)  # told already, if it was not

    def _name(self, metadata: StoredMetadata) -> None:
        names = [member.client_id for member in metadata.members]
        for member in metadata.members:
            if names.count(member.client_id) > 1:
                raise BadBrokerUse(
                    f"two members of the group call themselves {member.client_id!r}: give each "
                    f"consumer a client.id of its own, or nobody can tell who was given what"
                )
            self._names[member.member_id] = member.client_id
            self._enter(member.client_id)

    def _hand_over(self, owners: Mapping[TopicPartition, str]) -> None:
        """Who consumes what is another's from now on counts no more; all others go on."""
        for where in self._finished:
            owner = self.seen.get("owner", where)
            if owner is not None and owners.get(where, owner) != owner:
                self._stop(owner, where)

    def _stop(self, member: str, where: TopicPartition) -> None:
        self.seen.set("consumes", (member, where), False)
        self.seen.set("position", (member, where), 0)
        self._step()

    def _resolve_by_commit(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Who begins at the end may say so before it is given anything."""
        for where, offset in offsets.items():
            begins = not self.seen.get("committed", where) and not self._delivered.get(where)
            if self._resets_to_latest and begins and self.seen.get("owner", where) == member:
                self._finish(where, offset)

    # ── What the test says ──────────────────────────────────────────────────────────────────

    def delivered(self, member: str, where: TopicPartition, offset: int) -> None:
        """A member was given a record."""
        done = self._delivered.setdefault(where, set())
        self.repeats += offset in done
        position = self.seen.get("position", (member, where))
        if self.seen.get("owner", where) != member:
            self._reads_on(member, where)
        elif not self.seen.get("consumes", (member, where)):
            self._begins(member, where, offset)
        elif offset + 1 < position:
            self._stop(member, where)
            self._begins(member, where, offset)
        if self.seen.get("consumes", (member, where)):
            self.seen.set("position", (member, where), offset + 1)
            self._step()
            self._finish(where, offset)  # what was skipped is told once
        done.add(offset)
        self._finish_on(where)
        if self.seen.get("consumes", (member, where)):
            self.seen.set("position", (member, where), offset + 2)
            self._step()

    def _reads_on(self, member: str, where: TopicPartition) -> None:
        """A member was given a record of a partition that is another's, or nobody's."""
        if not self._fenced:
            self.seen.set("consumes", (member, where), True)
            self.seen.set("position", (member, where), self.seen.get("committed", where))
            self._step()
            self._stop(member, where)

    def _begins(self, member: str, where: TopicPartition, offset: int) -> None:
        """A member begins: where the offset is stored, or where its reset has found a start."""
        is_stored = bool(self.seen.get("committed", where))
        self.seen.set("consumes", (member, where), True)
        self.seen.set("position", (member, where), offset + 1 if is_stored else 0)
        self._step()
        if not is_stored and self._resets_to_latest:
            self._finish(where, offset)

    def _finish(self, where: TopicPartition, before: int) -> None:
        """Whatever lies before an offset counts as finished."""
        self._finished[where] = max(self._finished.get(where, 0), before)
        self._finish_on(where)

    def _finish_on(self, where: TopicPartition) -> None:
        done = self._delivered.get(where, set())
        while self._finished[where] in done:
            self._finished[where] += 1
        self.seen.set("finished", where, self._finished[where] + 1)
        self._step()


def judged(
    events: Sequence[tuple[int, BrokerEvent]], group: str | None, fenced: bool, reset: str
) -> GroupVerdict:
    """Hold what happened against the contract; raises `BadBrokerUse` if that shows nothing."""
    told_of = dict.fromkeys(
        event.group for _, event in events if isinstance(event, RecordDelivered)
    )
    if group is None and len(told_of) == 1:
        (group,) = told_of
    if group is None or group not in told_of:
        raise BadBrokerUse(
            f"judge({group!r}): records were delivered to "
            f"{', '.join(map(repr, told_of)) or 'nobody'}; say broker.delivered(member, record) "
            f"for each, and which group is meant"
        )
    eyes = DeliveredEyes(fenced=fenced, reset=reset)
    for at_ms, event in events:
        if getattr(event, "group", group) == group:
            eyes.now_ms = at_ms
            eyes.take(event)
    rulings = {each.promise.name: each for each in eyes.seen.judgements()}
    return GroupVerdict(group=group, broken=eyes.violations, rulings=rulings, repeats=eyes.repeats)
