"""What is cut, assumed, not inductive, vacuous or not promised is unknown, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from herdproof.cli import app
from herdspec.check.exploration.bounds import raised
from herdspec.check.exploration.explore import explore
from herdspec.check.mutation.mutate import mutate
from herdspec.check.proof.proof_verdict import proved
from herdspec.check.proof.prove import prove
from herdspec.check.simulation.search import search
from herdspec.check.simulation.simulate import simulate
from herdspec.check.verdict import Mark
from herdspec.language.specification import Specification, from_source

HOLDS, FAILS, UNKNOWN = 0, 1, 3

JUMP = '''
from herdspec import *

class Jump(Spec):
    """It jumps far."""
    n: Nat = 0

    @action
    def jump(self) -> None:
        """It jumps."""
        self.n = 5

@always
def never_five(s: Jump) -> bool:
    """It is never five."""
    return s.n != 5
'''

TICKS = '''
from herdspec import *

class Ticks(Spec):
    """It counts for ever."""
    n: Nat = 0

    @action
    def tick(self) -> None:
        """It ticks."""
        self.n += 1

@always
def below_a_thousand(s: Ticks) -> bool:
    """It is not a thousand."""
    return s.n != 1000
'''

GROWS = TICKS.replace("s.n != 1000", "s.n >= 0")
"""The same, with a promise that is proved."""

SENDS = '''
from typing import Annotated
from herdspec import *

class Sends(Spec):
    """It sends for ever."""
    q: Annotated[list[bool], Capacity(2)] = empty()

    @action
    def send(self) -> None:
        """It sends."""
        self.q.append(True)

@always
def short(s: Sends) -> bool:
    """At most two are under way."""
    return len(s.q) <= 2
'''

STAIRS = '''
from herdspec import *

class Stairs(Spec):
    """Two feet climb three stairs."""
    a: Nat = 0
    b: Nat = 0

    @action
    def climb(self) -> None:
        """Both climb."""
        require(self.a < 3)
        self.a += 1
        self.b += 1

@always
def b_is_at_most_three(s: Stairs) -> bool:
    """b is at most three."""
    return s.b <= 3

@always
def b_is_at_most_four(s: Stairs) -> bool:
    """b is at most four."""
    return s.b <= 4

@always
def a_is_at_most_three(s: Stairs) -> bool:
    """a is at most three."""
    return s.a <= 3

MAY_END = True
'''

IDLE = '''
from herdspec import *

class Idle(Spec):
    """It goes round, and never leaves."""
    left: bool = False

    @action
    def go_round(self) -> None:
        """It goes round."""
        require(not self.left)

    @action
    def leave(self) -> None:
        """It leaves, once it has left."""
        require(self.left)

@sometimes
def it_is_there(s: Idle) -> bool:
    """It is there."""
    return not s.left
'''

SILENT = JUMP[: JUMP.index("@always")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are called in a directory of their own."""
    monkeypatch.chdir(tmp_path)


def spec_of(text: str) -> Specification:
    """The spec in a text."""
    name = text[text.index("class ") + len("class ") :].partition("(")[0]
    return from_source(text, name)


def run(command: str, text: str, *options: str) -> Result:
    """A command about a spec in a file."""
    Path("spec.py").write_text(text)
    more = ("--no-cache",) if command == "verify" else ()
    return CliRunner().invoke(app, [command, "spec.py", *more, *options])


def found_by(command: str, text: str, *options: str) -> dict[str, dict[str, Any]]:
    """The findings of a command by property and mark, as JSON tells them."""
    result = run(command, text, *options, "--json", "out.json")
    told = json.loads(Path("out.json").read_text())
    assert told["exit"] == result.exit_code
    findings = told["protocols"][0]["findings"] if command == "verify" else told["findings"]
    return {f"{f['property']} {f['mark']}": f for f in findings}


