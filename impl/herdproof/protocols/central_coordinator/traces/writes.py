"""
Writes of a coordinator: the lines that tell them, and a state of the spec that they are held to.

A write of owners that ZooKeeper refuses, since something stands that its coordinator takes to be
missing, is sent again at once, with the owners that were decided on before. In the spec it may be
decided anew. Where it could not be just that any more (a member has left, a topic was learned),
what was sent first is still on its way for the spec, until it is answered otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdspec.protocols.central_coordinator.spec import CentralCoordinator as State
from herdspec.protocols.group import Member, Partition


def sent_again(lines: Iterable[CentralStep]) -> dict[int, CentralStep]:
    """By the line that tells that owners were refused, the line by which they are sent again."""
    sent: dict[tuple[str, int], CentralStep] = {}
    refused: dict[str, tuple[CentralStep, CentralStep]] = {}
    found: dict[int, CentralStep] = {}
    for line in lines:
        if line.action == "write_owners":
            sent[line.node, line.number] = line
            answer, before = refused.pop(line.node, (None, line))
            if answer and (before.generation, before.owners) == (line.generation, line.owners):
                found[id(answer)] = line
        elif line.action == "answered":
            write = sent.pop((line.node, line.number), None)
            if write is not None and line.outcome == "refused":
                refused[line.node] = line, write
        else:
            refused.pop(line.node, None)
    return found


def may_send(s: State, b: Any, owners: Mapping[Any, Any]) -> bool:
    """Tells whether a broker may decide on just these owners."""
    wanted = {p for p in Partition if s.wanted(p, b)}
    return wanted == owners.keys() and all(s.serves(m, p, b) for p, m in owners.items())


def still_to_store(s: State, written: Mapping[Any, int] | None) -> dict[Any, int]:
    """The offsets of a write that say more than is stored."""
    stored = s.committed
    return {p: offset for p, offset in (written or {}).items() if offset > stored[p]}


def holds(s: State, b: Any, written: Mapping[Any, int] | None) -> bool:
    """True if it is these offsets, as far as they are new, that a broker has sent."""
    new, sent = still_to_store(s, written), s.sent
    return bool(new) and all(sent[b, p] >= offset for p, offset in new.items())


def named(s: State, b: Any) -> dict[Any, Any]:
    """The owners that a broker has sent to ZooKeeper."""
    heir, members = s.heir, list(Member)
    return {p: next((m for m in members if heir[m, p] == b), None) for p in Partition}
