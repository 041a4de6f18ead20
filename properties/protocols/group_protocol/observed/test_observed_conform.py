"""
Answers of Kafka's own coordinator, replayed in the spec of what a coordinator may answer.

The recorded ones (`observed/`) are of real Kafkas behind `herdproof broker --observe`: three
unmodified clients of which one is killed, and one paused beyond its session
(`test_a_group_of_kafkas_own_is_seen_as_it_is`; once on a busy machine), and two members of which
one commits what is the other's.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.conformance.traces.line import TraceLine, read_line
from herdproof.conformance.traces.replay import conform_lines
from herdproof.protocols.group_protocol.traces.observed import (
    answer,
    api,
    asked,
    committed,
    error,
    errors,
    generation,
)
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdspec.check.conformance.conform import Outcome, Verdict
from herdspec.check.exploration.explore import explore
from herdspec.check.refinement.refine import refine_by_exploration, refine_by_running
from herdspec.language.specification import Specification
from herdspec.protocols.group_protocol import mistakes
from herdspec.protocols.group_protocol.properties import without_stopping
from herdspec.protocols.group_protocol.replays.answered import ANSWERED, ANSWERED_BY_KAFKA
from herdspec.protocols.group_protocol.replays.answered_map import ANSWERS
from properties.broker.observed_group import answers_of, stolen
from properties.protocols.group_protocol.observed.answered_walks import AnsweredWalk

RECORDED = Path(__file__).parent
KAFKAS = ("3.9.1", "4.3.1")
GROUPS = tuple(f"kafka-{version}" for version in KAFKAS)
THEFTS = tuple(f"stolen-{version}" for version in KAFKAS)
Lines = list[TraceLine]


def read(texts: list[str]) -> Lines:
    """Lines as `conform` reads them."""
    return [read_line(text, f"line {number}") for number, text in enumerate(texts, start=1)]


@cache
def recorded(name: str) -> Lines:
    """The answers that were recorded."""
    return read(
        gzip.decompress((RECORDED / f"{name}.ndjson.gz").read_bytes()).decode().splitlines()
    )


@cache
def answers(seed: int) -> Lines:
    """The answers that one of our own brokers gives, as a Kafka that is looked at."""
    return read(answers_of(seed))


def conformed(lines: Lines) -> Outcome:
    """The verdict on them."""
    return conform_lines(lines, map_of())


# ── What Kafka answers ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", GROUPS)
def test_what_kafkas_have_answered_conforms(name: str) -> None:
    """Every line is explained, by the verified protocol's own answers."""
    outcome = conformed(recorded(name))

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.stricter is None
    assert outcome.matched == len(recorded(name))
    assert outcome.named["tell_generation"] > 5
    assert {"beat", "tell_id", "refuse_rebalancing", "take_commit"} <= outcome.named.keys()


@pytest.mark.parametrize("name", THEFTS)
def test_a_commit_of_what_another_one_owns_is_kafkas_own(name: str) -> None:
    """It conforms to what Kafka is known to do; where the verified protocol parts, is told."""
    outcome = conformed(recorded(name))

    assert outcome.verdict is Verdict.CONFORMS
    assert "commit_by_generation" in outcome.inferred
    assert outcome.stricter is not None
    assert outcome.stricter.where == recorded(name)[-1].place
    assert "is_free_to" in outcome.stricter.differences[-1]


def test_a_client_commits_under_its_next_generation_what_it_had_before() -> None:
    """Unmodified clients on a busy machine: aiokafka does, and Kafka takes it."""
    lines = recorded("busy-4.3.1")
    outcome = conformed(lines)

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.stricter is not None
    (where,) = (line for line in lines if line.place == outcome.stricter.where)
    assert asked(where)["member_id"].startswith("aiokafka")
    assert len(committed(where)) == 8


@pytest.mark.parametrize("seed", range(6))
def test_a_broker_of_our_own_answers_by_the_verified_protocol(seed: int) -> None:
    """Members come, work and go; nothing that only Kafka does is needed."""
    outcome = conformed(answers(seed))

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.stricter is None


