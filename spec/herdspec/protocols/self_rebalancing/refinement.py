"""
The self-rebalancing consumers, seen as the contract of a group without a coordinator.

`REFINEMENT` is the strict form, under the assumption `session_lease`: every consumer that pulls is
seen. `REFINEMENT_FENCED` is the protocol without it: a consumer whose partition was claimed by
another may pull on, and is not seen, for nothing that it does is accepted.

Source: system A as PROTOCOLS.md rules (section A); the contract is PROTOCOLS.md's last section.
"""

from __future__ import annotations

from collections.abc import Callable

from herdspec import Specification, each, specification
from herdspec.check.refinement.refine import STUTTER, Refinement
from herdspec.language.surface import Nat
from herdspec.protocols.contract.spec import Stage
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.self_rebalancing.contract import CLAIMED, CLAIMED_FENCED
from herdspec.protocols.self_rebalancing.properties import (
    LEMMAS,
    PROMISES,
    WITHOUT_LEASE,
    session_ends_at_will,
)
from herdspec.protocols.self_rebalancing.spec import Member, Partition, SelfRebalancing


class WithoutOffice(SelfRebalancing):
    """The contract knows of brokers that coordinate; here, none ever does."""

    coordinates: dict[Broker, bool] = each(False)


# ── What nobody coordinates ─────────────────────────────────────────────────────────────────


def epoch(s: WithoutOffice) -> Nat:
    """There are no epochs."""
    return 0


def elected(s: WithoutOffice) -> Broker | None:
    """Nobody was elected."""
    return None


def author(s: WithoutOffice) -> Broker | None:
    """No coordinator writes."""
    return None


def term(s: WithoutOffice, b: Broker) -> Nat:
    """Nobody coordinates."""
    return 1 if s.coordinates[b] else 0


def known(s: WithoutOffice, p: Partition) -> bool:
    """There is no coordinator that would have heard of it."""
    return False


def informed(s: WithoutOffice, m: Member) -> bool:
    """Nobody knows whether others have begun."""
    return False


def stage(s: WithoutOffice) -> Stage:
    """Nobody knows whether the group is stable."""
    return Stage.OPEN


def generation(s: WithoutOffice) -> Nat:
    """The group has no generations."""
    return 0


def told(s: WithoutOffice, m: Member) -> Nat:
    """There is nobody to listen to."""
    return 0


def heeded(s: WithoutOffice, m: Member) -> Nat:
    """There is nobody to follow."""
    return 0


def begun(s: WithoutOffice, m: Member) -> bool:
    """Nobody is told."""
    return False


def committing(s: WithoutOffice, m: Member, p: Partition) -> Nat:
    """Offsets are stored at once."""
    return 0


def accepted(s: WithoutOffice, p: Partition) -> Nat:
    """Offsets are stored at once."""
    return 0


def storing(s: WithoutOffice, p: Partition) -> Nat:
    """Offsets are stored at once."""
    return 0


# ── Members, owners, claims ─────────────────────────────────────────────────────────────────


def exists(s: WithoutOffice, p: Partition) -> bool:
    """The partition is there."""
    return s.exists[p]


def interest(s: WithoutOffice, m: Member, p: Partition) -> bool:
    """True if the registration in ids is for the partition."""
    return s.interest[m, p]


def live(s: WithoutOffice, m: Member) -> bool:
    """It is registered in ids."""
    return s.registered[m]


def owner(s: WithoutOffice, p: Partition) -> Member | None:
    """Whom the owner node names."""
    return s.owner[p]


def claims(s: WithoutOffice, p: Partition) -> Nat:
    """The version of the partition's persistent node."""
    return s.version[p]


def claim(s: WithoutOffice, m: Member, p: Partition) -> Nat:
    """The version that the member's claim made."""
    return s.token[m, p]


def current(s: WithoutOffice, m: Member) -> bool:
    """The member pulls from something."""
    return any(s.fetching[m, p] for p in Partition)


def consumes(s: WithoutOffice, m: Member, p: Partition) -> bool:
    """The member pulls from the partition."""
    return s.fetching[m, p]


# ── How far ─────────────────────────────────────────────────────────────────────────────────


def position(s: WithoutOffice, m: Member, p: Partition) -> Nat:
    """The consumedOffset of who pulls."""
    return s.consumed[m, p] if s.fetching[m, p] else 0


def reported(s: WithoutOffice, m: Member, p: Partition) -> Nat:
    """The consumedOffset of who has closed its fetchers, and still believes to own it."""
    if s.registry[m, p] and not s.fetching[m, p] and s.holds(m, p):
        return s.consumed[m, p]
    return 0


def resolved(s: WithoutOffice, m: Member, p: Partition) -> bool:
    """Nobody: resets are not modelled."""
    return False


def finished(s: WithoutOffice, p: Partition) -> Nat:
    """The first record that no application finished."""
    return s.finished[p]


def committed(s: WithoutOffice, p: Partition) -> Nat:
    """The stored offset."""
    return s.committed[p]


FIELDS: tuple[Callable[..., object], ...] = (
    epoch, elected, author, term, resolved, known, informed, stage, generation, told, heeded, begun,
    committing, accepted, storing, exists, interest, live, owner, claims, claim, current, consumes,
    position, reported, finished, committed,
)  # fmt: skip
SEEN: Specification = specification(WithoutOffice, *PROMISES, *LEMMAS)
ACTIONS: dict[str, tuple[str, ...]] = {
    "register": ("enter",),
    "shutdown": ("store_and_depart",),
    "kill": ("die",),
    "expire_dead": ("depart",),
    "appear": ("appear",),
    "suspend": ("halt",),
    "expire": ("depart",),
    "handle_new_session": ("come_back",),
    "close_fetchers": ("halt", STUTTER),
    "commit_offsets": ("store_claimed", STUTTER),
    "release": ("give_back", STUTTER),
    "claim": ("take",),
    "swallow_claim": ("take",),
    "recall": ("learn_of_claim",),
    "start_fetchers": ("begin", STUTTER),
    "finish": ("finish",),
    "commit": ("store_claimed", STUTTER),
}
REFINEMENT = Refinement(concrete=SEEN, abstract=CLAIMED, fields=FIELDS, actions=ACTIONS)
"""The strict form, under the assumption `session_lease`."""

# ── Without the lease ───────────────────────────────────────────────────────────────────────


def seen_to_consume() -> tuple[Callable[..., object], ...]:
    """The fields in which the fenced form sees less: only whose claim is the latest counts."""

    def current(s: WithoutOffice, m: Member) -> bool:
        return any(s.fetching[m, p] and s.holds(m, p) for p in Partition)

    def consumes(s: WithoutOffice, m: Member, p: Partition) -> bool:
        return s.fetching[m, p] and s.holds(m, p)

    def position(s: WithoutOffice, m: Member, p: Partition) -> Nat:
        return s.consumed[m, p] if s.fetching[m, p] and s.holds(m, p) else 0

    return current, consumes, position


REFINEMENT_FENCED = Refinement(
    concrete=specification(WithoutOffice, *WITHOUT_LEASE, *LEMMAS).replace(
        "WithoutLease", lease_is_over=session_ends_at_will
    ),
    abstract=CLAIMED_FENCED,
    fields=tuple(({f.__name__: f for f in (*FIELDS, *seen_to_consume())}).values()),
    actions={**ACTIONS, "finish": ("finish", "finish_unheard", STUTTER)},
)
"""The fenced form: a session may end under a consumer that pulls on."""
