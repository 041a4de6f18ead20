"""
Coverage: actions and branches of a spec that no step has taken.

A branch (of an `if` or `match` within an action) is covered by a step before which the action's
guard holds and the branch's condition does. It is looked for in the states that a search found,
some thousands at a time, and only until each branch has been seen once.
"""

from __future__ import annotations

from collections.abc import Mapping

from herdspec.check.exploration.exploration import Untaken
from herdspec.check.exploration.numpy_engine import CHUNK, truths
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.engine.ground import Ground
from herdspec.language import graph as g
from herdspec.language.graph import Expr


def untaken(packing: Packing, rows: Words) -> list[Untaken]:
    """The branches that no step from any of these states takes, in the spec's order."""
    wanted = branches(packing.ground)
    for low in range(0, len(rows), CHUNK):
        if not wanted:
            return []
        columns = Columns(packing, rows[low : low + CHUNK])
        wanted = {
            branch: formulas
            for branch, formulas in wanted.items()
            if not any(truths(columns, formula).any() for formula in formulas)
        }
    return list(wanted)


def impossible(packing: Packing, rows: Words, taken: Mapping[str, int]) -> list[str]:
    """
    The actions that none of these states allows, in the spec's order; what was `taken` is allowed.

    A step that has no meaning, or that a bound keeps out, is possible all the same.
    """
    never = {name for name, times in taken.items() if not times}
    for low in range(0, len(rows) if never else 0, CHUNK):
        columns = Columns(packing, rows[low : low + CHUNK])
        for instance in packing.ground.instances:
            name = instance.action.name
            if name in never and truths(columns, instance.guard).any():
                never.discard(name)
    return [a.name for a in packing.ground.spec.actions if a.name in never]


def branches(ground: Ground) -> dict[Untaken, list[Expr]]:
    """Each branch of each action, and for each instance when it is taken."""
    found: dict[Untaken, list[Expr]] = {}
    for instance in ground.instances:
        for branch in instance.action.branches:
            where = Untaken(instance.action.name, instance.action.file, branch.line)
            formula = ground.of_instance(branch.formula, instance)
            found.setdefault(where, []).append(g.conj(instance.guard, formula))
    for action in ground.spec.actions:  # what is never possible takes no branch either
        for branch in action.branches:
            found.setdefault(Untaken(action.name, action.file, branch.line), [])
    return found
