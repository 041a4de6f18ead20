"""The settings of a self-rebalancing consumer, under Kafka 0.8's names and with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from herdproof.consuming.offsets import OffsetReset
from herdproof.errors import CallerError


class BadConnectorSettings(CallerError):
    """A setting that cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSettings:
    """Raises `BadConnectorSettings`, which names the setting and says what it must be."""

    zookeeper_session_timeout_ms: int = 6_000
    """`zookeeper.session.timeout.ms`: what is asked for; the server decides."""
    rebalance_max_retries: int = 4
    """`rebalance.max.retries`: after so many failed attempts in a row the failure is reported."""
    rebalance_backoff_ms: int = 2_000
    """`rebalance.backoff.ms`: how long to wait after a failed attempt."""
    auto_commit_enable: bool = True
    """`auto.commit.enable`: consumed offsets are stored by themselves."""
    auto_commit_interval_ms: int = 60_000
    """`auto.commit.interval.ms`: how often."""
    auto_offset_reset: OffsetReset = OffsetReset.LARGEST
    """`auto.offset.reset`: where to begin where no offset is stored, or it is out of range."""
    listens: bool = False
    """A rebalance listener is to return before what is revoked is given back (*ours*)."""

    def __post_init__(self) -> None:
        for name in ("zookeeper_session_timeout_ms", "auto_commit_interval_ms"):
            if getattr(self, name) < 1:
                raise BadConnectorSettings(f"{name} is {getattr(self, name)}: it must be positive")
        for name in ("rebalance_max_retries", "rebalance_backoff_ms"):
            if getattr(self, name) < 0:
                raise BadConnectorSettings(f"{name} is {getattr(self, name)}: it must be 0 or more")
