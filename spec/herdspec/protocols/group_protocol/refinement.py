"""
The group protocol, seen as the contract: every one of its steps is one that users are owed.

`REFINEMENT` is the strict form, under the assumption `evicted_has_stopped`: every client that
consumes is seen. `REFINEMENT_FENCED` is the protocol without it: a client of an older generation
may consume on, and is not seen, for nothing that it does is accepted. What the coordinator knows is
what is in the memory of the broker of the present epoch.

The contract's generation counts the assignments that were stored: the protocol's own is raised once
all have joined, before anybody owns anything in it. No epoch is told to clients: whom they follow
is whoever has read their last JoinGroup. That the group is stable, the coordinator says before its
members have begun: so `complete` is shown of the protocol itself, and by no step here.

The contract is the one of all group protocols, in both forms, but that members are stored, and not
asked what they do (`stored_members.py`).

Source: system C as PROTOCOLS.md rules (section C); the contract is PROTOCOLS.md's last section.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from herdspec import Specification, specification
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.language.surface import Nat
from herdspec.protocols.contract.spec import Stage
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group_protocol.properties import (
    LEMMAS,
    LEMMAS_OF_STOPPING,
    OF_STOPPING,
    PROMISES,
    gone_at_once,
)
from herdspec.protocols.group_protocol.seen import SEEN_LEMMAS, SEEN_LEMMAS_OF_STOPPING, SeenGroup
from herdspec.protocols.group_protocol.spec import GroupWrite, Member, Partition
from herdspec.protocols.group_protocol.stored_members import STORED_MEMBERS, STORED_MEMBERS_FENCED

# ── Who coordinates, and what that broker knows ─────────────────────────────────────────────


def is_present(s: SeenGroup) -> bool:
    """The broker of the present epoch has loaded the group."""
    return any(s.coordinator == b and s.election.token[b] == s.election.epoch for b in Broker)


def epoch(s: SeenGroup) -> Nat:
    """The present epoch."""
    return s.election.epoch


def elected(s: SeenGroup) -> Broker | None:
    """Who won it."""
    return s.election.elected


def term(s: SeenGroup, b: Broker) -> Nat:
    """The epoch that the broker has won, or has taken up and still leads in."""
    if s.election.won[b] > 0:
        return s.election.won[b]
    return s.election.token[b] if s.election.leads[b] else 0


def exists(s: SeenGroup, p: Partition) -> bool:
    """The partition is there."""
    return s.exists[p]


def known(s: SeenGroup, p: Partition) -> bool:
    """A leader's SyncGroup was read since, and that leader knew the partition."""
    return is_present(s) and s.heard and s.listed[p]


def interest(s: SeenGroup, m: Member, p: Partition) -> bool:
    """True if the client has subscribed to the partition."""
    return s.interest[m, p]


def live(s: SeenGroup, m: Member) -> bool:
    """The present coordinator counts the member."""
    return is_present(s) and s.is_member(m)


def stored(s: SeenGroup, m: Member) -> bool:
    """The member belongs to the generation that is stored."""
    return s.belongs[m]


def informed(s: SeenGroup, m: Member) -> bool:
    """False: its coordinator does not ask whether a member has begun."""
    return False


def stage(s: SeenGroup) -> Stage:
    """The assignment is stored, until all have joined the next generation."""
    return Stage.HANDED if is_present(s) and not s.handing else Stage.OPEN


# ── Who owns, and who consumes ──────────────────────────────────────────────────────────────


def author(s: SeenGroup) -> Broker | None:
    """The present coordinator, if its write of owners or offsets is done, unheard by it."""
    return s.coordinator if is_present(s) and s.done and s.write != GroupWrite.GENERATION else None


def generation(s: SeenGroup) -> Nat:
    """The number of assignments that were stored."""
    return s.handovers


def owner(s: SeenGroup, p: Partition) -> Member | None:
    """The owner by the stored assignment."""
    return s.owner[p]


def told(s: SeenGroup, m: Member) -> Nat:
    """The epoch of whoever has read its last JoinGroup, until it stops."""
    return s.told[m]


def heeded(s: SeenGroup, m: Member) -> Nat:
    """The epoch of whose JoinGroup it has consumed after."""
    return s.heeded[m]


def current(s: SeenGroup, m: Member) -> bool:
    """The client consumes by the stored assignment, or has nothing of it."""
    return s.ready[m] and s.at[m] == s.assigned


def begun(s: SeenGroup, m: Member) -> bool:
    """Nobody says so."""
    return False


def consumes(s: SeenGroup, m: Member, p: Partition) -> bool:
    """The client consumes the partition."""
    return s.consumes(m, p)


# ── How far ─────────────────────────────────────────────────────────────────────────────────


def position(s: SeenGroup, m: Member, p: Partition) -> Nat:
    """The next record of who consumes."""
    return s.position[m, p] if s.consumes(m, p) else 0


