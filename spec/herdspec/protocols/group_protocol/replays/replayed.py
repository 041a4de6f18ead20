"""
The spec as traces are replayed in it: what is held is the coordinator, whoever its clients are.

Members of these groups are anybody's clients, and trace nothing. What each of them did shows in
what the coordinator reads; so they may ask for whatever they like, at any time, and the spec's own
coordinator says what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from herdspec import action, require
from herdspec.check.conformance.follow import Call
from herdspec.language.specification import Specification
from herdspec.language.surface import Property
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.lemmas import (
    all_wait_while_the_generation_is_stored,
    each_state_has_its_write,
    epochs_are_won_by_one,
    memory_is_a_coordinators,
)
from herdspec.protocols.group_protocol.properties import (
    gone_at_once,
    one_coordinator,
    only_finished_is_committed,
    only_the_present_epoch_writes,
)
from herdspec.protocols.group_protocol.replays.replayed_clients import ANY_COORDINATOR
from herdspec.protocols.group_protocol.spec import (
    Awaited,
    Entry,
    GroupAnswer,
    GroupProtocol,
    MemberState,
)

# ── What a client does ──────────────────────────────────────────────────────────────────────


@action
def ask_to_join(self: GroupProtocol, m: Member, known: bool) -> None:
    """{m} sends JoinGroup, with its member id or without one."""
    self.client[m] = MemberState.REBALANCING
    self.has_id[m] = known
    self.down[m] = GroupAnswer.NONE
    self.ask(m, Awaited.JOIN)


@action
def ask_for_assignment(self: GroupProtocol, m: Member, present: bool) -> None:
    """{m} sends SyncGroup, of the present generation or of another one."""
    self.at[m] = self.generation if present else self.generation + 1
    self.down[m] = GroupAnswer.NONE
    self.ask(m, Awaited.SYNC)


@action
def be_alive(self: GroupProtocol, m: Member, present: bool) -> None:
    """{m} is about to send a heartbeat, of the present generation or of another one."""
    self.client[m] = MemberState.STABLE
    self.knows[m] = True
    self.has_id[m] = True
    self.rejoin[m] = False
    self.at[m] = self.generation if present else self.generation + 1


@action
def ask_to_leave(self: GroupProtocol, m: Member) -> None:
    """{m} sends LeaveGroup."""
    self.leaving[m] = True


@action
def begin_at(self: GroupProtocol, m: Member, p: Partition, stored: bool) -> None:
    """{m} goes to where the offset of {p} is stored, or to the beginning."""
    self.position[m, p] = self.committed[p] if stored else 0


@action
def finish(self: GroupProtocol, m: Member, p: Partition) -> None:
    """The application of {m} has finished with a record of {p}."""
    self.position[m, p] = self.position[m, p] + 1
    self.finished[p] = max(self.finished[p], self.position[m, p])


@action
def ask_to_commit(self: GroupProtocol, m: Member, present: bool, which: set[Partition]) -> None:
    """{m} sends OffsetCommit of {which}, of the present generation or of another one."""
    self.commit_at[m] = self.generation if present else self.generation + 1
    for p in Partition:
        self.committing[m, p] = self.position[m, p] if p in which else 0


def goes_to(s: GroupProtocol, m: Member, p: Partition, rank: int) -> Iterator[Call]:
    """A client comes to a position."""
    at, stored = s.position[m, p], s.committed[p]
    if at > rank or at < stored <= rank:
        at = stored if stored <= rank else 0
        yield "begin_at", (m, p, at == stored)
    for _ in range(at, rank):
        yield "finish", (m, p)


# ── What the coordinator does ───────────────────────────────────────────────────────────────


@action
def refuse_commit(self: GroupProtocol, m: Member) -> None:
    """The coordinator reads an OffsetCommit of {m} of which it takes nothing."""
    self.attends()
    require(
        not self.is_member(m)
        or all(not (self.committing[m, p] > 0 and self.accepts_offset(m, p)) for p in Partition)
    )
    self.drop_commit(m)


@action
def take_of_nobodys(self: GroupProtocol, m: Member, which: set[Partition]) -> None:
    """The coordinator takes offsets of {which} from {m}, who had them last; nobody has them now."""
    self.attends()
    require(self.is_member(m) and self.commit_at[m] == self.generation)
    require(self.assigned == self.generation)
    require(all(self.owner[p] is None or p not in which for p in Partition))
    for p in Partition:
        if p in which:
            self.noted[p] = self.committing[m, p]
    self.drop_commit(m)


@action
def handle_changed_join(self: GroupProtocol, m: Member) -> None:
    """The coordinator reads the JoinGroup of {m}, who says otherwise of itself than before."""
    self.hears(m, Awaited.JOIN)
    require(self.is_member(m) and self.answers_at_once(m))
    self.joined[m] = True
    self.note_joined(m)
    self.prepare_rebalance()


@action
def inherit(
    self: GroupProtocol, members: set[Member], plan: dict[Partition, Member | None], assigned: bool
) -> None:
    """A group was there before the trace begins: {members} belong to it, and {plan} is stored."""
    self.generation = 1
    self.assigned = 1 if assigned else 0
    for m in Member:
        self.belongs[m] = m in members
    for p in Partition:
        self.owner[p] = plan[p]


@action
def inherit_leader(self: GroupProtocol, m: Member) -> None:
    """{m} leads the group that was there before."""
    require(self.entry[m] == Entry.NONE)
    self.leader = m


def is_anybodys(self: GroupProtocol, p: Partition, owner: Member | None) -> bool:
    """True of any plan whose owners are members: what a leader plans is its own affair."""
    return owner is None or self.belongs[owner]


SHOWN = (
    only_the_present_epoch_writes, one_coordinator, only_finished_is_committed,
    epochs_are_won_by_one, memory_is_a_coordinators, each_state_has_its_write,
    all_wait_while_the_generation_is_stored,
)  # fmt: skip
"""Properties that hold in every state, whoever the clients are."""
FURTHER = (
    *ANY_COORDINATOR, ask_to_join, ask_for_assignment, be_alive, ask_to_leave, begin_at, finish,
    ask_to_commit, refuse_commit, take_of_nobodys, handle_changed_join, inherit, inherit_leader,
)  # fmt: skip


def in_replays(
    spec: Specification, shown: Sequence[Property] = SHOWN, **further: Callable[..., object]
) -> Specification:
    """A spec, or a variant of it, whose clients may be anybody's, and do these things, too."""
    bare = replace(spec, properties=())
    anybodys = bare.replace(spec.name, is_right=is_anybodys, has_stopped=gone_at_once)
    made = anybodys.add(spec.name, **{each.__name__: each for each in FURTHER}, **further)
    return made.with_properties(*shown)
