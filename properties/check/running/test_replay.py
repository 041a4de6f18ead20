"""Counterexamples as files: what comes of them later, on the spec, on the code and in pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.cli.code.stories import FoundStories, Verdict, judged, saved
from herdproof.cli.specs import find
from herdproof.conformance.stories import on_the_code
from herdproof.protocols.implementation import adapter_of
from herdspec import Specification, UsageError, from_source
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.exploration.explore import Exploration, Explorer
from herdspec.check.liveness.liveness import liveness
from herdspec.check.running.replay import (
    Expect,
    StoryFile,
    file_name,
    read_story,
    replay,
    story_file,
)
from herdspec.check.running.run import Machine
from herdspec.check.verdict import ALWAYS_A_STEP
from herdspec.engine.ground import Ground
from properties.language.net import NET, ONLY_ONE
from properties.specs import (
    Counter,
    it_can_get_to_zero,
    it_gets_to_three,
    it_never_counts_to_two,
    never_above_one,
)

HOLDS, FAILS, NOT_ASKED = 0, 1, 2
STORIES = Path(__file__).parents[2] / "stories"

LOCK = '''
"""A lock that gives two leases."""
from enum import Enum
from herdspec import *

class Client(Sort):
    """A client."""

class Lease(Enum):
    NONE = "none"
    HELD = "held"

class Lock(Spec):
    """A lock server."""
    holder: Client | None = None
    lease: dict[Client, Lease] = each(Lease.NONE)

    def free(self) -> bool:
        """Nobody holds it."""
        return self.holder is None

    @action
    def grant(self, c: Client, l: Lease) -> None:
        """{c} gets the lease."""
        require(l == Lease.HELD and self.lease[c] == Lease.NONE)
        # here
        self.holder = c
        self.lease[c] = l

    @action
    def release(self, c: Client) -> None:
        """{c} gives it back."""
        require(self.lease[c] == Lease.HELD)
        self.lease[c] = Lease.NONE
        self.holder = None

@always
def one_holder(s: Lock) -> bool:
    """At most one client holds the lease."""
    return all(
        not (s.lease[a] == Lease.HELD and s.lease[b] == Lease.HELD)
        for a in Client for b in Client if a != b
    )
'''
FIX = LOCK.replace("        # here", "        require(self.free())")
PROMISE_LESS = LOCK.replace("if a != b", "if a != b and s.holder is None")


def explored(spec: Specification, **sizes: int) -> tuple[Machine, Exploration]:
    """A spec's violations, and the machine that they were found on."""
    explorer = Explorer(spec, sizes, 0, bound=3)
    return explorer.machine, explorer.run()


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """The story of the broken lock, in a folder beside it."""
    lock = tmp_path / "lock.py"
    lock.write_text(LOCK)
    machine, result = explored(find(f"{lock}:Lock").spec, Client=2)
    [path] = saved(tmp_path / "stories", f"{lock}:Lock", FoundStories(machine, result.violations))
    return path