# ── Bounds ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["explore", "verify"])
def test_what_lies_beyond_the_first_bound_is_found(command: str) -> None:
    """The bound of naturals is raised until nothing is dropped: the jump to five is seen."""
    result = run(command, JUMP)

    assert result.exit_code == FAILS
    assert "n: 0 → 5" in result.stdout
    assert "naturals up to 6 (raised from 3)" in result.stdout


def test_a_fixed_bound_that_cuts_leaves_the_verdict_unknown() -> None:
    """With `--bound 3` the jump is dropped, and nothing is said to hold."""
    result = run("explore", JUMP, "--bound", "3")

    assert result.exit_code == UNKNOWN
    assert "? unknown beyond n up to 3" in result.stdout
    assert "jump (spec.py:11) takes n above 3: raise it with --bound 6" in result.stdout
    assert "It holds" not in result.stdout


def test_a_number_that_grows_for_ever_is_unknown_in_every_format() -> None:
    """Text, JSON, JUnit, SARIF and HTML agree, and the exit code is 3."""
    files = ("--junit", "j.xml", "--sarif", "s.json", "--html", "p.html", "--json", "v.json")
    result = run("verify", TICKS, "--no-prove", *files)

    assert result.exit_code == UNKNOWN
    told = json.loads(Path("v.json").read_text())
    (found,) = [f for f in told["protocols"][0]["findings"] if f["property"] == "below_a_thousand"]
    assert (found["mark"], found["standing"]) == ("unknown", "unknown")
    assert found["note"] == "unknown beyond n up to 48"
    cases = ElementTree.parse("j.xml").iter("testcase")
    (case,) = [c for c in cases if c.attrib["name"].startswith("below_a_thousand")]
    assert "unknown beyond n up to 48" in case[0].attrib["message"]
    kinds = {r["kind"] for r in json.loads(Path("s.json").read_text())["runs"][0]["results"]}
    assert kinds == {"open"}
    assert "unknown beyond n up to 48" in Path("p.html").read_text()
    assert "It holds" not in Path("p.html").read_text()


def test_what_is_proved_stands_by_itself() -> None:
    """A proof asks no bound: where the property is proved, a cut exploration is no doubt."""
    found = found_by("verify", GROWS + "\nMAY_END = True\n")

    assert found["below_a_thousand proved"]["standing"] == "holds"
    assert found["below_a_thousand exhausted"]["note"] == "within n up to 48"
    assert run("verify", GROWS + "\nMAY_END = True\n").exit_code == HOLDS


@pytest.mark.parametrize("command", ["explore", "verify"])
def test_a_bound_that_is_meant_is_named_in_what_holds(command: str) -> None:
    """`--within`, or `WITHIN = True` in the file: it holds within the bound, exit 0."""
    prove_not = ["--no-prove"] if command == "verify" else []
    asked = run(command, TICKS, "--bound", "5", "--within", *prove_not)
    said = run(command, TICKS + "\nBOUND = 5\nWITHIN = True\n", *prove_not)

    for result in (asked, said):
        assert result.exit_code == HOLDS
        assert "It holds within n up to 5." in result.stdout


def test_a_constraint_of_the_spec_says_how_far_is_looked() -> None:
    """States without the constraint are looked at, not gone on from: it holds within it."""
    limit = '\n@constraint\ndef few(s: Ticks) -> bool:\n    """Few ticks."""\n    return s.n < 7\n'
    result = run("explore", TICKS + limit)
    broken = run("explore", TICKS.replace("!= 1000", "!= 7") + limit)

    assert result.exit_code == HOLDS
    assert "It holds within the constraint few." in result.stdout
    assert broken.exit_code == FAILS
    assert run("explore", TICKS.replace("!= 1000", "!= 8") + limit).exit_code == HOLDS


