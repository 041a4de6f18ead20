"""Traces of group coordinators, judged by the contract: whole, cut, and of flawed cores."""

import pickle
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.judging.gaps import gaps_of, last_lines
from herdproof.pipeline.judging.judging import go_through
from herdproof.pipeline.spark.tables import Rows
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.assignors.plain import RangeAssignor
from herdproof.protocols.group_protocol.client.assignors.sticky import CooperativeStickyAssignor
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.judged.judge import SENTENCES, UNDECIDED, GroupJudge
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdproof.protocols.implementation import auditors
from properties.protocols.group_protocol.coordinator.group_world import GROUP, TracedAlone, join_of
from properties.protocols.group_protocol.held.group_hunts import ALL_MUTANTS

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
OF_CLIENTS = {
    "exclusive", "who_consumes_owns", "only_finished_is_committed",
    "nobody_is_past_the_unfinished", "who_begins_does_so_at_the_stored_offset",
}  # fmt: skip
"""What its clients tell of that."""
OWN = ("one_leader", "what_is_handed_out_is_stored")
"""The protocol's own sentences."""


@cache
def trace(seed: int) -> list[TraceLine]:
    """The trace of a run in which much goes wrong."""
    return traced_groups(seed, config=MIXES[KINDS[seed % len(KINDS)]])


@cache
def with_clients(seed: int) -> list[TraceLine]:
    """The trace of such a run, with its clients' lines."""
    return traced_groups(seed, clients=True, config=MIXES[KINDS[seed % len(KINDS)]])


@cache
def flawed(name: str) -> list[TraceLine]:
    """The trace of a coordinator with a mistake."""
    if name in FLAWS:
        coordinator, client = FLAWS[name]
        return traced_groups(0, coordinator=coordinator, client=client)
    return traced_groups(0, coordinator=ALL_MUTANTS[name])


OF_FINISHED = frozenset({"only_finished_is_committed", "nobody_is_past_the_unfinished"})
"""Sentences about what applications have finished."""


def retold(line: TraceLine, action: str = "", **arguments: Any) -> TraceLine:
    """A line that says otherwise."""
    told = {**line.arguments, **arguments}
    return replace(line, action=action or line.action, arguments=told)


def beginnings(lines: list[TraceLine]) -> list[int]:
    """Where clients begin to consume, in the generation of most members that do."""
    found = [k for k, x in enumerate(lines) if x.action == "update_fetch_positions"]
    many = Counter(lines[k].arguments["generation"] for k in found)
    generation, count = many.most_common(1)[0]
    assert count > 1
    return [k for k in found if lines[k].arguments["generation"] == generation]


def both_begin(lines: list[TraceLine]) -> list[TraceLine]:
    """The last one begins with a partition of the first one, too."""
    first, *_, last = beginnings(lines)
    offsets = [x.arguments["offsets"] for x in (lines[first], lines[last])]
    return [
        retold(x, offsets=[*offsets[1], offsets[0][0]]) if k == last else x
        for k, x in enumerate(lines)
    ]


def begins_further(lines: list[TraceLine]) -> list[TraceLine]:
    """Somebody begins a thousand records after what is stored."""
    first, *_ = beginnings(lines)
    further = [[t, n, offset + 1_000] for t, n, offset in lines[first].arguments["offsets"]]
    return [retold(x, offsets=further) if k == first else x for k, x in enumerate(lines)]


def finishes_less(lines: list[TraceLine]) -> list[TraceLine]:
    """Applications finish with the first record of each partition, and no more."""
    return [
        retold(x, offsets=[[t, n, min(offset, 1)] for t, n, offset in x.arguments["offsets"]])
        if x.action == "consume" else x
        for x in lines
    ]  # fmt: skip


def both_lead(lines: list[TraceLine]) -> list[TraceLine]:
    """Whoever follows in a generation says that it leads it."""
    follower = max(k for k, x in enumerate(lines) if x.action == "on_join_follower")
    return [retold(x, "on_join_leader") if k == follower else x for k, x in enumerate(lines)]


PLANTS = {
    "exclusive": both_begin, "who_consumes_owns": both_begin,
    "who_begins_does_so_at_the_stored_offset": begins_further,
    "nobody_is_past_the_unfinished": begins_further,
    "only_finished_is_committed": finishes_less, "one_leader": both_lead,
}  # fmt: skip
"""By sentence, a trace that breaks it."""


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


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_clients_decide_what_they_alone_know(seed: int) -> None:
    """
    What coordinators' lines decide stays as it is; who consumes what, from where, holds, too.

    How far the former life of a static member was that comes back, nobody tells.
    """
    untold = OF_FINISHED if KINDS[seed] == "static" else frozenset[str]()
    lines = with_clients(seed)
    coordinators = verdicts([line for line in lines if line.role != CONSUMER])

    found = verdicts(lines)

    assert {found[name] for name in OF_CLIENTS if name not in untold} == {"holds"}
    assert {found[name] for name in untold} <= {"unknown"}
    assert {coordinators[name] for name in (*OF_CLIENTS, "one_leader")} == {"not observable"}
    assert {found["one_leader"], found["what_is_handed_out_is_stored"]} <= {"holds", "unknown"}
    for name in found.keys() - {*OF_CLIENTS, *OWN}:
        assert found[name] == coordinators[name], name


def test_in_a_calm_run_it_is_known_who_leads() -> None:
    """Nobody was killed between an answer and the line that tells that it has come."""
    found = verdicts(with_clients(KINDS.index("calm")))

    assert {found[name] for name in OWN} == {"holds"}


