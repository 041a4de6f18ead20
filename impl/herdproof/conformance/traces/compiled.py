"""
Takes the steps of a spec along a trace: compiled where that is worth it, else plainly.

Groups share what is compiled, by the sizes of the spec. Of sorts of which it does not matter how
many elements there are beside those that the trace names, some more are taken, so that more groups
share it; and a group of few lines goes along what is compiled for a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from herdspec.check.conformance.follow import PlainSteps, Steps
from herdspec.check.conformance.invariants import Invariants
from herdspec.check.running.run import Machine
from herdspec.check.running.scripted import Scripted
from herdspec.engine.ground import LARGEST, Ground
from herdspec.language.specification import Promise, Specification

WORTH_IT = 8_000
"""Of so many lines a spec is compiled: that takes as long as they take longer without."""

WORTH_ITS_OWN = 20_000
"""Of so many lines it is compiled, too, where a larger one is: to copy its states takes longer."""

FEW, MULTIPLE = 4, 4
"""From `FEW` on, the sizes of sorts that may have more elements are multiples."""


@dataclass
class Compiler:
    """The compiled steps of each size that enough lines were seen of."""

    steps: dict[tuple[int, ...], Scripted] = field(default_factory=dict)
    lines: Counter[tuple[int, ...]] = field(default_factory=Counter)
    _promises: dict[Scripted, tuple[list[str], Invariants]] = field(default_factory=dict)

    def of(
        self, spec: Specification, sizes: Mapping[str, int], spare: Collection[str], lines: int
    ) -> Steps:
        """The steps of a spec at these sizes (or, of sorts in `spare`, a bit above)."""
        larger = {
            name: size + -size % MULTIPLE if name in spare and size >= FEW else size
            for name, size in sizes.items()
        }
        key = (id(spec), *larger.values())
        self.lines[key] += lines
        if key in self.steps:
            return self.steps[key]
        roomy = self._roomy(key, [name in spare for name in larger])
        if self.lines[key] < (WORTH_IT if roomy is None else WORTH_ITS_OWN):
            return roomy or plain(spec, sizes)
        self.steps[key] = Scripted(spec, larger)
        return self.steps[key]

    def _roomy(self, key: tuple[int, ...], spare: Sequence[bool]) -> Scripted | None:
        """The smallest of what is compiled that has room enough for these sizes."""
        rooms = [
            made
            for made in self.steps
            if made[0] == key[0]
            and all(
                has >= size if more else has == size
                for has, size, more in zip(made[1:], key[1:], spare, strict=True)
            )
        ]
        return self.steps[min(rooms, key=prod)] if rooms else None

    def invariants(self, steps: Steps, promises: Sequence[Promise]) -> Invariants:
        """Promises, to be evaluated in the states of these steps."""
        if not isinstance(steps, Scripted):
            return Invariants(steps, promises)
        names = [p.name for p in promises]
        known = self._promises.get(steps)
        if known is None or known[0] != names:
            known = self._promises[steps] = names, Invariants(steps, promises)
        return known[1]


KEPT_PLAIN = 64
"""Of so many sizes, what the plain Python needs is kept: to make it takes as long as many lines."""

COMPILER = Compiler()
"""Of this process."""


_PLAIN: dict[tuple[int, ...], PlainSteps] = {}
"""Of this process, by spec and sizes; who is in here keeps its spec, and so the spec's id."""


def plain(spec: Specification, sizes: Mapping[str, int]) -> PlainSteps:
    """Steps by the spec's own Python."""
    key = (id(spec), *sizes.values())
    found = _PLAIN.get(key)
    if found is None:
        if len(_PLAIN) >= KEPT_PLAIN:
            _PLAIN.clear()
        found = PlainSteps(Machine(Ground(spec, sizes, bound=LARGEST, faults=1)))
        _PLAIN[key] = found
    return found
