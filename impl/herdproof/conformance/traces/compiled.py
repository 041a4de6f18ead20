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
from herdspec.check.running.generated import GeneratedSpec
from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Ground
from herdspec.language.specification import DeclaredProperty, Specification

WORTH_IT = 8_000
"""Of so many lines a spec is compiled: that takes as long as they take longer without."""

WORTH_ITS_OWN = 100_000
"""Of so many lines it is compiled, too, where a larger one is: to copy its states takes longer."""

FEW, MULTIPLE = 4, 4
"""From `FEW` on, the sizes of sorts that may have more elements are multiples."""

Key = tuple[int, ...]
"""A spec, and the size of each of its sorts."""


@dataclass
class Compiler:
    """The compiled steps of sizes that enough lines were seen of."""

    steps: dict[Key, GeneratedSpec] = field(default_factory=dict)
    lines: Counter[Key] = field(default_factory=Counter)
    """By sizes, the lines that were replayed at these or along larger ones."""
    _waiting: dict[Key, tuple[int, Key]] = field(default_factory=dict)
    """
    Lines that went plainly since something was compiled last, and the largest of their sizes: by
    spec, and by the sizes of sorts that may have no more elements.
    """
    _promises: dict[GeneratedSpec, tuple[list[str], Invariants]] = field(default_factory=dict)

    def of(
        self, spec: Specification, sizes: Mapping[str, int], spare: Collection[str], lines: int
    ) -> Steps:
        """The steps of a spec at these sizes (or, of sorts in `spare`, above)."""
        is_spare = [name in spare for name in sizes]
        own: Key = tuple(map(_rounded, sizes.values(), is_spare))
        key = (id(spec), *own)
        self.lines[key] += lines
        if key in self.steps:
            return self.steps[key]
        roomy = self._roomy(key, is_spare)
        if roomy is None:
            own = self._waited(key, is_spare, lines)
        elif self.lines[key] < WORTH_ITS_OWN:
            return roomy
        if not own:
            return plain(spec, sizes)
        made = GeneratedSpec(spec, dict(zip(sizes, own, strict=True)))
        self.steps[id(spec), *own] = made
        return made

    def _waited(self, key: Key, is_spare: Sequence[bool], lines: int) -> Key:
        """The sizes at which to compile now: of all that had no room; none if these are few."""
        family = (
            key[0],
            *(0 if more else size for size, more in zip(key[1:], is_spare, strict=True)),
        )
        many, largest = self._waiting.get(family, (0, key[1:]))
        many, largest = many + lines, tuple(map(max, largest, key[1:]))
        self._waiting[family] = many, largest
        if many < WORTH_IT:
            return ()
        del self._waiting[family]
        return largest

    def _roomy(self, key: Key, is_spare: Sequence[bool]) -> GeneratedSpec | None:
        """The smallest of what is compiled that has room enough for these sizes."""
        rooms = [
            made
            for made in self.steps
            if made[0] == key[0]
            and all(
                has >= size if more else has == size
                for has, size, more in zip(made[1:], key[1:], is_spare, strict=True)
            )
        ]
        return self.steps[min(rooms, key=prod)] if rooms else None

    def invariants(self, steps: Steps, promises: Sequence[DeclaredProperty]) -> Invariants:
        """Promises, to be evaluated in the states of these steps."""
        if not isinstance(steps, GeneratedSpec):
            return Invariants(steps, promises)
        names = [p.name for p in promises]
        known = self._promises.get(steps)
        if known is None or known[0] != names:
            known = self._promises[steps] = names, Invariants(steps, promises)
        return known[1]


def _rounded(size: int, is_spare: bool) -> int:
    """A size, or one a bit above."""
    return size + -size % MULTIPLE if is_spare and size >= FEW else size


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
