"""The *refine* reading: the verified election is the contract's, and no easier map passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    UsageError,
    action,
    each,
    initial,
    require,
    specification,
)
from herdspec.check.proof.prove import SolverAnswer
from herdspec.check.refinement.refine import (
    STUTTER,
    Refined,
    Refinement,
    refine_by_exploration,
    refine_by_proof,
    refine_by_running,
)
from herdspec.protocols.election.contract import CONTRACT
from herdspec.protocols.election.flaws import AT_ONCE, any_write
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.refinement import REFINEMENT
from herdspec.protocols.election.spec import Broker, Election

Map = Callable[..., object]


def explored(refinement: Refinement) -> Refined:
    """The check of every step at two brokers and two faults."""
    return refine_by_exploration(refinement, {"Broker": 2}, faults=2)


def story(found: Refined) -> list[str]:
    """The story of the first step that has no meaning."""
    assert found.exploration is not None
    assert list(found.exploration.violations) == ["refines"]
    return found.exploration.violations["refines"].labels


def broken(refinement: Refinement) -> set[str | None]:
    """The actions that the proof finds a step of that has no meaning; None: the initial state."""
    found = refine_by_proof(refinement, leave_out=frozenset(AT_ONCE), assume=True).obligations
    return {o.action for o in found if o.outcome is not SolverAnswer.PROVED}


def mapped(*functions: Map, **actions: tuple[str, ...]) -> Refinement:
    """The refinement with other functions for some fields, and other meanings of some actions."""
    every = (*REFINEMENT.fields, *functions)
    names = {f if isinstance(f, str) else f.__name__: f for f in every}
    meanings = {**REFINEMENT.actions, **actions}
    return replace(REFINEMENT, fields=tuple(names.values()), actions=meanings)


# ── The election ────────────────────────────────────────────────────────────────────────────


def test_every_explored_step_of_the_election_is_the_contracts() -> None:
    """At two brokers and two faults, every step has its meaning, and every meaning is met."""
    found = explored(REFINEMENT)

    assert found.exploration is not None
    assert found.exploration.complete
    assert not found.exploration.violations
    assert found.idle == []
    assert found.exploration.missing == []
    assert set(found.exploration.witnesses) == {
        "contract: a_broker_leads",
        "contract: an_older_coordinator_still_believes_it_leads",
    }


def test_the_refinement_is_proved_for_any_number_of_brokers() -> None:
    """The initial state and every step of every action are proved to have their meaning."""
    found = refine_by_proof(REFINEMENT, leave_out=frozenset(AT_ONCE))

    assert {o.outcome for o in found.obligations} == {SolverAnswer.PROVED}
    assert len(found.obligations) == 1 + len(REFINEMENT.concrete.actions)


@pytest.mark.parametrize(
    ("lemma", "actions"),
    [
        ("epochs_begin_at_one", {"handle_recall", "handle_create"}),
        ("who_is_not_connected_asks_nothing", {"handle_new_session"}),
        (
            "what_it_is_told_of_its_node_is_true",
            {
                "handle_recall",
                "handle_create",
                "handle_suspended",
                "handle_new_session",
                "serve_recall",
            },
        ),
    ],
)
def test_the_refinement_needs_the_lemmas(lemma: str, actions: set[str]) -> None:
    """Without a lemma that it needs, the refinement is not proved, for just these actions."""
    left_out = frozenset({*AT_ONCE, lemma})
    found = refine_by_proof(REFINEMENT, leave_out=left_out, assume=True).obligations

    assert {o.action for o in found if o.outcome is SolverAnswer.FAILED} == actions


# ── What does not refine ────────────────────────────────────────────────────────────────────


@cache
def unfenced() -> Refinement:
    """The same map from the election whose writes check nothing."""
    return replace(REFINEMENT, concrete=ELECTION.replace("Unfenced", accepts_write=any_write))


def test_the_unfenced_election_does_not_refine_the_contract() -> None:
    """A write that checks nothing is none of the contract's; the story ends with that write."""
    assert story(explored(unfenced()))[-1] == "write(broker1)"
    assert broken(unfenced()) == {"write"}


def test_a_wrong_meaning_is_a_violation() -> None:
    """An action that is said to be another one is a violation, and the story ends with it."""
    wrong = mapped(handle_create=("step_down", STUTTER))

    assert story(explored(wrong))[-1] == "handle_create(broker1)"
    assert broken(wrong) == {"handle_create"}


def test_an_action_without_a_meaning_must_change_nothing() -> None:
    """An action that the map does not name must leave the contract's state as it is."""
    meanings = {k: v for k, v in REFINEMENT.actions.items() if k != "swallow_create"}
    wrong = replace(REFINEMENT, actions=meanings)

    assert story(explored(wrong))[-1] == "swallow_create(broker1)"
    assert broken(wrong) == {"swallow_create"}


