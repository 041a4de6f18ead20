"""Whose traces of system B are missing, by what others tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from herdproof.conformance.traces.chained import process_of
from herdproof.conformance.traces.groups import Missing
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR

COMMANDED = frozenset({"handle_ping", "handle_stop", "handle_start"})
"""Actions that consumers take because a coordinator said so."""
REGISTERED = frozenset({"handle_register", "handle_resume"})
"""Actions by which a coordinator takes a Register."""


def untraced(lines: Sequence[CentralStep]) -> Iterator[Missing]:
    """Whose traces are missing: of members that were accepted, coordinators that were obeyed."""
    connected = {(line.consumer, line.connection) for line in lines if line.role == CONSUMER}
    epochs = {line.epoch for line in lines if line.action == "coordinator_startup"}
    missed: set[Any] = set()
    for k, line in enumerate(lines):
        if line.action in REGISTERED and line.outcome == "accepted":
            who = line.consumer
            if (who, line.connection) not in connected and (who, line.group) not in missed:
                missed.add((who, line.group))
                why = f"the trace of consumer {who} of {line.group} is missing"
                yield Missing(why, k, frozenset({line.group}))
        elif line.epoch not in epochs and line.action in COMMANDED and line.epoch not in missed:
            missed.add(line.epoch)
            yield Missing(f"the trace of the coordinator of epoch {line.epoch} is missing", k)


def former_processes(lines: Sequence[CentralStep], at: int) -> str:
    """
    Whose last words may be missing, of those whom one line is about, and of who coordinated before.

    Its process ended before that line, and its node's next one begins later: where the trace of the
    first one is cut, no number tells it.
    """
    if at == len(lines):
        return ""
    line = lines[at]
    heard: dict[tuple[str, str], CentralStep] = {}
    for x in lines[:at]:
        if x.sequence > 1:
            heard[x.role, x.node] = x
        else:
            heard.pop((x.role, x.node), None)  # nobody heeds one that has only begun
    whom = {(CONSUMER, line.consumer), *(node for node in heard if node[0] == COORDINATOR)}
    later = {(x.role, x.node): x for x in reversed(lines[at:])}
    for node in sorted(whom & heard.keys() & later.keys()):
        if not _goes_on(heard[node], later[node]):
            return f"of {node[1]}, what came after its last line"
    return ""


def _goes_on(before: CentralStep, line: CentralStep) -> bool:
    """True if a node's next line can be of the same process as one before it."""
    return line.sequence > before.sequence and process_of(line) == process_of(before)
