"""Traces of self-rebalancing consumers, judged by the contract: whole, cut, and of flawed cores."""

import pickle
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.campaign.runs import Asked
from herdproof.pipeline.judging.gaps import gaps_of, last_lines
from herdproof.pipeline.judging.judging import go_through
from herdproof.protocols.implementation import auditors, simulators
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, connector_with
from herdproof.protocols.self_rebalancing.judged.judge import ConnectorJudge
from herdproof.protocols.self_rebalancing.simulated.random_runs import WorldConfig
from herdproof.protocols.self_rebalancing.simulated.traced import traced
from herdspec.protocols.self_rebalancing.contract import (
    NOT_MODELLED,
    SHOWN_BY_THE_PROTOCOL,
    WITHOUT_MEANING,
)
from properties.protocols.self_rebalancing.simulated.test_simulated_rebalancing import (
    PAUSES,
    STORMY,
)

NAME = "self_rebalancing"
SEEN: dict[str, tuple[str, WorldConfig, int]] = {
    "split_brain": ("exclusive", PAUSES, 0),
    "stale_start": ("who_begins_does_so_at_the_stored_offset", PAUSES, 1),
    "zombie_release": ("exclusive", PAUSES, 2),
    "pulled_before_owned": ("who_consumes_owns", STORMY, 1),
    "registry_before_owners": ("exclusive", STORMY, 9),
}
"""By mistake: a promise that its trace shows to be broken, and a run."""
LEFT_TO_THE_REPLAY = {"zombie_commit", "no_commit_at_closing", "released_before_stopped",
                      "new_session_goes_on"}  # fmt: skip
"""Mistakes of which lines of the contract's fields do not tell in the runs of the tests."""
LEFT_UNDONE = {"lost_wake_up", "retries_exhausted", "self_conflict", "suspended_for_good"}
"""Mistakes by which something is left undone for ever."""


@cache
def trace(seed: int) -> list[TraceLine]:
    """The trace of a run in which much goes wrong."""
    return traced(seed, (STORMY, PAUSES)[seed % 2])


def verdicts(lines: list[TraceLine]) -> dict[str, str]:
    """What comes of each sentence."""
    auditor = auditors()[NAME]
    found = auditor.ordered(lines)
    judging = auditor.judging("run", "g")
    gaps = gaps_of(found, alone=True, missing=())
    go_through(judging, auditor.filled(found.lines, gaps, last_lines(found.lines)))
    return {row["property"]: row["verdict"] for row in judging.close()["verdicts"]}


def test_a_whole_trace_keeps_the_contract() -> None:
    """Nothing is violated, and most of it holds: nothing is unknown but for who was killed."""
    counts = Counter(verdict for seed in range(10) for verdict in verdicts(trace(seed)).values())

    assert counts["violated"] == 0
    assert counts["holds"] > 2 * counts["unknown"] > 0


def test_what_has_no_meaning_here_is_not_observable() -> None:
    """Neither what speaks of a coordinator, nor what no line tells, ever holds."""
    found = verdicts(trace(0))
    untold = (WITHOUT_MEANING | SHOWN_BY_THE_PROTOCOL | NOT_MODELLED).intersection(found)

    assert len(untold) > 12
    assert {found[name] for name in sorted(untold)} == {"not observable"}
    assert found["only_finished_is_committed"] == "not observable"


@pytest.mark.parametrize("flaw", SEEN)
def test_a_mistake_is_seen_in_its_trace(flaw: str) -> None:
    """The contract's own property decides; the corrected core's run breaks nothing."""
    promise, config, seed = SEEN[flaw]
    flawed = traced(seed, config, connector=connector_with(frozenset({flaw})))

    assert verdicts(flawed)[promise] == "violated"
    assert "violated" not in verdicts(traced(seed, config)).values()


def test_every_mistake_is_told_of() -> None:
    """Each is seen here, by the replay, or by no trace."""
    assert sorted([*SEEN, *LEFT_TO_THE_REPLAY, *LEFT_UNDONE]) == sorted(FLAWS)