def constant_map() -> tuple[Map, ...]:
    """Functions that take every state to the contract's initial one."""

    def epoch(s: Election) -> Nat:
        return 0

    def elected(s: Election) -> Broker | None:
        return None

    def won(s: Election, b: Broker) -> Nat:
        return 0

    def token(s: Election, b: Broker) -> Nat:
        return 0

    def leads(s: Election, b: Broker) -> bool:
        return False

    def stale_write_accepted(s: Election) -> bool:
        return False

    return epoch, elected, won, token, leads, stale_write_accepted


def test_the_constant_map_does_not_keep_the_meanings() -> None:
    """A map that collapses everything cannot say that a node was created."""
    assert story(explored(mapped(*constant_map())))[-1] == "swallow_create(broker1)"


def test_the_constant_map_without_meanings_is_idle() -> None:
    """If nothing means anything, no step fails: but every abstract action is idle, and said so."""
    found = explored(replace(REFINEMENT, fields=constant_map(), actions={}))

    assert found.exploration is not None
    assert not found.exploration.violations
    assert found.idle == [a.name for a in CONTRACT.actions]
    assert found.exploration.missing == [
        "contract: a_broker_leads",
        "contract: an_older_coordinator_still_believes_it_leads",
    ]


def test_an_idle_action_is_reported() -> None:
    """An abstract action that no step means is reported."""
    found = explored(mapped(write=(STUTTER,)))

    assert found.idle == ["write"]


def test_the_initial_state_must_be_mapped_to_the_initial_state() -> None:
    """A map that starts elsewhere fails before any step, and is not proved."""

    def epoch(s: Election) -> Nat:
        return s.epoch + 1

    elsewhere = mapped(epoch)

    assert story(explored(elsewhere)) == []
    assert None in broken(elsewhere)


def test_an_initial_state_with_quantifiers_is_evaluated() -> None:
    """A map may ask about all brokers: what the initial state is then is evaluated, not guessed."""

    def stale_write_accepted(s: Election) -> bool:
        return s.stale_write_accepted or any(
            s.leads[a] and s.leads[b] and a == b and a != b for a in Broker for b in Broker
        )

    assert not broken(mapped(stale_write_accepted))
    assert explored(mapped(stale_write_accepted)).idle == []


# ── Misuse ──────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_abstract_action_is_refused() -> None:
    """A meaning that the contract does not have is refused with those that it has."""
    with pytest.raises(UsageError, match=r"resign means .*'retire'.* abstract actions are .*elect"):
        mapped(resign=("retire",))


def test_an_unknown_concrete_action_is_refused() -> None:
    """An action that the election does not have is refused with those that it has."""
    with pytest.raises(UsageError, match="has no action 'retire'; it has stand"):
        mapped(retire=("step_down",))


def test_a_missing_field_is_refused() -> None:
    """Every abstract field needs its function."""
    with pytest.raises(UsageError, match="differ in: epoch"):
        replace(REFINEMENT, fields=REFINEMENT.fields[1:])


# ── By running, and with several initial states ─────────────────────────────────────────────


def test_the_plain_python_refines_too() -> None:
    """On random walks, every step of the election's own Python is a step of the contract's."""
    assert refine_by_running(REFINEMENT, {"Broker": 2}, walks=10, length=25) is None


def test_a_wrong_meaning_is_found_by_running() -> None:
    """Random walks of the plain Python come to the step that means something else."""
    meanings = {k: v for k, v in REFINEMENT.actions.items() if k != "serve_create"}
    wrong = replace(REFINEMENT, actions=meanings)

    found = refine_by_running(wrong, {"Broker": 1}, seed=1)

    assert found is not None
    assert found.action.name == "serve_create"


class Begun(Spec):
    """A counter that begins anywhere below two."""

    n: Nat = 0
    big: bool = False

    @initial
    def start(self, big: bool) -> None:
        """It begins, big or not."""
        self.big = big
        if big:
            self.n = 1

    @action
    def grow(self) -> None:
        """It grows."""
        require(self.n < 3)
        self.n += 1


class Size(Spec):
    """Whether something is there."""

    some: bool = False

    @initial
    def start(self, there: bool) -> None:
        """Something is there from the start, or not."""
        self.some = there

    @action
    def appear(self) -> None:
        """It appears."""
        self.some = True


def some(s: Begun) -> bool:
    """Whether the counter has counted."""
    return s.n > 0


def never_any(self: Size) -> None:
    """Nothing is there at first."""
    require(not self.some)


