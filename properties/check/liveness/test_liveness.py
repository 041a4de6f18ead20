"""
Liveness under fairness: never "holds" where something can be put off for ever.

These are the cases in which other checkers have said "holds", or failed what holds; what bounds,
budgets and memory leave unknown; and what verdicts say. Random graphs and specs are in `test_fair`.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from herdspec import Specification, UsageError, action, from_source, specification
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.fair import Lasso
from herdspec.check.liveness.liveness import Liveness, is_renamed, liveness
from herdspec.check.verdict import (
    EVERY_ACTION_IS_POSSIBLE,
    Failure,
    Mark,
    Shown,
    Standing,
    explored,
    lived,
)
from herdspec.language.surface import Fairness
from properties.check.liveness.live_specs import (
    BUSY,
    FIRM,
    LAMP,
    ROUND,
    Broadcast,
    Clock,
    Diamond,
    Door,
    FairDoor,
    Growing,
    LateClock,
    Pinging,
    Round,
    Sending,
    ShortClock,
    Spending,
    Stroll,
    Table,
    Wired,
    choose_at_last,
    every_process_gets_it,
    it_can_get_in,
    it_comes_down,
    it_comes_to_two,
    it_gets_in,
    it_goes_left,
    it_is_done,
    it_is_grown,
    it_is_lit,
    it_never_stays_open,
    it_opens,
    it_rings,
    it_stops,
    not_beyond_two,
    one_gets_what_another_got,
    there_is_power,
    what_rings_is_at_two,
    whoever_is_hungry_is_served,
)
from properties.cli.files import run

# ── Bounds ──────────────────────────────────────────────────────────────────────────────────


def test_what_a_bound_cuts_is_unknown() -> None:
    """A counter up to three with a fair tick, and an eventuality that nothing brings about."""
    found = liveness(specification(Clock, it_rings, it_comes_to_two), {}, faults=0, bound=3)

    assert found.undecided == dict.fromkeys(
        ["it_rings", "it_comes_to_two"], "cut at bound: 1 successors were dropped"
    )
    assert not found.violations
    assert not found.held


def test_a_bound_that_nobody_fixed_is_raised_as_far_as_need_be() -> None:
    """Where naturals are bounded by guards alone, the whole graph is judged."""
    held = liveness(specification(LateClock, it_comes_to_two), {}, faults=0)

    assert (held.held, held.bound, held.states) == (["it_comes_to_two"], 8, 8)
    assert liveness(specification(LateClock, it_comes_to_two), {}, faults=0, bound=2).undecided


def test_a_constraint_leaves_liveness_unknown() -> None:
    """Behaviours go on from states that a constraint lets nobody go on from."""
    spec = specification(ShortClock, it_rings, not_beyond_two)

    found = liveness(spec, {}, faults=0)

    cut = "cut at the constraint not_beyond_two: behaviours go on beyond it"
    assert found.undecided == {"it_rings": cut}


def test_the_same_without_a_bound_fails() -> None:
    """Where the counter ends by itself, the eventuality that nothing brings about fails."""
    found = liveness(specification(ShortClock, it_rings, it_comes_to_two), {}, faults=0)

    assert found.held == ["it_comes_to_two"]
    assert found.violations["it_rings"].lines[-3:] == [
        "  3. It ticks.  [tick()]",
        "       n: 2 → 3",
        "     nothing more happens: no step is possible",
    ]


def test_what_does_not_fit_the_memory_is_unknown() -> None:
    """A graph beyond the cap is undecided, and says what it needs."""
    spec = specification(ShortClock, it_rings)

    found = liveness(spec, {}, faults=0, memory_bytes=100)

    assert "the memory budget" in found.undecided["it_rings"]
    assert found.held == []


def test_a_graph_that_cannot_be_checked_within_the_cap_is_unknown() -> None:
    """Checking needs more than exploring does: that is counted before it is begun."""
    whole = liveness(specification(ShortClock, it_rings), {}, faults=0)
    spec = specification(ShortClock, it_rings)

    found = liveness(spec, {}, faults=0, memory_bytes=whole.needed_bytes - 1)

    assert "GiB to check" in found.undecided["it_rings"]
    assert liveness(spec, {}, faults=0, memory_bytes=whole.needed_bytes).violations


def test_a_step_without_meaning_leaves_liveness_unknown() -> None:
    """Where a step looks at what is not there, nothing is said of what follows."""
    found = liveness(specification(Spending, it_is_done), {}, faults=0)

    assert found.undecided == {"it_is_done": "spend() looks at a value that is not there"}


def test_a_channel_that_overflows_leaves_liveness_unknown() -> None:
    """A full channel is a bound like any other: what it drops was not seen."""
    found = liveness(specification(Sending, it_is_done), {}, faults=0)

    assert found.undecided == {"it_is_done": "cut at bound: 1 successors were dropped"}


# ── Where other checkers went wrong ─────────────────────────────────────────────────────────


def test_an_unfair_step_may_never_come() -> None:
    """Staying for ever is a behaviour even where a step is possible (tla-rs, pull request 62)."""
    found = liveness(specification(Door, it_opens), {}, faults=0)

    assert found.violations["it_opens"].lines == [
        "     nothing more happens: open() need never happen"
    ]
    assert liveness(specification(FairDoor, it_opens), {}, faults=0).held == ["it_opens"]


def test_what_must_be_so_again_and_again_is_not_dropped() -> None:
    """A promise about the end of time is judged, not ignored (tla-rs, pull request 62)."""
    found = liveness(specification(FairDoor, it_opens, it_never_stays_open), {}, faults=0)

    assert list(found.violations) == ["it_never_stays_open"]
    assert found.violations["it_never_stays_open"].labels == ["open()"]


def test_ways_that_join_are_told_apart() -> None:
    """A state reached with and without the goal counts both times (Stateright's known gap)."""
    found = liveness(specification(Diamond, it_goes_left, it_comes_down), {}, faults=0)

    assert found.violations["it_goes_left"].labels == ["fork(False)", "join()"]
    assert found.held == ["it_comes_down"]


def test_a_cycle_is_a_behaviour() -> None:
    """What can go round for ever need not come to an end (Stateright sees paths without cycles)."""
    found = liveness(ROUND, {}, faults=0)

    assert found.violations["it_gets_in"].lines == [
        "     and now for ever:",
        "  1. It walks on.  [walk()]",
        "       at: top → right",
        "  2. It walks on.  [walk()]",
        "       at: right → bottom",
        "  3. It walks on.  [walk()]",
        "       at: bottom → top",
    ]


def test_strong_fairness_takes_what_is_possible_again_and_again() -> None:
    """What is possible at every turn, but not between, is put off by weak fairness only."""
    assert list(liveness(ROUND, {}, faults=0).violations) == ["it_gets_in"]
    assert liveness(FIRM, {}, faults=0).held == ["it_gets_in"]


def test_strong_fairness_is_owed_only_where_it_is_possible_again_and_again() -> None:
    """Who keeps away from the gate for ever owes nothing to it; who comes by at times goes in."""
    story = liveness(specification(Stroll, it_gets_in), {}, faults=0).violations["it_gets_in"]

    assert story.labels == ["walk()", "walk()"]
    assert story.back == 0


def test_recoverable_is_less_than_eventually() -> None:
    """It can get in from everywhere, and need never do so."""
    spec = specification(Round, it_gets_in, it_can_get_in)

    assert not explore(spec, {}, faults=0).violations
    assert list(liveness(spec, {}, faults=0).violations) == ["it_gets_in"]


def starved(mark: Fairness | None) -> Liveness:
    """The busy waiter, whose choice is as fair as this."""
    chosen = action(fair=mark)(choose_at_last)
    return liveness(BUSY.replace("Variant", choose=chosen), {"Guest": 2}, faults=0)


def test_fairness_is_owed_to_each_choice_of_parameters() -> None:
    """To serve one guest again and again is fair to that one, and not to the other."""
    found = liveness(specification(Table, whoever_is_hungry_is_served), {"Guest": 2}, faults=0)
    assert found.held == ["whoever_is_hungry_is_served"]

    weakly = starved(Fairness.WEAK)
    story = weakly.violations["whoever_is_hungry_is_served"]
    assert weakly.held == ["somebody_is_served"]
    assert story.about == "g = guest1"
    assert {step.arguments[0].index for step in story.cycle} == {1}
    assert starved(Fairness.STRONG).held == ["whoever_is_hungry_is_served", "somebody_is_served"]


def test_a_promise_of_elements_says_which_it_fails_for() -> None:
    """A counterexample to a promise for each element names the element first."""
    story = starved(None).violations["whoever_is_hungry_is_served"]

    assert story.lines == [
        "     for g = guest1:",
        "     nothing more happens: choose(guest1), choose(guest2) need never happen",
    ]


def test_choices_that_differ_by_names_alone_are_judged_once() -> None:
    """Of two elements of a sort, the first and the first, and the first and the second are new."""
    spec = specification(Broadcast, one_gets_what_another_got)
    promise = spec.promise("one_gets_what_another_got")
    choices = product(range(3), range(3), range(2))

    judged = [chosen for chosen in choices if not is_renamed(promise, chosen)]

    assert judged == [(0, 0, 0), (0, 1, 0)]


def test_symmetry_is_refused() -> None:
    """Renaming would take one guest for the other: asked for, it is an error (TLC, issue 59)."""
    spec = specification(Table, whoever_is_hungry_is_served)

    with pytest.raises(UsageError, match="never checked up to renaming"):
        liveness(spec, {"Guest": 2}, faults=0, symmetry=True)
    assert liveness(spec, {"Guest": 2}, faults=0, symmetry=False).states == 4


def test_what_holds_does_not_fail_by_renaming() -> None:
    """A broadcast reaches all: with symmetry another checker says it does not (TLC, issue 644)."""
    spec = specification(Broadcast, every_process_gets_it, one_gets_what_another_got)

    found = liveness(spec, {"Process": 3, "Value": 2}, faults=0)

    assert found.held == ["every_process_gets_it", "one_gets_what_another_got"]
    assert found.states == 1 + 2 * 2**3


def test_a_step_that_changes_nothing_is_taken() -> None:
    """To answer pings for ever is fair to pings; it is a cycle of one step."""
    story = liveness(specification(Pinging, it_stops), {}, faults=0).violations["it_stops"]

    assert story.labels == ["ping()"]
    assert story.back == 0


def test_a_step_that_changes_nothing_is_no_excuse_for_another() -> None:
    """Where doing nothing is one choice, the other choices are owed too (tla-rs, issue 63)."""
    assert liveness(specification(Growing, it_is_grown), {}, faults=0).held == ["it_is_grown"]


# ── What else is said ───────────────────────────────────────────────────────────────────────


def test_every_start_is_a_start() -> None:
    """With several initial states, the one from which the promise fails is found."""
    story = liveness(LAMP, {}, faults=1).violations["it_shines"]

    assert not story.initial.lit  # type: ignore[attr-defined]
    assert story.labels == ["breaks()"]


def test_a_start_against_an_axiom_does_not_count() -> None:
    """What an axiom excludes is no start: the promise fails from there alone."""
    assert liveness(specification(Wired, it_is_lit), {}, faults=0).violations
    assert liveness(specification(Wired, it_is_lit, there_is_power), {}, faults=0).held


def test_faults_count_only_within_their_budget() -> None:
    """Without faults the lamp shines; what leads from a fault is then said of nothing."""
    found = liveness(LAMP, {}, faults=0)

    assert found.held == ["it_shines"]
    assert found.vacuous == ["what_breaks_shines_again"]


def test_a_shorter_way_round_is_not_missed() -> None:
    """A cycle that serves two demands goes to each once, and no further."""
    story = starved(Fairness.WEAK).violations["whoever_is_hungry_is_served"]

    assert [step.action.name for step in story.cycle] == ["choose", "serve", "digest"]
    assert story.back == 0


def test_without_a_promise_there_is_nothing_to_judge() -> None:
    """A spec without a promise of liveness is refused, with what to write."""
    with pytest.raises(UsageError, match="@eventually or @leads_to"):
        liveness(specification(Door), {}, faults=0)


def test_the_fairness_is_said() -> None:
    """A verdict names the actions that it takes to be fair."""
    found = liveness(FIRM, {}, faults=0)

    assert found.fairness == (
        "under weak fairness of walk and strong fairness of enter"
        ", for each choice of parameters by itself"
    )
    assert liveness(specification(Door, it_opens), {}, faults=0).fairness == "nothing is fair"


@pytest.mark.parametrize(
    ("spec", "planted", "wrong"),
    [
        (specification(FairDoor, it_opens), Lasso(0, [], []), "fairness"),
        (specification(FairDoor, it_opens), Lasso(0, [0], []), "a premise or a goal"),
        (specification(ShortClock, it_comes_to_two), Lasso(0, [0], [1, 2]), "premise or a goal"),
        (ROUND, Lasso(0, [], [0, 1]), "ends where it began"),
        (FIRM, Lasso(0, [], [0, 1, 2]), "fairness"),
        (ROUND, Lasso(0, [1], []), "the step leads elsewhere"),
        (ROUND, Lasso(0, [0, 3], []), "the step is not possible"),
    ],
)
def test_a_story_that_shows_nothing_is_never_told(
    spec: Specification, planted: Lasso, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain Python has the last word: whatever the search says, a wrong lasso is noticed."""
    monkeypatch.setattr("herdspec.check.liveness.liveness.lasso", lambda *_: planted)

    with pytest.raises(AssertionError, match=wrong):
        liveness(spec, {}, faults=0)


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────


def test_a_search_of_states_says_nothing_of_liveness() -> None:
    """Exploring gives no row for what it does not judge: no false "holds" beside the true one."""
    found = explored("door", explore(specification(Door, it_opens), {}, faults=0), {}, may_end=True)

    assert [f.row for f in found] == [EVERY_ACTION_IS_POSSIBLE]


def test_a_verdict_says_the_fairness_and_where_the_story_recurs() -> None:
    """A failure is a row with its story and its cycle; what holds says under which fairness."""
    failed = lived("round", liveness(ROUND, {}, faults=0), {})[0]
    held = lived("firm", liveness(FIRM, {}, faults=0), {})[0]

    assert (failed.mark, failed.repeats, failed.kind) == (Mark.FAILS, 0, "eventually")
    assert failed.found == Shown(3, "walk")
    assert failed.standing is Standing.FAILS
    assert (held.mark, held.standing, held.note) == (
        Mark.EXHAUSTED, Standing.HOLDS,
        "under weak fairness of walk and strong fairness of enter"
        ", for each choice of parameters by itself",
    )  # fmt: skip


def test_what_was_cut_is_unknown_in_the_verdict_too() -> None:
    """A cut graph gives exit code 3, with the reason."""
    found = lived("clock", liveness(specification(Clock, it_rings), {}, faults=0, bound=3), {})

    assert [f.standing for f in found] == [Standing.UNKNOWN]
    assert found[0].note == "cut at bound: 1 successors were dropped"


def test_a_declared_failure_of_liveness_is_a_pass() -> None:
    """A lasso that was declared, with its length and last action, counts as passed."""
    result = liveness(ROUND, {}, faults=0)

    assert lived("round", result, {"it_gets_in": Failure(3, "walk")})[0].is_expected_failure
    other = lived("round", result, {"it_gets_in": Failure(2, "walk")})[0]
    assert other.standing is Standing.FAILS


def test_a_promise_without_premise_is_vacuous_and_fails() -> None:
    """A promise that nothing ever has the premise of is no pass, in its mark and exit code."""
    found = {f.row: f for f in lived("lamp", liveness(LAMP, {}, faults=0), {})}

    vacuous = found["what_breaks_shines_again"]
    assert vacuous.note.startswith("vacuous: nothing ever has its premise")
    assert (vacuous.mark, vacuous.standing) == (Mark.FAILS, Standing.FAILS)
    assert (found["it_shines"].standing, found["it_shines"].found) == (Standing.HOLDS, None)


def test_a_premise_beyond_the_bound_is_unknown_not_vacuous() -> None:
    """Where the graph was cut, nobody knows whether something has the premise."""
    late = specification(Clock, what_rings_is_at_two)

    found = lived("clock", liveness(late, {}, faults=0, bound=3), {})

    assert [f.standing for f in found] == [Standing.UNKNOWN]


def test_the_command_fails_where_a_premise_never_holds(tmp_path: Path) -> None:
    """`explore` exits 1 for a `leads_to` that speaks of nothing."""
    file = tmp_path / "hallway.py"
    lead = '@leads_to\ndef late(s: Hallway) -> tuple[bool, bool]:\n    """Late."""\n'
    lead += "    return s.n == 2, s.lit\n"
    file.write_text(HALLWAY.format("(fair=weak)", 1) + lead)

    done = run("explore", f"{file}:Hallway", "--faults", "1", "--may-end")

    assert done.exit_code == Standing.FAILS.value
    assert "nothing ever has its premise" in " ".join(done.output.split())


# ── The command ─────────────────────────────────────────────────────────────────────────────

HALLWAY = '''
from herdspec import *

class Hallway(Spec):
    """A light that somebody may switch on."""
    lit: bool = False
    n: Nat = 0

    @action{0}
    def switch(self) -> None:
        """It is switched on."""
        require(not self.lit)
        self.lit = True
        self.n += {1}

@eventually
def it_shines(s: Hallway) -> bool:
    """It shines at last."""
    return s.lit
'''


@pytest.mark.parametrize(
    ("mark", "amount", "code", "said"),
    [
        ("(fair=weak)", 1, 0, "It holds."),
        ("", 1, 1, "nothing more happens: switch() need never happen"),
        ("(fair=weak)", 9, 0, "It holds."),
        ("(fair=weak)", 99, 3, "cut at bound: 1 successors were dropped"),
    ],
)
def test_the_command_tells_and_exits(
    mark: str, amount: int, code: int, said: str, tmp_path: Path
) -> None:
    """`explore` exits 0 where all holds, 1 with a story without end, 3 where something was cut."""
    file = tmp_path / "hallway.py"
    file.write_text(HALLWAY.format(mark, amount))

    done = run("explore", f"{file}:Hallway", "--faults", "0", "--may-end")

    assert done.exit_code == code
    assert said in done.output


def test_the_command_says_how_much_of_its_cap_it_takes(tmp_path: Path) -> None:
    """The graph is counted without renaming, with the memory that it needs and may take."""
    file = tmp_path / "hallway.py"
    file.write_text(HALLWAY.format("", 1))

    done = run("explore", f"{file}:Hallway", "--memory-gb", "2")

    assert "liveness, without symmetry: 2 states, 1 steps, about 0 MiB of 2,048 MiB" in done.output


# ── Without a meaning ───────────────────────────────────────────────────────────────────────

UNSEEN = '''
from herdspec import *

class Lamp(Sort): ...

class Unseen(Spec):
    """Nobody ever picks a lamp."""
    pick: Lamp | None = None
    lit: dict[Lamp, bool] = each(False)

    @action(fair=weak)
    def light(self, l: Lamp) -> None:
        """{l} is lit."""
        self.lit[l] = True

@leads_to
def who_waits_is_lit(s: Unseen) -> tuple[bool, bool]:
    """Where the picked lamp is dark, it is lit at last."""
    return not s.lit[s.pick], s.lit[s.pick]
'''


def test_a_leads_to_without_a_meaning_does_not_hold() -> None:
    """It looks at a lamp that nobody has picked: that is no premise that never holds."""
    found = liveness(from_source(UNSEEN, "Unseen"), {"Lamp": 1}, faults=0)

    assert set(found.violations) == {"who_waits_is_lit"}
    assert not found.vacuous
