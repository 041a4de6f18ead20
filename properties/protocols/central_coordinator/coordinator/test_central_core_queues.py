"""
What waits in the coordinator's core: timers in the purgatory, groups with their request handlers,
and what is left for a later event, since no event may lead to too much.

Some checks are here since a mutant slipped through without them (`replaced_watchers_fire`,
`two_handlers`: see `central_mutants.py`).

References: PROTOCOLS.md, section B (rebalanceRequestQ, request expiry).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from herdproof.protocols.central_coordinator.coordinator import coordinator, outbox, pings, store
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Phase
from herdproof.protocols.central_coordinator.coordinator.rebalancing import rebalance
from herdproof.protocols.central_coordinator.events import (
    Close,
    CoordinatorEffect,
    CoordinatorEvent,
    Send,
)
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import Ping, Stop
from herdproof.shells.expiry import Purgatory
from herdproof.zookeeper.operations import Multi
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
