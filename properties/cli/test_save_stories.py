"""Stories that `explore`, `search`, `simulate` and `prove` save, replayed on spec and code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdspec.check.running.replay import Expect, read_story

pytest_plugins = ["pytester"]
HOLDS, FAILS, NOT_ASKED = 0, 1, 2

GATE = """
from herdspec import Nat, Spec, action, always, initial, require, sometimes

class Gate(Spec):
    \"\"\"People pass a gate, which somebody shuts.\"\"\"

    passed: Nat = 0
    shut: bool = False
    wide: bool = False
    one: bool = False
    two: bool = False

    @initial
    def build(self, wide: bool) -> None:
        \"\"\"The gate is wide or not.\"\"\"
        self.wide = wide

    @action
    def shut_it(self) -> None:
        \"\"\"The gate is shut.\"\"\"
        require(not self.shut)
        self.shut = True

    @action
    def go(self) -> None:
        \"\"\"Somebody passes.\"\"\"
        require(not self.shut)
        self.passed += 1

    @action
    def swap(self) -> None:
        \"\"\"What is seen of one side is seen of the other.\"\"\"
        self.two = self.one

@always
def at_most_one(s: Gate) -> bool:
    \"\"\"At most one passes.\"\"\"
    return s.passed <= 1

@always
def it_is_narrow(s: Gate) -> bool:
    \"\"\"The gate is never wide.\"\"\"
    return not s.wide

@always
def two_is_off(s: Gate) -> bool:
    \"\"\"It holds, and is not inductive.\"\"\"
    return not s.two

@sometimes
def it_is_shut_behind_somebody(s: Gate) -> bool:
    \"\"\"Somebody has passed, and the gate is shut.\"\"\"
    return s.shut and s.passed > 0
"""
CODE = """
from gate import Gate
from herdproof.testing import Adapter, Refused

class RealGate(Adapter):
    \"\"\"A gate.\"\"\"
    step = 1
    def begin(self):
        \"\"\"It is open.\"\"\"
        self.passed, self.shut, self.wide = 0, False, False
    def start(self, state):
        \"\"\"It is as wide as it is built.\"\"\"
        self.wide = state.wide
    def shut_it(self):
        \"\"\"Shut it.\"\"\"
        if self.shut:
            raise Refused
        self.shut = True
    def go(self):
        \"\"\"Pass.\"\"\"
        if self.shut:
            raise Refused
        self.passed += self.step
    def swap(self):
        \"\"\"There is nothing to see.\"\"\"
    def observe(self):
        \"\"\"All but the sides.\"\"\"
        return {"passed": self.passed, "shut": self.shut, "wide": self.wide}

class Counts(RealGate):
    \"\"\"It counts by two.\"\"\"
    step = 2
"""
BROKEN = {"at_most_one", "it_is_narrow"}
SHOWN = {"it_is_shut_behind_somebody"}
COMMANDS = {
    "explore": ((), BROKEN | SHOWN),
    "search": (("--depth", "3"), BROKEN),
    "simulate": (("--steps", "2000"), BROKEN | SHOWN),
    "prove": ((), BROKEN),
}


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run a command; its exit code and all it printed."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The gate's spec, its code beside it."""
    (tmp_path / "gate.py").write_text(GATE)
    (tmp_path / "real_gate.py").write_text(CODE)
    return tmp_path / "gate.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_finds_is_saved_and_replayed_on_code(command: str, gate: Path) -> None:
    """A file for each story; the right code follows each, one that counts wrongly does not."""
    options, found = COMMANDS[command]
    folder = gate.parent / "stories"

    code, told = run(command, gate, *options, "--save-stories", folder)
    files = sorted(folder.iterdir())
    right = run("replay", *files, "--code", f"{gate.parent / 'real_gate.py'}:RealGate",
                "--json", gate.parent / "right.json")  # fmt: skip
    wrong, how = run("replay", *files, "--code", f"{gate.parent / 'real_gate.py'}:Counts")

    assert code == FAILS
    assert {read_story(f).property for f in files} == found
    assert all(f"saved {f}: herdproof replay {f}" in told for f in files)
    assert right[0] == HOLDS, right[1]
    came = json.loads((gate.parent / "right.json").read_text())["stories"]
    assert {story["code_outcome"] for story in came} == {"followed"}
    assert not any(story["changed"] for story in came)
    assert wrong == FAILS
    assert "passed: 1 in the spec, 2 in the code" in how


