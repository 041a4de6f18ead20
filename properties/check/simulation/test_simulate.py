"""The *simulate* reading: what walks find is real, and what they do not find is never a pass."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from herdproof.cli import app
from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    Specification,
    UpTo,
    action,
    always,
    each,
    empty,
    fault,
    from_source,
    initial,
    require,
    specification,
    step,
)
from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.run import Machine
from herdspec.check.simulation.simulate import (
    Retold,
    Simulation,
    simulate,
    starts_of,
    walkers_for,
    watched,
)
from herdspec.check.simulation.walks import Herd, RandomChoices
from herdspec.engine.columns import Columns
from herdspec.engine.ground import Ground, SlotKey
from herdspec.engine.rows import Text, emitted
from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.surface import Expectation
from herdspec.language.types import BOOL, NAT
from herdspec.protocols.election.flaws import FLAWS
from herdspec.protocols.election.properties import ELECTION
from properties.engine import readings
from properties.language.random_specs import sources
from properties.specs import (
    LOCK_SERVER,
    TWO_PHASE_COMMIT,
    Client,
    Counter,
    LockServer,
    it_gets_to_four,
    it_gets_to_three,
    it_never_counts_to_two,
    never_above_one,
    never_above_three,
)

FEW = 20_000


class Door(Sort):
    """A door."""


class House(Spec):
    """A house with doors, some of which jam."""

    open: dict[Door, bool] = each(False)
    jams: Nat = 0

    @action
    def push(self, d: Door) -> None:
        """{d} opens."""
        require(not self.open[d])
        self.open[d] = True

    @action
    def pull(self, d: Door) -> None:
        """{d} closes."""
        require(self.open[d])
        self.open[d] = False

    @action(kind=fault)
    def jam(self, d: Door) -> None:
        """{d} jams."""
        require(self.open[d])
        self.jams += 1


@always
def not_all_doors_are_open(s: House) -> bool:
    """Some door is shut (not always)."""
    return any(not s.open[d] for d in Door)


@step
def doors_never_close(before: House, after: House) -> bool:
    """What is open stays open (it does not)."""
    return all(after.open[d] or not before.open[d] for d in Door)


HOUSE = specification(House, not_all_doors_are_open, doors_never_close)


def careless_grant(self: LockServer, c: Client) -> None:
    """The server grants the lock to {c}, wherever it is."""
    require(self.asked[c])
    self.asked[c] = False
    self.granted[c] = True


def walked(spec: Specification, size: int = 2, **options: Any) -> Simulation:
    """A short simulation."""
    options = {"faults": 2, "steps": FEW, "seed": 1, "length": 40} | options
    return simulate(spec, dict.fromkeys(spec.sorts, size), **options)


def herd_of(spec: Specification, size: int, faults: int, seed: int = 1) -> tuple[Herd, Machine]:
    """Walkers to be moved by hand."""
    machine = Machine(Ground(spec, dict.fromkeys(spec.sorts, size), faults + 1, faults))
    starts = starts_of(machine)
    herd = Herd(
        machine.ground, starts, watched(machine.ground), walkers=64, length=30, seed=seed, asked={}
    )
    return herd, machine


# ── What is found ───────────────────────────────────────────────────────────────────────────


def test_a_broken_invariant_is_found_and_shortened() -> None:
    """A broken invariant is found, and its story has no step that it could do without."""
    story = walked(HOUSE).violations["not_all_doors_are_open"]
    assert sorted(story.labels) == ["push(door1)", "push(door2)"]


def test_no_step_of_a_story_can_be_left_out() -> None:
    """However long the walk was, of its shortened story no step can be left out."""
    spec = LOCK_SERVER.replace("Careless", grant=careless_grant)
    found = walked(spec, 3, walkers=1, length=200, steps=2000)
    assert found.violations
    machine = Machine(Ground(spec, found.sizes, found.bound, found.faults))
    for name, story in found.violations.items():
        again = Retold(machine, np.array([machine.numbers(story.initial)]), name)
        for k in range(len(story.steps)):
            rest = [(s.action, s.arguments) for s in [*story.steps[:k], *story.steps[k + 1 :]]]
            assert again.run(story.initial, rest) is None, (name, k)


def test_a_broken_promise_about_steps_is_found() -> None:
    """A step that breaks a promise is the last of its story."""
    story = walked(HOUSE).violations["doors_never_close"]
    assert [label.partition("(")[0] for label in story.labels] == ["push", "pull"]


def test_every_flaw_of_the_counter_is_found() -> None:
    """Every flaw of the counter is found: its deadlock, its invariant and its step."""
    spec = specification(
        Counter, never_above_three, never_above_one, it_never_counts_to_two, it_gets_to_three,
        it_gets_to_four,
    )  # fmt: skip
    found = walked(spec, steps=1000, faults=2, bound=5)
    assert {name: len(s.steps) for name, s in found.violations.items()} == {
        "never_above_one": 2, "it_never_counts_to_two": 2,
    }  # fmt: skip
    assert found.deadlock is not None
    assert len(found.deadlock.steps) == 3
    assert (found.seen, found.unseen) == (["it_gets_to_three"], ["it_gets_to_four"])


def test_a_flaw_of_the_lock_server_is_found() -> None:
    """A lock server that grants a lock that it has not is found out."""
    found = walked(LOCK_SERVER.replace("Careless", grant=careless_grant))
    assert set(found.violations) == {"one_client_at_a_time", "the_lock_is_in_one_place"}
    assert found.unjudged == ["the_server_gets_its_lock_back"]


@pytest.mark.parametrize(
    ("flaw", "broken"),
    [
        ("uncounted_epoch", "epochs_grow"),
        ("believes_lost_reply", "only_who_is_sure_leads"),
    ],
)
def test_declared_flaws_of_the_election_are_found(flaw: str, broken: str) -> None:
    """Declared flaws of the election are found, never by fewer steps than a shortest story has."""
    declared = FLAWS[flaw]
    found = simulate(declared.spec, {"Broker": 2}, faults=declared.faults, steps=60_000, seed=3)
    assert len(found.violations[broken].steps) >= declared.failures[broken].steps


def test_every_story_ends_where_the_plain_python_says_that_it_fails() -> None:
    """Every story fails at its end, in the plain Python, and nowhere before."""
    for spec in (HOUSE, LOCK_SERVER.replace("Careless", grant=careless_grant)):
        found = walked(spec)
        machine = Machine(Ground(spec, found.sizes, found.bound, found.faults))
        assert found.violations
        for name, story in found.violations.items():
            states = [story.initial, *(s.state for s in story.steps)]
            pairs = list(pairwise(states))
            promise = spec.promise(name)
            of_steps = promise.expectation is Expectation.STEP
            looked: list[Any] = pairs if of_steps else [(s,) for s in states]
            truth = [machine.holds(promise, *of) for of in looked]
            assert truth == [True] * (len(truth) - 1) + [False], name


class Bag(Spec):
    """A bag of sweets that somebody eats from without looking."""

    sweets: Annotated[Nat, UpTo(2)] = 0
    wishes: Annotated[list[bool], Capacity(2)] = empty()

    @initial
    def filled(self, two: bool) -> None:
        """There are one or two sweets."""
        self.sweets = 2 if two else 1

    @action
    def eat(self) -> None:
        """A sweet is eaten."""
        self.sweets = self.sweets - 1

    @action
    def wish(self, much: bool) -> None:
        """Somebody wishes."""
        if much:
            self.wishes.append(True)
        else:
            self.wishes.append(False)


BAG = specification(Bag)


def test_a_step_without_a_meaning_is_found() -> None:
    """A step that looks at what is not there is found, and named last."""
    found = walked(BAG)
    story = found.violations["every_value_is_defined"]
    assert story.labels == ["eat()"] * (len(story.steps))
    assert len(story.steps) in (2, 3)  # from one sweet, or from two


def test_messages_beyond_the_capacity_are_dropped_and_counted() -> None:
    """What does not fit a channel is not sent, counted, and no failure."""
    found = walked(BAG, weights={"eat": 0})
    assert found.dropped > 0
    assert not found.violations
    assert found.taken["wish"] > 0


def test_branches_that_no_step_took_are_named() -> None:
    """Branches that no step took are listed by their lines, others are not."""
    assert walked(BAG, weights={"eat": 0}).untaken == {}
    few = walked(specification(Vain), steps=200)
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert [source[line - 1].strip() for line in few.untaken["look"]] == ["self.on = True"]


class Vain(Spec):
    """A spec with a branch that is never taken."""

    on: bool = False

    @action
    def look(self) -> None:
        """It looks."""
        if self.on:
            self.on = True


# ── What is not found is no pass ────────────────────────────────────────────────────────────


def test_nothing_found_is_said_as_just_that() -> None:
    """Where nothing breaks, it says in how many steps, and never that it holds."""
    found = walked(TWO_PHASE_COMMIT, 3)
    assert not found.violations
    assert found.deadlock is None
    assert found.verdict == (f"found in {found.steps:,} steps of {found.walks:,} walks: nothing")
    assert found.steps >= FEW


def test_what_walks_cannot_judge_is_listed() -> None:
    """What must stay reachable is not judged by walks, and listed as such."""
    assert walked(LOCK_SERVER, steps=500).unjudged == ["the_server_gets_its_lock_back"]


# ── Walks are runs of the spec ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", [HOUSE, LOCK_SERVER, TWO_PHASE_COMMIT], ids=lambda s: s.name)
def test_every_simulated_state_is_reachable(spec: Specification) -> None:
    """Every state of every walker is among those that the exploration finds, faults counted."""
    herd, _ = herd_of(spec, 2, faults=2)
    explorer = Explorer(spec, herd.ground.sizes, 2, symmetry=False)
    explorer.run()
    reachable = {explorer.packing.unpack(row) for row in explorer.rows}
    for _ in range(60):
        herd.round()
        assert {tuple(map(int, column)) for column in herd.now.T} <= reachable


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=sources())
def test_walks_through_random_specs_find_what_exploration_finds(text: str) -> None:
    """In a random spec, walks stay among the reachable states, and find no failure but its own."""
    ex = readings.explorer(from_source(text, "Random"))
    ex.memory_bytes = 1 << 22
    try:
        known = ex.run()
    except UsageError:  # it has no initial state
        return
    if known.truncated:
        return
    reachable = {ex.packing.unpack(row) for row in ex.rows}
    herd, _ = herd_of(ex.ground.spec, 2, readings.FAULTS)
    for _ in range(8):
        herd.round()
        assert {tuple(map(int, column)) for column in herd.now.T} <= reachable
    found = simulate(ex.ground.spec, ex.ground.sizes, faults=readings.FAULTS, steps=500, length=20)
    shortest = {name: len(story.steps) for name, story in known.violations.items()}
    for name, story in found.violations.items():
        assert len(story.steps) >= shortest[name]
    assert found.deadlock is None or known.deadlock is not None


@pytest.mark.parametrize("spec", [LOCK_SERVER, BAG], ids=lambda s: s.name)
def test_every_walk_that_is_kept_replays_in_the_plain_python(spec: Specification) -> None:
    """What is written down of a walker leads, in the plain Python, to just its state."""
    herd, machine = herd_of(spec, 3, faults=3)
    for _ in range(25):
        herd.round()
    for w in range(len(herd.at)):
        state, taken = list(machine.starts())[herd.start[w]], 0
        for number in herd.history[: herd.at[w], w]:
            instance = herd.instances[number]
            arguments = machine.arguments(instance.action, instance.arguments)
            after = machine.take(state, instance.action.name, arguments)
            assert after is not None
            state, taken = after, taken + instance.action.disturbs
        assert machine.numbers(state, taken) == tuple(map(int, herd.now[:, w]))


def test_the_same_seed_walks_the_same_walks() -> None:
    """The same seed gives the same result in everything but the time; another gives another."""
    one, again, other = walked(HOUSE), walked(HOUSE), walked(HOUSE, seed=2)
    assert replace(one, seconds=0, violations={}) == replace(again, seconds=0, violations={})
    told = [{n: s.labels for n, s in r.violations.items()} for r in (one, again)]
    assert told[0] == told[1]
    assert one.taken != other.taken


def test_the_budget_of_faults_binds_each_walk() -> None:
    """No walk takes more faults than its budget, and some spend all of it."""
    herd, _ = herd_of(HOUSE, 2, faults=2)
    spent = set()
    for _ in range(40):
        herd.round()
        spent |= {int(n) for n in herd.now[-1]}
    assert spent == {0, 1, 2}


def test_steps_beyond_the_bound_are_dropped_and_counted() -> None:
    """A step beyond the bound of naturals is not taken, counted, and no deadlock."""
    found = walked(specification(Counter, never_above_three), bound=2, steps=2000)
    assert found.dropped > 0
    assert found.deadlock is None


def test_the_number_of_states_is_estimated_within_a_few_percent() -> None:
    """Once every state was seen, the estimate is within 5 % of their number."""
    explorer = Explorer(LOCK_SERVER, {"Client": 4}, 3, symmetry=False)
    states = explorer.run().states
    found = walked(LOCK_SERVER, 4, faults=3, steps=400_000)
    assert abs(found.distinct - states) <= 0.05 * states


# ── The functions that walks are made of ────────────────────────────────────────────────────


def slots(count: int) -> list[Expr]:
    """So many leaves of bytes, and so many of truth values."""
    bytes_ = [g.node("slot", NAT, data=("n", (k,))) for k in range(count)]
    return [*bytes_, *(g.node("slot", BOOL, data=("b", (k,))) for k in range(count))]


N0, N1, B0, B1 = slots(2)
ORDER: dict[SlotKey, int] = {
    key: k for k, key in enumerate([("n", (0,)), ("n", (1,)), ("b", (0,)), ("b", (1,))])
}
OPERATORS = {
    "slot": (N1, "n"),
    "not": (g.negate(B0), "not a"),
    "and": (g.conj(B0, B1), "a and b"),
    "or": (g.disj(B0, B1), "a or b"),
    "ite": (g.ite(B0, N0, g.const(NAT, 300)), "m if a else 300"),
    "eq": (g.eq(N0, N1), "m == n"),
    "le": (g.le(N0, N1), "m <= n"),
    "add": (g.add(N0, 255), "m + 255"),
    "plus": (g.plus(N0, N1), "m + n"),
    "minus": (g.minus(N0, N1), "m - n"),
    "count": (g.count([B0, B1]), "a + b"),
}


def agrees(e: Expr, expected: str) -> bool:
    """Whether the function says of a few states what this Python says."""
    states = list(product((0, 1, 255), (0, 1, 2, 255), (False, True), (False, True)))
    table = np.array(states, np.uint8).T.copy()
    picked = np.arange(0, len(states), 2)
    whole, some = (emitted([e], ORDER)(table, None, of)[0] for of in (slice(None), picked))
    said = [eval(expected, dict(zip("mnab", state, strict=True))) for state in states]
    return bool((whole == said).all() and (some == np.array(said)[picked]).all())


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_means_what_it_should(name: str) -> None:
    """Every operator gives what Python says, over bytes, of all states and of some."""
    e, expected = OPERATORS[name]
    assert e.op == name
    assert agrees(e, expected)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_that_goes_wrong_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that gives something else is noticed by the test above."""
    e, expected = OPERATORS[name]
    said = Text._said

    def mistaken(self: Text, of: Expr, parts: list[str]) -> str:
        return f"1 - ({said(self, of, parts)}).astype(int)" if of is e else said(self, of, parts)

    monkeypatch.setattr(Text, "_said", mistaken)
    assert not agrees(e, expected)


