"""Spec and code, step by step: where the spec may be, what the code must do, what is unknown."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import pytest

from herdproof.conformance.adapter import Adapter, AdapterError, Refused
from herdproof.conformance.holding.closure import CARRIED, TooManyStates
from herdproof.conformance.holding.deeds import Case
from herdproof.conformance.holding.held import Differs, Held, Raises
from herdspec import Nat, Spec, action, require, weak
from properties.conformance.leases import LEASE, Client, LeaseCore, Leases
from properties.conformance.plans import PLANS, Followers, Member, Planner

ONE, TWO, THREE = (Client(k) for k in range(3))


def flawed(adapter: type[Adapter], *flaws: str) -> type[Adapter]:
    """The same adapter, of code with these mistakes."""
    return type(f"Flawed{adapter.__name__}", (adapter,), {"flaws": flaws})


# ── The three cases ─────────────────────────────────────────────────────────────────────────


def test_what_the_spec_allows_the_code_must_take() -> None:
    """A step that is possible wherever the spec may be must be taken by the code."""

    class Lazy(Leases):
        """It refuses whoever asks."""

        def ask(self, c: Client) -> None:
            """A client asks."""
            raise Refused(f"{c} may come back tomorrow")

    with Held(LEASE, Lazy, Client=1) as held:
        assert held.case("ask", ONE) is Case.ALL
        with pytest.raises(Differs) as told:
            held.offer("ask", ONE)

    assert (
        told.value.why == "The code refused it: client1 may come back tomorrow; the spec allows it."
    )


def test_what_the_spec_forbids_the_code_must_refuse() -> None:
    """A step that is possible nowhere must be refused, and the story says what forbids it."""
    with Held(LEASE, flawed(Leases, "anyone_gives_back"), Client=2) as held:
        assert held.case("give_back", TWO) is Case.NONE
        with pytest.raises(Differs, match="though the spec does not allow it") as told:
            held.offer("give_back", TWO)

    assert "does not hold: holder is none" in str(told.value)


def test_where_only_some_states_allow_it_the_answer_tells_which() -> None:
    """Where a grant may have come or not, the code's answer says whether it has."""

    class AtItsOwnTime(Leases):
        """Its grants may come between two calls."""

        pumped = False

    with Held(LEASE, AtItsOwnTime, Client=1) as held:
        held.offer("ask", ONE)
        assert held.case("expire") is Case.SOME
        assert not held.offer("expire")
        assert len(held.states) == 1
        held.wait()
        assert held.case("expire") is Case.ALL
        assert held.offer("expire")


@pytest.mark.parametrize("when", ["before", "after", "refused"])
def test_a_silent_step_may_come_before_a_step_after_it_and_with_a_refusal(when: str) -> None:
    """Code that grants at any time is right, also where a grant came while a write was refused."""

    class Early(Leases):
        """Its grants come within other calls."""

        pumped = False

        def expire(self) -> None:
            """The lease is over."""
            if when == "before":
                self.core.turn()
            super().expire()

        def ask(self, c: Client) -> None:
            """A client asks."""
            super().ask(c)
            if when == "after":
                self.core.turn()

        def write(self, c: Client) -> None:
            """A client writes."""
            try:
                super().write(c)
            finally:
                if when == "refused":
                    self.core.turn()

    with Held(LEASE, Early, Client=2) as held:
        held.offer("ask", ONE)
        assert held.offer("write", ONE) is (when == "after")
        assert held.offer("expire")
        held.wait()

    assert held.report.refused == ({} if when == "after" else {"write": 1})


def test_a_pumped_adapter_takes_no_silent_step_between_calls() -> None:
    """Of code that does by itself nothing but when it is pumped, no early grant is explained."""

    class Early(Leases):
        """Its grants come within other calls."""

        def ask(self, c: Client) -> None:
            """A client asks."""
            super().ask(c)
            self.core.turn()

    with Held(LEASE, Early, Client=2) as held, pytest.raises(Differs) as told:
        held.offer("ask", ONE)

    assert "holder: none in the spec, client1 in the code" in str(told.value)


# ── May is not must ─────────────────────────────────────────────────────────────────────────


def test_what_is_fair_must_come_in_time() -> None:
    """A server that never grants differs when somebody waits for it, and not before."""
    with Held(LEASE, flawed(Leases, "never_grants"), Client=2) as held:
        held.wait()
        held.offer("ask", ONE)
        with pytest.raises(Differs, match="does not do what is due: The server leases to client1"):
            held.wait()


