"""
A session is a lease: who does not hear ZooKeeper stops delivering before its session can end.

The session's time-out begins anew, at the leader, with whatever it hears of the client. What a
client can know of that is an answer: the leader has answered the *sync* that it sent. It forwards a
server's news of that server's clients at least every half tick, in order with its requests, and no
session is granted for less than two ticks. So at the leader the session lasts from the sending of
an answered sync for its time-out, less a quarter of it at most. The rest of `SHARE` is for clocks
that drift, by anything below a ninth: `herdspec.protocols.lease` proves that this is enough.

Source: *ours*; ZooKeeper 3.9, `LearnerHandler` (PING), `SessionTrackerImpl`.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 2 / 3
"""The part of the session's time-out for which an answered sync lets a consumer deliver."""
PER_TIMEOUT = 6
"""The number of syncs that are sent within one time-out."""


@dataclass(slots=True)
class SessionLease:
    """When the lease ends, and when the next sync is due."""

    timeout_ms: int = 0
    until_ms: int = 0
    asks_at_ms: int = 0
    sent_ms: int | None = None
    """When the sync was sent that is not answered yet."""

    def begin(self, timeout_ms: int, now_ms: int) -> None:
        """A connection stands: ask at once."""
        self.timeout_ms = timeout_ms
        self.asks_at_ms, self.sent_ms = now_ms, None

    def is_due(self, now_ms: int) -> bool:
        """Tells whether a sync is to be sent now."""
        return self.sent_ms is None and now_ms >= self.asks_at_ms

    def asked(self, now_ms: int) -> None:
        """A sync is sent."""
        self.sent_ms = now_ms
        self.asks_at_ms = now_ms + self.timeout_ms // PER_TIMEOUT

    def answered(self) -> None:
        """The sync was answered: the lease is as long as if it had begun with the sending."""
        assert self.sent_ms is not None, "there is one under way"
        self.until_ms = self.sent_ms + int(self.timeout_ms * SHARE)
        self.sent_ms = None

    def end(self) -> None:
        """The session is over."""
        self.until_ms = 0
