"""Lemmas are found: for a promise that always holds and is not inductive, from the spec's words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from herdproof.cli.specs import find
from herdspec import (
    Nat,
    Sort,
    Spec,
    Specification,
    UsageError,
    action,
    always,
    each,
    fault,
    initial,
    require,
    specification,
)
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.candidates import Candidate, Pool, atoms_of
from herdspec.check.proof.counterexample import Counterexample
from herdspec.check.proof.prove import needs_lemmas, prove
from herdspec.check.proof.suggest import Candidates, Suggestion, suggest
from herdspec.language import graph as g
from properties.group_spec import GROUP
from properties.published.exclusion.mypyvy_lockserv import ALONE
from properties.specs import (
    LOCK_SERVER,
    TWO_PHASE_COMMIT,
    Client,
    Counter,
    LockServer,
    never_above_one,
    one_client_at_a_time,
)

BARE = specification(LockServer, one_client_at_a_time)
SPECS = {"lock server": BARE, "lock service": ALONE, "two-phase commit": TWO_PHASE_COMMIT}


@cache
def suggested(name: str) -> Suggestion:
    """What is suggested for one of `SPECS`."""
    return suggest(SPECS[name])


def texts(found: Suggestion) -> set[str]:
    """The conjuncts as Python."""
    return {c.text for c in found.conjuncts}


# ── What is found ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SPECS)
def test_lemmas_are_found(name: str) -> None:
    """A promise that is not inductive alone is proved with the lemmas that are found."""
    found = suggested(name)

    assert needs_lemmas(SPECS[name], found.goals[0])
    assert found.found
    assert prove(found.lemmas).proved


@pytest.mark.parametrize("name", SPECS)
def test_what_is_found_holds_in_every_state_of_a_larger_size(name: str) -> None:
    """Exploration with three elements of each sort breaks none of the lemmas that are found."""
    spec = suggested(name).lemmas

    found = explore(spec, dict.fromkeys(spec.sorts, 3), faults=1)

    assert found.complete
    assert not found.violations


@pytest.mark.parametrize("name", SPECS)
def test_no_lemma_that_is_found_can_be_left_out(name: str) -> None:
    """Without any one of the lemmas that are found, the promises are not inductive."""
    found = suggested(name)
    for k in range(1, len(found.conjuncts) + 1):
        assert not prove(found.lemmas, leave_out=frozenset({f"suggested_{k}"})).proved, k


def test_the_lock_services_published_invariant_is_found() -> None:
    """For mypyvy's lock server, the eight invariants are found that were published with it."""
    assert texts(suggested("lock service")) == {
        "all(not (s.server_holds and s.holds[x]) for x in Node)",
        "all(not (s.server_holds and s.granted[x]) for x in Node)",
        "all(not (s.server_holds and s.returned[x]) for x in Node)",
        "all(not (s.granted[x] and s.holds[y]) for x in Node for y in Node)",
        "all(not (s.holds[x] and s.returned[y]) for x in Node for y in Node)",
        "all(not (s.granted[x] and s.returned[y]) for x in Node for y in Node)",
        "all(not (s.granted[x] and s.granted[y]) for x in Node for y in Node if x != y)",
        "all(not (s.returned[x] and s.returned[y]) for x in Node for y in Node if x != y)",
    }


def test_a_lemma_that_is_missing_from_a_large_protocol_is_found() -> None:
    """Without one of its 13 lemmas, the group's other promises need just that one again."""
    others = tuple(p for p in GROUP.properties if p.name != "nobody_is_ahead")
    found = suggest(replace(GROUP, properties=others))

    assert found.found
    assert texts(found) == {"all(s.epoch[x] <= s.generation for x in Member)"}


