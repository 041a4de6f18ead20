"""
Simulated runs of the group protocol, held against the contract's own properties as they happen.

    found = judged_group_run(seed=7)
    found.violations

What the eyes see fills the contract's fields, without a guard. Offsets are one more than told, 0 is
"none stored". The fenced form is judged: a member counts as consuming while its generation is the
one whose assignments are stored; who goes on longer is not seen, and what it says may not count.
What lies before a start that the reset has found counts as finished. Of the sentences, those are
left out that speak of what a coordinator knows, and of stores of which there is one step here
(`stored_as_taken`, `what_was_taken_is_stored_at_the_handover`). Three of the protocol's own
are added: `one_leader`, `what_is_handed_out_is_stored`, and `only_who_runs_twice_is_fenced`, of
static members; and one of our client, which holds a lease: `only_one_is_handed_records`, of a
partition at a time, without any assumption.

Each life of a static member is a member here. Whose place the next one has stored has ceased to
count, and what is said of two that are handed records is not said of it: two processes under one
name are what its user must not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.pipeline.campaign.judged import BrokenPromise, JudgedRun
from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.joins import KNOWN_ID_FROM_VERSION
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoredMember,
    TopicPartition,
)
from herdproof.protocols.group_protocol.simulated.eyes import GroupEyes
from herdproof.protocols.group_protocol.simulated.member import SimulatedGroupMember
from herdproof.protocols.group_protocol.simulated.random_runs import GroupRunConfig, GroupTrouble
from herdproof.protocols.group_protocol.simulated.world import (
    DEFAULT,
    GroupRun,
    Observes,
)
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import watches_of
from herdspec.protocols.contract.properties import CONTRACT

INITIAL: Mapping[str, Any] = {
    "epoch": 0, "elected": None, "term": 0, "author": None, "generation": 0, "owner": None,
    "consumes": False, "position": 0, "reported": 0, "committing": 0, "accepted": 0,
    "finished": 0, "committed": 0,
}  # fmt: skip
JUDGED = (
    "exclusive", "who_consumes_owns", "exclusive_fenced", "epochs_never_go_back",
    "generations_never_go_back", "committed_offsets_never_go_back",
    "owners_change_with_the_generation", "only_finished_is_committed",
    "nobody_is_past_the_unfinished", "who_begins_does_so_at_the_stored_offset", "one_coordinator",
    "an_epoch_is_won_by_one", "only_the_present_epoch_writes",
)  # fmt: skip
"""The contract's sentences that a run is held against."""
PROMISES = {promise.name: promise for promise in CONTRACT.properties}
WATCHES = watches_of(CONTRACT, INITIAL, [PROMISES[name] for name in JUDGED])


