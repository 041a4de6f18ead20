"""
Generated tests of real code: what they find, how they tell it, and what they never pass over.

Adapters are attacked, too: actions swapped or idle, a constant look, code that is not
deterministic, hangs, raises, or leaves behind what it began.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, ClassVar

import pytest
from hypothesis import settings

from herdproof.conformance.adapter import Adapter, AdapterError, Refused
from herdproof.conformance.holding.closure import TooManyStates
from herdproof.conformance.holding.deeds import Case, Deed
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.walks.shorten import REPETITIONS, again
from herdproof.conformance.walks.stateful import stateful
from herdproof.conformance.walks.walk import Walked, walk
from herdspec.language.surface import sizes_of_sorts
from properties.conformance.holding.test_conformance_held import Clock, Clocks, flawed
from properties.conformance.leases import LEASE, Client, Lease, LeaseCore, Leases
from properties.conformance.plans import PLANS, Followers, Planner

Report = Callable[[str], None]


def run(adapter: type[Adapter], **sizes: Any) -> Any:
    """Run the generated test of the lease once; the test case."""
    case: Any = stateful(Lease, adapter, **(sizes or {"Client": (2, 3)}))
    case("runTest").runTest()
    return case


LeaseHeld: Any = stateful(LEASE, Leases, Client=(2, 3))
LeaseHeld.settings = settings(max_examples=20, stateful_step_count=10)
PlansHeld: Any = stateful(PLANS, Planner, Part=9, Member=range(2, 5))
PlansHeld.settings = settings(max_examples=5, stateful_step_count=10)


def test_what_pytest_collects_is_named_and_says_what_it_saw() -> None:
    """The class has a name and a sentence; each action was taken, and refused where it can be."""
    case = run(Leases)

    assert case.__name__ == "LeaseHeldByLeases"
    assert case.__doc__ == "Leases is held to Lease, step by step."
    report = case.walks.report
    assert {*report.taken} == {"ask", "expire", "give_back", "write"}
    assert {*report.refused} == {"ask", "give_back", "write"}
    assert report.disturbed["restart"] > 0 < report.waits
    assert report.unseen == ("wish",)
    assert not report.left


def test_refusals_are_rare() -> None:
    """About one turn in ten offers what is forbidden: more keep a walk from getting anywhere."""
    walked = walk(LEASE, Leases, {"Client": 3}, runs=50)
    refused = sum(walked.report.refused.values())

    assert 0.05 < refused / (refused + walked.steps) < 0.2


@pytest.mark.parametrize(
    ("flaw", "most"),
    [("no_fence", 7), ("forgets", 3), ("never_grants", 2), ("anyone_gives_back", 1)],
)
def test_a_mistake_is_found_and_told_in_as_few_deeds_as_can_be(flaw: str, most: int) -> None:
    """Each mistake of the lease's code is found by generated rules, and by walks, told shortly."""
    with pytest.raises(Differs) as told:
        run(flawed(Leases, flaw))
    walked = walk(LEASE, flawed(Leases, flaw), {"Client": (2, 3)}, seed=1)

    assert walked.difference is not None
    for found in (told.value, walked.difference):
        assert len(found.deeds) == most
        assert "As a program:\nfrom herdproof" in str(found)


def test_numbers_compared_as_text_are_found_with_twelve_clients(report: Report) -> None:
    """As text, 10 is less than 9: found after ten leases, and told with no deed to spare."""
    text = flawed(Leases, "text")
    began = perf_counter()

    walked = walk(LEASE, text, {"Client": 12})

    assert walked.difference is not None
    deeds = walked.difference.deeds
    report(
        f"lease, tokens as text, 12 clients: found in run {walked.runs} after {walked.steps} steps,"
        f" told in {len(deeds)} deeds, {perf_counter() - began:.1f} s"
    )
    assert deeds[-1].name == "write"
    held = Held(LEASE, text, Client=12)
    assert again(held, deeds) is not None
    for k in range(len(deeds)):
        assert again(held, [*deeds[:k], *deeds[k + 1 :]]) is None, f"deed {k + 1} can be spared"


@pytest.mark.parametrize("adapter", [Planner, Followers])
def test_plans_that_nobody_can_list_are_drawn_and_chosen(adapter: type[Adapter]) -> None:
    """Of 262,144 plans, each with one of 5,001 numbers, possible ones are drawn for the code."""
    walked = walk(PLANS, adapter, {"Part": 9, "Member": 4}, runs=10)

    assert walked.holds
    assert walked.report.taken["plan"] > 50
    assert walked.report.refused["plan"] > 5
    assert not walked.report.open


