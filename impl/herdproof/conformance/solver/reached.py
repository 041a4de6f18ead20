"""Explores a spec at given sizes as far as the time allows, and looks for states among those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from herdspec.check.exploration.bounds import first_bound, raised
from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import Explorer, is_cut_by_naturals
from herdspec.language.errors import UsageError
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Spec


class Reached:
    """The explorations of a spec, each size once; of these `sizes` for so many seconds."""

    def __init__(self, spec: Specification, sizes: Mapping[str, int], seconds: float) -> None:
        self.spec = spec
        self.sizes = sizes
        self.seconds = seconds
        self.explorers: dict[tuple[int, ...], Explorer | None] = {}
        self.unexplored = ""
        """Why a size cannot be explored, where one could not."""

    def explored(self, sizes: Mapping[str, int], faults: int, seconds: float) -> Explorer | None:
        """A size as far as it was explored, once; None where it cannot be."""
        key = tuple(sizes.values())
        if key not in self.explorers:
            try:
                self.explorers[key] = explored(self.spec, sizes, faults, seconds)
            except UsageError as error:
                self.explorers[key] = None
                self.unexplored = f"not looked: {error}"
        return self.explorers[key]

    def number(self, state: Spec, faults: int) -> tuple[Explorer | None, int | None]:
        """The exploration of these sizes, and which of its states this is; None where unknown."""
        explorer = self.explored(self.sizes, faults, self.seconds)
        return explorer, None if explorer is None else number_of(explorer, state)


def explored(
    spec: Specification, sizes: Mapping[str, int], faults: int, seconds: float
) -> Explorer:
    """A search through a size, as far as it comes in so many seconds."""
    bare = replace(spec, properties=tuple(kept(spec)))
    made: list[Explorer] = []

    def attempt(bound: int, left: float | None) -> Exploration | None:
        given = seconds if left is None else min(left, seconds)
        explorer = Explorer(bare, sizes, faults, bound, symmetry=None, seconds=given)
        found = explorer.run()
        if explorer.out_of_time and left is not None:
            return None
        made.append(explorer)
        return found

    raised(first_bound(spec, faults), attempt, is_cut_by_naturals)
    return made[-1]


def kept(spec: Specification) -> Iterator[DeclaredProperty]:
    """The promises that say where a spec begins and ends: its axioms and constraints."""
    ends = (Expectation.AXIOM, Expectation.CONSTRAINT)
    return (p for p in spec.properties if p.expectation in ends)


def said(found: Exploration) -> str:
    """The words for how much of a size was explored."""
    sizes = ", ".join(f"{n} × {sort}" for sort, n in found.sizes.items()) or "the spec's one size"
    all_of = "every one of the" if found.complete else "the first"
    few = f", at most {found.faults} faults"
    return f"{all_of} {found.states:,} states with {sizes}{few}"


def number_of(explorer: Explorer, state: Spec) -> int | None:
    """Which of the states that an exploration came to this one is, up to renaming."""
    faults = range(explorer.ground.faults + 1)
    rows = [explorer.row(state, n) for n in faults if explorer.within(state, n)]
    if not rows:
        return None
    found = explorer.visited.find(np.concatenate(rows))
    return int(found.max()) if (found >= 0).any() else None