def test_what_is_found_can_be_pasted(tmp_path: Path) -> None:
    """The lines that are printed, pasted into the spec's file, make a spec that is proved."""
    source = Path(__file__).parents[2] / "published" / "exclusion" / "mypyvy_lockserv.py"
    text = source.read_text(encoding="utf-8")
    head, _, tail = text.partition("@lemma")
    _, _, witness = tail.partition("@sometimes")
    middle = "\n".join(suggested("lock service").lines)
    body, _, _ = witness.partition("LOCK_SERVICE =")
    file = tmp_path / "pasted.py"
    file.write_text(f"{head}{middle}\n@sometimes{body}", encoding="utf-8")

    pasted = find(f"{file}:LockService").spec

    assert len(pasted.properties) == 1 + 8 + 1
    assert prove(pasted).proved


# ── What is not ─────────────────────────────────────────────────────────────────────────────


def test_no_lemma_makes_a_false_promise_true() -> None:
    """For a promise that is broken nothing is found, and nothing is suggested."""
    found = suggest(specification(Counter, never_above_one))

    assert not found.found
    assert not found.conjuncts


class Pin(Sort):
    """One of ten."""


class Bowling(Spec):
    """Pins fall two at a time, and nothing in the spec's words says how many stand."""

    odd: bool = True
    fallen: dict[Pin, bool] = each(False)
    balls: Nat = 0

    @action
    def throw(self, a: Pin, b: Pin) -> None:
        """{a} and {b} fall."""
        require(a != b and not self.fallen[a] and not self.fallen[b])
        self.fallen[a] = True
        self.fallen[b] = True
        self.balls = self.balls + 2


@always
def it_is_never_one(s: Bowling) -> bool:
    """There is never one ball."""
    return s.balls != 1


def test_a_lemma_outside_of_the_template_is_not_found() -> None:
    """What would need another kind of lemma is said not to be found, not forced."""
    spec = specification(Bowling, it_is_never_one)
    assert prove(spec).proved, "two more than a natural is never one"

    @always
    def they_are_even(s: Bowling) -> bool:
        """There are never three."""
        return s.balls != 3

    assert not suggest(specification(Bowling, they_are_even)).found


class Bell(Spec):
    """A bell that rings when enough hands pull, and cracks if it rings."""

    pulled: dict[Pin, bool] = each(False)
    faults: Nat = 0
    worn: bool = False
    rung: bool = False
    cracked: bool = False

    @action
    def pull(self, a: Pin) -> None:
        """{a} pulls."""
        self.pulled[a] = True

    @action(kind=fault)
    def wear(self) -> None:
        """It wears; the fourth time it is worn."""
        self.faults = self.faults + 1
        if self.faults > 3:
            self.worn = True

    @action
    def ring(self, a: Pin, b: Pin, c: Pin, d: Pin) -> None:
        """Four pull at once."""
        require(a != b and a != c and a != d and b != c and b != d and c != d)
        require(self.pulled[a] and self.pulled[b] and self.pulled[c] and self.pulled[d])
        self.rung = True

    @action
    def crack(self) -> None:
        """It cracks, once it has rung."""
        require(self.rung)
        self.cracked = True


@always
def it_never_cracks(s: Bell) -> bool:
    """It never cracks (with four hands it does)."""
    return not s.cracked


def test_what_holds_of_few_elements_only_is_not_suggested() -> None:
    """That the bell never rings is true of three hands, and kept by every step of three."""
    assert not suggest(specification(Bell, it_never_cracks)).found


@always
def wearing_does_not_crack(s: Bell) -> bool:
    """It is not cracked by wear."""
    return not (s.cracked and s.worn and not s.rung)


def test_what_was_only_not_reached_is_not_suggested() -> None:
    """What no explored state shows, because its faults were too few, is no lemma."""
    spec = specification(Bell, wearing_does_not_crack)
    found = suggest(spec)

    assert found.found
    assert prove(found.lemmas).proved
    assert "not s.worn" in {c.text for c in Candidates.of(spec).true(1)}
    assert not any("worn" in c.text for c in found.conjuncts)


