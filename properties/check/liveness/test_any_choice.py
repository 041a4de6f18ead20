"""Fairness of any choice beside that of each, and what holds from some time on for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdproof.report.render import findings_json
from herdspec import SpecError, UsageError, action, from_source, specification
from herdspec.check.digest import digest
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.fair import Lasso
from herdspec.check.liveness.liveness import Liveness, liveness
from herdspec.check.mutation.mutants import mutants
from herdspec.check.proof.prove import prove
from herdspec.check.refinement.mixed_versions import together
from herdspec.check.running.replay import Expect, replay, story_file
from herdspec.check.running.run import Machine
from herdspec.check.simulation.search import search
from herdspec.check.simulation.simulate import simulate
from herdspec.check.verdict import Mark, Standing, lived
from herdspec.engine.ground import Ground
from herdspec.language.surface import Fairness, strong, weak
from properties.check.liveness.any_choice import (
    COUNTER,
    GATE,
    TRAFFIC,
    Counter,
    Growing,
    Hall,
    Traffic,
    each_desk_serves,
    fix,
    flicker,
    it_is_grown,
    it_stays_lit,
    let_pass,
    nobody_asks,
    serve,
)
from properties.cli.files import run

TWO = {"Client": 2}
MARKS = list(Fairness)


def counter(mark: Fairness) -> Liveness:
    """The counter whose clerk is as fair as this."""
    return liveness(COUNTER.replace("Variant", serve=action(fair=mark)(serve)), TWO, faults=0)


# ── Any choice, and each ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mark", MARKS)
def test_fairness_of_any_choice_lets_one_starve(mark: Fairness) -> None:
    """Who is fair to any client may serve one for ever; who is fair to each serves all."""
    found = counter(mark)

    starves = ["whoever_asks_is_served"] if mark.is_of_any else []
    assert list(found.violations) == starves
    assert "somebody_is_served" in found.held


@pytest.mark.parametrize("mark", [weak.any, strong.any])
def test_the_story_serves_another_one_again_and_again(mark: Fairness) -> None:
    """The counterexample is a cycle in which the one who starves is always possible."""
    story = counter(mark).violations["whoever_asks_is_served"]

    assert story.about == "c = client1"
    assert [step.label for step in story.cycle] == ["serve(client2)", "ask(client2)"]


@pytest.mark.parametrize(
    ("mark", "held"),
    [
        (weak, []),
        (weak.any, []),
        (strong.any, ["somebody_passes"]),
        (strong, ["it_passes", "somebody_passes"]),
    ],
)
def test_strong_fairness_of_any_choice_needs_no_uninterrupted_chance(
    mark: Fairness, held: list[str]
) -> None:
    """A gate that closes again and again lets somebody pass under strong fairness of any."""
    gate = GATE.replace("Variant", let_pass=action(fair=mark)(let_pass))

    # Of two, the other one comes next; of three, two may take turns for ever.
    assert liveness(gate, {"Client": 3}, faults=0).held == held


def test_choices_that_take_turns_keep_an_action_possible() -> None:
    """Where always some choice is possible, but none without interruption, any is still owed."""
    text = '''
from herdspec import *
class Turns(Spec):
    """Two doors of which always one is open."""
    left: bool = False
    inside: bool = False
    @action(fair=weak)
    def turn(self) -> None:
        """The other one is open."""
        self.left = not self.left
    @action(fair={0})
    def enter(self, through_left: bool) -> None:
        """It goes in."""
        require(self.left == through_left and not self.inside)
        self.inside = True
@eventually
def it_gets_in(s: Turns) -> bool:
    """It gets in."""
    return s.inside
'''
    found = [
        liveness(from_source(text.format(m), "Turns"), {}, faults=0) for m in ("weak", "weak.any")
    ]

    assert list(found[0].violations) == ["it_gets_in"]
    assert found[1].held == ["it_gets_in"]


def test_a_choice_that_changes_nothing_is_no_excuse_for_the_others() -> None:
    """To grow by nothing for ever is not fair to growing (as in TLA+)."""
    assert liveness(specification(Growing, it_is_grown), {}, faults=0).held == ["it_is_grown"]


def test_each_part_is_owed_its_own_fairness() -> None:
    """Any choice of one part's action is no choice of another part's."""
    hall = specification(Hall, each_desk_serves)

    assert liveness(hall, {"Client": 1, "Room": 2}, faults=0).held == ["each_desk_serves"]


def test_the_verdict_says_which_fairness_is_of_any_choice() -> None:
    """A verdict names what is owed to each choice apart from what is owed to any."""
    gate = GATE.replace("Variant", let_pass=action(fair=strong.any)(let_pass))

    assert liveness(gate, TWO, faults=0).fairness == (
        "under weak fairness of turn, for each choice of parameters by itself; "
        "strong fairness of let_pass, for any choice of parameters"
    )
    assert counter(weak.any).fairness == (
        "under weak fairness of serve, for any choice of parameters"
    )


@pytest.mark.parametrize("mark", MARKS)
def test_what_is_fair_in_both_is_a_lasso_of_both(mark: Fairness) -> None:
    """A planted story that serves nobody is refused under each, one that serves all is fair."""
    spec = specification(Counter, nobody_asks)
    variant = spec.replace("Variant", serve=action(fair=mark)(serve))

    story = liveness(variant, TWO, faults=0).violations["nobody_asks"]

    assert "serve" in {step.action.name for step in story.cycle}


def test_a_planted_story_that_is_fair_to_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain Python has the last word about fairness of any choice, too."""
    monkeypatch.setattr("herdspec.check.liveness.liveness.lasso", lambda *_: Lasso(0, [], []))

    with pytest.raises(AssertionError, match="fairness"):
        counter(weak.any)


