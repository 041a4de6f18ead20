"""
Checks of `verify` that any implementation may have, made of its simulator and its adapter.

Each is told what its row is called and says, and makes a check for the column that it is told
(`Implementation.checks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from herdproof.conformance.checks import Row
from herdproof.conformance.findings import differs, implementation, replayed, unknown
from herdspec.check.cache import Result
from herdspec.check.verdict import Mark, counted
from herdspec.check.verify import Check, Tell

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdspec.check.plans import CheckConfig
    from herdspec.check.protocol import Protocol

Makes = Callable[[str], Check]


def rests_on(protocol: Protocol) -> Callable[[], tuple[Any, ...]]:
    """All that a verdict about a protocol's code depends on."""
    return lambda: (protocol.verified(), implementation())


def simulated_runs(
    protocol: Protocol, row: Row, *, runs: int, name: str = "", invariants: bool = True
) -> Makes:
    """
    Disturbed runs of the cores in their simulated world: watched there, and replayed in the spec.

    They are of the first mix that the simulator has. With `invariants`, what the spec promises is
    evaluated in every state of a replay.
    """

    def make(subject: str) -> Check:
        def run(tell: Tell) -> Result:
            from herdproof.conformance.traces.line import read_texts
            from herdproof.conformance.traces.replay import conform_lines
            from herdproof.pipeline.campaign.runs import Asked
            from herdproof.protocols.implementation import implementation as of

            code, lines = of(protocol.name), 0
            table, simulated = code.table, code.simulates()
            assert simulated is not None, "what has such a check has a simulator"
            for seed in range(runs):
                tell(f"{seed} of {counted(runs, 'run')}", seed / runs)
                asked = Asked(protocol.name, seed, seed, next(iter(simulated.mixes)))
                ran = simulated.run(asked)
                lines += len(ran.texts)
                bounds = f"{counted(seed + 1, 'run')}, {counted(lines, 'line')}"
                if ran.broken is not None:
                    story = "\n".join(simulated.story(asked, shrink=False))
                    found = differs(subject, *row, bounds, story)
                elif ran.unsure:
                    found = unknown(subject, *row, bounds, ran.unsure)
                else:
                    read = read_texts(ran.texts, ran.place, table.formats)
                    outcome = conform_lines(
                        read, table, invariants=invariants, failing=frozenset(protocol.declared())
                    )
                    found = replayed(subject, *row, bounds, outcome)
                if found.mark is not Mark.CONFORMS:
                    return Result((found,), f"seed {seed}")
            return Result((found,), bounds)

        said = name or f"simulate, judge and replay {runs} runs"
        return Check(said, run, rests_on(protocol))

    return make


def held(
    adapter: Callable[[str], type[Adapter] | None], way: str, looked: Callable[[], CheckConfig],
    *, form: str = "", quietly: bool = False, **options: Any,
) -> Makes:  # fmt: skip
    """
    The code held to its spec at some size in one of the ways for all code, within its bounds.

    A `form` is that of the protocol which `looked` is about. What is done `quietly` offers nothing
    that the spec forbids.
    """

    def make(subject: str) -> Check:
        from herdproof.conformance import checks
        from herdproof.conformance.adapter import quiet

        code = adapter(form)
        assert code is not None, "what has such a check has an adapter"
        code = quiet(code) if quietly else code
        of = replace(looked(), subject=subject, within=True)
        check: Check = getattr(checks, way)(of, checks.Code(code, ""), **options)
        return check

    return make


def at(
    protocol: Protocol, size: int, *, faults: int, bound: int | None = None, form: str = ""
) -> Callable[[], CheckConfig]:
    """The verified spec, or a form of the protocol, with so many elements of each sort."""

    def looked() -> CheckConfig:
        from herdspec.check.plans import CheckConfig

        made = protocol.variants()[form] if form else protocol.verified()
        return CheckConfig(
            protocol.name, made, dict.fromkeys(made.sorts, size), faults, bound=bound
        )

    return looked


@dataclass(frozen=True)
class Lived:
    """A life of real services: whose traces there are, and what was measured."""

    traces: list[Path]
    of: str
    measured: str


class BrokenThere(Exception):
    """Real services did what the protocol is to prevent; says what."""


def real_runs(
    protocol: Protocol, row: Row, live: Callable[[], Callable[[Path, Tell], Lived]], *, name: str
) -> Makes:
    """Runs of real services, which write their traces into a folder; these are replayed."""

    def make(subject: str) -> Check:
        def run(tell: Tell) -> Result:
            from herdproof.protocols.implementation import implementation as of

            with TemporaryDirectory(prefix="herdproof-traces-") as folder:
                try:
                    lived = live()(Path(folder), tell)
                except BrokenThere as error:
                    return Result((differs(subject, *row, "", str(error)),), str(error))
                outcome = of(protocol.name).conform(
                    lived.traces, 0, lambda *_: None, invariants=True
                )
            bounds = f"{counted(outcome.matched, 'line')} of {lived.of}"
            measured = f"{lived.measured}, {counted(outcome.lines, 'line')} of traces"
            return Result((replayed(subject, *row, bounds, outcome),), measured)

        return Check(name, run, rests_on(protocol))

    return make
