"""
Stories taken on code: saved ones, by command and by pytest, and the generated tests of a spec.

The code is the tutorial's lease; the stories that it cannot follow are named, and no difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest, TestCase

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.cli.code.stories import judged
from herdproof.conformance.adapter import Adapter, AdapterError
from herdproof.conformance.graphs.graph import explored
from herdproof.conformance.holding.held import Differs
from herdproof.conformance.stories import OnTheCode, Outcome, on_the_code
from herdproof.conformance.story_tests import stories
from herdproof.protocols.election.held.adapter import SimulatedElectors
from herdspec import Spec, action, require
from herdspec.check.exploration.exploration import Story
from herdspec.check.running.replay import read_story, story_file
from herdspec.protocols.election.properties import ELECTION
from properties.conformance.leases import LEASE, Client, Leases

pytest_plugins = ["pytester"]
Report = Callable[[str], None]

# ── Stories of the explorer on code ─────────────────────────────────────────────────────────


class Eager(Leases):
    """A server that grants at once, as soon as it can."""

    pumped = False

    def _done(self, did: bool) -> None:
        super()._done(did)
        self.core.turn()


EXPLORER = explored(LEASE, {"Client": 2}, symmetry=False)


def edge_stories() -> list[Story]:
    """The shortest story to each edge at two clients."""
    edges = EXPLORER.edges
    assert edges is not None
    pairs = zip(edges.source.tolist(), edges.instance.tolist(), strict=True)
    return [EXPLORER.story(source, instance) for source, instance in pairs]


def outcomes(adapter: type[Adapter]) -> list[OnTheCode]:
    """What comes of these stories on code."""
    return [on_the_code(EXPLORER.machine, adapter, s.steps, s.initial) for s in edge_stories()]


def count(found: list[OnTheCode], outcome: Outcome) -> int:
    """How many of them came so."""
    return sum(one.outcome is outcome for one in found)


def test_a_story_is_followed_elsewhere_or_not_but_never_differs_on_right_code(
    report: Report,
) -> None:
    """Of 84 shortest stories the pumped and the eager server follow most; none differs."""
    for adapter in (Leases, Eager):
        found = outcomes(adapter)

        told = ", ".join(f"{count(found, o)} {o.value}" for o in Outcome)
        report(f"lease, 84 stories to edges, {adapter.__name__}: {told}")
        assert len(found) == 84
        assert count(found, Outcome.DIFFERS) == 0
        assert count(found, Outcome.FOLLOWED) >= 40
    assert count(found, Outcome.STUCK) > 0
    assert count(found, Outcome.ELSEWHERE) > 0


def test_a_story_that_cannot_be_followed_says_at_which_step() -> None:
    """The step that is not possible for the code is named."""
    stuck = next(one for one in outcomes(Eager) if one.outcome is Outcome.STUCK)

    assert "is not possible where it is by then" in stuck.line
    assert stuck.line.startswith("the code cannot follow after ")
    assert not stuck.follows
    assert not stuck.differs


class Obedient(Eager):
    """It does what it is told, right or wrong: nothing is to be offered where that is forbidden."""

    flaws = ("anyone_gives_back", "no_fence")
    offered = ()  # type: ignore[assignment]


def test_a_step_of_a_story_is_not_offered_where_the_spec_forbids_it() -> None:
    """Where a story cannot be followed, the code is not asked for what it would do wrong."""
    found = outcomes(Obedient)

    assert count(found, Outcome.DIFFERS) == 0
    assert count(found, Outcome.STUCK) > 0


class NoFence(Leases):
    """It writes under an older number, too."""

    flaws = ("no_fence",)


class Idle(Leases):
    """One of its actions does nothing."""

    def write(self, c: Client) -> None:
        """Nothing."""


class Deaf(Leases):
    """It refuses what the spec allows."""

    def expire(self) -> None:
        """Never."""
        self._done(False)


@pytest.mark.parametrize("adapter", [Idle, Deaf])
def test_code_that_does_otherwise_differs_on_some_story(adapter: type[Adapter]) -> None:
    """An action that does nothing, or is refused, is a difference with a story of its own."""
    found = [one for one in outcomes(adapter) if one.differs]

    assert found
    assert found[0].difference[0] == f"Lease, step by step on spec and code ({adapter.__name__}):"


def test_an_absent_action_is_named() -> None:
    """A story with an action that never happens to the code cannot be followed, and says why."""
    members = {k: v for k, v in vars(Leases).items() if k != "expire"}
    adapter = type("NoClock", (Adapter,), {**members, "absent": {"expire": "there is no clock"}})

    found = [one for one in outcomes(adapter) if "there is no clock" in one.why]

    assert found
    assert all(one.outcome is Outcome.STUCK for one in found)


class Blind(Leases):
    """Nothing but the number of the latest lease is seen."""

    def observe(self) -> dict[str, Any]:
        """The number."""
        return {"term": self.core.term}


def test_code_that_shows_too_little_does_not_follow() -> None:
    """Where the code may be elsewhere, too, it is not said to have followed."""
    story = next(s for s in edge_stories() if s.labels == ["ask(client1)", "ask(client2)",
                                                          "grant(client1)"])  # fmt: skip

    assert on_the_code(EXPLORER.machine, Leases, story.steps).follows
    found = on_the_code(EXPLORER.machine, Blind, story.steps)
    assert found.outcome is Outcome.UNCLEAR
    assert "ends in one of 2 states" in found.line


# ── Saved stories ───────────────────────────────────────────────────────────────────────────

GATE = '''
"""A gate."""
from herdspec import *

class Gate(Spec):
    """It counts who passes."""
    passed: Nat = 0
    shut: bool = False

    @action
    def shut_it(self) -> None:
        """The gate is shut."""
        require(not self.shut)
        self.shut = True

    @action
    def go(self) -> None:
        """Somebody passes."""
        # here
        self.passed += 1

@always
def at_most_one(s: Gate) -> bool:
    """At most one passes."""
    return s.passed <= 1
'''
CODE = '''
from gate import Gate
from herdproof.testing import Adapter, Refused

class RealGate(Adapter):
    """A gate."""
    def begin(self):
        """It is open."""
        self.passed, self.shut = 0, False
    def shut_it(self):
        """Shut it."""
        self.shut = True
    def go(self):
        """Pass."""
        self.passed += 1
    def observe(self):
        """All."""
        return {"passed": self.passed, "shut": self.shut}

class Counts(RealGate):
    """It counts by two."""
    def go(self):
        """Pass."""
        self.passed += 2

class Shy(RealGate):
    """It lets nobody pass."""
    absent = {"go": "it is locked"}
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec, code, and a saved story of two who pass."""
    (tmp_path / "gate.py").write_text(GATE)
    (tmp_path / "real_gate.py").write_text(CODE)
    run("explore", f"{tmp_path / 'gate.py'}:Gate", "--save-stories", tmp_path)
    assert story_in(tmp_path).is_file()
    return tmp_path


