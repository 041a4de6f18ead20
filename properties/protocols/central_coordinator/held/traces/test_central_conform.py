"""
Traces of the central coordinator conform to its spec, and traces of mistaken cores do not.

The simulated world runs the very cores that the services run, each with its tracer; a run's trace
is replayed in the spec. Mistakes of the cores, and of traces, are noticed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replaced
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.conformance.traces.line import START, TraceError, read_files
from herdproof.conformance.traces.replay import conform_files
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.central_coordinator.campaign import Central
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import Traced, traced
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from herdproof.protocols.central_coordinator.traces.lines import (
    FORMATS,
    TOLD,
    CentralStep,
    read_central_line,
)
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines, map_of
from herdspec.check.conformance.conform import Outcome, Verdict
from herdspec.check.conformance.follow import Follower, PlainSteps, StepConstraint, TooManyStates
from herdspec.check.running.run import machine
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.group import Partition
from properties.locks import LOCK, spec

SEEDS = (*range(12), 2333)

SELDOM = frozenset(
    {"abandon_rebalance", "fail_rebalance", "requeue", "lose_answer", "refuse_stale"}
)
"""Actions that so few runs need not show; `test_many_runs_conform` wants all."""


@cache
def run(seed: int) -> Traced:
    """A run as the services are, faults included."""
    return traced(seed)


@cache
def replayed(seed: int) -> Outcome:
    """That run's replay."""
    return conform_lines(run(seed).lines)


def shown(outcome: Outcome) -> str:
    """What a failing test prints."""
    return "\n".join(outcome.mismatch.lines) if outcome.mismatch else outcome.reason


# ── Runs conform ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_conforms(seed: int) -> None:
    """Every line is explained."""
    outcome = replayed(seed)

    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)
    assert outcome.matched == outcome.lines == len(run(seed).lines) > 300


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
def test_what_was_proved_holds_in_every_state_of_a_run(plain: bool) -> None:
    """Promises and lemmas, evaluated where the replay comes: the proof's hypotheses."""
    outcome = conform_lines(run(1).lines, invariants=True, plain=plain)

    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)
    assert outcome.matched == outcome.lines == len(run(1).lines)


def test_runs_take_every_action_of_the_spec() -> None:
    """What is never driven is not tested: all but what is rare is seen in these few runs."""
    covered: set[str] = set()
    for seed in SEEDS:
        covered |= replayed(seed).covered

    assert {a.name for a in CENTRAL_COORDINATOR.actions} - covered <= SELDOM


@pytest.mark.long
def test_many_runs_conform() -> None:
    """A thousand runs, and every action is taken."""
    covered: Counter[str] = Counter()
    lines = 0
    for seed in range(1_000):
        made = traced(seed)
        outcome = conform_lines(made.lines)
        assert outcome.verdict is Verdict.CONFORMS, f"seed {seed}: {shown(outcome)}"
        covered.update(outcome.covered)
        lines += outcome.lines
    print(f"1,000 runs, {lines:,} lines; runs by action: {covered.most_common()}")
    assert {a.name for a in CENTRAL_COORDINATOR.actions} <= covered.keys()


def test_a_topic_may_be_noticed_while_a_write_is_under_way() -> None:
    """
    Seed 1145: the write that was sent names none of the partitions that were noticed since; once it
    is answered they are known.
    """
    lines = traced(1145).lines
    outcome = conform_lines(lines)
    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)

    told = [(p.action, p.number) for p in lines]
    answered = told.index(("answered", 48))
    known: list[set[int]] = []

    def watch(before: Any, action: str, arguments: tuple[Any, ...], after: Any) -> None:
        del before
        if action == "answered":
            known.append({p for p in range(5) if after.knows[arguments[0], Partition(p)]})

    outcome = conform_lines(lines[: answered + 1], watches=lambda: watch, plain=True)
    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)
    assert known[-1] == set(range(5))


@pytest.mark.parametrize(("seed", "mix"), [(183, "usual/sessions"), (201, "usual/brokers")])
def test_an_election_may_be_heard_of_after_the_next_one(seed: int, mix: str) -> None:
    """A coordinator that learns of its epoch when that is over does nothing in it (a campaign)."""
    config = Central().config(Asked("central_coordinator", 0, seed, mix))
    outcome = conform_lines(traced(seed, config).lines)

    assert outcome.verdict is Verdict.CONFORMS, shown(outcome)


