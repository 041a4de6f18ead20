"""Proofs over any order of naturals, and warnings of what z3 may not decide."""

from __future__ import annotations

from typing import Annotated

import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    UpTo,
    UsageError,
    action,
    always,
    each,
    lemma,
    specification,
    step,
)
from herdspec.check.proof.prove import prove
from properties.check.proof.test_prove import failed
from properties.specs import LOCK_SERVER


class Site(Sort):
    """Somewhere."""


class Peer(Sort):
    """Somebody."""


# ── Naturals as an abstract order ───────────────────────────────────────────────────────────


class Clock(Spec):
    """Two numbers, of which one follows the other."""

    now: Nat = 0
    seen: Nat = 0

    @action
    def tick(self) -> None:
        """It ticks."""
        self.now = self.now + 1

    @action
    def look(self) -> None:
        """Somebody looks."""
        self.seen = self.now


@always
def seen_is_past(s: Clock) -> bool:
    """What was seen has been."""
    return s.seen <= s.now


@step
def what_is_later_is_one_later(before: Clock, after: Clock) -> bool:
    """There is nothing between a number and the next."""
    return not (before.now < after.now and before.seen > before.now) or after.now <= before.seen


def test_what_only_compares_is_proved_of_any_order() -> None:
    """An invariant that only compares holds of any total order, and so of naturals."""
    spec = specification(Clock, seen_is_past)

    assert prove(spec, order=True).proved
    assert prove(spec).proved


@always
def neither_is_less_is_the_same(s: Clock) -> bool:
    """Two numbers of which neither is less are one."""
    return s.now < s.seen or s.seen < s.now or s.now == s.seen


def test_the_order_is_total_and_of_different_numbers() -> None:
    """Of two numbers one is less, or they are the same, in any order too."""
    assert prove(specification(Clock, neither_is_less_is_the_same), order=True).proved


def test_what_needs_arithmetic_is_not_proved_of_any_order() -> None:
    """That nothing lies between a number and the next is true of naturals only."""
    spec = specification(Clock, what_is_later_is_one_later)

    assert prove(spec).proved
    proof = prove(spec, order=True)
    (only,) = failed(proof)
    shown = only.counterexample
    assert proof.order
    assert shown is not None
    assert int(shown.before["now"]) < int(shown.before["seen"]) < int(shown.after["now"])


def test_sums_have_no_meaning_in_an_abstract_order() -> None:
    """A spec that adds two numbers is refused, with what to do instead."""

    @always
    def together(s: Clock) -> bool:
        """Both together are at most twice the time."""
        return s.now + s.seen <= s.now + s.now

    assert prove(specification(Clock, seen_is_past, together)).proved
    with pytest.raises(UsageError, match="prove it without --abstract-order"):
        prove(specification(Clock, together), order=True)


# ── Warnings ────────────────────────────────────────────────────────────────────────────────


class Shelf(Spec):
    """Every site has a peer, and every peer a site."""

    of: dict[Site, Peer | None] = each(None)
    slots: dict[Annotated[Nat, UpTo(2)], bool] = each(False)

    @action
    def put(self, s: Site, p: Peer) -> None:
        """{p} is at {s}."""
        self.of[s] = p


def test_quantifiers_that_alternate_in_a_cycle_are_warned_of() -> None:
    """A function one way and an alternation of quantifiers the other are a warning, with names."""

    @lemma
    def everybody_is_somewhere(s: Shelf) -> bool:
        """Every peer is at some site, once one is (not so)."""
        return all(any(s.of[x] == p for x in Site) for p in Peer)

    proof = prove(specification(Shelf, everybody_is_somewhere))
    cycle, numbers = proof.warnings

    assert "by everybody_is_somewhere, of" in cycle
    assert "Peer → Site" in cycle
    assert numbers.startswith("slots is a map from numbers")
    assert prove(LOCK_SERVER).warnings == ()


def test_an_abstract_order_does_not_count_far() -> None:
    """A numeral is a term and a fact for each step up to it: many are refused, and said."""

    class Far(Spec):
        """It is far."""

        n: Nat = 0

        @action
        def leap(self) -> None:
            """Far."""
            self.n = 65_536

    @always
    def not_beyond(s: Far) -> bool:
        """Not beyond."""
        return s.n <= 65_536

    with pytest.raises(UsageError, match="counts to 100 at most, not to 65536"):
        prove(specification(Far, not_beyond), order=True)
