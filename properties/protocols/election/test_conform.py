"""
Conformance: what the code did is replayed in the spec; a trace that was touched is found out.

The traces are real ones, of the election's cores in the simulated world, driven by random walks of
the spec. What knows no election is tested on a spec of its own (`Post`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdproof.conformance.traces.line import START, TraceError, read_files
from herdproof.errors import HerdError
from herdproof.protocols.election.held.flawed import FLAWS, simulated_with
from herdproof.protocols.election.simulated import ElectorTracers
from herdproof.protocols.election.traces.ledger import NAMED
from herdproof.protocols.election.traces.trace_map import NEVER, raw
from herdproof.protocols.election.tracing import FORMATS
from herdproof.protocols.implementation import implementation
from herdspec import Sort, Spec, action, each, fault, require
from herdspec.check.conformance.conform import Outcome, Verdict, conform
from herdspec.check.conformance.possible import Line
from herdspec.check.running.run import Machine, Step
from herdspec.check.running.wording import conjuncts, guard
from herdspec.engine.ground import Ground
from herdspec.language.specification import specification
from herdspec.language.surface import ActionKind, sizes_of_sorts
from herdspec.protocols.election.properties import ELECTION

# ── Traces of the election ──────────────────────────────────────────────────────────────────


def conform_files(paths: list[Path], slack_ns: int = 0) -> Outcome:
    """The traces of one run of the election, replayed."""
    replay = implementation("election").conform
    return replay(paths, slack_ns, lambda *_: None, invariants=True)


def walk(path: Path, seed: int, *, brokers: int, steps: int, flaw: str = "") -> None:
    """
    Drive real cores along a random walk of the spec, and trace them.

    Of a hundred steps some 15 are faults and 15 wishes of users, as far as they are possible.
    A flawed core may come to where it cannot follow: there its trace ends.
    """
    machine = Machine(Ground(ELECTION, {"Broker": brokers}, bound=1, faults=1))
    chance, state = Random(seed), machine.initial()
    tracers = ElectorTracers(f"seed {seed}")
    with suppress(HerdError, AssertionError):
        flaws = frozenset({flaw} - {""})
        world = simulated_with(flaws, brokers, observe=tracers, wrote=tracers.wrote)
        for _ in range(steps):
            step = chosen(list(machine.steps(state)), chance)
            state = step.state
            getattr(world, step.action.name)(*(b.index for b in step.arguments))
    path.write_text("".join(f"{text}\n" for text in tracers.texts()))


def chosen(possible: list[Step], chance: Random) -> Step:
    """One of the steps: a fault, a command or a step of the protocol, then which."""
    kinds = chance.choices(
        [ActionKind.FAULT, ActionKind.COMMAND, ActionKind.STEP], [15, 15, 70], k=8
    )
    for kind in kinds:
        if some := [step for step in possible if step.action.kind is kind]:
            return chance.choice(some)
    return chance.choice(possible)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The lines of a trace in which all kinds of things happen."""
    path = tmp_path_factory.mktemp("clean") / "trace"
    walk(path, 2, brokers=3, steps=130)
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(path: Path, lines: list[dict[str, Any]]) -> Path:
    """A trace of these lines."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def told(outcome: Outcome) -> str:
    """An outcome, for a test that fails."""
    why = outcome.mismatch.lines if outcome.mismatch else [outcome.reason]
    return "\n".join([f"{outcome.verdict} after {outcome.matched} of {outcome.lines}", *why])


@pytest.mark.parametrize(("brokers", "seed"), [(2, 1), (3, 2), (3, 3), (4, 4), (5, 5)])
def test_what_the_cores_do_conforms(brokers: int, seed: int, tmp_path: Path) -> None:
    """Random runs of the real cores, faults and lags and restarts among them, conform."""
    walk(tmp_path / "trace", seed, brokers=brokers, steps=500)

    outcome = conform_files([tmp_path / "trace"])

    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    assert outcome.matched == outcome.lines > 300


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_many_long_runs_conform(seed: int, tmp_path: Path) -> None:
    """Thousands of steps of three to five brokers conform."""
    walk(tmp_path / "trace", 1000 + seed, brokers=3 + seed % 3, steps=2000)

    outcome = conform_files([tmp_path / "trace"])

    assert outcome.verdict is Verdict.CONFORMS, told(outcome)


def test_the_work_is_linear_in_the_trace(tmp_path: Path, report: Callable[[str], None]) -> None:
    """Four times the lines are at most about four times the steps tried."""
    per_line = []
    for steps in (800, 3200):
        walk(tmp_path / "trace", 7, brokers=3, steps=steps)
        outcome = conform_files([tmp_path / "trace"])
        assert outcome.verdict is Verdict.CONFORMS, told(outcome)
        per_line.append(outcome.steps / outcome.lines)
        report(
            f"conform: {outcome.lines:,} lines of 3 brokers, {outcome.lines / outcome.seconds:,.0f}"
            f" lines/s, at most {outcome.largest} states carried"
        )

    assert per_line[1] < 2 * per_line[0]


# ── A touched trace ─────────────────────────────────────────────────────────────────────────

WORDS = {
    "link": ("connected", "suspended", "lost"),
    "call": ("none", "look", "recall", "read", "create", "delete", "write"),
    "outcome": ("absent", "found", "epoch", "done", "refused", "unknown", "late"),
    "action": tuple(sorted(NAMED - {"restart"} | {START, "handle_watch", "handle_late"})),
    "node": ("broker1", "broker2", "broker3"),
}
FREE = {"time_ns", "since_ns"}
"""What only orders lines of different files."""


def values(
    line: dict[str, Any], way: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value in a line, with the names that lead to it."""
    for name, value in line.items():
        if isinstance(value, dict):
            yield from values(value, (*way, name))
        elif value is not None and name not in FREE:
            yield (*way, name), value


