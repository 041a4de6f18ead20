"""States from the solver: what they find in code, what they leave open, and what they assume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import permutations
from random import Random
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.conformance.adapter import Adapter, AdapterError, CannotLoad, Refused
from herdproof.conformance.checks import judged_states
from herdproof.conformance.holding.held import Held, LoadedOtherwise
from herdproof.conformance.solver.alike import Alike
from herdproof.conformance.solver.cases import _bare, cases_of
from herdproof.conformance.solver.found import Solved, Tally
from herdproof.conformance.solver.hypotheses import hypotheses
from herdproof.conformance.solver.picks import EDGES, Picker
from herdproof.conformance.solver.solved import solved
from herdproof.conformance.solver.state_tests import states
from herdspec import (
    Capacity,
    Nat,
    Spec,
    UpTo,
    action,
    always,
    each,
    empty,
    lemma,
    require,
)
from herdspec.check.proof.prove import prove
from herdspec.check.running.run import machine
from herdspec.language.specification import specification
from properties.conformance.leases import (
    LEASE,
    Client,
    Lease,
    LeaseCore,
    Leases,
    Wish,
    nobody_is_ahead,
)

FIVE = 5
"""A size of which the states with large numbers are reached by no run."""


@cache
def run(adapter: type[Adapter], most: int = 22) -> Solved:
    """States for an adapter of the lease, however slow this machine is; no size is explored."""
    return solved(LEASE, adapter, Client=FIVE, most=most, seconds=600, settling=600, looking=0)


def of(found: Solved, name: str, *, allowed: bool = True) -> list[Tally]:
    """What came of the cases of an action."""
    return [t for t in found.tallies if t.case.action.name == name and t.case.allowed is allowed]


class AsText(Leases):
    """Compares numbers as text."""

    flaws = ("text",)


class Unfenced(Leases):
    """Takes every write."""

    flaws = ("no_fence",)


class ByteCore(LeaseCore):
    """Keeps the number that was written last in a byte."""

    def write(self, client: int) -> bool:
        """A client writes."""
        done = super().write(client)
        self.written = self.written % 256 if done else self.written
        return done


class InAByte(Leases):
    """Code with such a core."""

    def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
        """So many clients."""
        self.core = ByteCore(Client)


class LoadsNoWrite(Leases):
    """Its `load` forgets what was written."""

    def load(self, state: Lease) -> None:
        """Be in another state."""
        super().load(state)
        self.core.written = 0


class ForgetsWhoAsked(Leases):
    """Its `load` forgets what is not seen: who has asked."""

    def load(self, state: Lease) -> None:
        """Be in a state that looks like it."""
        super().load(state)
        self.core.asked = set()


@always
def nobody_was_granted_without_a_number(s: Lease) -> bool:
    """Nobody has the lease under the number 0."""
    return s.holder is None or all(s.token[c] > 0 or s.holder != c for c in Client)


class OnlySome(Leases):
    """Says of which states `load` is written."""

    loadable = nobody_was_granted_without_a_number


# ── What is found ───────────────────────────────────────────────────────────────────────────


def test_a_right_lease_does_as_the_spec_does() -> None:
    """No case differs, all were seen, and what `load` declined is counted with its reason."""
    found = run(Leases)

    assert found.standing == "agrees", "\n".join(found.lines)
    assert {t.case.action.name for t in found.tallies} == {a.name for a in LEASE.actions}
    assert all(t.picked == 22 and t.loaded > 0 for t in found.tallies)
    assert found.states > 150
    declined = [reason for t in found.tallies for reason in t.declined]
    assert set(declined) == {"who was granted the lease has its number"}
    assert all(t.loaded + t.declined.total() == t.picked for t in found.tallies)
    assert found.unseen


def test_numbers_that_are_compared_as_text_are_a_question() -> None:
    """No run of five clients comes to ten leases: it is a question, told with how to settle it."""
    found = run(AsText, 40)

    assert found.standing == "unknown"
    assert {q.case.action.name for q in found.questions} == {"write"}
    assert not found.differences
    told = "\n".join(found.lines)
    assert "a missing lemma, or a mistake" in told
    assert "write a lemma that excludes it" in told
    assert "no story comes to it" in told


def test_a_number_that_is_kept_in_a_byte_is_found() -> None:
    """Numbers are drawn near 256, too."""
    found = run(InAByte)

    assert found.standing == "unknown"
    (question,) = found.questions
    assert question.case.action.name == "write"
    state: Any = question.state
    assert state.token[question.arguments[0]] >= 256


def test_what_a_run_comes_to_is_a_difference_with_its_story() -> None:
    """A lease without a fence differs in states that are reached; code on the way there, too."""
    found = run(Unfenced)

    assert found.standing == "differs"
    (difference,) = found.differences
    assert not difference.case.allowed
    assert difference.story is not None
    assert difference.story.labels[-1].startswith("write")
    assert "The code did it, though the spec does not allow it" in difference.walked
    assert len(difference.story.steps) == 6


def test_a_question_can_be_asked_again_by_its_program() -> None:
    """The program of a question puts the code there, and does the same again."""
    (question,) = run(InAByte).questions
    lines = question.program(LEASE, InAByte)
    names = {"Held": Held, "Lease": Lease, "InAByte": InAByte, "Client": Client}
    body = "\n".join(lines[lines.index("") + 1 :])

    with pytest.raises(AssertionError, match="elsewhere"):
        exec(body, names)


# ── What is loaded ──────────────────────────────────────────────────────────────────────────


def test_what_is_loaded_otherwise_is_named_and_never_passed() -> None:
    """A state that was loaded with another number is unknown, by the field's name."""
    found = run(LoadsNoWrite)

    counted = {fields for t in found.tallies for fields in t.otherwise}
    assert counted == {"written"}
    assert all(
        t.loaded + t.declined.total() + t.otherwise.total() == t.picked for t in found.tallies
    )
    assert "loaded otherwise, in: written" in "\n".join(found.lines)