def test_every_initial_state_is_mapped_to_one() -> None:
    """With several initial states, each must be mapped to one of the abstract spec."""
    begun = Refinement(specification(Begun), specification(Size), (some,), {"grow": ("appear",)})
    narrow = replace(begun, abstract=begun.abstract.replace("Narrow", start=never_any))

    assert not refine_by_exploration(begun, {}, faults=3).idle
    assert all(o.outcome is SolverAnswer.PROVED for o in refine_by_proof(begun).obligations)
    assert refine_by_running(begun, {}, walks=5, length=5) is None
    assert refine_by_proof(narrow).obligations[0].outcome is SolverAnswer.FAILED
    found = refine_by_exploration(narrow, {}, faults=0).exploration
    assert found is not None
    assert found.violations["refines"].lines == ["Initially: n=1, big=True  [start(True)]"]


class Shelf(Sort):
    """A shelf."""


class Warehouse(Spec):
    """Boxes stand on shelves; some do from the beginning."""

    full: dict[Shelf, bool] = each(False)
    count: Nat = 0

    @initial
    def stocked(self, there: set[Shelf]) -> None:
        """These shelves are full."""
        for x in Shelf:
            self.full[x] = x in there

    @action
    def deliver(self) -> None:
        """A box arrives, and is put on any shelf, which is not said."""
        require(self.count < 3)
        self.count += 1


class Boxes(Spec):
    """What a warehouse is from outside: boxes arrive for some shelf that is full."""

    full: dict[Shelf, bool] = each(False)
    count: Nat = 0

    @initial
    def stocked(self, there: set[Shelf]) -> None:
        """These shelves are full."""
        for x in Shelf:
            self.full[x] = x in there

    @action
    def arrive(self, x: Shelf) -> None:
        """A box arrives for {x}."""
        require(self.full[x])
        self.count += 1


def full(s: Warehouse, x: Shelf) -> bool:
    """The shelf is full."""
    return s.full[x]


def unseen() -> Map:
    """A map that sees no shelf as full."""

    def full(s: Warehouse, x: Shelf) -> bool:
        return False

    return full


def count(s: Warehouse) -> Nat:
    """How many boxes have arrived."""
    return s.count


def stocked_elsewhere(self: Boxes, elsewhere: set[Shelf]) -> None:
    """Other shelves are full."""
    for x in Shelf:
        self.full[x] = x in elsewhere


def delivered(**functions: Map) -> Refinement:
    """The warehouse whose deliveries are arrivals, seen through a map."""
    abstract = specification(Boxes)
    if functions:
        abstract = abstract.replace("Others", **functions)
    meanings = {"deliver": ("arrive",)}
    return Refinement(specification(Warehouse), abstract, (full, count), meanings)


def test_the_parameters_of_a_start_are_handed_on() -> None:
    """A whole set that a start chooses is the one of the other spec's start, by its name."""
    assert refine_by_proof(delivered()).obligations[0].outcome is SolverAnswer.PROVED
    empty = replace(delivered(), fields=(unseen(), count))
    assert story(refine_by_exploration(empty, {"Shelf": 2}, faults=0, bound=3)) == []
    with pytest.raises(UsageError, match=r"chooses a whole map, elsewhere, .* no parameter"):
        refine_by_exploration(delivered(stocked=stocked_elsewhere), {"Shelf": 2}, faults=0)


def test_an_element_that_the_step_does_not_name_is_sought() -> None:
    """Some shelf is full: then a delivery is an arrival; where none is, it has no meaning."""
    never_empty = specification(Warehouse).replace("Never", stocked=all_full)
    good = replace(delivered(), concrete=never_empty)

    assert story(refine_by_exploration(delivered(), {"Shelf": 2}, faults=0, bound=3)) == [
        "deliver()"
    ]
    assert not refine_by_exploration(good, {"Shelf": 2}, faults=0, bound=3).idle
    assert refine_by_running(good, {"Shelf": 2}, walks=2, length=3) is None


def all_full(self: Warehouse, there: set[Shelf]) -> None:
    """Every shelf is full."""
    for x in Shelf:
        self.full[x] = True
    require(all(x in there for x in Shelf))


def test_naturals_are_explored_up_to_the_bound() -> None:
    """A larger bound sees more of the world, and drops nothing any more."""
    never_empty = specification(Warehouse).replace("Never", stocked=all_full)
    good = replace(delivered(), concrete=never_empty)
    cut = refine_by_exploration(good, {"Shelf": 1}, faults=0, bound=1).exploration
    whole = refine_by_exploration(good, {"Shelf": 1}, faults=0).exploration

    assert cut is not None
    assert whole is not None
    assert cut.dropped > 0
    assert (whole.dropped, whole.states) == (0, 4)
    assert whole.bounds_tried == (1, 2, 4)
