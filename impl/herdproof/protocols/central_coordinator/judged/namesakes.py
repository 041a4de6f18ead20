"""
Connections of one consumer that go by the same number, where lines are missing.

Where none is, each is known by its Register (`traces/connections.py`). Else nobody can tell which
of its processes' lines are about which registration: what the consumer has told is as good as not
told. Coordinators name registrations, so theirs are told apart all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from herdproof.pipeline.judging.gaps import Gap
from herdproof.protocols.central_coordinator.client.connector import IDS
from herdproof.protocols.central_coordinator.traces.connections import REGISTERS
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, Number, drawn_twice
from herdproof.protocols.central_coordinator.tracing import CONSUMER

Lined = tuple[Sequence[CentralStep], Sequence[Gap], set[int]]
"""Lines, what is missing among them, and the indices of each process's last one."""


def without_namesakes(own: Sequence[CentralStep], gaps: Sequence[Gap], last: set[int]) -> Lined:
    """
    The lines without those of consumers of which two processes seem to have drawn one number.

    They are missing then, from the first line to the last one.
    """
    if not gaps and not _lacks_registers(own):
        return own, gaps, last
    twice = drawn_twice(own) | _told_by_several(own)
    if not twice:
        return own, gaps, last
    confused = {consumer for consumer, _ in twice}
    gone = [k for k, x in enumerate(own) if x.role == CONSUMER and x.node in confused]

    def place(index: int) -> int:
        return index - bisect_left(gone, index)

    without = {*gone}
    names: dict[Number, dict[str, None]] = {number: {} for number in twice}
    for line in own:
        if line.member and line.role != CONSUMER and (line.consumer, line.connection) in twice:
            names[line.consumer, line.connection][line.member] = None
    apart = {number: [*found] for number, found in names.items()}
    kept = [_apart(x, apart) for k, x in enumerate(own) if k not in without]
    left = [
        gap._replace(begin=place(gap.begin), end=place(gap.end))
        for gap in gaps if (gap.role, gap.node) not in {(CONSUMER, node) for node in confused}
    ]  # fmt: skip
    why = "two processes have drawn one connection's number"
    left += [
        Gap(0, len(kept), f"of {node}, {why}", CONSUMER, node, len(gone), exact=False)
        for node in sorted(confused)
    ]
    return kept, left, {place(k) for k in last - without}


def _told_by_several(own: Sequence[CentralStep]) -> set[Number]:
    """The numbers that several processes of a consumer tell of, as lines' own numbers show."""
    last: dict[tuple[str, str], int] = {}
    process: dict[tuple[str, str], int] = defaultdict(int)
    found: dict[Number, int] = {}
    twice: set[Number] = set()
    for line in own:
        node = (line.role, line.node)
        process[node] += line.sequence <= last.get(node, 0)
        last[node] = line.sequence
        if line.role == CONSUMER and line.connection:
            number = (line.consumer, line.connection)
            if found.setdefault(number, process[node]) != process[node]:
                twice.add(number)
    return twice


def _lacks_registers(own: Sequence[CentralStep]) -> bool:
    """True if a number has more registrations than its consumer tells of, which tells of some."""
    registers: dict[Number, int] = defaultdict(int)
    names: dict[Number, set[str]] = defaultdict(set)
    for line in own:
        if line.action in REGISTERS:
            number = (line.consumer, line.connection)
            if line.role == CONSUMER:
                registers[number] += 1
            elif line.member:
                names[number].add(line.member)
    return any(len(found) > max(1, registers[number]) for number, found in names.items())


def _apart(line: CentralStep, names: Mapping[Number, Sequence[str]]) -> CentralStep:
    """A coordinator's line, where its registration has a number that none draws."""
    own = names.get((line.consumer, line.connection))
    if own is None or line.member not in own:
        return line
    return replace(line, connection=line.connection + own.index(line.member) * IDS)
