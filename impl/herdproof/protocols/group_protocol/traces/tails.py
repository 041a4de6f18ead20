"""
Tells of what a coordinator finds whether lines may be missing that tell how that came to be stored.

A process numbers its lines, so that a gap shows (after a load, what it has found may be in it), but
where its last ones are gone nothing does: of a process that no line is heard of any more nobody
knows what it has had stored since. What the next coordinator finds, and no line accounts for, may
be of it. That something is gone that was stored before, no step of any process explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.protocols.group_protocol.steps import DONE
from herdproof.protocols.group_protocol.tracing import CONSUMER


def unaccounted(lines: Sequence[TraceLine], at: int) -> str:
    """Of all lines, in order, the one that differs: whose lines may be missing before; or ''."""
    line = lines[at]
    if line.action == "load_group" and not _is_told_whole(lines, at):
        return f"lines of {line.node} may be missing, with what it has found"
    if line.action != "found" or _is_less(line, lines[:at]):
        return ""
    ended = [node for node, last in _lives(lines) if last < at]
    who = ", ".join(dict.fromkeys(ended)) or _whoever_was_elected_before(lines[: at + 1])
    if not who:
        return ""
    return f"the last lines of {who} may be missing: what {line.node} found, no line accounts for"


def predecessors(lines: Sequence[TraceLine], at: int) -> str:
    """Whoever coordinated before the first coordinator here, and has no trace; empty if nobody."""
    del at
    first = min((x.arguments["epoch"] for x in lines if x.action == "load_group"), default=1)
    return f"of who was elected in epoch {first - 1}, all lines" if first > 1 else ""


def _is_told_whole(lines: Sequence[TraceLine], at: int) -> bool:
    """Tells whether something else follows a load, and what it has found, without a gap."""
    load = lines[at]
    number = load.sequence
    for line in lines[at + 1 :]:
        if (line.node, line.role) != (load.node, load.role):
            continue
        number += 1
        if line.sequence != number or line.action != "found":
            return line.sequence == number
    return False


def _lives(lines: Sequence[TraceLine]) -> list[tuple[str, int]]:
    """Of each process of a broker: its node, and the place of its last line."""
    lives: list[tuple[str, int]] = []
    present: dict[str, int] = {}
    for k, line in enumerate(lines):
        if line.role == CONSUMER:
            continue
        if line.action == START or line.node not in present:
            present[line.node] = len(lives)
            lives.append((line.node, k))
        lives[present[line.node]] = line.node, k
    return lives


def _whoever_was_elected_before(lines: Sequence[TraceLine]) -> str:
    """Whoever was elected between the last two coordinators that tell of it, if anybody was."""
    epochs = sorted({line.arguments["epoch"] for line in lines if line.action == "load_group"})
    before, present = (epochs[-2], epochs[-1]) if len(epochs) > 1 else (0, 0)
    return f"who was elected in epoch {present - 1}" if present > before + 1 else ""


def _is_less(found: TraceLine, before: Sequence[TraceLine]) -> bool:
    """True if a coordinator finds less than what is known to be stored."""
    generation, offsets = _stored(found.group, before)
    told = {(topic, number) for topic, number, _ in found.arguments.get("offsets", ())}
    return found.arguments.get("generation", 0) < generation or not offsets <= told


def _stored(group: str, lines: Sequence[TraceLine]) -> tuple[int, set[tuple[str, int]]]:
    """A group's last generation that is known to be stored, and the partitions with an offset."""
    generation, offsets = 0, set[tuple[str, int]]()
    asked: dict[str, dict[int, Mapping[str, Any]]] = {}
    for line in lines:
        of = line.arguments
        if line.action == START:
            asked[line.node] = {}
        elif line.group != group or line.role == CONSUMER:
            continue
        elif line.action != "answered" and "number" in of:
            asked.setdefault(line.node, {})[of["number"]] = of
        done = line.action == "answered" and of["outcome"] == DONE
        if line.action == "found" or done:
            stored = asked.get(line.node, {}).get(of["number"], {}) if done else of
            generation = max(generation, stored.get("generation", 0))
            offsets |= {(topic, n) for topic, n, offset in stored.get("offsets", ()) if offset >= 0}
    return generation, offsets
