"""
The result of an exploration: counts, stories, the graph, and all that was cut on the way.

Nothing here searches; `explore.py` does. An `Exploration` says its sizes and bounds, whether every
state was seen (`complete`), and which engine looked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.bounds import Cut
from herdspec.check.exploration.size import Why
from herdspec.check.running.run import Step, told
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec

EVERY_VALUE_IS_DEFINED = "every_value_is_defined"
"""The name under which a step is reported that has no meaning where it is possible."""


@dataclass(frozen=True)
class Story:
    """
    A path from an initial state, replayed in the plain Python.

    `initially` shows that state, where there is more than one.
    """

    initial: Spec
    steps: list[Step]
    initially: str = field(default="", kw_only=True)

    @property
    def lines(self) -> list[str]:
        """The path as numbered sentences."""
        return told(self.steps, self.initial, self.initially)

    @property
    def labels(self) -> list[str]:
        """The actions, as calls."""
        return [step.label for step in self.steps]


@dataclass(frozen=True)
class Edges:
    """
    The explored graph: three columns of one length (state, instance, state).

    They are ordered by state, then by instance.
    """

    source: NDArray[np.uint32]
    instance: NDArray[np.uint16]
    target: NDArray[np.uint32]


@dataclass(frozen=True)
class Untaken:
    """A branch of an action that no step took: its file and line, and the action."""

    action: str
    file: str
    line: int


@dataclass
class Exploration:
    """
    The result of a search; `states` are representatives, `orbits` counts all that they stand for.

    `generated` counts the successors that were kept, `dropped` those beyond a bound; what other
    checkers call generated is both, and the initial states.

    `bounds_tried` are the bounds of naturals that were finished, the last of them `bound`; `within`
    says that the bounds are meant: whoever asked wants to know nothing beyond them.

    `constrained` states were looked at, but not gone on from, since the constraint does not hold
    there. `note` says why another engine looked than was to be expected.
    """

    spec: Specification
    sizes: Mapping[str, int]
    faults: int
    bound: int
    states: int = 0
    orbits: int = 0
    generated: int = 0
    depth: int = 0
    dropped: int = 0
    bounds_tried: tuple[int, ...] = ()
    within: bool = False
    constraint: str = ""
    constrained: int = 0
    truncated: bool = False
    symmetric: bool = False
    engine: str = "numpy"
    threads: int = 1
    note: str = ""
    seconds: float = 0.0
    taken: dict[str, int] = field(default_factory=dict)
    violations: dict[str, Story] = field(default_factory=dict)
    witnesses: dict[str, Story] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    deadlock: Story | None = None
    find_untaken: Callable[[], list[Untaken]] = field(default=list, repr=False, compare=False)
    find_why: Callable[[], Why] | None = field(default=None, repr=False, compare=False)
    find_cuts: Callable[[], list[Cut]] = field(default=list, repr=False, compare=False)
    find_impossible: Callable[[], list[str]] | None = field(default=None, repr=False, compare=False)
    find_vacuous: Callable[[], dict[str, str]] = field(default=dict, repr=False, compare=False)

    @property
    def size(self) -> str:
        """The size and the bounds, as verdicts say them."""
        from herdspec.check.verdict import sized

        return sized(self.spec, self.sizes, self.faults, f"naturals up to {self.bound}")

    @property
    def complete(self) -> bool:
        """Tells whether every state was seen."""
        return not self.truncated and not self.dropped and not self.constrained

    @cached_property
    def branches(self) -> list[Untaken]:
        """The branches that no step took, in the spec's order; looked for when first asked."""
        return self.find_untaken()

    @cached_property
    def cuts(self) -> list[Cut]:
        """The bounds that successors were left out for, each once; looked for when first asked."""
        return self.find_cuts() if self.dropped else []

    @cached_property
    def impossible(self) -> list[str]:
        """The actions that no state allows; looked for when first asked."""
        if self.find_impossible is None:
            return [name for name, times in self.taken.items() if not times]
        return self.find_impossible()

    @cached_property
    def vacuous(self) -> dict[str, str]:
        """The `always` that no state says anything of, and why; looked for when first asked."""
        return self.find_vacuous()

    @cached_property
    def why(self) -> Why:
        """Why the space is as large as it is; counted when first asked."""
        assert self.find_why is not None, "only a search that was run can say why"
        return self.find_why()


Progress = Callable[[int, int, int], None]
"""Told after each level: depth, states, states still to expand."""
Counts = dict[str, Any]
