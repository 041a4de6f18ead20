"""
Runs of which not everything is told: nothing is violated that some completion explains.

What was not seen is unknown, and is said to be so; a gap is bridged by what is known before it and
after it, or leaves the promise unknown.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from herdspec import from_source
from herdspec.check.observation.clauses import clauses_of
from herdspec.check.observation.inconclusive import UNKNOWN, is_lost
from herdspec.check.observation.observed import Judgement, Observed, Ruling
from herdspec.check.observation.watches import watches_of
from herdspec.language.errors import UsageError
from herdspec.language.surface import Expectation, Spec
from herdspec.protocols.contract.properties import CONTRACT
from properties.check.observation.observations import (
    Slots,
    domains,
    initial,
    judged,
    machine_of,
    observed,
    parts,
    stepped,
    watches,
)

MEMBERS_OWN = ("consumes", "position", "heeded", "interest", "told")
COORDINATORS_OWN = (
    "known", "live", "informed", "stage", "generation", "owner", "accepted", "storing", "committed",
)  # fmt: skip


@cache
def run_of(seed: int, steps: int = 150) -> tuple[Slots, ...]:
    """States of the contract, one step apart; each action is as likely as any other."""
    chance, made = Random(seed), machine_of("contract")
    now = made.initial()
    states = [slots_of(now)]
    choices = made.choices
    names = sorted({action.name for action, _ in choices})
    while len(states) <= steps:
        wanted = chance.choice(names)
        for action, arguments in chance.sample(choices, len(choices)):
            after = made.take(now, wanted, arguments) if action.name == wanted else None
            if after is not None:
                now = after
                states.append(slots_of(now))
                break
    return tuple(states)


def slots_of(made: Spec) -> Slots:
    """Its entries."""
    return {
        (field, key): getattr(made, field) if key == () else getattr(made, field)[key]
        for field, key in domains("contract")
    }


def changes(before: Slots, after: Slots) -> Slots:
    """What a step has changed."""
    return {entry: value for entry, value in after.items() if value != before[entry]}


def rulings(seen: Observed) -> set[Ruling]:
    """What came of all promises."""
    return {j.ruling for j in seen.judgements()}


def judgement(seen: Observed, name: str) -> Judgement:
    """What came of a promise."""
    return next(j for j in seen.judgements() if j.promise.name == name)


def taken(seen: Observed, *steps: Mapping[tuple[str, Any], Any]) -> list[str]:
    """What steps break."""
    found = []
    for step in steps:
        for entry, value in step.items():
            seen.set(*entry, value)
        found += [v.promise.name for v in stepped(seen)]
    return found


def pair(sort: str) -> list[Any]:
    """The two elements of a sort of the contract."""
    return machine_of("contract").elements(sort)


# ── Runs ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(8))
def test_of_a_run_that_is_told_in_full_everything_is_decided(seed: int) -> None:
    """Nothing is violated, nothing open: what has happened holds."""
    seen = observed("contract")
    for before, after in pairwise(run_of(seed)):
        assert taken(seen, changes(before, after)) == []
    assert {Ruling.HOLDS} <= rulings(seen) <= {Ruling.HOLDS, Ruling.NOT_OBSERVABLE}
    assert all(j.open == 0 for j in seen.judgements())


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_not_told_of_a_run_nothing_is_violated(seed: int) -> None:
    """Fields and elements that nobody sees for a while, or that leave: never a violation."""
    chance, seen = Random(seed), observed("contract")
    blind, left = set[tuple[str, Any]](), set[Any]()
    members = pair("Member")
    every = [(f, ()) for f in COORDINATORS_OWN] + [(f, (m,)) for f in MEMBERS_OWN for m in members]
    for before, after in pairwise(run_of(seed % 8)):
        gap = chance.choice(every)
        if chance.random() < 0.1 and gap not in blind:
            seen.blind(gap[0], *gap[1])
            blind.add(gap)
        for field, element in [*blind]:
            if chance.random() < 0.2:
                seen.sees(field, *element)
                blind.remove((field, element))
        if chance.random() < 0.02:
            left |= leave(seen, chance.choice(members))
        told = {e: v for e, v in changes(before, after).items() if e not in left}
        assert taken(seen, told) == [], (before, after)
        hidden = {e for e in after if any(hides(gap, e) for gap in blind)} | left
        for entry in chance.sample([*after], 12):
            if entry not in hidden:
                seen.refine(*entry, after[entry])
        assert stepped(seen) == []
    assert Ruling.VIOLATED not in rulings(seen)


def hides(gap: tuple[str, tuple[Any, ...]], entry: tuple[str, Any]) -> bool:
    """Whether an entry lies in a gap."""
    field, element = gap
    return entry[0] == field and (not element or parts(entry[1])[0] == element[0])


def leave(seen: Observed, member: Any) -> set[tuple[str, Any]]:
    """A member is heard no more, whatever it does; its entries."""
    own = {e for e in domains("contract") if e[0] in MEMBERS_OWN and parts(e[1])[0] == member}
    for entry in own:
        seen.leave(*entry)
    return own


@pytest.mark.parametrize("seed", range(20))
def test_what_is_broken_is_found_where_something_else_is_not_told(seed: int) -> None:
    """Of one partition nothing is told any more; another one is consumed twice: that is found."""
    seen, (silent, told) = observed("contract"), pair("Partition")
    for before, after in pairwise(run_of(seed % 8)[:60]):
        step = changes(before, after)
        for entry in step:
            if silent in parts(entry[1]):
                seen.forget(*entry)
        known = {e: v for e, v in step.items() if silent not in parts(e[1])}
        assert taken(seen, known) == []

    assert "exclusive" in taken(seen, {("consumes", (m, told)): True for m in pair("Member")})

    assert judgement(seen, "exclusive").ruling is Ruling.VIOLATED


def test_a_violation_says_of_whom() -> None:
    """Who consumes what together is told by the names that the promise has for them."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    assert "exclusive" not in taken(seen, {("consumes", (a, p)): True})

    seen.set("consumes", (b, p), True)

    (first, *_) = [v for v in stepped(seen) if v.promise.name == "exclusive"]
    assert first.of["p"] == p
    assert {first.of["a"], first.of["b"]} == {a, b}


