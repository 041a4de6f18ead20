"""Mistakes in what forms of the group protocol do otherwise: they are noticed, or have a reason."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from herdspec.check.exploration.explore import explore
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.mutation.mutate import Bounds, InTurn, failing
from herdspec.protocols.group_protocol import accepted_mutants as why
from herdspec.protocols.group_protocol.plan import mistaken_forms

pytestmark = pytest.mark.xdist_group("mutate forms")  # their mutants are made once

FORMS = ("choice", "administered", "positions")
GUARDS = {
    "administered": {
        "commit_from_outside: skip `self.noted[p] = offset`": "what_comes_from_outside_is_taken",
        "commit_from_outside: skip `self.attends()`": "who_waits_for_a_write_hears_of_nothing",
        (
            "delete_group: drop `self.generation > 0 or "
            "any(self.committed[p] > 0 for p in Partition)`"
        ): "what_is_deleted_was_stored",
        "answer_deleted_group: skip `self.entry[m] = Entry.NONE`": (
            "of_a_deleted_group_nothing_is_known"
        ),
        "store_deleted_group: skip `self.stores(GroupWrite.DELETED_GROUP)`": (
            "generations_go_on_or_begin_anew"
        ),
        "forget_id: skip `self.at[m] = 0`": "a_client_is_of_a_piece",
        "end_future: `self.said_in[m] = 0` becomes `self.said_in[m] = 1`": (
            "a_life_goes_with_its_generation"
        ),
        "delete_group: drop `any(self.committed[p] > 0 for p in Partition)`": (
            "a_group_is_deleted_that_had_no_generation"
        ),
        "delete_group: `self.generation > 0` becomes `self.generation > 1`": (
            "a_group_is_deleted_after_its_first_generation"
        ),
        "is_subscribed: drop `self.interest[m, p]`": "an_offset_is_deleted_beside_a_member",
    },
    "choice": {
        "forget: skip `self.supports[m, a] = False`": "who_is_nobody_lists_nothing",
        "change_protocols: drop `self.knows[m]`": "who_changes_protocols_has_others",
        "remove: drop `was_member`": "other_protocols_are_a_reason",
    },
    "positions": {
        "drop_fetch: skip `self.told[m, p] = 0`": "what_is_under_way_is_of_a_piece",
        "note_unloaded: negate `self.fetch[m] == OffsetFetch.ASKED`": (
            "an_offset_fetch_goes_its_way"
        ),
        "deliver: drop `self.knows[m]`": "a_start_is_found_and_handed_out",
        "produce: skip `self.log_end[p] = self.log_end[p] + 1`": "a_record_is_produced",
        "consume: drop `self.log_start[p] <= self.position[m, p] < self.log_end[p]`": (
            "positions_go_on"
        ),
        "store_starts: drop `self.knows[m]`": "a_commit_is_of_what_one_has",
        "produce: `self.log_end[p] + 1` becomes `self.log_end[p] + 2`": "logs_go_on",
        "begun: negate `self.finished[p] == 0`": "what_is_finished_has_a_reason",
        "forget: skip `self.drop_fetch(m)`": "what_is_under_way_is_of_a_piece",
        (
            "consume: `self.log_start[p] <= self.position[m, p] < self.log_end[p]` becomes "
            "`self.log_start[p] < self.position[m, p] < self.log_end[p]`"
        ): "the_first_record_is_consumed",
        "report_out_of_range: negate `not self.has_failed[m]`": (
            "a_user_is_told_that_its_place_is_gone"
        ),
        (
            "resolve_start: `self.position[m, p] < self.log_start[p]` becomes "
            "`self.position[m, p] <= self.log_start[p]`"
        ): "a_start_is_found_and_handed_out",
    },
}  # fmt: skip
"""Of each form a mistake for each property that is watched, which notices it."""


@cache
def made(name: str) -> list[Mutant]:
    """All mutants of a form, in the text's order."""
    return mutants(mistaken_forms()[name].spec)


@cache
def own(name: str) -> dict[str, int]:
    """The numbers of the mutants of what a form does otherwise, by their ids."""
    return {m.id: k for k, m in enumerate(made(name)) if m.file.endswith(f"/{name}/spec.py")}


# ── What is quick ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FORMS)
def test_what_is_watched_of_a_form_holds(name: str) -> None:
    """Nothing that mistakes are noticed by fails of the form as it stands."""
    at = mistaken_forms()[name]
    found = explore(at.spec, at.sizes, faults=at.faults, bound=at.bound)

    assert not found.violations
    assert found.complete
    assert not {*GUARDS[name].values()} & {*found.missing}


@pytest.mark.parametrize(
    ("name", "mistake"), [(name, mistake) for name in FORMS for mistake in GUARDS[name]]
)
def test_a_mistake_in_a_form_is_noticed(name: str, mistake: str) -> None:
    """The property that is watched for its sake fails, which holds of the form as it stands."""
    at, promise = mistaken_forms()[name], GUARDS[name][mistake]
    alone = replace(at.spec, properties=(at.spec.promise(promise),))
    mutant = made(name)[own(name)[mistake]].of(alone)
    found = explore(mutant, at.sizes, faults=at.faults, bound=at.bound)

    assert [failed for failed, _ in failing(found)] == [promise]


@pytest.mark.parametrize("name", FORMS)
def test_every_reason_is_about_a_mutant_of_the_form(name: str) -> None:
    """Each accepted mistake is one that is judged, has a reason, and is not noticed above."""
    reasons = why.FORMS[name]

    assert {*reasons} <= {*own(name)}
    assert all(reasons.values())
    assert not {*reasons} & {*GUARDS[name]}


@pytest.mark.parametrize("name", FORMS)
def test_the_page_says_how_many_mistakes_of_a_form_are_judged(name: str) -> None:
    """The figures of docs/group_protocol.md are those of the spec and of the reasons."""
    page = (Path(__file__).parents[4] / "docs" / "group_protocol.md").read_text()
    row = re.search(rf"\| `{name}` \| (\d+) \| \d+ \| \d+ \| (\d+)", page)

    assert row is not None
    assert [int(n) for n in row.groups()] == [len(own(name)), len(why.FORMS[name])]


# ── What takes longer ───────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FORMS)
def test_no_mistake_of_a_form_is_left_without_a_reason(name: str) -> None:
    """With one member nothing survives, or is unknown, but for its reason; no reason is stale."""
    at = mistaken_forms()[name]
    judge = InTurn(at.spec, [Bounds(at.sizes, at.faults, at.bound)])
    fates = {id: judge.verdict(number).fate for id, number in own(name).items()}

    unnoticed = {id for id, fate in fates.items() if fate in ("survived", "unknown")}
    assert unnoticed == {*why.FORMS[name]}