class GroupContractEyes(GroupEyes):
    """Fills the contract's fields with what it sees."""

    def __init__(self) -> None:
        self.seen = Observed(WATCHES)
        self.violations: list[BrokenPromise] = []
        self.run: GroupRun | None = None
        self._consuming: dict[str, tuple[int, set[TopicPartition]]] = {}
        """Of each member that counts: its generation, and what it consumes."""
        self._said: dict[tuple[str, TopicPartition], set[int]] = {}
        self._brokers: dict[str, None] = {}
        self._generation = 0
        """The last that is stored, be it assigned or not."""
        self._leaders: dict[int, str] = {}
        self._lives: dict[str, str] = {}
        """By static member's name, the member id that is stored of it."""
        self._instances: dict[str, str] = {}
        """By member id that was ever stored of one, its name."""
        self._holders: dict[TopicPartition, StoredMember] = {}
        """Whose each partition is, as it is stored."""

    # ── What is there ───────────────────────────────────────────────────────────────────────

    def partitions(self, topics: Mapping[str, int]) -> None:
        """Partitions appear."""
        for topic, count in topics.items():
            for number in range(count):
                self.seen.add("Partition", (topic, number))
        self._step()

    def enters(self, member: str) -> None:
        """Members appear."""
        self.seen.add("Member", member)
        self._step()

    def coordinates(self, broker: str, epoch: int) -> None:
        """A broker coordinates."""
        if broker not in self._brokers:
            self._brokers[broker] = None
            self.seen.add("Broker", broker)
            self._step()
        self.seen.set("term", broker, epoch)
        self._step()

    def epoch(self, epoch: int, broker: str) -> None:
        """An epoch is won."""
        self.seen.set("epoch", (), epoch)
        self.seen.set("elected", (), broker)
        self._step()

    def stored(self, author: str, group: StoredClassicGroup, names: Mapping[str, str]) -> None:
        """Generation, owners and offsets are what ZooKeeper keeps."""
        self.seen.set("author", (), author)
        self._offsets_stored(group)
        metadata = group.metadata
        if metadata is None:
            return
        self._generation = metadata.generation
        statics = [(m.group_instance_id, m.member_id) for m in metadata.members]
        self._lives = {name: member_id for name, member_id in statics if name is not None}
        self._instances |= {member_id: name for name, member_id in self._lives.items()}
        if not metadata.is_assigned:
            return
        before, self._holders = self._holders, {
            where: member for member in metadata.members
            for where in read_assignment(member.assignment)
        }  # fmt: skip
        owners = {w: names.get(m.member_id, m.member_id) for w, m in self._holders.items()}
        if metadata.generation > self.seen.get("generation"):
            self._hand_over(owners)
            self._said.clear()
        else:
            self._replace(before, owners)
        self.seen.set("generation", (), metadata.generation)
        for where, owner in owners.items():
            self.seen.set("owner", where, owner)
        self._step()

    def _hand_over(self, owners: Mapping[TopicPartition, str]) -> None:
        """These are about to be the owners: whoever consumes counts no more."""
        del owners
        for member in list(self._consuming):
            self.stops(member)

    def _replace(
        self, before: Mapping[TopicPartition, StoredMember], owners: Mapping[TopicPartition, str]
    ) -> None:  # fmt: skip
        """Of a static member's partitions its next life is the owner, and has been all along."""
        for where, former in before.items():
            now = self._holders.get(where, former)
            instance = former.group_instance_id
            if instance is not None and instance == now.group_instance_id and former != now:
                self.stops(self.seen.get("owner", where))
                self.seen.amend("owner", where, owners[where])

    def named(self, member_id: str, member: str) -> None:
        """An id may be stored before anybody knows whose it is: a static or an old member's."""
        assert self.run is not None
        version = self.run.config.join_version
        is_old = version is not None and version < KNOWN_ID_FROM_VERSION
        if not is_old and member_id not in self._instances:
            return
        for topic, count in self.run.kafka.topics.items():
            for where in ((topic, number) for number in range(count)):
                if self.seen.get("owner", where) == member_id:
                    self.seen.amend("owner", where, member)

    def fenced(self, member: str) -> None:
        """Nobody is fenced whose name only one process at a time has borne."""
        assert self.run is not None
        if self._member(member).instance not in self.run.twice:
            self._own("only_who_runs_twice_is_fenced", m=member)

    def _member(self, name: str) -> SimulatedGroupMember:
        assert self.run is not None
        (found,) = (member for member in self.run.members if member.name == name)
        return found

    def _has_next_life(self, member: SimulatedGroupMember) -> bool:
        """True if another life of a static member is stored in the place of this one."""
        own = member.core.coordinator.generation.member_id
        return member.instance is not None and self._lives.get(member.instance, own) != own

    def _offsets_stored(self, group: StoredClassicGroup) -> None:
        for where, stored in group.offsets.items():
            offset = stored.offset + 1
            if offset == self.seen.get("committed", where):
                continue
            owner = self.seen.get("owner", where)
            if offset in self._said.get((owner, where), ()):
                self.seen.set("committing", (owner, where), offset)
                self._step()
            self.seen.set("accepted", where, offset)
            self.seen.set("committed", where, offset)
        self._step()

    def joins(self, member: str, generation: int, leader: str) -> None:
        """No generation is told before it is stored, nor with two leaders."""
        if generation > self._generation:
            self._own("what_is_handed_out_is_stored", m=member, generation=generation)
        who = self._instances.get(leader, leader)
        if self._leaders.setdefault(generation, who) != who:
            self._own("one_leader", m=member, generation=generation)

    def _own(self, sentence: str, **of: Any) -> None:
        self.violations.append(BrokenPromise(sentence, self._now_ms, of))

    # ── What members do ─────────────────────────────────────────────────────────────────────

    def begins(self, member: str, generation: int, starts: Mapping[TopicPartition, int]) -> None:
        """A member consumes from there, if its generation is the present one."""
        if generation != self.seen.get("generation") or self._has_next_life(self._member(member)):
            return
        self._consuming[member] = (generation, set(starts))
        for where, offset in starts.items():
            self.seen.set("consumes", (member, where), True)
            self.seen.set("position", (member, where), offset + 1)
        self._step()

    def stops(self, member: str) -> None:
        """A member consumes nothing any more, or counts no more."""
        _, partitions = self._consuming.pop(member, (0, set[TopicPartition]()))
        for where in sorted(partitions):
            self.seen.set("consumes", (member, where), False)
            self.seen.set("position", (member, where), 0)
        self._step()

    def resolves(self, member: str, where: TopicPartition, offset: int) -> None:
        """Count as finished what lies before a start that the reset has found."""
        self._is_at(member, where, offset + 1)

    def delivers(self, member: str, where: TopicPartition) -> None:
        """Whoever gets a record, nobody else may: the lease keeps that, whoever is counted."""
        assert self.run is not None
        if self._has_next_life(self._member(member)):
            return
        for other in self.run.members:
            if other.name == member or self._has_next_life(other):
                continue
            if other.may_deliver(where):
                self._own("only_one_is_handed_records", m=member, other=other.name, p=where)

    def finishes(self, member: str, where: TopicPartition, offset: int) -> None:
        """A record is finished with."""
        self._is_at(member, where, offset + 2)

    def _is_at(self, member: str, where: TopicPartition, position: int) -> None:
        self.seen.set("finished", where, max(self.seen.get("finished", where), position))
        self._step()
        if self.seen.get("consumes", (member, where)):
            self.seen.set("position", (member, where), position)
            self._step()

    def commits(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Note the offsets that a member says; they count if the partition is its own."""
        for where, offset in offsets.items():
            self._said.setdefault((member, where), set()).add(offset + 1)

    def _step(self) -> None:
        self.seen.step()
        self.violations += [
            BrokenPromise(found.promise.name, self._now_ms, found.of)
            for found in self.seen.broken()
        ]

    @property
    def _now_ms(self) -> float:
        return self.run.timeline.now if self.run is not None else 0.0


def judged_group_run(
    seed: int, config: GroupRunConfig = DEFAULT,
    coordinator: type[GroupCoordinator] = GroupCoordinator,
    troubles: Sequence[GroupTrouble] | None = None,
    client: type[GroupConsumer] = GroupConsumer,
    assignors: Callable[[], tuple[PartitionAssignor, ...]] | None = None,
    observe: Observes | None = None,
) -> JudgedRun[GroupRun]:  # fmt: skip
    """Live through a run, and judge it."""
    eyes = GroupContractEyes()
    run = GroupRun(seed, config, eyes, coordinator, troubles, client, assignors, observe)
    eyes.run = run
    run.live()
    rulings = {j.promise.name: j for j in eyes.seen.judgements()}
    unsettled = {p: members for p, members in run.consumed_by().items() if len(members) != 1}
    return JudgedRun(run, eyes.violations, rulings, unsettled)
