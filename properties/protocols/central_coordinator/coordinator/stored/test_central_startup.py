"""
The coordinator's core: no event of a start-up holds the loop, however many groups are stored.

Leases are renewed on that loop: an event that takes longer than `leadership_lease_ms` looks like a
pause, upon which the new leader steps down, and so does the next one.
"""

from __future__ import annotations

import gc
from collections import deque
from time import thread_time

from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.members.walk import PAUSE_MS
from herdproof.protocols.central_coordinator.coordinator.rebalancing.rebalance import AT_ONCE
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    CoordinatorEffect,
    CoordinatorEvent,
    Elected,
    Report,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Get,
    Names,
    Operation,
    Refusal,
    Sync,
    Synced,
    Why,
)
from properties.protocols.central_coordinator.coordinator.core_world import (
    PATHS,
    SETTINGS,
    World,
    elected,
)

GROUPS = 100_000
VISITED = 2_000
LONGEST_S = 0.05
LOST = Refusal(Why.CONNECTION_LOSS)
TOPICS = Children(PATHS.topics, watch=True)


class StartingUp:
    """A core over many stored groups that nobody belongs to; the topics are told last."""

    def __init__(self, groups: int) -> None:
        self.core = Coordinator(1)
        self.names = tuple(f"group-{number:06}" for number in range(groups))
        self.now_ms = 1_000_000
        self.longest_s = 0.0
        self.most_groups = 0
        self.reports: list[Report] = []
        self.read: list[str] = []
        self.wake_ms: int | None = None
        self._inbox: deque[CoordinatorEvent] = deque([Elected(1)])
        self._last: list[CoordinatorEvent] = []

    def run(self) -> None:
        """Take every event until nothing is left but to wait."""
        gc.disable()
        try:
            while self._inbox or self._last:
                event = self._inbox.popleft() if self._inbox else self._last.pop()
                began = thread_time()  # without the test run's own garbage
                effects = self.core.receive(event, self.now_ms)
                self.longest_s = max(self.longest_s, thread_time() - began)
                self.most_groups = max(self.most_groups, len(self.core.groups))
                for effect in effects:
                    self._carry_out(effect)
        finally:
            gc.enable()

    def wait(self) -> None:
        """Let the time pass until the core wants to be woken, and wake it."""
        assert self.wake_ms is not None
        self.now_ms, self.wake_ms = max(self.now_ms, self.wake_ms), None
        self._inbox.append(Tick())
        self.run()

    def is_ready(self) -> int:
        """How often it was said that topics and groups are known."""
        return sum(report.what == What.COORDINATOR_READY for report in self.reports)

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        if isinstance(effect, Report):
            self.reports.append(effect)
        elif isinstance(effect, WakeAt):
            self.wake_ms = effect.time_ms
        elif isinstance(effect, Ask):
            answered = Answered(effect.number, self._answer(effect.operation))
            (self._last if effect.operation == TOPICS else self._inbox).append(answered)

    def _answer(self, operation: Operation) -> Answer:
        match operation:
            case Sync():
                return Synced()
            case Children(path=PATHS.groups):
                return Names(self.names)
            case Children(path=PATHS.topics):
                return Names(())
            case Get(path=path) if path.startswith(PATHS.groups):
                self.read.append(path)
        return Refusal(Why.NO_NODE)


def test_a_leader_is_ready_however_many_groups_are_stored() -> None:
    """No event takes long, and nobody waits until a hundred thousand groups are read."""
    startup = StartingUp(GROUPS)

    startup.run()

    assert startup.longest_s < LONGEST_S
    assert startup.is_ready() == 1
    assert len(startup.read) <= SETTINGS.max_loads


def test_a_leader_goes_through_all_stored_groups() -> None:
    """Each is read once, in portions; then it is waited until they are gone through again."""
    startup = StartingUp(VISITED)
    startup.run()

    since_ms = startup.now_ms
    while len(startup.read) < VISITED:
        startup.wait()

    assert startup.longest_s < LONGEST_S
    assert startup.most_groups <= SETTINGS.max_loads
    assert sorted(startup.read) == [PATHS.group(name) for name in startup.names]
    assert startup.is_ready() == 1
    assert VISITED // SETTINGS.max_loads * PAUSE_MS <= startup.now_ms - since_ms

    startup.read.clear()
    while not startup.read:
        startup.wait()
    assert startup.now_ms - since_ms >= SETTINGS.group_check_ms


