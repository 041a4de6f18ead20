"""The settings of a coordinator's core, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from herdproof.errors import CallerError


class BadSettings(CallerError):
    """A setting that nothing good can come of: the message names it, and says what it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    The settings of a coordinator's core; times are in milliseconds. Raises `BadSettings`.

    What concerns one consumer (its ping interval, its session timeout) it says itself when it
    registers, within the bounds given here.
    """

    # Limits of what is taken on.
    max_channels: int = 20_000
    """One more is closed at once."""
    max_groups: int = 10_000
    """One more is refused, GROUP_FULL; groups without consumers don't count."""
    max_members_per_group: int = 5_000
    """One more is refused, GROUP_FULL."""
    max_subscriptions_per_group: int = 250
    """Different ones, as which a plan weighs with each topic; one more is refused, GROUP_FULL."""
    max_name_bytes: int = 255
    """Of a group's or a consumer's id, in UTF-8; a longer one is refused, INVALID_SUBSCRIPTION."""
    register_timeout_ms: int = 30_000
    """A connection over which nobody has registered for so long is closed."""

    # What a consumer may ask for when it registers.
    min_ping_interval_ms: int = 10
    """A consumer that wants to be pinged more often is refused."""
    max_session_timeout_ms: int = 300_000
    """A longer lease is refused; an owner whose lease nobody knows is granted this."""

    # Leases.
    drift: float = 0.05
    """Fraction by which one clock may run slower than another: 0.05 is three minutes an hour."""
    leadership_lease_ms: int = 4_000
    """Whoever was not heard of for so long was paused, and steps down before it does anything."""
    failover_grace_ms: int = 3_000
    """Time for which a new coordinator waits for the known consumers of a group to reconnect."""

    # Rebalances.
    request_handlers: int = 4
    """Queues of rebalance requests, each with its handler; a group always goes to the same."""
    max_rebalance_retries: int = 4
    """After more failures in a row the operator is told, ConsumerRebalanceFailedException."""
    rebalance_backoff_ms: int = 200
    """Wait before a failed rebalance is tried again; doubles with each failure."""
    rebalance_backoff_max_ms: int = 10_000
    """The longest such wait, with which it goes on for ever."""

    max_start_bytes: int = 1_000_000
    """Bytes that a Start may say of partitions; a member gets no more, and the rest is told of."""

    # ZooKeeper.
    offset_flush_ms: int = 1_000
    """Offsets out of answers to pings are written this late, so that one write takes many."""
    max_transaction_bytes: int = 512 * 1024
    """A larger transaction is split; ZooKeeper's own limit (jute.maxbuffer) is just below 1 MiB."""
    max_loads: int = 32
    """Number of groups that are read at once."""
    group_retention_ms: int = 7 * 24 * 3_600_000
    """A group that is empty for so long expires: what is stored of it is deleted; 0: never."""
    group_check_ms: int = 3_600_000
    """Time after all stored groups have been gone through until that begins again."""
    zookeeper_backoff_ms: int = 100
    """Wait before an operation whose connection was lost is tried again."""
    zookeeper_retries: int = 5
    """After more of them in a row a commit is answered NOT_STORED."""
    consult_cache_ms: int = 2_000
    """After so long what Consult tells is read again, even where no watch says otherwise."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = _LEAST.get(field.name, 1)
            if not least <= value < 2**31 or not math.isfinite(value):
                raise BadSettings(f"{field.name} is {value}: it must be {least} to 2^31 - 1")
        if self.max_transaction_bytes > _JUTE_MAX_BUFFER:
            raise BadSettings(
                f"max_transaction_bytes is {self.max_transaction_bytes}: ZooKeeper refuses more "
                f"than {_JUTE_MAX_BUFFER}"
            )
        if self.rebalance_backoff_max_ms < self.rebalance_backoff_ms:
            raise BadSettings(
                f"rebalance_backoff_max_ms is {self.rebalance_backoff_max_ms}: it must be at least "
                f"rebalance_backoff_ms ({self.rebalance_backoff_ms})"
            )

    def lease_ms(self, session_timeout_ms: int) -> int:
        """The time, on this clock, for which a consumer goes on that stops after a timeout."""
        return math.ceil(session_timeout_ms * (1 + self.drift))

    def rebalance_backoff_after(self, failures: int) -> int:
        """The wait after so many failures in a row, at least one."""
        doubled = self.rebalance_backoff_ms << min(failures - 1, 24)
        return min(doubled, self.rebalance_backoff_max_ms)


_LEAST = {
    "drift": 0, "failover_grace_ms": 0, "max_rebalance_retries": 0, "zookeeper_retries": 0,
    "offset_flush_ms": 0, "group_retention_ms": 0, "max_transaction_bytes": 4096,
}  # fmt: skip
"""Least value of a setting, where that is not 1."""

_JUTE_MAX_BUFFER = 1_000_000
"""ZooKeeper takes packets below 0xfffff bytes; the rest is for the packet's own head."""
