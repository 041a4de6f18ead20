"""Exploring from the shell: the state graph, how it is searched, `--watch`, saved stories."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.cli.spec import watch
from herdproof.cli.spec.explore import Shown
from herdspec.check.exploration.explore import explore
from herdspec.check.exploration.graph_export import StateGraph, quoted, state_graph, to_dot, to_json
from herdspec.language.errors import UsageError
from properties.cli.files import AT_MOST_ONE, GLOWS, LAMPS, POST, WITNESS, run
from properties.specs import LOCK_SERVER, TWO_PHASE_COMMIT

HOLDS, FAILS, NOT_ASKED, UNKNOWN, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
ROOT = Path(__file__).parents[2]
SPECS = ROOT / "properties" / "specs.py"


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


# ── The state graph ─────────────────────────────────────────────────────────────────────────


def test_the_graph_has_every_state_and_every_step() -> None:
    """The exported graph is the space that is explored without renaming: all states, all steps."""
    found = explore(LOCK_SERVER, {"Client": 2}, faults=1, symmetry=False)

    graph = state_graph(LOCK_SERVER, {"Client": 2}, faults=1)

    assert (len(graph.nodes), len(graph.edges)) == (found.states, found.generated)
    assert [n.number for n in graph.nodes if n.initial] == [0]
    assert not any(n.broken for n in graph.nodes)


def test_each_edge_of_the_graph_changes_what_its_label_says() -> None:
    """Along an edge `grant(c)` the lock leaves the server and is on its way to that client."""
    graph = state_graph(LOCK_SERVER, {"Client": 2}, faults=0)

    grants = [e for e in graph.edges if e.action == "grant"]

    assert grants
    for edge in grants:
        before, after = graph.nodes[edge.source].values, graph.nodes[edge.target].values
        assert before["free"]
        assert after[f"granted[{edge.arguments[0]}]"]
        assert edge.label == f"grant({edge.arguments[0]})"
        assert edge.sentence == f"The server grants the lock to {edge.arguments[0]}."


def test_a_graph_as_json(lamps: Path, tmp_path: Path) -> None:
    """`--graph FILE.json` has values as JSON has them, and says which states break a promise."""
    file = tmp_path / "graph.json"

    done = run("explore", lamps, "--faults", "1", "--graph", file)

    graph: dict[str, Any] = json.loads(file.read_text())
    assert done.exit_code == FAILS
    assert f"the state graph: 5 states, 8 steps, in {file}" in done.stdout
    assert graph["states"][0] == {
        "id": 0, "initial": True, "broken": [],
        "values": {"on[lamp1]": False, "on[lamp2]": False, "blown": False, "faults taken": 0},
    }  # fmt: skip
    assert [s["broken"] for s in graph["states"]].count(["never_all"]) == 1
    assert {s["label"] for s in graph["steps"]} == {
        "switch_on(lamp1)", "switch_on(lamp2)", "blow()",
    }  # fmt: skip


def test_every_initial_state_of_the_graph_is_one(post: Path, tmp_path: Path) -> None:
    """Where there are several initial states the graph marks each, and messages are lists."""
    file = tmp_path / "graph.json"

    run("explore", post, "--graph", file)

    states = json.loads(file.read_text())["states"]
    assert [s["values"]["opened"] for s in states if s["initial"]] == [False, True]
    assert {json.dumps(s["values"]["queue"]) for s in states} >= {
        "[]", '["Letter(to=box2, express=True)"]',
    }  # fmt: skip
    sent = [e["arguments"] for e in json.loads(file.read_text())["steps"] if e["action"] == "send"]
    assert sorted(map(str, sent[:4])) == [
        "['box1', False]", "['box1', True]", "['box2', False]", "['box2', True]",
    ]  # fmt: skip


def test_a_graph_for_graphviz(lamps: Path, tmp_path: Path) -> None:
    """`--graph FILE.dot` has a line for each state and each step; what is broken is red."""
    file = tmp_path / "graph.dot"

    run("explore", lamps, "--faults", "1", "--graph", file)

    text = file.read_text()
    assert text.startswith('digraph "Lamps" {\n')
    assert len(re.findall(r"^  \d+ \[", text, re.MULTILINE)) == 5
    assert len(re.findall(r"^  \d+ -> \d+ \[", text, re.MULTILINE)) == 8
    assert re.findall(r'label="(✗ [^\\]*)', text) == ["✗ never all"]
    assert text.count("color=red") == text.count("penwidth=3") == 1


@given(st.text(st.sampled_from('\\"\nl]') | st.characters(), max_size=30))
def test_any_text_is_quoted_so_that_graphviz_reads_it_back(text: str) -> None:
    """A quoted string ends where it should, whatever is in it, and nothing of it is lost."""
    inside = quoted(text)

    whole = re.fullmatch(r'"((?:[^"\\\n]|\\["\\l])*)"', inside, re.DOTALL)
    assert whole is not None
    meant = {"l": "\n", '"': '"', "\\": "\\"}
    assert re.sub(r"\\(.)", lambda m: meant[m[1]], whole[1]) == text


def test_a_large_graph_is_refused(tmp_path: Path) -> None:
    """A graph that nobody can look at is refused before it is explored to its end."""
    with pytest.raises(UsageError, match=r"more than 2,000 states: .* choose smaller sizes"):
        state_graph(TWO_PHASE_COMMIT, {"Manager": 9}, faults=0)


@pytest.mark.parametrize(
    ("option", "file", "said"),
    [
        ("--graph", "graph.png", "ends in .dot or .json"),
        ("--graph", "no/such/place/g.dot", "there is no directory to write it to"),
        ("--graph", ".", "it is a directory; name a file"),
        ("--save", "no/such/place/s.npz", "there is no directory to write it to"),
        ("--save-stories", "lamps.py", "it is no folder; name one for the stories"),
        ("--json", ".", "it is a directory; name a file"),
    ],
)
def test_what_cannot_be_written_is_said_before_a_search(
    lamps: Path, option: str, file: str, said: str
) -> None:
    """An unknown ending, or a place that is none, is usage; nobody waits to hear of it."""
    done = run("explore", lamps, option, lamps.parent / file)

    assert done.exit_code == NOT_ASKED
    assert said in done.stderr
    assert done.stdout == ""


def test_both_formats_tell_the_same_graph() -> None:
    """Both formats have the same steps, in the same order."""
    graph: StateGraph = state_graph(LOCK_SERVER, {"Client": 1}, faults=1)

    of_json = [(s["from"], s["to"], s["label"]) for s in json.loads(to_json(graph))["steps"]]
    of_dot = re.findall(r'^  (\d+) -> (\d+) \[label="([^"]*)"', to_dot(graph), re.MULTILINE)

    assert [(int(a), int(b), label) for a, b, label in of_dot] == of_json


# ── Searching ───────────────────────────────────────────────────────────────────────────────


def test_a_step_without_a_meaning_fails(post: Path) -> None:
    """Exploring a spec in which a step looks at what is not there fails, and tells the way."""
    done = run("explore", post, "--may-end")

    assert done.exit_code == FAILS
    assert re.search(r"every value is defined +check +✗ 1 step", done.stdout)
    assert '"No step looks at a value that is not there, or leaves a range."' in done.stdout
    assert "[look()]" in done.stdout


def test_what_must_happen_is_judged_too(lamps: Path, tmp_path: Path) -> None:
    """A promise of liveness is judged on the graph without renaming; one that is cut is not."""
    lamps.write_text(LAMPS.partition("@always")[0] + GLOWS + AT_MOST_ONE)
    whole = ("explore", lamps, "--size", "Lamp=1", "--faults", "0", "--may-end")

    done = run(*whole, "--save-stories", tmp_path / "stories")
    fair = lamps.parent / "fair.py"
    fair.write_text(lamps.read_text().replace("    @action\n", "    @action(fair=weak)\n", 1))
    holds = run("explore", fair, *whole[2:])
    cut = run("explore", fair, "--faults", "0", "--may-end", "--constraint", "at_most_one")
    renamed = run("explore", fair, *whole[2:], "--symmetry")

    codes = (done.exit_code, holds.exit_code, cut.exit_code, renamed.exit_code)
    assert codes == (FAILS, HOLDS, UNKNOWN, NOT_ASKED)
    assert "nothing more happens" in done.stdout
    assert (tmp_path / "stories" / "Lamps.it_glows_at_last.story.json").is_file()
    assert "cut at the constraint at_most_one" in cut.stdout
    assert "never checked up to renaming" in renamed.stderr


def test_a_branch_that_no_step_takes_is_named(post: Path, tmp_path: Path) -> None:
    """A branch of an action that was never taken is told by its line, and in the JSON."""
    file = tmp_path / "out.json"

    done = run("explore", post, "--may-end", "--json", file)

    line = POST.splitlines().index("            self.got[b] = False") + 1
    told = json.loads(file.read_text())["branches_never_taken"]
    assert [(b["action"], Path(b["file"]).name, b["line"]) for b in told] == [
        ("send", "post.py", line)
    ]
    assert f"a branch of send was never taken: post.py:{line}" in done.stdout


def test_within_a_constraint_nothing_is_said_of_what_lies_beyond(lamps: Path) -> None:
    """`--constraint` does not go on from states without it; what lies beyond is not "holds"."""
    lamps.write_text(LAMPS + AT_MOST_ONE + WITNESS)

    whole = ("explore", lamps, "--size", "Lamp=3", "--faults", "0", "--may-end")
    free = run(*whole)
    done = run(*whole, "--constraint", "at_most_one")

    assert free.exit_code == FAILS
    assert done.exit_code == UNKNOWN
    assert "not gone on from: 1 states without at most one" in done.stdout
    assert "cut at the constraint at_most_one" in done.stdout
    assert re.search(r"what is on stays on +step +○ .*within the constraint", done.stdout)


def test_a_constraint_is_a_property_of_one_state(lamps: Path) -> None:
    """A step property is no constraint: refused, with what to write instead."""
    done = run("explore", lamps, "--constraint", "what is on stays on")

    assert done.exit_code == NOT_ASKED
    assert "it is a @step; write it as a function of one state, marked @always" in done.stderr


def test_a_search_is_put_aside_and_gone_on_with(tmp_path: Path) -> None:
    """With `--save` a search that is cut short goes on later, and ends as if it never was cut."""
    spec, file = f"{SPECS}:TwoPhaseCommit", tmp_path / "search.npz"
    whole = ("explore", spec, "--size", "Manager=5", "--no-symmetry", "--may-end")

    cut = run(*whole, "--memory-gb", "0.00001", "--save", file)
    done = run(*whole, "--resume", file)
    other = run(*whole[:3], "Manager=4", *whole[4:], "--resume", file)

    assert cut.exit_code == UNKNOWN
    assert f"put aside: go on with --resume {file}" in cut.stdout
    assert done.exit_code == HOLDS
    assert "8,832 states, 58,145 steps" in done.stdout
    assert other.exit_code == NOT_ASKED
    assert "is a checkpoint of another search" in other.stderr


def test_what_was_not_put_aside_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after the search, while it is looked what is possible: then there is no file."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("herdspec.check.exploration.explore.Explorer._finish", interrupted)
    file = tmp_path / "search.npz"
    done = run("explore", f"{SPECS}:TwoPhaseCommit", "--may-end", "--save", file)

    assert done.exit_code == INTERRUPTED
    assert f"nothing was put aside in {file}" in done.stderr
    assert not file.exists()


def test_the_engine_that_searched_is_said(tmp_path: Path) -> None:
    """The engine is chosen and said; every engine finds the same."""
    spec = f"{SPECS}:TwoPhaseCommit"
    told = {}
    for engine in ("numpy", "native"):
        file = tmp_path / f"{engine}.json"
        done = run("explore", spec, "--no-symmetry", "--engine", engine, "--json", file)
        told[engine] = json.loads(file.read_text())
        assert f" s, {engine}" in done.stdout

    assert [told[e].pop("engine") for e in told] == ["numpy", "native"]
    for one in told.values():
        assert one.pop("seconds") >= 0
        assert one.pop("threads") in (1, 2)
    assert told["numpy"] == told["native"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "turbo"], "there is no engine 'turbo'"),
        (["--threads", "3"], "--threads"),
        (["--constraint", "nothing"], "its properties: never_all"),
        (["--resume", "nowhere.npz"], "nowhere.npz cannot be read"),
        (["--symmetry", "--size", "Lamp=0"], "at least 1"),
    ],
)
def test_what_cannot_be_searched_is_refused(lamps: Path, options: list[str], said: str) -> None:
    """Options without a meaning are usage, each told in one sentence."""
    done = run("explore", lamps, *options)

    assert done.exit_code == NOT_ASKED
    assert said in done.stderr


def test_why_a_space_is_large(lamps: Path) -> None:
    """`--why` counts the values of each entry, and the steps of each action."""
    done = run("explore", lamps, "--faults", "1", "--no-symmetry", "--why")

    assert re.search(r"on +2\n", done.stdout)
    assert re.search(r"switch_on +0\.80\n", done.stdout)


def test_while_it_runs_a_search_says_what_it_may_come_to() -> None:
    """After each level the states so far are told; as soon as one can guess, how many in all."""
    told: list[tuple[str, float | None]] = []
    shown = Shown(lambda words, fraction: told.append((words, fraction)))

    found = explore(
        TWO_PHASE_COMMIT, {"Manager": 5}, faults=0, symmetry=False,
        progress=shown.level, estimates=shown.estimate,
    )  # fmt: skip

    guesses = [t for t in told if "in all" in t[0]]
    assert len([t for t in told if t[1] is None]) == found.depth + 1
    assert re.fullmatch(
        r"level \d+, [\d,]+ states, [\d,]+ to expand; about .* s to go", guesses[0][0]
    )
    assert all(0 <= fraction <= 1 for _, fraction in guesses if fraction is not None)


# ── Watching ────────────────────────────────────────────────────────────────────────────────


@contextmanager
def watching(file: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """`explore FILE --watch` in a process of its own; it is ended at the end."""
    code = "from herdproof.cli import app; app()"
    command = [sys.executable, "-c", code, "explore", str(file), "--watch", *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


def verdict(lines: IO[str]) -> str:
    """What is printed until the file is watched again."""
    told: list[str] = []
    for line in lines:
        if line.startswith("watching "):
            return "".join(told)
        told.append(line)
    raise AssertionError(f"it ended: {''.join(told)}")


def test_a_saved_file_is_checked_again(lamps: Path) -> None:
    """Each save is followed by a verdict; an error in the file is shown, and watched on."""
    fails = LAMPS
    holds = LAMPS.replace("not all(s.on", "s.blown or True or all(s.on").partition("@step")[0]

    with watching(lamps, "--may-end") as (_, lines):
        told = [verdict(lines)]
        for text in (
            holds,
            "def (",
            LAMPS.replace("if", "while"),
            holds.replace("{l}", "{m}"),
            fails,
        ):
            with lamps.open("w") as half_saved:  # empty for a while, as an editor leaves it
                time.sleep(0.1)
                half_saved.write(text)
            told.append(verdict(lines))

    assert ["It fails." in t for t in told] == [True, False, False, True, False, True]
    assert "It holds." in told[1]
    assert f"{lamps} cannot be imported: SyntaxError" in told[2]
    assert "lamps.py" in told[4]
    assert all("── lamps.py changed ──" in t for t in told[1:])


def test_a_neighbour_that_the_file_imports_is_read_anew(lamps: Path) -> None:
    """A module beside the file that it imports is watched, too, and read again when it is saved."""
    limit = lamps.parent / "limit.py"
    limit.write_text("LIMIT = 2\n")
    counting = """