def test_the_digest_tells_all_four_marks_apart() -> None:
    """Another fairness is another meaning: no kept verdict is taken for it."""
    variants = [COUNTER.replace("Variant", serve=action(fair=m)(serve)) for m in MARKS]

    assert len({digest(v) for v in variants}) == len(MARKS)


def test_mutants_drop_fairness_of_any_choice_too() -> None:
    """The mark is a part of the spec that a mistake may forget."""
    spec = COUNTER.replace("Variant", serve=action(fair=weak.any)(serve))

    dropped = [m for m in mutants(spec) if m.operator == "unfair"]

    assert [m.of(spec).action("serve").fair for m in dropped] == [None]


def test_members_of_two_marks_keep_each_its_own_in_a_mix() -> None:
    """Old members are fair as the old spec says, new ones as the new one does."""
    new = COUNTER.replace("New", serve=action(fair=weak.any)(serve))

    mixed = together(COUNTER, new, "Client").spec

    assert mixed.action("serve").fair is weak.any
    assert mixed.action("serve_as_old").fair is weak


def test_a_saved_story_is_judged_by_the_same_fairness() -> None:
    """Replayed from its file, a story is fair to any choice, and not fair to each."""
    fair_to_any = COUNTER.replace("Variant", serve=action(fair=weak.any)(serve))
    found = liveness(fair_to_any, TWO, faults=0).violations["whoever_asks_is_served"]
    machine = Machine(Ground(fair_to_any, TWO, 1, 0))
    story = story_file(
        "counter", machine, "whoever_asks_is_served", found.initial, found.steps, back=found.back
    )

    assert replay(story, fair_to_any).outcome is Expect.FAILS
    assert replay(story, COUNTER).outcome is Expect.HOLDS
    assert "not fair to serve(client1)" in replay(story, COUNTER).verdict
    idle = story_file("counter", machine, "whoever_asks_is_served", found.initial, [], back=0)
    assert "not fair to any serve" in replay(idle, fair_to_any).verdict


# ── From some time on for ever ──────────────────────────────────────────────────────────────


def test_what_comes_and_goes_is_not_eventually_always() -> None:
    """A lamp that flickers for ever is lit at last, and not for ever."""
    found = liveness(TRAFFIC, {}, faults=0)

    assert found.held == ["it_is_lit"]
    assert found.violations["it_stays_lit"].lines == [
        "     and now for ever:",
        "  1. It flickers.  [flicker()]",
        "       lit: False → True",
        "  2. It flickers.  [flicker()]",
        "       lit: True → False",
    ]


def test_what_is_fixed_at_last_is_eventually_always() -> None:
    """Under strong fairness the lamp is fixed at last, and then lit for ever."""
    firm = TRAFFIC.replace("Firm", fix=action(fair=strong)(fix))

    assert liveness(firm, {}, faults=0).held == ["it_is_lit", "it_stays_lit"]


