"""A member of the draft among corrected ones; and a topic whose partitions are shared out."""

from __future__ import annotations

import pytest

from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.self_rebalancing.variants.mixed import MIXED, OWED_TO_NOBODY, MixedGroup
from herdspec.protocols.self_rebalancing.variants.one_topic import ONE_TOPIC

OWED = {
    "exclusive_among_corrected", "fenced_among_corrected", "only_the_old_delete",
    "only_finished_is_committed", "nobody_is_past_the_unfinished", "corrected_ones_settle",
}  # fmt: skip
"""What is kept with two members, whatever the old one does."""


def explored(spec: Specification, members: int, partitions: int, faults: int) -> Exploration:
    """A group at this size."""
    return explore(spec, {"Member": members, "Partition": partitions}, faults=faults, bound=8)


def ends(found: Exploration) -> dict[str, tuple[int, str]]:
    """How long each story is, and its last action."""
    stories = found.violations.items()
    return {name: (len(s.steps), s.steps[-1].action.name) for name, s in stories}


# ── One member keeps to the draft ───────────────────────────────────────────────────────────


def test_what_fails_is_declared() -> None:
    """One may pull beside the old one, and offsets go back; that is all."""
    found = explored(MIXED, 2, 1, 1)
    declared = {n: (f.steps, f.last) for n, f in OWED_TO_NOBODY.items() if n != "settles"}

    assert ends(found) == declared
    assert found.complete
    assert all(found.taken.values())


def test_what_is_owed_is_asked() -> None:
    """What is kept, and what is not, is all that is asked."""
    assert {p.name for p in MIXED.properties} == OWED | {*OWED_TO_NOBODY}


def test_the_corrected_ones_settle_and_the_group_does_not() -> None:
    """The old one loses wake-ups; the others rest, or wait for its node."""
    found = liveness(MIXED, {"Member": 2, "Partition": 1}, faults=1, bound=8)
    shown = {n: (len(s.steps), s.steps[-1].action.name) for n, s in found.violations.items()}

    assert shown == {"settles": (11, "renew_watches")}
    assert not found.undecided


def without_a_look(self: MixedGroup, m: Member, p: Partition) -> bool:
    """Who is not old checks the partition's version alone."""
    if self.old[m]:
        return self.registry[m, p]
    return self.holds(m, p)


def test_a_version_that_not_everybody_raises_is_no_fence_for_a_release() -> None:
    """A corrected member has to look whose the node is."""
    found = explored(MIXED.replace("WithoutALook", may_release=without_a_look), 2, 1, 1)

    assert ends(found)["only_the_old_delete"] == (21, "release")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_with_three_members_two_corrected_ones_may_pull_from_one_partition() -> None:
    """The old one deletes the first one's node, and the second one claims."""
    found = explored(MIXED, 3, 1, 1)

    assert ends(found)["exclusive_among_corrected"] == (34, "start_fetchers")
    assert "fenced_among_corrected" not in found.violations
    assert "only_finished_is_committed" not in found.violations
    assert found.complete


# ── All partitions are of one topic ─────────────────────────────────────────────────────────


def test_a_topic_is_shared_out() -> None:
    """Two members exchange two partitions, each waits for the other's node, and all is kept."""
    found = explored(ONE_TOPIC, 2, 2, 1)

    assert (found.states, found.complete, found.deadlock) == (171_712, True, None)
    assert not found.violations


def test_a_shared_topic_settles() -> None:
    """Nobody waits for ever for who waits for it."""
    found = liveness(ONE_TOPIC, {"Member": 2, "Partition": 2}, faults=1, bound=8)

    assert not found.violations
    assert not found.undecided