# ── Mistaken cores do not ───────────────────────────────────────────────────────────────────

COORDINATORS = {
    "no_barrier": "write_owners",
    "owners_written_late": "send_start",
    "no_start": "phase[",
    "lost_trigger": "",
    "stale_offsets": "begins",
    "partial_failover": "write_owners",
    "no_lease": "write_owners",
}
"""Switches of the coordinator that show in a trace, and what the explanation names."""

CONSUMERS = {"reconnects_fetching": "is_free"}
"""Switches of the consumer that do."""

MOST_SEEDS = 40
PLAIN = replaced(DEFAULT, resumes=0, brings=0)
"""Runs of the verified protocol: nobody resumes or brings anything."""


def first_that_differs(config: Config) -> Outcome:
    """The replay of the first seed's run that does not conform."""
    for seed in range(MOST_SEEDS):
        outcome = conform_lines(traced(seed, config).lines)
        if outcome.verdict is not Verdict.CONFORMS:
            return outcome
    raise AssertionError(f"{MOST_SEEDS} runs of a mistaken core conform")


@pytest.mark.parametrize("flaw", COORDINATORS)
def test_a_mistaken_coordinator_differs(flaw: str) -> None:
    """Its trace shows a step that the spec does not allow, and which."""
    outcome = first_that_differs(replaced(PLAIN, coordinator_flaws=frozenset({flaw})))

    assert outcome.verdict is Verdict.DIFFERS
    assert COORDINATORS[flaw] in shown(outcome)


@pytest.mark.parametrize("flaw", CONSUMERS)
def test_a_mistaken_consumer_differs(flaw: str) -> None:
    """So does a consumer's."""
    outcome = first_that_differs(replaced(PLAIN, consumer_flaws=frozenset({flaw})))

    assert outcome.verdict is Verdict.DIFFERS
    assert CONSUMERS[flaw] in shown(outcome)


# ── Mistaken traces do not ──────────────────────────────────────────────────────────────────


def changed(
    lines: Sequence[CentralStep], action: str, change: Callable[[CentralStep], CentralStep]
) -> list[CentralStep]:
    """A trace in which the last line of an action tells something else."""
    at = max(k for k, p in enumerate(lines) if p.action == action)
    return [*lines[:at], change(lines[at]), *lines[at + 1 :]]


def other_generation(line: CentralStep) -> CentralStep:
    """The line, of a generation later."""
    return replace(line, generation=line.generation + 1)


def other_offsets(line: CentralStep) -> CentralStep:
    """The line, one record on."""
    return replace(line, partitions=tuple((t, n, offset + 1) for t, n, offset in line.partitions))


def one_less(line: CentralStep) -> CentralStep:
    """The line, with one partition less."""
    return replace(line, partitions=line.partitions[1:], owners=line.owners[1:])


def unnecessary(line: CentralStep) -> CentralStep:
    """The line, with the opposite outcome."""
    return replace(line, outcome="unnecessary" if line.outcome == "necessary" else "necessary")


CHANGES = [
    ("send_start", other_generation), ("send_stop", other_generation),
    ("handle_start", other_generation), ("handle_ping", lambda x: replace(x, epoch=x.epoch + 1)),
    ("send_start", one_less), ("handle_start", one_less), ("write_owners", one_less),
    ("send_start", other_offsets),
    ("begin_rebalance", unnecessary),
]  # fmt: skip


@pytest.mark.parametrize(("action", "change"), CHANGES)
def test_a_line_that_tells_something_else_is_noticed(
    action: str, change: Callable[[CentralStep], CentralStep]
) -> None:
    """The generation, the assignment, an offset, the outcome: each is held to the spec."""
    lines = changed(run(0).lines, action, change)

    outcome = conform_lines(lines)

    if outcome.verdict is Verdict.UNKNOWN:  # an epoch in which nobody whose trace is here led
        assert re.fullmatch(r"the trace of the coordinator of epoch \d+ is missing", outcome.reason)
    else:
        assert outcome.verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    "action", ["handle_stop_response", "begin_rebalance", "handle_start", "handle_register"]
)
def test_a_step_that_was_not_taken_is_noticed(action: str) -> None:
    """Without one step, what follows is not possible."""
    lines = run(0).lines
    at = max(k for k, p in enumerate(lines) if p.action == action)
    node, role = lines[at].node, lines[at].role
    later = [
        replace(p, sequence=p.sequence - 1) if (p.node, p.role) == (node, role) else p
        for p in lines[at + 1 :]
    ]
    ends = next((k for k, p in enumerate(later) if p.action == START), len(later))

    outcome = conform_lines([*lines[:at], *later[:ends]])

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.matched >= at


