"""
An implementation of a protocol, as every command knows it; found as its `Protocol` is.

The entry point of a protocol that is implemented names an `Implementation`; of one that is only
specified, a `Protocol`. Everything but the protocol may be missing: then the commands that need it
say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from herdspec.check.protocol import CONTRACT, Protocol, entry, names, protocol, variant_of
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from herdproof.conformance.adapter import Adapter
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.pipeline.audit.auditor import Auditor
    from herdproof.pipeline.audit.map_trace import MapAuditor
    from herdproof.pipeline.campaign.runs import Simulated
    from herdspec.check.conformance.conform import Outcome, Progress
    from herdspec.check.verify import Check
    from herdspec.language.specification import Specification


@dataclass(frozen=True)
class Implementation:
    """The parts of a protocol beside its spec."""

    protocol: Protocol
    checks: tuple[Callable[[str], Check], ...] = ()
    """The checks of the code by `verify`: each makes one for the column that it is told."""
    adapter: Callable[[str], type[Adapter] | None] | None = None
    """
    Its code, or that of a variant (by name; empty for the verified one), held to the spec.

    None for a variant whose mistake no code has, and for another form that none has.
    """
    trace_map: Callable[[], TraceMap] | None = None
    """The map of its traces' lines to the spec; by default they are the spec's own words."""
    auditor: Callable[[], Auditor | type[MapAuditor]] | None = None
    """
    Auditor of its traces in the pipeline, or the class of one made of a map; by default, one that
    knows no more than the map says.
    """
    simulated: Callable[[], Simulated] | None = None
    """Its simulator, for campaigns; by default its adapter, walked at random."""

    @property
    def table(self) -> TraceMap:
        """The map of its traces, under the protocol's name."""
        from herdproof.conformance.traces.mapping import TraceMap

        if self.trace_map is not None:
            return replace(self.trace_map(), protocol=self.protocol.name)
        adapter = self.adapter("") if self.adapter else None
        brought = [name for some in adapter.disturbed.values() for name in some] if adapter else ()
        silent = dict.fromkeys([*(adapter.silent if adapter else ()), *brought])
        return TraceMap(self.protocol.verified(), silent=[*silent], protocol=self.protocol.name)

    def conform(
        self, traces: Sequence[Path], slack_ns: int, progress: Progress, *, invariants: bool,
        complete: bool = True,
    ) -> Outcome:  # fmt: skip
        """
        Replay the traces of one run in the spec, group by group, by the map.

        `slack_ns` is how far the clocks of the machines that wrote them may be apart. With
        `invariants`, the spec's promises are evaluated in every state. `complete`: each trace is
        there to its end; else what differs after some process's last line is unknown.
        """
        from herdproof.conformance.traces.replay import conform_files

        return conform_files(
            traces, self.table, failing=frozenset(self.protocol.declared()),
            invariants=invariants, slack_ns=slack_ns, progress=progress, complete=complete,
        )  # fmt: skip

    def audits(self) -> Auditor:
        """The pipeline's knowledge of its traces."""
        from herdproof.pipeline.audit.map_trace import MapAuditor

        found = self.auditor() if self.auditor is not None else MapAuditor
        if not isinstance(found, type):
            return found
        return found(self.protocol.name, self.table, self.protocol.declared())

    def simulates(self) -> Simulated | None:
        """Its simulator; None of a protocol that has neither that nor an adapter."""
        from herdproof.pipeline.campaign.adapter import AdapterSimulated

        if self.simulated is not None or self.adapter is None:
            return self.simulated() if self.simulated else None
        return AdapterSimulated(self.protocol, self.code, self.audits().replay)

    def code(self, variant: str) -> type[Adapter]:
        """The code of a variant; raises `UsageError` where no code has its mistake."""
        found = self.adapter(variant) if self.adapter else None
        if found is None:
            raise UsageError(f"{self.protocol.name} has no code with the mistake {variant!r}")
        return found

    def checks_for(self, subject: str) -> list[Check]:
        """
        The checks of the code by `verify`; by default, whatever can be asked of its adapter.

        That of each form is held to it likewise, where there is one.
        """
        if self.checks or self.adapter is None:
            return [make(subject) for make in self.checks]
        found = self._checks_of(self.code(""), subject, self.protocol.verified())
        for name, form in self.protocol.variants().items():
            code = self.adapter(name)
            found += self._checks_of(code, name, form) if code else []
        return found

    def _checks_of(self, code: type[Adapter], subject: str, spec: Specification) -> list[Check]:
        """All that can be asked of code that is held to a spec, which is called so."""
        from herdproof.conformance.checks import Code, checks_of
        from herdproof.protocols.imports import digest_of_imports
        from herdspec.check.plans import QUICK, CheckConfig, sizes_for

        of = self.protocol
        declared = of.declared() if spec is of.verified() else {}
        looked = CheckConfig(subject, spec, sizes_for(of, spec, QUICK), QUICK.faults, declared)
        makes = getattr(self.adapter, "__module__", "")  # it may stand in another package
        return checks_of(looked, Code(code, digest_of_imports(code.__module__, makes)))


def made(name: str) -> Callable[[], Any]:
    """A function that calls the one under this name (`MODULE:NAME`), read when it is asked for."""
    return lambda: resolve_name(name)()


@cache
def implementation(name: str) -> Implementation:
    """The implementation of the protocol of this name; raises `UsageError` for one that is none."""
    made = entry(name)
    return made if isinstance(made, Implementation) else Implementation(protocol(name))


class _Auditors(Mapping[str, "Auditor"]):
    """Auditors by the protocol's name, made when asked for: that reads the protocol's spec."""

    def __init__(self) -> None:
        self._made: dict[str, Auditor] = {}

    def __getitem__(self, name: str) -> Auditor:
        if name not in self._made:
            if name not in names():
                raise KeyError(name)
            self._made[name] = implementation(name).audits()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in names()

    def __iter__(self) -> Iterator[str]:
        return iter(names())

    def __len__(self) -> int:
        return len(names())


@cache
def auditors() -> Mapping[str, Auditor]:
    """The protocols that can be audited, by their names, which the lines of their traces give."""
    return _Auditors()


@cache
def simulators() -> Mapping[str, Simulated]:
    """The simulators of all protocols that have one, by name."""
    made = (implementation(name).simulates() for name in names())
    return {found.name: found for found in made if found is not None}


def adapter_of(subject: str) -> type[Adapter] | None:
    """The adapter of the code of a known spec; None of a spec without an implementation."""
    name, variant = variant_of(subject)
    made = implementation(name).adapter if name in names() else None
    return made(variant) if made and variant != CONTRACT.removeprefix("-") else None


def without_code(subject: str) -> str:
    """The sentence on a form of an implemented protocol that no code has; empty for all else."""
    name, variant = variant_of(subject)
    if name not in names() or variant not in protocol(name).variants():
        return ""
    if implementation(name).adapter is None or adapter_of(subject) is not None:
        return ""
    return f"no code is held to {subject}: the entry of {name} has no adapter for that form"