def test_a_mistake_in_a_plan_is_found() -> None:
    """Code that loses a part of a plan for three, or that plans for who has left, differs."""
    for adapter in (flawed(Followers, "last_is_lost"), flawed(Planner, "keeps_the_dead")):
        assert walk(PLANS, adapter, {"Part": 9, "Member": 4}).difference is not None


# ── An adapter is attacked, too ─────────────────────────────────────────────────────────────


class Swapped(Leases):
    """Two of its actions are swapped."""

    def give_back(self, c: Client) -> None:
        """Write instead."""
        super().write(c)

    def write(self, c: Client) -> None:
        """Give back instead."""
        super().give_back(c)


class Idle(Leases):
    """It does not write."""

    def write(self, c: Client) -> None:
        """Refuse as it must, and do nothing."""
        if not self.core.tokens[c.index] or self.core.tokens[c.index] < self.core.written:
            raise Refused


class Constant(Leases):
    """It sees the beginning for ever."""

    def observe(self) -> dict[str, Any]:
        """What it was like at first."""
        first: dict[str, Any] = self.__dict__.setdefault("first", super().observe())
        return first


class TakesAll(Leases):
    """It refuses nothing."""

    def _done(self, did: bool) -> None:
        assert did in (True, False)


class Raising(Leases):
    """It cannot be looked at when somebody has written."""

    def observe(self) -> dict[str, Any]:
        """Fail, then."""
        if self.core.written:
            raise ZeroDivisionError("no ink")
        return super().observe()


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        (Swapped, "in the code"),
        (Idle, "written: 1 in the spec, 0 in the code"),
        (Constant, "The code does not do what is due"),
        (TakesAll, "The code did it, though the spec does not allow it"),
        (
            Raising,
            "`observe` raised ZeroDivisionError: no ink (test_conformance_stateful.py, line ",
        ),
    ],
)
def test_an_adapter_that_is_wrong_differs(adapter: type[Adapter], said: str) -> None:
    """Swapped or idle actions, a constant look, and one that raises are told as stories."""
    with pytest.raises(Differs, match="step by step") as told:
        run(adapter)

    assert said in str(told.value)
    assert len(told.value.deeds) <= 4


def test_an_adapter_that_does_nothing_at_all_shows_nothing() -> None:
    """A test in which the code took no step does not pass."""

    class Nothing(Leases):
        """It takes no action."""

        absent: ClassVar[Mapping[str, str]] = dict.fromkeys(
            ("ask", "expire", "give_back", "write"), "not written yet"
        )
        offered = ()  # type: ignore[assignment]

    with pytest.raises(AdapterError, match="Nothing took no step of Lease: nothing was shown"):
        run(Nothing)


# ── Code that is not deterministic ──────────────────────────────────────────────────────────


def test_what_differs_once_and_not_again_is_told_as_such() -> None:
    """Code that is wrong once in its life is told with its first story, not as a flaky test."""
    calls = count()

    class Once(Leases):
        """It is wrong once in its life."""

        def write(self, c: Client) -> None:
            """A client writes."""
            if next(calls) == 100:
                raise Refused("a bit has flipped")
            super().write(c)

    with pytest.raises(Differs) as told:
        run(Once)

    assert "The code refused it: a bit has flipped; the spec allows it." in str(told.value)
    assert f"Seen once, and not again in {REPETITIONS} repetitions." in str(told.value)


def test_a_story_is_told_again_though_the_code_takes_its_time() -> None:
    """What the code had done by itself in time, a repetition waits for, and says so."""

    class AtItsOwnTime(Leases):
        """Its grants may come between two calls."""

        pumped = False
        flaws = ("forgets",)

    story = [
        Deed("offer", "ask", (Client(0),), True, Case.ALL),
        Deed("offer", "expire", (), True, Case.SOME),
        Deed("disturb", "restart"),
    ]

    found = again(Held(LEASE, AtItsOwnTime, Client=1), story)

    assert found is not None
    assert [deed.kind for deed in found.deeds] == ["offer", "wait", "offer", "disturb"]