def test_a_load_that_leaves_out_what_is_not_seen_makes_no_difference_of_it() -> None:
    """Code that is taken along the story does as the spec: the question stays, and says so."""
    found = run(ForgetsWhoAsked)

    assert not found.differences
    assert found.standing == "unknown"
    assert any("`load` leaves something out" in q.looked for q in found.questions)


def test_an_adapter_says_of_which_states_load_is_written() -> None:
    """Cases that none of these states allows are named, and are no verdict on the others."""

    @always
    def nobody_holds(s: Lease) -> bool:
        """Nobody has the lease."""
        return s.holder is None

    class NoHolder(Leases):
        """Nobody can be put into having the lease."""

        loadable = nobody_holds

    class NobodyGrants(NoHolder):
        """And nobody can be given it."""

        absent: ClassVar[dict[str, str]] = {"grant": "left out"}

    led = solved(LEASE, NoHolder, Client=2, most=5, looking=0)
    left = solved(LEASE, NobodyGrants, Client=2, most=5, looking=0)

    assert led.standing == left.standing == "agrees", "\n".join(led.lines)
    assert of(led, "give_back")[0].led >= 5
    assert not of(led, "give_back")[0].loaded
    never = {t.case.action.name for t in left.tallies if t.is_not_loadable}
    assert never == {"expire", "give_back"}
    assert "Nobody has the lease." in "\n".join(left.lines)
    row = judged_states("lease", "row", "sentence", "2 clients", left)
    assert "of a case of expire, give_back no state was come to" in row.bounds + row.note


def test_code_is_put_into_a_state_by_hand() -> None:
    """`Held.put` takes what `observe` shows; what the code makes of it is compared."""
    with Held(LEASE, Leases, Client=2) as held:
        held.put({"token": {Client(0): 10}, "term": 10, "written": 9})
        assert held.offer("write", Client(0))
    with Held(LEASE, LoadsNoWrite, Client=2) as held, pytest.raises(LoadedOtherwise) as error:
        held.put({"term": 10, "written": 9})
    assert error.value.fields == ("written",)
    with Held(LEASE, Leases, Client=2) as held, pytest.raises(CannotLoad):
        held.put({"wish": {Client(0): Wish.GRANTED}})