def test_what_rests_without_it_is_a_counterexample() -> None:
    """Where nothing fair is possible, a behaviour may stay for ever in a state without it."""
    still = TRAFFIC.replace("Still", flicker=action(fair=None)(flicker))

    story = liveness(still, {}, faults=0).violations["it_stays_lit"]

    assert story.lines == ["     nothing more happens: flicker() need never happen"]


def test_a_promise_of_elements_is_kept_for_each() -> None:
    """Which element it fails for is said, as of other promises."""
    story = liveness(specification(Counter, nobody_asks), TWO, faults=0).violations["nobody_asks"]

    assert story.about == "c = client1"
    assert {step.label for step in story.cycle} >= {"serve(client1)", "ask(client1)"}


@pytest.mark.parametrize(("planted", "wrong"), [
    (Lasso(0, [0], [1]), "recurs ends where it began"),
    (Lasso(0, [0], []), "a premise or a goal"),
])  # fmt: skip
def test_a_planted_lasso_that_keeps_it_is_refused(
    planted: Lasso, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A story that ends in states that have it shows nothing, and is not told."""
    monkeypatch.setattr("herdspec.check.liveness.liveness.lasso", lambda *_: planted)

    with pytest.raises(AssertionError, match=wrong):
        liveness(specification(Traffic, it_stays_lit), {}, faults=0)


def test_a_saved_story_of_it_fails_again_and_holds_where_it_is_fixed() -> None:
    """A story file of kind `eventually always` is replayed like any other."""
    found = liveness(TRAFFIC, {}, faults=0).violations["it_stays_lit"]
    machine = Machine(Ground(TRAFFIC, {}, 1, 0))
    story = story_file(
        "traffic", machine, "it_stays_lit", found.initial, found.steps, back=found.back
    )
    [flick] = [s for s in machine.steps(machine.initial()) if s.action.name == "flicker"]
    [fixed] = [s for s in machine.steps(flick.state) if s.action.name == "fix"]
    other = story_file(
        "traffic", machine, "it_stays_lit", machine.initial(), [flick, fixed], back=2
    )

    assert replay(story, TRAFFIC).verdict == "still fails: again and again it is not so"
    assert replay(other, TRAFFIC).outcome is Expect.HOLDS


def test_it_is_a_row_of_the_verdicts() -> None:
    """Its kind is "eventually always"; it fails with a story that repeats, or holds."""
    rows = {f.row: f for f in lived("traffic", liveness(TRAFFIC, {}, faults=0), {})}

    finding = rows["it_stays_lit"]
    assert (finding.kind, finding.mark, finding.repeats) == ("eventually always", Mark.FAILS, 0)
    assert findings_json([finding])[0]["kind"] == "eventually always"


def test_what_cannot_judge_it_says_so() -> None:
    """Exploring leaves it undecided, walks say that they do not judge it, proofs refuse."""
    assert explore(TRAFFIC, {}, faults=0).undecided == ["it_is_lit", "it_stays_lit"]
    assert simulate(TRAFFIC, {}, faults=0, steps=50).unjudged == ["it_is_lit", "it_stays_lit"]
    assert prove(TRAFFIC).promises == ()
    with pytest.raises(UsageError, match="no @always or @step promise"):
        search(TRAFFIC, {}, faults=0, depth=2)


def test_it_takes_a_state_and_elements_only() -> None:
    """A number to range over is refused, as in `eventually`."""
    text = '''
from herdspec import *
class One(Spec):
    """One."""
    lit: bool = False
    @action
    def light(self) -> None:
        """Lit."""
        self.lit = True
@eventually_always
def stays(s: One, n: Nat) -> bool:
    """Stays."""
    return s.lit
'''
    with pytest.raises(SpecError, match="range over a Sort, an Enum or bool"):
        from_source(text, "One")


def test_verify_judges_it_from_a_file(tmp_path: Path) -> None:
    """`verify` has a row for it, and exits 1 where it fails."""
    source = Path(__file__).with_name("any_choice.py").read_text()
    (tmp_path / "lamps.py").write_text(source)

    done = run("verify", f"{tmp_path / 'lamps.py'}:TRAFFIC", "--no-prove")

    assert done.exit_code == Standing.FAILS.value
    assert 'broken: "From some time on it is lit for ever."' in done.output
