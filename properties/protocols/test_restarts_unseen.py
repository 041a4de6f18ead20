"""
Restarts of which lines are gone: where a node's process ended and its next one began, none tells.

Whole processes, their ends, their beginnings, or both, so that the numbers of one may go on as
those of the other. Of runs that conform nothing differs then, and nothing is violated.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from herdproof.conformance.traces.mapping import TraceMap
from herdproof.conformance.traces.replay import conform_lines
from herdproof.protocols.group_protocol.traces import trace_map as of_c
from herdproof.protocols.self_rebalancing.traces import trace_map as of_a
from herdspec.check.conformance.conform import Verdict
from properties.protocols.test_lines_gone import A, C, Lines, run_of, verdicts
from properties.unrepeated import unrepeated

CLIENTS = f"{C}, with clients"
KINDS = ("life", "tail", "head", "heads", "end", "end and start", "seam", "ends")
MAPS: dict[str, TraceMap] = {A: of_a.map_of(), C: of_c.map_of(), CLIENTS: of_c.map_of()}
MOST = 30
"""About a restart, at most so many lines of either process are gone."""

KNOWN = (
    (A, 4, "g_c2.4", 1, 10),  # a claim is refused that no line asks for
    (C, 33, "1", 61, 86),  # what a coordinator has found is missing, and its node begins anew
)
"""By run, lines of the first process of a node that are gone: they misled the judges."""


def lives(lines: Lines) -> list[Lines]:
    """The lines of each process."""
    present: dict[tuple[str, str], Lines] = {}
    found: list[Lines] = []
    for line in lines:
        node = (line.role, line.node)
        if line.sequence == 1 or node not in present:
            present[node] = []
            found.append(present[node])
        present[node].append(line)
    return found


def restarts(lines: Lines) -> Iterator[tuple[Lines, Lines]]:
    """Two processes of a node, one after the other."""
    before: dict[tuple[str, str], Lines] = {}
    for life in lives(lines):
        node = (life[0].role, life[0].node)
        if node in before:
            yield before[node], life
        before[node] = life


def without(lines: Lines, kind: str, chance: Random) -> Lines:
    """A run of which a restart is not seen."""
    every, pairs = lives(lines), [*restarts(lines)]
    life = chance.choice(every)
    before, after = chance.choice(pairs) if pairs else (life, life[:0])
    cut = chance.randint(1, len(life))
    ending = chance.randint(1, max(1, min(len(before) - 1, MOST)))
    gone: list[Any]
    match kind:
        case "life":
            gone = life
        case "tail":
            gone = life[cut:]
        case "head":
            gone = life[:cut]
        case "heads":
            gone = [x for own in every for x in own[: chance.choice((0, chance.randint(1, 20)))]]
        case "end":
            gone = before[-ending:]
        case "end and start":
            gone = before[-ending:] + after[: chance.randint(0, MOST)]
        case "seam":
            last = chance.randint(1, max(1, min(len(before), len(after) - 1)))
            gone = before[last:] + after[:last]
        case _:
            gone = [x for own, _ in pairs for x in own[chance.randint(1, len(own)) :]]
    names = {id(x) for x in gone}
    return [x for x in lines if id(x) not in names]


def drawn(whose: str, seed: int, kind: str, chance: Random) -> Lines:
    """
    A run of which a restart is not seen.

    Of system A, be lines repeated or not. Of C, where numbers go on in another process and no line
    repeats another one, nothing shows that it is another one.
    """
    left = without(run_of(whose, seed), kind, chance)
    return unrepeated(left) if whose == A and chance.random() < 0.5 else left


def never_wrong(whose: str, lines: Lines) -> None:
    """Neither the replay nor the audit says that something is wrong."""
    if not any(line.group for line in lines):
        return
    outcome = conform_lines(lines, MAPS[whose], complete=False)
    assert outcome.verdict is not Verdict.DIFFERS, str(outcome.mismatch)
    assert "violated" not in verdicts(lines, replay=True).values()


@pytest.mark.parametrize(("whose", "seed", "node", "first", "last"), KNOWN)
def test_what_misled_the_judges_does_so_no_more(
    whose: str, seed: int, node: str, first: int, last: int
) -> None:
    """The lines of this process with these numbers are gone."""
    lines = run_of(whose, seed)
    life = next(own for own in lives(lines) if own[0].node == node)
    gone = {id(x) for x in life if first <= x.sequence <= last}

    never_wrong(whose, [x for x in lines if id(x) not in gone])


def test_a_handover_may_be_told_by_who_coordinates_next_alone() -> None:
    """Whoever stored it has stepped down before the answer; a paused client consumes no more."""
    never_wrong(CLIENTS, run_of(CLIENTS, 77))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", MAPS)
def test_of_a_restart_that_no_line_tells_nothing_is_wrong(whose: str, kind: str) -> None:
    """In a few runs."""
    chance = Random(f"{whose} {kind}")
    for seed in chance.sample(range(7), 2):
        never_wrong(whose, drawn(whose, seed, kind, chance))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", MAPS)
def test_nor_is_it_in_hundreds_of_draws(whose: str, kind: str) -> None:
    """Two of each of sixty runs."""
    chance = Random(f"many {whose} {kind}")
    for seed in range(60):
        for _ in range(2):
            never_wrong(whose, drawn(whose, seed, kind, chance))
