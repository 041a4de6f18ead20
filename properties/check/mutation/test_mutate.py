"""The *mutate* reading: mistakes put into a spec are noticed, told apart, or named as a hole."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    Specification,
    action,
    always,
    command,
    each,
    empty,
    from_source,
    initial,
    leads_to,
    require,
    sometimes,
    specification,
    weak,
)
from herdspec.check.exploration.explore import Explorer
from herdspec.check.mutation.mutants import Mutant, mutants
from herdspec.check.mutation.mutate import AcceptedMutant, Mutation, mutate, reasons_of
from herdspec.check.verdict import Standing
from herdspec.engine.ground import FAULTS
from herdspec.language.errors import SpecError, UsageError
from properties.engine import readings
from properties.language.random_specs import sources
from properties.specs import LOCK_SERVER, TWO_PHASE_COMMIT, Client, LockServer

HERE = Path(__file__).name


class Seat(Sort):
    """A seat."""


class Train(Spec):
    """A train whose seats are taken; every construct that can be mistaken is in it."""

    taken: dict[Seat, bool] = each(False)
    tickets: Nat = 0
    full: bool = False

    @action
    def sit(self, s: Seat) -> None:
        """{s} is taken."""
        require(self.is_free(s) and self.tickets < 2)
        self.sell()
        if not self.full:
            self.taken[s] = True
        self.full = all(self.taken[x] for x in Seat if x != s)

    @action(kind=command)
    def clear(self) -> None:
        """All leave."""
        assert self.full or self.tickets >= 1
        for s in Seat:
            self.taken[s] = False
        self.full = False

    def is_free(self, s: Seat) -> bool:
        """Nobody sits there."""
        return not self.taken[s]

    def sell(self) -> None:
        """One ticket more."""
        self.tickets += 1

    def never_called(self) -> None:
        """Nobody calls it."""
        self.full = True


TRAIN = specification(Train)
EXPECTED = [
    ("sit", "negate `self.is_free(s)`"),
    ("sit", "drop `self.is_free(s)`"),
    ("sit", "negate `self.tickets < 2`"),
    ("sit", "drop `self.tickets < 2`"),
    ("sit", "`self.tickets < 2` becomes `self.tickets <= 2`"),
    ("sit", "`self.tickets < 2` becomes `self.tickets < 3`"),
    ("sit", "`self.tickets < 2` becomes `self.tickets < 1`"),
    ("sit", "skip `self.sell()`"),
    ("sit", "negate `not self.full`"),
    ("sit", "skip `self.taken[s] = True`"),
    ("sit", "skip `self.full = all(self.taken[x] for x in Seat if x != s)`"),
    (
        "sit",
        "`all(self.taken[x] for x in Seat if x != s)` becomes "
        "`any(self.taken[x] for x in Seat if x != s)`",
    ),
    ("sit", "drop `x != s`"),
    ("clear", "drop `self.full or self.tickets >= 1`"),
    ("clear", "negate `self.full or self.tickets >= 1`"),
    ("clear", "drop `self.full`"),
    ("clear", "drop `self.tickets >= 1`"),
    ("clear", "`self.tickets >= 1` becomes `self.tickets > 1`"),
    ("clear", "`self.tickets >= 1` becomes `self.tickets >= 2`"),
    ("clear", "`self.tickets >= 1` becomes `self.tickets >= 0`"),
    ("clear", "skip `self.taken[s] = False`"),
    ("clear", "skip `self.full = False`"),
    ("is_free", "drop `not self.taken[s]`"),
    ("is_free", "negate `not self.taken[s]`"),
    ("sell", "skip `self.tickets += 1`"),
    ("sell", "`self.tickets += 1` becomes `self.tickets += 2`"),
    ("sell", "`self.tickets += 1` becomes `self.tickets += 0`"),
]


def judged(spec: Specification, size: int = 2, **options: Any) -> Mutation:
    """A spec's mutants at two elements of each sort and one fault."""
    return mutate(spec, dict.fromkeys(spec.sorts, size), **{"faults": 1, **options})


def lock_server() -> Specification:
    """A spec for other processes: they make it again."""
    return LOCK_SERVER


# ── What is made ────────────────────────────────────────────────────────────────────────────


def test_every_construct_is_mistaken_in_every_way() -> None:
    """Guards, updates, bounds, numbers and quantifiers are mistaken, in all that actions call."""
    assert [(m.function, m.id.partition(": ")[2]) for m in mutants(TRAIN)] == EXPECTED