def story_in(folder: Path) -> Path:
    """The saved story."""
    return folder / "Gate.at_most_one.story.json"


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run a command; its exit code and all it printed."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_a_story_is_replayed_on_code_that_is_named(folder: Path) -> None:
    """`--code` names an adapter; code that does as the spec does follows."""
    code, told = run("replay", story_in(folder), "--code", f"{folder / 'real_gate.py'}:RealGate")

    assert code == 0
    assert "the code follows, 2 steps" in told


def test_code_that_differs_fails_the_replay(folder: Path) -> None:
    """Code that goes elsewhere fails, though the spec's story comes as expected."""
    code, told = run("replay", story_in(folder), "--code", f"{folder / 'real_gate.py'}:Counts")

    assert code == 1
    assert "passed: 1 in the spec, 2 in the code" in told
    assert "0 of 1 story came as expected." in told


def test_code_that_does_not_show_a_story_leaves_it_unknown(folder: Path) -> None:
    """The spec's side comes as expected; of the code nothing was shown, which is no pass."""
    shy = CODE.partition("class Counts")[0].replace("def go", "def unused")
    shy = (
        shy.partition("    def unused")[0]
        + """
    absent = {"go": "it is locked"}
    def observe(self):
        \"\"\"All.\"\"\"
        return {"passed": self.passed, "shut": self.shut}
"""
    )
    (folder / "shy_gate.py").write_text(shy)
    code, told = run("replay", story_in(folder), "--code", f"{folder / 'shy_gate.py'}:RealGate",
                     "--json", folder / "out.json")  # fmt: skip
    (story,) = json.loads((folder / "out.json").read_text())["stories"]

    assert code == 3
    assert "Unknown: of 1 the code does not show where they end." in told
    assert (story["as_expected"], story["code_outcome"]) == (True, "stuck")
    assert "never happens to it: it is locked" in story["unknown"]