@pytest.mark.parametrize("spec", [ELECTION, LOCK_SERVER, BAG], ids=lambda s: s.name)
def test_walks_and_columns_evaluate_a_spec_alike(spec: Specification) -> None:
    """Of arbitrary states, the functions of walks say what the columns say."""
    ex = Explorer(spec, dict.fromkeys(spec.sorts, 2), 2, symmetry=False)
    places = list(ex.ground.slots.values())
    chance = np.random.default_rng(1)
    table = np.array([chance.integers(0, s.values, 50) for s in places]).astype(np.uint8)
    rows = np.concatenate([ex.packing.pack([int(n) for n in state]) for state in table.T])
    wanted = [e for i in ex.ground.instances for e in (i.guard, *i.updates.values())]
    wanted += [e for p, e in ex.formulas.items() if not g.leaves(e, "slot after")]
    columns = Columns(ex.packing, rows)
    order = {key: k for k, key in enumerate(ex.ground.slots)}
    for e, found in zip(wanted, emitted(wanted, order)(table, None, slice(None)), strict=True):
        assert (found == columns.of(e)).all(), e


# ── Chance ──────────────────────────────────────────────────────────────────────────────────


def test_an_action_of_weight_zero_is_never_taken_and_no_deadlock() -> None:
    """An action of weight 0 is never taken; that it is possible still counts."""
    found = walked(specification(Counter, never_above_three), weights={"tick": 0}, steps=100)
    assert (found.steps, found.taken, found.deadlock) == (0, {"tick": 0}, None)
    doors = walked(HOUSE, weights={"pull": 0})
    assert doors.taken["pull"] == 0
    assert doors.taken["push"] > 0


