"""
The group protocol, seen by its answers: every one of its steps is some of `answered.py`, or none.

What is stored counts as soon as it is: a generation has begun, and an assignment is there, before
anybody is told. A group that nobody has loaded is what whoever loads it will find.

That each answer, too, may be given there, `properties` hold on walks: an answer changes nothing, so
that no step shows it.
"""

from __future__ import annotations

from dataclasses import replace

from herdspec import Nat, require
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.properties import without_stopping
from herdspec.protocols.group_protocol.replays.answered import ANSWERED
from herdspec.protocols.group_protocol.spec import GroupProtocol
from herdspec.protocols.group_protocol.values import Entry, GroupState, GroupWrite


def phase(s: GroupProtocol) -> GroupState:
    """The state in which it is, or will be found, or be told to be once what was stored is told."""
    is_told = s.coordinator is not None and not (
        s.done and (s.write == GroupWrite.GENERATION or s.write == GroupWrite.ASSIGNMENT)
    )
    if is_told:
        return s.state
    if all(not s.belongs[m] for m in Member):
        return GroupState.EMPTY
    return GroupState.STABLE if s.assigned == s.generation else GroupState.COMPLETING_REBALANCE


def generation(s: GroupProtocol) -> Nat:
    """The generation that is stored."""
    return s.generation


def entry(s: GroupProtocol, m: Member) -> Entry:
    """The entry in memory, or the one that will be there."""
    if s.coordinator is None:
        return Entry.MEMBER if s.belongs[m] else Entry.NONE
    return s.entry[m]


def belongs(s: GroupProtocol, m: Member) -> bool:
    """It is a member of that generation."""
    return s.belongs[m]


def leader(s: GroupProtocol) -> Member | None:
    """The leader of that generation."""
    return s.leader


def assigned(s: GroupProtocol) -> Nat:
    """The generation of the assignment that is stored."""
    return s.assigned


def share(s: GroupProtocol, m: Member, p: Partition) -> bool:
    """Whose a partition is by the present generation's assignment."""
    return s.assigned == s.generation and s.owner[p] == m


# ── The protocol, whose steps say more ──────────────────────────────────────────────────────


def store_generation(self: GroupProtocol, leader: Member, members: set[Member]) -> None:
    """The next generation is stored: of {members}, which {leader} leads."""
    self.stores(GroupWrite.GENERATION)
    require(self.has_members())
    require(self.leader == leader or self.leader is None or not self.joined[self.leader])
    require(self.joined[leader])
    require(all(self.is_member(m) == (m in members) for m in Member))
    self.begin_generation()
    self.leader = leader


def store_assignment(
    self: GroupProtocol,
    plan: dict[Partition, Member | None],
    shares: set[tuple[Member, Partition]],
) -> None:
    """The assignment that the leader has sent is stored: {plan}."""
    self.stores(GroupWrite.ASSIGNMENT)
    require(all(self.is_right(p, plan[p]) for p in Partition))
    require(all((plan[p] == m) == ((m, p) in shares) for m in Member for p in Partition))
    self.assigned = self.generation
    for p in Partition:
        self.hand_over(p, plan[p])
    self.note_handed_over()


SAYING = without_stopping().replace(
    "SayingGroup",
    store_generation=store_generation,
    store_assignment=store_assignment,
)
"""The verified protocol, whoever has stopped, whose writes say what is stored."""
ACTIONS: dict[str, tuple[str, ...]] = {
    "load_group": ("take_over", STUTTER),
    "doubt": ("take_over", STUTTER),
    "step_down": ("take_over", STUTTER),
    "restart": ("take_over", STUTTER),
    "handle_join_group": ("give_id", "admit", "rebalance", STUTTER),
    "store_generation": ("begin_generation",),
    "store_empty_generation": ("become_empty",),
    "store_assignment": ("share_out",),
    "expire": ("drop",),
    "expire_gone": ("drop",),
    "handle_leave_group": ("drop", STUTTER),
}
FIELDS = (phase, generation, entry, belongs, leader, assigned, share)
CHANGES = ANSWERED.drop("AnsweredChanges", *(a.name for a in ANSWERED.actions if not a.updates))
"""The steps that change something: the answers themselves change nothing."""
SEEN_CHANGES = replace(CHANGES, properties=()).drop("SeenChanges", "pass_unseen", "vanish")
"""Without what is supposed where clients, or answers, were not seen."""
ANSWERS = Refinement(concrete=SAYING, abstract=SEEN_CHANGES, fields=FIELDS, actions=ACTIONS)
"""Every step of the verified protocol is some of what changes here, or none."""