def test_accepted_code_is_named_in_the_file_from_then_on(folder: Path) -> None:
    """`--accept` writes the code's name into the file, by a path from the file's folder."""
    run("replay", story_in(folder), "--code", f"{folder / 'real_gate.py'}:RealGate", "--accept")

    assert read_story(story_in(folder)).code == "real_gate.py:RealGate"
    verdict = judged(story_in(folder))
    assert verdict.code is not None
    assert verdict.code.follows


def test_code_beside_the_spec_needs_no_name(folder: Path) -> None:
    """An adapter that stands in the spec's own file is found by itself."""
    code = CODE.replace("from gate import Gate\n", "").partition("class Counts")[0]
    (folder / "gate.py").write_text(GATE + code)

    verdict = judged(story_in(folder))

    assert verdict.code is not None
    assert verdict.code.follows


def test_wrong_names_of_code_are_one_sentence(folder: Path) -> None:
    """A name that is no adapter's is refused with those that are."""
    code, told = run("replay", story_in(folder), "--code", f"{folder / 'real_gate.py'}:Nobody")

    assert code == 2
    assert "Nobody is not there; the adapters of" in " ".join(told.split())


def test_pytest_replays_a_story_on_the_code_that_its_file_names(
    folder: Path, pytester: pytest.Pytester
) -> None:
    """The plugin fails where the code differs, passes where it follows."""
    text = story_in(folder).read_text()
    for file in ("gate.py", "real_gate.py"):
        (pytester.path / file).write_text((folder / file).read_text())
    for adapter in ("RealGate", "Counts"):
        named = text.replace('  "told"', f'  "code": "real_gate.py:{adapter}",\n  "told"')
        (pytester.path / f"Gate.{adapter}.story.json").write_text(named)

    done = pytester.runpytest_subprocess("-p", "herdproof.testing", "-p", "no:cacheprovider")

    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*passed: 1 in the spec, 2 in the code*"])


def test_pytest_skips_a_story_that_the_code_cannot_follow(
    folder: Path, pytester: pytest.Pytester
) -> None:
    """A story that the code cannot follow is skipped, with the reason."""
    shy = CODE.replace('    def go(self):\n        """Pass."""\n        self.passed += 1\n', "")
    shy = shy.partition("class Counts")[0] + '    absent = {"go": "it is locked"}\n'
    (pytester.path / "gate.py").write_text(GATE)
    (pytester.path / "real_gate.py").write_text(shy)
    text = story_in(folder).read_text()
    named = text.replace('  "told"', '  "code": "real_gate.py:RealGate",\n  "told"')
    (pytester.path / "Gate.shy.story.json").write_text(named)

    done = pytester.runpytest_subprocess(
        "-p", "herdproof.testing", "-p", "no:cacheprovider", "-rs"
    )  # fmt: skip

    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*never happens to it: it is locked*"])


def test_a_story_written_without_code_names_none() -> None:
    """A file of a story whose code is not named has no such field: older programs read it."""
    [story, *_] = edge_stories()
    file = story_file("lease.py:Lease", EXPLORER.machine, "", story.initial, story.steps)

    assert '"code"' not in file.text()
    assert '"code": "a.py:B"' in file.expecting(file.expect, "a.py:B").text()


# ── Generated tests ─────────────────────────────────────────────────────────────────────────

LeaseStories = stories(LEASE, Leases, Client=2)


def names(case: type[TestCase]) -> list[str]:
    """The names of its tests."""
    return [name for name in vars(case) if name.startswith("test_")]


def results(case: type[TestCase]) -> dict[str, str]:
    """What comes of each test: passed, or what it says."""
    found = {}
    for name in names(case):
        try:
            getattr(case(name), name)()
        except (Differs, SkipTest) as said:
            found[name] = str(said)
        else:
            found[name] = "passed"
    return found


def test_there_is_a_test_for_each_action_each_sometimes_and_each_side() -> None:
    """The tests are called after what they show."""
    assert names(LeaseStories) == [
        "test_action_ask", "test_action_grant", "test_action_expire", "test_action_give_back",
        "test_action_write", "test_sometimes_somebody_is_late", "test_refused_ask_1",
        "test_refused_give_back_1", "test_refused_write_1", "test_refused_write_2",
    ]  # fmt: skip
    doc = LeaseStories.test_refused_write_2.__doc__  # type: ignore[attr-defined]
    assert doc == "write is refused where only this does not hold: written <= token[c]"