def store(w: World, groups: int) -> None:
    """Store groups that nobody belongs to."""
    for number in range(groups):
        w.make(PATHS.group(f"group-{number}"), b'{"generation": 3}')


def reads(w: World) -> list[str]:
    """The groups' nodes that were read, in order."""
    return [o.path for o in w.asked if isinstance(o, Get) and o.path.startswith(PATHS.groups)]


def test_a_group_that_somebody_registers_in_does_not_wait_for_those_that_are_listed() -> None:
    """Stored groups are read in portions, and whoever comes meanwhile is read next."""
    w = World(Settings(max_loads=2, max_groups=5))
    store(w, 20)
    w.topic("t", 1)
    w.hold()
    w.elect()
    w.release(2)  # Sync, and the topics' names; those of the groups come next
    a = w.register("a", group="new")
    w.release_all()
    w.advance(10 * PAUSE_MS)

    assert a.error is ErrorCode.NONE
    assert reads(w).index(PATHS.group("new")) <= 2
    assert len(set(reads(w))) == 21


def test_stored_groups_are_read_though_the_connection_is_lost_meanwhile() -> None:
    """Every portion is read again after a lost connection, and the next one follows."""
    w = World(Settings(max_loads=3))
    store(w, 10)
    w.topic("t", 1)
    lost: set[Operation] = set()

    def lose_once(operation: Operation) -> Answer | None:
        if not isinstance(operation, Get) or operation in lost:
            return None
        lost.add(operation)
        return LOST

    w.spoil = lose_once
    w.elect()
    w.advance(2_000)

    assert len(w.told(What.COORDINATOR_READY)) == 1
    assert set(reads(w)) == {PATHS.group(f"group-{number}") for number in range(10)}
    assert not w.core.groups


def test_who_is_deposed_reads_no_more_of_the_stored_groups() -> None:
    """What is left of the list is forgotten; elected again, the list is read anew."""
    w = World(Settings(max_loads=2))
    store(w, 10)
    w.topic("t", 1)
    w.hold()
    w.elect()
    w.release(4)
    w.depose()
    w.release_all()
    assert len(reads(w)) < 10
    assert not w.core.groups

    w.asked.clear()
    w.elect()
    w.advance(10 * PAUSE_MS)

    assert sorted(reads(w)) == sorted(PATHS.group(f"group-{number}") for number in range(10))
    assert len(w.told(What.COORDINATOR_READY)) == 2  # once in each epoch


def test_rebalances_of_many_groups_begin_in_portions() -> None:
    """A topic that all groups want has not all of them rebalanced in one event."""
    handlers, groups = 2, 3 * AT_ONCE
    w = elected(settings=Settings(request_handlers=handlers))
    members = [w.register("a", group=f"group-{number}") for number in range(groups)]
    w.advance(0)
    for member in members:
        member.mute = True
    w.hold()
    w.reports.clear()

    w.topic("t", 5)
    w.release()
    assert 0 < len(w.told(What.REBALANCE_STARTED)) <= handlers * AT_ONCE
    assert w.wake_ms == w.now_ms
    w.advance(0)

    assert len(w.told(What.REBALANCE_STARTED)) == groups


def test_a_tick_is_asked_for_while_rebalances_wait() -> None:
    """Where nothing else happens, the rest of the queues is worked off by ticks."""
    w = elected(settings=Settings(request_handlers=1))
    groups = [w.core.membership.group_of(f"group-{number}") for number in range(AT_ONCE + 1)]
    w.hold()
    for group in groups:
        w.core.rebalancer.request(group)

    w.give(Tick())
    assert len(w.core.rebalance_request_q[0]) == 1
    w.advance(0)
    assert not w.core.rebalance_request_q[0]
