"""Traces of group coordinators, judged by the contract: whole, cut, and of flawed cores."""

import pickle
from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.judging.gaps import gaps_of, last_lines
from herdproof.pipeline.judging.judging import go_through
from herdproof.pipeline.spark.tables import Rows
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.judged.judge import WATCHES, GroupJudge
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdproof.protocols.implementation import auditors
from properties.protocols.group_protocol.group_hunts import ALL_MUTANTS
from properties.protocols.group_protocol.group_world import GROUP, TracedAlone, join_of

NAME = "group_protocol"
KINDS = tuple(MIXES)
SEEN = {
    "skips_generations": "exclusive_fenced",
    "forgets_offsets": "committed_offsets_never_go_back",
    "assigns_unstored": "owners_change_with_the_generation",
    "keeps_generation": "owners_change_with_the_generation",
    "fetches_one_too_far": "stored_as_taken",
    "commits_for_all": "what_was_taken_is_stored_at_the_handover",
    "begins_anew": "owners_change_with_the_generation",
    "commit_by_generation": "exclusive_fenced",
}
"""By mistake: a promise that its trace shows to be broken, in the run of seed 0."""
OF_MEMBERS = {
    "exclusive", "who_consumes_owns", "what_is_said_is_of_the_present_generation",
    "members_follow_no_older_epoch", "only_finished_is_committed", "nobody_is_past_the_unfinished",
    "who_begins_does_so_at_the_stored_offset", "a_resolved_start_is_stored_first", "complete",
    "settles",
}  # fmt: skip
"""What no coordinator sees."""


@cache
def trace(seed: int) -> list[TraceLine]:
    """The trace of a run in which much goes wrong."""
    return traced_groups(seed, config=MIXES[KINDS[seed % len(KINDS)]])


@cache
def flawed(name: str) -> list[TraceLine]:
    """The trace of a coordinator with a mistake."""
    if name in FLAWS:
        coordinator, client = FLAWS[name]
        return traced_groups(0, coordinator=coordinator, client=client)
    return traced_groups(0, coordinator=ALL_MUTANTS[name])


def judged(lines: list[TraceLine]) -> Rows:
    """All rows of a run with one group."""
    auditor = auditors()[NAME]
    found = auditor.ordered(lines)
    judging = auditor.judging("run", "g")
    gaps = gaps_of(found, alone=True, missing=())
    go_through(judging, auditor.filled(found.lines, gaps, last_lines(found.lines)))
    return judging.close()


def verdicts(lines: list[TraceLine]) -> dict[str, str]:
    """What comes of each sentence."""
    return {row["property"]: row["verdict"] for row in judged(lines)["verdicts"]}


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_what_a_coordinator_sees_holds(seed: int) -> None:
    """Of a whole trace; what members alone know is not observable, and holds never."""
    found = verdicts(trace(seed))

    unseen = {name for name, verdict in found.items() if verdict == "not observable"}
    assert unseen >= OF_MEMBERS
    assert {found[name] for name in found.keys() - unseen} == {"holds"}
    assert len(found.keys() - unseen) >= 8


def test_lines_of_clients_change_no_verdict() -> None:
    """What is judged is what coordinators say; clients' lines are replayed beside theirs."""
    lines = traced_groups(0, clients=True)
    coordinators = [line for line in lines if line.role != CONSUMER]

    found = verdicts(lines)

    assert len(coordinators) < len(lines)
    assert found == verdicts(coordinators)


def test_lines_of_clients_alone_decide_nothing() -> None:
    """Nobody who coordinates tells anything: no sentence holds, and none is violated."""
    lines = [line for line in traced_groups(0, clients=True) if line.role == CONSUMER]

    found = verdicts(lines)

    assert set(found.values()) == {"not observable", "unknown"}


@pytest.mark.parametrize("name", SEEN)
def test_a_mistake_is_seen_in_its_trace(name: str) -> None:
    """The contract's own property decides, and its story ends where it is broken."""
    rows = judged(flawed(name))

    broken = [row for row in rows["violations"] if row["property"] == SEEN[name]]
    assert broken
    assert all(row["story"] and row["told"] and row["place"] for row in broken)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 11), chance=st.integers(0, 2**16), share=st.sampled_from([0.003, 0.05]))