def change(path: Path, **fields: Any) -> None:
    """Change a story file's fields."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def lock_becomes(story: Path, text: str) -> None:
    """Put another lock into the file of the broken one."""
    (story.parent.parent / "lock.py").write_text(text)


def outcome(story: Path) -> tuple[Expect, str]:
    """What comes of a story now."""
    lock = story.parent.parent / "lock.py"
    found = replay(read_story(story), find(f"{lock}:Lock").spec)
    return found.outcome, found.verdict


# ── Files ───────────────────────────────────────────────────────────────────────────────────


def test_a_story_is_read_as_it_was_written(story: Path) -> None:
    """What is read from a file is what was written into it, and finds its spec from there."""
    found = read_story(story)

    assert story.name == file_name("lock.py:Lock", "one_holder") == "Lock.one_holder.story.json"
    assert found.text() == story.read_text()
    assert (found.spec, found.sizes, found.expect) == (
        "../lock.py:Lock",
        {"Client": 2},
        Expect.FAILS,
    )
    assert [(s.action, s.arguments) for s in found.steps] == [
        ("grant", {"c": "client1", "l": "HELD"}),
        ("grant", {"c": "client2", "l": "HELD"}),
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"version": 7}, "its version is 7, this program knows 1"),
        ({"sizes": {"Client": 0}}, "its size of Client is 0"),
        ({"sizes": {"Client": True}}, "its size of Client is True"),
        ({"sizes": {"Broker": 2}}, "its sizes are of Broker, the sorts of Lock are Client"),
        ({"sizes": {}}, "its sizes are of no sort"),
        ({"faults": "two"}, "its 'faults' is 'two'; a int belongs there"),
        ({"steps": None}, "its 'steps' is None; a list belongs there"),
        ({"steps": ["grant"]}, "its step 1 is 'grant'"),
        ({"expect": "glory"}, "it expects 'glory'; expect one of fails, holds, impossible"),
        ({"back": 3}, "it goes back to step 3 of 2"),
        ({"property": "two_holders"}, "Lock has no property 'two_holders'; it has one_holder"),
        (
            {"steps": [{"action": "steal", "arguments": {}}]},
            "step 1: Lock has no action 'steal'; it has grant, release",
        ),
        (
            {"steps": [{"action": "release", "arguments": {"c": "client9"}}]},
            'step 1: release: c cannot be "client9"; at these sizes it is one of "client1"',
        ),
        (
            {"steps": [{"action": "release", "arguments": {"d": "client1"}}]},
            "step 1: release is given d; it takes c",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(
    story: Path, fields: dict[str, Any], said: str
) -> None:
    """A file that does not fit is refused, with its name and what is wrong with it."""
    change(story, **fields)

    with pytest.raises(UsageError) as error:
        judged(story)

    assert said in str(error.value)
    assert str(story) in str(error.value)


def test_a_truncated_file_is_refused(story: Path) -> None:
    """Half a file is no story, and the error says what to do."""
    story.write_text(story.read_text()[:200])

    with pytest.raises(UsageError, match=r"no story, or not all of one.*save the story anew"):
        judged(story)


@pytest.mark.parametrize("text", ["[]", "{}", '"story"'])
def test_json_that_is_no_story_is_refused(story: Path, text: str) -> None:
    """JSON of something else is refused."""
    story.write_text(text)

    with pytest.raises(UsageError, match="it has no version"):
        judged(story)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is refused with its name."""
    with pytest.raises(UsageError, match=r"gone\.story\.json cannot be read"):
        judged(tmp_path / "gone.story.json")


# ── On the spec ─────────────────────────────────────────────────────────────────────────────


def test_a_bug_that_is_still_there_still_fails(story: Path) -> None:
    """While nothing changes, the property still fails."""
    assert outcome(story) == (Expect.FAILS, "still fails: after 2 steps")


def test_a_fixed_bug_is_impossible_by_a_line_of_the_spec(story: Path) -> None:
    """Where a guard forbids it now, the verdict names the step, the guard, its line and values."""
    lock_becomes(story, FIX)

    came, verdict = outcome(story)

    line = FIX.splitlines().index("        require(self.free())") + 1
    assert came is Expect.IMPOSSIBLE
    assert verdict == (
        "no longer possible at step 2: grant(client2, Lease.HELD): "
        f"require(self.free()) (lock.py:{line}) does not hold: holder is client1"
    )


def test_a_weaker_promise_holds_along_the_story(story: Path) -> None:
    """Where the story is possible and the property holds along it, that is said."""
    lock_becomes(story, PROMISE_LESS)

    came, verdict = outcome(story)

    assert came is Expect.HOLDS
    assert verdict.startswith("possible, and the property holds now")


def test_another_order_of_actions_and_another_field_do_not_matter(story: Path) -> None:
    """A story outlives fields that are added and actions that move."""
    added = "    holder: Client | None = None\n    since: Nat = 0\n"
    text = LOCK.replace("    holder: Client | None = None\n", added)
    lock_becomes(story, text.replace("    @action\n    def grant", "    @action\n    def grant"))

    assert outcome(story)[0] is Expect.FAILS


