"""
Step constraints: variants of the spec whose clients take a step only when our client's core would.

A leader looks at topics again once it is STABLE, a member sends heartbeats, and is at work for too
long, once it has its positions. What such a constrained variant does, the variant does, too; its
stories are longer, and cores can be taken along them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from herdspec import require
from herdspec.language.specification import Specification
from herdspec.protocols.group_protocol.spec import GroupProtocol, Member, MemberState, Partition

Constrained = Mapping[str, Callable[..., None]]


def learns_once_stable(self: GroupProtocol, m: Member) -> None:
    """{m}, which leads, learns of a partition that its assignment did not know."""
    require(self.client[m] == MemberState.STABLE)
    require(self.leads[m] and not self.rejoin[m])
    require(any(self.exists[p] and not self.listed[p] for p in Partition))
    self.rejoin[m] = True


def beats_once_ready(self: GroupProtocol, m: Member) -> None:
    """{m} sends a heartbeat, and is told if it must join again."""
    require(self.ready[m])
    require(self.client[m] == MemberState.STABLE and self.knows[m] and not self.rejoin[m])
    self.attends()
    self.read_heartbeat(m)


def leaves_once_ready(self: GroupProtocol, m: Member) -> None:
    """The user of {m} has not polled in time: LeaveGroup is sent, and it works on."""
    require(self.ready[m])
    require(self.client[m] == MemberState.STABLE and self.has_id[m])
    self.leave_group(m)
    self.has_id[m] = False
    self.rejoin[m] = True


def expires_once_stored(self: GroupProtocol, m: Member) -> None:
    """The session of {m}, which is no more or has lost its id, is over, and nothing is unstored."""
    require(all(not self.is_new(p) for p in Partition))
    require(self.is_gone(m))
    self.evict(m)


_JOINS: Constrained = {"update_metadata": learns_once_stable, "heartbeat": beats_once_ready}
_BEGINS: Constrained = {
    "update_metadata": learns_once_stable, "expire_gone": expires_once_stored,
}  # fmt: skip
CONSTRAINTS: Mapping[str, tuple[Constrained, int]] = {
    "join_future_never_reset": (_JOINS, 0),
    "joins_with_partitions": (_JOINS, 1),
    "leave_while_processing": ({"poll_time_out": leaves_once_ready}, 1),
    "late_offsets_used": (_BEGINS, 1),
    "error_taken_for_nothing": (_BEGINS, 3),
    "commits_what_is_at_work": (_BEGINS, 1),
}
"""By variant the actions that are constrained, and the faults by which it breaks what it does."""


def constrained(name: str, spec: Specification, faults: int) -> tuple[Specification, int]:
    """A variant with its step constraints, if it has any, and the faults that it needs then."""
    if name not in CONSTRAINTS:
        return spec, faults
    actions, needed = CONSTRAINTS[name]
    return spec.replace(f"{spec.name}InStep", **actions), needed