@pytest.mark.parametrize("command", ["explore", "simulate"])
def test_a_witness_is_expected_to_hold(command: str, gate: Path) -> None:
    """The way to a `sometimes` is told without detours, and stays a test that it is shown."""
    folder = gate.parent / "stories"
    run(command, gate, *COMMANDS[command][0], "--save-stories", folder)
    file = folder / "Gate.it_is_shut_behind_somebody.story.json"

    code, told = run("replay", file)

    assert read_story(file).expect is Expect.HOLDS
    assert [s.action for s in read_story(file).steps] == ["go", "shut_it"]
    assert code == HOLDS
    assert "possible, and the property holds: it is shown after 2 steps" in told


def test_a_witness_that_is_lost_fails_its_file(gate: Path) -> None:
    """Where the way no longer shows it, the story does not come as its file expects."""
    folder = gate.parent / "stories"
    run("simulate", gate, "--steps", "2000", "--save-stories", folder)
    gate.write_text(GATE.replace("s.shut and s.passed > 0", "s.shut and s.passed > 1"))

    code, told = run("replay", folder / "Gate.it_is_shut_behind_somebody.story.json")

    assert code == FAILS
    assert "still fails: no state of the story shows it, not as the file expects (holds)" in told


def test_a_counterexample_to_induction_is_no_story(gate: Path) -> None:
    """What is not known to be reached is named, and not saved; a run and a start are."""
    folder = gate.parent / "stories"

    _, told = run("prove", gate, "--save-stories", folder)

    assert "not saved, no run is known to the state in which its" in told
    assert "counterexample to induction begins: two is off" in told
    run_to = read_story(folder / "Gate.at_most_one.story.json")
    begun = read_story(folder / "Gate.it_is_narrow.story.json")
    assert [s.action for s in run_to.steps] == ["go", "go"]
    assert (begun.steps, begun.start) == ((), {"wide": True})


def test_where_nothing_is_found_nothing_is_saved(gate: Path) -> None:
    """The command says so."""
    gate.write_text(GATE.partition("@always")[0] + "@always\ndef so(s: Gate) -> bool:\n"
                    "    \"\"\"So.\"\"\"\n    return s.passed >= 0\n")  # fmt: skip

    for command in ("search", "simulate", "prove"):
        code, told = run(
            command, gate, *COMMANDS[command][0], "--save-stories", gate.parent / "none"
        )
        assert "no story was found" in told, command
        assert code in (HOLDS, 3), told
    assert not [*(gate.parent / "none").glob("*")]


def test_a_file_is_no_folder_for_stories(gate: Path) -> None:
    """Stories are not put into a file; that is said in a sentence."""
    for command, (options, _) in COMMANDS.items():
        code, told = run(command, gate, *options, "--save-stories", gate)

        assert code == NOT_ASKED, command
        assert "name one for the stories" in " ".join(told.split())


def test_pytest_replays_what_search_and_simulate_saved(
    gate: Path, pytester: pytest.Pytester
) -> None:
    """The plugin collects the files like any, and takes them on code that they name."""
    for name in ("gate.py", "real_gate.py"):
        (pytester.path / name).write_text((gate.parent / name).read_text())
    for command in ("search", "simulate"):
        folder = pytester.path / command
        run(command, pytester.path / "gate.py", *COMMANDS[command][0], "--save-stories", folder)
        for file in folder.iterdir():
            story = read_story(file)
            wrong = command == "search" and story.property == "at_most_one"
            code = f"../real_gate.py:{'Counts' if wrong else 'RealGate'}"
            story.expecting(story.expect, code).write(file)

    done = pytester.runpytest_subprocess("-p", "herdproof.testing", "-p", "no:cacheprovider")

    done.assert_outcomes(passed=4, failed=1)
    done.stdout.fnmatch_lines(["*passed: 1 in the spec, 2 in the code*"])
