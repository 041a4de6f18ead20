"""The settings of a client of the group protocol, under Kafka's names and with its defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass

from herdproof.consuming.offsets import OffsetReset
from herdproof.errors import CallerError

JOIN_GROUP_SLACK_MS = 5_000
"""Time that a JoinGroup is waited for beyond the coordinator's own wait for everybody."""
LEASE_SHARE = 4 / 5
"""Of the time after which the coordinator counts a member no more, so much is handed out in; the
rest is for clocks that drift, and for a coordinator that learns late of its successor."""
INSTANCE_ID = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Kafka's rule for what a static member may be called."""


class BadClientSettings(CallerError):
    """A setting that cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Raises `BadClientSettings`, which names the setting and says what it must be."""

    group_id: str
    client_id: str = "herdproof"
    session_timeout_ms: int = 45_000
    """`session.timeout.ms`: after so long unheard the others take over."""
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """`max.poll.interval.ms`: so long the application may be at work on what it has; also how long
    the coordinator waits for everybody in a rebalance."""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    metadata_max_age_ms: int = 300_000
    """`metadata.max.age.ms`: how often topics are looked at again."""
    auto_offset_reset: OffsetReset | None = OffsetReset.LARGEST
    """LATEST, EARLIEST, or NONE: an error where nothing is stored."""
    group_instance_id: str | None = None
    """`group.instance.id`: the name under which a static member comes back; None: it is none."""
    listens: bool = False
    """There is a rebalance listener, which is waited for."""

    def __post_init__(self) -> None:
        least = {
            "session_timeout_ms": 1,
            "heartbeat_interval_ms": 1,
            "max_poll_interval_ms": 1,
            "request_timeout_ms": 1,
            "retry_backoff_ms": 1,
            "auto_commit_interval_ms": 1,
            "metadata_max_age_ms": 1,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise BadClientSettings(f"{name} is {getattr(self, name)}: at least {bound}")
        if 3 * self.heartbeat_interval_ms > self.session_timeout_ms:
            raise BadClientSettings(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}: at most a third of the "
                f"session timeout, which is {self.session_timeout_ms}"
            )
        own = self.group_instance_id
        if own is not None and not INSTANCE_ID.fullmatch(own):
            raise BadClientSettings(
                f"group_instance_id is {own!r}: write up to 249 letters, digits, '.', '_' and '-'"
            )

    @property
    def lease_ms(self) -> int:
        """The time from an answered heartbeat's sending in which records may be handed out."""
        return int(LEASE_SHARE * min(self.session_timeout_ms, self.max_poll_interval_ms))

    @property
    def join_group_timeout_ms(self) -> int:
        """The time that the answer to a JoinGroup, or to a SyncGroup, is waited for."""
        rebalance_timeout_ms = self.max_poll_interval_ms
        return max(rebalance_timeout_ms, rebalance_timeout_ms + JOIN_GROUP_SLACK_MS)
