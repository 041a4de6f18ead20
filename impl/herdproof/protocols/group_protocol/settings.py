"""The settings of a group coordinator, under Kafka's names and with its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from herdproof.errors import CallerError

_MS_A_MINUTE = 60_000


class BadGroupSettings(CallerError):
    """A setting that cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Raises `BadGroupSettings`, which names the setting and says what it must be."""

    group_min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`: no member may ask for a shorter one."""
    group_max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`: nor for a longer one."""
    group_initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for more to join."""
    group_max_size: int = 2**31 - 1
    """`group.max.size`: so many members at most."""
    offset_metadata_max_bytes: int = 4_096
    """`offset.metadata.max.bytes`: so long may be what is committed with an offset."""
    offsets_retention_minutes: int = 10_080
    """`offsets.retention.minutes`: so long the offsets of a group are kept that nobody uses."""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`: how often is looked for those to forget."""
    group_new_member_join_timeout_ms: int = 300_000
    """Time that a new member's JoinGroup is waited for (Kafka has no setting for it)."""
    max_groups: int = 100_000
    """The most groups (*ours*): who would begin one more is told POLICY_VIOLATION."""
    max_pending_members: int = 20_000
    """Of member ids that were given out, and nobody has joined with yet, so many at most, in all
    groups (*ours*): whoever asks for one more is to try again, COORDINATOR_LOAD_IN_PROGRESS."""
    commits: Literal["owner", "as_kafka"] = "owner"
    """`owner`: nobody commits for a partition that another member owns (*ours*); `as_kafka`: any
    member of the generation may."""

    def __post_init__(self) -> None:
        least = {
            "group_min_session_timeout_ms": 1,
            "group_initial_rebalance_delay_ms": 0,
            "group_max_size": 1,
            "offset_metadata_max_bytes": 0,
            "offsets_retention_minutes": 1,
            "offsets_retention_check_interval_ms": 1,
            "group_new_member_join_timeout_ms": 1,
            "max_groups": 1,
            "max_pending_members": 1,
            "group_max_session_timeout_ms": self.group_min_session_timeout_ms,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise BadGroupSettings(f"{name} is {getattr(self, name)}: at least {bound}")
        if self.commits not in ("owner", "as_kafka"):
            raise BadGroupSettings(f"commits is {self.commits!r}: 'owner' or 'as_kafka'")

    @property
    def offsets_retention_ms(self) -> int:
        """The time that offsets are kept of a group that nobody uses."""
        return self.offsets_retention_minutes * _MS_A_MINUTE
