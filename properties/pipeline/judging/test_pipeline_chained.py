"""
Lines of a coordinator that are gone, where each line says which one it comes after.

What is lost of one group leaves the others as they were; and whatever is lost, a verdict becomes
unknown at most: no line about a group, or about all, is ever taken for another group's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from herdproof.conformance.traces import chained
from herdproof.conformance.traces.chained import Chain, process_of
from herdproof.conformance.traces.groups import gaps
from herdproof.conformance.traces.ordering import ordered
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.judging.gaps import Concerning
from herdproof.protocols.central_coordinator.traces.lines import Messages
from herdproof.protocols.central_coordinator.tracing import COORDINATOR
from properties.pipeline.pipeline_traces import deleted, numbers_of, run_of

Lines = list[Any]
Verdicts = dict[tuple[str, str], str]

RUNS = (3, 14, 16, 20, 22, 27, 49, 55)
"""Seeds of runs with two groups."""
KINDS = ("line", "pair", "burst", "head", "restart", "lines", "one in a hundred", "tail", "file")


def groups_of(lines: Sequence[Any]) -> list[str]:
    """The groups that lines are about."""
    return sorted({line.group for line in lines} - {""})


def verdicts(lines: Sequence[Any], *, replay: bool = False) -> Verdicts:
    """By group and sentence, what comes of it."""
    missing = numbers_of(sorted(lines, key=lambda line: line.time_ns)).gaps()
    found: Verdicts = {}
    for group in groups_of(lines):
        own = [line for line in lines if line.group in ("", group)]
        rows = judge(
            lines[0].protocol, lines[0].run, group, own, replay=replay, missing=missing
        )["verdicts"]  # fmt: skip
        found |= {(group, row["property"]): row["verdict"] for row in rows}
    return found


@cache
def whole_verdicts(seed: int, replay: bool = False) -> Verdicts:
    """The verdicts on a whole run."""
    return verdicts(run_of(seed), replay=replay)


def without(lines: Lines, kind: str, chance: Random) -> Lines:
    """A run of which some lines of one coordinator are gone, or of whomever."""
    node = chance.choice(sorted({x.node for x in lines if x.role == COORDINATOR}))
    own = [x for x in lines if (x.role, x.node) == (COORDINATOR, node)]
    at = chance.randrange(len(own))
    starts = [k for k, x in enumerate(own) if x.sequence == 1]
    begins = chance.choice(starts)
    match kind:
        case "pair":
            gone = own[at : at + 2]
        case "burst":
            gone = own[at : at + chance.randint(3, 60)]
        case "head":
            gone = own[:at]
        case "restart":
            gone = own[max(0, begins - chance.randrange(30)) : begins + chance.randint(1, 30)]
        case _:
            return deleted(lines, kind, chance)
    names = {id(x) for x in gone}
    return [x for x in lines if id(x) not in names]


def test_a_lost_line_of_a_coordinator_leaves_other_groups_as_they_were() -> None:
    """Whichever line about a group it is, and whoever else the process serves."""
    kept = 0
    for seed in RUNS[:4]:
        lines = run_of(seed)
        about_one = [x for x in lines if x.role == COORDINATOR and x.group]
        for gone in Random(seed).sample(about_one, 5):
            left = verdicts([x for x in lines if x is not gone])
            others = {key: was for key, was in whole_verdicts(seed).items() if key[0] != gone.group}
            assert {key: left[key] for key in others} == others, (seed, gone.place)
            kept += [*others.values()].count("holds")
    assert kept > 100


def test_lines_that_do_not_say_it_leave_other_groups_open() -> None:
    """As all traces of before: the line may have been of any of them."""
    opened = 0
    for seed in RUNS[:4]:
        lines = [replace(x, after=None) for x in run_of(seed)]
        assert verdicts(lines) == whole_verdicts(seed)
        about_one = [x for x in lines if x.role == COORDINATOR and x.group]
        for gone in Random(seed).sample(about_one, 5):
            left = verdicts([x for x in lines if x is not gone])
            opened += sum(
                was == "holds" and left[key] == "unknown"
                for key, was in whole_verdicts(seed).items() if key[0] != gone.group
            )  # fmt: skip
    assert opened


def never_another(seed: int, kind: str, chance: Random, *, replay: bool = False) -> int:
    """Delete lines; the number of verdicts that stay as they were: all others are unknown."""
    left = without(run_of(seed), kind, chance)
    found = verdicts(left, replay=replay) if left else {}
    whole = whole_verdicts(seed, replay)
    other = {
        key: (whole.get(key), now) for key, now in found.items()
        if now not in (whole.get(key), "unknown", "not observable")
    }  # fmt: skip
    assert not other, (seed, kind, other)
    return sum(now == whole.get(key) for key, now in found.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_verdict_becomes_unknown_but_never_another_one(kind: str) -> None:
    """Single lines, pairs, bursts, beginnings, and ends of one process with what comes next."""
    chance = Random(kind)
    assert sum(never_another(seed, kind, chance) for seed in RUNS[:3]) > 20


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_it_in_hundreds_of_draws(kind: str) -> None:
    """Of each kind ten of each run; every other time with the replay."""
    chance = Random(f"many {kind}")
    for seed in RUNS:
        for draw in range(10):
            never_another(seed, kind, chance, replay=draw % 2 == 0)


# ── What is taken for another group's ───────────────────────────────────────────────────────


def chained_lines(chance: Random) -> Lines:
    """Lines of a coordinator's processes, one after the other, about a few groups and about all."""
    found: Lines = []
    time_ns = 1_000
    for _ in range(chance.randint(1, 3)):
        time_ns += chance.randint(1, 10**9)
        chain = Chain(time_ns)
        groups = [f"g{n}" for n in range(chance.randint(1, 5))]
        for number in range(1, chance.randint(2, 40)):
            is_of_all = number == 1 or chance.random() < 0.1
            group = "" if is_of_all else chance.choice(groups)
            after = chain.after(group, number)
            found.append(
                SimpleNamespace(
                    role=COORDINATOR, node="b", group=group, sequence=number, time_ns=time_ns,
                    after=after,
                )
            )  # fmt: skip
            time_ns += chance.choice([0, 1, 10**6])
    return found