def test_without_fairness_nothing_must() -> None:
    """A server that never grants is right where the spec does not say that it must."""

    def grant(self: Any, c: Client) -> None:
        """The server leases to {c}, under a new number."""
        require(self.holder is None)
        self.holder = c

    patient = LEASE.replace("Patient", grant=action(grant))

    with Held(patient, flawed(Leases, "never_grants"), Client=2) as held:
        held.offer("ask", ONE)
        held.wait()


class Lamp(Spec):
    """A lamp that goes on and off by itself, for ever."""

    on: bool = False
    seen: bool = False

    @action(fair=weak)
    def switch_on(self) -> None:
        """It goes on."""
        require(not self.on)
        self.on = True

    @action(fair=weak)
    def switch_off(self) -> None:
        """It goes off."""
        require(self.on)
        self.on = False

    @action
    def look(self) -> None:
        """Somebody looks."""
        self.seen = True


class Lamps(Adapter):
    """A lamp that blinks, an odd number of times at each pump, or is stuck."""

    silent = ("switch_on", "switch_off")
    pumped = True
    blinks: ClassVar[int] = 3

    def begin(self) -> None:
        """It is dark."""
        self.count = 0

    def look(self) -> None:
        """Look."""

    def pump(self) -> None:
        """Some blinks."""
        self.count += self.blinks

    def observe(self) -> dict[str, Any]:
        """Whether it is on."""
        return {"on": self.count % 2 == 1}


@pytest.mark.parametrize("blinks", [0, 1, 2, 3])
def test_what_was_taken_or_did_not_stay_possible_is_not_owed(blinks: int) -> None:
    """Code that does fair steps for ever is right, though one is possible whenever it is seen."""
    adapter = type("Blinking", (Lamps,), {"blinks": blinks})

    with Held(Lamp, adapter) as held:
        held.wait()  # who blinks twice cannot be told from who does not: both ways lead there
        held.offer("look")
        held.wait()


def test_a_wait_goes_on_for_as_long_as_pumping_changes_what_is_seen() -> None:
    """Code that does a little at each pump is pumped until nothing is owed."""

    class Slow(Leases):
        """It grants at the fourth turn, and each turn can be seen."""

        turns = 0

        def pump(self) -> None:
            """The server has its turn."""
            self.turns += 1
            if self.turns > 3:
                super().pump()

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            return {**super().observe(), "wish": {}} if self.turns % 2 else super().observe()

    with Held(LEASE, Slow, Client=1) as held:
        held.offer("ask", ONE)
        held.wait()
        assert held.report.waits == 1


# ── Disturbances ────────────────────────────────────────────────────────────────────────────


class Restarting(Leases):
    """Its restart ends the lease, too."""

    def restart(self) -> None:
        """The server starts anew, and forgets who has the lease."""
        self.core.holder = None


def test_a_disturbance_may_bring_about_what_it_names_and_nothing_else() -> None:
    """A restart that ends a lease is right if it names `expire`, and differs if it names none."""

    class Named(Restarting):
        """Its restart says that it may end a lease."""

        disturbed: ClassVar[Mapping[str, Collection[str]]] = {"restart": ("expire",)}

    for adapter, is_right in ((Named, True), (Restarting, False)):
        with Held(LEASE, adapter, Client=1) as held:
            held.offer("ask", ONE)
            held.wait()
            if is_right:
                held.disturb("restart")
                assert held.states[0].state.holder is None  # type: ignore[attr-defined]
            else:
                with pytest.raises(Differs, match="holder: client1 in the spec, none in the code"):
                    held.disturb("restart")


def test_a_disturbance_stands_in_the_story_where_it_was() -> None:
    """What follows from a disturbance later is told with it, by its method's sentence."""

    class Forgetful(Leases):
        """It forgets who has asked."""

        def restart(self) -> None:
            """The server starts anew, and forgets who has asked."""
            self.core.asked.clear()

    with Held(LEASE, Forgetful, Client=1) as held:
        held.offer("ask", ONE)
        held.disturb("restart")
        with pytest.raises(Differs) as told:
            held.offer("ask", ONE)

    story = str(told.value).splitlines()
    assert story[1] == "  1. client1 asks for the lease.  [ask(client1)]"
    assert story[3] == "  2. The server starts anew, and forgets who has asked.  [restart()]"
    assert story[4] == "  3. client1 asks for the lease.  [ask(client1)]"
    assert story[5] == "The code did it, though the spec does not allow it:"