def test_what_differs_now_and_then_is_told_with_how_often() -> None:
    """Code that refuses at random is told with a story that was seen so many times of so many."""
    random = Random(1)

    class Flaky(Leases):
        """It refuses now and then."""

        def ask(self, c: Client) -> None:
            """A client asks."""
            if random.random() < 0.5:
                raise Refused("not today")
            super().ask(c)

    for tell in (run, lambda a: _raise(walk(LEASE, a, {"Client": 2}).difference)):
        with pytest.raises(Differs, match=r"Seen \d times in 6 repetitions\."):
            tell(Flaky)


def _raise(found: Differs | None) -> None:
    assert found is not None
    raise found


class ThreadedLeases(Leases):
    """The lease's server has a thread that grants whenever it likes, and a lock."""

    pumped = False
    patience = 0.5

    def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
        """A server of its own, with its thread."""
        self.core = LeaseCore(Client, self.flaws)
        self.changed = threading.Condition()
        self.ends = False
        self.thread = threading.Thread(target=self._serve, name="lease server")
        self.thread.start()

    def end(self) -> None:
        """Stop the thread."""
        with self.changed:
            self.ends = True
            self.changed.notify()
        self.thread.join()

    def _serve(self) -> None:
        with self.changed:
            while not self.ends:
                self.core.turn()
                self.changed.wait()

    def _done(self, did: bool) -> None:
        with self.changed:
            self.changed.notify()
        super()._done(did)

    def pump(self) -> None:
        """It needs no pumping."""

    def observe(self) -> dict[str, Any]:
        """A look that is not torn."""
        with self.changed:
            return super().observe()


def test_code_with_threads_stays_in_step_and_a_mistake_is_found(report: Report) -> None:
    """A server that grants at any time is right; without a fence it is found, and told shortly."""
    case: Any = stateful(LEASE, ThreadedLeases, Client=(2, 3))
    case.settings = settings(max_examples=20)
    began = perf_counter()
    case("runTest").runTest()
    rate = case.walks.report.steps / (perf_counter() - began)
    report(f"lease with a thread: {case.walks.report.steps:,} steps, {rate:,.0f} steps/s")

    began = perf_counter()
    with pytest.raises(Differs, match="though the spec does not allow it") as told:
        run(flawed(ThreadedLeases, "no_fence"))
    report(
        f"lease with a thread and no fence: told in {len(told.value.deeds)} deeds,"
        f" {perf_counter() - began:.1f} s"
    )
    assert len(told.value.deeds) <= 8
    assert "(by itself)" in str(told.value)


# ── What cannot be said ─────────────────────────────────────────────────────────────────────


def test_too_many_states_are_unknown_and_never_passed() -> None:
    """Where the spec may be anywhere, a walk is unknown, and a generated test fails."""
    walked = walk(Clock, Clocks, {}, runs=2, steps=5)
    assert walked.difference is None
    assert not walked.holds
    assert "may be in more than 4,096 states" in walked.unknown

    with pytest.raises(TooManyStates):
        stateful(Clock, Clocks)("runTest").runTest()  # type: ignore[attr-defined]


def test_what_was_never_seen_taken_or_refused_is_said() -> None:
    """A pass says what it does not show: fields, actions, refusals, disturbances."""

    class Little(Leases):
        """It shows little, and takes little."""

        absent: ClassVar[Mapping[str, str]] = {"give_back": "clients never do"}
        offered = ("write",)  # type: ignore[assignment]

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            return {"token": {Client(0): self.core.tokens[0]}, "term": self.core.term}

    walked = walk(LEASE, Little, {"Client": 2}, runs=1, steps=0)
    assert walked.gaps == [
        "never seen: wish, holder, token[client2], written",
        "never taken: ask, expire, write",
        "never refused: write",
        "never brought about: restart",
        "absent: give_back (clients never do)",
    ]
    walked = walk(LEASE, Little, {"Client": 2}, runs=20)
    assert walked.gaps == [
        "never seen: wish, holder, token[client2], written",
        "absent: give_back (clients never do)",
    ]


@pytest.mark.parametrize("ends", [{"runs": 0}, {"seconds": 0.0}, {"steps": 0}])
def test_walks_that_were_not_walked_show_nothing(ends: dict[str, Any]) -> None:
    """No run, no time, and runs of no step are no pass."""
    walked = walk(LEASE, Leases, {"Client": 2}, **ends)

    assert (walked.holds, walked.unknown) == (False, "no step was taken")


SUITE = """
from herdproof.conformance.walks.stateful import stateful
from properties.conformance.leases import Lease, Leases

class NoFence(Leases):
    flaws = ("no_fence",)

LeaseHeld = stateful(Lease, Leases, Client=2)
Unfenced = stateful(Lease, NoFence, Client=2)
"""