COUNTER = {
    "never_above_one": (never_above_one, "still fails: after 2 steps"),
    "it_never_counts_to_two": (it_never_counts_to_two, "still fails: in step 2, tick()"),
    "it_can_get_to_zero": (it_can_get_to_zero, "still fails: none of the 3 states"),
}


@pytest.mark.parametrize("name", COUNTER)
def test_each_kind_of_property_is_judged(name: str) -> None:
    """An invariant, a promise about steps and a way to recover fail again where they failed."""
    promise, verdict = COUNTER[name]
    spec = Counter.__specification__.with_properties(promise)
    machine, result = explored(spec)
    found = result.violations[name]

    came = replay(story_file("c", machine, name, found.initial, found.steps), spec)

    assert came.outcome is Expect.FAILS
    assert came.verdict.startswith(verdict)


def test_what_can_be_reached_again_holds() -> None:
    """Where the protocol can get there by itself, the story of `recoverable` holds now."""
    spec = Counter.__specification__.with_properties(it_can_get_to_zero)
    machine, _ = explored(spec)
    start = machine.initial()

    came = replay(story_file("c", machine, "it_can_get_to_zero", start, []), spec)

    assert came.outcome is Expect.HOLDS


def test_a_witness_is_a_story_that_holds() -> None:
    """The story of a `sometimes` holds while it is shown, and fails when it is not any more."""
    spec = Counter.__specification__.with_properties(it_gets_to_three)
    machine, result = explored(spec)
    found = result.witnesses["it_gets_to_three"]

    whole = story_file("c", machine, "it_gets_to_three", found.initial, found.steps)
    short = story_file("c", machine, "it_gets_to_three", found.initial, found.steps[:2])

    assert replay(whole, spec).verdict.endswith("it is shown after 3 steps")
    assert replay(short, spec).outcome is Expect.FAILS


def test_a_deadlock_is_a_story_too() -> None:
    """A story may be of a state without a next step."""
    spec = Counter.__specification__
    machine, result = explored(spec)
    assert result.deadlock is not None
    found = story_file("c", machine, ALWAYS_A_STEP, result.deadlock.initial, result.deadlock.steps)

    assert replay(found, spec).verdict == "still fails: there is no next step"


# ── Everything the language has ─────────────────────────────────────────────────────────────


def story_of(spec: Specification, name: str) -> StoryFile:
    """The file of a property's counterexample at two clients."""
    machine, result = explored(spec, Client=2)
    found = result.violations.get(name) or liveness(spec, {"Client": 2}, faults=0).violations[name]
    back = getattr(found, "back", None)
    return story_file("net", machine, name, found.initial, found.steps, back=back)


def test_a_story_of_channels_records_sets_and_parts_is_replayed() -> None:
    """A story names a part's step, and the initial state among several that it begins in."""
    found = story_of(NET, "somebody_waits")

    assert "mutex.cool" in [step.action for step in found.steps]
    assert set(found.start) == {"last"}
    assert replay(found, NET).outcome is Expect.FAILS


def test_a_refusal_names_entries_of_sets_and_channels() -> None:
    """A guard over a set is told with the entries that it read."""
    came = replay(story_of(NET, "somebody_waits"), ONLY_ONE)

    assert came.outcome is Expect.IMPOSSIBLE
    assert "step 5: serve(): require(not any((c in self.served for c in Client)))" in came.verdict
    assert "served[client1] is " in came.verdict


def test_an_initial_state_that_is_gone_is_impossible() -> None:
    """Where nothing starts as the story does, that is the verdict."""
    came = replay(replace(story_of(NET, "somebody_waits"), start={"last": None}), NET)

    assert came.outcome is Expect.IMPOSSIBLE
    assert "no initial state has last: None" in came.verdict


def test_an_endless_story_is_unfair_where_something_is_owed() -> None:
    """Resting for ever fails where nothing fair is possible, and is no behaviour where it is."""
    found = story_of(ONLY_ONE, "all_are_served")

    assert found.back == len(found.steps)
    assert replay(found, ONLY_ONE).verdict == "still fails: it never comes"
    came = replay(found, NET)
    assert came.outcome is Expect.HOLDS
    assert "not fair to serve()" in came.verdict


