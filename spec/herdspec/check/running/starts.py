"""
Finds the choice of an `@initial` that made the first state of a path.

A spec without `@initial` has one initial state, which stands in its text; nothing is said of it.
"""

from __future__ import annotations

import re

import numpy as np

from herdspec.check.exploration.initial import Initial
from herdspec.check.running.run import Machine, Step, entries, said
from herdspec.language.surface import Spec

INDEX = re.compile(r"\[[^\]]*\]")
"""The index between an entry's field and the rest of its name."""


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
    if not machine.spec.starts:
        return None
    wanted = np.array(machine.numbers(initial), np.int64)
    for found in Initial(machine):
        same = (found.numbers(machine.ground) == wanted).all(axis=1)
        action = found.start.action
        if same.any() and action is not None:
            chosen = found.start.choices.arguments(found.choice(int(np.argmax(same))))
            return Step(action, machine.arguments(action, chosen), initial)
    return None


def _is_part(entry: str, fields: set[str]) -> bool:
    """Tells whether an entry of a state, as stories name it, is of one of these flat fields."""
    name = INDEX.sub("", entry)
    return any(f == name or f.startswith(f"{name}.") for f in fields)