def test_a_mutant_says_the_line_of_the_original() -> None:
    """A mutant stands where its original does: in this file, at the line that is changed."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    found = {m.id: m for m in mutants(TRAIN)}
    sold = found["sit: skip `self.sell()`"]
    assert Path(sold.file).name == HERE
    assert lines[sold.line - 1].strip() == "self.sell()"


def test_two_places_with_one_text_have_two_names() -> None:
    """Where a function says the same thing twice, the second mutant is numbered."""

    class Twice(Spec):
        """It says so twice."""

        on: bool = False

        @action
        def turn(self) -> None:
            """On, and on."""
            self.on = True
            self.on = True

    assert [m.id for m in mutants(specification(Twice))] == [
        "turn: skip `self.on = True`", "turn: skip `self.on = True` (#2)",
    ]  # fmt: skip


def test_a_mutant_sees_the_names_that_its_original_saw() -> None:
    """A spec defined in a function, with names of that function, has mutants like any other."""

    class Lamp(Sort):
        """A lamp."""

    limit = 2

    class Lamps(Spec):
        """Lamps that are lit."""

        lit: dict[Lamp, bool] = each(False)
        count: Nat = 0

        @action
        def light(self, x: Lamp) -> None:
            """{x} is lit."""
            require(self.count < limit and not self.lit[x])
            require(any(not self.lit[y] for y in Lamp))
            self.lit[x] = True

    spec = specification(Lamps)
    for mutant in mutants(spec):
        ex = Explorer(mutant.of(spec), {"Lamp": 2}, 1, symmetry=False)
        assert ex.run().states >= 1, mutant.id


@pytest.mark.parametrize("mutant", mutants(TRAIN), ids=lambda m: m.id)
@settings(max_examples=8)
@given(data=st.data())
def test_run_and_explore_read_a_mutant_alike(mutant: Mutant, data: st.DataObject) -> None:
    """The plain Python and the columns of a mutant take the same steps from every state."""
    ex = readings.explorer(mutant.of(TRAIN))
    readings.compare_steps(ex, [data.draw(readings.states(ex.ground))])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=sources(), data=st.data())
def test_run_and_explore_read_mutants_of_random_specs_alike(text: str, data: st.DataObject) -> None:
    """A mutant of a random spec is refused, or runs as it is explored, from every state."""
    spec = from_source(text, "Random")
    mutant = data.draw(st.sampled_from(mutants(spec)))
    try:
        ex = readings.explorer(mutant.of(spec))
    except SpecError:
        return
    readings.compare_steps(ex, [data.draw(readings.states(ex.ground))])


# ── What becomes of them ────────────────────────────────────────────────────────────────────


def by_id(found: Mutation) -> dict[str, str]:
    """What became of each mutant."""
    return (
        {k.id: f"killed by {k.by} in {k.steps}" for k in found.killed}
        | dict.fromkeys(found.equivalent, "equivalent")
        | {s.id: "survived" for s in found.survivors}
        | dict.fromkeys(found.unknown, "unknown")
        | dict.fromkeys(found.refused, "refused")
    )


@cache
def lock_found() -> Mutation:
    """The lock server's mutants, judged once."""
    return judged(LOCK_SERVER)


def test_every_mutant_is_somewhere_once() -> None:
    """Each mutant is killed, equivalent, a survivor, unknown or refused: one of these."""
    assert by_id(lock_found()).keys() == {m.id for m in mutants(LOCK_SERVER)}


def test_a_mistake_that_a_property_names_is_killed_by_it() -> None:
    """A dropped guard is killed by the property that it breaks, in as many steps as that takes."""
    found = by_id(lock_found())
    assert found["grant: drop `self.free`"] == "killed by the_lock_is_in_one_place in 4"
    assert found["accept: skip `self.free = True`"] == (
        "killed by the_server_gets_its_lock_back in 2"
    )
    assert found["ask: negate `not self.asked[c]`"] == (
        "killed by there is always a next step in 0"
    )


def test_a_possibility_that_is_gone_kills() -> None:
    """A mutant in which a `sometimes` has no witness is killed by it, without a story."""
    found = by_id(lock_found())
    assert found["ask: skip `self.asked[c] = True`"] == (
        "killed by a_client_holds_it_while_another_asks in -1"
    )


def test_steps_that_change_nothing_make_no_difference() -> None:
    """Asking again changes nothing: that mutant is equivalent here, and counts for nobody."""
    assert "ask: drop `not self.asked[c]`" in lock_found().equivalent
    assert lock_found().judged == len(lock_found().killed) + len(lock_found().survivors)


