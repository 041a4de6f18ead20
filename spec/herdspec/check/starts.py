"""
Where a path begins: which choice of an `@initial` made its first state.

A spec without `@initial` has one initial state, which stands in its text; nothing is said of it.
"""

from __future__ import annotations

import re

from herdspec.check.refusal import value
from herdspec.check.run import Machine, Step, entries, said
from herdspec.engine.ground import Instance
from herdspec.language.surface import Spec

INDEX = re.compile(r"\[[^\]]*\]")
"""What stands between an entry's field and the rest of its name."""


def initially(machine: Machine, initial: Spec) -> str:
    """The entries that the spec's `@initial` chooses, and the choice; nothing if it has none."""
    made = begun(machine, initial)
    if made is None:
        return ""
    chosen = {name for start in machine.spec.starts for name in start.updates}
    shown = [f"{entry}={said(v)}" for entry, v in entries(initial) if _is_part(entry, chosen)]
    return f"{', '.join(shown)}  [{made.label}]".strip()


def begun(machine: Machine, initial: Spec) -> Step | None:
    """The first choice of an `@initial` that makes this state; None where there is none."""
    slots = machine.ground.slots
    declared = {key: slot.initial for key, slot in slots.items()}
    wanted = dict(zip(slots, machine.numbers(initial), strict=True))

    def makes(start: Instance) -> bool:
        """Whether this choice makes the state that is wanted."""
        for key, number in wanted.items():
            new = start.updates.get(key)
            if number != (declared[key] if new is None else value(new, declared)):
                return False
        return bool(value(start.guard, declared) and value(start.defined, declared))

    for start in machine.ground.starts:
        if makes(start):
            arguments = machine.arguments(start.action, start.arguments)
            return Step(start.action, arguments, initial)
    return None


def _is_part(entry: str, fields: set[str]) -> bool:
    """Whether an entry of a state, as stories name it, belongs to one of these flat fields."""
    name = INDEX.sub("", entry)
    return any(f == name or f.startswith(f"{name}.") for f in fields)