def noted(lines: Lines, chance: Random) -> Numbers:
    """Numbers of lines, as several readers note them in any order."""
    readers = [Numbers() for _ in range(chance.randint(1, 3))]
    for x in lines:
        chance.choice(readers).note(x.role, x.node, x.sequence, x.time_ns, process_of(x))
    numbers = Numbers()
    for reader in readers:
        numbers.add(reader.packed)
    return numbers


def lost_and_left(lines: Lines, chance: Random) -> tuple[Lines, Lines]:
    """Lines of which some were lost, here and there or many in a row; and those that are left."""
    gone = {k for k in range(len(lines)) if chance.random() < chance.choice([0.02, 0.1, 0.4])}
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(lines))
        gone |= {*range(at, at + chance.randint(1, 25))}
    return (
        [x for k, x in enumerate(lines) if k in gone],
        [x for k, x in enumerate(lines) if k not in gone],
    )


@pytest.mark.parametrize("most", [100_000, 2])
@pytest.mark.parametrize("seed", range(10))
def test_no_line_about_a_group_is_taken_for_anothers(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are lost, and of however few groups a process remembers the last line."""
    monkeypatch.setattr(chained, "GROUPS", most)
    chance = Random(f"{seed} {most}")
    others = 0
    for _ in range(40):
        lines = chained_lines(chance)
        lost, left = lost_and_left(lines, chance)
        gaps = noted(left, chance).gaps()
        last: dict[int, int] = defaultdict(int)
        for x in left:
            last[process_of(x)] = max(last[process_of(x)], x.sequence)
        for group in groups_of(lines):
            concerning = Concerning(
                chance.sample(own := [x for x in left if x.group in ("", group)], len(own))
            )
            found = [each for each in map(concerning.of, gaps) if each is not None]
            for x in lost:
                is_open = any(
                    gap.process == process_of(x) and gap.first <= x.sequence <= gap.last
                    for gap in found
                )
                if x.group in ("", group) and x.sequence < last[process_of(x)]:
                    assert is_open, (x, gaps)
                others += not is_open
    assert others > 100


def test_the_end_of_a_process_and_the_beginning_of_the_next_are_two_gaps_in_no_number() -> None:
    """A coordinator's line 15 that follows line 14 of another process shows what is lost."""
    line = partial(SimpleNamespace, role=COORDINATOR, node="b", group="g")
    before = [line(sequence=n, time_ns=n, after=(max(0, n - 1), 7)) for n in range(1, 15)]
    after = [line(sequence=n, time_ns=n + 10**9, after=(n - 1, 8)) for n in range(15, 30)]

    gaps = noted([*before, *after], Random(1)).gaps()

    assert [(gap.first, gap.last, gap.process) for gap in gaps] == [(1, 14, 8)]
    assert (gaps[0].since_ns, gaps[0].until_ns) == (14, 10**9 + 15)
    assert Concerning([*before, *after]).of(gaps[0]) == gaps[0]


def test_a_line_that_contradicts_those_before_it_tells_nothing() -> None:
    """It says that it comes after an earlier line than the one that is there."""
    line = partial(SimpleNamespace, role=COORDINATOR, node="b", group="g", time_ns=1)
    others = [line(sequence=1, after=(0, 7)), line(sequence=2, after=(1, 7))]
    (gap,) = noted([*others, line(sequence=4, after=(2, 7))], Random(1)).gaps()

    assert Concerning([*others, line(sequence=4, after=(2, 7))]).of(gap) is None
    assert Concerning([*others, line(sequence=4, after=(1, 7))]).of(gap) == gap


def test_traces_are_a_few_per_cent_longer() -> None:
    """Of whole runs, consumers' lines included, which say nothing of it."""
    lines = [x for seed in RUNS[:3] for x in run_of(seed)]

    with_it = sum(len(x.written()) + 1 for x in lines)
    without_it = sum(len(replace(x, after=None).written()) + 1 for x in lines)

    assert 1.01 < with_it / without_it < 1.05


# ── The replay ──────────────────────────────────────────────────────────────────────────────


def test_the_last_word_of_a_process_whose_node_begins_anew_may_be_missing() -> None:
    """No number tells that: the answer to it, of which no line tells, is no difference."""
    lines = run_of(4)
    last = next(x for x in lines if (x.node, x.sequence, x.action) == ("c1", 20, "handle_ping"))
    left = [x for x in lines if x is not last and x.group in ("", "g1")]
    assert any(x.node == "c1" and x.sequence == 1 and x.time_ns > last.time_ns for x in left)

    rows = judge(left[0].protocol, left[0].run, "g1", left, missing=())

    (row,) = [row for row in rows["verdicts"] if row["property"] == "conforms"]
    assert row["verdict"] == "unknown"
    assert row["why"].endswith("of c1, what came after its last line")


def test_conform_names_the_groups_that_a_missing_line_may_be_about() -> None:
    """Of others it is not missing; where lines do not say which they come after, of all it is."""
    lines = ordered(run_of(3), Messages(run_of(3))).lines
    gone = next(x for x in lines if x.action == "finish_rebalance")
    left = [x for x in lines if x is not gone]

    assert [missing.groups for missing in gaps(left)] == [frozenset({gone.group})]
    assert [missing.groups for missing in gaps([replace(x, after=None) for x in left])] == [None]