def test_a_heavier_action_is_taken_more_often() -> None:
    """A weight makes an action likelier than it was."""
    plain, heavy = walked(LOCK_SERVER), walked(LOCK_SERVER, weights={"lose_request": 50})
    assert heavy.taken["lose_request"] > plain.taken["lose_request"]


def test_what_was_rarely_taken_weighs_more() -> None:
    """The weights follow coverage: what was rarely taken weighs more, up to a limit."""
    chance = RandomChoices([(0, 1), (1, 2), (2, 3)], [False] * 3, [1.0, 1.0, 2.0], seed=1)
    chance.taken[:] = [10_000, 10, 10]
    chance.reweigh()
    usual, rare, asked = chance.weights
    assert usual < rare < asked
    assert asked == pytest.approx(2 * rare)


def test_every_possible_instance_is_chosen_sometimes() -> None:
    """Each possible instance is chosen at times, an impossible one never."""
    chance = RandomChoices([(0, 3)], [False], [1.0], seed=1)
    enabled = np.array([[True], [False], [True]]).repeat(200, axis=1)
    chosen = chance.instances(enabled, 0, np.arange(200))
    assert set(chosen.tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": {"fly": 2}}, "there is no action 'fly'"),
        ({"weights": {"push": -1}}, "at least 0"),
        ({"steps": 0}, "at least 1 of each"),
    ],
)
def test_what_cannot_be_walked_is_refused(options: dict[str, Any], said: str) -> None:
    """An unknown action, a negative weight and no steps at all are refused in words."""
    with pytest.raises(UsageError, match=said):
        walked(HOUSE, **options)