def test_a_step_that_is_refused_within_load_is_a_state_that_cannot_be_loaded() -> None:
    """Code may be led into a state by steps of its own; what refuses one says why."""

    class Steps(Leases):
        """It is led, and the last step is none."""

        def load(self, state: Lease) -> None:
            """Lead it there."""
            assert state.term >= 0
            raise Refused("nobody waits")

    found = solved(LEASE, Steps, Client=2, most=2, looking=0)

    assert found.standing == "unknown"
    reasons = {why for t in found.tallies for why in t.declined}
    assert reasons == {"a step on the way there is refused: nobody waits"}


# ── What is assumed ─────────────────────────────────────────────────────────────────────────


@always
def nobody_writes_three(s: Lease) -> bool:
    """The number 3 is never written (which is not so)."""
    return s.written != 3


@lemma
def nor_is_it_a_token(s: Lease) -> bool:
    """Nobody has a number of 3 to write (which follows from nothing that is so)."""
    return all(s.token[c] != 3 for c in Client)


def test_only_what_was_proved_is_assumed() -> None:
    """A promise that is not inductive is left out, with the reason, and states break it."""
    hoped = LEASE.with_properties(nobody_writes_three)

    known = hypotheses(hoped)

    assert [p.name for p in known.used] == ["nobody_is_ahead"]
    assert set(known.left_out) == {"nobody_writes_three"}
    assert "write" in known.left_out["nobody_writes_three"]
    assert breaks(hoped, known.used, lambda s: s.written == 3)


def test_what_leans_on_what_was_not_proved_is_not_assumed() -> None:
    """That 3 is never written is inductive if no token is 3, and that is not proved."""
    hoped = LEASE.with_properties(nobody_writes_three, nor_is_it_a_token)

    known = hypotheses(hoped)

    assert [p.name for p in known.used] == ["nobody_is_ahead"]
    assert "leans on nor_is_it_a_token" in known.left_out["nobody_writes_three"]


def test_a_proof_that_did_not_ask_is_not_assumed() -> None:
    """What was left out of a proof is no hypothesis, be it true."""
    proof = prove(LEASE, leave_out=frozenset({"nobody_is_ahead"}))

    known = hypotheses(LEASE, proof)

    assert known.used == ()
    assert known.left_out == {"nobody_is_ahead": "it was not asked of the proof"}
    with pytest.raises(AdapterError, match="of another spec"):
        hypotheses(specification(Lease, nobody_is_ahead), proof)


def breaks(spec: Any, used: Any, broken: Callable[[Any], bool]) -> bool:
    """Whether some picked state is like this."""
    picker = Picker(machine(spec, Client=3), [p.formula for p in used], Random(0))
    cases = [c for a in spec.actions for c in cases_of(a, allowed=True)]
    picked = (picker.pick(case) for _ in range(60) for case in cases)
    return any(p is not None and broken(p.state) for p in picked)


# ── Which states ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Note:
    """Something of two parts."""

    size: Nat
    by: Client


class Desk(Spec):
    """A desk with parts of all kinds."""

    note: Note | None = None
    seen: set[Client] = empty()
    next_: dict[Client, Client | None] = each(None)
    few: Annotated[int, UpTo(3)] = 0

    @action
    def put(self, c: Client) -> None:
        """{c} puts a note, if there is none or it may, or nobody has seen that."""
        require(self.note is None or c in self.seen or self.few == 2)
        self.note = Note(1, c)

    @action
    def read(self, c: Client) -> None:
        """{c} reads a note of another."""
        require(self.note is not None and self.note.by != c)
        self.seen.add(c)


