"""Traces of simulated runs for the tests of the audit, and small changes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from random import Random
from typing import Any

from msgspec.structs import replace

from herdproof.conformance.traces.chained import Chain, process_of
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.audit.numbers import Numbers
from herdproof.pipeline.spark.tables import Rows
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT
from herdproof.protocols.central_coordinator.traces.lines import NOTHING, TOLD
from herdproof.protocols.central_coordinator.traces.lines import CentralStep as Line
from herdproof.protocols.central_coordinator.tracing import CENTRAL, COORDINATOR

Trace = list[Line]
MANY_STARTS = dataclasses.replace(DEFAULT, duration_ms=150_000, faults=60)
"""Long runs, in which processes come and go."""


@cache
def _run(seed: int, config: Config) -> tuple[Line, ...]:
    return tuple(traced(seed, config).lines)


def run_of(seed: int, config: Config = DEFAULT) -> Trace:
    """The trace of a simulated run, all its groups."""
    return list(_run(seed, config))


def trace(seed: int, group: str = "g1", config: Config = DEFAULT) -> Trace:
    """The lines of one group of a simulated run, and those that concern all."""
    return of_group(_run(seed, config), group)


def of_group(lines: Iterable[Line], group: str = "g1") -> Trace:
    """The lines that a group's judge is given."""
    return [line for line in lines if line.group in ("", group)]


def judged(lines: Sequence[Line], group: str = "g1", **options: Any) -> Rows:
    """The rows of a trace's group, without a replay unless it is wanted."""
    return judge(CENTRAL, lines[0].run, group, lines, **{"replay": False, **options})


def violated(rows: Rows) -> set[str]:
    """The sentences that rows say are violated; the verdicts must say the same."""
    found = {str(row["property"]) for row in rows["violations"]}
    told = {str(row["property"]) for row in rows["verdicts"] if row["verdict"] == "violated"}
    assert found == told
    return found


def changed(lines: Sequence[Line], which: Line, **changes: Any) -> Trace:
    """The trace with one line that tells something else."""
    return [replace(line, **changes) if line is which else line for line in lines]


def moved_before(lines: Sequence[Line], which: Line, other: Line) -> Trace:
    """The trace with one line told just before another, which comes next, of the same process."""
    between = [which.sequence, other.sequence]
    assert (which.role, which.node) == (other.role, other.node)
    assert between[0] == between[1] + 1, "the two are neighbours"
    one = replace(which, sequence=other.sequence, time_ns=other.time_ns)
    two = replace(other, sequence=which.sequence, time_ns=which.time_ns)
    return rechained(two if x is which else one if x is other else x for x in lines)


def rechained(lines: Iterable[Line]) -> Trace:
    """Lines that say which they come after, as of the numbers that they have now."""
    chains: dict[str, Chain] = {}
    found: Trace = []
    for line in lines:
        if line.role == COORDINATOR:
            if line.sequence == 1:
                chains[line.node] = Chain(line.time_ns)
            line = replace(line, after=chains[line.node].after(line.group, line.sequence))
        found.append(line)
    return found


def told_after(lines: Sequence[Line], which: Line, **more: Any) -> Trace:
    """The trace with one line more, of the same process, just after this one."""
    found: Trace = []
    behind = False
    for line in lines:
        if (line.role, line.node) != (which.role, which.node):
            found.append(line)
            continue
        behind = behind and line.sequence != 1
        found.append(replace(line, sequence=line.sequence + 1) if behind else line)
        if line is which:
            behind = True
            blank = line_of_nothing(which)
            found.append(replace(blank, **{"sequence": which.sequence + 1, **more}))
    return rechained(found)


def line_of_nothing(like: Line) -> Line:
    """A line of the same process and time, that says nothing else."""
    return Line(
        schema=2, protocol="central_coordinator", group="", run=like.run, node=like.node,
        role=like.role, sequence=like.sequence, time_ns=like.time_ns, action="",
        place=f"{like.place}, planted", **dict(zip(TOLD, NOTHING, strict=True)),
    )  # fmt: skip


def first(lines: Iterable[Line], wanted: Callable[[Line], bool]) -> Line | None:
    """The first line that is like that."""
    return next(filter(wanted, lines), None)


def deleted(lines: Trace, kind: str, chance: Random) -> Trace:
    """A run of which something is missing."""
    role, node = chance.choice(sorted({(x.role, x.node) for x in lines}))
    own = [x for x in lines if (x.role, x.node) == (role, node)]
    at = chance.randrange(len(own))
    gone: list[Line]
    match kind:
        case "line":
            gone = [chance.choice(lines)]
        case "lines":
            gone = chance.sample(lines, chance.randint(2, 30))
        case "one in a hundred":
            gone = [x for x in lines if chance.random() < 0.01]
        case "tail":
            gone = own[at:]
        case "file":
            gone = own
        case _:
            gone = own[at : at + chance.randint(2, 40)]
    names = {id(x) for x in gone}
    return [x for x in lines if id(x) not in names]


def numbers_of(lines: Iterable[Line]) -> Numbers:
    """The numbers of lines of many groups, as who reads them notes them."""
    numbers = Numbers()
    for line in lines:
        if line.shared:
            process = process_of(line)
            numbers.note(line.role, line.node, line.sequence, line.time_ns, process)
    return numbers