def edges(spec: Specification) -> set[tuple[tuple[int, ...], str, tuple[int, ...]]]:
    """The reachable steps of a spec that change something but the count of faults."""
    explorer = Explorer(spec, dict.fromkeys(spec.sorts, 2), 1, symmetry=False)
    explorer.run()
    found = set()
    for row in explorer.rows:
        numbers = explorer.packing.unpack(row)
        for call, after in readings.by_python(explorer.machine, numbers).items():
            if after[:-1] != numbers[:-1]:
                found.add((numbers[:-1], str(call), after[:-1]))
    return found


@pytest.mark.parametrize("spec", [LOCK_SERVER, TWO_PHASE_COMMIT, TRAIN], ids=lambda s: s.name)
def test_equivalent_means_the_same_steps(spec: Specification) -> None:
    """What is called equivalent has just the steps of the original; what survives has not."""
    found, made = judged(spec), {m.id: m for m in mutants(spec)}
    original = edges(spec)
    assert list(readings.explorer(spec).ground.slots)[-1][0] == FAULTS
    for id in found.equivalent:
        assert edges(made[id].of(spec)) == original, id
    for survivor in found.survivors:
        assert edges(made[survivor.id].of(spec)) != original, survivor.id


def survivor_of(found: Mutation, id: str) -> AcceptedMutant:
    """A survivor by its name."""
    return next(s for s in found.survivors if s.id == id)


def test_a_survivor_is_told_by_the_shortest_behaviour_that_only_one_of_two_has() -> None:
    """A survivor comes with the way to the first state that tells it apart, and what is missing."""
    told = survivor_of(lock_found(), "grant: skip `self.asked[c] = False`")
    assert told.story == ("ask(client1)",)
    assert told.differs == "grant(client1) leads to asked[client1]: True instead of False"
    assert told.missing == (
        "no property says what grant(client1) leads to there; "
        "those that read asked: a client holds it while another asks"
    )
    weaker = survivor_of(lock_found(), "grant: drop `self.asked[c]`")
    assert (weaker.story, weaker.differs) == ((), "it can grant(client1), the original cannot")


def test_a_field_that_no_property_reads_is_named() -> None:
    """A hole about a field that no property reads says so."""
    told = survivor_of(
        judged(TWO_PHASE_COMMIT, 3), "receive_prepared: drop `self.decision == Decision.NONE`"
    )
    assert told.missing.endswith("there; none reads known")


@always
def nobody_asks(s: LockServer) -> bool:
    """Nobody ever asks (it fails from the start)."""
    return all(not s.asked[c] for c in Client)


def test_what_fails_of_the_original_kills_no_mutant() -> None:
    """A property that the original breaks too has noticed nothing."""
    plain = specification(LockServer)
    found = judged(plain.with_properties(nobody_asks))
    assert all(k.by != "nobody_asks" for k in found.killed)
    assert (found.failing, lock_found().failing) == (["nobody_asks"], [])
    assert found.survivors


def test_without_properties_next_to_nothing_is_noticed() -> None:
    """The fewer properties, the lower the score."""
    bare = judged(specification(LockServer))
    assert (bare.score or 0.0) < (lock_found().score or 0.0)
    assert {k.by for k in bare.killed} <= {"there is always a next step"}


@sometimes
def it_is_full(s: Train) -> bool:
    """It is full."""
    return s.full


def test_what_is_cut_at_the_bound_is_unknown() -> None:
    """A mutant that leaves the bound, as its original does not, is unknown, until one looks on."""
    id, spec = "sit: drop `self.tickets < 2`", TRAIN.with_properties(it_is_full)
    assert by_id(judged(spec, bound=2))[id] == "unknown"
    reasons = {s.id: "why not" for s in judged(spec, bound=2).survivors}
    assert judged(spec, bound=2, reasons=reasons).standing is Standing.UNKNOWN


def test_an_original_that_is_too_big_is_refused() -> None:
    """An original that cannot be explored to its end has no mutants to judge."""
    with pytest.raises(UsageError, match="take a smaller size"):
        judged(LOCK_SERVER, 6, memory_bytes=1)


# ── Fairness, initial states, messages ──────────────────────────────────────────────────────


class Post(Spec):
    """Letters are posted, and arrive in order."""

    letters: Annotated[list[bool], Capacity(2)] = empty()
    urgent: bool = False
    arrived: bool = False

    @initial
    def some_are_urgent(self, urgent: bool) -> None:
        """It may be urgent."""
        self.urgent = urgent

    @action(kind=command)
    def post(self) -> None:
        """A letter is posted."""
        require(len(self.letters) < 2)
        self.letters.append(self.urgent)

    @action(fair=weak)
    def deliver(self) -> None:
        """The first letter arrives."""
        require(len(self.letters) > 0)
        letter = self.letters.pop(0)
        self.arrived = letter == self.urgent