def test_each_way_in_which_a_guard_holds_or_fails_is_a_case() -> None:
    """A disjunction has as many cases; what must be refused, too."""
    put = specification(Desk).action("put")

    assert len(cases_of(put, allowed=True)) == 3
    assert [c.text for c in cases_of(put, allowed=False)] == [
        "note.size is not None and not seen[c] and few != 2"
    ]
    write = LEASE.action("write")
    assert [c.text for c in cases_of(write, allowed=False)] == [
        "token[c] <= 0",
        "token[c] < written",
    ]


@pytest.mark.parametrize(
    ("told", "bare"),
    [
        ("(a and b)", "a and b"),
        ("(a or b) and (c or d)", "(a or b) and (c or d)"),
        ("not all(f(x) for x in S)", "not all(f(x) for x in S)"),
        ("a", "a"),
    ],
)
def test_a_case_loses_no_bracket_that_belongs_to_another(told: str, bare: str) -> None:
    """Only those around all of it are left out."""
    assert _bare(told) == bare


def test_picked_states_are_states_of_the_spec() -> None:
    """Parts of an optional record are there together; what is picked allows the action."""
    spec = specification(Desk)
    desk = machine(spec, Client=3)
    picker = Picker(desk, [], Random(1))
    seen = set()
    for case in [c for a in spec.actions for c in cases_of(a, allowed=True)] * 15:
        picked = picker.pick(case)
        assert picked is not None
        assert desk.numbers(picked.state) == picked.numbers
        assert desk.take(picked.state, case.action.name, picked.arguments) is not None
        state: Any = picked.state
        seen.add((state.note is None, len(state.seen)))
    assert len(seen) > 5


def test_numbers_are_drawn_near_those_where_code_goes_wrong() -> None:
    """Of 9 and 10, 255 and 256 and so on each is near some number that was drawn."""
    picker = Picker(machine(LEASE, Client=FIVE), [nobody_ahead().formula], Random(0))
    (case,) = cases_of(LEASE.action("write"), allowed=True)
    picked: list[Any] = [picker.pick(case) for _ in range(150)]
    drawn = {number for p in picked for number in p.state.token.values()}

    assert {e for e in EDGES if e in drawn} >= {9, 10, 127, 128, 255, 256, 65_535, 65_536}


def nobody_ahead() -> Any:
    """The lease's lemma, of the specification."""
    return LEASE.promise("nobody_is_ahead")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_states_that_differ_by_names_alone_are_one(data: Any) -> None:
    """A key is the same whatever elements are called; other states have other keys."""
    n = 3
    number = st.integers(0, 2)
    entries: dict[Any, int] = {("holder", ()): data.draw(st.integers(0, n))}
    entries |= {("token", (k,)): data.draw(number) for k in range(n)}
    entries |= {("wish", (k,)): data.draw(number) for k in range(n)}
    entries |= {("term", ()): data.draw(number), ("written", ()): data.draw(number)}
    alike = Alike(LEASE, {"Client": n})

    def renamed(order: tuple[int, ...], given: dict[Any, int]) -> dict[Any, int]:
        made = {(f, tuple(order[k] for k in at)): v for (f, at), v in given.items()}
        holder = given["holder", ()]
        return made | {("holder", ()): 1 + order[holder - 1] if holder else 0}

    for order in permutations(range(n)):
        assert alike.key(renamed(order, entries)) == alike.key(entries)
    other = {**entries, ("token", (0,)): data.draw(number)}
    same = any(renamed(order, entries) == other for order in permutations(range(n)))
    assert (alike.key(other) == alike.key(entries)) is same


# ── What is refused, and the test ───────────────────────────────────────────────────────────


def test_an_adapter_that_cannot_load_is_told_what_to_write() -> None:
    """Without `load` no state is asked for."""

    class Cannot(Adapter):
        """It has no `load`."""

        absent: ClassVar[dict[str, str]] = {a.name: "never" for a in LEASE.actions}

        def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
            """So many clients."""

        def observe(self) -> dict[str, Any]:
            """Nothing."""
            return {}

    with pytest.raises(AdapterError, match=r"write `def load\(self, state\)`"):
        solved(LEASE, Cannot, Client=2)
    with pytest.raises(AdapterError, match="cannot be put into a state"):
        states(LEASE, Cannot, Client=2)


