"""
What waits in the coordinator's core: timers in the purgatory, groups with their request handlers,
and what is left for a later event, since no event may lead to too much.

Some checks are here since a mutant slipped through without them (`replaced_watchers_fire`,
`two_handlers`: see `central_mutants.py`).

References: PROTOCOLS.md, section B (rebalanceRequestQ, request expiry).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from herdproof.protocols.central_coordinator.coordinator import coordinator, outbox, pings, store
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Phase
from herdproof.protocols.central_coordinator.coordinator.rebalancing import planner, rebalance
from herdproof.protocols.central_coordinator.events import (
    Ask,
    Close,
    CoordinatorEffect,
    CoordinatorEvent,
    Send,
    Tick,
)
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import Ping, Stop
from herdproof.shells.expiry import Purgatory
from herdproof.zookeeper.operations import Get, Multi
from properties.protocols.central_coordinator.coordinator.core_world import (
    GROUP,
    PATHS,
    World,
    elected,
    phase,
    sent,
    settled,
)


def test_who_waits_anew_waits_until_the_later_time() -> None:
    """A watcher set on a key again replaces the one before, and its time with it."""
    purgatory, told = Purgatory(), list[str]()
    purgatory.watch(("request", 1), 100, partial(told.append, "first"))
    purgatory.watch(("request", 1), 300, partial(told.append, "second"))
    purgatory.watch(("request", 2), 200, partial(told.append, "another"))

    purgatory.expire(299)
    assert told == ["another"]
    purgatory.expire(300)

    assert told == ["another", "second"]
    assert purgatory.due() is None


def test_what_is_cleared_and_waited_for_again_has_its_own_time() -> None:
    """The time of a watcher that was cleared is of no account to the next one on its key."""
    purgatory, told = Purgatory(), list[str]()
    purgatory.watch(("request", 1), 100, partial(told.append, "first"))
    purgatory.clear(("request", 1))
    purgatory.watch(("request", 1), 300, partial(told.append, "second"))

    assert purgatory.due() == 300
    purgatory.expire(100)
    assert told == []


def test_a_stop_is_not_waited_for_only_as_long_as_the_ping_before_it() -> None:
    """A member that answered a ping a moment ago has all of its patience for the Stop."""
    w = elected()
    silent = w.register("silent")
    w.advance(500)
    a = w.register("a")
    silent.mute = True
    w.advance(1_000)  # both are pinged, and a answers at once
    a.mute = True
    w.register("b")
    assert sent(w, a)[-1] is Stop

    w.advance(2_999)
    assert not a.closed
    w.advance(1)

    assert a.closed


def test_a_group_belongs_to_one_handler_for_ever() -> None:
    """
    One handler rebalances a group, whatever has become of it since.

    "A group hashed over handlers, so that one group is never rebalanced by two."
    """
    w = elected(settings=Settings(request_handlers=4))
    rebalancer = w.core.rebalancer
    handlers = []
    for name in "abcdef":
        w.register(name)
        handlers.append(rebalancer.handler_of(w.core.groups[GROUP]))

    assert w.generation() == 6
    assert len(set(handlers)) == 1


def test_groups_are_spread_over_the_handlers() -> None:
    """No handler is left without groups."""
    rebalancer = elected(settings=Settings(request_handlers=4)).core.rebalancer

    assert {rebalancer.handler_of(Group(f"g{n}")) for n in range(40)} == {0, 1, 2, 3}


# ── Pings ───────────────────────────────────────────────────────────────────────────────────


def test_who_is_closed_is_struck_off_the_pings_when_it_is_due() -> None:
    """Not before, and nobody is pinged before that is due."""
    due = elected().core.ping_scheduler
    due.schedule(17, 1_000_000, 1_000)

    due.run(1_000_999)
    assert due.due() == 1_001_000
    due.run(1_001_000)

    assert due.due() is None


def test_who_is_pinged_is_counted_where_it_is_pinged_next() -> None:
    """And nowhere else: so a crowd that comes later knows which moments have room."""
    w = elected()
    for name, after_ms in (("a", 0), ("b", 0), ("c", 7), ("d", 130)):
        w.advance(after_ms)
        w.register(name)
    due = w.core.ping_scheduler

    for _ in range(30):
        w.advance(150)
        assert due._due == Counter(at_ms // pings.MOMENT_MS for at_ms, _ in due.queue)


def test_who_was_pinged_leaves_room_for_one_other() -> None:
    """A moment has room for so many, and for as many more as are over."""
    due, now_ms = elected().core.ping_scheduler, 1_000_000
    due.schedule(1, now_ms - 1_000, 1_000)
    for number in range(pings.CROWD - 1):
        due.schedule(number, now_ms - 1_000, 1_005)
    due.run(now_ms)
    due.schedule(2, now_ms, 5)
    assert due.due() == now_ms + 5

    due.schedule(3, now_ms, 5)

    assert due.due() == now_ms + 1


# ── The limits of one event ─────────────────────────────────────────────────────────────────


def most_in_an_event(w: World, kind: Callable[[object], bool], act: Callable[[], None]) -> int:
    """The most effects of a kind that one event leads to, while this is done."""
    receive, counts = w.core.receive, [0]

    def counted(event: CoordinatorEvent, now_ms: int) -> list[CoordinatorEffect]:
        effects = receive(event, now_ms)
        counts.append(sum(map(kind, effects)))
        return effects

    w.core.receive = counted  # type: ignore[method-assign]
    act()
    w.core.receive = receive  # type: ignore[method-assign]
    return max(counts)


def is_sent(*kinds: type) -> Callable[[object], bool]:
    """Tells of an effect whether it sends such a message."""
    return lambda effect: isinstance(effect, Send) and isinstance(effect.frame.message, kinds)


def test_what_waits_for_the_next_tick_is_asked_once() -> None:
    """A question that an event has no room for is put by the next one, and by no later one."""
    box = outbox.Outbox()
    box.begin(0)
    for number in range(outbox.FULL + 1):
        box.ask(Get(f"/{number}"), outbox.ignore)
    assert len(box.effects) == outbox.FULL

    box.begin(1)
    box.go_on()
    box.go_on()

    assert [ask.operation for ask in box.effects if isinstance(ask, Ask)] == [
        Get(f"/{outbox.FULL}")
    ]


def test_who_is_silent_is_given_up_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd that connects at once and says nothing does not expire in one event."""
    monkeypatch.setattr(coordinator, "EXPIRE", 4)
    w = elected(settings=Settings(register_timeout_ms=1_000))
    for _ in range(20):
        w.open()

    def wait() -> None:
        w.advance(1_500)

    assert most_in_an_event(w, lambda effect: isinstance(effect, Close), wait) == 4
    assert not w.core.socket_server.channels