def test_walks_and_searches_do_not_go_on_beyond_a_constraint() -> None:
    """What lies beyond a state without the constraint is neither walked to nor searched."""
    limit = '\n@constraint\ndef few(s: Ticks) -> bool:\n    """Few ticks."""\n    return s.n < 7\n'
    near = spec_of(TICKS.replace("!= 1000", "!= 7") + limit)
    far = spec_of(TICKS.replace("!= 1000", "!= 8") + limit)

    for spec, found in ((near, True), (far, False)):
        walked = simulate(spec, {}, faults=0, bound=30, steps=5000)
        searched = search(spec, {}, faults=0, depth=12, bound=30)
        assert bool(walked.violations) is found
        assert walked.deadlock is None
        assert bool(searched.violations) is found
        assert not walked.unjudged


SHARES = '''
from herdspec import *

class Shares(Spec):
    """It counts, and shares out once there are three."""
    n: Nat = 0
    among: Nat = 0

    @action
    def count(self) -> None:
        """One more."""
        self.n += 1

    @action
    def share(self) -> None:
        """Three are shared out among nobody."""
        require(self.n == 3)
        self.n = 3 // self.among

@always
def below_four(s: Shares) -> bool:
    """Below four."""
    return s.n < 4

@constraint
def few(s: Shares) -> bool:
    """Few."""
    return s.n < 3
'''


def test_a_step_without_a_meaning_beyond_a_constraint_is_not_searched() -> None:
    """No step is taken from a state without the constraint, one without a meaning neither."""
    assert run("search", SHARES, "--depth", "7").exit_code == HOLDS
    assert run("search", SHARES.replace("< 3", "< 9"), "--depth", "7").exit_code == FAILS


def test_a_full_channel_is_a_bound_of_its_own() -> None:
    """What a channel's capacity keeps out is unknown; it says which channel, and which line."""
    result = run("explore", SENDS)

    assert result.exit_code == UNKNOWN
    assert "? unknown beyond 2 messages in q" in result.stdout
    assert "send (spec.py:12) sends to q, which holds its 2 already" in result.stdout
    assert "raise its Capacity" in result.stdout
    assert run("explore", SENDS, "--within").exit_code == HOLDS


def test_a_channel_that_one_step_overfills_by_itself_is_a_bound_too() -> None:
    """What is sent second in one step is left out whatever the channel holds; searches say so."""
    twice = SENDS.replace("Capacity(2)", "Capacity(1)").replace(
        "self.q.append(True)\n", "self.q.append(True)\n        self.q.append(True)\n"
    )
    explored, searched = run("explore", twice), run("search", twice, "--depth", "3")

    assert "? unknown beyond 1 message in q" in explored.stdout
    assert "raised from" not in explored.stdout
    assert "unknown beyond 1 message in q, from step 1 on" in searched.stdout
    assert (explored.exit_code, searched.exit_code) == (UNKNOWN, UNKNOWN)


def test_a_search_says_where_a_bound_cut_it() -> None:
    """What was not found is unknown from the step on at which a run was left out."""
    cut = search(spec_of(TICKS), {}, faults=2, depth=8, bound=5)
    whole = search(spec_of(TICKS), {}, faults=2, depth=8)

    assert (cut.cut, whole.cut) == (6, None)
    assert whole.bounds_tried == (3, 6, 12)
    result = run("search", TICKS, "--depth", "8", "--bound", "5")
    assert result.exit_code == UNKNOWN
    assert "unknown beyond n up to 5, from step 6 on" in result.stdout
    assert run("search", SENDS, "--depth", "4").exit_code == UNKNOWN
    assert run("search", SENDS, "--depth", "4", "--within").exit_code == HOLDS


def test_of_an_original_that_was_cut_no_mutant_is_without_a_difference() -> None:
    """Beyond the bound a mutant may differ: it is unknown."""
    found = mutate(spec_of(TICKS), {}, faults=1)

    assert not found.equivalent
    assert found.unknown
    assert found.cut == "n up to 32"
    meant = mutate(spec_of(TICKS), {}, faults=1, bound=4, within=True)
    assert not meant.cut