def resolved(s: SeenGroup, m: Member, p: Partition) -> bool:
    """Nobody: resets are not modelled."""
    return False


def finished(s: SeenGroup, p: Partition) -> Nat:
    """The first record that no application finished."""
    return s.finished[p]


def reported(s: SeenGroup, m: Member, p: Partition) -> Nat:
    """Nobody is asked how far it is."""
    return 0


def committing(s: SeenGroup, m: Member, p: Partition) -> Nat:
    """The offset of an owner's OffsetCommit on its way to the present coordinator."""
    return s.committing[m, p] if live(s, m) and s.commit_at[m] > 0 and s.owns(m, p) else 0


def accepted(s: SeenGroup, p: Partition) -> Nat:
    """The offset that the present coordinator has taken."""
    return s.noted[p] if is_present(s) else 0


def storing(s: SeenGroup, p: Partition) -> Nat:
    """The offset that the present coordinator has sent to be stored."""
    return s.sent[p] if is_present(s) else 0


def committed(s: SeenGroup, p: Partition) -> Nat:
    """The stored offset."""
    return s.committed[p]


FIELDS: tuple[Callable[..., object], ...] = (
    epoch, elected, term, exists, known, interest, live, stored, informed, stage, author,
    generation, owner, told, heeded, current, begun, consumes, position, resolved, finished,
    reported, committing, accepted, storing, committed,
)  # fmt: skip
SEEN: Specification = specification(
    SeenGroup, *PROMISES, *LEMMAS, *LEMMAS_OF_STOPPING, *SEEN_LEMMAS, *SEEN_LEMMAS_OF_STOPPING
)
STOPS = (
    "initiate_join_group", "learn_member_id", "reset_generation", "join_again", "lose",
    "notice_lost", "close", "kill", "poll_time_out",
)  # fmt: skip
"""Whatever a client has, it gives up, or had nothing."""
ACTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(STOPS, ("quit",)),
    "elect": ("elect", "supersede"),
    "load_group": ("take_over",),
    "lose_session": ("retire", STUTTER),
    "doubt": ("begin_anew",),
    "step_down": ("retire",),
    "restart": ("retire", STUTTER),
    "subscribe": ("join",),
    "appear": ("appear",),
    "handle_join_group": ("admit", "listen", STUTTER),
    "complete_join": ("fail", STUTTER),
    "store_generation": ("store_members", STUTTER),
    "store_empty_generation": ("store_members", STUTTER),
    "answer_joins": ("hear", STUTTER),
    "handle_sync_group": ("take_office", STUTTER),
    "store_assignment": ("hand_over",),
    "answer_syncs": ("hear", STUTTER),
    "expire": ("strike", STUTTER),
    "expire_gone": ("strike", STUTTER),
    "handle_leave_group": ("strike", STUTTER),
    "update_fetch_positions": ("start", "heed"),
    "consume": ("finish",),
    "commit": ("report", STUTTER),
    "handle_offset_commit": ("accept_report", STUTTER),
    "flush_offsets": ("collect", STUTTER),
    "store_offsets": ("store",),
    "answer_commits": ("hear", STUTTER),
}
REFINEMENT = Refinement(concrete=SEEN, abstract=STORED_MEMBERS, fields=FIELDS, actions=ACTIONS)
"""The strict form, under the assumption `evicted_has_stopped`."""

# ── Without the assumption ──────────────────────────────────────────────────────────────────


def seen_to_consume() -> tuple[Callable[..., object], ...]:
    """The fields in which the fenced form sees less: only who is of the stored assignment."""

    def consumes(s: SeenGroup, m: Member, p: Partition) -> bool:
        return s.consumes(m, p) and current(s, m)

    def position(s: SeenGroup, m: Member, p: Partition) -> Nat:
        return s.position[m, p] if s.consumes(m, p) and current(s, m) else 0

    return consumes, position


WITHOUT = specification(
    SeenGroup, *(p for p in PROMISES if p not in OF_STOPPING), *LEMMAS, *SEEN_LEMMAS
)
REFINEMENT_FENCED = Refinement(
    concrete=WITHOUT.replace("WithoutStopping", has_stopped=gone_at_once),
    abstract=STORED_MEMBERS_FENCED,
    fields=tuple(({f.__name__: f for f in (*FIELDS, *seen_to_consume())}).values()),
    actions={**ACTIONS, "consume": ("finish", "finish_unheard", STUTTER)},
)
"""The fenced form: whom the coordinator counts no more may consume on."""

ONE_BROKER = specification(
    STORED_MEMBERS_FENCED.state,
    *(p.python for p in STORED_MEMBERS_FENCED.properties if p.name != "two_coordinate"),
).drop("OneBroker", "supersede")
REFINEMENT_FENCED_ALONE = replace(
    REFINEMENT_FENCED,
    abstract=ONE_BROKER,
    actions={**REFINEMENT_FENCED.actions, "elect": ("elect",)},
)
"""The fenced form where there is one broker, so that nobody is superseded."""
