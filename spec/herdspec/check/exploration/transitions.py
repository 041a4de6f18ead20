"""
State machines, read off the explored graph: which actions lead from one value to which other.

For every field whose values are members of an enum (or of a map to such), and every action: from
which member to which other a step of it leads. Members that no step leaves or enters are there,
too. It is what was *seen* at the explored size, so a diagram shows nothing that cannot happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from herdspec.check.exploration.explore import CHUNK, Explorer
from herdspec.check.running.run import said
from herdspec.engine.columns import Columns
from herdspec.engine.ground import GroundAction, Slot
from herdspec.language.specification import Specification
from herdspec.language.types import EnumOf, Option

NOTHING = "nothing"
"""The name of the absent value of an optional member."""
MEMORY_BYTES = 64 << 20
"""Diagrams are drawn of small spaces: a larger one is cut here, and the diagram says so."""


@dataclass(frozen=True)
class StateMachine:
    """One field: its members, the one that it starts with, and what leads from one to another."""

    field: str
    members: tuple[str, ...]
    initial: tuple[str, ...]
    arrows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """(from, to, the names of the actions)"""
    complete: bool


def state_machines(
    spec: Specification, sizes: Mapping[str, int], *, faults: int, bound: int | None = None
) -> list[StateMachine]:
    """The state machine of each field of a spec that holds members of an enum, in order."""
    explorer = Explorer(spec, sizes, faults, bound, memory_bytes=MEMORY_BYTES)
    slots = {key: s for key, s in explorer.ground.slots.items() if enum_of(s) is not None}
    if not slots:
        return []
    found = explorer.run()
    seen: dict[Any, set[tuple[int, int, str]]] = {key: set() for key in slots}
    for low in range(0, len(explorer.rows), CHUNK):
        columns = Columns(explorer.packing, explorer.rows[low : low + CHUNK])
        for instance in explorer.ground.instances:
            look(columns, instance, seen)
    return machines(slots, seen, complete=found.complete)


def look(
    columns: Columns, instance: GroundAction, seen: dict[Any, set[tuple[int, int, str]]]
) -> None:
    """Note which values an instance's steps take these slots from and to."""
    touched = [key for key in instance.updates if key in seen]
    if not touched:
        return
    possible = np.flatnonzero(np.broadcast_to(columns.of(instance.guard), len(columns.rows)))
    if not len(possible):
        return
    for key in touched:
        before = columns.packing.read(columns.rows[possible], key)
        new = columns.of(instance.updates[key])
        after = np.broadcast_to(new, len(columns.rows))[possible]
        pairs = np.unique(np.stack([before, after], axis=1).astype(np.int64), axis=0)
        seen[key] |= {(int(a), int(b), instance.action.name) for a, b in pairs}


def machines(
    slots: Mapping[Any, Slot], seen: Mapping[Any, set[tuple[int, int, str]]], *, complete: bool
) -> list[StateMachine]:
    """The state machines of fields: what was seen of all slots of each, put together."""
    made = []
    for name in dict.fromkeys(slot.field for slot in slots.values()):
        of_field = {key: slot for key, slot in slots.items() if slot.field == name}
        names = members_of(next(iter(of_field.values())))
        arrows: dict[tuple[str, str], dict[str, None]] = {}
        for a, b, action in sorted(set().union(*(seen[key] for key in of_field))):
            if a != b:
                arrows.setdefault((names[a], names[b]), {})[action] = None
        starts = dict.fromkeys(names[slot.initial] for slot in of_field.values())
        flat = tuple((a, b, tuple(actions)) for (a, b), actions in arrows.items())
        made.append(StateMachine(name, tuple(names), tuple(starts), flat, complete))
    return made


def enum_of(slot: Slot) -> EnumOf | None:
    """The enum that a slot holds a member of, if it does."""
    kind = slot.kind.of if isinstance(slot.kind, Option) else slot.kind
    return kind if isinstance(kind, EnumOf) else None


def members_of(slot: Slot) -> list[str]:
    """The names of a slot's numbers."""
    enum = enum_of(slot)
    assert enum is not None, "only slots of enums were taken"
    names = [said(member) for member in enum.members]
    return [NOTHING, *names] if isinstance(slot.kind, Option) else names