def test_of_a_member_whose_client_tells_nothing_nobody_knows_what_it_consumes() -> None:
    """It may consume what it is told that it is assigned, and finish anything."""
    lines = with_clients(KINDS.index("calm"))
    silent = next(line.node for line in lines if line.action == "update_fetch_positions")

    found = verdicts([line for line in lines if line.node != silent])

    assert {found[name] for name in OF_CLIENTS} == {"unknown"}
    assert found["one_leader"] == "unknown"


def test_lines_of_clients_alone_decide_nothing() -> None:
    """Nobody who coordinates tells anything: no sentence holds, and none is violated."""
    lines = [line for line in with_clients(0) if line.role == CONSUMER]

    found = verdicts(lines)

    assert set(found.values()) == {"not observable", "unknown"}


@pytest.mark.parametrize("name", PLANTS)
def test_what_a_client_does_wrong_is_found(name: str) -> None:
    """One line says otherwise than it was; the contract's own sentence decides, with a story."""
    lines = PLANTS[name](with_clients(KINDS.index("calm")))
    rows = judged(lines)

    assert {row["property"] for row in rows["violations"]} >= {name}
    assert all(row["story"] and row["told"] and row["place"] for row in rows["violations"])


def test_a_generation_that_is_told_before_it_is_stored_is_found() -> None:
    """A failover forgets it: what members were told is not stored."""
    assert "what_is_handed_out_is_stored" in {
        row["property"] for row in judged(flawed("generation_unstored"))["violations"]
    }


def by_other_clocks(lines: list[TraceLine], late_ms: Callable[[str], int]) -> list[TraceLine]:
    """The same lines, where each client's clock is late by so much."""
    return [
        replace(x, time_ns=x.time_ns + late_ms(x.node) * 1_000_000) if x.role == CONSUMER else x
        for x in lines
    ]


@cache
def with_members_of(mix: str, assignor: type[PartitionAssignor], seed: int) -> list[TraceLine]:
    """The trace of a run of a mix, with its clients' lines."""
    return traced_groups(seed, clients=True, config=MIXES[mix], assignors=lambda: (assignor(),))


@settings(max_examples=40, deadline=None)
@given(
    mix=st.sampled_from(("static", *KINDS)), seed=st.integers(0, 23), chance=st.integers(0, 2**16),
    assignor=st.sampled_from([RangeAssignor, CooperativeStickyAssignor]),
    most_ms=st.sampled_from([30, 300, 3_000, 30_000]), alike=st.booleans(),
)  # fmt: skip
def test_clocks_of_clients_that_are_apart_from_brokers_violate_nothing(
    mix: str, seed: int, chance: int, assignor: type[PartitionAssignor], most_ms: int, alike: bool
) -> None:
    """What then comes too early, or too late, is unknown, be all apart alike or each by itself."""

    def late_ms(node: str) -> int:
        return Random(f"{chance} {'' if alike else node}").randint(-most_ms, most_ms)

    lines = by_other_clocks(with_members_of(mix, assignor, seed), late_ms)

    assert "violated" not in verdicts(lines).values()


@pytest.mark.parametrize(("seed", "late_ms"), [(6, 1_000), (7, 1_000), (10, 3_000), (1, 0)])
def test_a_former_life_that_is_heard_late_counts_no_more(seed: int, late_ms: int) -> None:
    """What a static member began, or led, it may have begun before its next life was stored."""
    lines = with_members_of("static", RangeAssignor, seed)

    assert "violated" not in verdicts(by_other_clocks(lines, lambda _: late_ms)).values()


def test_who_says_too_early_that_it_begins_is_heard_all_the_same() -> None:
    """Two say that they consume one partition in one generation: that needs no clock."""
    lines = both_begin(with_clients(KINDS.index("calm")))

    assert verdicts(by_other_clocks(lines, lambda _: -500))["exclusive"] == "violated"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 11), chance=st.integers(0, 2**16), share=st.sampled_from([0.003, 0.05]))
def test_missing_lines_of_clients_are_never_a_violation(
    seed: int, chance: int, share: float
) -> None:
    """Whichever lines are deleted, of whomever."""
    drawn = Random(chance)
    left = [x for x in with_clients(seed) if drawn.random() > share]

    assert "violated" not in verdicts(left).values()


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 11), whose=st.sets(st.integers(0, 2**16), min_size=1, max_size=3),
    at=st.floats(0, 1), tail=st.booleans(),
)  # fmt: skip
def test_cut_or_missing_files_of_clients_are_never_a_violation(
    seed: int, whose: set[int], at: float, tail: bool
) -> None:
    """Whoever's lines end, or begin, at some time; from the first one on, all of them."""
    lines = with_clients(seed)
    nodes = sorted({line.node for line in lines})
    cut_ns = lines[int(at * (len(lines) - 1))].time_ns
    gone = {nodes[who % len(nodes)] for who in whose}
    left = [x for x in lines if x.node not in gone or (x.time_ns < cut_ns) == tail]

    assert "violated" not in verdicts(left).values()


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


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 11), chance=st.integers(0, 2**16), share=st.sampled_from([0.003, 0.05]))
def test_a_replay_ends_whichever_lines_are_missing(seed: int, chance: int, share: float) -> None:
    """A line may tell what became of one that is missing."""
    drawn, auditor = Random(chance), auditors()[NAME]
    left = auditor.ordered([x for x in trace(seed) if drawn.random() > share]).lines

    assert auditor.replay(left).lines <= len(left)


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
    assert len(judging.judgements()) == len(SENTENCES) - len(UNDECIDED)
