"""
An implementation of a protocol, as every command knows it; found as its `Protocol` is.

The entry point of a protocol that is implemented names an `Implementation`; of one that is only
specified, a `Protocol`. Everything but the protocol may be missing: then the commands that need it
say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Protocol as Shape

from herdspec.check.protocol import Protocol, entry, names, protocol

if TYPE_CHECKING:
    from herdproof.pipeline.auditor import Auditor
    from herdproof.pipeline.campaign_runs import Simulated
    from herdspec.check.conform import Outcome, Progress
    from herdspec.check.run import Machine, Step
    from herdspec.check.verify import Check


@dataclass(frozen=True)
class OnTheCode:
    """
    How far the code came along a story: so many `steps`, with these `switches` on.

    `difference` tells where it went elsewhere; it is empty if the code followed.
    """

    steps: int
    switches: frozenset[str]
    difference: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether the code took every step, and arrived where the spec does."""
        return not self.difference

    @property
    def line(self) -> str:
        """In one line."""
        on = ", ".join(sorted(self.switches))
        with_ = f" (with the switch {on})" if on else ""
        if self.follows:
            return f"the code follows, {self.steps} steps{with_}"
        return f"the code goes elsewhere at step {self.steps}{with_}"


class Follow(Shape):
    """Takes a story on the code of a variant (empty for the verified protocol)."""

    def __call__(self, variant: str, machine: Machine, steps: Sequence[Step], /) -> OnTheCode:
        """How far the code came."""


class Conform(Shape):
    """Replays the traces of one run in the spec."""

    def __call__(self, traces: Sequence[Path], slack_ns: int, progress: Progress, /) -> Outcome:
        """`slack_ns` is how far the clocks of the machines that wrote them may be apart."""


@dataclass(frozen=True)
class Implementation:
    """What there is of a protocol beside its spec."""

    protocol: Protocol
    checks: tuple[Callable[[str], Check], ...] = ()
    """What `verify` checks of the code: each makes a check for the column that it is told."""
    follow: Follow | None = None
    """Takes stories along on the code."""
    conform: Conform | None = None
    """Replays traces."""
    auditor: Callable[[], Auditor] | None = None
    """What the pipeline knows of its traces."""
    simulated: Callable[[], Simulated] | None = None
    """Its simulator, for campaigns."""


@cache
def implementation(name: str) -> Implementation:
    """The implementation of the protocol of this name; raises `UsageError` for one that is none."""
    made = entry(name)
    return made if isinstance(made, Implementation) else Implementation(protocol(name))


@cache
def auditors() -> Mapping[str, Auditor]:
    """Those that can be audited, by the names that the lines of their traces give."""
    made = (implementation(name).auditor for name in names())
    return {found.name: found for found in (make() for make in made if make)}


@cache
def simulators() -> Mapping[str, Simulated]:
    """Those that have a simulator, by name."""
    made = (implementation(name).simulated for name in names())
    return {found.name: found for found in (make() for make in made if make)}


def on_the_code(subject: str, machine: Machine, steps: Sequence[Step]) -> OnTheCode | None:
    """How far the code comes along a story of a spec; None for a spec without an implementation."""
    from herdproof.cli.specs import variant_of

    name, variant = variant_of(subject)
    follow = implementation(name).follow if name in names() else None
    return follow(variant, machine, steps) if follow else None
