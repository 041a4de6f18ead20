"""
The clock that leases are counted by: nobody's setting of the wall clock moves it.

An operator, or NTP, may set the wall clock at any moment. Forward it would end every lease at once;
back it would let a consumer fetch long after its partitions were given to another.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from herdproof.consuming.events import StopFetchers
from herdproof.consuming.fetching.streams import Streams
from herdproof.protocols.central_coordinator.client.session import ConsumerSession
from herdproof.protocols.central_coordinator.events import CoordinatorEvent, Tick, WakeAt
from herdproof.protocols.central_coordinator.server.configuration import Configuration
from herdproof.protocols.central_coordinator.server.metrics import Metrics
from herdproof.protocols.central_coordinator.server.server import Server
from herdproof.shells.clock import now_ms
from properties.protocols.central_coordinator.client.consumer_script import Script
from properties.protocols.central_coordinator.client.test_central_session import (
    PlayedFetchers,
    Stage,
    stage,
    take,
)

__all__ = ["stage"]  # a fixture

HOUR_S = 3_600
HOURS = pytest.mark.parametrize("hours", [-1, 1], ids=["back", "forward"])


class WallClock:
    """The wall clock, which can be set."""

    def __init__(self) -> None:
        self.ahead_s = 0
        self._time = time.time
        self._time_ns = time.time_ns
        self._clock_gettime = time.clock_gettime
        self._clock_gettime_ns = time.clock_gettime_ns

    def set_by(self, hours: int) -> None:
        """Somebody sets the clock forward, or back."""
        self.ahead_s += hours * HOUR_S

    def time(self) -> float:
        """As `time.time`."""
        return self._time() + self.ahead_s

    def time_ns(self) -> int:
        """As `time.time_ns`."""
        return self._time_ns() + self.ahead_s * 10**9

    def clock_gettime(self, clock: int) -> float:
        """As `time.clock_gettime`."""
        return self._clock_gettime(clock) + (clock == time.CLOCK_REALTIME) * self.ahead_s

    def clock_gettime_ns(self, clock: int) -> int:
        """As `time.clock_gettime_ns`."""
        ahead_ns = (clock == time.CLOCK_REALTIME) * self.ahead_s * 10**9
        return self._clock_gettime_ns(clock) + ahead_ns


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    """The wall clock in a test's hand."""
    clock = WallClock()
    for name in ("time", "time_ns", "clock_gettime", "clock_gettime_ns"):
        monkeypatch.setattr(time, name, getattr(clock, name))
    return clock


@HOURS
def test_the_clock_does_not_follow_the_wall_clock(wall: WallClock, hours: int) -> None:
    """However the wall clock is set, the time of leases goes on as before."""
    before_wall, before = time.time(), now_ms()

    wall.set_by(hours)

    assert abs(time.time() - before_wall) > HOUR_S / 2
    assert 0 <= now_ms() - before < 60_000


@HOURS
def test_a_coordinator_s_time_does_not_follow_the_wall_clock(wall: WallClock, hours: int) -> None:
    """The times that the server gives its core go on as before, and so does its alarm."""

    async def give_before_and_after() -> tuple[list[int], float]:
        """Give an event before the wall clock is set and one after, and time both."""
        server = Server(Configuration(broker_id=1), Metrics())
        given: list[int] = []

        def receive(event: CoordinatorEvent, now_ms: int) -> list[WakeAt]:
            """Note the time that comes with an event."""
            given.append(now_ms)
            return [WakeAt(now_ms + 30_000)]

        server._core.receive = receive  # type: ignore[assignment,method-assign]
        server.give(Tick())
        wall.set_by(hours)
        server.give(Tick())
        server._wake_at(given[0] + 30_000)
        assert server._wake is not None
        alarm_s = server._wake.when() - asyncio.get_running_loop().time()
        server._wake.cancel()
        return given, alarm_s

    (before, after), alarm_s = asyncio.run(give_before_and_after())

    assert 0 <= after - before < 20_000
    assert 10 < alarm_s <= 30


def test_a_consumer_s_alarm_does_not_follow_the_wall_clock() -> None:
    """It is due when its core says, and not at once, over and over again."""
    session = ConsumerSession(Script().core, Streams())
    session._loop = asyncio.new_event_loop()

    session._wake_at(now_ms() + 30_000)

    assert session._wake is not None
    alarm_s = session._wake.when() - session._loop.time()
    session._loop.close()
    assert 10 < alarm_s <= 30


def test_a_lease_does_not_end_early_when_the_wall_clock_is_set_forward(
    stage: Stage, wall: WallClock
) -> None:
    """A consumer whose machine is set to tomorrow goes on."""
    consumer = stage.started(40, 41, session_timeout_s=30)
    assert take(consumer) == 40

    wall.set_by(24)

    assert take(consumer) == 41
    assert StopFetchers not in map(type, PlayedFetchers.last.orders)


def test_a_lease_ends_though_the_wall_clock_is_set_back(stage: Stage, wall: WallClock) -> None:
    """A consumer whose machine is set to yesterday stops in time all the same."""
    consumer = stage.started(40, session_timeout_s=1.5, ping_interval_s=0.1)
    assert take(consumer) == 40

    wall.set_by(-24)
    PlayedFetchers.last.await_order(StopFetchers)
    PlayedFetchers.last.fetch(41)

    assert consumer.poll(0) is None
