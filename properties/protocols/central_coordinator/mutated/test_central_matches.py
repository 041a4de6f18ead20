"""
Topics and subscriptions, matched in portions: what is known of them, and what is assumed till then.

Drawn mistakes of the cores (`mutated/`) had gone unnoticed here.
"""

from __future__ import annotations

import pytest

from herdproof.consuming.subscription import Subscription, parse
from herdproof.protocols.central_coordinator.coordinator.rebalancing.matches import (
    MANY,
    PORTION,
    Matches,
)

RIGHT = parse("*3*right.*")
LEFT = parse("*1*left")
LONG = [f"right-{number}-{'x' * PORTION}" for number in range(3)]
"""Each is more than a portion by itself."""


class Told:
    """Matches in a test's hand, and who was told that something is matched."""

    def __init__(self) -> None:
        self.matches = Matches()
        self.done: list[str] = []

    def add(self, *topics: str) -> None:
        """Topics appear."""
        for topic in topics:
            self.matches.add(topic, lambda topic=topic: self.done.append(topic))  # type: ignore[misc]

    def hold(self, subscription: Subscription) -> None:
        """Somebody subscribes."""
        self.matches.hold(subscription, lambda: self.done.append(subscription.text()))


def test_only_what_is_not_matched_yet_is_assumed_to_be_wanted() -> None:
    """Of a topic that nobody has heard of, and for a subscription that nobody holds."""
    told = Told()
    told.add("left", "right", "left-again")
    told.hold(RIGHT)

    wants = told.matches.wants
    assert [wants(RIGHT, topic) for topic in ("left", "right", "left-again")] == [0, 1, 0]
    assert wants(RIGHT, "unheard of")
    assert wants(parse("*1*other"), "left")


def test_what_is_matched_is_told_at_once_and_once() -> None:
    """A portion has room for a few; what is known already needs none."""
    told = Told()

    told.hold(RIGHT)
    told.hold(LEFT)
    told.add("left", "right", "right")

    assert told.done == [RIGHT.text(), LEFT.text(), "left", "right", "right"]
    assert not told.matches.is_busy()
    assert told.matches.topics == {"left": 0, "right": 1}
    assert [told.matches.wants(RIGHT, t) for t in ("left", "right")] == [False, True]
    assert [told.matches.wants(LEFT, t) for t in ("left", "right")] == [True, False]
    assert [*told.matches.columns((RIGHT, LEFT), ("left", "right"))] == [(0, 1), (3, 0)]


def test_a_portion_holds_nobody_up() -> None:
    """One topic that is long fills a portion: the next ones are each a tick's."""
    told = Told()
    told.hold(RIGHT)
    told.add(*LONG[:2])
    assert told.matches.is_busy()
    told.add(LONG[2])

    assert told.done == [RIGHT.text(), LONG[0]]
    assert told.matches.wants(RIGHT, LONG[2])
    assert [*told.matches.columns((RIGHT,), LONG)] == [(3,)] * 3
    told.matches.run()
    assert told.matches.is_busy()
    assert told.matches.wants(RIGHT, LONG[2])
    told.matches.run()

    assert told.done[2:] == LONG[1:]
    assert not told.matches.is_busy()


@pytest.mark.parametrize(("more", "matched"), [(-1, 2), (0, 2), (1, 3)])
def test_a_portion_is_taken_to_its_end_and_no_further(more: int, matched: int) -> None:
    """What begins within it is matched, if only its first step is; what would begin after waits."""
    told, topics = Told(), ["right-0", "right-1", "right-2", "right-3"]
    told.hold(RIGHT)
    told.matches._left = 2 * RIGHT.steps(topics[0]) + more

    told.add(*topics)

    assert told.done == [RIGHT.text(), *topics[:matched]]


@pytest.mark.parametrize("names", [1, MANY - 1, MANY, MANY + 1])
def test_columns_are_what_each_subscription_says(names: int) -> None:
    """
    By the row that is kept of it, or by itself where it has none, or not yet a whole one.

    They are asked for in any order, and not all.
    """
    many = parse("{" + ", ".join(f'"t{number}": {number + 1}' for number in range(names)) + "}")
    others = (parse("*2*t1.*"), parse("!4!t.*"), many)
    topics = [f"t{number}" for number in range(1, MANY + 2)] + ["else"]
    told = Told()
    told.hold(others[0])
    told.add(*topics)
    told.hold(many)

    for some in (topics, topics[::-2]):
        found = [*told.matches.columns(others, some)]

        assert found == [tuple(other.streams(topic) for other in others) for topic in some]
    assert (many in told.matches.rows) is (names >= MANY)


def test_a_row_is_kept_as_long_as_somebody_subscribes_so() -> None:
    """Of two, one may go; after the other one nothing is known of it."""
    told = Told()
    told.add("right")
    told.hold(RIGHT)
    told.hold(RIGHT)

    told.matches.drop(RIGHT)
    assert RIGHT in told.matches.rows
    told.matches.drop(RIGHT)

    assert RIGHT not in told.matches.rows
    told.matches.drop(parse('{"right": 1}'))
    assert not told.matches._held  # few topics have no row
    told.hold(RIGHT)
    assert told.matches.wants(RIGHT, "right")


def test_who_goes_before_it_is_matched_holds_nobody_up() -> None:
    """Its row is gone; what others have asked for meanwhile goes on."""
    told = Told()
    told.add(*LONG)
    told.hold(RIGHT)
    told.hold(parse("*1*z"))
    assert len(told.done) == len(LONG)

    told.matches.drop(RIGHT)
    told.matches.run()

    assert told.done[len(LONG) :] == [RIGHT.text()]
    told.matches.run()
    told.matches.run()
    told.matches.run()
    assert not told.matches.is_busy()


def test_nothing_is_known_afterwards() -> None:
    """Who leads no more has forgotten topics, rows, and what was to be told."""
    told = Told()
    told.hold(RIGHT)
    told.add(*LONG)

    told.matches.clear()
    told.matches.run()

    assert told.done == [RIGHT.text(), LONG[0]]
    assert not told.matches.is_busy()
    assert told.matches.wants(RIGHT, "left")
    told.add("left")
    told.hold(RIGHT)
    assert told.matches.topics == {"left": 0}
    assert not told.matches.wants(RIGHT, "left")
    told.matches.drop(RIGHT)
    assert not told.matches.rows
