"""The worlds of a protocol's flaws, each explored once, at the size for which it is declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from herdspec.check.exploration.exploration import Exploration
from herdspec.check.exploration.explore import explore
from herdspec.check.liveness.liveness import Liveness, liveness
from herdspec.protocols.flaws import Flaw


def explored_of(flaws: Mapping[str, Flaw]) -> Callable[[str], Exploration]:
    """The states of a flaw's world, by the flaw's name."""

    @cache
    def flawed(name: str) -> Exploration:
        flaw = flaws[name]
        assert flaw.sizes is not None
        return explore(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)

    return flawed


def lived_of(flaws: Mapping[str, Flaw]) -> Callable[[str], Liveness]:
    """What must happen in a flaw's world, and does not, by the flaw's name."""

    @cache
    def lived(name: str) -> Liveness:
        flaw = flaws[name]
        assert flaw.sizes is not None
        return liveness(flaw.spec, flaw.sizes, faults=flaw.faults, bound=flaw.bound)

    return lived