def test_where_a_line_is_missing_nothing_is_known() -> None:
    """By the numbers of a process's lines; also where it is the first one."""
    lines = run(0).lines
    assert lines[50].action != START

    leads = next(p.node for p in lines if p.action == "coordinator_startup")
    starts = [k for k, p in enumerate(lines) if p.action == START and p.node == leads]
    for at in (50, starts[0]):
        outcome = conform_lines([*lines[:at], *lines[at + 1 :]])
        assert outcome.verdict is Verdict.UNKNOWN
        assert "lines are missing" in shown(outcome)


@pytest.mark.parametrize("role", ["coordinator", "consumer"])
def test_whose_trace_is_missing_is_named(role: str) -> None:
    """Without all traces of its coordinators, or of a consumer, a group is unknown."""
    lines = run(0).lines
    gone = {p.node for p in lines if p.role == role}
    gone = gone if role == "coordinator" else {min(gone)}

    outcome = conform_lines([p for p in lines if p.role != role or p.node not in gone])

    assert outcome.verdict is Verdict.UNKNOWN
    assert f"the trace of {'the coordinator' if role == 'coordinator' else 'consumer'}" in (
        outcome.reason
    )


def test_each_group_has_its_own_verdict() -> None:
    """What differs in one group is nothing to the other, whose run is the same."""
    lines = run(0).lines
    group = next(p.group for p in lines if p.group)
    other = [
        replace(p, group="other", node=f"{p.node}'")
        for p in changed(lines, "send_start", other_generation)
        if p.role == "consumer" or p.action == START
    ]

    outcome = conform_lines(sorted([*lines, *other], key=lambda p: p.time_ns))

    assert set(outcome.groups) == {group, "other"}
    assert outcome.groups[group].verdict is Verdict.CONFORMS


# ── Files ───────────────────────────────────────────────────────────────────────────────────