# ── Gaps ────────────────────────────────────────────────────────────────────────────────────


def test_a_gap_is_bridged_by_a_step_that_is_allowed() -> None:
    """An epoch that was 1 before a gap is 3 after it: that holds, and says what is missing."""
    seen = observed("contract")
    assert taken(seen, {("epoch", ()): 1}) == []
    seen.gap(4, {"epoch"})
    seen.gap(7, {"stage"})
    seen.blind("epoch")
    assert judgement(seen, "epochs_never_go_back").ruling is Ruling.UNKNOWN

    seen.sees("epoch")
    seen.refine("epoch", (), 3)

    assert stepped(seen) == []
    found = judgement(seen, "epochs_never_go_back")
    assert (found.ruling, found.open) == (Ruling.HOLDS, 0)
    assert found.why == "4 lines are missing; before and after that it holds"


@pytest.mark.parametrize("how", ["refine", "set"])
def test_a_gap_that_no_step_bridges_leaves_it_unknown(how: str) -> None:
    """The epoch was 2 before a gap, and is 1 after it: not violated, but unknown from then on."""
    seen = observed("contract")
    taken(seen, {("epoch", ()): 2})
    seen.forget("epoch", ())

    getattr(seen, how)("epoch", (), 1)

    assert stepped(seen) == []
    assert judgement(seen, "epochs_never_go_back").ruling is Ruling.UNKNOWN
    assert taken(seen, {("epoch", ()): 5}) == []
    assert judgement(seen, "epochs_never_go_back").ruling is Ruling.UNKNOWN
    assert "need not follow" in judgement(seen, "epochs_never_go_back").why


