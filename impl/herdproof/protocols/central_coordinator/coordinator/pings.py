"""
The ping scheduler: a priority queue of channels by the time at which their consumer is pinged.

`002` pings when `scheduledTime >= now` and moves the head on even when it was not due; both are
corrected: a consumer is pinged when `scheduledTime <= now`, and only then moved on. A channel that
is busy is skipped: whatever is outstanding over it shows as well whether the consumer lives.

Source: `002` (pingScheduler, KafkaDelayedScheduler.run) as PROTOCOLS.md corrects it.
"""

from __future__ import annotations

import heapq

from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.wire.messages import Ping


class PingScheduler(CorePart):
    """Pings every member once per its ping interval."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.queue: list[tuple[int, int]] = []
        """When (ms) which channel is pinged next; one that is closed stays until it is due."""
        self._server = context.server

    def schedule(self, channel: int, now_ms: int, interval_ms: int) -> None:
        """A member has registered over this channel."""
        heapq.heappush(self.queue, (now_ms + interval_ms, channel))

    def due(self) -> int | None:
        """When the next ping is due, if anybody is to be pinged."""
        return self.queue[0][0] if self.queue else None

    def run(self, now_ms: int) -> None:
        """Ping who is due and not busy, until the event is full; move each on by its interval."""
        while self.queue and self.queue[0][0] <= now_ms and not self._outbox.is_full():
            scheduled_ms, number = self.queue[0]
            channel = self._server.channels.get(number)
            if channel is None or channel.member is None:
                heapq.heappop(self.queue)
                continue
            member = channel.member
            if not channel.is_busy():
                self._server.request(number, Ping(0), self._groups[member.group].generation)
            # What was missed is not made up for: then the channel is busy with this ping.
            heapq.heapreplace(self.queue, (scheduled_ms + member.ping_interval_ms, number))

    def clear(self) -> None:
        """Nobody is pinged any more."""
        self.queue.clear()
