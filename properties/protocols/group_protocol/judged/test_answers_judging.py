"""Answers of a coordinator that stands for Kafka's, judged by the contract from outside."""

import pickle
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.conformance.traces.line import TraceLine
from herdproof.protocols.group_protocol.judged.judge import AnswersJudge
from herdproof.protocols.implementation import auditors
from properties.broker.observed_group import answers_of, stolen
from properties.protocols.group_protocol.judged.test_group_judging import judged, verdicts

SEEN_BY_ANSWERS = (
    "committed_offsets_never_go_back", "exclusive_fenced", "generations_never_go_back",
    "owners_change_with_the_generation",
)  # fmt: skip


def read(texts: list[str]) -> list[TraceLine]:
    """Lines as the audit reads them."""
    auditor = auditors()["group_protocol"]
    return [auditor.read(text, f"line {number}") for number, text in enumerate(texts, start=1)]


@cache
def answers(seed: int) -> list[TraceLine]:
    """What was seen of a group whose members come, work and go."""
    return read(answers_of(seed))


@cache
def theft() -> list[TraceLine]:
    """What was seen of a member that commits what is another's, which Kafka takes."""
    return read(stolen())


@pytest.mark.parametrize("seed", range(4))
def test_what_answers_tell_of_a_good_group_holds(seed: int) -> None:
    """Nothing is violated; what no answer tells is not observable, and never holds."""
    found = verdicts(answers(seed))

    assert {name for name, verdict in found.items() if verdict == "holds"} <= {*SEEN_BY_ANSWERS}
    assert "violated" not in found.values()
    assert {found[name] for name in found.keys() - {*SEEN_BY_ANSWERS}} == {"not observable"}
    assert found["exclusive_fenced"] == "holds"


def test_a_commit_of_what_another_one_owns_is_told_with_its_story() -> None:
    """Kafka takes it (apache/kafka PR 9656): only member and generation are looked at there."""
    rows = judged(theft())

    (broken,) = rows["violations"]
    assert broken["property"] == "exclusive_fenced"
    assert "9 of t-" in broken["told"]
    assert any("is taken" in step for step in broken["story"])
    thief = [row for row in rows["commits"] if row["offset"] == 9]
    assert [row["outcome"] for row in thief] == ["stored"]


def test_tables_are_of_kafkas_generations() -> None:
    """Its generations, with their latencies; whose partitions were so; who belonged."""
    rows = judged(theft())

    settled = [row for row in rows["generations"] if row["outcome"] == "settled"]
    assert [(row["members"], row["partitions"]) for row in settled] == [(1, 4), (2, 4)]
    assert all(row["begun_ns"] <= row["written_ns"] <= row["settled_ns"] for row in settled)
    last = {row["partition"]: row["consumer"] for row in rows["ownership"] if row["to_ns"] is None}
    assert len(last) == 4
    assert len(set(last.values())) == 2
    assert len(rows["memberships"]) == 2


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 5), chance=st.integers(0, 2**16), share=st.sampled_from([0.01, 0.1, 0.4])
)  # fmt: skip
def test_missing_answers_are_never_a_violation(seed: int, chance: int, share: float) -> None:
    """Whichever lines are deleted: what they would have told is unknown."""
    drawn = Random(chance)
    left = [x for x in answers(seed) if drawn.random() > share]

    assert "violated" not in verdicts(left).values()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 5), begin=st.floats(0, 1), end=st.floats(0, 1))
def test_a_part_of_the_answers_is_never_a_violation(seed: int, begin: float, end: float) -> None:
    """Begun late, or cut off."""
    lines = answers(seed)
    first, last = sorted((int(begin * len(lines)), int(end * len(lines))))

    assert "violated" not in verdicts(lines[first:last]).values()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 5), who=st.integers(0, 2))
def test_a_client_that_goes_past_is_never_a_violation(seed: int, who: int) -> None:
    """Its connection is not seen here, and no number is missing: it asked Kafka itself."""
    lines = answers(seed)
    numbers = sorted({x.arguments["connection"] for x in lines if x.arguments})
    gone = numbers[who % len(numbers)]
    seen = [x for x in lines if x.arguments.get("connection") != gone]
    renumbered = [replace(line, sequence=number) for number, line in enumerate(seen, start=1)]

    assert "violated" not in verdicts(renumbered).values()


def test_a_judge_of_answers_can_be_laid_aside() -> None:
    """Pickled between two lines, it goes on as it would have."""
    lines = answers(0)
    judge = AnswersJudge()
    judge.foresee(lines, len(lines))
    for line in lines[:30]:
        judge.take(line)
    again = pickle.loads(pickle.dumps(judge))
    for line in lines[30:]:
        assert judge.take(line) == again.take(line)

    assert judge.judgements() == again.judgements()


def test_the_audit_reads_what_was_observed(tmp_path: Path) -> None:
    """Exit code 1, and the story."""
    file = tmp_path / "seen.ndjson"
    file.write_text("\n".join(stolen()) + "\n")

    done = CliRunner().invoke(app, ["audit", str(file), "--out", str(tmp_path / "tables")])

    assert done.exit_code == 1, done.output
    assert "exclusive fenced" in done.output