@pytest.mark.parametrize(("generation", "ruling"), [(2, Ruling.HOLDS), (1, Ruling.UNKNOWN)])
def test_what_is_told_later_bridges_a_gap_or_not(generation: int, ruling: Ruling) -> None:
    """An owner that has changed in a gap is right once the generation is known to have, too."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    broker = pair("Broker")[0]
    taken(seen, {("term", broker): 1, ("epoch", ()): 1, ("author", ()): broker})
    assert taken(seen, {("generation", ()): 1, ("owner", p): a}) == []
    seen.forget("owner", p)
    seen.forget("generation", ())

    seen.refine("owner", p, b)
    assert stepped(seen) == []
    assert judgement(seen, "owners_change_with_the_generation").ruling is Ruling.UNKNOWN
    seen.refine("generation", (), generation)

    assert stepped(seen) == []
    assert judgement(seen, "owners_change_with_the_generation").ruling is ruling


def test_what_a_step_leaves_is_what_it_was_even_if_nobody_knows_it() -> None:
    """An entry that is unknown, and does not change, breaks no promise about steps."""
    seen, (a, b) = observed("contract"), pair("Member")
    seen.forget("heeded", a)
    seen.forget("generation", ())
    taken(seen, {("heeded", b): 1})
    for name in ("members_follow_no_older_epoch", "generations_never_go_back"):
        promise = next(p for p in judged("contract") if p.name == name)
        assert seen.status(promise) is True


def test_no_sort_is_empty() -> None:
    """A group of which no partition is seen may not be written to by nobody, either."""
    seen = Observed(watches("contract"))
    assert "only_the_present_epoch_writes" in taken(seen, {("generation", ()): 1})


def test_each_gap_is_held_against_what_was_known_before_it() -> None:
    """An epoch was 1, and 1 after a gap; then it was 5, and 4 after the next: that is a doubt."""
    seen = observed("contract")
    taken(seen, {("epoch", ()): 1})
    for before, after, ruling in ((1, 1, Ruling.HOLDS), (5, 4, Ruling.UNKNOWN)):
        taken(seen, {("epoch", ()): before})
        seen.forget("epoch", ())
        seen.refine("epoch", (), after)
        assert stepped(seen) == []
        assert judgement(seen, "epochs_never_go_back").ruling is ruling


def test_what_is_told_while_blind_is_not_believed() -> None:
    """Others may tell of what nobody sees: it is unknown, and a change all the same."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    taken(seen, {("generation", ()): 1, ("owner", p): a})
    seen.blind("generation")
    name = "owners_change_with_the_generation"

    assert name not in taken(seen, {("generation", ()): 2, ("owner", p): b})

    assert seen.get("generation") is UNKNOWN
    assert judgement(seen, name).open
    assert name in taken(seen, {("owner", p): a})


def test_who_is_blind_stays_so_wherever_it_is_sent() -> None:
    """A stream keeps its state between two parts, in another process."""
    seen = observed("contract")
    seen.blind("generation")

    seen = pickle.loads(pickle.dumps(seen))
    seen.bind(watches("contract"))
    taken(seen, {("generation", ()): 2})

    assert seen.get("generation") is UNKNOWN


def test_an_element_of_which_nobody_hears_is_unknown_even_of_what_comes_later() -> None:
    """Who was not heard for a while may have taken a partition that is named only later."""
    seen = Observed(watches("contract"))
    seen.add("Member", "a")
    seen.add("Partition", "p")
    seen.blind("consumes", "a")
    seen.add("Partition", "q")
    assert seen.get("consumes", ("a", "q")) is UNKNOWN
    seen.sees("consumes", "a")
    seen.add("Partition", "r")
    seen.add("Member", "b")
    assert seen.get("consumes", ("a", "r")) is UNKNOWN
    assert seen.get("consumes", ("b", "r")) is False
    seen.set("consumes", ("a", "r"), True)
    assert seen.get("consumes", ("a", "r")) is True


def test_who_comes_after_a_gap_of_a_whole_field_is_unknown_too() -> None:
    """A member that is first named after the gap may have been counted as live in it."""
    seen = Observed(watches("contract"))
    seen.blind("live")
    seen.sees("live")
    seen.add("Member", "a")
    assert seen.get("live", "a") is UNKNOWN


def test_blindness_ends_when_each_gap_has_ended() -> None:
    """Two gaps of one field lie in each other."""
    seen = observed("contract")
    seen.blind("epoch")
    seen.blind("epoch")
    seen.sees("epoch")
    seen.refine("epoch", (), 1)
    stepped(seen)
    assert seen.get("epoch") is UNKNOWN
    seen.sees("epoch")
    seen.refine("epoch", (), 1)
    assert seen.get("epoch") == 1


