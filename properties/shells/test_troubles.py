"""Troubles: loud at once, ever more seldom while they last, and once more when they are over."""

from __future__ import annotations

import logging
import threading
from itertools import pairwise

import pytest

from herdproof.troubles import FIRST_WAIT_S, LONGEST_WAIT_S, Troubles

PATIENCE_S = 10.0


class PlayedClock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now


@pytest.fixture
def clock() -> PlayedClock:
    """A clock that stands."""
    return PlayedClock()


@pytest.fixture
def troubles(clock: PlayedClock, caplog: pytest.LogCaptureFixture) -> Troubles:
    """Troubles that somebody has with it."""
    caplog.set_level(logging.WARNING)
    return Troubles(logging.getLogger("test"), "c: ", clock)


def test_what_lasts_is_told_at_once_and_ever_more_seldom(
    troubles: Troubles, clock: PlayedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An hour of it, noticed every half second, is a page of a log; it never falls silent."""
    loud_at = []
    for tick in range(7_200):
        before = len(caplog.messages)
        troubles.tell("door", f"the door is shut ({tick})")
        loud_at += [tick / 2] * (len(caplog.messages) - before)
        clock.now += 0.5

    waits = [after - before for before, after in pairwise(loud_at)]
    assert loud_at[0] == 0
    assert waits[:4] == [FIRST_WAIT_S, 4.0, 8.0, 16.0]
    assert waits[-1] == max(waits) == LONGEST_WAIT_S
    assert caplog.messages[:2] == ["c: the door is shut (0)", "c: the door is shut (4) (for 2 s)"]
    assert troubles.present == ("the door is shut (7199)",)


def test_that_it_is_over_is_told_once_if_it_was_told(
    troubles: Troubles, clock: PlayedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that belong to it are over with it; what was no trouble is not mentioned."""
    troubles.mend("door", "the door is open")
    troubles.tell("door front", "the front door is shut")
    troubles.tell("doorbell", "the bell is broken")
    clock.now += 3
    troubles.mend("door", "the doors are open")
    troubles.mend("door", "the doors are open")

    assert caplog.messages[2:] == ["c: recovered after 3.0 s: the doors are open"]
    assert troubles.present == ("the bell is broken",)


def test_what_just_happens_is_no_trouble_at_present(
    troubles: Troubles, clock: PlayedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is limited in rate as others are; after a quiet while it is news again."""
    for _ in range(100):
        troubles.tell("knock", "somebody knocked", lasts=False)
    clock.now += LONGEST_WAIT_S + 1
    troubles.tell("knock", "somebody knocked", lasts=False)

    assert troubles.present == ()
    assert caplog.messages == ["c: somebody knocked"] * 2


def test_what_is_over_before_its_reason_is_known_is_not_told(
    troubles: Troubles, caplog: pytest.LogCaptureFixture
) -> None:
    """A reason that takes a while is found out beside, once, and may come too late."""
    goes_on, asked = threading.Event(), []

    def find_out() -> str:
        asked.append(1)
        goes_on.wait(PATIENCE_S)
        return "the door is shut: no key"

    before = threading.active_count()
    troubles.tell_why("door", find_out)
    troubles.tell_why("door", find_out)
    troubles.mend("door", "it is open")
    goes_on.set()
    while threading.active_count() > before:
        pass

    assert (len(asked), caplog.messages, troubles.present) == (1, [], ())