def other(name: str, value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same type."""
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, int):
        near = st.integers(max(0, value - 2), value + 3)
        return (near | st.integers(0, 2**62)).filter(lambda new: new != value)
    if name in WORDS:
        return st.sampled_from([word for word in WORDS[name] if word != value])
    return st.text(min_size=1).filter(lambda new: new != value)


REJECTED: Counter[str] = Counter()


def test_a_changed_value_is_rejected(
    clean: list[dict[str, Any]], tmp_path: Path, report: Callable[[str], None]
) -> None:
    """
    Whatever single value of a trace is changed, the trace is rejected; nearly always at that line.

    Another number or node makes a trace of which lines are missing: unknown.

    Left open is what the page on traces says: `due` in a `handle_watch` (another event may wait),
    and a transaction, an owner or a session that no other line confirms.
    """
    REJECTED.clear()

    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], database=None)
    @given(st.data())
    def changed(data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(clean) - 1))
        way, value = data.draw(st.sampled_from(sorted(values(clean[number]))))
        new = data.draw(other(way[-1], value))
        lines = json.loads(json.dumps(clean))
        part = lines[number]
        for name in way[:-1]:
            part = part[name]
        part[way[-1]] = new
        REJECTED[verdict(put(tmp_path / "trace", lines), clean, number, way)] += 1

    changed()

    ends = {"refused by the reader", "at the line", "at a later line", "open", "unknown"}
    assert set(REJECTED) <= ends
    assert REJECTED["at a later line"] + REJECTED["open"] <= REJECTED["at the line"] / 5
    report(f"conform, one value changed: {dict(REJECTED)}")


def verdict(path: Path, lines: list[dict[str, Any]], number: int, way: tuple[str, ...]) -> str:
    """Where a trace is rejected of which one value in line `number`, the one at `way`, is other."""
    try:
        outcome = conform_files([path])
    except TraceError:
        return "refused by the reader"
    if outcome.verdict is Verdict.CONFORMS and is_open(lines, number, way):
        return "open"
    if outcome.verdict is Verdict.UNKNOWN:  # nobody can tell it from a trace that is not whole
        assert re.match("lines are missing|session .* of nobody|epoch", outcome.reason)
        return "unknown"
    assert outcome.verdict is Verdict.DIFFERS, f"{way} in line {number + 1}: {told(outcome)}"
    assert outcome.matched >= number, told(outcome)
    return "at the line" if outcome.matched == number else "at a later line"


def is_open(lines: list[dict[str, Any]], number: int, way: tuple[str, ...]) -> bool:
    """Whether nothing in the trace says what this value must be."""
    line = lines[number]
    last = all(i["node"] != line["node"] for i in lines[number + 1 :])
    return (
        (way[:-1] == ("arguments", "answered") and way[-1] in ("zxid", "owner"))
        or (way == ("seen", "due") and line["action"] == "handle_watch")
        or (way == ("arguments", "session") and line["action"] == "handle_new_session" and last)
        or (way == ("node",) and line["action"] == START and last)
    )


def test_an_outcome_that_was_not_is_rejected_at_its_line(
    clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """A creation told as refused that was done is named, though lines before it expected it."""
    lines = json.loads(json.dumps(clean))
    number, line = next((k, i) for k, i in enumerate(lines) if i["action"] == "handle_create")
    assert line["arguments"]["answered"]["outcome"] == "done"
    line["arguments"]["answered"] |= {"outcome": "refused", "epoch": 0, "zxid": 0}

    outcome = conform_files([put(tmp_path / "trace", lines)])

    node = line["node"]
    assert (outcome.verdict, outcome.matched) == (Verdict.DIFFERS, number)
    assert outcome.mismatch is not None
    assert outcome.mismatch.action == f"handle_create({node})"
    assert outcome.mismatch.differences == (
        f"answer of {node}: the spec has created, the trace refused",
    )


@pytest.mark.parametrize("at", [0, 50])
def test_where_a_line_is_missing_nothing_is_known(
    at: int, clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """A line that was lost is found by its number."""
    line = clean[at]
    outcome = conform_files([put(tmp_path / "trace", clean[:at] + clean[at + 1 :])])

    assert outcome.verdict is Verdict.UNKNOWN
    assert f"lines are missing: of {line['node']}, line {line['sequence']}" in outcome.reason


def test_what_differs_before_a_missing_line_differs(
    clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Up to there all is told."""
    lines = json.loads(json.dumps(clean))
    number, line = next((k, i) for k, i in enumerate(lines) if i["action"] == "handle_create")
    line["seen"]["token"] += 1
    last = max(k for k, i in enumerate(lines) if i["sequence"] > 2)

    outcome = conform_files([put(tmp_path / "trace", lines[: last - 1] + lines[last:])])

    assert (outcome.verdict, outcome.matched) == (Verdict.DIFFERS, number)


def test_a_broker_whose_trace_is_missing_is_named(
    clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The others find a leader's node that is nobody's: that is no mistake of theirs."""
    leads = next(i["node"] for i in clean if i.get("seen", {}).get("leads"))
    outcome = conform_files([put(tmp_path / "trace", [i for i in clean if i["node"] != leads])])

    assert outcome.verdict is Verdict.UNKNOWN
    assert "is of nobody whose trace is here" in outcome.reason


def test_where_elections_were_before_the_first_line_nothing_is_known(
    clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The replay begins at epoch 0; of any other, and of one that is read later, somebody knows."""
    reads = [k for k, line in enumerate(clean) if line["action"] == "handle_read"]
    came = []
    for number, epoch in ((reads[0], 7), (reads[0], 1), (reads[-1], 7)):
        lines = json.loads(json.dumps(clean))
        arguments = lines[number]["arguments"]
        arguments["answered"]["epoch"] = arguments["asked"]["epoch"] = epoch
        came.append(conform_files([put(tmp_path / "trace", lines)]))
    assert [c.verdict for c in came] == [Verdict.UNKNOWN, Verdict.DIFFERS, Verdict.DIFFERS]
    assert "begun before, by nobody whose trace is here" in came[0].reason


SHOWN = FLAWS.keys() - {"ignores_lost"}
"""Who ignores an expiry but heeds the suspension before it does nothing wrong."""


@pytest.mark.parametrize("flaw", sorted(SHOWN))
def test_a_flawed_core_is_found_out(
    flaw: str, tmp_path: Path, report: Callable[[str], None]
) -> None:
    """The trace of a core with a known flaw is rejected, at the first line that shows it."""
    for seed in range(12):
        walk(tmp_path / "trace", seed, brokers=3, steps=300, flaw=flaw)
        outcome = conform_files([tmp_path / "trace"])
        if outcome.verdict is Verdict.DIFFERS:
            assert outcome.mismatch is not None
            place = f"walk {seed + 1}, line {outcome.matched + 1}"
            report(f"conform, {flaw}: {place}: {outcome.mismatch.differences[0]}")
            return
        assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    pytest.fail(f"twelve walks of cores with the flaw {flaw!r} conformed")


# ── Files, order, bounds ────────────────────────────────────────────────────────────────────


def files(lines: list[dict[str, Any]], folder: Path) -> list[Path]:
    """The same trace as one file for each node."""
    nodes = sorted({line["node"] for line in lines})
    return [put(folder / n, [line for line in lines if line["node"] == n]) for n in nodes]


def spread(lines: list[dict[str, Any]], late_ms: dict[str, int]) -> list[dict[str, Any]]:
    """The lines a millisecond apart, some nodes' clocks fast by so many milliseconds."""
    return [
        {**line, "time_ns": t, "since_ns": t}
        for k, line in enumerate(lines)
        for t in [(k + 1000 + late_ms.get(line["node"], 0)) * 1_000_000]
    ]


def test_files_are_merged_by_time(clean: list[dict[str, Any]], tmp_path: Path) -> None:
    """One file for each node is as good as one for all."""
    outcome = conform_files(files(spread(clean, {}), tmp_path))

    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    assert outcome.lines == len(clean)


def test_clocks_that_are_apart_are_allowed_for_and_hide_nothing(
    clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """
    A node's clock that is 30 ms fast is allowed for, if that is admitted.

    Concealed, the trace differs; a flawed one is never taken to conform, however far the clocks.
    """
    apart = files(spread(clean, {"broker2": 30}), tmp_path)

    assert conform_files(apart).verdict is Verdict.DIFFERS
    outcome = conform_files(apart, slack_ns=30_000_000)
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)

    lines = json.loads(json.dumps(clean))
    lines[40]["seen"]["leads"] ^= True
    flawed = files(spread(lines, {"broker2": 30}), tmp_path)
    outcome = conform_files(flawed, slack_ns=30_000_000)
    assert outcome.verdict is Verdict.UNKNOWN
    assert "not every order" in outcome.reason


def test_traces_of_different_runs_are_not_mixed(
    clean: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Files of two runs are a mistake of the caller's."""
    one = put(tmp_path / "one", clean)
    two = put(tmp_path / "two", [{**line, "run": "another"} for line in clean])

    with pytest.raises(TraceError, match="different runs \\(another, seed 2\\)"):
        conform_files([one, two])


def test_an_empty_trace_is_an_error(tmp_path: Path) -> None:
    """Nothing was traced: nothing conforms."""
    with pytest.raises(TraceError, match="no line in"):
        conform_files([put(tmp_path / "trace", [])])


# ── The engine, on a spec of its own ────────────────────────────────────────────────────────


class Person(Sort):
    """Somebody who writes letters."""


class Post(Spec):
    """People send letters; the post carries them; a dog may eat one."""

    sent: dict[Person, int] = each(0)
    carried: dict[Person, int] = each(0)
    answers: dict[Person, int] = each(0)

    @action
    def send(self, p: Person) -> None:
        """{p} sends a letter."""
        self.sent[p] = self.sent[p] + 1

    @action
    def carry(self, p: Person) -> None:
        """The post carries a letter of {p}."""
        require(self.carried[p] < self.sent[p])
        self.carried[p] = self.carried[p] + 1

    @action
    def answer(self, p: Person) -> None:
        """{p} hears that a letter has come."""
        require(self.answers[p] < self.carried[p])
        self.answers[p] = self.answers[p] + 1

    @action(kind=fault)
    def forge(self, p: Person) -> None:
        """Somebody sends a letter in the name of {p}."""
        self.sent[p] = self.sent[p] + 1

    def content(self, p: Person) -> bool:
        """Whether everything that was sent has been answered."""
        return self.answers[p] == self.sent[p]


def post(*lines: Line, named: tuple[str, ...] = ("send", "answer"), **more: Any) -> Outcome:
    """Replay lines about two people."""
    return conform(specification(Post), {"Person": 2}, lines, named=named, **more)


def sends(p: int = 0, **more: Any) -> Line:
    """A line: a letter is sent."""
    return Line(node=p, action="send", arguments=(Person(p),), **more)


def hears(p: int = 0, **more: Any) -> Line:
    """A line: an answer is heard."""
    return Line(node=p, action="answer", arguments=(Person(p),), **more)


def test_what_a_trace_does_not_name_is_inferred() -> None:
    """An answer implies that the letter was carried."""
    outcome = post(sends(), hears(after={"answers": 1}))

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.named == {"send": 1, "answer": 1}
    assert outcome.inferred == {"carry"}
    assert outcome.covered == {"send", "carry", "answer"}


def test_a_fault_is_supposed_only_where_a_line_needs_one() -> None:
    """One letter and one answer need no forger, one letter and two answers do."""
    assert "forge" not in post(sends(), hears()).inferred
    assert "forge" in post(sends(), hears(), hears()).inferred
    assert post(sends(), hears(), hears(), never=("forge",)).verdict is Verdict.DIFFERS


def test_two_faults_at_once_are_supposed_where_one_does_not_do() -> None:
    """Two forged letters at once are found, three are not."""
    assert post(hears(before={"carried": 2})).verdict is Verdict.CONFORMS
    assert post(hears(before={"carried": 3})).verdict is Verdict.DIFFERS


def test_a_mismatch_names_the_conjunct_that_fails_and_what_it_saw() -> None:
    """A line that is not possible is told with its guard, in the spec's words, and the values."""
    outcome = post(sends(), hears(1, where="line 2"), never=("forge",))

    assert (outcome.verdict, outcome.matched) == (Verdict.DIFFERS, 1)
    assert outcome.mismatch is not None
    assert outcome.mismatch.lines == [
        "line 2: answer(person2) was not possible; of its guard this fails:",
        "  self.answers[p] < self.carried[p]"
        "  (self.answers[p] is 0, self.carried[p] is 0; p = person2)",
    ]


def test_a_mismatch_tells_a_step_that_ends_otherwise() -> None:
    """A line whose step was possible is told with the values on both sides."""
    outcome = post(sends(after={"sent": 2}, where="line 1"), never=("forge",))

    assert outcome.mismatch is not None
    assert outcome.mismatch.lines == [
        "line 1: send(person1) was possible, but ends otherwise:",
        "  sent of person1: the spec has 1, the trace 2",
    ]


def test_what_a_helper_must_have_answered_is_checked() -> None:
    """A line may tell what a helper of the spec says before its step."""
    assert post(sends(answers={"content": True})).verdict is Verdict.CONFORMS
    outcome = post(sends(), sends(answers={"content": True}), never=("forge",))

    assert outcome.mismatch is not None
    assert outcome.mismatch.kind == "answer"


def test_a_step_without_a_name_is_only_looked_at() -> None:
    """A line that names no action takes no step, but what it saw must be so."""
    seen = Line(node=0, action=None, after={"sent": 1})

    assert post(sends(), seen, seen).verdict is Verdict.CONFORMS
    assert post(seen, never=("forge",)).verdict is Verdict.DIFFERS


def test_more_states_than_may_be_carried_are_unknown() -> None:
    """Beyond the cap nobody knows, and the outcome says so."""
    lines = [sends() for _ in range(9)]

    assert post(*lines, cap=10).verdict is Verdict.CONFORMS
    outcome = post(*lines, cap=9)
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "more than 9 states are possible at a line"


def test_a_fault_that_went_unnoticed_is_found_within_the_window() -> None:
    """What must have happened some lines ago is looked for there, so far back as the window."""
    seen = Line(node=0, action="carry", arguments=(Person(0),), before={"carried": 0})
    trace = [seen, *[sends(1)] * 30, replace(seen, before={"carried": 1}, after={"sent": 2})]
    named = ("send", "carry", "answer")

    assert post(*trace, named=named).verdict is Verdict.CONFORMS
    assert post(seen, seen, named=named).verdict is Verdict.DIFFERS


def test_a_line_may_have_happened_since_it_was_begun() -> None:
    """A line that names an interval takes its place anywhere in it."""
    late = hears(0, before={"sent": 1}, time=4, since=2)
    trace = [sends(time=1), sends(1, time=2), sends(time=3)]

    assert post(*trace, late, never=("forge",)).verdict is Verdict.CONFORMS
    early = replace(late, since=4)
    assert post(*trace, early, never=("forge",)).verdict is Verdict.DIFFERS


def test_lines_of_nodes_whose_clocks_are_apart_are_tried_in_other_orders() -> None:
    """Within the slack a line of another node may come first; where none helps, it is unknown."""
    named = ("send", "carry", "answer")
    carried = Line(node=1, action="carry", arguments=(Person(0),), time=10)
    sent = sends(0, time=12)

    assert post(carried, sent, named=named, never=("forge",)).verdict is Verdict.DIFFERS
    assert post(carried, sent, named=named, never=("forge",), slack=5).verdict is Verdict.CONFORMS
    outcome = post(carried, replace(sent, arguments=(Person(1),)), named=named,
                   never=("forge",), slack=5)  # fmt: skip
    assert outcome.verdict is Verdict.UNKNOWN
    assert "not every order" in outcome.reason


# ── The spec's words ────────────────────────────────────────────────────────────────────────


@cache
def election() -> Machine:
    """The election's plain Python at three brokers."""
    return Machine(Ground(ELECTION, {"Broker": 3}, bound=1, faults=1))


@pytest.mark.parametrize("seed", range(3))
def test_a_guard_in_words_is_the_guard(seed: int) -> None:
    """What is printed of a guard holds exactly where the plain Python takes the step."""
    machine, chance = election(), Random(seed)
    guards = {a.name: (guard(a, machine), conjuncts(a, machine)) for a in ELECTION.actions}
    state = machine.initial()
    with sizes_of_sorts(machine.sizes):
        for _ in range(150):
            for a, arguments in machine.choices:
                whole, parts = guards[a.name]
                possible = machine.take(state, a.name, arguments) is not None
                assert bool(whole(state, *arguments)) == possible, a.name
                assert all(part.holds(state, *arguments) for part in parts) == possible, a.name
            state = chance.choice(list(machine.steps(state))).state


def test_the_inbox_spares_states_and_changes_no_verdict(tmp_path: Path) -> None:
    """To know what later lines tell of an inbox makes the sets smaller, never the outcome other."""
    walk(tmp_path / "trace", 3, brokers=3, steps=250)
    lines = raw(read_files([tmp_path / "trace"], FORMATS)).lines

    with_inbox, without = (
        conform(ELECTION, {"Broker": 3}, lines, named=NAMED, never=NEVER, inbox=inbox)
        for inbox in ("answer", None)
    )

    assert with_inbox.verdict is without.verdict is Verdict.CONFORMS
    assert with_inbox.steps < without.steps