def test_a_crowd_is_pinged_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are due after a pause, few pings go out in one event."""
    monkeypatch.setattr(pings, "AT_ONCE", 4)
    w = elected()
    crowd = [w.register(f"c{number:02}") for number in range(20)]

    def pause() -> None:
        w.now_ms += 1_500
        w.advance(400)

    assert most_in_an_event(w, is_sent(Ping), pause) == 4
    assert all(member.count(Ping) for member in crowd)


def test_rebalances_of_many_groups_begin_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that many groups share leads to few rebalances of a handler in one event."""
    monkeypatch.setattr(rebalance, "AT_ONCE", 2)
    w = elected(settings=Settings(request_handlers=1))
    members = [w.register("c", group=f"g{number:02}") for number in range(9)]
    w.advance(100)
    before = [member.count(Stop) for member in members]

    def change() -> None:
        w.topic("t", 5)
        w.advance(100)

    assert most_in_an_event(w, is_sent(Stop), change) == 2
    assert [member.count(Stop) for member in members] == [count + 1 for count in before]


def groups_of(w: World, handler: int, number: int) -> list[str]:
    """Names of so many groups that this handler has."""
    names = (f"g{n}" for n in range(1_000))
    return [name for name in names if w.core.rebalancer.handler_of(Group(name)) == handler][:number]


def test_what_one_handler_has_left_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next tick is due, though all others have nothing left."""
    monkeypatch.setattr(rebalance, "AT_ONCE", 1)
    w = elected(settings=Settings(request_handlers=2))
    members = [w.register("c", group=name) for name in groups_of(w, 0, 2)]
    w.advance(100)

    w.topic("t", 5)
    assert w.wake_ms == w.now_ms
    w.advance(0)

    assert [len(member.fetches) for member in members] == [5, 5]


def test_the_handlers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose groups use a portion up works last in the next one: nobody waits for it for ever."""
    w = elected(settings=Settings(request_handlers=2))
    for name in [*groups_of(w, 0, 2), *groups_of(w, 1, 2)]:
        w.register("c", group=name)
    w.advance(100)
    rebalancer, begun = w.core.rebalancer, list[int]()
    begin = rebalancer.rebalance

    def noted(group: Group) -> None:
        begun.append(rebalancer.handler_of(group))
        begin(group)

    monkeypatch.setattr(rebalancer, "rebalance", noted)
    monkeypatch.setattr(planner, "PORTION", 1)
    w.advance(2_000)  # whatever was left of the last portion is

    w.topic("t", 5)
    while len(begun) < 4:
        w.open()  # other events come in between, and begin with nothing
        w.give(Tick())

    assert begun[:4] in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_the_owners_of_many_partitions_are_written_by_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No transaction has more paths than may be at once; the last one makes them valid."""
    monkeypatch.setattr(store, "AT_ONCE", 3)
    w = elected(8)
    member = w.register("c")
    written = [
        sum(part.path.startswith(PATHS.owners_of(GROUP, "t") + "/") for part in multi.operations)
        for multi in w.asked
        if isinstance(multi, Multi)
    ]

    assert [count for count in written if count] == [3, 3, 2]
    assert len(w.owners()) == len(member.fetches) == 8
    assert b'"owners_parts": 3' in (w.stored(PATHS.group(GROUP)) or b"")


def test_very_many_questions_are_made_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the offsets of many partitions only so many are asked for as an event has room for."""
    monkeypatch.setattr(outbox, "FULL", 10)
    w = elected(60)
    w.advance(100)
    w.hold()
    member = w.register("c")
    most = 0
    while w.held:
        w.release()
        most = max(most, len(w.core.outbox.asked))
        w.advance(0)

    assert most < 60
    w.release_all()
    w.advance(100)
    assert len(member.fetches) == 60


@pytest.mark.parametrize("change", ["a member", "a topic"])
def test_a_plan_is_made_anew_once_something_has_changed(change: str) -> None:
    """What has changed since the Stops is in the owners that are written first, and only that."""
    w = elected(4)
    first, second = w.register("a"), w.register("b")
    w.advance(100)
    slow = w.register("slow", mute=True)
    assert phase(w) is Phase.STOPPING
    planner, group = w.core.rebalancer.planner, w.core.groups[GROUP]
    assert planner.plan(group) is planner.plan(group)
    before = w.generation()

    if change == "a member":
        w.close(second)
    else:
        w.topic("t", 6)
    w.speak(slow)
    w.advance(0)

    assert settled(w, *((first, slow) if change == "a member" else (first, second, slow)))
    assert w.generation() == before + 1
