"""`verify`: expected failures pass, anything else than expected fails, what was cut is unknown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Run

from herdproof.cli import app
from herdspec import (
    Nat,
    Property,
    Sort,
    Spec,
    Specification,
    UsageError,
    action,
    always,
    each,
    recoverable,
    require,
    sometimes,
    specification,
    step,
)  # fmt: skip
from herdspec.check import plans
from herdspec.check.cache import Result
from herdspec.check.exploration.explore import explore
from herdspec.check.plans import (
    QUICK,
    CheckConfig,
    exploration,
    flawed,
    plan_of,
    proof,
    said_of,
    usual,
)  # fmt: skip
from herdspec.check.proof.proof_verdict import ALLOWED, proved
from herdspec.check.proof.prove import prove
from herdspec.check.verdict import (
    ALWAYS_A_STEP,
    EVERY_ACTION_IS_POSSIBLE,
    PROMISES,
    Failure,
    Finding,
    Mark,
    Shown,
    Standing,
    counted,
    explored,
    standing_of,
)  # fmt: skip
from herdspec.check.verify import Check, Plan, PlanReport, Tell, nobody, verify
from herdspec.protocols.election import plan as election_plan
from herdspec.protocols.election.flaws import AT_ONCE, DRAFTED, FLAWS
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Broker, Election
from properties.check.entered import entered, planned


class Lamp(Sort):
    """A lamp."""


class Lamps(Spec):
    """Lamps are switched on and off."""

    lit: dict[Lamp, bool] = each(False)
    times: Nat = 0

    @action
    def switch_on(self, lamp: Lamp) -> None:
        """{lamp} is switched on."""
        require(not self.lit[lamp])
        self.lit[lamp] = True

    @action
    def switch_off(self, lamp: Lamp) -> None:
        """{lamp} is switched off."""
        require(self.lit[lamp])
        self.lit[lamp] = False


def count_up(self: Lamps, lamp: Lamp) -> None:
    """{lamp} is switched on, and counted."""
    require(not self.lit[lamp])
    self.lit[lamp] = True
    self.times = self.times + 1


def never(self: Lamps, lamp: Lamp) -> None:
    """{lamp} is switched off, but nobody can."""
    require(self.lit[lamp] and self.times > self.times + 1)
    self.lit[lamp] = False


@always
def one_is_lit(s: Lamps) -> bool:
    """At most one lamp is lit."""
    return all(not (s.lit[a] and s.lit[b]) for a in Lamp for b in Lamp if a != b)


@step
def two_are_lit_at_most(before: Lamps, after: Lamps) -> bool:
    """After a step at most two lamps are lit: so it is, if at most one was lit before."""
    return not any(
        before.lit[a] and after.lit[a] and before.lit[b] and after.lit[b] and a != b
        for a in Lamp
        for b in Lamp
    )


@step
def nothing_is_counted_back(before: Lamps, after: Lamps) -> bool:
    """The count never goes back."""
    return before.times <= after.times


@sometimes
def one_lamp_is_lit(s: Lamps) -> bool:
    """A lamp is lit."""
    return any(s.lit[a] for a in Lamp)


@sometimes
def ten_times(s: Lamps) -> bool:
    """Something was counted to ten."""
    return s.times >= 10


@recoverable
def all_can_go_out(s: Lamps) -> bool:
    """All lamps can still go out."""
    return all(not s.lit[a] for a in Lamp)


LAMPS = specification(Lamps)

pytestmark = pytest.mark.xdist_group("verify")  # the election's plan is carried out once


def findings(*promises: Property, spec: Specification = LAMPS, **how: Any) -> dict[str, Finding]:
    """What exploring two lamps finds of these properties, by name."""
    declared = how.pop("declared", {})
    exactly = how.pop("exactly", True)
    result = explore(spec.with_properties(*promises), {"Lamp": 2}, faults=0, **how)
    return {f.row: f for f in explored("lamps", result, declared, exactly=exactly)}


def test_a_property_that_holds_everywhere_is_exhausted() -> None:
    """A property without counterexample holds at the size that was explored, and says which."""
    found = findings(nothing_is_counted_back, one_lamp_is_lit, all_can_go_out)

    assert {f.mark for f in found.values()} == {Mark.EXHAUSTED}
    assert standing_of(found.values()) is Standing.HOLDS
    assert found["all_can_go_out"].bounds == "2 lamps"
    assert found["one_lamp_is_lit"].note == "shown after 1 step"
    assert found["one_lamp_is_lit"].story


def test_a_failure_that_nobody_declared_fails() -> None:
    """A further counterexample is a failure, with its story."""
    found = findings(one_is_lit)["one_is_lit"]

    assert (found.mark, found.standing) == (Mark.FAILS, Standing.FAILS)
    assert found.found == Shown(2, "switch_on")
    assert "switched on" in "\n".join(found.story)


@pytest.mark.parametrize(
    ("declared", "standing"),
    [
        (Failure(2, "switch_on"), Standing.HOLDS),
        (Failure(3, "switch_on"), Standing.FAILS),
        (Failure(2, "switch_off"), Standing.FAILS),
    ],
)
def test_a_declared_failure_must_be_just_the_one_declared(
    declared: Failure, standing: Standing
) -> None:
    """A declared failure passes; one of another length or last action does not."""
    found = findings(one_is_lit, declared={"one_is_lit": declared})["one_is_lit"]

    assert found.standing is standing
    assert found.is_expected_failure is (standing is Standing.HOLDS)


def test_a_declared_failure_that_is_missing_fails() -> None:
    """What was declared to fail and holds is a failure."""
    declared = {"nothing_is_counted_back": Failure(1, "switch_on")}

    found = findings(nothing_is_counted_back, declared=declared)["nothing_is_counted_back"]

    assert (found.mark, found.standing) == (Mark.EXHAUSTED, Standing.FAILS)


def test_at_another_size_a_declared_failure_may_have_any_length() -> None:
    """At another size than it was declared for, a declared failure may differ or be missing."""
    declared = {"one_is_lit": Failure(9, "x"), "nothing_is_counted_back": Failure(9, "x")}

    found = findings(one_is_lit, nothing_is_counted_back, declared=declared, exactly=False)

    assert standing_of(found.values()) is Standing.HOLDS


def test_a_search_that_is_cut_short_is_unknown() -> None:
    """Nothing that was not refuted before the memory budget ended is known."""
    found = findings(nothing_is_counted_back, all_can_go_out, ten_times, memory_bytes=0)

    taken = found.pop(EVERY_ACTION_IS_POSSIBLE)
    assert {f.standing for f in found.values()} == {Standing.UNKNOWN}
    assert taken.standing is Standing.HOLDS, "each action was taken before it ended"


def test_what_is_cut_at_the_bound_of_naturals_says_so() -> None:
    """What might lie beyond the bound is unknown; safety too, and it says so."""
    counting = LAMPS.replace("Counting", switch_on=count_up)

    found = findings(nothing_is_counted_back, all_can_go_out, ten_times, spec=counting, bound=3)

    assert found["nothing_is_counted_back"].standing is Standing.UNKNOWN
    assert found["nothing_is_counted_back"].note == "unknown beyond times up to 3"
    assert found["all_can_go_out"].standing is Standing.UNKNOWN
    assert found["ten_times"].standing is Standing.UNKNOWN


def test_a_possibility_that_no_state_shows_fails() -> None:
    """A `sometimes` without witness in a complete space is a failure."""
    found = findings(ten_times)["ten_times"]

    assert (found.mark, found.standing) == (Mark.FAILS, Standing.FAILS)


def test_a_state_without_a_next_step_fails_unless_it_may_end() -> None:
    """A deadlock is found, and is no failure of a spec that may end."""
    stuck = LAMPS.drop("Stuck", "switch_off")
    result = explore(stuck, {"Lamp": 1}, faults=0)

    found = {f.row: f for f in explored("lamps", result, {})}

    assert found[ALWAYS_A_STEP].found == Shown(1, "switch_on")
    assert found[ALWAYS_A_STEP].standing is Standing.FAILS
    (vacuous, promised) = explored("lamps", result, {}, may_end=True)
    assert (vacuous.row, vacuous.mark) == (EVERY_ACTION_IS_POSSIBLE, Mark.EXHAUSTED)
    assert (promised.row, promised.mark) == (PROMISES, Mark.UNKNOWN)


# ── Proofs ──────────────────────────────────────────────────────────────────────────────────


def test_a_proof_speaks_of_any_number() -> None:
    """What is proved is proved for any number of elements."""
    found = {f.row: f for f in proved("x", prove(LAMPS.with_properties(nothing_is_counted_back)))}

    assert found["nothing_is_counted_back"].mark is Mark.PROVED
    assert found["nothing_is_counted_back"].bounds == "one or more lamps"
    assert found[ALLOWED].standing is Standing.HOLDS


def test_what_is_not_inductive_is_unknown_and_shows_two_states() -> None:
    """A counterexample to induction names the action; nobody knows whether it is reached."""
    found = {f.row: f for f in proved("x", prove(LAMPS.with_properties(one_is_lit)))}

    assert found["one_is_lit"].standing is Standing.UNKNOWN
    assert found["one_is_lit"].note == "not inductive: switch_on"
    assert any("False → True" in line for line in found["one_is_lit"].story)


def test_a_proof_says_which_of_its_hypotheses_are_not_proved() -> None:
    """What is proved only with an invariant that is not is unknown; what needs none is proved."""
    spec = LAMPS.with_properties(one_is_lit, two_are_lit_at_most, nothing_is_counted_back)

    found = {f.row: f for f in proved("x", prove(spec))}

    assert found["nothing_is_counted_back"].mark is Mark.PROVED
    assert found["two_are_lit_at_most"].mark is Mark.UNKNOWN
    assert found["two_are_lit_at_most"].note == "given one_is_lit, not proved"
    assert found["one_is_lit"].note == "not inductive: switch_on"


def test_an_action_that_can_never_be_taken_fails_the_proof() -> None:
    """A vacuous action is reported, and is a failure."""
    spec = LAMPS.replace("Never", switch_off=never).with_properties(nothing_is_counted_back)

    found = {f.row: f for f in proved("x", prove(spec))}

    assert found[ALLOWED].standing is Standing.FAILS
    assert "switch_off" in found[ALLOWED].note


# ── Plans ───────────────────────────────────────────────────────────────────────────────────


def plan(*runs: Callable[[Tell], Result]) -> Plan:
    """A plan of nothing but these."""
    return Plan("toy", tuple(Check(f"check {n}", run) for n, run in enumerate(runs)))


def finds(mark: Mark) -> Callable[[Tell], Result]:
    """A check that finds one thing."""
    found = Finding(subject="verified", row=mark.name, kind="check", mark=mark, bounds="")

    def run(tell: Tell) -> Result:
        tell("looking", 0.5)
        return Result((found,), "looked")

    return run


def says_nothing(tell: Tell) -> Result:
    """A check that finds nothing to say."""
    tell("nothing", None)
    return Result((), "")


def cannot_run(tell: Tell) -> Result:
    """A check that wants what is not there."""
    raise LookupError("no Java")


@pytest.mark.parametrize(
    ("runs", "standing"),
    [
        ((), Standing.UNKNOWN),
        ((finds(Mark.PROVED), finds(Mark.CONFORMS)), Standing.HOLDS),
        ((finds(Mark.PROVED), says_nothing), Standing.UNKNOWN),
        ((finds(Mark.PROVED), cannot_run), Standing.UNKNOWN),
        ((finds(Mark.UNKNOWN), finds(Mark.FAILS)), Standing.FAILS),
    ],
)
def test_a_plan_comes_to_its_worst_verdict(
    runs: tuple[Callable[[Tell], Result], ...], standing: Standing
) -> None:
    """A failure outweighs an unknown; an empty plan or a check that says nothing is no pass."""
    report = verify(plan(*runs), survived=(LookupError,))

    assert report.standing is standing


def test_an_error_that_nobody_expects_is_not_swallowed() -> None:
    """Errors that a plan is not told to survive are the caller's."""
    with pytest.raises(LookupError):
        verify(plan(cannot_run))


