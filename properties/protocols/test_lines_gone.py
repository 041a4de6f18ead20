"""
Lines that are gone, of whichever process: what was decided stays so, by and large.

Of one line in a hundred, at least half; of a single one, all that its next one repeats; of other
groups' lines, everything. Whatever is gone of runs of each protocol's own simulated world, of which
nothing is violated, nothing is violated then.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.conformance.traces.line import START
from herdproof.conformance.traces.repeated import Repeats, disputes, with_repeated
from herdproof.pipeline.audit.following import Came, FollowedGroup
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.implementation import auditors, simulators
from properties.cli.files import run
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
    B: default_run_of,
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


@pytest.mark.parametrize("run_of_seed", [default_run_of, partial(simulated, B)])
def test_a_lost_heartbeat_of_a_coordinator_is_told_by_its_consumer(
    run_of_seed: Callable[[int], Lines],
) -> None:
    """Where the group is known to be alone, too; of system B it was most of what was lost."""
    counts: Counter[str] = Counter()
    for seed in range(5):
        lines = run_of_seed(seed)
        if len({line.group for line in lines}) > 2:
            continue
        whole = verdicts(lines)
        beats = [x for x in lines if x.action in ("send_ping", "handle_ping_response")]
        for gone in Random(seed).sample(beats, 3):
            found = verdicts([x for x in lines if x is not gone])
            counts.update(found[name] for name, was in whole.items() if was == "holds")

    assert counts["violated"] == 0
    assert counts["holds"] >= 0.9 * counts.total(), counts


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


# ── Lines that contradict each other ────────────────────────────────────────────────────────


ALTERED: dict[str, Callable[[Any], Any]] = {
    "another action": lambda line: replace(line, action=f"{line.action}_"),
    "another argument": lambda line: replace(line, arguments={**line.arguments, "more": 1}),
    "another sight": lambda line: replace(line, seen={**line.seen, "more": 1}),
    "another message": lambda line: replace(line, sent=(*line.sent, "more")),
    "later": lambda line: replace(line, time_ns=line.time_ns + 1),
    "much earlier": lambda line: replace(line, time_ns=line.time_ns - 1_000_000_000),
}
REPEATING = [whose for whose in RUNS if whose != B]


def told_again(lines: Lines) -> Lines:
    """The steps of a group that the next ones of their processes tell again."""
    again = {
        (line.role, line.node, line.previous, line.time_ns - line.before.ago_ns)
        for line in lines if line.before is not None
    }  # fmt: skip
    return [
        x for x in lines
        if x.group and x.action != START and (x.role, x.node, x.sequence, x.time_ns) in again
    ]  # fmt: skip


def altered(lines: Lines, chance: Random, how: str) -> tuple[Lines, Any]:
    """A trace with one line that was altered since, and that line."""
    which = chance.choice(told_again(lines))
    new = ALTERED[how](which)
    return [new if line is which else line for line in lines], new


def rows_of(lines: Lines, group: str, *, replay: bool) -> list[Any]:
    """The verdicts on a group, with why they are that."""
    own = [line for line in lines if line.group in ("", group)]
    return judge(lines[0].protocol, lines[0].run, group, own, replay=replay)["verdicts"]


@pytest.mark.parametrize("how", ALTERED)
@pytest.mark.parametrize("whose", REPEATING)
def test_of_a_line_that_was_altered_nothing_holds(whose: str, how: str) -> None:
    """The next one of its process repeats another one; where both stand, the verdicts say."""
    lines, line = altered(run_of(whose, 1), Random(f"{whose} {how}"), how)

    rows = rows_of(lines, line.group, replay=True)

    assert "holds" not in {row["verdict"] for row in rows}
    if how[-2:] != "er":  # a line of another time may be one that another process has told
        whys = [row["why"] for row in rows if "contradict each other" in (row["why"] or "")]
        assert any(row["property"] == "conforms" and row["why"] in whys for row in rows)
        assert all(why.startswith(f"{line.place} and ") for why in whys)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ALTERED)
@pytest.mark.parametrize("whose", REPEATING)
def test_nor_of_hundreds_of_them(whose: str, how: str) -> None:
    """A few of each of fourteen runs."""
    chance = Random(f"{whose} {how}")
    for seed in range(14):
        for _ in range(4):
            lines, line = altered(run_of(whose, seed), chance, how)
            rows = rows_of(lines, line.group, replay=False)
            assert "holds" not in {row["verdict"] for row in rows}, (seed, line.place)


def test_what_was_violated_before_stays_so() -> None:
    """Of the lines before those that contradict each other, all is known that was."""
    tried = 0
    for name, sentence in SEEN.items():
        lines = as_read(flawed(name))
        own = [line for line in lines if line.group in ("", "g")]
        [broken, *_] = judge(C, lines[0].run, "g", own, replay=False)["violations"]
        later = [x for x in told_again(own) if x.time_ns > broken["time_ns"] + 1_000_000_000]
        if not later:
            continue
        left = [ALTERED["another sight"](x) if x is later[-1] else x for x in own]
        rows = judge(C, lines[0].run, "g", left, replay=False)
        assert sentence in {row["property"] for row in rows["violations"]}, name
        tried += 1
    assert tried


@pytest.mark.parametrize("whose", REPEATING)
def test_lines_that_are_gone_are_no_contradiction(whose: str) -> None:
    """Nor are those of several processes that have a number in common."""
    chance = Random(whose)
    for seed in range(7):
        for kind in KINDS:
            left = deleted(as_told(whose, seed, kind, repeats=True), kind, chance)
            for group in {line.group for line in left} - {""}:
                own = [line for line in left if line.group in ("", group)]
                there = auditors()[left[0].protocol].ordered(with_repeated(own)).lines
                assert not [*disputes(there)], (seed, kind)


@pytest.mark.parametrize("whose", REPEATING)
def test_as_lines_are_followed_an_altered_one_is_seen_too(whose: str) -> None:
    """In parts of a few lines each, between which what is known is kept."""
    lines, line = altered(run_of(whose, 1), Random(whose), "another argument")
    own = sorted((x for x in lines if x.group in ("", line.group)), key=lambda x: x.time_ns)
    following = FollowedGroup(own[0].protocol, own[0].run, line.group)
    for at in range(0, len(own), 7):
        following.take([Came(x, b"") for x in own[at : at + 7]])
        following.tell(own[min(at + 7, len(own) - 1)].time_ns)

    rows, _, _ = following.ended()

    found = {row["verdict"]: row["why"] for row in rows["verdicts"]}
    assert "holds" not in found
    assert "contradict each other" in found["unknown"]


@pytest.mark.parametrize("whose", [A, C])
def test_conform_and_audit_say_which_lines_contradict_each_other(
    whose: str, tmp_path: Path
) -> None:
    """By file and line; both are unknown, which is exit code 3 and no pass."""
    lines, line = altered(run_of(whose, 1), Random(whose), "another message")
    trace, number = tmp_path / "whole.ndjson", 1 + lines.index(line)
    trace.write_text("".join(f"{x.written()}\n" for x in lines))

    conformed = run("conform", str(trace), "--json", "-")
    audited = run("audit", str(trace), "--out", str(tmp_path / "out"), "--json", "-")

    said = json.loads(conformed.stdout)
    assert conformed.exit_code == said["exit"] == 3
    assert f"line {number} and {trace}, line " in said["groups"][line.group]["reason"]
    told = json.loads(audited.stdout)
    assert audited.exit_code == told["exit"] == 3
    assert not told["verdicts"].get("holds")
    assert f"{trace}:{number} and {trace}:" in audited.stdout


# ── Lines of other groups ───────────────────────────────────────────────────────────────────


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
