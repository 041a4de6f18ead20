"""A consumer's settings in system B, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass

from herdproof.consuming.offsets import OffsetReset
from herdproof.protocols.central_coordinator.settings import BadSettings


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """
    The settings of a consumer's core; times are in milliseconds.

    Raises `BadSettings`.
    """

    auto_commit: bool = True
    """Answer pings and Stops with the consumed offsets, so that the coordinator stores them."""
    auto_offset_reset: OffsetReset = OffsetReset.LARGEST
    """Where to begin where no offset is stored, or where it is out of range."""
    ping_interval_ms: int = 2_000
    """
    Interval at which the coordinator asks, within which each of its requests is answered.

    Of a lease, all but one or two of them are left when a coordinator dies: with the defaults as
    long as its ZooKeeper session lasts on.
    """
    max_ping_retries: int = 3
    """After so many unanswered copies of a ping the coordinator takes this consumer for failed."""
    session_timeout_ms: int = 10_000
    """The lease: without a new request for so long, the consumer closes its fetchers by itself."""
    request_timeout_ms: int = 5_000
    """Longest wait for a connection and the answer to a Consult, Register or Commit."""
    backoff_ms: int = 100
    """Wait before consulting again; it doubles with each failure in a row."""
    backoff_max_ms: int = 5_000
    """The longest wait before consulting again."""
    seek_ms: int = 300
    """The longest wait while brokers answer, and a coordinator that was there is sought anew."""
    patience_ms: int = 1_000
    """While other brokers may be asked: how long one that says nothing is waited for."""
    resumes: bool = True
    """
    Consume on while the lease holds when the connection is lost, and ask the next coordinator to
    resume the registration; else stop at once, and register anew.
    """
    brings: bool = True
    """Who registers anew says where its former registrations stopped; else as before version 4."""
    gives_up: bool = False
    """Fail if every known broker fails (`002`), instead of trying until shut down (`000`)."""
    listens: bool = False
    """
    A rebalance listener is told of revocations: a Stop is answered after `RevocationHandled`.

    Until then the listener may commit: the partitions are still this consumer's own.
    """

    def __post_init__(self) -> None:
        for name in (
            "ping_interval_ms", "session_timeout_ms", "request_timeout_ms", "backoff_ms",
            "backoff_max_ms", "seek_ms", "patience_ms",
        ):  # fmt: skip
            if not 0 < getattr(self, name) < 2**31:
                raise BadSettings(f"{name} is {getattr(self, name)}: it must be 1 to 2^31 - 1")
        if not 0 <= self.max_ping_retries < 2**15:
            raise BadSettings(
                f"max_ping_retries is {self.max_ping_retries}: it must be 0 to 32,767"
            )
        # A ping renews the lease only to session_timeout after the answer to the one before.
        if self.session_timeout_ms <= 2 * self.ping_interval_ms:
            raise BadSettings(
                f"session_timeout_ms is {self.session_timeout_ms}: it must be more than twice "
                f"ping_interval_ms ({self.ping_interval_ms}), or a single late ping ends the lease"
            )

    @property
    def silence_ms(self) -> int:
        """The silence of a coordinator after which a ping is overdue."""
        return self.ping_interval_ms * 3 // 2

    def backoff_after(self, failures: int, spread: float, *, seeks: bool = False) -> int:
        """
        The wait after so many failures in a row, at least one, in milliseconds.

        Who `seeks` a coordinator that others may find at any moment waits no longer than that.
        `spread`, in [0, 1), is this consumer's own: it keeps many who lost one coordinator from
        coming back in step. The wait is half to all of what the doubling gives.
        """
        longest = min(self.seek_ms, self.backoff_max_ms) if seeks else self.backoff_max_ms
        doubled = min(self.backoff_ms << min(failures - 1, 31), longest)
        return max(1, int(doubled * (1 + spread) / 2))