LAMP = '''
from herdspec import *
from herdspec.language.surface import eventually, weak, strong

class Lamp(Spec):
    """A lamp."""
    lit: bool = False
    gone: bool = False

    @action(fair=weak)
    def flip(self) -> None:
        """It flips."""
        require(not self.gone)
        self.lit = not self.lit

    @action
    def leave(self) -> None:
        """Somebody leaves."""
        require(self.lit and not self.gone)
        self.gone = True

@eventually
def it_is_left(s: Lamp) -> bool:
    """It is left alone at last."""
    return s.gone
'''
FAIRER = "@action(fair={})\n    def leave"


@pytest.mark.parametrize(("fair", "outcome"), [("weak", Expect.FAILS), ("strong", Expect.HOLDS)])
def test_a_loop_is_judged_by_its_fairness(fair: str, outcome: Expect) -> None:
    """What is possible in every other state of a loop is owed to strong fairness alone."""
    lamp = from_source(LAMP, "Lamp")
    fairer = from_source(LAMP.replace("@action\n    def leave", FAIRER.format(fair)), "Lamp")
    [found] = liveness(lamp, {}, faults=0).violations.values()
    machine = Machine(Ground(lamp, {}, 1, 0))

    story = story_file(
        "lamp", machine, "it_is_left", found.initial, found.steps, back=found.back
    )  # fmt: skip

    assert [step.action for step in story.steps[found.back :]] == ["flip", "flip"]
    assert replay(story, lamp).outcome is Expect.FAILS
    assert replay(story, fairer).outcome is outcome


def test_a_loop_that_does_not_close_is_no_story() -> None:
    """Where the last state is not the one that it goes back to, nothing is shown."""
    lamp = from_source(LAMP, "Lamp")
    machine = Machine(Ground(lamp, {}, 1, 0))
    [flip] = machine.steps(machine.initial())
    story = story_file("lamp", machine, "it_is_left", machine.initial(), [flip], back=0)

    came = replay(story, lamp)

    assert came.outcome is Expect.HOLDS
    assert "does not come back" in came.verdict


DESK = '''
from herdspec import *

class Client(Sort):
    """A client."""

class Desk(Spec):
    """A desk."""
    who: Client | None = None
    seen: dict[Client, bool] = each(False)

    @action
    def see(self) -> None:
        """Whoever it is, is seen."""
        # here
        self.seen[self.who] = not self.seen[self.who]
'''


def test_a_step_without_a_meaning_fails_until_it_is_guarded() -> None:
    """A value that is not there fails the story of definedness; a guard makes it impossible."""
    broken = from_source(DESK, "Desk")
    mended = from_source(DESK.replace("# here", "assert self.who is not None"), "Desk")
    machine, result = explored(broken, Client=1)
    found = result.violations[EVERY_VALUE_IS_DEFINED]
    story = story_file("desk", machine, EVERY_VALUE_IS_DEFINED, found.initial, found.steps)

    assert replay(story, broken).outcome is Expect.FAILS
    assert replay(story, mended).outcome is Expect.IMPOSSIBLE


# ── On the code ─────────────────────────────────────────────────────────────────────────────


NO_SYNC = STORIES / "election-no_sync.a_leader_can_still_be_elected.story.json"


def test_a_flaws_story_is_followed_by_the_code_with_its_switch() -> None:
    """The code with the flaw's switch follows the flaw's story to its end."""
    found = replay(read_story(NO_SYNC), find("election/no_sync").spec)

    adapter = adapter_of("election/no_sync")
    assert adapter is not None
    code = on_the_code(found.machine, adapter, found.steps)

    assert code.follows
    assert code.line == "the code follows, 12 steps (with the switch no_sync)"


def test_code_that_goes_elsewhere_than_its_spec_is_found() -> None:
    """Without the switch the code does not do what the flawed spec says, and the verdict fails."""
    found = replay(read_story(NO_SYNC), find("election/no_sync").spec)

    adapter = adapter_of("election")
    assert adapter is not None
    code = on_the_code(found.machine, adapter, found.steps)

    assert not code.follows
    assert "the code is elsewhere" in "\n".join(code.difference)
    assert not Verdict(NO_SYNC, "election/no_sync", found, code).as_expected