def test_progress_is_told_to_who_watches() -> None:
    """Each check's progress goes to the one who watches it."""
    told: list[str] = []

    @contextmanager
    def watch(check: Check) -> Iterator[Tell]:
        def tell(words: str, fraction: float | None) -> None:
            told.append(f"{check.name}: {words}, {fraction}")

        yield tell

    verify(plan(says_nothing), watch)

    assert told == ["check 0: nothing, None"]


def test_the_checks_of_a_spec_tell_their_progress() -> None:
    """Explorations tell levels, proofs the fraction of their obligations, up to all of them."""
    told: list[tuple[str, float | None]] = []
    spec = LAMPS.with_properties(nothing_is_counted_back)

    exploration(CheckConfig("x", spec, {"Lamp": 2}, 0)).run(lambda w, f: told.append((w, f)))
    proof("x", spec, ()).run(lambda w, f: told.append((w, f)))

    assert told[0] == ("level 1, 2 states, 1 to expand", None)
    assert told[-1][1] == 1.0


def test_a_further_check_joins_the_plan() -> None:
    """Whoever has more to check adds it to the plan."""
    more = Check("more", finds(Mark.FAILS))

    assert verify(plan(finds(Mark.PROVED)).also(more)).standing is Standing.FAILS


def test_an_unknown_protocol_is_told_the_known_ones() -> None:
    """A mistyped name is refused with the known ones."""
    with pytest.raises(UsageError, match="known ones: central_coordinator, election"):
        plan_of("electoin", QUICK)


