"""
The coordinator's core: no event of a start-up holds the loop, however many groups are stored.

Leases are renewed on that loop: an event that takes longer than `leadership_lease_ms` looks like a
pause, upon which the new leader steps down, and so does the next one.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter

from herdproof.protocols.central_coordinator.coordinator.coordinator import Coordinator
from herdproof.protocols.central_coordinator.coordinator.rebalance import AT_ONCE
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    CoordinatorEffect,
    CoordinatorEvent,
    Elected,
    Report,
    Tick,
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

GROUPS = 50_000
LONGEST_S = SETTINGS.leadership_lease_ms / 1000 / 4
"""Far more than an event takes, and far less than a pause."""
LOST = Refusal(Why.CONNECTION_LOSS)
TOPICS = Children(PATHS.topics, watch=True)


class StartingUp:
    """A core over many stored groups that nobody belongs to; the topics are told last."""

    def __init__(self, groups: int) -> None:
        self.core = Coordinator(1)
        self.names = tuple(f"group-{number:05}" for number in range(groups))
        self.longest_s = 0.0
        self.most_groups = 0
        self.reports: list[Report] = []
        self._inbox: deque[CoordinatorEvent] = deque([Elected(1)])
        self._last: list[CoordinatorEvent] = []

    def run(self) -> None:
        """Take every event until nothing is left but to wait."""
        while self._inbox or self._last:
            event = self._inbox.popleft() if self._inbox else self._last.pop()
            began = perf_counter()
            effects = self.core.receive(event, 1_000_000)
            self.longest_s = max(self.longest_s, perf_counter() - began)
            self.most_groups = max(self.most_groups, len(self.core.groups))
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        if isinstance(effect, Report):
            self.reports.append(effect)
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
            case _:
                return Refusal(Why.NO_NODE)


def test_a_leader_takes_on_fifty_thousand_stored_groups() -> None:
    """No event takes long enough to look like a pause, and only so many groups are in memory."""
    startup = StartingUp(GROUPS)

    startup.run()

    assert startup.longest_s < LONGEST_S
    assert startup.most_groups <= SETTINGS.max_loads
    told = [report.what for report in startup.reports]
    assert told.count(What.COORDINATOR_READY) == 1
    assert told.count(What.GROUP_EMPTY) == GROUPS


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
    assert len(w.told(What.GROUP_EMPTY)) == 10


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

    assert sorted(reads(w)) == sorted(PATHS.group(f"group-{number}") for number in range(10))
    assert len(w.told(What.COORDINATOR_READY)) == 1


def test_rebalances_of_many_groups_begin_in_portions() -> None:
    """A topic that all groups want has not all of them rebalanced in one event."""
    handlers, groups = 2, 3 * AT_ONCE
    w = elected(settings=Settings(request_handlers=handlers))
    members = [w.register("a", group=f"group-{number}") for number in range(groups)]
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
