"""Code that is led on from states of the solver, to what its `load` cannot make."""

from __future__ import annotations

from herdproof.conformance.solver.solved import solved
from herdspec import always
from properties.conformance.leases import LEASE, Client, Lease, Leases, Wish


@always
def nobody_has_anything(s: Lease) -> bool:
    """Nobody has the lease, waits for it, or has a number."""
    return s.holder is None and all(s.wish[c] == Wish.NONE and s.token[c] == 0 for c in Client)


class LedLeases(Leases):
    """Cannot be put where anybody has anything."""

    loadable = nobody_has_anything


class LedUnfenced(LedLeases):
    """It takes every write."""

    flaws = ("no_fence",)


def test_code_is_led_on_from_where_it_was_put() -> None:
    """Where nobody could be put, each case of the protocol's own steps has its states."""
    found = solved(LEASE, LedLeases, Client=3, most=3, looking=0, settling=600)

    assert found.standing == "agrees", "\n".join(found.lines)
    led = {t.case.action.name for t in found.tallies if t.led and not t.loaded}
    assert led >= {"grant", "expire", "give_back", "write"}


def test_what_goes_wrong_on_the_way_is_told_with_its_story() -> None:
    """A difference in a state that no `load` makes is shortened, and a run is found to one."""
    found = solved(LEASE, LedUnfenced, Client=3, most=3, looking=0, settling=600)

    assert found.differences, "\n".join(found.lines)
    (question,) = found.differences
    assert question.case.action.name == "write"
    assert question.deeds[-1].name == "write"
    assert question.story is not None
