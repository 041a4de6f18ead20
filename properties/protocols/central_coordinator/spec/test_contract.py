"""
What a group protocol owes its users: the contract is consistent, and the central coordinator's.

The sentences are those at the end of PROTOCOLS.md. A flaw must be found by the refinement alone:
none of the central coordinator's own properties is looked at here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from herdspec import Specification, require
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import liveness
from herdspec.check.plans import FULL, QUICK, plan_of
from herdspec.check.proof.prove import needs_lemmas, prove
from herdspec.check.refinement.refine import (
    Refined,
    Refinement,
    refine_by_exploration,
    refine_by_running,
)
from herdspec.language.surface import Expectation
from herdspec.protocols.central_coordinator.flaws import FLAWS, FOUND
from herdspec.protocols.central_coordinator.refinement import REFINEMENT, REFINEMENT_FENCED
from herdspec.protocols.central_coordinator.spec import Member, Partition
from herdspec.protocols.contract.properties import CONTRACT, FENCED, RESETTING
from herdspec.protocols.contract.spec import GroupContract, Stage
from herdspec.protocols.election.spec import Broker

FORMS = {"strict": CONTRACT, "fenced": FENCED, "resets": RESETTING}
REFINEMENTS = {"strict": REFINEMENT, "fenced": REFINEMENT_FENCED}
SIZES = {"Member": 2, "Partition": 1, "Broker": 2}


def possible(spec: Specification) -> set[str]:
    """What some state of a spec must show."""
    return {p.name for p in spec.properties if p.expectation is Expectation.SOMETIMES}


@cache
def explored(form: str) -> Exploration:
    """The contract at two members, one partition, two brokers and two faults."""
    return explore(FORMS[form], SIZES, faults=2, bound=14)


@cache
def refined(form: str) -> Refined:
    """The central coordinator beside the contract, at the size of its own checks."""
    return refine_by_exploration(REFINEMENTS[form], SIZES, faults=1, bound=5)


# ── The contract ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("form", "states", "steps"),
    [
        ("strict", 2_130_834, 43_767_028),
        ("fenced", 2_264_658, 46_650_149),
        ("resets", 2_211_746, 45_384_836),
    ],
)
def test_the_size_of_the_contract_is_pinned(form: str, states: int, steps: int) -> None:
    """A changed count is a changed contract: somebody must say why."""
    assert (explored(form).states, explored(form).generated) == (states, steps)
    assert explored(form).complete
    assert explored(form).dropped == 0


@pytest.mark.parametrize("form", FORMS)
def test_every_sentence_holds_of_the_contract(form: str) -> None:
    """Whoever keeps to the guards keeps the sentences, and every noun of them is met."""
    found = explored(form)

    assert not found.violations
    assert found.undecided == ["settles"]  # what ranges over behaviours is looked at below
    assert found.deadlock is None
    assert set(found.witnesses) == possible(FORMS[form])
    assert all(found.taken.values())


@pytest.mark.parametrize("form", FORMS)
def test_the_contract_is_proved_for_any_size(form: str) -> None:
    """The sentences are inductive for any number of members, partitions and brokers."""
    assert prove(FORMS[form]).proved


@pytest.mark.parametrize("promise", ["exclusive", "only_finished_is_committed", "one_coordinator"])
def test_a_sentence_alone_is_not_inductive(promise: str) -> None:
    """The lemmas are what the proof needs."""
    assert needs_lemmas(CONTRACT, promise)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(2, 1, 1, 2), (1, 2, 1, 1), (1, 1, 2, 2)])
def test_what_is_owed_can_be_had(form: str, size: tuple[int, int, int, int]) -> None:
    """Sentence 7: in every fair behaviour of the contract the group becomes stable."""
    sizes = dict(zip(SIZES, size, strict=False))
    found = liveness(FORMS[form], sizes, faults=size[3], bound=14)

    assert not found.violations
    assert not found.undecided


def nobody_waits(self: GroupContract, m: Member, p: Partition, heir: Member | None) -> bool:
    """Nobody is waited for."""
    return True


def in_any_epoch(self: GroupContract, b: Broker) -> bool:
    """Whoever coordinates in some epoch may write."""
    return self.term[b] > 0


def as_it_is(self: GroupContract, m: Member, b: Broker) -> None:
    """{b} takes how far {m} is, whatever it has answered."""
    require(self.coordinates(b))
    for p in Partition:
        if self.owner[p] == m:
            self.accepted[p] = max(self.accepted[p], self.position[m, p])
        self.reported[m, p] = 0


def as_if_present(self: GroupContract, m: Member) -> None:
    """The member says how far it is, in whichever generation."""
    for p in Partition:
        self.reported[m, p] = self.position[m, p]


def at_any_time(self: GroupContract, b: Broker) -> None:
    """{b} calls the group stable."""
    require(self.coordinates(b))
    self.stage = Stage.STABLE


def whoever_it_is(self: GroupContract, m: Member) -> None:
    """The member follows whoever it listens to, or nobody."""
    self.heeded[m] = self.told[m]


def in_the_name_of_nobody(self: GroupContract, b: Broker) -> None:
    """{b} stores the offsets, and not in its own name."""
    require(self.coordinates(b) and any(self.storing[p] > 0 for p in Partition))
    for p in Partition:
        self.committed[p] = max(self.committed[p], self.storing[p])


def as_it_comes(self: GroupContract, b: Broker) -> None:
    """{b} stores what was put together, if that is less, too."""
    require(self.coordinates(b) and self.author is None)
    self.author = b
    for p in Partition:
        self.committed[p] = self.storing[p]
        self.storing[p] = 0


def under_two_numbers(self: GroupContract, b: Broker) -> None:
    """Generations have two numbers, in turn."""
    self.author = b
    self.generation = 1 - min(self.generation, 1)
    self.stage = Stage.HANDED


def of_who_owns_nothing(self: GroupContract, m: Member, heard: bool) -> None:
    """{m} consumes what anybody owns (heard: {heard})."""
    self.follow(m)
    for p in Partition:
        self.consumes[m, p] = self.owner[p] is not None


def unseen(self: GroupContract, m: Member, p: Partition) -> None:
    """{m} goes on to the next record of {p}, whether it has finished with the one before or not."""
    require(self.consumes[m, p])
    self.position[m, p] = self.position[m, p] + 1


def before_it_is_stored(self: GroupContract, m: Member, p: Partition) -> None:
    """{m} finishes with its next record of {p}, wherever it began."""
    require(self.consumes[m, p])
    self.position[m, p] = self.position[m, p] + 1
    self.finished[p] = max(self.finished[p], self.position[m, p])


def as_if_it_were_stored(self: GroupContract, m: Member, p: Partition) -> None:
    """{m} takes its start in {p} for stored."""
    require(self.resolved[m, p])
    self.resolved[m, p] = False


def unannounced(self: GroupContract, b: Broker) -> None:
    """{b} begins a new epoch, and does not say who it is."""
    require(self.term[b] == 0)
    self.epoch = self.epoch + 1
    self.term[b] = self.epoch


def in_the_same_epoch(self: GroupContract, b: Broker) -> None:
    """{b} takes the present epoch over, if there is one."""
    require(self.term[b] == 0)
    self.epoch = max(self.epoch, 1)
    self.term[b] = self.epoch
    self.elected = b


def anew(self: GroupContract, b: Broker) -> None:
    """Epochs are counted from the beginning again, while somebody coordinates in the second."""
    require(self.term[b] == 0)
    self.epoch = 2 if self.epoch == 1 else 1
    self.term[b] = self.epoch
    self.elected = b


LOOSE: dict[str, dict[str, Callable[..., object]]] = {
    "exclusive": {"makes_way": nobody_waits},
    "who_consumes_owns": {"start": of_who_owns_nothing},
    "only_the_present_epoch_writes": {"coordinates": in_any_epoch},
    "exclusive_fenced": {"accept": as_it_is},
    "what_is_said_is_of_the_present_generation": {"say": as_if_present},
    "epochs_never_go_back": {"begin_epoch": anew},
    "generations_never_go_back": {"begin_generation": under_two_numbers},
    "members_follow_no_older_epoch": {"follow": whoever_it_is},
    "committed_offsets_never_go_back": {"store": as_it_comes},
    "nobody_is_past_the_unfinished": {"finish": unseen},
    "only_finished_is_committed": {"finish": unseen},
    "complete": {"settle": at_any_time},
    "one_coordinator": {"begin_epoch": unannounced},
    "an_epoch_is_won_by_one": {"begin_epoch": in_the_same_epoch},
}


BY_TWO = ("only_the_present_epoch_writes", "an_epoch_is_won_by_one")
"""What takes two brokers to break; all else one breaks, that comes back."""


@pytest.mark.parametrize("sentence", LOOSE)
def test_without_its_guard_a_sentence_is_broken(sentence: str) -> None:
    """What the guards say is what the sentences need."""
    loose = RESETTING.replace("Loose", **LOOSE[sentence])
    brokers, faults = (2, 1) if sentence in BY_TWO else (1, 2)

    found = explore(loose, {**SIZES, "Broker": brokers}, faults=faults, bound=8)

    assert sentence in found.violations


def test_a_write_without_an_author_is_nobodys() -> None:
    """That somebody coordinates does not make a write its own."""
    loose = CONTRACT.replace("Loose", store=in_the_name_of_nobody)
    found = explore(loose, SIZES, faults=2, bound=8)

    assert set(found.violations) == {"only_the_present_epoch_writes"}


@pytest.mark.parametrize(
    "loose", [{"finish": before_it_is_stored}, {"confirm": as_if_it_were_stored}]
)
def test_who_goes_on_from_a_resolved_start_must_have_stored_it(
    loose: dict[str, Callable[..., object]],
) -> None:
    """Somebody joins, resolves where to begin, and finishes a record: three commands."""
    spec = RESETTING.replace("Loose", **loose)
    found = explore(spec, {**SIZES, "Member": 1, "Broker": 1}, faults=3, bound=8)

    assert set(found.violations) == {"a_resolved_start_is_stored_first"}


# ── The central coordinator keeps it ────────────────────────────────────────────────────────


def test_every_explored_step_of_the_central_coordinator_is_the_contracts() -> None:
    """Under the lease: no step without its meaning, and no action of the contract without one."""
    found = refined("strict")

    assert found.exploration is not None
    assert found.exploration.complete
    assert found.exploration.dropped == 0
    assert not found.exploration.violations
    assert found.idle == []
    assert set(found.exploration.witnesses) == {f"contract: {name}" for name in possible(CONTRACT)}


def test_without_the_lease_the_fenced_form_is_kept() -> None:
    """Whoever is not connected counts as gone at once: what is accepted is still as owed."""
    found = refined("fenced")

    assert found.exploration is not None
    assert found.exploration.complete
    assert not found.exploration.violations
    assert set(found.exploration.witnesses) == {f"contract: {name}" for name in possible(CONTRACT)}


@pytest.mark.parametrize("form", REFINEMENTS)
def test_the_plain_python_refines_too(form: str) -> None:
    """On random walks, every step of the coordinator's own Python is one of the contract's."""
    sizes = {"Member": 2, "Partition": 2, "Broker": 2}

    assert refine_by_running(REFINEMENTS[form], sizes, walks=4, length=30) is None


def test_every_promise_of_the_contract_is_a_sentence_by_number() -> None:
    """Each promise says which sentence it is of, and none of the seven is left out."""
    promised = (Expectation.ALWAYS, Expectation.STEP, Expectation.LEADS_TO)
    said = [p for p in CONTRACT.properties if p.expectation in promised]

    assert {p.sentence[0] for p in said if not p.lemma} == set("1234567")


# ── What does not ───────────────────────────────────────────────────────────────────────────


def ends(concrete: Specification, name: str, through: Refinement = REFINEMENT) -> str | None:
    """The last action of the shortest story that the refinement alone finds of a flaw."""
    flaw = {**FLAWS, **FOUND}[name]
    assert flaw.sizes is not None
    known = {a.name for a in concrete.actions}
    meanings = {k: v for k, v in through.actions.items() if k in known}
    wrong = replace(through, concrete=concrete, actions=meanings)
    found = refine_by_exploration(wrong, flaw.sizes, faults=flaw.faults, bound=flaw.bound)
    assert found.exploration is not None
    story = found.exploration.violations.get("refines")
    return story.steps[-1].action.name if story else None


def slow(name: str, last: str) -> object:
    """A flaw whose world is larger."""
    return pytest.param(name, last, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("no_barrier", "handle_start"),
        ("lost_trigger", "finish_rebalance"),
        ("no_start", "begin_rebalance"),
        ("no_lease", "serve_owners"),
        ("ignores_epoch", "handle_register"),
        ("stop_keeps_ack", "handle_stop"),
        slow("stale_offsets", "handle_start"),
        slow("deposed_goes_on", "serve_owners"),
        slow("owners_written_late", "decide_owners"),
        slow("partial_failover", "serve_owners"),
        slow("reconnects_fetching", "time_out"),
        slow("unfenced", "serve_owners"),
        slow("member_by_id", "handle_start"),
        slow("stale_commit", "serve_owners"),
    ],
)
def test_a_flaw_does_not_refine_the_contract(name: str, last: str) -> None:
    """The refinement finds the flaw without any of the protocol's own properties."""
    assert ends({**FLAWS, **FOUND}[name].spec, name) == last


