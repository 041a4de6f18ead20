"""
The steps of the protocol, as the core tells of them: by the specification's names.

A core hands out a `ConnectorStep` where it takes one, before what carries it out. Nobody has to do
anything about it: shells hand it on to whoever observes them. What is asked of ZooKeeper and what
it answers are two steps: `answered` follows `commit_offsets`, `commit`, `claim`, `recall` and
`release`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from herdproof.consuming.offsets import Offset

ConnectorAction: TypeAlias = Literal[
    "register",
    "shutdown",
    "suspend",
    "reconnect",
    "handle_new_session",
    "close_fetchers",
    "commit_offsets",
    "release",
    "read_topics",
    "read_ids",
    "claim",
    "refuse_claim",
    "recall",
    "read_offsets",
    "start_fetchers",
    "fail_attempt",
    "commit",
    "answered",
]


class ConnectorStep(Struct, frozen=True, kw_only=True):
    """A step that a core takes, and its arguments; what has no meaning for it is empty or 0."""

    action: ConnectorAction
    group: str
    consumer: str
    session: int
    """Of ZooKeeper's, in which it is taken."""
    subscription: str = ""
    """Of `register`: the registration, as it stands in ZooKeeper."""
    partitions: tuple[Offset, ...] = ()
    """Places read, planned, claimed, released, stored or started; `NO_OFFSET`: no offset counts."""
    number: int = 0
    """Of what is asked of ZooKeeper, and of its answer: that of the `Ask`."""
    token: int = 0
    """Of a claim that was answered, or that a commit or release checks: its version."""
    outcome: str = ""
    """Of an answer: "done", or why not."""
    until_ms: int = 0
    """Until when records may be delivered, as things stand."""
