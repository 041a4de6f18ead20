"""The command line: exit codes, plain sentences for errors, and imports only where needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from herdproof.cli import app
from herdproof.cli.code import conform
from herdproof.cli.run import doctor
from herdproof.conformance import findings as checks
from herdproof.errors import HerdError
from herdproof.protocols.implementation import Implementation
from herdproof.report.render import Output
from herdspec.check.cache import Result as Found
from herdspec.check.conformance.conform import Outcome, Verdict
from herdspec.check.conformance.mismatch import Mismatch
from herdspec.check.plans import Scale, usual
from herdspec.check.protocol import Protocol
from herdspec.check.verdict import Finding, Mark
from herdspec.check.verify import Check, Plan, Tell
from herdspec.protocols.election import plan as election_plan
from herdspec.protocols.election.flaws import FLAWS
from properties.check.entered import entered, planned

HOLDS, FAILS, NOT_ASKED, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 130

OWN = '''
"""A counter of one's own."""
from herdspec import *

class Hand(Sort):
    """A hand."""

class Counter(Spec):
    """Hands count."""
    up: dict[Hand, bool] = each(False)
    count: Nat = 0

    @action
    def raise_it(self, h: Hand) -> None:
        """{h} goes up."""
        require(not self.up[h])
        self.up[h] = True

    @action
    def lower_it(self, h: Hand) -> None:
        """{h} goes down."""
        require(self.up[h])
        self.up[h] = False

@always
def nothing_is_counted(s: Counter) -> bool:
    """Nothing is counted."""
    return s.count == 0

@sometimes
def a_hand_is_up(s: Counter) -> bool:
    """A hand is up."""
    return any(s.up[h] for h in Hand)
'''

BROKEN = '''
@always
def no_hand_is_up(s: Counter) -> bool:
    """No hand is ever up."""
    return all(not s.up[h] for h in Hand)
'''

COUNTING = '''
from herdspec import *

class Tally(Spec):
    """It counts."""
    count: Nat = 0

    @action
    def count_up(self) -> None:
        """One more."""
        self.count = self.count + 1

@always
def it_counts(s: Tally) -> bool:
    """The count is a natural."""
    return s.count >= 0