from herdspec import *
from limit import LIMIT

class Tally(Spec):
    count: Nat = 0

    @action
    def more(self) -> None:
        require(self.count < LIMIT)
        self.count = self.count + 1

@always
def below_three(s: Tally) -> bool:
    return s.count < 3
"""
    lamps.write_text(counting)

    with watching(lamps, "--may-end", "--bound", "5") as (_, lines):
        first = verdict(lines)
        limit.write_text("LIMIT = 3\n")
        second = verdict(lines)

    assert "It holds." in first
    assert "── limit.py changed ──" in second
    assert "It fails." in second


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)]
)
def test_a_signal_ends_watching(lamps: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM end it quietly, each with its own exit code."""
    with watching(lamps) as (process, lines):
        verdict(lines)
        process.send_signal(number)
        rest = lines.read()

        assert process.wait(30) == code
        assert rest == ""


def test_a_file_that_is_left_empty_holds_nothing_up(
    lamps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was just emptied is waited for, but not for ever: it may be meant to be empty."""
    sources = watch.WatchedSources.of(str(lamps))
    seen = sources.stamps()
    (lamps.parent / "empty.py").touch()
    now = sources.stamps()
    cut_ns, _ = now[lamps.parent / "empty.py"]

    def waits(seconds: int) -> bool:
        return watch.being_written(now, seen, cut_ns + seconds * 1_000_000_000)

    assert [waits(0), waits(1), waits(10)] == [True, True, False]
    assert not waits(-10), "clocks of file systems may be ahead"
    monkeypatch.setattr(watch, "EMPTY_MS", 50)
    assert watch.changes(sources, seen, lambda _: None) == ["empty.py"]


def test_watching_a_file_in_no_folder_is_refused() -> None:
    """A path whose folder is not there is usage, as without `--watch`."""
    done = run("explore", "no/such/place.py", "--watch")

    assert done.exit_code == NOT_ASKED
    assert "there is no file no/such/place.py" in done.stderr


# ── Stories ─────────────────────────────────────────────────────────────────────────────────


def test_counterexamples_are_saved_as_files(lamps: Path, tmp_path: Path) -> None:
    """`--save-stories DIR` writes a file for each counterexample, that of no next step, too."""
    folder = tmp_path / "stories"

    done = run("explore", lamps, "--save-stories", folder)

    files = sorted(folder.iterdir())
    assert [f.name for f in files] == [
        "Lamps.never_all.story.json", "Lamps.there-is-always-a-next-step.story.json",
        "Lamps.what_is_on_stays_on.story.json",
    ]  # fmt: skip
    assert all(f"herdproof replay {f}" in done.stdout for f in files)


def test_a_state_without_a_next_step_says_what_to_do_if_it_is_meant(lamps: Path) -> None:
    """Below its story: of a spec in which it may end, nothing is wrong."""
    told = "no step is possible any more; if it may end so, say MAY_END = True in the spec's file"

    found = run("explore", lamps, "--story", "there is always a next step")
    walked = run("simulate", lamps, "--steps", "2000")
    meant = run("explore", lamps, "--may-end")

    assert told in found.stdout
    assert told in walked.stdout
    assert told not in meant.stdout