def test_pytest_collects_a_generated_test_and_says_what_it_does_not_show(tmp_path: Path) -> None:
    """In a suite, the class is a test; a story is all that a failure prints; gaps come last."""
    suite = tmp_path / "test_lease.py"
    suite.write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]

    done = subprocess.run(
        [*command, "-p", "herdproof.testing", str(suite)],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert "1 failed, 1 passed" in done.stdout
    assert "test_lease.py::LeaseHeld::runTest: never seen: wish" in done.stdout
    assert "Lease, step by step on spec and code (NoFence):" in done.stdout
    assert "The code did it, though the spec does not allow it:" in done.stdout
    assert "site-packages/hypothesis" not in done.stdout
    assert "Traceback" not in done.stdout


def test_the_same_seed_walks_the_same_way() -> None:
    """Walks are their seed's: the same steps and refusals again, and others with another."""

    def told(walked: Walked) -> object:
        return walked.runs, walked.report.taken, walked.report.refused

    walks = [walk(LEASE, Leases, {"Client": (2, 5)}, runs=5, seed=seed) for seed in (7, 7, 8)]

    assert told(walks[0]) == told(walks[1]) != told(walks[2])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({}, "Lease needs a size for its sort Client: write `Client=3`, or some to draw from"),
        ({"Client": ()}, "Lease needs a size for its sort Client"),
        ({"Client": (0, 3)}, "Lease needs a size for its sort Client"),
        (
            {"Client": 2, "Server": 1},
            "Lease has no sort 'Server' to give a size; its sorts: Client",
        ),
    ],
)
def test_sizes_that_are_none_are_refused_at_once(sizes: Any, said: str) -> None:
    """A sort without a size, an odd size, and a size without a sort are errors that say so."""
    with pytest.raises(AdapterError, match=said):
        stateful(LEASE, Leases, **sizes)


def test_an_adapter_that_does_not_fit_is_refused_before_anything_runs() -> None:
    """The class is not even made for an adapter without a method for an action."""

    class Short(Leases):
        """It has no method for a write."""

        write = None  # type: ignore[assignment]

    with pytest.raises(AdapterError, match=r"no method for the action write of Lease: write `def"):
        stateful(LEASE, Short, Client=2)


def test_a_rule_may_be_named_as_hypothesis_names_its_own() -> None:
    """Actions whose names mean something to Hypothesis are actions like any others."""
    from herdspec import Spec, action

    class Odd(Spec):
        """Its actions have Hypothesis' names."""

        done: bool = False

        @action
        def teardown(self) -> None:
            """It is torn down."""
            self.done = True

        @action
        def check_invariants(self) -> None:
            """It is checked."""
            self.done = False

    class Odds(Adapter):
        """Code for it."""

        def begin(self) -> None:
            """Begin."""
            self.done = False

        def teardown(self) -> None:
            """Do it."""
            self.done = True

        def check_invariants(self) -> None:
            """Do it."""
            self.done = False

        def observe(self) -> dict[str, Any]:
            """What is seen."""
            return {"done": self.done}

    case: Any = stateful(Odd, Odds)
    case("runTest").runTest()
    assert {*case.walks.report.taken} == {"teardown", "check_invariants"}


def test_every_call_is_made_in_one_thread() -> None:
    """Code that may be used by the thread alone that made it is used by no other."""
    threads: list[set[int]] = []

    class Bound(Leases):
        """It notes its threads."""

        def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
            """Begin."""
            super().begin(Client)
            threads.append({threading.get_ident()})

        def _done(self, did: bool) -> None:
            threads[-1].add(threading.get_ident())
            super()._done(did)

        def end(self) -> None:
            """End."""
            threads[-1].add(threading.get_ident())

    walk(LEASE, Bound, {"Client": 2}, runs=3)
    assert [len(some) for some in threads] == [1, 1, 1]


def test_a_walk_begins_with_what_is_offered_first() -> None:
    """By every run, which is then told of it."""

    def first(held: Held) -> None:
        with sizes_of_sorts(held.machine.sizes):
            assert held.offer("ask", Client(0))

    walked = walk(LEASE, Leases, {"Client": 2}, runs=7, steps=1, first=first)
    wrong = walk(LEASE, flawed(Leases, "never_grants"), {"Client": 2}, runs=1, first=first)

    assert walked.holds
    assert walked.report.taken["ask"] >= 7
    assert wrong.difference is not None
