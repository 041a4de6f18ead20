"""How long something stands still is counted by who was awake."""

from __future__ import annotations

from herdproof.consuming.fetching.standstill import Standstill


class Look:
    """A standstill that is looked at every now and then."""

    def __init__(self) -> None:
        self.now = 100.0
        self.standstill = Standstill(2.0, lambda: self.now)

    def after(self, seconds: float, like: int) -> float:
        """How long it has lasted, so much later."""
        self.now += seconds
        return self.standstill.lasts_s(like)


def test_what_changes_does_not_stand_still() -> None:
    """Each change begins anew."""
    look = Look()

    assert [look.after(1, like) for like in (1, 1, 1, 2, 2, 1)] == [0, 1, 2, 0, 1, 0]


def test_who_was_paused_has_seen_nothing() -> None:
    """An hour between two looks counts as the most that may lie there."""
    look = Look()
    look.after(0, 1)

    assert look.after(3_600, 1) == 2
    assert look.after(1, 1) == 3
