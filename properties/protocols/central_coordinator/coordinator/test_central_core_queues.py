"""
What waits in the coordinator's core: timers in the purgatory, groups with their request handlers.

Each check is here since a mutant slipped through without it (`replaced_watchers_fire`,
`two_handlers`: see `central_mutants.py`).

References: PROTOCOLS.md, section B (rebalanceRequestQ, request expiry).
"""

from __future__ import annotations

from functools import partial

from herdproof.protocols.central_coordinator.coordinator.groups import Group
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.wire.messages import Stop
from herdproof.shells.expiry import Purgatory
from properties.protocols.central_coordinator.coordinator.core_world import GROUP, elected, sent


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