@leads_to
def what_is_posted_arrives(s: Post) -> tuple[bool, bool]:
    """Once there are letters, one arrives."""
    return len(s.letters) > 0, s.arrived


POST = specification(Post, what_is_posted_arrives)


def test_fairness_that_liveness_needs_is_missed() -> None:
    """Without its fairness nothing is delivered: the promise of liveness fails, and kills."""
    found = by_id(judged(POST))
    assert found["deliver: remove its fairness"].startswith("killed by what_is_posted_arrives in ")
    assert found["deliver: skip `self.arrived = letter == self.urgent`"].startswith("killed by")


def test_fairness_that_no_liveness_needs_survives() -> None:
    """Fairness that no property needs is a survivor, and says so."""
    told = survivor_of(judged(specification(Post)), "deliver: remove its fairness")
    assert told.missing == "no liveness property needs this action to be fair"


def test_other_initial_states_are_a_difference() -> None:
    """A mutant that begins in other states differs, though it takes the same steps."""
    told = survivor_of(judged(specification(Post)), "some_are_urgent: skip `self.urgent = urgent`")
    assert told.differs == "it begins otherwise"
    assert told.missing == "no property says in which states it may begin"


def test_a_mutant_that_cannot_begin_is_killed() -> None:
    """A mutant without an initial state is noticed by whoever explores it."""

    class Begun(Spec):
        """It begins."""

        on: bool = False

        @initial
        def begin(self) -> None:
            """It is off."""
            require(not self.on)

        @action
        def turn(self) -> None:
            """It turns."""
            self.on = not self.on

    found = by_id(judged(specification(Begun)))
    assert found["begin: negate `not self.on`"] == "killed by there is an initial state in 0"
    assert found["begin: drop `not self.on`"] == "equivalent"


def test_a_message_is_left_where_it_is() -> None:
    """A message that is looked at, and not taken, is a mutant of its own."""
    ids = [m.id for m in mutants(POST)]
    assert "deliver: `self.letters.pop(0)` becomes `self.letters[0]`" in ids
    assert "post: skip `self.letters.append(self.urgent)`" in ids
    # One that takes the second of two is none: the language refuses it.
    assert "deliver: `letter = self.letters.pop(0)` becomes `letter = self.letters.pop(1)`" in (
        judged(POST).refused
    )


# ── Reasons ─────────────────────────────────────────────────────────────────────────────────


def test_a_survivor_with_a_reason_is_accepted() -> None:
    """Where every survivor has a reason, the verdict is that all is well."""
    reasons = {s.id: "messages may be sent twice" for s in lock_found().survivors}
    found = judged(LOCK_SERVER, reasons=reasons)
    assert (found.holes, found.stale, found.standing) == ([], [], Standing.HOLDS)
    assert lock_found().standing is Standing.FAILS
    del reasons[lock_found().survivors[0].id]
    assert judged(LOCK_SERVER, reasons=reasons).standing is Standing.FAILS


def test_a_stale_reason_is_an_error() -> None:
    """A reason for a mutant that is killed, or that there is none of, fails."""
    reasons = {s.id: "so be it" for s in lock_found().survivors}
    stale = ["grant: drop `self.free`", "grant: no such thing"]
    found = judged(LOCK_SERVER, reasons={**reasons, **dict.fromkeys(stale, "why")})
    assert found.stale == stale
    assert found.standing is Standing.FAILS


def test_the_reasons_stand_in_the_specs_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec's module holds the reasons, by spec where it has several."""
    import sys

    module = sys.modules[LockServer.__module__]
    assert reasons_of(LOCK_SERVER) == {}
    monkeypatch.setattr(module, "SURVIVORS", {"a": "why"}, raising=False)
    assert reasons_of(LOCK_SERVER) == {"a": "why"}
    monkeypatch.setattr(module, "SURVIVORS", {"LockServer": {"b": "why"}}, raising=False)
    assert (reasons_of(LOCK_SERVER), reasons_of(TWO_PHASE_COMMIT)) == ({"b": "why"}, {})


# ── Several processes ───────────────────────────────────────────────────────────────────────


def test_two_processes_find_what_one_finds() -> None:
    """Two processes come to the same result as one, in the same order."""
    assert judged(LOCK_SERVER, source=lock_server, processes=2) == lock_found()


def test_processes_need_to_know_where_the_spec_comes_from() -> None:
    """Several processes without a source are refused in words."""
    with pytest.raises(UsageError, match="need a source"):
        judged(LOCK_SERVER, processes=2)