# ── Mistakes ────────────────────────────────────────────────────────────────────────────────


class Tally(Spec):
    """A tally is counted up to two, and wiped."""

    count: Nat = 0
    shown: bool = False

    @action
    def add(self) -> None:
        """One more."""
        require(self.count < 2)
        self.count += 1
        self.shown = True

    @action
    def wipe(self) -> None:
        """All gone."""
        require(self.count > 0)
        self.count = 0


@sometimes
def it_is_full(s: Tally) -> bool:
    """Two were counted."""
    return s.count == 2


@recoverable
def it_can_be_wiped(s: Tally) -> bool:
    """It can always be wiped."""
    return s.count == 0


TALLY = specification(Tally, it_is_full, it_can_be_wiped)
Reasons = dict[str, str]
NOT_ASKED = 2


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    """Calls `verify --mutate` for a protocol of this spec alone, with these reasons."""
    plan = Plan("tally", (), specs={"verified": TALLY})
    monkeypatch.setattr(plans, "PROCESSES", 1)  # another process would know the real ones only

    def run(reasons: Reasons, *options: str) -> Run:
        monkeypatch.setattr(sys.modules[__name__], "SURVIVORS", {"Tally": reasons}, raising=False)
        return CliRunner().invoke(app, ["verify", "tally", "--mutate", *options])

    with entered(tally=planned(plan)):
        yield run