def written(lines: Sequence[CentralStep], folder: Path) -> list[Path]:
    """A trace in files, one for each node."""
    texts: dict[str, list[str]] = {}
    for p in lines:
        texts.setdefault(f"{p.role}-{p.node}", []).append(p.written() + "\n")
    paths = [folder / f"{name}.ndjson" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text("".join(text))
    return paths


def test_the_files_of_a_run_are_merged(tmp_path: Path) -> None:
    """The lines of one run, in one file a node, conform as they do in one."""
    paths = written(run(0).lines, tmp_path)

    assert len(paths) >= 4
    assert conform_files(paths, map_of()).verdict is Verdict.CONFORMS


def test_the_command_tells_which_line_differs(tmp_path: Path) -> None:
    """`herdproof conform` knows the protocol by the lines: 0 where they conform, 1 where not."""
    lines = run(0).lines
    (good := tmp_path / "good").mkdir()
    (bad := tmp_path / "bad").mkdir()
    said = CliRunner().invoke(app, ["conform", *map(str, written(lines, good))])
    assert (said.exit_code, said.output.splitlines()[-1]) == (0, "It conforms.")

    worse = changed(lines, "send_start", other_generation)
    said = CliRunner().invoke(app, ["conform", *map(str, written(worse, bad)), "--json", "-"])
    told = json.loads(said.stdout)

    assert (said.exit_code, told["verdict"]) == (1, "differs")
    assert "the generation" in told["mismatch"]["differences"][0]


def test_clocks_that_are_apart_are_refused(tmp_path: Path) -> None:
    """Lines are taken in the order of their times: a slack would promise more than there is."""
    paths = written(run(0).lines, tmp_path)

    said = CliRunner().invoke(app, ["conform", *map(str, paths), "--slack", "1"])

    assert said.exit_code == 2
    assert "--slack" in said.output


def raw(**changes: Any) -> str:
    """A line's text, with some fields changed; None takes one away."""
    fields = json.loads(run(0).lines[40].written())
    for name, value in changes.items():
        (fields["arguments"] if name in TOLD else fields)[name] = value
    return json.dumps({name: value for name, value in fields.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON"),
        ("[]", "a JSON object"),
        (raw(schema=3), "this reader knows versions 1 and 2"),
        (raw(protocol="election"), "the protocol is 'election'"),
        (raw(time_ns="soon"), "`time_ns`"),
        (raw(node=None), "`node`"),
        (raw(partitions=[["t", "0"]]), "`arguments.partitions.0"),
        (raw(group=None), "the field `group` is missing"),
        (raw(arguments=None), "the field `arguments` is missing"),
    ],
)
def test_a_line_that_is_none_is_refused(text: str, complaint: str) -> None:
    """What is wrong is said, and where."""
    with pytest.raises(TraceError, match=complaint):
        read_central_line(text)


def test_a_file_tells_where_it_is_cut_off(tmp_path: Path) -> None:
    """A writer that was killed within a line leaves its trace readable up to there."""
    (path := written(run(0).lines, tmp_path)[0]).write_text(path.read_text() + '{"schema":1,"proto')

    with pytest.raises(TraceError, match="the last line is cut off"):
        read_files([path], FORMATS)


def test_traces_of_two_runs_are_not_replayed_together(tmp_path: Path) -> None:
    """They have nothing to do with each other."""
    (one := tmp_path / "one").mkdir()
    (two := tmp_path / "two").mkdir()

    with pytest.raises(TraceError, match="different runs"):
        read_files([*written(run(0).lines, one), *written(run(1).lines, two)], FORMATS)


# ── What is documented ──────────────────────────────────────────────────────────────────────

DOCS = (Path(__file__).parents[5] / "docs" / "central_trace.md").read_text()


def test_every_field_is_documented() -> None:
    """The table has the arguments of a line, in their order."""
    table = DOCS.split("## A line")[1].split("## Actions")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(TOLD)


def test_every_action_is_documented() -> None:
    """What runs tell is in the tables, and the other way round."""
    tables = DOCS.split("## Actions")[1].split("## What is checked")[0]
    told = set(
        re.findall(r"`([\w()]+)`", "".join(re.findall(r"^\|([^|]*)\|", tables, re.MULTILINE)))
    )
    seen = {p.action for seed in SEEDS for p in run(seed).lines}

    assert seen <= told
    assert told - seen <= {"fail_rebalance"}


def test_the_examples_are_lines() -> None:
    """As they are written."""
    lines = [text for text in DOCS.splitlines() if text.startswith("{")]

    assert len(lines) == 4
    assert [read_central_line(text).written() for text in lines] == lines


# ── Following ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(name="found")
def follower() -> Iterator[Follower]:
    """A lock's spec, at its beginning."""
    lock = machine(spec(LOCK), Client=2)
    with sizes_of_sorts(lock.sizes):
        yield Follower(PlainSteps(lock), [lock.initial()])


def test_the_furthest_way_explains_a_miss(found: Follower) -> None:
    """Of two ways that fail, the one is told that came further, with the condition that failed."""
    one, two = found.steps.machine.elements("Client")

    missed = found.follow(
        StepConstraint([[("grant", (one,)), ("grant", (two,))], [("release", (one,))]])
    )

    assert missed is not None
    assert missed.differences[0] == "grant(client2) is not possible"
    assert "require(self.free())" in missed.differences[1]


def test_what_is_left_open_is_carried_on(found: Follower) -> None:
    """Where a line may have been two things, both are possible, until a later one tells."""
    one, two = found.steps.machine.elements("Client")
    found.follow(StepConstraint([[("grant", (one,))], []], every=True))
    assert len(found.states) == 2

    assert found.follow(StepConstraint([[("grant", (two,))]])) is None
    assert len(found.states) == 1


def test_too_many_states_are_no_verdict(found: Follower) -> None:
    """A bound that is hit is told, not passed over."""
    found.cap = 1
    one, _ = found.steps.machine.elements("Client")

    with pytest.raises(TooManyStates):
        found.follow(StepConstraint([[("grant", (one,))], []], every=True))