def test_a_bound_is_doubled_four_times_at_most_and_only_while_something_is_cut() -> None:
    """The result is the first that was not cut, or the last that there was time for."""
    assert raised(3, lambda bound, _: bound, lambda found: found < 12) == (12, (3, 6, 12))
    assert raised(1, lambda bound, _: bound, lambda _: True) == (16, (1, 2, 4, 8, 16))
    assert raised(1, lambda bound, _: bound if bound < 4 else None, lambda _: True) == (2, (1, 2))


def test_an_initial_value_is_within_the_first_bound() -> None:
    """Nobody has to raise the bound because a number begins high."""
    found = explore(spec_of(JUMP.replace("n: Nat = 0", "n: Nat = 9")), {}, faults=0)

    assert found.bounds_tried == (9,)
    assert found.complete


# ── Proofs ──────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_inductive_is_unknown_and_never_broken() -> None:
    """A true promise without its lemma keeps its ○; the proof is `?`, and exit 3."""
    result = run("verify", STAIRS)
    found = found_by("verify", STAIRS)

    assert result.exit_code == UNKNOWN
    assert found["b_is_at_most_three exhausted"]["standing"] == "holds"
    assert found["b_is_at_most_three unknown"]["note"] == "not inductive: climb"
    assert "broken" not in result.stdout.replace("not shown to be broken", "")
    assert "this state is unreachable" in result.stdout


def test_what_leans_on_an_unproved_invariant_is_not_proved() -> None:
    """`b ≤ 4` follows from `b ≤ 3` alone, which is not proved; `a ≤ 3` needs nobody."""
    proof = prove(spec_of(STAIRS))
    marks = {f.row: (f.mark, f.note) for f in proved("Stairs", proof)}

    assert marks["a_is_at_most_three"] == (Mark.PROVED, "")
    assert marks["b_is_at_most_four"] == (Mark.UNKNOWN, "given b_is_at_most_three, not proved")


DIVES = '''
from herdspec import *

class Dives(Spec):
    """It goes down by one, on the strength of a promise that is false."""
    n: Nat = 1

    @action
    def down(self) -> None:
        """It goes down."""
        self.n -= 1

@always
def above_ground(s: Dives) -> bool:
    """It is above ground."""
    return s.n > 0

MAY_END = True
'''


def test_definedness_that_leans_on_a_false_promise_is_not_proved() -> None:
    """`n - 1` has its meaning only where `n > 0` is kept, and it is not."""
    found = found_by("verify", DIVES)

    assert "every_value_is_defined proved" not in found
    assert found["every_value_is_defined unknown"]["note"] == "given above_ground, not proved"
    assert found["every_value_is_defined fails"]["found"]["steps"] == 2


def test_a_counterexample_to_induction_that_is_reached_is_a_counterexample() -> None:
    """A run is looked for at its size; where there is one, the promise is broken."""
    result = run("prove", JUMP)

    assert result.exit_code == FAILS
    assert "1. It jumps.  [jump()]" in result.stdout


def test_a_promise_that_fails_initially_is_broken_by_the_proof_too() -> None:
    """Initial states are reached: no lemma is missing."""
    result = run("prove", JUMP.replace("s.n != 5", "s.n != 0"))

    assert result.exit_code == FAILS
    assert "✗ the initial state" in result.stdout


def test_any_number_is_one_or_more() -> None:
    """No sort is empty, and verdicts say so."""
    text = '''
from herdspec import *
class Client(Sort): ...
class Some(Spec):
    """Some clients."""
    on: dict[Client, bool] = each(False)
    @action
    def switch(self, c: Client) -> None:
        """{c} is switched on."""
        self.on[c] = True
@always
def there_is_one(s: Some) -> bool:
    """There is a client."""
    return any(True for c in Client)
'''
    assert "● one or more clients" in run("prove", text).stdout


# ── Vacuity ─────────────────────────────────────────────────────────────────────────────────