def test_a_disturbance_that_could_not_be_is_none() -> None:
    """A disturbance whose method refuses was not brought about."""

    class Once(Leases):
        """It cannot be restarted."""

        def restart(self) -> None:
            """The server starts anew."""
            raise Refused("it is not up")

    with Held(LEASE, Once, Client=1) as held:
        held.disturb("restart")

    assert not held.report.disturbed


# ── Choices ─────────────────────────────────────────────────────────────────────────────────


def test_a_choice_of_the_code_among_very_many_is_one_that_the_spec_allows() -> None:
    """Of 262,144 plans and 5,001 numbers the code chooses; the spec must allow what it chose."""
    with Held(PLANS, Planner, Part=9, Member=4) as held:
        assert held.case("plan") is Case.NONE
        assert not held.offer("plan")
        assert held.offer("join", Member(2))
        assert held.case("plan") is Case.ALL
        assert held.offer("plan")
        assert held.report.open == {}

    with Held(PLANS, flawed(Planner, "keeps_the_dead"), Part=9, Member=4) as held:
        held.offer("join", Member(0))
        held.offer("join", Member(1))
        held.offer("leave", Member(0))
        with pytest.raises(Differs, match="The code chose what the spec does not allow: plan"):
            held.offer("plan")


def test_a_silent_action_with_very_many_choices_is_refused() -> None:
    """What the code does by itself is tried with all choices: of too many, the adapter is told."""

    class Silent(Planner):
        """Its plans come by themselves."""

        silent = ("plan",)

    with pytest.raises(AdapterError, match=r"Plans has 1,310,982,144 choices .*`chosen`"):
        Held(PLANS, Silent, Part=9, Member=4)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (7, "returned 7: return what the code chose as a tuple, in the order of the parameters"),
        ((1, {}), "its whom is no value that Plans knows at these sizes"),
        ((9_999, None), "its number is no value that Plans knows at these sizes"),
    ],
)
def test_a_choice_that_is_no_value_of_the_spec_is_an_error_of_the_adapter(
    returned: Any, said: str
) -> None:
    """A method that returns what the spec does not know is told what to return."""

    class Odd(Planner):
        """It returns what is no choice."""

        def plan(self) -> Any:
            """A plan."""
            return returned

    with Held(PLANS, Odd, Part=2, Member=2) as held:
        held.offer("join", Member(0))
        with pytest.raises(AdapterError, match=re.escape(said)):
            held.offer("plan")


def test_a_method_that_returns_without_a_choice_is_told_to_refuse() -> None:
    """A method that returns a value where the code chooses nothing may have meant to refuse."""

    class Falsy(Leases):
        """It answers instead of refusing."""

        def write(self, c: Client) -> Any:
            """A client writes."""
            return c.index > 9

    with Held(LEASE, Falsy, Client=1) as held, pytest.raises(AdapterError, match="raises Refused"):
        held.offer("write", ONE)


# ── What cannot be said ─────────────────────────────────────────────────────────────────────


class Clock(Spec):
    """A clock that goes by itself."""

    now: Nat = 0
    asked: Nat = 0

    @action
    def tick(self) -> None:
        """It ticks."""
        self.now += 1

    @action
    def ask(self) -> None:
        """Somebody asks."""
        self.asked = self.now


class Clocks(Adapter):
    """What the clock shows is not seen."""

    silent = ("tick",)

    def begin(self) -> None:
        """Nothing."""

    def ask(self) -> None:
        """Nothing."""

    def observe(self) -> dict[str, Any]:
        """Nothing."""
        return {}


def test_too_many_states_are_neither_right_nor_wrong() -> None:
    """Where the spec may be in more states than are carried, nothing is said but that."""
    with pytest.raises(TooManyStates, match=f"more than {CARRIED:,} states: Clocks must observe"):
        Held(Clock, Clocks).begin()