class Message(Enum):
    """What is sent."""

    FIRST = "first"
    SECOND = "second"


class Post(Spec):
    """Somebody sends, and each reads in order."""

    sent: dict[Client, Annotated[list[Message], Capacity(2)]] = each(empty())

    @action
    def send(self, c: Client, m: Message) -> None:
        """{m} is sent to {c}."""
        self.sent[c].append(m)

    @action
    def read(self, c: Client) -> None:
        """{c} reads."""
        require(len(self.sent[c]) > 0)
        self.sent[c].pop(0)


class Posts(Adapter):
    """Lists; a flaw reads the latest."""

    latest: ClassVar[bool] = False

    def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
        """So many clients."""
        self.sent: dict[Any, list[Message]] = {Client_(k): [] for k in range(Client)}

    def send(self, c: Client, m: Message) -> None:
        """Send."""
        self.sent[c].append(m)

    def read(self, c: Client) -> None:
        """Read."""
        if not self.sent[c]:
            raise Refused
        self.sent[c].pop(-1 if self.latest else 0)

    def observe(self) -> dict[str, Any]:
        """Everything."""
        return {"sent": {c: [*sent] for c, sent in self.sent.items()}}

    def load(self, state: Post) -> None:
        """Be there."""
        self.sent = {c: [*sent] for c, sent in state.sent.items()}


Client_ = Client


class ReadsTheLatest(Posts):
    """Reads out of order."""

    latest = True


def test_channels_are_filled_from_the_first() -> None:
    """Picked states have channels that could be; code that reads out of order is found."""
    post = machine(Post, Client=3)
    picker = Picker(post, [], Random(0))
    for case in cases_of(post.spec.action("read"), allowed=True) * 20:
        picked = picker.pick(case)
        assert picked is not None
        assert post.numbers(picked.state) == picked.numbers

    right = solved(Post, Posts, Client=3, most=12, looking=0)
    wrong = solved(Post, ReadsTheLatest, Client=3, most=12, looking=0)

    assert right.standing == "agrees", "\n".join(right.lines)
    assert all(t.loaded == 12 for t in right.tallies)
    assert wrong.standing == "differs"
    (difference,) = wrong.differences
    assert difference.story is not None
    assert len(difference.story.steps) == 2


def test_what_differs_initially_is_told_at_once() -> None:
    """Code that does not begin as the spec does is asked nothing else."""

    class BeginsLater(Leases):
        """It begins elsewhere."""

        def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
            """So many clients, and one lease already."""
            super().begin(Client)
            self.core.term = 1

    found = solved(LEASE, BeginsLater, Client=2)

    assert found.standing == "differs"
    assert "term: 0 in the spec, 1 in the code" in "\n".join(found.lines)


def test_a_test_is_generated() -> None:
    """It passes for code that is right, and fails with the report for code that is not."""
    right = states(LEASE, Leases, Client=3, most=5, looking=0)
    wrong = states(LEASE, Unfenced, Client=3, most=15, looking=0)

    assert why_it_fails(right) == ""
    assert "a story comes to such a state" in why_it_fails(wrong)


def why_it_fails(case: Any) -> str:
    """Why a generated test fails; empty if it passes."""
    (name,) = [n for n in dir(case) if n.startswith("test_")]
    result = case(name).run()
    assert result.testsRun == 1
    return "".join(text for _, text in [*result.failures, *result.errors])


def test_the_same_seed_picks_the_same_states() -> None:
    """Picks depend on the seed alone."""
    cases = cases_of(LEASE.action("write"), allowed=True)

    def keys(seed: int) -> list[Any]:
        picker = Picker(machine(LEASE, Client=3), [], Random(seed))
        return [p.key for _ in range(5) for c in cases if (p := picker.pick(c))]

    assert keys(1) == keys(1)
    assert keys(1) != keys(2)
