"""
Lines that are gone, of whichever process: what was decided stays so, by and large.

Of one line in a hundred, at least half; of a single one, all that its next one repeats; of other
groups' lines, everything. Whatever is gone of runs of each protocol's own simulated world, of which
nothing is violated, nothing is violated then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.conformance.traces.repeated import Repeats
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.implementation import auditors, simulators
from properties.pipeline.pipeline_traces import deleted, numbers_of
from properties.pipeline.pipeline_traces import run_of as default_run_of
from properties.protocols.group_protocol.judged.test_group_judging import SEEN, flawed
from properties.unrepeated import unrepeated

A, B, C = "self_rebalancing", "central_coordinator", "group_protocol"
KINDS = ("line", "lines", "one in a hundred", "tail", "file", "piece")
Lines = list[Any]
Verdicts = dict[tuple[str, str], str]


def simulated(name: str, seed: int) -> Lines:
    """The trace of a run, in the mixes of its protocol's campaign by turns."""
    simulator = simulators()[name]
    mixes = sorted(simulator.mixes)
    ran = simulator.run(Asked(name, 1, seed, mixes[seed % len(mixes)]))
    return [auditors()[name].read(text, f"{k}") for k, text in enumerate(ran.texts, start=1)]


def with_clients(seed: int) -> Lines:
    """The trace of a run of system C, with its clients' lines."""
    mixes = sorted(MIXES)
    lines = traced_groups(seed, clients=True, config=MIXES[mixes[seed % len(mixes)]])
    return as_read(lines)


def as_read(lines: Sequence[Any]) -> Lines:
    """Lines of system C, as its auditor reads them."""
    return [auditors()[C].read(line.written(), line.place) for line in lines]


RUNS: dict[str, Callable[[int], Lines]] = {
    **{name: lambda seed, of=name: simulated(of, seed) for name in (A, C)},  # type: ignore[misc]
    B: default_run_of,  # in its campaign's longer and harder mixes 49 % stay, of 64 runs
    f"{C}, with clients": with_clients,
}


@cache
def run_of(whose: str, seed: int) -> Lines:
    """A run's lines."""
    return RUNS[whose](seed)


def as_told(whose: str, seed: int, kind: str, *, repeats: bool) -> Lines:
    """
    A run's lines, as they are; or as they were before any was repeated.

    Not where a piece is to go: the rest of two processes may be numbered as one process is, and
    without repetitions no line shows that (system C, seed 15).
    """
    lines = run_of(whose, seed)
    return lines if repeats or whose == B or kind == "piece" else unrepeated(lines)


def verdicts(lines: Lines, *, replay: bool = False) -> Verdicts:
    """By group and sentence, what comes of it."""
    found: Verdicts = {}
    groups = sorted({line.group for line in lines} - {""})
    gaps = numbers_of(sorted(lines, key=lambda line: line.time_ns)).gaps()
    for group in groups:
        rows = judge(
            lines[0].protocol, lines[0].run, group,
            [line for line in lines if line.group in ("", group)],
            replay=replay, alone=len(groups) == 1, missing=gaps,
        )  # fmt: skip
        found |= {(group, row["property"]): row["verdict"] for row in rows["verdicts"]}
    return found


