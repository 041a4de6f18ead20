"""
The central coordinator, seen as the contract: every one of its steps is one that users are owed.

`REFINEMENT` is the strict form, under the assumption `lease`: every consumer that fetches is seen.
`REFINEMENT_FENCED` is the protocol without it, where who is not connected is counted as gone at
once: a consumer of an older generation may fetch on, and is not seen, for nothing that it does is
accepted. What the coordinator knows is what is in the books of the broker of the present epoch;
what travels is seen only on its way to that one.

Source: system B as PROTOCOLS.md rules (section B); the contract is PROTOCOLS.md's last section.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.language.surface import Nat
from herdspec.protocols.central_coordinator.mistakes import gone_is_gone
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, present
from herdspec.protocols.central_coordinator.spec import (
    CentralCoordinator,
    Kind,
    Member,
    Partition,
    Phase,
    Write,
)
from herdspec.protocols.contract.properties import CONTRACT, FENCED
from herdspec.protocols.contract.spec import Stage
from herdspec.protocols.election.spec import Broker

# ── Who coordinates, and what that broker knows ─────────────────────────────────────────────


def epoch(s: CentralCoordinator) -> Nat:
    """The version of the epoch node."""
    return s.election.epoch


def elected(s: CentralCoordinator) -> Broker | None:
    """Who won it."""
    return s.election.elected


def term(s: CentralCoordinator, b: Broker) -> Nat:
    """The epoch that the broker has won, or has taken up and still leads in."""
    if s.election.won[b] > 0:
        return s.election.won[b]
    return s.election.token[b] if s.election.leads[b] else 0


def exists(s: CentralCoordinator, p: Partition) -> bool:
    """The partition is there."""
    return s.exists[p]


def known(s: CentralCoordinator, p: Partition) -> bool:
    """The present coordinator was told of the partition."""
    return any(present(s, b) and s.knows[b, p] for b in Broker)


def interest(s: CentralCoordinator, m: Member, p: Partition) -> bool:
    """True if the member has registered for the partition."""
    return s.interest[m, p]


def live(s: CentralCoordinator, m: Member) -> bool:
    """The present coordinator has the member in its books."""
    return any(present(s, b) and s.books[m] == b for b in Broker)


def informed(s: CentralCoordinator, m: Member) -> bool:
    """The present coordinator has read that the member follows its Start."""
    return live(s, m) and s.follows(m)


def stage(s: CentralCoordinator) -> Stage:
    """
    The flag: reset, or set; and in the latter case, whether the owners are written.

    A group whose members have been given nothing yet is open, though nobody works on it.
    """
    if any(
        present(s, b) and s.phase[b] == Phase.IDLE and (s.generation > 0 or not s.has_members(b))
        for b in Broker
    ):
        return Stage.STABLE
    if any(
        present(s, b)
        and (
            s.phase[b] == Phase.STARTING
            or (s.phase[b] == Phase.WRITING and s.write[b] == Write.DONE)
        )
        for b in Broker
    ):
        return Stage.HANDED
    return Stage.OPEN


# ── Who owns, and who consumes ──────────────────────────────────────────────────────────────


def author(s: CentralCoordinator) -> Broker | None:
    """The present coordinator, if its write was done, and it has not heard of that."""
    b = s.election.elected
    return b if b is not None and present(s, b) and s.write[b] == Write.DONE else None


def generation(s: CentralCoordinator) -> Nat:
    """The generation of the group's node."""
    return s.generation


def owner(s: CentralCoordinator, p: Partition) -> Member | None:
    """Whom ZooKeeper names; a former life of a member is nobody."""
    return None if s.orphan[p] else s.owner[p]


def told(s: CentralCoordinator, m: Member) -> Nat:
    """The epoch of whoever has taken its Register."""
    return s.term[m]


def heeded(s: CentralCoordinator, m: Member) -> Nat:
    """The latest epoch that the member has been told."""
    return s.seen[m]


def current(s: CentralCoordinator, m: Member) -> bool:
    """The Start that the member follows is of the present generation."""
    return s.at[m] > 0 and s.at[m] == s.generation


def begun(s: CentralCoordinator, m: Member) -> bool:
    """Its answer to the present Start is on its way to the present coordinator."""
    return live(s, m) and any(
        x.kind == Kind.START and x.generation == s.generation for x in s.up[m]
    )


def consumes(s: CentralCoordinator, m: Member, p: Partition) -> bool:
    """The member fetches the partition."""
    return s.fetching[m, p]


# ── How far ─────────────────────────────────────────────────────────────────────────────────


def position(s: CentralCoordinator, m: Member, p: Partition) -> Nat:
    """The consumedOffset of who fetches."""
    return s.position[m, p]