@initial
def nothing(self: Stone) -> None:
    """It never begins."""
    require(not self.lies)


def test_a_spec_without_initial_states_is_refused() -> None:
    """Where no initial state is possible there is no walk, and that is said."""
    with pytest.raises(UsageError, match="no initial state here"):
        walked(specification(Stone).add("Nothing", begin=nothing))


class Stone(Spec):
    """A stone, which does nothing."""

    lies: bool = True

    @action
    def roll(self) -> None:
        """It rolls."""
        require(False)
        self.lies = False


def test_a_spec_that_cannot_move_ends_at_once() -> None:
    """Where no action is ever possible the start is a deadlock, and walking ends."""
    found = walked(specification(Stone))
    assert (found.steps, found.taken) == (0, {"roll": 0})
    assert found.deadlock is not None
    assert found.deadlock.steps == []


def test_a_lone_walker_goes_on_after_a_step_beyond_the_bound() -> None:
    """A round in which nobody could go on is no reason to give up: the next begins anew."""
    found = walked(specification(Counter, never_above_three), bound=1, steps=50, walkers=1)
    assert found.steps == 50
    assert found.dropped > 0


def test_few_steps_take_few_walkers() -> None:
    """There are never so many walkers that their walks could not become long, nor too many."""
    assert walkers_for(10**9, 100, instances=10**6) == 128
    assert [walkers_for(n, 100) for n in (1, 100, 1000, 10**6, 10**9)] == [1, 1, 8, 8192, 65536]


# ── The command ─────────────────────────────────────────────────────────────────────────────


def test_the_command_tells_what_it_found(tmp_path: Path) -> None:
    """`herdproof simulate` ends with 1 where it found something, and tells the story."""
    file = tmp_path / "found.json"
    arguments = ["simulate", "election/uncounted_epoch", "--steps", "50000", "--seed", "3"]
    declared = CliRunner().invoke(app, [*arguments, "--may-end", "--json", str(file)])
    assert declared.exit_code == 0, declared.output
    assert "epochs grow, broken after" in declared.output
    assert "(declared)" in declared.output
    assert json.loads(file.read_text())["failures"] == []


def test_the_command_never_says_that_it_holds(tmp_path: Path) -> None:
    """Where nothing is found the command ends with 0, and says that this proves nothing."""
    done = CliRunner().invoke(app, ["simulate", "election-contract", "--steps", "2000"])
    assert done.exit_code == 0, done.output
    assert "which proves nothing" in done.output
    assert "holds" not in done.output


def test_the_command_refuses_a_weight_that_is_no_number() -> None:
    """A weight that is no number is a usage error, exit 2."""
    done = CliRunner().invoke(app, ["simulate", "election", "--weight", "cut=much"])
    assert done.exit_code == 2