def test_missing_lines_are_never_a_violation(seed: int, chance: int, share: float) -> None:
    """Whichever lines are deleted: what they would have told is unknown."""
    drawn = Random(chance)

    assert "violated" not in verdicts([x for x in trace(seed) if drawn.random() > share]).values()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 11), who=st.integers(0, 2**16), at=st.floats(0, 1), tail=st.booleans()
)  # fmt: skip
def test_a_cut_or_missing_file_is_never_a_violation(
    seed: int, who: int, at: float, tail: bool
) -> None:
    """Whoever's lines end, or begin, at some time; from its first one on, all of them."""
    lines = trace(seed)
    nodes = sorted({line.node for line in lines})
    cut_ns = lines[int(at * (len(lines) - 1))].time_ns
    node = nodes[who % len(nodes)]
    left = [x for x in lines if x.node != node or (x.time_ns < cut_ns) == tail]

    assert "violated" not in verdicts(left).values()


def test_much_stays_decided_where_a_line_is_missing() -> None:
    """One gap, which is over: what is told again after it is judged again."""
    counts: Counter[str] = Counter()
    for seed in range(12):
        lines = trace(seed)
        gone = Random(seed).randrange(len(lines))
        counts.update(verdicts([x for k, x in enumerate(lines) if k != gone]).values())

    assert counts["violated"] == 0
    assert counts["holds"] > counts["unknown"] / 2


def test_a_planted_mistake_is_found_though_lines_are_missing() -> None:
    """Most of them, where one line in two hundred is: what is decided is decided rightly."""
    found = 0
    for name in SEEN:
        drawn = Random(name)
        left = [x for x in flawed(name) if drawn.random() > 0.005]
        found += "violated" in verdicts(left).values()

    assert found >= len(SEEN) - 2


# ── Tables ──────────────────────────────────────────────────────────────────────────────────


def test_tables_are_of_the_same_fields() -> None:
    """Generations, members, whose partitions are, commits and latencies of a quiet group."""
    alone = TracedAlone().traced()
    leader, _ = alone.stable(2)
    alone.commit(leader, p0=7)
    alone.wait(1)
    lines = auditors()[NAME]
    rows = judged([lines.read(x, "x") for x in alone.stream.getvalue().splitlines()])

    (latest,) = (row for row in rows["generations"] if row["outcome"] == "settled")
    assert (latest["members"], latest["partitions"], latest["coordinator"]) == (2, 2, "1")
    assert {(row["partition"], row["ended"]) for row in rows["ownership"]} == {
        ("0", "open"), ("1", "open"),
    }  # fmt: skip
    (first,) = (row for row in rows["ownership"] if row["consumer"] == leader.member_id)
    assert (first["to_offset"], first["generation"]) == (7, latest["generation"])
    assert [(row["offset"], row["outcome"]) for row in rows["commits"]] == [
        (7, "accepted"), (7, "stored"),
    ]  # fmt: skip
    assert len(rows["memberships"]) == 2
    figures = {row["name"]: row["value"] for row in rows["figures"]}
    assert figures["members_joined"] == 2
    assert figures["rebalance_latency_s"] >= 0
    assert figures["zombies"] is None  # nobody tells who consumes


def test_offsets_that_are_reset_between_members_are_no_violation() -> None:
    """Users reset offsets of empty groups: of these the contract does not speak."""
    alone = TracedAlone().traced()
    (joined,) = alone.stable(1)
    alone.commit(joined, p0=7)
    alone.wait(60_000)
    alone.commit(None, p0=3)
    alone.committed(0)
    read = auditors()[NAME].read
    found = verdicts([read(x, "x") for x in alone.stream.getvalue().splitlines()])

    assert found["committed_offsets_never_go_back"] == "unknown"
    assert "violated" not in found.values()


def test_lines_of_other_groups_are_not_missing() -> None:
    """A coordinator numbers its lines through all groups: of each, the others' are no gaps."""
    alone = TracedAlone().traced()
    (joined,) = alone.stable(1)
    for number in range(1, 6):
        alone.ask(join_of(group_id=f"another {number}"))
        alone.commit(joined, p0=number)
    read = auditors()[NAME].read
    lines = [read(x, "x") for x in alone.stream.getvalue().splitlines()]
    own = [line for line in lines if line.group in ("", GROUP)]

    rows = judge(NAME, "alone", GROUP, own)

    assert len(own) + 5 == len(lines)
    found = {row["property"]: (row["verdict"], row["why"]) for row in rows["verdicts"]}
    assert found["exclusive_fenced"] == found["stored_as_taken"] == ("holds", None)
    assert found["conforms"][0] == "holds"


def test_a_judge_can_be_laid_aside() -> None:
    """Pickled between two lines, it goes on as it would have."""
    lines = trace(0)
    judging = GroupJudge()
    for line in lines[:100]:
        judging.take(line)
    again = pickle.loads(pickle.dumps(judging))
    for line in lines[100:]:
        assert judging.take(line) == again.take(line)

    assert judging.judgements() == again.judgements()
    assert len(judging.judgements()) == len(WATCHES.promises)