class Choir(Spec):
    """One sings first, or three; two that sing together are heard."""

    sings: dict[Pin, bool] = each(False)
    heard: bool = False

    @initial
    def alone(self, a: Pin) -> None:
        """{a} begins alone."""
        self.sings[a] = True

    @initial
    def together(self, a: Pin, b: Pin, c: Pin) -> None:
        """Three begin together."""
        require(a != b and a != c and b != c)
        self.sings[a] = True
        self.sings[b] = True
        self.sings[c] = True

    @action
    def listen(self, a: Pin, b: Pin) -> None:
        """Two are heard."""
        require(a != b and self.sings[a] and self.sings[b])
        self.heard = True


@always
def nobody_is_heard(s: Choir) -> bool:
    """Nobody is heard (three are)."""
    return not s.heard


def test_what_no_small_initial_state_shows_is_not_suggested() -> None:
    """A lemma holds in the initial states of every size, not only of the explored one."""
    assert not suggest(specification(Choir, nobody_is_heard)).found


def test_without_a_promise_nothing_is_looked_for() -> None:
    """A spec without an invariant is a usage error."""
    with pytest.raises(UsageError, match="no promise to find lemmas for"):
        suggest(specification(LockServer))


# ── Counterexamples are explained ───────────────────────────────────────────────────────────


def counterexample(spec: Specification) -> Counterexample:
    """The first counterexample to induction, explained."""
    proof = prove(spec, explain=True)
    return next(o.counterexample for o in proof.obligations if o.counterexample)


def test_a_counterexample_names_what_would_exclude_it() -> None:
    """Conjuncts are shown that are false in the state before, and true wherever one can get."""
    shown = counterexample(BARE)

    assert shown.excluded_by
    assert shown.seen == explore(BARE, {"Client": 2}, faults=2).states
    assert any("a lemma would exclude the state before" in line for line in shown.lines)
    candidates = Candidates.of(BARE)
    for text in shown.excluded_by:
        (candidate,) = [c for c in candidates.true(2) if c.text == text]
        assert candidates.true_everywhere(candidate)
        assert candidate in list(candidates.excluding(shown, 2))


def test_a_state_that_can_be_reached_is_excluded_by_nothing() -> None:
    """For a promise that is really broken, from a reachable state, nothing would exclude it."""

    @always
    def nobody_asks(s: LockServer) -> bool:
        """Nobody has asked (somebody may)."""
        return not any(s.asked[c] for c in Client)

    shown = counterexample(specification(LockServer, nobody_asks))

    assert shown.excluded_by == ()


# ── Candidates ──────────────────────────────────────────────────────────────────────────────


def test_the_atoms_are_the_specs_own_words() -> None:
    """Atoms come from guards, promises and assignments; each is a comparison or a lookup."""
    atoms = atoms_of(LOCK_SERVER)

    assert {a.op for a in atoms} == {"field", "select"}
    named = {leaf.data for a in atoms for leaf in g.leaves(a, "field")}
    assert named == {f.name for f in LOCK_SERVER.fields}


def test_candidates_are_true_and_say_something() -> None:
    """Each candidate is true in all reached states, and false in some well-typed one."""
    candidates = Candidates.of(TWO_PHASE_COMMIT)
    found = candidates.true(3)

    assert all(map(candidates.true_everywhere, found))
    assert len({frozenset(c.literals) for c in found}) == len(found)


def test_what_is_true_of_any_state_is_no_candidate() -> None:
    """A clause that no well-typed state makes false says nothing, and is dropped."""
    free = g.field("free", g.TRUE.kind)
    pool = Pool((), (free, g.negate(free)))
    true, false = np.array([[0], [255]], np.uint8), np.array([[255], [255]], np.uint8)

    assert [c.literals for c in pool.clauses(true, false, 3)] == [(free,)]
    assert pool.clauses(true, true, 3) == []


def test_a_false_candidate_is_seen_to_be_false() -> None:
    """What some reached state contradicts is true nowhere near everywhere."""
    candidates = Candidates.of(BARE)
    free = g.field("free", g.TRUE.kind)

    assert not candidates.true_everywhere(Candidate((), (free,)))
    assert not candidates.true_everywhere(Candidate((), (g.negate(free),)))