def test_the_command_tells_both(tmp_path: Path) -> None:
    """Exit code 0, and the line at which the verified protocol parts, printed and in the JSON."""
    file, told = tmp_path / "seen.ndjson", tmp_path / "told.json"
    file.write_text("\n".join(stolen()) + "\n")

    done = CliRunner().invoke(app, ["conform", str(file), "--json", str(told)])

    assert done.exit_code == 0, done.output
    assert "It conforms, but for what this code is known to do otherwise." in done.output
    found = json.loads(told.read_text())
    assert (found["verdict"], found["exit"], found["mismatch"]) == ("conforms", 0, None)
    assert found["stricter"]["action"] == "take_commit of kafka"


# ── Planted mistakes ────────────────────────────────────────────────────────────────────────


def planted(line: TraceLine, where: str, value: Any) -> TraceLine:
    """A line that says something else at one place."""
    arguments = copy.deepcopy(line.arguments)
    *path, last = where.split(".")
    of = arguments
    for name in path:
        of = of[name]
    of[last] = value
    return replace(line, arguments=arguments)


def told_of_generations(lines: Lines) -> Iterator[tuple[int, TraceLine]]:
    """The answers that tell somebody of its generation, each with its place, but the first."""
    found = [(k, x) for k, x in enumerate(lines) if api(x) == "JoinGroup" and not error(x)]
    yield from found[1:]


def goes_back(lines: Lines) -> Iterator[Lines]:
    """A generation that is smaller than the one before."""
    for k, line in told_of_generations(lines):
        yield with_line(lines, k, planted(line, "answer.generation_id", generation(line) - 2))


def two_leaders(lines: Lines) -> Iterator[Lines]:
    """A follower that is told that it leads, too, and whom."""
    for k, line in told_of_generations(lines):
        own = [x for _, x in told_of_generations(lines) if generation(x) == generation(line)]
        members: Any = next((answer(x)["members"] for x in own if answer(x)["members"]), [])
        if members and not answer(line)["members"]:
            leads = planted(line, "answer.leader", answer(line)["member_id"])
            yield with_line(lines, k, planted(leads, "answer.members", members))


def anothers_assignment(lines: Lines) -> Iterator[Lines]:
    """A member that is told what is another one's."""
    synced = [(k, x) for k, x in enumerate(lines) if api(x) == "SyncGroup" and not error(x)]
    for k, line in synced:
        own = answer(line)["assignment"]
        others = [answer(x)["assignment"] for _, x in synced if generation(x) == generation(line)]
        if other := next((each for each in others if each != own), ""):
            yield with_line(lines, k, planted(line, "answer.assignment", other))


def strangers_commit(lines: Lines) -> Iterator[Lines]:
    """A commit that is taken from somebody who is no member."""
    for k, line in enumerate(lines):
        if api(line) == "OffsetCommit" and 0 in errors(line):
            yield with_line(lines, k, planted(line, "request.member_id", "nobody"))


def commit_of_before(lines: Lines) -> Iterator[Lines]:
    """A commit that is taken, of the generation before."""
    name = "generation_id_or_member_epoch"
    for k, line in enumerate(lines):
        if api(line) == "OffsetCommit" and 0 in errors(line) and generation(line) > 1:
            yield with_line(lines, k, planted(line, f"request.{name}", generation(line) - 1))


def shared_too_early(lines: Lines) -> Iterator[Lines]:
    """A follower that is told its assignment before its leader has asked."""
    synced = [x for x in lines if api(x) == "SyncGroup" and not error(x)]
    for leader in (x for x in synced if asked(x)["assignments"]):
        early = leader.earliest_ns - 1
        for line in synced:
            if line is not leader and generation(line) == generation(leader):
                moved = replace(line, since_ns=early - 1, time_ns=early)
                yield in_order([*(x for x in lines if x is not line), moved])


