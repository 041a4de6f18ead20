"""`herdproof conform TRACE…`: traces of the implementation, replayed in the spec."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.report.render import COLOURS, JsonOption, Output
from herdspec.check.verdict import Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdproof.conformance.traces.mapping import TraceMap
    from herdspec.check.conformance.conform import Outcome, Progress
    from herdspec.check.conformance.mismatch import Mismatch


def conform(
    traces: Annotated[
        list[Path],
        typer.Argument(metavar="TRACE...", help="The traces of all nodes of one run."),
    ],
    spec: Annotated[
        str, typer.Option(metavar="FILE.py:SPEC", help="The spec, where it is one of your own.")
    ] = "",
    map_: Annotated[
        str,
        typer.Option(
            "--map", metavar="FILE.py:MAP", help="What the lines are to the spec: a TraceMap."
        ),
    ] = "",
    slack: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How far the nodes' clocks may be apart."),
    ] = 0.0,
    invariants: Annotated[
        bool, typer.Option(help="Whether promises and lemmas are evaluated in every state.")
    ] = True,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Each process's trace is there to its end, though it was killed."
        ),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Replay the traces of one run in the spec. Where they differ, it says where and why."""
    out = Output(json)
    for trace in traces:
        if not trace.is_file():
            there = f"{trace} is no regular file: give one" if trace.exists() else ""
            raise UsageError(there or f"there is no trace {trace}")
    slack_ns = int(slack * 1e9)
    with out.progress(f"conform {counted(len(traces), 'trace')}") as tell:

        def told(matched: int, states: int) -> None:
            tell(f"line {matched:,}, {counted(states, 'state')} possible", None)

        if spec or map_:
            outcome = replayed_by(
                traces, spec, map_, slack_ns, told, invariants=invariants, complete=complete
            )
        else:
            outcome = replayed(traces, slack_ns, told, invariants=invariants, complete=complete)
    standing = standing_of(outcome)
    print_outcome(out, outcome, standing)
    out.json(outcome_json(outcome, standing.value))
    raise typer.Exit(standing.value)


def replayed(
    traces: list[Path], slack_ns: int, told: Progress, *, invariants: bool, complete: bool
) -> Outcome:
    """Replay traces in the spec of the protocol that they name."""
    from herdproof.conformance.traces.line import protocol_of, read_files
    from herdproof.protocols.implementation import implementation
    from herdspec.check.protocol import names

    said = {name: trace for trace in traces[::-1] for _, name in [protocol_of(trace)] if name}
    if len(said) > 1:
        which = " and ".join(f"{trace} of {name}" for name, trace in sorted(said.items()))
        raise UsageError(f"these are traces of different protocols ({which}): give one run's")
    named = next(iter(said), "")
    if named not in names():
        read_files(traces)  # says what is wrong with it, if it is no trace at all
        raise UsageError(
            f"{traces[0]} is a trace of {named}, which is no protocol that is installed:"
            f" say its spec by --spec FILE.py:SPEC, and by --map FILE.py:MAP what its lines are to"
            f" the spec, if that is not called {named}"
        )
    replay = implementation(named).conform
    return replay(traces, slack_ns, told, invariants=invariants, complete=complete)


def replayed_by(
    traces: list[Path], spec: str, map_: str, slack_ns: int, told: Progress, *, invariants: bool,
    complete: bool,
) -> Outcome:  # fmt: skip
    """Replay traces of any code in its spec, by its map."""
    from herdproof.cli.specs import find
    from herdproof.conformance.traces.mapping import TraceMap
    from herdproof.conformance.traces.replay import conform_files

    if not map_:
        subject = find(spec)
        table = TraceMap(subject.spec)
    else:
        table = map_of(map_)
        subject = subject_of(table)
        table = replace(table, spec=subject.spec)
        if spec and find(spec).spec.name != subject.spec.name:
            raise UsageError(
                f"--map {map_} is of {subject.spec.name}, which is not --spec {spec}: give the map"
                f" of that spec"
            )
    failing = frozenset(subject.declared)
    return conform_files(
        traces, table, failing=failing, invariants=invariants, slack_ns=slack_ns, progress=told,
        complete=complete,
    )  # fmt: skip