def test_a_spec_of_ones_own_has_no_code() -> None:
    """Nothing is replayed on the code of a spec that has none."""
    assert adapter_of("Counter") is None


@pytest.mark.parametrize("path", sorted(STORIES.glob("*.story.json")), ids=lambda p: p.name)
def test_the_stories_kept_here_come_as_expected(path: Path) -> None:
    """Each story that is kept in properties/stories comes as its file expects, code and all."""
    verdict = judged(path)

    assert verdict.as_expected, "\n".join(verdict.lines)


# ── The command ─────────────────────────────────────────────────────────────────────────────


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run a command; its exit code and all it printed."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_the_command_replays_what_explore_saved(tmp_path: Path) -> None:
    """`explore --save-stories` writes files that `replay` finds the spec of and replays."""
    lock = tmp_path / "lock.py"
    lock.write_text(LOCK)

    code, _ = run("explore", f"{lock}:Lock", "--save-stories", tmp_path / "s")
    again, told = run("replay", tmp_path / "s" / "Lock.one_holder.story.json")

    assert (code, again) == (FAILS, HOLDS)
    assert "still fails: after 2 steps, as the file expects (fails)" in told
    assert "1 of 1 story came as expected." in told


def test_another_outcome_than_expected_ends_with_1_until_it_is_accepted(story: Path) -> None:
    """A fixed bug is not as the file expects; `--accept` lets the file expect it from now on."""
    lock_becomes(story, FIX)

    assert run("replay", story)[0] == FAILS
    assert run("replay", story, "--accept")[0] == HOLDS
    assert read_story(story).expect is Expect.IMPOSSIBLE
    assert run("replay", story)[0] == HOLDS


def test_a_story_is_replayed_on_another_spec(story: Path, tmp_path: Path) -> None:
    """`--spec` names the spec to replay on."""
    fixed = tmp_path / "fixed.py"
    fixed.write_text(FIX)

    code, told = run("replay", story, "--spec", f"{fixed}:Lock", "--json", tmp_path / "out.json")

    [found] = json.loads((tmp_path / "out.json").read_text())["stories"]
    assert (code, found["outcome"], found["expect"]) == (FAILS, "impossible", "fails")
    assert "is not possible" in told


def test_a_bad_file_ends_with_2(story: Path) -> None:
    """What is no story ends with 2 and one sentence."""
    story.write_text("{")

    assert run("replay", story)[0] == NOT_ASKED


# ── pytest ──────────────────────────────────────────────────────────────────────────────────

Pytest = Callable[[Path], tuple[int, str]]


@pytest.fixture
def pytest_on() -> Pytest:
    """Runs pytest with the plugin on a folder; its exit code and what it printed."""

    def on(folder: Path) -> tuple[int, str]:
        clean = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST")}
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-p", "herdproof.testing",
                "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, folder,
            ],
            cwd=folder, env=clean, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout

    return on


def test_pytest_collects_stories(story: Path, pytest_on: Pytest) -> None:
    """A story that comes as its file expects is a test that passes."""
    code, told = pytest_on(story.parent)

    assert "1 passed" in told
    assert code == 0


def test_a_story_that_comes_otherwise_is_a_failing_test(story: Path, pytest_on: Pytest) -> None:
    """A story that comes otherwise fails its test, told step by step, without a traceback."""
    lock_becomes(story, FIX)

    code, told = pytest_on(story.parent)

    assert code == 1
    assert "no longer possible at step 2" in told
    assert "not as the file expects (fails)" in told
    assert "Traceback" not in told


def test_a_bad_story_is_a_failing_test_of_one_sentence(story: Path, pytest_on: Pytest) -> None:
    """A file that is no story fails its test, with the sentence that says why."""
    change(story, version=7)

    code, told = pytest_on(story.parent)

    assert code == 1
    assert "its version is 7" in told
    assert "Traceback" not in told