def told_by_one(read: int, begins: int) -> list[TraceLine]:
    """A consumer's lines, that had a partition, gave it back at 5, and has it again."""
    deeds: list[tuple[str, list[int], dict[str, Any]]] = [
        ("register", [], {}),
        ("claim", [-1], {"number": 1}),
        ("answered", [-1], {"outcome": "done", "token": 1}),
        ("read_offsets", [-1], {}),
        ("start_fetchers", [-1], {}),
        ("commit", [4], {"token": 1}),
        ("answered", [4], {"outcome": "done", "token": 1}),
        ("close_fetchers", [], {}),
        ("release", [-1], {"token": 1}),
        ("answered", [-1], {"outcome": "done", "token": 1}),
        ("claim", [-1], {"number": 2}),
        ("answered", [-1], {"outcome": "done", "token": 2}),
        ("read_offsets", [read], {}),
        ("start_fetchers", [begins], {}),
    ]
    return [
        TraceLine(
            schema=2, protocol=NAME, run="run", node="a", sequence=number, time_ns=number,
            action=action, arguments={"partitions": [["t", "0", n] for n in offsets], **more},
            group="g",
        )
        for number, (action, offsets, more) in enumerate(deeds, start=1)
    ]  # fmt: skip


@pytest.mark.parametrize(("read", "begins", "wanted"), [
    (4, 4, "holds"), (9, 9, "holds"), (4, 9, "violated"), (9, 4, "violated"), (2, 2, "violated"),
])  # fmt: skip
def test_who_writes_no_trace_may_have_stored_more(read: int, begins: int, wanted: str) -> None:
    """
    One of Kafka 0.8's had the partition in between: whoever comes next begins where that was.

    The violations are the consumer's own, or, where less is read, whoever's that has stored it.
    """
    found = verdicts(told_by_one(read, begins))

    assert found["who_begins_does_so_at_the_stored_offset"] == wanted


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 7), chance=st.integers(0, 2**16), share=st.sampled_from([0.003, 0.02]))
def test_missing_lines_are_never_a_violation(seed: int, chance: int, share: float) -> None:
    """Whichever lines are deleted: what they would have told is unknown."""
    drawn = Random(chance)

    assert "violated" not in verdicts([x for x in trace(seed) if drawn.random() > share]).values()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 7), who=st.integers(0, 2**16), at=st.floats(0, 1))
def test_a_cut_tail_or_a_missing_file_is_never_a_violation(seed: int, who: int, at: float) -> None:
    """Whoever's lines end, at the beginning or later."""
    lines = trace(seed)
    nodes = sorted({line.node for line in lines})
    end_ns = lines[int(at * (len(lines) - 1))].time_ns
    node = nodes[who % len(nodes)]
    left = [line for line in lines if line.node != node or line.time_ns < end_ns]

    assert "violated" not in verdicts(left).values()


def test_a_judge_can_be_laid_aside() -> None:
    """Pickled between two lines, it goes on as it would have."""
    lines = trace(0)
    judge = ConnectorJudge()
    for line in lines[:200]:
        judge.take(line)
    again = pickle.loads(pickle.dumps(judge))
    for line in lines[200:]:
        assert judge.take(line) == again.take(line)

    assert judge.judgements() == again.judgements()


# ── Campaigns ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mix", "flaw", "broken"), [
    ("mixed", "", None), ("calm", "", None), ("sessions", "split_brain", "who_consumes_owns"),
])  # fmt: skip
def test_a_campaign_runs_the_simulated_world(mix: str, flaw: str, broken: str | None) -> None:
    """A seed is a run, with its trace, and what broke in it first."""
    simulated = simulators()[NAME]
    asked = Asked(NAME, 0, 0, mix, flaw)
    ran, again = simulated.run(asked), simulated.run(asked)

    assert (ran.digest, ran.texts) == (again.digest, again.texts)
    assert (ran.broken.property if ran.broken else None) == broken
    assert simulated.story(asked, shrink=False)[0] == "Seed 0."


def test_a_campaigns_traces_are_replayed() -> None:
    """Its trace conforms; that of a flawed core differs."""
    simulated, auditor = simulators()[NAME], auditors()[NAME]
    found = []
    for flaw in ("", "split_brain"):
        ran = simulated.run(Asked(NAME, 0, 0, "sessions", flaw))
        lines = auditor.order([auditor.read(text, "x") for text in ran.texts])
        replayed, edges, steps = simulated.replay(lines, ran)
        found.append(replayed.verdict)
        assert steps > len(edges) > 20

    assert found == ["conforms", "differs"]