def map_of(name: str) -> TraceMap:
    """The trace map of a file: `FILE.py:NAME`, or the only one in `FILE.py`."""
    from herdproof.cli.loading import imported
    from herdproof.conformance.traces.mapping import TraceMap

    path, _, wanted = name.rpartition(":") if not name.endswith(".py") else (name, "", "")
    if not path.endswith(".py"):
        raise UsageError(f"--map {name}: write a file and the name of a map in it, FILE.py:MAP")
    module = imported(Path(path))
    found = {n: value for n, value in vars(module).items() if isinstance(value, TraceMap)}
    if not wanted and len(found) == 1:
        return next(iter(found.values()))
    if wanted not in found:
        known = ", ".join(f"{path}:{n}" for n in found) or "none"
        raise UsageError(f"{path} has no trace map {wanted!r}; its maps: {known}")
    return found[wanted]


def subject_of(table: TraceMap) -> Subject:
    """A map's spec, held to the properties of the file that it comes from."""
    from herdproof.cli.specs import subject_in

    state = table.specification.state
    return subject_in(sys.modules[state.__module__], state.__name__, table.spec, state.__module__)


def standing_of(outcome: Outcome) -> Standing:
    """The standing of an outcome; of an empty trace nothing is known."""
    from herdspec.check.conformance.conform import Verdict

    return {
        Verdict.CONFORMS: Standing.HOLDS if outcome.lines else Standing.UNKNOWN,
        Verdict.DIFFERS: Standing.FAILS,
        Verdict.UNKNOWN: Standing.UNKNOWN,
    }[outcome.verdict]


def print_outcome(out: Output, outcome: Outcome, standing: Standing) -> None:
    """Print how far the trace was explained, by what, and what came then."""
    out.line(
        f"{outcome.matched:,} of {counted(outcome.lines, 'line')} explained, at most "
        f"{counted(outcome.largest, 'state')} carried at once, {outcome.seconds:.1f} s"
    )
    out.line(f"actions in the trace: {', '.join(sorted(outcome.named)) or 'none'}")
    if outcome.unshown:
        out.line(f"never shown: {', '.join(sorted(outcome.unshown))}")
    out.line(f"supposed besides: {', '.join(sorted(outcome.inferred)) or 'none'}")
    if len(outcome.groups) > 1:
        out.line()
        for group, of in outcome.groups.items():
            out.line(f"{group}: {conclusion(of, standing_of(of))}", style=COLOURS[standing_of(of)])
    for missed in (outcome.stricter, outcome.mismatch):
        if missed is not None:
            out.line()
            for line in missed.lines:
                out.line(line)
    out.line()
    out.line(conclusion(outcome, standing), style=COLOURS[standing])


def conclusion(outcome: Outcome, standing: Standing) -> str:
    """The verdict in one line."""
    match standing:
        case Standing.HOLDS if outcome.stricter is not None:
            return "It conforms, but for what this code is known to do otherwise."
        case Standing.HOLDS:
            return "It conforms."
        case Standing.FAILS:
            return f"It differs after {counted(outcome.matched, 'line')}."
        case Standing.UNKNOWN:
            return f"Unknown: {outcome.reason or 'the trace is empty'}."


def outcome_json(outcome: Outcome, code: int) -> dict[str, Any]:
    """An outcome as JSON."""
    return {
        "command": "conform", "exit": code, "verdict": outcome.verdict.value,
        "lines": outcome.lines, "matched": outcome.matched, "named": dict(outcome.named),
        "inferred": sorted(outcome.inferred),
        "unshown": sorted(outcome.unshown), "largest": outcome.largest,
        "seconds": round(outcome.seconds, 3), "reason": outcome.reason,
        "groups": {
            name: {"verdict": of.verdict.value, "matched": of.matched, "reason": of.reason}
            for name, of in outcome.groups.items()
        },
        "mismatch": mismatch_json(outcome.mismatch),
        "stricter": mismatch_json(outcome.stricter),
    }  # fmt: skip


def mismatch_json(missed: Mismatch | None) -> dict[str, Any] | None:
    """Why a line is not explained, as JSON."""
    if missed is None:
        return None
    return {
        "where": missed.where, "action": missed.action, "kind": missed.kind,
        "differences": list(missed.differences),
    }  # fmt: skip
