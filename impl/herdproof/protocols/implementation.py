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

from herdspec.check.protocol import CONTRACT, Protocol, entry, names, protocol

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdproof.conformance.stories import OnTheCode
    from herdproof.pipeline.auditor import Auditor
    from herdproof.pipeline.campaign_runs import Simulated
    from herdspec.check.conform import Outcome, Progress
    from herdspec.check.run import Machine, Step
    from herdspec.check.verify import Check


class Conform(Shape):
    """Replays the traces of one run in the spec."""

    def __call__(
        self, traces: Sequence[Path], slack_ns: int, progress: Progress, /, *, invariants: bool
    ) -> Outcome:
        """
        `slack_ns` is how far the clocks of the machines that wrote them may be apart.

        With `invariants`, the spec's promises are evaluated in every state.
        """


@dataclass(frozen=True)
class Implementation:
    """What there is of a protocol beside its spec."""

    protocol: Protocol
    checks: tuple[Callable[[str], Check], ...] = ()
    """What `verify` checks of the code: each makes a check for the column that it is told."""
    adapter: Callable[[str], type[Adapter]] | None = None
    """Its code, or that of a variant (by name; empty for the verified one), held to the spec."""
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


def adapter_of(subject: str) -> type[Adapter] | None:
    """The adapter of the code of a known spec; None of a spec without an implementation."""
    from herdproof.cli.specs import variant_of

    name, variant = variant_of(subject)
    made = implementation(name).adapter if name in names() else None
    return made(variant) if made and variant != CONTRACT.removeprefix("-") else None


def on_the_code(subject: str, machine: Machine, steps: Sequence[Step]) -> OnTheCode | None:
    """What comes of a known spec's story on its code; None for a spec without an implementation."""
    from herdproof.conformance.stories import on_the_code as followed

    adapter = adapter_of(subject)
    return followed(machine, adapter, steps) if adapter else None
