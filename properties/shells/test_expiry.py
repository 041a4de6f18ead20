"""What happens at a time: in order, not too much at once, and never after it was cleared."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.protocols.central_coordinator.events import Closed, Tick, WakeAt
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.shells import expiry
from herdproof.shells.expiry import AT_ONCE, Purgatory
from properties.protocols.central_coordinator.coordinator.core_world import LEASE_MS, World, elected

CROWD = 2 * AT_ONCE + 88
LEASES = 40
PATIENT = Settings(leadership_lease_ms=60_000)
"""Of one that is not taken for paused when its clock is put forward."""


def test_no_more_expires_in_one_go_than_is_bearable() -> None:
    """The rest stays due: who asks when to come back is told a time that is over."""
    purgatory = Purgatory()
    expired: list[int] = []
    for number in range(CROWD):
        purgatory.watch(("crowd", number), number, partial(expired.append, number))

    purgatory.expire(10_000)
    assert expired == list(range(AT_ONCE))
    assert purgatory.due() == AT_ONCE
    purgatory.expire(10_000)
    purgatory.expire(10_000)

    assert expired == list(range(CROWD))
    assert purgatory.due() is None


def test_what_is_cleared_while_the_rest_waits_never_happens() -> None:
    """An answer that came between two portions still counts."""
    purgatory = Purgatory()
    expired: list[int] = []
    for number in range(CROWD):
        purgatory.watch(("crowd", number), 0, partial(expired.append, number))

    purgatory.expire(0)
    for number in range(AT_ONCE, CROWD - 1):
        purgatory.clear(("crowd", number))
    purgatory.expire(0)

    assert expired == [*range(AT_ONCE), CROWD - 1]


def test_one_that_waits_anew_for_now_holds_nobody_up() -> None:
    """Whoever sets its watcher again and again has its turn, and so has everybody else."""
    purgatory = Purgatory()
    turns: Counter[str] = Counter()

    def again() -> None:
        turns["again"] += 1
        purgatory.watch(("again", 0), 5, again)

    purgatory.watch(("again", 0), 5, again)
    purgatory.watch(("other", 0), 5, lambda: turns.update(["other"]))
    purgatory.expire(5)

    assert turns == {"again": AT_ONCE - 1, "other": 1}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=40), st.integers(0, 50))
def test_exactly_what_is_due_happens_in_order(watched: list[tuple[int, int]], now_ms: int) -> None:
    """Of each key the last watcher counts; what is due comes by its time, the rest later."""
    purgatory = Purgatory()
    expired: list[int] = []
    for key, due_ms in watched:
        purgatory.watch(("key", key), due_ms, partial(expired.append, due_ms))
    last = dict(watched)

    purgatory.expire(now_ms)

    assert expired == sorted(due for due in last.values() if due <= now_ms)
    later = [due for due in last.values() if due > now_ms]
    assert purgatory.due() == min(later, default=None)


# ── In the coordinator ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many watchers expire in one event, where a crowd of hundreds would take a test long."""
    monkeypatch.setattr(expiry, "AT_ONCE", 16)
    return 16


def bereft() -> World:
    """
    A coordinator of some consumers, each in a group of its own, whose connections all broke.

    Their leases have just ended.
    """
    w = elected(1, settings=PATIENT)
    for consumer in [w.register("a", group=f"g{number}") for number in range(LEASES)]:
        w.give(Closed(consumer.channel))
    w.now_ms += LEASE_MS + 100
    return w


def test_leases_that_end_together_are_dealt_with_in_portions(few: int) -> None:
    """Each event ends a bounded number of them, and asks to be woken at once for the rest."""
    w = bereft()
    ended = []
    for _ in range(4):
        before = len(w.told("lease_over"))
        effects = w.give(Tick())
        ended.append(len(w.told("lease_over")) - before)
        wakes = [effect.time_ms for effect in effects if isinstance(effect, WakeAt)]
        if sum(ended) < LEASES:
            assert wakes, "it asks to be woken for the rest"
            assert wakes[-1] <= w.now_ms

    assert max(ended) <= few
    assert sum(ended) == LEASES


@pytest.mark.usefixtures("few")
def test_between_two_portions_others_have_their_turn() -> None:
    """A consumer that registers while hundreds of leases end is answered in between."""
    w = bereft()
    w.give(Tick())
    assert len(w.told("lease_over")) < LEASES

    newcomer = w.register("b", group="quiet")

    assert len(w.told("lease_over")) < LEASES
    assert newcomer.fetches == {("t", "0"): 0}


@pytest.mark.usefixtures("few")
def test_what_is_overdue_is_asked_for_once() -> None:
    """Events that come before the tick don't put it off, as a shell replaces its one alarm."""
    w = bereft()
    w.give(Tick())

    before = len(w.effects)
    for _ in range(9):
        w.open()
    assert not [effect for effect in w.effects[before:] if isinstance(effect, WakeAt)]

    assert [e for e in w.give(Tick()) if isinstance(e, WakeAt)]