@pytest.mark.parametrize("name", ["flag_stuck", "empty_group_hangs"])
def test_what_only_never_happens_is_no_step_of_its_own(name: str) -> None:
    """A group that hangs takes no wrong step: that it settles is the protocol's own to show."""
    assert ends({**FLAWS, **FOUND}[name].spec, name) is None


def test_without_the_lease_the_strict_form_is_not_kept() -> None:
    """A partition is handed over while its former owner, who is not heard, still consumes it."""
    assert ends(REFINEMENT_FENCED.concrete, "no_lease") == "serve_owners"


@pytest.mark.parametrize(
    ("name", "last"),
    [slow("unfenced", "serve_owners"), ("no_start", "begin_rebalance")],
)
def test_the_fenced_form_is_no_excuse(name: str, last: str) -> None:
    """A write of a deposed coordinator, or a forgotten Start, is no step of that one, either."""
    assert ends({**FLAWS, **FOUND}[name].spec, name, REFINEMENT_FENCED) == last


@pytest.mark.long
def test_what_a_deposed_coordinator_takes_is_never_stored() -> None:
    """It alone takes offsets of the past (`stale_commit`), and users do not see any of them."""
    assert ends(FOUND["stale_commit"].spec, "stale_commit", REFINEMENT_FENCED) is None


def test_the_plan_holds_the_protocol_against_the_contract() -> None:
    """`herdproof verify central_coordinator` checks the contract, and all forms against it."""
    quick, full = (plan_of("central_coordinator", scale) for scale in (QUICK, FULL))
    names = [check.name for check in full.checks]

    assert quick.others == ("without_lease", "timed", "contract", "resuming", "timed_resuming")
    assert {c.name for c in quick.checks} <= set(names)
    assert sum("contract" in n for n in names) == 3
    assert [n.split(":")[0] for n in names if n.startswith("refine")] == [
        "refine verified to GroupContract",
        "refine verified to FencedContract",
        "refine timed to CentralCoordinator",
        "refine resuming to ContractOfResuming",
        "refine timed_resuming to ResumingMember",
    ]
