"""
Where lines of a group are missing, and what they could have told: known before the first is read.

A process numbers its lines, so that a gap shows by the line after it. Of a coordinator that nobody
has told of, the epoch shows: one that is obeyed, or written in, or left out between two others.
What comes after a process's last line nobody can tell from its end (`CentralFields.leave`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from herdproof.conformance.traces.ordering import processes
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR

ACTS = frozenset({
    "begin_rebalance", "send_ping", "send_stop", "send_start", "handle_ping_response",
    "handle_stop_response", "handle_start_response", "handle_commit", "flush_offsets",
    "write_owners", "finish_rebalance",
})  # fmt: skip
"""What only a coordinator does."""


@dataclass(frozen=True, kw_only=True)
class MissingLines:
    """Lines that are missing before the line `end`, and no earlier than at the line `begin`."""

    begin: int
    end: int
    role: str
    node: str
    lines: int
    """How many; 0: nobody knows."""


def gaps_of(lines: Iterable[CentralStep], own: Sequence[CentralStep]) -> list[MissingLines]:
    """The gaps of a group: of `lines`, all of its run, `own` are its lines in their order."""
    at = {id(line): index for index, line in enumerate(own)}
    gaps = []
    for (role, node), each in _by_node(lines).items():
        before = 0
        for process in each:
            missing, expected = 0, 1
            for line in process:
                missing += line.sequence - expected
                expected = line.sequence + 1
                index = at.get(id(line))
                if index is not None:
                    if missing:
                        gaps.append(
                            MissingLines(
                                begin=before, end=index, role=role, node=node, lines=missing
                            )
                        )
                    missing, before = 0, index + 1
            if missing:
                gaps.append(
                    MissingLines(begin=before, end=len(own), role=role, node=node, lines=missing)
                )
    return gaps


def last_lines(lines: Iterable[CentralStep], own: Sequence[CentralStep]) -> set[int]:
    """The indices of each process's last line of a group."""
    at = {id(line): index for index, line in enumerate(own)}
    found = set()
    for each in _by_node(lines).values():
        for process in each:
            indices = [at[id(line)] for line in process if id(line) in at]
            found.update(indices[-1:])
    return found


def _by_node(lines: Iterable[CentralStep]) -> dict[tuple[str, str], list[list[CentralStep]]]:
    of: dict[tuple[str, str], list[CentralStep]] = defaultdict(list)
    for line in lines:
        of[line.role, line.node].append(line)
    return {node: processes(told, []) for node, told in sorted(of.items())}


def untold(
    lines: Iterable[CentralStep], own: Sequence[CentralStep], gaps: Sequence[MissingLines]
) -> Iterator[MissingLines]:
    """
    Where somebody coordinated of whom no line tells that it began to.

    Who has stepped down, and of whose lines since none is missing, did not begin to: it acts
    without.
    """
    gaps = [g for g in gaps if g.role == COORDINATOR]
    begun = {x.epoch: k for k, x in enumerate(own) if x.action == "coordinator_startup"}
    named = {line.epoch for line in lines if line.epoch}
    every = named | ({*range(min(begun), max(begun))} if begun else set())
    for epoch in sorted(every - begun.keys()):
        before = [k for e, k in begun.items() if e < epoch]
        after = [k for e, k in begun.items() if e > epoch]
        yield _unknown(max(before, default=-1) + 1, min(after, default=len(own)))
    coordinates: set[str] = set()
    deposed: dict[str, int] = {}
    latest = 0
    for index, line in enumerate(own):
        if line.action == "coordinator_startup":
            coordinates.add(line.node)
            latest = index
        elif line.role == COORDINATOR and line.action in ("start", "step_down"):
            coordinates.discard(line.node)
            deposed[line.node] = index
        elif line.action in ACTS and line.node not in coordinates:
            since = deposed.get(line.node, index)
            if since < index and not any(
                g.node == line.node and since <= g.begin and g.end <= index for g in gaps
            ):
                continue
            coordinates.add(line.node)
            later = [k for k in begun.values() if k > index]
            yield _unknown(latest, min(later, default=len(own)))


def _unknown(begin: int, end: int) -> MissingLines:
    return MissingLines(begin=begin, end=end, role=COORDINATOR, node="", lines=0)


def has_untraced(own: Sequence[CentralStep]) -> bool:
    """Whether a consumer registered of which there is no line."""
    told = {line.node for line in own if line.role == CONSUMER}
    return any(
        line.consumer not in told
        for line in own
        if line.action == "handle_register" and line.outcome == "accepted"
    )
