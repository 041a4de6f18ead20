"""
The times by which heartbeats go, and the lease that their answers give.

A lease is counted from heartbeats alone: no other answer says at every coordinator that a session
was renewed. JoinGroup's and SyncGroup's may say anew what was decided long before, OffsetCommit's
says nothing of a rebalance that has begun. So the first heartbeat follows at once when a join has
ended; until it is answered, a new member hands nothing out.
"""

from __future__ import annotations

from herdproof.protocols.group_protocol.client.core.settings import ClientSettings


class Heartbeat:
    """When something was heard and polled last, and the next heartbeat is due; all times in ms."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self.next_due_ms = 0
        """When the next heartbeat is due."""
        self.last_poll_ms = 0
        self.session_reset_ms = 0
        """When the coordinator was heard last."""
        self.lease_until_ms = 0
        """Until then the coordinator counts this member, whatever has happened since."""

    def poll(self, now_ms: int) -> None:
        """The application has polled."""
        self.last_poll_ms = now_ms

    def reset_timeouts(self, now_ms: int) -> None:
        """A join has ended: all times count from now on, and a heartbeat is due at once."""
        self.session_reset_ms = self.last_poll_ms = self.next_due_ms = now_ms

    def sent(self, now_ms: int) -> None:
        """A heartbeat is sent; the next one is due an interval later."""
        self.next_due_ms = now_ms + self._settings.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """One was answered: the receive time is set, and the next round begins."""
        self.session_reset_ms = now_ms

    def is_counted(self, sent_ms: int) -> None:
        """Count the lease from a heartbeat that was answered well: the session began after it."""
        until_ms = sent_ms + self._settings.lease_ms
        self.lease_until_ms = max(self.lease_until_ms, until_ms)

    def ends_lease(self) -> None:
        """The coordinator counts this member no more, or may not."""
        self.lease_until_ms = 0

    def session_timeout_expired(self, now_ms: int) -> bool:
        """True if the coordinator was silent for the whole of a session."""
        return now_ms >= self.session_expires_ms

    def poll_timeout_expired(self, now_ms: int) -> bool:
        """True if the application has not polled for too long."""
        return now_ms >= self.poll_expires_ms

    def should_heartbeat(self, now_ms: int) -> bool:
        """True if the next heartbeat is due."""
        return now_ms >= self.next_due_ms

    @property
    def session_expires_ms(self) -> int:
        """When the session is over, unless something is heard."""
        return self.session_reset_ms + self._settings.session_timeout_ms

    @property
    def poll_expires_ms(self) -> int:
        """When the application has to have polled."""
        return self.last_poll_ms + self._settings.max_poll_interval_ms
