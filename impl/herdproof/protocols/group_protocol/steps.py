"""
The steps of the protocol, as the cores tell of them: by the specification's names.

A core hands out a `GroupStep` where it takes one, before what carries it out. Nobody has to do
anything about it: shells hand it on to whoever observes them. What is to be stored and what became
of it are two steps: `answered` follows `complete_join`, `share_out` and `flush_offsets`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

GroupAction: TypeAlias = Literal[
    "load_group",
    "found",
    "step_down",
    "handle_join_group",
    "replace_member",
    "complete_join",
    "answer_joins",
    "handle_sync_group",
    "share_out",
    "answer_syncs",
    "expire",
    "heartbeat",
    "handle_leave_group",
    "handle_offset_commit",
    "commit_from_outside",
    "flush_offsets",
    "answer_commits",
    "handle_offset_fetch",
    "delete_offsets",
    "delete_group",
    "answered",
]

ClientAction: TypeAlias = Literal[
    "subscribe",
    "initiate_join_group",
    "learn_member_id",
    "on_join_leader",
    "on_join_follower",
    "on_join_complete",
    "join_again",
    "reset_generation",
    "lose",
    "refused",
    "update_metadata",
    "session_time_out",
    "poll_time_out",
    "update_fetch_positions",
    "resolve_start",
    "consume",
    "commit",
    "close",
]
"""Actions of a client. `refused`: it was told so of what it asked for as a member."""

WAITS = "waits"
"""The outcome of a JoinGroup or SyncGroup that is parked; `CHANGED`: of one that says otherwise."""
CHANGED = "changed"
NEW = "new"
"""The outcome of one by which somebody is a member at once, under an id that is new."""
TOLD = "told"
"""The outcome of one that is answered at once, without an error."""
EVERYTHING = "everything"
"""The outcome of an OffsetFetch that tells all that is stored."""
DONE = "done"
REFUSED = "refused"
"""The outcome of a change that could not be stored; `DONE`: of one that was."""


class Share(Struct, frozen=True, array_like=True):
    """A member is assigned a partition."""

    member: str
    topic: str
    partition: int


class OffsetMark(Struct, frozen=True, array_like=True, gc=False):
    """An offset of a partition."""

    topic: str
    partition: int
    offset: int


class GroupStep(Struct, frozen=True, kw_only=True):
    """A step that the core takes, and its arguments; what has no meaning for it is empty or 0."""

    action: GroupAction | ClientAction
    group: str = ""
    """Empty: all groups."""
    member: str = ""
    instance: str = ""
    """The name of a static member that is new, or comes back."""
    generation: int = 0
    """That of a request, or that the group is in."""
    outcome: str = ""
    """Of a request: an error of Kafka's by its name, or another one of those above."""
    leader: str = ""
    members: tuple[str, ...] = ()
    """All of the generation, or all that are answered."""
    owners: tuple[Share, ...] = ()
    """Partitions that members are assigned."""
    offsets: tuple[OffsetMark, ...] = ()
    """Offsets that are taken, stored, or told; -1: none is stored."""
    refused: tuple[OffsetMark, ...] = ()
    """Offsets that are not taken."""
    number: int = 0
    """Of a change that is to be stored, of what became of it, or of the last one before a fetch."""
    epoch: int = 0
    is_assigned: bool = False
    """True if an assignment of the generation is stored."""
    is_cooperative: bool = False
    """Of a client that begins: it keeps its partitions while it joins."""