def with_line(lines: Lines, k: int, line: TraceLine) -> Lines:
    """The lines, with this one in the place of another."""
    return [*lines[:k], line, *lines[k + 1 :]]


def in_order(lines: Lines) -> Lines:
    """Lines by their times, numbered anew."""
    found = sorted(lines, key=lambda line: line.time_ns)
    return [replace(line, sequence=number) for number, line in enumerate(found, start=1)]


PLANTED: dict[str, tuple[Callable[[Lines], Iterator[Lines]], str]] = {
    "a generation that goes back": (goes_back, "tell_generation"),
    "two leaders": (two_leaders, "tell_generation"),
    "another one's assignment": (anothers_assignment, "tell_assignment"),
    "a stranger's commit": (strangers_commit, "take_commit"),
    "a commit of before": (commit_of_before, "take_commit"),
    "an assignment before its leader's": (shared_too_early, "tell_assignment"),
}


def refused(mistake: str, lines: Lines) -> Outcome:
    """The verdict on a mistake, which has to differ."""
    outcome = conformed(lines)
    assert outcome.verdict is Verdict.DIFFERS, (mistake, outcome.reason)
    assert outcome.mismatch is not None
    return outcome


@pytest.mark.parametrize("mistake", PLANTED)
@pytest.mark.parametrize("name", THEFTS)
def test_a_planted_mistake_differs(name: str, mistake: str) -> None:
    """A line is changed that Kafka has answered; the step that is impossible is named."""
    plant, step = PLANTED[mistake]
    outcome = refused(mistake, next(plant(recorded(name))))

    assert outcome.mismatch is not None
    assert outcome.mismatch.action == f"{step} of kafka"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mistake", PLANTED)
@pytest.mark.parametrize("name", GROUPS)
def test_a_mistake_differs_wherever_it_is_planted(name: str, mistake: str) -> None:
    """In each line of its kind, while members are killed, and paused; of most, twelve."""
    every = [*PLANTED[mistake][0](recorded(name))]

    for lines in Random(0).sample(every, min(12, len(every))):
        refused(mistake, lines)


# ── What is missing is unknown ──────────────────────────────────────────────────────────────


def lacking(lines: Lines, drawn: Random) -> Lines:
    """Lines of which some are deleted, or the beginning, or the end; or a whole connection."""
    first, last = sorted(drawn.sample(range(len(lines) + 1), 2))
    share = drawn.choice([0.01, 0.1, 0.4])
    gone = drawn.choice([x.arguments["connection"] for x in lines if x.arguments])
    seen = [x for x in lines if x.arguments.get("connection") != gone]
    return drawn.choice([
        [x for x in lines if drawn.random() > share],
        lines[first:last],
        lines[:last],
        in_order(seen),
        in_order(seen)[: min(last, len(seen))],
    ])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 5), chance=st.integers(0, 2**16))
def test_missing_answers_never_make_it_differ(seed: int, chance: int) -> None:
    """Whatever is deleted: what is left conforms, or is unknown."""
    outcome = conformed(lacking(answers(seed), Random(chance)))

    assert outcome.verdict is not Verdict.DIFFERS, outcome.mismatch


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [*GROUPS, *THEFTS])
def test_missing_answers_of_kafkas_never_make_it_differ(name: str) -> None:
    """Whatever is deleted, some hundreds of times."""
    for chance in range(150):
        outcome = conformed(lacking(recorded(name), Random(chance)))
        assert outcome.verdict is not Verdict.DIFFERS, (chance, outcome.mismatch)


STRANGE: dict[str, tuple[str, str, Any]] = {
    "static members are not followed": ("JoinGroup", "request.group_instance_id", "a"),
    "a group of type connect is not followed": ("JoinGroup", "request.protocol_type", "connect"),
    "a generation without a leader is not followed": ("JoinGroup", "answer.leader", ""),
    "an assignment cannot be read": ("SyncGroup", "answer.assignment", "AAAB"),
    "was never seen to join": ("JoinGroup", "answer.leader", "somebody"),
}


