"""
The interface of the group coordinator's core: what it answers with, and what its shell owes it.

    coordinator = GroupCoordinator(settings, new_id)
    effects = coordinator.handle(now_ms, caller, request)   # a request was received
    effects = coordinator.tick(now_ms)                      # `next_deadline` has come
    effects = coordinator.stored(now_ms, token, ok)         # what became of a `StoreGroup`
    effects = coordinator.load(now_ms, epoch)               # elected; what is stored is being read
    effects = coordinator.lead(now_ms, groups)              # it is read: all groups by name
    effects = coordinator.resign(now_ms)                    # deposed, or no longer sure of it
    coordinator.next_deadline                               # in ms; None: nothing is waited for

The core has no socket, clock, thread or chance: `now_ms` is a time that never goes back (of the
day, since the expiry of offsets is stored), `new_id` makes a new member's id unique (a UUID). A
`caller` is a number that the shell gives to each request, never twice. Effects are carried out in
their order; nobody has to do anything about a `GroupStep`, or about a `Report` (`reports.py`). The
shell owes the core that

1. every `GroupAnswer` goes to the one who asked; there is exactly one for each request, at once or
   much later: joins and syncs are parked, and whatever must be stored is answered once it is. If
   the one who asked has hung up, its answer is dropped: a broken connection is no event of the
   protocol;
2. every `StoreGroup` is carried out, those of one group in their order, and then reported to
   `stored`: with `ok` if it is done for good, without if it was refused and has not been done. If
   the fence refused it, or nobody can tell whether it was done, the shell calls `resign` instead,
   and goes on as one that is not elected (the store is then read anew by whoever is);
3. `tick` is called when the time is `next_deadline`, or soon after;
4. `load` comes once this coordinator is elected, with the epoch of that; `lead` follows when all
   groups have been read, after the fence of the epoch was put up. Before `load`, and after
   `resign`, each request is answered by NOT_COORDINATOR, between `load` and `lead` by
   COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.messages import NO_LEADER_EPOCH, GroupResponse
from herdproof.protocols.group_protocol.steps import GroupStep

TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member, as it is stored with its group."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    """The member's own words in the chosen protocol."""
    assignment: bytes = b""
    """The last assignment, be it of an earlier generation."""
    given_up: tuple[TopicPartition, ...] = ()
    """The partitions assigned to it before that, and to nobody since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMetadata:
    """A group without its offsets, as it is stored; one without members is empty."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    is_assigned: bool = False
    """True if its leader has brought the assignments of this generation."""
    state_since_ms: int = 0
    members: tuple[StoredMember, ...] = ()


class StoredCommit(Struct, frozen=True, kw_only=True, gc=False):
    """A committed offset, as it is stored."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int | None = None
    """Set by the retention time of its commit, if that had one."""


@dataclass(frozen=True, slots=True)
class StoredClassicGroup:
    """All that is stored of a group: one with offsets alone has no metadata."""

    metadata: StoredMetadata | None = None
    offsets: Mapping[TopicPartition, StoredCommit] = field(default_factory=dict)


class GroupAnswer(Struct, frozen=True):
    """A request is answered."""

    caller: int
    response: GroupResponse


class StoreGroup(Struct, frozen=True, kw_only=True):
    """
    A group's changes are to be stored, all of them or none; then `stored` is called.

    With `is_deleted` all that is stored of the group goes.
    """

    token: int
    group: str
    metadata: StoredMetadata | None = None
    """To stand instead of what is stored; None: that remains."""
    offsets: Mapping[TopicPartition, StoredCommit | None] = {}
    """To stand from now on; None: goes."""
    is_deleted: bool = False


GroupEffect: TypeAlias = GroupAnswer | StoreGroup | GroupStep | Report