def resolved(s: CentralCoordinator, m: Member, p: Partition) -> bool:
    """Nobody: resets are not modelled."""
    return False


def finished(s: CentralCoordinator, p: Partition) -> Nat:
    """The first record that no application finished."""
    return s.finished[p]


def reported(s: CentralCoordinator, m: Member, p: Partition) -> Nat:
    """The offset on its way to the present coordinator, in an answer of this generation."""
    if live(s, m) and any(
        x.kind in (Kind.PING, Kind.STOP) and x.generation == s.generation for x in s.up[m]
    ):
        return s.reported[m, p]
    return 0


def committing(s: CentralCoordinator, m: Member, p: Partition) -> Nat:
    """The offset on its way to the present coordinator, in a commit of this generation."""
    if live(s, m) and any(x.kind == Kind.COMMIT and x.generation == s.generation for x in s.up[m]):
        return s.committing[m, p][0]
    return 0


def accepted(s: CentralCoordinator, p: Partition) -> Nat:
    """The offset that the present coordinator has noted."""
    elected = s.election.elected
    if elected is not None and present(s, elected):
        return s.noted[elected, p]
    return 0


def storing(s: CentralCoordinator, p: Partition) -> Nat:
    """The offset that the present coordinator has sent to ZooKeeper."""
    elected = s.election.elected
    if elected is not None and present(s, elected):
        return s.sent[elected, p]
    return 0


def committed(s: CentralCoordinator, p: Partition) -> Nat:
    """The stored offset."""
    return s.committed[p]


REFINEMENT = Refinement(
    concrete=CENTRAL_COORDINATOR,
    abstract=CONTRACT,
    fields=(
        epoch, elected, term, exists, known, interest, live, informed, stage, author, generation,
        owner, told, heeded, current, begun, consumes, position, resolved, finished, reported,
        committing, accepted, storing, committed,
    ),
    actions={
        "elect": ("elect", "supersede"),
        "coordinator_startup": ("take_office", STUTTER),
        "lose_session": ("retire", STUTTER),
        "doubt": ("begin_anew",),
        "step_down": ("retire",),
        "restart": ("retire", STUTTER),
        "register": ("join",),
        "handle_register": ("admit", "listen", STUTTER),
        "on_lost_connection": ("quit", STUTTER),
        "time_out": ("quit", STUTTER),
        "handle_closed": ("strike", STUTTER),
        "fail": ("strike", STUTTER),
        "appear": ("appear",),
        "topic_change_listener": ("learn", STUTTER),
        "begin_rebalance": ("settle", STUTTER),
        "send_stop": ("dismiss", STUTTER),
        "handle_stop": ("stop", "heed"),
        "handle_stop_response": ("accept", STUTTER),
        "flush_offsets": ("collect", STUTTER),
        "serve_offsets": ("store",),
        "serve_owners": ("hand_over", "hand_over_late"),
        "answered": ("hear", STUTTER),
        "lose_answer": ("fail", "hear", STUTTER),
        "handle_start": ("start", "heed"),
        "handle_start_response": ("acknowledge", STUTTER),
        "finish_rebalance": ("settle", "reopen", "fail", STUTTER),
        "abandon_rebalance": ("settle", STUTTER),
        "fail_rebalance": ("fail", STUTTER),
        "handle_ping": ("answer", "heed"),
        "handle_ping_response": ("accept", STUTTER),
        "consume": ("finish",),
        "commit": ("report", STUTTER),
        "handle_commit": ("accept_report", STUTTER),
    },
)  # fmt: skip
"""The strict form, under the assumption `lease`."""

# ── Without the lease ───────────────────────────────────────────────────────────────────────


def seen_to_consume() -> tuple[Callable[..., object], ...]:
    """The two fields in which the fenced form sees less: only who is heard counts."""

    def consumes(s: CentralCoordinator, m: Member, p: Partition) -> bool:
        return s.fetching[m, p] and current(s, m)

    def position(s: CentralCoordinator, m: Member, p: Partition) -> Nat:
        return s.position[m, p] if s.fetching[m, p] and current(s, m) else 0

    return consumes, position


REFINEMENT_FENCED = Refinement(
    concrete=CENTRAL_COORDINATOR.replace("WithoutLease", lease_is_over=gone_is_gone),
    abstract=FENCED,
    fields=tuple(({f.__name__: f for f in (*REFINEMENT.functions, *seen_to_consume())}).values()),
    actions={**REFINEMENT.actions, "consume": ("finish", "finish_unheard", STUTTER)},
)
"""The fenced form: whoever is not connected is counted as gone at once."""
