"""
A simulated process: what reaches it is handled at once, unless it is paused; then it waits.

What comes from one source (a connection, ZooKeeper's client, the application) stays in order; what
waited from several sources while the process was paused is taken in any order when it wakes, as its
threads would. A timer that went off meanwhile is late by chance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from herdproof.simulator.clock import Clock, Timeline
from herdproof.simulator.network import Connection, End, Network

SOON_MS = 1.0
"""The earliest moment at which a timer goes off."""

LATE_MS = 150.0
"""The time by which the timers of a process that wakes may be late."""


class World(Protocol):
    """The world that every process lives in."""

    timeline: Timeline
    network: Network
    chance: Random

    def note(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """Something happened to a process: for the log, and for whoever observes."""


class Process:
    """A process, from its start until it is killed; a restarted one is another object."""

    def __init__(self, world: World, name: str, clock: Clock) -> None:
        self.world = world
        self.timeline = world.timeline
        self.name = name
        self.clock = clock
        self.alive = True
        self.paused = False
        self.ends: dict[int, tuple[Connection, End]] = {}
        """Its connections, by the number of the channel."""
        self._waiting: dict[str, deque[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        self._wakes_ms: int | None = None
        self._missed_tick = False

    # ── What a core's shell needs ───────────────────────────────────────────────────────────

    def post(self, source: str, happen: Callable[..., None], *arguments: Any) -> None:
        """Do this now, or when the process goes on."""
        if self.paused:
            self._waiting.setdefault(source, deque()).append((happen, arguments))
        elif self.alive:
            happen(*arguments)

    def wake_at(self, time_ms: int) -> None:
        """Have `tick` called when its clock shows this; the latest wish replaces those before."""
        if time_ms != self._wakes_ms:
            self._wakes_ms = time_ms
            soonest = self.timeline.now + SOON_MS  # so that no mistake can stop time
            self.timeline.at(max(self.clock.when(time_ms), soonest), self._alarm, time_ms)

    def tick(self) -> None:
        """Do what it asked to be woken for."""
        raise NotImplementedError

    def woke(self) -> None:
        """The process goes on after a pause, and has not done anything yet."""

    # ── What can happen to it ───────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """It is no more; its connections go with it."""
        self.alive = self.paused = False
        self._waiting.clear()
        for connection, end in self.ends.values():
            connection.die(end)
        self.ends.clear()

    def pause(self) -> None:
        """It handles nothing until it is resumed."""
        self.paused = True

    def resume(self) -> None:
        """It goes on: what waited is taken, source by source in any order, and timers are late."""
        if not (self.alive and self.paused):
            return
        self.paused = False
        self.woke()
        chance = self.world.chance
        late = self._missed_tick and chance.random() < 0.5
        if self._missed_tick and not late:
            self._late_tick()
        waiting = {source: line for source, line in self._waiting.items() if line}
        self._waiting = {}
        while waiting and self.alive:
            source = chance.choice(list(waiting))
            happen, arguments = waiting[source].popleft()
            if not waiting[source]:
                del waiting[source]
            happen(*arguments)
        if late:
            self.timeline.after(LATE_MS * chance.random(), self._late_tick)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────

    def _alarm(self, time_ms: int) -> None:
        if time_ms != self._wakes_ms or not self.alive:
            return
        if self.paused:
            self._missed_tick = True
        elif self.clock.now_ms() < time_ms:  # the clock goes slower than it did
            self.timeline.at(self.clock.when(time_ms), self._alarm, time_ms)
        else:
            self._wakes_ms = None
            self.tick()

    def _late_tick(self) -> None:
        if self.paused or not self._missed_tick:
            return
        self._missed_tick = False
        self._wakes_ms = None
        if self.alive:
            self.tick()
