"""
A coordinator says how long which partitions have no reader, and what it waits for.

Reference: docs/coordinator.md, "Partitions without a reader".
"""

from __future__ import annotations

import pytest

from herdproof.protocols.central_coordinator.coordinator.groups import Group
from herdproof.protocols.central_coordinator.events import Report
from herdproof.protocols.central_coordinator.reports import VOCABULARY, What
from herdproof.protocols.central_coordinator.server.metrics import GROUPS, Metrics
from properties.protocols.central_coordinator.coordinator.core_world import (
    LEASE_MS,
    elected,
    settled,
)


def test_a_lease_is_waited_for_with_a_sentence() -> None:
    """Who is waited for, and how long is left; then how long which partitions had no reader."""
    w = elected()
    a, b = w.register("a"), w.register("b")
    assert settled(w, a, b)
    w.reports.clear()

    w.close(b)
    b.fetches = {}
    [waits] = w.told(What.REBALANCE_WAITS)
    w.advance(LEASE_MS)

    assert settled(w, a)
    assert (waits["who"], waits["left_ms"], waits["partitions"]) == ("1-2", LEASE_MS, 2)
    said = VOCABULARY.sentence(What.REBALANCE_WAITS, {"group": "g", **waits})
    waited = "group g waits for the lease of consumer b (1-2), 5.2 s left"
    assert said == f"{waited}; without a reader: 2 partitions"
    [again] = w.told(What.READ_AGAIN)
    assert (again["ms"], again["partitions"]) == (LEASE_MS, 2)
    assert "lease 5.2 s" in str(again["causes"])
    assert str(again["of"]).count("t-") == 2
    assert {r["why"]: r["ms"] for r in w.told(What.UNREAD)}["lease"] == LEASE_MS
    [done] = w.told(What.REBALANCE_DONE)
    assert (done["ms"], done["whole_ms"]) == (0, LEASE_MS)


@pytest.mark.parametrize(("owners", "more"), [(1, ""), (2, ", and 1 more"), (3, ", and 2 more")])
def test_of_many_leases_one_is_named_and_the_others_are_counted(owners: int, more: str) -> None:
    """Owners of before the election whom nobody has heard of since."""
    w = elected()
    for name in "abc"[:owners]:
        w.register(name)
    w.depose()
    w.elect()

    w.register("z")

    [waits] = w.told(What.REBALANCE_WAITS)
    assert str(waits["why"]).endswith(f"s left{more}")


def test_who_leaves_is_not_waited_for() -> None:
    """A member that had nothing to read, or says goodbye, makes nobody wait."""
    w = elected(partitions=1)
    a, b = w.register("a"), w.register("b")
    w.reports.clear()

    w.close(b if not b.fetches else a)

    assert w.told(What.REBALANCE_WAITS) == []


def test_a_member_that_does_not_answer_its_stop_is_named_as_the_cause() -> None:
    """The others have stopped, and nobody reads anything until it has answered."""
    w = elected()
    a = w.register("a")
    w.reports.clear()
    a.mute = True
    b = w.register("b")
    w.advance(700)

    w.speak(a)

    assert settled(w, a, b)
    assert {r["why"]: r["ms"] for r in w.told(What.UNREAD)}["stop"] == 700


def test_the_metrics_have_a_bounded_number_of_groups() -> None:
    """Who can name groups cannot make the figures grow without end."""
    metrics = Metrics()
    for number in range(GROUPS + 5):
        metrics.reported(Report(What.UNREAD, f"g{number}", (("why", "lease"), ("ms", 4_200))))

    value = metrics.registry.get_sample_value
    assert value("herdproof_unread_seconds_total", {"group": "g7", "why": "lease"}) == 4.2
    assert value("herdproof_unread_seconds_total", {"group": "", "why": "lease"}) == 21.0


def test_the_metrics_tell_how_single_groups_are() -> None:
    """Members, generation and phase, as the core has them; of a group that is gone, nothing."""
    w = elected()
    metrics = Metrics()
    metrics.group_states.groups = w.core.groups
    a = w.register("a")
    assert settled(w, a)
    metrics.reported(Report(What.MEMBER_JOINED, "g"))
    value = metrics.registry.get_sample_value

    assert value("herdproof_group_members", {"group": "g"}) == 1
    assert value("herdproof_group_generation", {"group": "g"}) == w.core.groups["g"].generation
    assert value("herdproof_group_phase", {"group": "g", "phase": "idle"}) == 1

    a.mute = True
    w.register("b")
    w.advance(700)

    assert value("herdproof_group_members", {"group": "g"}) == 2
    assert value("herdproof_group_phase", {"group": "g", "phase": "stopping"}) == 1
    assert value("herdproof_group_phase", {"group": "g", "phase": "idle"}) is None


def test_a_bounded_number_of_groups_has_a_state_of_its_own() -> None:
    """A stranger who joins one new group after the other adds no series any more."""
    metrics = Metrics()
    groups = {f"g{number}": Group(f"g{number}") for number in range(GROUPS + 5)}
    metrics.group_states.groups = groups
    for name in groups:
        metrics.reported(Report(What.MEMBER_JOINED, name))

    told = [family.samples for family in metrics.group_states.collect()]

    assert [len(samples) for samples in told] == [GROUPS] * 3