SHOWN_BY = {
    "no_fence": "test_refused_write_2",
    "anyone_gives_back": "test_refused_give_back_1",
    "never_grants": "test_action_grant",
}


@pytest.mark.parametrize("flaw", SHOWN_BY)
def test_a_flaw_fails_the_test_of_its_side(flaw: str) -> None:
    """Each flaw fails the test of just the condition that it leaves out."""
    adapter = type("Flawed", (Leases,), {"flaws": (flaw,)})
    found = results(stories(LEASE, adapter, Client=2))

    assert "Lease, step by step on spec and code (Flawed):" in found[SHOWN_BY[flaw]]


def test_a_flaw_elsewhere_leaves_the_other_tests_alone() -> None:
    """Without a fencing check, only the test of fencing fails."""
    found = results(stories(LEASE, NoFence, Client=2))

    assert [name for name, said in found.items() if said != "passed"] == ["test_refused_write_2"]


class Shop(Spec):
    """A shop that sells to members, and on Mondays to all."""

    member: bool = False
    monday: bool = False
    sold: bool = False

    @action
    def join(self) -> None:
        """Somebody becomes a member."""
        self.member = True

    @action
    def wait(self) -> None:
        """It becomes Monday."""
        self.monday = True

    @action
    def buy(self) -> None:
        """Something is bought."""
        require(not self.sold)
        require(self.member or self.monday)
        self.sold = True


class RealShop(Adapter):
    """A shop; `closed` leaves one alternative out."""

    offered = ("buy",)
    closed: ClassVar[str] = ""

    def begin(self) -> None:
        """Nothing is sold."""
        self.member = self.monday = self.sold = False

    def join(self) -> None:
        """Join."""
        self.member = True

    def wait(self) -> None:
        """Wait."""
        self.monday = True

    def buy(self) -> None:
        """Buy."""
        from herdproof.conformance.adapter import Refused

        allowed = {"member": self.member, "monday": self.monday}
        if self.sold or not any(v for k, v in allowed.items() if k != self.closed):
            raise Refused
        self.sold = True

    def observe(self) -> dict[str, bool]:
        """All."""
        return {"member": self.member, "monday": self.monday, "sold": self.sold}


@pytest.mark.parametrize(("closed", "test"), [("member", 1), ("monday", 2)])
def test_each_alternative_of_a_guard_has_a_test_of_its_own(closed: str, test: int) -> None:
    """Code that leaves one alternative out fails the test in which that alone allows the step."""
    right = results(stories(Shop, RealShop))
    wrong = results(stories(Shop, type("Wrong", (RealShop,), {"closed": closed})))

    assert set(right.values()) == {"passed"}
    assert "the spec allows it" in wrong[f"test_allowed_buy_2_{test}"]
    assert wrong[f"test_allowed_buy_2_{3 - test}"] == "passed"


def test_the_election_follows_its_own_stories() -> None:
    """Each action, each `sometimes`, each condition of one broker's guards; the rest has none."""
    found = results(stories(ELECTION, SimulatedElectors, Broker=1, faults=2))

    skipped = {said for said in found.values() if said != "passed"}
    assert all(
        said.endswith(("at this size", "is never possible at this size")) for said in skipped
    )
    assert sum(said == "passed" for said in found.values()) > 20


def test_a_story_that_ends_elsewhere_is_no_test_that_passes() -> None:
    """A server that grants at once never rests where somebody waits: that test is skipped."""
    found = results(stories(LEASE, Eager, Client=2))

    assert "ends elsewhere" in found["test_action_ask"]
    assert found["test_action_write"] == "passed"


def test_what_has_no_story_is_skipped_and_says_so() -> None:
    """An action that is never possible at a size is no test that passes."""
    found = results(stories(ELECTION, SimulatedElectors, Broker=1, faults=0))

    assert found["test_action_cut"] == "cut is never possible at this size"


def test_an_adapter_that_does_not_fit_is_refused_at_once() -> None:
    """The adapter is checked where the tests are made."""
    with pytest.raises(AdapterError, match="is no action of Shop"):
        stories(Shop, Leases)