@pytest.mark.parametrize("sentence", STRANGE)
def test_what_is_not_followed_is_unknown(sentence: str) -> None:
    """Exit code 3, with a sentence: never a difference."""
    kind, where, value = STRANGE[sentence]
    lines = recorded(THEFTS[0])
    k, line = next((k, x) for k, x in enumerate(lines) if api(x) == kind and not error(x))

    outcome = conformed(with_line(lines, k, planted(line, where, value)))

    assert outcome.verdict is Verdict.UNKNOWN
    assert sentence in outcome.reason


# ── What the spec of answers has to do with the verified protocol ───────────────────────────


@pytest.mark.parametrize("spec", [ANSWERED, ANSWERED_BY_KAFKA], ids=lambda spec: spec.name)
def test_nothing_fails_in_the_world_of_answers(spec: Specification) -> None:
    """With two members, up to the third generation: everything is possible, nothing wrong."""
    found = explore(spec, {"Member": 2, "Partition": 1}, faults=1, bound=3)

    assert not found.violations
    assert not found.missing
    assert all(found.taken.values())


@pytest.mark.parametrize(
    ("brokers", "members", "states"),
    [(1, 1, 3_024), (2, 1, 3_998), (1, 2, 153_112), (2, 2, 450_233)],
)
def test_every_step_of_the_protocol_is_one_of_its_answers(
    brokers: int, members: int, states: int
) -> None:
    """Seen by what its answers depend on, whatever happens, with one fault."""
    sizes = {"Broker": brokers, "Member": members, "Partition": 1}
    found = refine_by_exploration(ANSWERS, sizes, faults=1, bound=8)

    assert found.exploration is not None
    assert not found.exploration.violations
    assert found.exploration.complete
    assert found.exploration.states == states
    assert found.idle == []


def test_the_plain_python_has_these_steps_too() -> None:
    """On random walks, with two of everything."""
    sizes = {"Broker": 2, "Member": 2, "Partition": 2}

    assert refine_by_running(ANSWERS, sizes, walks=4, length=30) is None


BARE = changed(without_stopping(), properties=())
HABITS: dict[str, tuple[Specification, bool]] = {
    "verified": (BARE, False),
    "commit_by_generation": (
        BARE.replace("CommitByGeneration", accepts_offset=mistakes.only_the_generation), True
    ),
    "generation_unstored": (
        BARE.replace("GenerationUnstored", load_group=mistakes.load_what_was_assigned), True
    ),
}  # fmt: skip
"""The verified protocol, and Kafka's habits, each with whether it may part from the former."""


def walked(habit: str, seed: int) -> tuple[Outcome, set[str]]:
    """The verdict on the answers of a walk, and the actions that were taken on it."""
    sizes = {"Broker": 1 + seed % 2, "Member": 2 + seed % 2, "Partition": 1 + seed % 3 // 2}
    walk = AnsweredWalk(HABITS[habit][0], sizes, seed)
    return conformed(walk.run(300)), walk.taken


def assert_walks(habit: str, seeds: range) -> None:
    """Each conforms, and together they have taken every action."""
    taken: set[str] = set()
    parts = False
    for seed in seeds:
        outcome, by = walked(habit, seed)
        assert outcome.verdict is Verdict.CONFORMS, (seed, outcome.mismatch)
        taken |= by
        parts = parts or outcome.stricter is not None
        assert HABITS[habit][1] or outcome.stricter is None, (seed, outcome.stricter)
    assert taken == {a.name for a in HABITS[habit][0].actions}
    assert parts or habit != "commit_by_generation"


@pytest.mark.parametrize("habit", HABITS)
def test_answers_of_walks_conform(habit: str) -> None:
    """Answers that the spec's coordinators give, and of which some are lost."""
    assert_walks(habit, range(12))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("habit", HABITS)
def test_answers_of_many_walks_conform(habit: str) -> None:
    """Five hundred walks of three hundred steps."""
    assert_walks(habit, range(500))
