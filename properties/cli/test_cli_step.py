"""Stepping by hand: what is shown of a state, what is possible, and why something is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from properties.cli.files import LAMPS, POST, TALLY, run

HOLDS = 0


@pytest.fixture
def post(tmp_path: Path) -> Path:
    """A file with a spec of messages."""
    file = tmp_path / "post.py"
    file.write_text(POST)
    return file


@pytest.fixture
def lamps(tmp_path: Path) -> Path:
    """A file with a spec that fails."""
    file = tmp_path / "lamps.py"
    file.write_text(LAMPS)
    return file


def test_a_step_is_taken_by_its_number(lamps: Path) -> None:
    """The state and its possible steps are shown; a number takes one, and says what it changes."""
    done = run("step", lamps, answers="2\nq\n")

    assert done.exit_code == HOLDS
    assert "  1. switch_on(lamp1)  lamp1 is switched on." in done.stdout
    assert "lamp2 is switched on.\n  on[lamp2]: False → True" in done.stdout
    assert "after 1 step, 0 of 2 faults taken:\n  on: lamp1 False, lamp2 True" in done.stdout


def test_stepping_ends_with_what_it_reads(lamps: Path) -> None:
    """It needs no terminal: where a pipe ends, stepping ends, without a failure."""
    done = run("step", lamps, answers="1\n")

    assert done.exit_code == HOLDS
    assert done.stdout.rstrip().endswith("The fuse blows.")


def test_a_step_is_taken_by_its_label_and_undone(lamps: Path) -> None:
    """`u` takes back the last step, `b` all of them, `p` tells what is left."""
    done = run("step", lamps, answers="switch_on(lamp1)\nblow()\nu\np\nb\np\nu\n")

    after = [line for line in done.stdout.splitlines() if line.startswith("after ")]
    assert [line.split(":")[0] for line in after] == [
        "after 0 steps, 0 of 2 faults taken", "after 1 step, 0 of 2 faults taken",
        "after 2 steps, 1 of 2 faults taken", "after 1 step, 0 of 2 faults taken",
        "after 0 steps, 0 of 2 faults taken",
    ]  # fmt: skip
    assert "  1. lamp1 is switched on.  [switch_on(lamp1)]" in done.stdout
    assert "No step was taken yet." in done.stdout
    assert "this is the beginning" in done.stdout


def test_what_a_state_breaks_is_shown(lamps: Path) -> None:
    """A promise that the state breaks, or the step to it, is told at once."""
    done = run("step", lamps, answers="1\n1\nblow()\n")

    states = done.stdout.split("after ")
    assert "✗ never all: Never are all lamps on." in states[3]
    assert "✗ what is on stays on: A lamp that is on stays on." in states[4]
    assert "✗" not in states[1] + states[2]


def test_why_a_step_is_not_possible(lamps: Path) -> None:
    """`?` names what of the guard fails, its line, and what it saw; or that the budget is spent."""
    done = run("step", lamps, "--faults", "1", answers="1\n?\nblow()\n? blow\n? switch_on\n? no\n")

    line = LAMPS.splitlines().index("        require(not self.on[l])") + 1
    assert f"switch_on(lamp1): require(not self.on[l]) (lamps.py:{line}) does not" in done.stdout
    assert "on[lamp1] is True" in done.stdout
    assert "blow(): the budget of faults is spent (1 of 1)" in done.stdout
    assert done.stdout.count("require(not self.blown)") == 2
    assert "there is no action 'no'; the actions: switch_on, blow" in done.stdout
    assert "No step is possible here." in done.stdout


def test_an_action_that_is_possible_is_said_to_be(lamps: Path) -> None:
    """`? ACTION` of an action that is possible however it is chosen says so."""
    done = run("step", lamps, answers="? switch_on\n")

    assert "switch_on is possible here, however its arguments are chosen" in done.stdout


@pytest.mark.parametrize("answer", ["0", "4", "9999", "-1", "switch_on", "²", "x y"])
def test_an_answer_without_a_meaning_is_told_what_to_write(lamps: Path, answer: str) -> None:
    """What is no step and no word is answered with the numbers that are, and changes nothing."""
    done = run("step", lamps, answers=f"{answer}\np\n")

    assert done.exit_code == HOLDS
    assert "write a number from 1 to 3, or h for help" in done.stdout
    assert "No step was taken yet." in done.stdout


def test_the_path_is_saved(lamps: Path, tmp_path: Path) -> None:
    """`s FILE` writes the path as a story; where it cannot, it says so and goes on."""
    file = tmp_path / "path.json"

    done = run("step", lamps, answers=f"2\nblow()\ns {file}\ns\ns /no/such/place\n")

    saved = json.loads(file.read_text())
    wanted = {
        "spec": "lamps.py:Lamps", "property": "what_is_on_stays_on", "expect": "fails",
        "sizes": {"Lamp": 2}, "faults": 2, "bound": 3, "start": {}, "steps": [
            {"action": "switch_on", "arguments": {"l": "lamp2"}},
            {"action": "blow", "arguments": {}},
        ],
    }  # fmt: skip
    assert {key: saved[key] for key in wanted} == wanted
    assert f"saved 2 steps: herdproof replay {file}" in done.stdout
    assert "save to which file? write s FILE" in done.stdout
    assert "/no/such/place cannot be written: No such file or directory" in done.stdout


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [("2", "possible: every step has a meaning"), ("2\nblow()", "still fails: in step 2, blow()")],
)
def test_a_saved_path_is_replayed(lamps: Path, answers: str, verdict: str) -> None:
    """What `s FILE` wrote is a story: it is possible still, and breaks what it broke."""
    file = lamps.parent / "paths" / "path.json"
    file.parent.mkdir()

    run("step", lamps, answers=f"{answers}\ns {file}\n")
    done = run("replay", file)

    assert done.exit_code == HOLDS
    assert (
        "lamp2 is switched on.  [switch_on(lamp2)]\n         on[lamp2]: False → True" in done.stdout
    )
    assert verdict in done.stdout


def test_an_initial_state_is_chosen(post: Path, tmp_path: Path) -> None:
    """Where there are several initial states one of them is chosen first; `b` chooses anew."""
    file = tmp_path / "path.json"

    done = run("step", post, answers=f"9\n2\n1\np\ns {file}\nb\n1\n")

    assert "  1. as above\n  2. opened: True\n" in done.stdout
    assert "there is no step '9': write a number from 1 to 2" in done.stdout
    assert done.stdout.count("There are several initial states; choose one:") == 2
    assert done.stdout.rstrip().endswith("No step is possible here.")
    assert "\nInitially: opened=True  [start(True)]\n  1. A letter is sent" in done.stdout
    assert "\nafter 0 steps:\n" in done.stdout  # of faults nothing: no action of it disturbs
    assert json.loads(file.read_text())["start"] == {"opened": True}
    assert "Initially: opened=True  [start(True)]" in run("replay", file).stdout


def test_messages_and_what_is_beyond_the_bound_are_shown(post: Path) -> None:
    """A channel is shown with its messages; a step that overfills it is marked."""
    done = run("step", post, answers="2\n1\n1\n")

    assert "queue: [] → [Letter(to=box1, express=False)]" in done.stdout
    after = done.stdout.split("after 1 step")[1]
    assert "1. send(box1, False)  A letter is sent to box1.  (beyond the bound)" in after
    assert "deliver(box1)      box1 gets its letter.\n" in after


def test_a_natural_beyond_the_bound_is_marked(tmp_path: Path) -> None:
    """A step to a natural that exploring would drop is marked, and may be taken all the same."""
    file = tmp_path / "tally.py"
    file.write_text(TALLY)

    done = run("step", file, "--bound", "1", answers="1\n1\n")

    marked = [line for line in done.stdout.splitlines() if line.startswith("  1. more()")]
    assert [line.endswith("(beyond the bound)") for line in marked] == [False, True, True]
    assert "count: 1 → 2" in done.stdout


def test_a_step_without_a_meaning_is_said(post: Path) -> None:
    """A step that is possible, but looks at what is not there, is told and cannot be taken."""
    done = run("step", post, answers="2\n? look\nlook()\n")

    line = POST.splitlines().index("        if self.last.express:") + 1
    why = f"`self.last` is absent, in `self.last.express` (post.py:{line})"
    assert f"✗ look() is possible, but has no meaning: {why}" in done.stdout
    assert f"\n  look() is possible, but has no meaning: {why}" in done.stdout
    assert "there is no step 'look()'" in done.stdout