def test_what_was_told_last_does_not_violate_and_does_not_hold_either() -> None:
    """Who consumed when it was heard last may have ceased to; it is unknown whether it had."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    taken(seen, {("consumes", (a, p)): True, ("owner", p): a})
    seen.leave("consumes", (a, p))
    assert judgement(seen, "exclusive").ruling is Ruling.HOLDS

    assert "exclusive" not in taken(seen, {("consumes", (b, p)): True})

    found = judgement(seen, "exclusive")
    assert found.ruling is Ruling.UNKNOWN
    assert "told last" in found.why


def test_a_write_in_doubt_is_old_or_new_and_settled_by_its_answer() -> None:
    """An offset that was sent may be stored: to begin at either breaks nothing."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    taken(seen, {("storing", p): 2, ("accepted", p): 2, ("finished", p): 3})
    seen.widen("committed", p, 2)
    assert is_lost(seen.get("committed", p))
    begins = "who_begins_does_so_at_the_stored_offset"
    assert begins not in taken(seen, {("consumes", (a, p)): True, ("position", (a, p)): 2})
    assert begins in taken(seen, {("consumes", (b, p)): True, ("position", (b, p)): 3})

    seen.refine("committed", p, 0)
    taken(seen, {("committed", p): 2})

    assert judgement(seen, "stored_as_taken").ruling is Ruling.HOLDS


@pytest.mark.parametrize(("sent", "ruling"), [(2, Ruling.HOLDS), (3, Ruling.UNKNOWN)])
def test_a_write_that_is_never_answered_may_be_done_if_it_was_right(
    sent: int, ruling: Ruling
) -> None:
    """At the end of a trace, both what was and what was sent must be allowed."""
    seen, (p, _) = observed("contract"), pair("Partition")
    taken(seen, {("term", pair("Broker")[0]): 1, ("epoch", ()): 1, ("finished", p): 3})
    taken(seen, {("storing", p): 1, ("accepted", p): 1}, {("committed", p): 1, ("storing", p): 2})
    assert judgement(seen, "stored_as_taken").ruling is Ruling.HOLDS

    seen.widen("committed", p, sent)

    assert judgement(seen, "stored_as_taken").ruling is ruling
    assert seen.entries["committed"][p].values == {1, sent}


def test_what_is_supposed_explains_one_step() -> None:
    """Of what an owner may have said, what explains a step is supposed for that step alone."""
    seen, (a, _), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    taken(seen, {("owner", p): a, ("current", a): True}, {("reported", (a, p)): 1})
    seen.widen("reported", (a, p), 2)

    seen.suppose("reported", (a, p), 2)
    assert "exclusive_fenced" not in taken(seen, {("accepted", p): 2})

    assert is_lost(seen.get("reported", (a, p)))
    seen.suppose("reported", (a, p), 1)
    assert "exclusive_fenced" in taken(seen, {("accepted", p): 3})


