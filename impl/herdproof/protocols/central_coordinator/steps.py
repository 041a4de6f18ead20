"""
The steps of the protocol, as the cores of system B tell of them: by the specification's names.

A core hands out a `CoordinationStep` where it takes one, before the frame, the write or the closing
that carries it out. Nobody has to do anything about it: shells hand it on to whoever observes them,
and `tracing.py` writes it down. `docs/central_trace.md` says what each step is, and what it tells.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from herdproof.consuming.offsets import Offset

CoordinatorAction: TypeAlias = Literal[
    "coordinator_startup",
    "step_down",
    "topic_change_listener",
    "handle_register",
    "handle_resume",
    "handle_closed",
    "fail",
    "begin_rebalance",
    "send_ping",
    "send_stop",
    "send_start",
    "handle_ping_response",
    "handle_stop_response",
    "handle_start_response",
    "handle_commit",
    "flush_offsets",
    "write_owners",
    "answered",
    "finish_rebalance",
    "fail_rebalance",
]

ConsumerAction: TypeAlias = Literal[
    "register",
    "resume",
    "handle_ping",
    "handle_stop",
    "handle_start",
    "commit",
    "renew_lease",
    "on_lost_connection",
]


class CoordinationStep(Struct, frozen=True, kw_only=True, gc=False):
    """
    A step that a core takes, and its arguments; what has no meaning for it is empty or 0.

    It is no dataclass, as the other effects are, since a heartbeat makes three of them: so large a
    frozen dataclass takes a dozen times as long to make.
    """

    action: CoordinatorAction | ConsumerAction
    group: str = ""
    epoch: int = 0
    """The coordinator's; of a consumer, that of the request which it obeys."""
    generation: int = 0
    """Of the frame that is sent or was handled, or of the owners that are written."""
    consumer: str = ""
    member: str = ""
    """The registration, as its coordinator names it."""
    connection: int = 0
    """
    The correlation id of the Register: its consumer's number for the connection. Who resumes goes
    by the same one as before.
    """
    subscription: str = ""
    """Subscription that a Register asks for, or had asked for: its `topic_count`."""
    partitions: tuple[Offset, ...] = ()
    """
    Offsets assigned, reported, committed or written; of a topic, the partitions that it has.

    Of a consumer that has lost its connection, and lets go: where its fetchers stopped.
    """
    owners: tuple[tuple[str, str, str], ...] = ()
    """Of `write_owners`: topic, partition and registration."""
    former: tuple[str, ...] = ()
    """Of an accepted Register: the registrations that it says to have stopped."""
    number: int = 0
    """Of a write and its answer: that of the `Ask`."""
    outcome: str = ""
    until_ms: int = 0
    """Of a consumer: until when it may deliver records."""
    brought: tuple[Offset, ...] = ()
    """Of an accepted Register: where owners that are over have stopped, as far as it was taken."""


CLOSED = "its connection is closed"
LEFT = "it left"
"""Outcomes of `handle_closed`: who left fetches no more; else that may go on for a while."""
OVER = "its consumer says that it is over"
"""An outcome of `fail`: that one fetches no more, either."""