def still(whose: str, seeds: range, *, replay: bool = False) -> Counter[str]:
    """Of the verdicts that were decided, what they are where one line in a hundred is gone."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        lines = run_of(whose, seed)
        whole = verdicts(lines, replay=replay)
        assert "violated" not in whole.values(), seed
        left = deleted(lines, "one in a hundred", Random(f"{whose} {seed}"))
        found = verdicts(left, replay=replay)
        counts.update(found.get(name, "") for name, was in whole.items() if was == "holds")
    return counts


@pytest.mark.parametrize("whose", RUNS)
def test_half_of_the_verdicts_stay_decided_with_one_line_in_a_hundred_gone(whose: str) -> None:
    """Group by group, sentence by sentence, and none is violated."""
    counts = still(whose, range(7))

    assert counts["violated"] == 0
    assert counts["holds"] >= counts.total() / 2, counts


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("whose", RUNS)
def test_so_they_do_in_many_runs(whose: str) -> None:
    """Twenty times as many; where lines are repeated, the replay is a verdict like any other."""
    counts = still(whose, range(140), replay=whose != B)

    assert counts["violated"] == 0
    assert counts["holds"] >= counts.total() / 2, counts


# ── Nothing is violated ─────────────────────────────────────────────────────────────────────


@settings(max_examples=60, deadline=None)
@given(
    whose=st.sampled_from([*RUNS]), seed=st.integers(0, 6), kind=st.sampled_from(KINDS),
    chance=st.integers(0, 2**16), repeats=st.booleans(),
)  # fmt: skip
def test_whatever_is_gone_nothing_is_violated(
    whose: str, seed: int, kind: str, chance: int, repeats: bool
) -> None:
    """Lines, tails, whole files, pieces of one process; be lines repeated by others, or not."""
    left = deleted(as_told(whose, seed, kind, repeats=repeats), kind, Random(chance))

    assert "violated" not in verdicts(left).values()


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", RUNS)
def test_nor_in_thousands_of_draws(whose: str, kind: str) -> None:
    """Of each kind and protocol six of each of thirty runs; the replay says nothing else."""
    chance = Random(f"{whose} {kind}")
    for seed in range(30):
        for repeats in (True, False) * 3:
            left = deleted(as_told(whose, seed, kind, repeats=repeats), kind, chance)
            assert "violated" not in verdicts(left, replay=whose != B).values(), (seed, repeats)


# ── Lines that are repeated ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("whose", [A, C, f"{C}, with clients"])
def test_of_a_single_line_that_is_gone_the_next_one_tells_all(whose: str) -> None:
    """No verdict is another one than before, the replay's included."""
    lines = run_of(whose, 1)
    whole = verdicts(lines, replay=True)
    ends = {(line.role, line.node): line for line in lines}
    chance = Random(whose)
    for gone in chance.sample([x for x in lines if x is not ends[x.role, x.node]], 6):
        assert verdicts([x for x in lines if x is not gone], replay=True) == whole, gone.place


def woven(lines: Lines) -> Lines:
    """A run of system C in which its brokers tell of another group, too: each as of their own."""
    found: Lines = []
    repeats: dict[tuple[str, str], Repeats] = {}
    numbers: dict[tuple[str, str], int] = defaultdict(int)

    def tell(line: Any) -> None:
        node = (line.role, line.node)
        numbers[node] += 1
        plain = replace(line, sequence=numbers[node], previous=0, before=None)
        found.append(repeats[node].added(plain))

    for line in lines:
        if line.sequence == 1:
            repeats[line.role, line.node], numbers[line.role, line.node] = Repeats(), 0
        tell(line)
        if line.group and not line.role:
            tell(replace(line, group="other"))
    return found


def of_others_gone(lines: Lines, share: float, chance: Random) -> Lines:
    """Some lines of the other group are gone; each process's last one of the group is its last."""
    last = {(x.role, x.node): k for k, x in enumerate(lines) if x.group == "g"}
    return [
        x for k, x in enumerate(lines)
        if x.group != "other" or (k < last[x.role, x.node] and chance.random() > share)
    ]  # fmt: skip


def of_group(found: Verdicts, group: str) -> dict[str, str]:
    """The verdicts on one group."""
    return {name: verdict for (of, name), verdict in found.items() if of == group}


@pytest.mark.parametrize("seed", range(3))
def test_lines_of_other_groups_that_are_gone_leave_all_decided(seed: int) -> None:
    """Numbers run through all groups: what a line repeats tells that they are not this one's."""
    lines = woven(run_of(C, seed))
    whole = of_group(verdicts(lines, replay=True), "g")
    assert [*whole.values()].count("holds") > 9

    left = of_others_gone(lines, 0.3, Random(seed))

    assert len(left) < 0.9 * len(lines)
    assert of_group(verdicts(left, replay=True), "g") == whole


@pytest.mark.parametrize("name", SEEN)
def test_what_is_planted_stays_violated_where_lines_of_other_groups_are_gone(name: str) -> None:
    """Of which there are as many as of the group itself."""
    lines = woven(as_read(flawed(name)))
    left = of_others_gone(lines, 0.3, Random(name))

    assert verdicts(left)["g", SEEN[name]] == "violated"