@pytest.mark.parametrize(("is_told", "ruling"), [(True, Ruling.HOLDS), (False, Ruling.UNKNOWN)])
def test_who_goes_before_it_is_told_again_leaves_a_doubt(is_told: bool, ruling: Ruling) -> None:
    """An element that nobody needs is dropped; what was not told of it is not had after all."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    taken(seen, {("consumes", (a, p)): True}, {("consumes", (a, p)): False})
    if not is_told:
        seen.forget("consumes", (a, p))

    seen.drop("Member", a)

    assert (a, p) not in seen.entries["consumes"]
    assert a not in seen.domains["Member"]
    assert taken(seen, {("position", (b, p)): 0}) == []
    assert judgement(seen, "exclusive").ruling is ruling


def test_what_is_told_against_what_was_known_was_not_told_in_between() -> None:
    """A read that shows an older epoch than is known shows a gap, and no violation."""
    seen = observed("contract")
    taken(seen, {("epoch", ()): 3})
    seen.refine("epoch", (), 2)
    assert stepped(seen) == []
    assert judgement(seen, "epochs_never_go_back").ruling is Ruling.UNKNOWN


def test_what_becomes_known_may_show_a_state_to_be_wrong() -> None:
    """That two consume one partition need not be seen as it happens."""
    seen, (a, b), (p, _) = observed("contract"), pair("Member"), pair("Partition")
    seen.forget_all("consumes")
    seen.refine("consumes", (a, p), True)
    assert "exclusive" not in {v.promise.name for v in stepped(seen)}
    seen.refine("consumes", (b, p), True)
    assert "exclusive" in {v.promise.name for v in stepped(seen)}


# ── What can be observed ────────────────────────────────────────────────────────────────────


def test_a_promise_whose_fields_are_not_filled_is_not_observable() -> None:
    """What a source does not tell is named, and computed from the promise itself."""
    seen = Observed(watches_of(CONTRACT, {"term": 0, "epoch": 0, "elected": None}))

    found = {j.promise.name: j for j in seen.judgements()}

    assert found["exclusive"].why == "consumes: not in this source"
    assert found["only_finished_is_committed"].why == "committed, finished: not in this source"
    assert found["one_coordinator"].why == "nothing of it has happened"
    assert {j.ruling for j in found.values()} == {Ruling.NOT_OBSERVABLE}
    assert "settles" not in found
    assert "who_does_not_consume_is_nowhere" not in found
    seen.add("Broker", "b1")
    seen.add("Broker", "b2")
    assert taken(seen, {("term", "b1"): 1}, {("term", "b2"): 1}) == ["one_coordinator"] * 2


def test_what_was_never_told_is_unknown_to_the_end() -> None:
    """A member of which nobody has said what it consumes may consume anything."""
    seen = Observed(watches_of(CONTRACT, {**initial("contract"), "consumes": UNKNOWN}))
    for sort, names in (("Member", "ab"), ("Partition", "p")):
        for name in names:
            seen.add(sort, name)
    seen.refine("owner", "p", "a")
    seen.refine("consumes", ("a", "p"), True)
    assert stepped(seen) == []
    assert judgement(seen, "exclusive").ruling is Ruling.UNKNOWN
    seen.refine("consumes", ("b", "p"), False)
    assert stepped(seen) == []
    assert judgement(seen, "exclusive").ruling is Ruling.HOLDS


def test_fields_that_the_spec_does_not_have_are_refused() -> None:
    """A table that fills a field of another name fills none."""
    with pytest.raises(UsageError, match="GroupContract has no field 'owners'; it has epoch"):
        watches_of(CONTRACT, {"owners": None})


def test_what_is_a_key_is_never_better_for_being_larger() -> None:
    """The number grows, which one part wants; and another entry is looked up, which is wrong."""
    spec = from_source(KEYED, "Keyed")
    seen = Observed(watches_of(spec, {"n": 0, "by": 0}))
    assert taken(seen, {("by", 1): 5}) == []
    assert taken(seen, {("n", ()): 1}) == ["few"]


KEYED = '''
from __future__ import annotations
from typing import Annotated
from herdspec import *

class Keyed(Spec):
    """A number, and what there is of each."""
    n: Annotated[Nat, UpTo(3)] = 0
    by: dict[Annotated[Nat, UpTo(3)], Nat] = each(0)

@always
def few(s: Keyed) -> bool:
    """Of a small number there are few."""
    return s.n >= 2 or s.by[s.n] <= 1
'''


def test_a_step_that_changes_nothing_breaks_nothing() -> None:
    """All steps that the contract promises of may stutter, and only what they change is watched."""
    for promise in judged("contract"):
        if promise.expectation is Expectation.STEP:
            assert all(clause.stutters for clause in clauses_of(promise))
    of_toy = {p.name: p for p in judged("toy")}
    (light,) = clauses_of(of_toy["the_light_changes"])
    assert not light.stutters
    assert {*light.watched} == {"light", "flag"}
    grows = [*clauses_of(of_toy["counts_grow_with_the_number"])]
    assert all(clause.stutters for clause in grows)
    (off,) = clauses_of(of_toy["who_was_off_counts"])
    assert {*off.watched} == {"on", "count", "who"}
    assert {field for clause in grows for field in clause.watched} == {"count", "n", "on"}


def test_a_step_is_held_against_what_was_before_all_of_it() -> None:
    """An entry that is made one thing and then another within a step has changed once."""
    seen = observed("contract")
    taken(seen, {("epoch", ()): 3})
    seen.set("epoch", (), 1)
    seen.set("epoch", (), 2)
    assert [v.promise.name for v in stepped(seen)] == ["epochs_never_go_back"]


def test_of_an_element_that_nobody_sees_nothing_is_believed() -> None:
    """Others are seen all the while; and what belongs to a partition goes with it."""
    seen, (a, b), (p, q) = observed("contract"), pair("Member"), pair("Partition")
    seen.blind("consumes", a)
    taken(seen, {("consumes", (a, p)): True, ("consumes", (b, q)): True})
    assert seen.get("consumes", (a, p)) is UNKNOWN
    assert seen.get("consumes", (b, q)) is True

    seen.drop("Partition", q)

    assert [*seen.entries["consumes"]] == [(a, p)]