def test_an_action_that_no_state_allows_is_vacuous() -> None:
    """Where exploration never takes an action, that is a failure, not a proof."""
    result = run("verify", IDLE)
    found = found_by("verify", IDLE)

    assert result.exit_code == FAILS
    assert found["every action is possible fails"]["note"] == "leave is never possible here"
    assert run("explore", IDLE).exit_code == FAILS


def test_what_the_solver_shows_of_actions_is_what_the_promises_allow() -> None:
    """The row of the proof names what was shown: some state that keeps all promises."""
    found = found_by("verify", IDLE + "\n@always\ndef fine(s: Idle) -> bool:\n    return True\n")

    assert found["the promises allow every action proved"]["standing"] == "holds"
    assert "every action is possible proved" not in found


def test_a_fault_that_the_budget_has_no_room_for_is_not_vacuous() -> None:
    """At `--faults 0` faults are never taken; that is no failure."""
    text = IDLE.replace("    @action\n    def leave", "    @action(kind=fault)\n    def leave")

    assert run("explore", text.replace("require(self.left)", "self.left = True"), "--faults", "0",
               "--may-end").exit_code == HOLDS  # fmt: skip


def test_a_spec_without_a_promise_is_unknown() -> None:
    """Nothing is promised, so nothing holds."""
    result = run("verify", SILENT)

    assert result.exit_code == UNKNOWN
    assert "? nothing is promised" in result.stdout
    assert run("explore", SILENT).exit_code == UNKNOWN


NOWHERE = '''
from herdspec import *

class Nowhere(Spec):
    """It cannot begin."""
    on: bool = False

    @initial
    def begin(self, b: bool) -> None:
        """It begins."""
        require(b and not b)

    @action
    def go(self) -> None:
        """It goes."""
        self.on = True

@always
def it_is_off(s: Nowhere) -> bool:
    """It is off or on."""
    return s.on or not s.on
'''


def test_of_a_spec_that_cannot_begin_nothing_is_proved() -> None:
    """Everything holds in no state; and the other specs of a file are judged all the same."""
    other = JUMP.replace("s.n != 5", "s.n <= 5").partition("class")[2]
    found = found_by("verify", NOWHERE + "\nclass" + other)

    assert found["it_is_off unknown"]["note"] == "no initial state was found"
    assert "no choice is possible" in found["exploration unknown"]["note"]
    assert found["never_five exhausted"]["standing"] == "holds"


def test_what_no_proof_understands_does_not_end_the_others() -> None:
    """A guard that only ground readings understand leaves the proof unknown, no more."""
    text = SENDS.replace(
        "def send(self) -> None:", "def send(self, few: Annotated[Nat, UpTo(1)]) -> None:"
    ).replace("self.q.append", "require(few >= len(self.q))\n        self.q.append")
    found = found_by("verify", text + "\nMAY_END = True\n")

    assert found["proof unknown"]["standing"] == "unknown"
    assert found["short exhausted"]["standing"] == "holds"


def test_what_no_proof_can_say_does_not_end_the_others() -> None:
    """A comparison of two lengths is not asked of a proof; the exploration's verdict stands."""
    text = SENDS.partition("@always")[0].replace(
        "self.q.append", "require(len(self.q) < 2)\n        self.q.append"
    )
    compared = """
@step
def one_more(before: Sends, after: Sends) -> bool:
    return len(before.q) < len(after.q)

MAY_END = True
"""
    found = found_by("verify", text + compared)

    assert found["one_more exhausted"]["standing"] == "holds"
    assert run("verify", text + compared).exit_code == HOLDS


def test_the_story_of_what_fails_initially_is_told() -> None:
    """`--story` of a property that the initial state breaks does not say that nothing does."""
    result = run("explore", JUMP.replace("s.n != 5", "s.n != 0"), "--story", "never five")

    assert "never_five: there is no story" not in result.stdout
    assert 'Jump, broken: "It is never five."' in result.stdout