ACCEPTED = {
    "add: `self.count += 1` becomes `self.count += 2`": "tallies are rough",
    "add: skip `self.shown = True`": "only people read it",
    "wipe: `self.count > 0` becomes `self.count > 1`": "tallies are rough",
}
BEYOND = {
    "add: drop `self.count < 2`": "it has no end",
    "add: `self.count < 2` becomes `self.count <= 2`": "it goes on to three",
    "add: `self.count < 2` becomes `self.count < 3`": "it goes on to three",
}


def test_a_protocols_mistakes_are_a_row_with_the_score(tally: Callable[..., Run]) -> None:
    """With `--mutate`, a protocol's table says how many mistakes its properties notice."""
    done = tally({**ACCEPTED, **BEYOND}, "--no-cache")

    assert done.exit_code == Standing.HOLDS.value, done.output
    assert "mistakes are noticed" in done.stdout
    assert "○ 7 of 10 killed (70 %), the only size" in done.stdout
    assert "3 accepted with a reason, 3 unknown (3 accepted with a reason)" in done.stdout
    assert plan_of("tally", QUICK).checks == ()


@pytest.mark.parametrize(
    ("reasons", "standing", "said"),
    [
        (BEYOND, Standing.FAILS, "3 holes, 7 of 10 killed"),
        (ACCEPTED, Standing.UNKNOWN, "3 unknown"),
        (
            {**ACCEPTED, **BEYOND, "wipe: skip `self.count = 0`": "why not"}, Standing.FAILS,
            "1 reason to be removed",
        ),
    ],
    ids=["a hole", "undecided", "stale"],
)  # fmt: skip
def test_mistakes_without_and_reasons_without_each_other_fail(
    tally: Callable[..., Run], reasons: Reasons, standing: Standing, said: str
) -> None:
    """A survivor without a reason, or a reason without a survivor, fails; undecided is unknown."""
    done = tally(reasons, "--no-cache")

    assert done.exit_code == standing.value
    assert said in done.stdout