'''


def run(*arguments: str | Path) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file with a spec that holds."""
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


@pytest.fixture
def broken(own: Path) -> Path:
    """A file with a spec that does not hold."""
    own.write_text(OWN + BROKEN)
    return own


def as_json(path: Path) -> dict[str, Any]:
    """What a command wrote as JSON."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# ── explore ─────────────────────────────────────────────────────────────────────────────────


def test_exploring_a_spec_that_holds_ends_with_0(own: Path) -> None:
    """A spec of one's own is explored by file and class, at the size that is said."""
    done = run("explore", f"{own}:Counter", "--size", "Hand=3", "--faults", "0")

    assert done.exit_code == HOLDS
    assert "\n3 hands: " in done.stdout
    assert "It holds." in done.stdout


def test_exploring_a_spec_that_fails_ends_with_1_and_tells_its_story(broken: Path) -> None:
    """A counterexample of one's own spec is told step by step, and the exit code is 1."""
    done = run("explore", broken)

    assert done.exit_code == FAILS
    assert "no hand is up" in done.stdout
    assert '"No hand is ever up."' in done.stdout
    assert "1. hand1 goes up." in done.stdout


def test_a_search_that_is_cut_short_ends_with_3(own: Path) -> None:
    """Truncated is never passed: with next to no memory the exit code is 3, and it is said."""
    done = run("explore", own, "--memory-gb", "0")

    assert done.exit_code == UNKNOWN
    assert "TRUNCATED" in done.stdout
    assert "It holds" not in done.stdout


def test_a_failure_outweighs_what_was_cut_short(tmp_path: Path) -> None:
    """A counterexample that was found before the memory ended is a failure, not an unknown."""
    file = tmp_path / "at_once.py"
    file.write_text(OWN + BROKEN.replace("not s.up[h]", "s.up[h]"))

    assert run("explore", file, "--memory-gb", "0").exit_code == FAILS


def test_what_was_dropped_beyond_the_bound_is_said(own: Path) -> None:
    """Where naturals were cut, nothing is known beyond; if that is meant, it holds within."""
    own.write_text(COUNTING)

    done = run("explore", own, "--bound", "2")
    meant = run("explore", own, "--bound", "2", "--within")

    assert (done.exit_code, meant.exit_code) == (UNKNOWN, HOLDS)
    assert "1 successor beyond the bound dropped" in done.stdout
    assert "It holds within" in meant.stdout


def test_the_failures_of_a_known_spec_are_expected() -> None:
    """A flaw that fails just as it is declared to ends with 0, and says that it was expected."""
    done = run("explore", "election/no_look_after_reconnect", "--may-end")

    assert done.exit_code == HOLDS
    assert "2 steps (expected)" in done.stdout
    assert "2 failures as declared" in done.stdout


def test_the_story_that_is_asked_for_is_told() -> None:
    """`--story` tells the story of any property, that of a witness too."""
    small = ("--size", "Broker=1", "--faults", "1")

    done = run("explore", "election", *small, "--story", "a reply is lost")

    assert "the reply that would have told it is lost." in done.stdout
    assert "swallow_create(broker1)" in done.stdout


def test_an_exploration_as_json(broken: Path, tmp_path: Path) -> None:
    """The JSON has the counts, every finding, its story and the exit code."""
    file = tmp_path / "out.json"

    done = run("explore", broken, "--json", file)

    told = as_json(file)
    assert (told["exit"], told["states"], told["truncated"]) == (done.exit_code, 3, False)
    wrong = {f["property"]: f for f in told["findings"] if f["standing"] == "fails"}
    assert wrong["no_hand_is_up"]["found"] == {"steps": 1, "last": "raise_it"}
    assert wrong["no_hand_is_up"]["story"]


def test_json_to_stdout_stands_alone(own: Path) -> None:
    """With `--json -` stdout is JSON and nothing else; what people read is on stderr."""
    done = run("explore", own, "--json", "-")

    assert json.loads(done.stdout)["command"] == "explore"
    assert "It holds." in done.stderr


# ── prove ───────────────────────────────────────────────────────────────────────────────────


def test_a_proof_ends_with_0(own: Path) -> None:
    """What is inductive is proved for any number."""
    done = run("prove", own)

    assert done.exit_code == HOLDS
    assert "one or more hands" in done.stdout


def test_a_proof_that_fails_ends_with_1_and_shows_two_states(broken: Path) -> None:
    """What is not inductive is broken if a run comes to the counterexample: it is told."""
    done = run("prove", broken)

    assert done.exit_code == FAILS
    assert "[raise_it(hand1)]" in done.stdout, "a run to it was found"
    assert "up[hand1]: False → True" in done.stdout


def test_what_is_left_out_is_not_proved(broken: Path, tmp_path: Path) -> None:
    """`--leave-out` takes a property out of the proof, by its words."""
    file = tmp_path / "out.json"

    done = run("prove", broken, "--leave-out", "no hand is up", "--json", file)

    assert done.exit_code == HOLDS
    assert {o["promise"] for o in as_json(file)["obligations"]} == {"nothing_is_counted"}


def test_z3_giving_up_ends_with_3() -> None:
    """Obligations that z3 gives up at its resource limit are unknown, and never proved."""
    done = run("prove", "election", "--resources", "3000")

    assert done.exit_code == UNKNOWN
    assert "z3 gave up" in done.stdout


def test_a_proof_of_nothing_is_refused(own: Path) -> None:
    """Leaving everything out proves nothing, and is usage."""
    done = run("prove", own, "--leave-out", "nothing_is_counted")

    assert done.exit_code == NOT_ASKED
    assert "no promise to prove" in done.stderr


# ── Usage ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explore", "electon"], "did you mean election?"),
        (["explore", "election/no_synk"], "did you mean no_sync?"),
        (["explore", "nowhere.py:X"], "there is no file nowhere.py"),
        (["explore", "."], ". is a folder: name a spec's file in it, such as lock.py"),
        (["verify", "./"], "./ is a folder: name a spec's file in it, such as lock.py"),
        (["explore", "election", "--size", "Brokr=2"], "its sorts: Broker"),
        (["explore", "election", "--size", "Broker=two"], "write Broker=N"),
        (["explore", "election", "--story", "no such"], "its properties: one_coordinator"),
        (["explore", "election", "--json", "no/such/place"], "no directory"),
        (["prove", "election", "--leave-out", "no such"], "its properties: one_coordinator"),
        (["verify", "electoin"], "(did you mean election?); the known ones: election, election-"),
        (["conform", "nowhere.jsonl"], "there is no trace nowhere.jsonl"),
        (["conform", "/dev/null"], "/dev/null is no regular file"),
        (["zookeeper", "--servers", "2"], "1 server, or an ensemble of 3"),
        (["explore"], "Missing argument"),
        (["explode"], "No such command"),
    ],
)
def test_what_cannot_be_asked_ends_with_2_and_one_sentence(arguments: list[str], said: str) -> None:
    """Usage errors end with 2, name what is known, and show no traceback."""
    done = run(*arguments)

    assert done.exit_code == NOT_ASKED
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_of_several_specs_in_a_file_one_must_be_named(own: Path) -> None:
    """A class counts beside its variants, but not beside the specification made of it."""
    made = "\nfrom herdspec import specification\nMADE = specification(Counter)\n"
    own.write_text(OWN + made)
    alone = run("explore", own)
    own.write_text(OWN + made + 'OTHER = MADE.drop("Other", "lower_it")\n')

    several = run("explore", own)

    assert alone.exit_code == UNKNOWN, "nothing is promised of it"
    assert several.exit_code == NOT_ASKED
    assert f"holds 2 specs; say which: {own}:MADE, {own}:OTHER" in several.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OWN.replace("self.up[h] = True", "while True: pass"), "while"),
        (OWN.replace("class Counter(Spec)", "class Counter(Specc)"), "NameError"),
        (OWN.replace("count: Nat", "count Nat"), "SyntaxError"),
        ("x = 1", "holds no spec: define a class that derives from Spec"),
    ],
)
def test_a_file_that_is_no_spec_is_refused_with_its_place(own: Path, text: str, said: str) -> None:
    """A file outside the language, or that Python refuses, is named with what is wrong in it."""
    own.write_text(text)

    done = run("explore", own)

    assert done.exit_code == NOT_ASKED
    assert said in done.stderr
    assert str(own) in done.stderr


def test_a_wrong_class_is_told_the_right_ones(own: Path) -> None:
    """A mistyped class name is answered with the file's specs."""
    done = run("explore", f"{own}:Countre")

    assert done.exit_code == NOT_ASKED
    assert f"{own}:Counter" in done.stderr


# ── verify ──────────────────────────────────────────────────────────────────────────────────


def found(mark: Mark, **more: Any) -> Check:
    """A check that comes to this."""
    finding = Finding(subject="verified", row="it_is_so", kind="always", mark=mark,
                      bounds="2 lamps", **more)  # fmt: skip

    def look(tell: Tell) -> Found:
        tell("looking", None)
        return Found((finding,), "all of it")

    return Check("look", look)


def toy(*wanted: Check) -> Protocol:
    """A protocol whose plan, at any scale, is just this."""
    return planned(Plan("toy", wanted))


def unable(tell: Tell) -> Found:
    """A check that lacks something."""
    tell("looking", None)
    raise HerdError("No Java was found: install one.")


@pytest.mark.parametrize(
    ("check", "code", "said"),
    [
        (found(Mark.PROVED), HOLDS, "It holds."),
        (found(Mark.FAILS, story=("1. it breaks",)), FAILS, "1. it breaks"),
        (found(Mark.UNKNOWN, note="cut short"), UNKNOWN, "cut short"),
        (Check("real runs", unable), UNKNOWN, "No Java was found"),
    ],
)
def test_verify_ends_with_the_worst_verdict(
    check: Check, code: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Verdicts of a plan become exit codes; JSON, table and exit code agree."""
    with entered(toy=toy(check)):
        done = run("verify", "toy", "--quick", "--json", tmp_path / "out.json")

    assert done.exit_code == code
    assert said in done.stdout
    assert as_json(tmp_path / "out.json")["exit"] == code


def test_a_broken_spec_turns_the_command_red() -> None:
    """With a mistake in the verified election, `verify` tells its story and ends with 1."""
    broken = usual(
        replace(election_plan.PROTOCOL, verified=lambda: FLAWS["no_watch"].spec), Scale(2, 1)
    )

    with entered(election=planned(replace(broken, checks=broken.checks[:1]))):
        done = run("verify", "election", "--no-cache")

    assert done.exit_code == FAILS
    assert "✗ 9 steps" in done.stdout
    assert "Without further faults, brokers that stand can still come to have" in done.stdout


def test_what_is_checked_of_the_implementation_joins_the_table() -> None:
    """A check of an `Implementation` is carried out with the spec's, in the verified column."""

    def runs(subject: str) -> Check:
        row = "real runs conform"
        fine = checks.conforms(subject, row, "They do.", "3 runs, 300 steps")
        return Check("runs", lambda _: Found((fine,), "3 runs"))

    with entered(toy=Implementation(toy(found(Mark.PROVED)), checks=(runs,))):
        done = run("verify", "toy")

    assert done.exit_code == HOLDS
    assert "✔ 3 runs, 300 steps" in done.stdout


def replay(verdict: Verdict, **more: Any) -> Outcome:
    """The outcome of replaying nine lines."""
    whole: dict[str, Any] = {"lines": 9, "matched": 9, "named": {}, "inferred": frozenset(),
                             "largest": 1, "seconds": 0.1} | more  # fmt: skip
    return Outcome(verdict, **whole)


MISSED = Mismatch("a.jsonl, line 5", "look(broker1)", "guard", ("due[b]  (it is False)",))


@pytest.mark.parametrize(
    ("outcome", "mark", "code"),
    [
        (replay(Verdict.CONFORMS), Mark.CONFORMS, HOLDS),
        (replay(Verdict.DIFFERS, matched=4, mismatch=MISSED), Mark.FAILS, FAILS),
        (replay(Verdict.UNKNOWN, matched=4, reason="too many states"), Mark.UNKNOWN, UNKNOWN),
        (replay(Verdict.CONFORMS, lines=0, matched=0), Mark.UNKNOWN, UNKNOWN),
    ],
)
def test_a_replay_passes_only_if_every_line_was_explained(
    outcome: Outcome, mark: Mark, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay that differs fails, one cut short or of nothing is unknown; both commands agree."""
    finding = checks.replayed("verified", "traces", "They conform.", "9 lines", outcome)
    standing = conform.standing_of(outcome)
    conform.print_outcome(Output(), outcome, standing)

    assert (finding.mark, finding.standing.value, standing.value) == (mark, code, code)
    if outcome.mismatch:
        assert "look(broker1) was not possible" in capsys.readouterr().out


def test_verify_explores_at_the_size_that_is_asked_for() -> None:
    """`--quick` is 2 brokers and 2 faults, otherwise 3 and 3."""
    asked: list[Scale] = []

    def at(scale: Scale) -> Plan:
        asked.append(scale)
        return Plan("toy", (found(Mark.PROVED),))

    with entered(toy=replace(toy(), plan=at)):
        run("verify", "toy")
        run("verify", "--quick")

    assert asked == [Scale(3, 3), Scale(2, 2)]


# ── doctor ──────────────────────────────────────────────────────────────────────────────────


def test_doctor_says_what_is_there() -> None:
    """The doctor finds this Python and its libraries, one line each."""
    done = run("doctor")

    lines = done.stdout.splitlines()
    assert len(lines) == len(doctor.EXAMINATIONS)
    assert any(line.startswith("✔ Python: 3.") for line in lines)
    assert any(line.startswith("✔ z3-solver: ") for line in lines)


def test_doctor_ends_with_1_where_verify_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing Java is said in one sentence with what to do, and the exit code is 1."""
    monkeypatch.setenv("JAVA_HOME", "/no/such/place")

    done = run("doctor")

    assert done.exit_code == FAILS
    assert "✗ Java ≥ 17: /no/such/place/bin/java cannot be run" in done.stdout


def test_doctor_does_without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Docker `make verify` can run: it is said, and counts for nothing."""
    monkeypatch.setattr(doctor, "EXAMINATIONS", (doctor.python, doctor.docker))
    monkeypatch.setenv("PATH", "")

    done = run("doctor")

    assert done.exit_code == HOLDS
    assert "– Docker engine: no docker command" in done.stdout


def test_doctor_does_without_what_few_commands_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library that `make verify` does without is said, and counts for nothing."""
    absent = doctor.library("no-such-library", "draws", needed=False)
    monkeypatch.setattr(doctor, "EXAMINATIONS", (doctor.python, absent))

    done = run("doctor")

    assert done.exit_code == HOLDS
    assert "– no-such-library: missing, draws" in done.stdout


def test_doctor_names_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is not installed is named with the command that installs it."""
    absent = doctor.library("no-such-library", "does nothing")
    monkeypatch.setattr(doctor, "EXAMINATIONS", (absent,))

    done = run("doctor")

    assert done.exit_code == FAILS
    assert "run `pip install no-such-library`" in done.stdout


# ── Processes ───────────────────────────────────────────────────────────────────────────────

COMMAND = [sys.executable, "-c", "from herdproof.cli import app; app()"]

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numpy", "z3", "pyspark"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from herdproof.cli import app
app()
"""


def process(command: list[str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    whole = [*command, *map(str, arguments)]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", ["explore", "prove", "verify", "elect", "zookeeper", "conform"])
def test_help_needs_none_of_the_checkers_libraries(command: str) -> None:
    """Where numpy, z3 and pyspark are missing, help is still given."""
    done = process([sys.executable, "-c", WITHOUT], command, "--help")

    assert done.returncode == 0, done.stderr


def test_elect_needs_none_of_the_checkers_libraries() -> None:
    """In a small container `elect` gets as far as looking for its ZooKeeper."""
    elect = ("elect", "--zookeeper", "127.0.0.1:1", "--broker", "b", "--trace", "/no/such/place")

    done = process([sys.executable, "-c", WITHOUT], *elect)

    assert done.returncode == NOT_ASKED
    assert "/no/such/place" in done.stderr


def test_a_missing_library_is_one_sentence(own: Path) -> None:
    """Where numpy is missing, exploring says so, and ends with 2."""
    done = process([sys.executable, "-c", WITHOUT], "explore", own)

    assert done.returncode == NOT_ASKED
    assert done.stderr.startswith("herdproof: numpy is not installed")
    assert len(done.stderr.splitlines()) == 1


def test_the_command_prints_plain_lines_where_nobody_looks(broken: Path) -> None:
    """Into a pipe go no colours and no progress; the exit code is the verdict's."""
    done = process(COMMAND, "explore", broken)

    assert done.returncode == FAILS
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_terminal_without_the_marks_is_no_trouble(own: Path) -> None:
    """Where the encoding lacks a mark, something else is printed, and nothing fails."""
    poor = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "explore", own], capture_output=True, env=poor, timeout=60)

    assert done.returncode == HOLDS


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_quietly(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """A signal ends a long search at once, with its own exit code and not a word."""
    began = tmp_path / "began"
    os.mkfifo(began)
    file = tmp_path / "slow.py"
    # The spec tells that it is being read; what follows it keeps the command busy.
    busy = f"open({str(began)!r}, 'w').close()\nwhile True:\n    pass\n"
    file.write_text(OWN + busy)
    whole = [*COMMAND, "explore", str(file)]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        began.read_bytes()  # until the other end is closed

        running.send_signal(number)
        out, err = running.communicate(timeout=30)

    assert (running.returncode, out, err) == (code, b"", b"")
