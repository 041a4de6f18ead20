"""
The ping scheduler: a priority queue of channels by the time at which their consumer is pinged.

`002` pings when `scheduledTime >= now` and moves the head on even when it was not due; both are
corrected: a consumer is pinged when `scheduledTime <= now`, and only then moved on. A channel that
is busy is skipped: whatever is outstanding over it shows as well whether the consumer lives.

Source: `002` (pingScheduler, KafkaDelayedScheduler.run) as PROTOCOLS.md corrects it.
"""

from __future__ import annotations

import heapq
from collections import Counter

from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.wire.messages import Ping

AT_ONCE = 16
"""Number of pings in one event: fewer than answers are read meanwhile, or none is in time."""
MOMENT_MS = 10
CROWD = 50
"""Pings in a moment that keep a coordinator, with their answers, busy for half of it."""


class PingScheduler(CorePart):
    """Pings every member once per its ping interval."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.queue: list[tuple[int, int]] = []
        """When (ms) which channel is pinged next; one that is closed stays until it is due."""
        self._due: Counter[int] = Counter()
        """Number of members that are pinged, by moment."""
        self._server = context.server

    def schedule(self, channel: int, now_ms: int, interval_ms: int) -> None:
        """A member has registered over this channel."""
        first_ms = now_ms + interval_ms
        moment = first_ms // MOMENT_MS
        while self._due[moment] >= CROWD and (moment - 1) * MOMENT_MS > now_ms:
            moment -= 1
            first_ms = moment * MOMENT_MS
        if self._due[moment] >= CROWD:  # there are more than an interval has room for
            first_ms = now_ms + 1 + channel * MOMENT_MS % interval_ms
        self._due[first_ms // MOMENT_MS] += 1
        heapq.heappush(self.queue, (first_ms, channel))

    def due(self) -> int | None:
        """When the next ping is due, if anybody is to be pinged."""
        return self.queue[0][0] if self.queue else None

    def run(self, now_ms: int) -> None:
        """Ping who is due and not busy, not too many at once; move each on by its interval."""
        pinged = 0
        while self.queue and self.queue[0][0] <= now_ms and pinged < AT_ONCE:
            scheduled_ms, number = self.queue[0]
            channel = self._server.channels.get(number)
            if channel is None or channel.member is None:
                heapq.heappop(self.queue)
                self._over(scheduled_ms)
                continue
            pinged += self.ping(number)
            # What was missed is not made up for: then the channel is busy with this ping.
            next_ms = scheduled_ms + channel.member.ping_interval_ms
            heapq.heapreplace(self.queue, (next_ms, number))
            self._over(scheduled_ms)
            self._due[next_ms // MOMENT_MS] += 1

    def ping(self, number: int) -> bool:
        """Ping a member now, unless its channel is busy; and tell whether that was done."""
        channel = self._server.channels.get(number)
        if channel is None or channel.member is None or channel.is_busy():
            return False
        self._server.request(number, Ping(0), self._groups[channel.member.group].generation)
        return True

    def _over(self, scheduled_ms: int) -> None:
        moment = scheduled_ms // MOMENT_MS
        self._due[moment] -= 1
        if self._due[moment] <= 0:
            del self._due[moment]

    def clear(self) -> None:
        """Nobody is pinged any more."""
        self.queue.clear()
        self._due.clear()