def test_a_score_is_kept_until_a_reason_changes(tally: Callable[..., Run], tmp_path: Path) -> None:
    """Nothing is judged twice, but reasons are part of what a verdict rests on."""
    kept = ("--cache", str(tmp_path))
    reasons = {**ACCEPTED, **BEYOND}

    outputs = [tally(reasons, *kept).stdout, tally(reasons, *kept).stdout]

    assert ["(kept)" in text for text in outputs] == [False, True]
    assert tally(BEYOND, *kept).exit_code == Standing.FAILS.value


def test_a_protocols_size_stays_its_own(tally: Callable[..., Run]) -> None:
    """`--mutate` goes with a protocol; the sizes of one's own specs do not."""
    assert tally({}, "--no-cache", "--faults", "2").exit_code == NOT_ASKED


# ── Election ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def report() -> PlanReport:
    """The election's plan, carried out at the small size."""
    return verify(plan_of("election", QUICK))


def test_the_election_is_as_declared(report: PlanReport) -> None:
    """The verified election holds, and the drafted and flawed ones fail just as declared."""
    wrong = [f for f in report.findings if f.standing is not Standing.HOLDS]

    assert wrong == []
    assert report.standing is Standing.HOLDS


def test_every_declared_failure_is_found(report: PlanReport) -> None:
    """Each failure that is declared of a draft or a flaw is a finding of its own."""
    found = {(f.subject, f.row): f.found for f in report.findings if f.is_expected_failure}
    declared = {("drafted", row): failure for row, failure in DRAFTED.failures.items()}
    declared |= {("verified", row): failure for row, failure in AT_ONCE.items()}
    for name, flaw in FLAWS.items():
        declared |= {(name, row): failure for row, failure in flaw.failures.items()}

    assert found == {at: Shown(f.steps, f.last) for at, f in declared.items()}


def test_the_verified_promises_are_proved_and_explored(report: PlanReport) -> None:
    """Each promise of the verified election is both proved and explored, but the declared one."""
    marks: dict[str, set[Mark]] = {}
    for f in report.of("verified"):
        marks.setdefault(f.row, set()).add(f.mark)
    both = [p.name for p in ELECTION.properties if p.expectation.value in ("always", "step")]

    for name in set(both) - set(AT_ONCE):
        assert marks[name] == {Mark.PROVED, Mark.EXHAUSTED}
    assert marks["refines ElectionContract"] == {Mark.PROVED, Mark.EXHAUSTED}


def test_the_spec_says_what_it_assumes_and_leaves_out(report: PlanReport) -> None:
    """The spec's own words on assumptions and omissions stand beside its verdicts."""
    assert report.plan.assumed.startswith("ZooKeeper is linearizable")
    assert "\n" not in report.plan.assumed
    assert "clocks" in report.plan.not_modelled
    assert "Not modelled" not in report.plan.assumed
    assert said_of(LAMPS) == ("", "")


def trusting_write(self: Election, b: Broker) -> bool:
    """A write is accepted, whoever's it is."""
    return True


def test_a_broken_spec_turns_verify_red() -> None:
    """With one mistake in the verified election, the plan's verdict is a failure that names it."""
    broken = ELECTION.replace("Broken", accepts_write=trusting_write)
    whole = usual(replace(election_plan.PROTOCOL, verified=lambda: broken), QUICK)
    small = replace(whole, checks=whole.checks[:1])  # the other checks are as they were

    report = verify(small)

    assert report.standing is Standing.FAILS
    wrong = {f.row for f in report.findings if f.standing is Standing.FAILS}
    assert "only_the_present_epoch_writes" in wrong


def test_a_flaw_that_is_declared_otherwise_turns_verify_red() -> None:
    """A flaw whose counterexample is another than declared is a failure."""
    flaw = FLAWS["no_watch"]
    wrongly = replace(flaw, failures={**flaw.failures, "epochs_grow": Failure(3, "resign")})

    [check] = flawed("no_watch", wrongly)
    result = check.run(nobody)

    wrong = [f for f in result.findings if f.standing is not Standing.HOLDS]
    assert [(f.row, f.expected) for f in wrong] == [("epochs_grow", Shown(3, "resign"))]


def test_numbers_come_with_their_nouns() -> None:
    """One is singular, others are plural, thousands are grouped."""
    assert counted(1, "step") == "1 step"
    assert counted(2_000, "step") == "2,000 steps"
    assert counted(2, "property") == "2 properties"