def test_fields_and_entries_that_were_never_seen_are_named() -> None:
    """What is not observed is not compared, and the report names it, single entries too."""

    class Shy(Leases):
        """It shows little."""

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            return {"term": self.core.term, "token": {TWO: self.core.tokens[1]}}

    with Held(LEASE, Shy, Client=3) as held:
        held.offer("ask", ONE)

    unseen = ("wish", "holder", "token[client1]", "token[client3]", "written")
    assert sorted(held.report.unseen) == sorted(unseen)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ({"holdr": None}, "Odd observes 'holdr', which is no field of Lease; its fields: wish"),
        ({"holder": 1}, "observes holder = 1 (int), which no state of Lease has"),
        ({"token": {Client(7): 0}}, "token has no such key; its keys: client1, client2"),
        (None, "Odd.observe returned None: return a dict"),
    ],
)
def test_a_look_that_no_state_can_have_is_an_error_of_the_adapter(look: Any, said: str) -> None:
    """A field that is none, or a value or a key that its field cannot have, is no difference."""

    class Odd(Leases):
        """It sees what is no state."""

        def observe(self) -> Any:
            """What is seen."""
            return look

    with pytest.raises(AdapterError, match=re.escape(said)), Held(LEASE, Odd, Client=2):
        pass


@pytest.mark.parametrize("call", ["observe", "pump", "ask"])
def test_a_call_that_raises_is_named_with_the_step_after_which_it_did(call: str) -> None:
    """What the adapter raises and is no refusal is told as a story, with its cause."""

    class Breaks(Leases):
        """It raises what is no refusal."""

        def ask(self, c: Client) -> None:
            """A client asks."""
            super().ask(c)
            self._break("ask")

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            if self.core.asked:
                self._break("observe")
            return super().observe()

        def pump(self) -> None:
            """The server has its turn."""
            self._break("pump")

        def _break(self, where: str) -> None:
            if where == call:
                raise KeyError("nobody")

    def ask_and_wait(held: Held) -> None:
        held.offer("ask", ONE)
        held.wait()

    with Held(LEASE, Breaks, Client=1) as held, pytest.raises(Raises) as told:
        ask_and_wait(held)

    place = r"\(test_conformance_held.py, line \d+\)"
    assert re.match(rf"`{call}` raised KeyError: 'nobody' {place}: ", told.value.why)
    assert "1. client1 asks for the lease.  [ask(client1)]" in str(told.value)
    assert isinstance(told.value.__cause__, KeyError)


def test_code_that_cannot_begin_is_an_error_before_the_first_step() -> None:
    """What `begin` raises is no difference: nothing was done yet."""

    class Broken(Leases):
        """It cannot begin."""

        def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
            """Begin."""
            raise OSError(f"no port for {Client}")

    with pytest.raises(AdapterError, match=r"`begin` raised OSError: no port for 1 \(.*\), before"):
        Held(LEASE, Broken, Client=1).begin()
    assert "code under test" not in {thread.name for thread in threading.enumerate()}


def test_an_adapter_may_loop_over_the_specs_sorts() -> None:
    """Within the adapter's methods, `for c in Client` runs over as many as there are."""

    class Looping(Leases):
        """It looks at each client."""

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            return {"token": {c: self.core.tokens[c.index] for c in Client}}

    with Held(LEASE, Looping, Client=3) as held:
        assert held.offer("ask", THREE)

    assert "token[client3]" not in held.report.unseen


def test_a_program_to_paste_does_it_again() -> None:
    """The program that a story ends with differs in the same way when it is run."""
    with Held(PLANS, LastIsLost, Part=4, Member=3) as held:
        for member in range(3):
            held.offer("join", Member(member))
        whom = {p: Member(p.index % 3) for p in held.machine.elements("Part")}
        with pytest.raises(Differs) as told:
            held.offer("plan", 1, whom)

    program = str(told.value).partition("As a program:\n")[2]
    with pytest.raises(Differs) as again:
        exec(program, {"LastIsLost": LastIsLost})

    assert str(again.value) == str(told.value)


class LastIsLost(Followers):
    """It forgets the last part of a plan for three."""

    flaws = ("last_is_lost",)


def test_a_specs_step_without_meaning_is_told_as_the_specs_own() -> None:
    """Where the spec looks at what is not there, it is the spec that has no meaning."""

    class Odd(Spec):
        """Its tokens may become fewer than none."""

        holder: Client | None = None
        token: Nat = 0

        @action
        def give(self, c: Client) -> None:
            """{c} gets it."""
            assert self.holder is None
            self.holder = c

        @action
        def spend(self) -> None:
            """One less."""
            self.token -= 1

    class Odds(Adapter):
        """Code that does as it is told."""

        def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
            """Begin."""
            self.core = LeaseCore(Client)

        def give(self, c: Client) -> None:
            """It is given."""

        def spend(self) -> None:
            """One is spent."""

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            return {}

    with Held(Odd, Odds, Client=1) as held, pytest.raises(Differs, match="has no meaning here"):
        held.offer("spend")
