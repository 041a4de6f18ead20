"""`herdproof conform TRACE…`: traces of the implementation, replayed in the spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.render import COLOURS, JsonOption, Output
from herdspec.check.verdict import Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdspec.check.conform import Outcome, Progress


def conform(
    traces: Annotated[
        list[Path],
        typer.Argument(metavar="TRACE...", help="The traces of all nodes of one run."),
    ],
    slack: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How far the nodes' clocks may be apart."),
    ] = 0.0,
    json: JsonOption = None,
) -> None:
    """Replay the traces of one run in the spec; where they differ, say where and why."""
    out = Output(json)
    for trace in traces:
        if not trace.is_file():
            raise UsageError(f"there is no trace {trace}")
    with out.progress(f"conform {counted(len(traces), 'trace')}") as tell:

        def told(matched: int, states: int) -> None:
            tell(f"line {matched:,}, {counted(states, 'state')} possible", None)

        outcome = replayed(traces, int(slack * 1e9), told)
    standing = standing_of(outcome)
    print_outcome(out, outcome, standing)
    out.json(outcome_json(outcome, standing.value))
    raise typer.Exit(standing.value)


def replayed(traces: list[Path], slack_ns: int, told: Progress) -> Outcome:
    """Replay traces in the spec of the protocol that they name."""
    from herdproof.protocols.implementation import implementation
    from herdproof.trace import ELECTION, protocol_of
    from herdspec.check.protocol import names

    named = protocol_of(traces[0])
    # A trace that names none is the election's to refuse: its reader says what is wrong.
    replay = implementation(named if named in names() else ELECTION).conform
    if replay is None:
        raise UsageError(f"{traces[0]}: traces of the protocol {named!r} cannot be replayed")
    return replay(traces, slack_ns, told)


def standing_of(outcome: Outcome) -> Standing:
    """What an outcome comes to; of an empty trace nothing is known."""
    from herdspec.check.conform import Verdict

    return {
        Verdict.CONFORMS: Standing.HOLDS if outcome.lines else Standing.UNKNOWN,
        Verdict.DIFFERS: Standing.FAILS,
        Verdict.UNKNOWN: Standing.UNKNOWN,
    }[outcome.verdict]


def print_outcome(out: Output, outcome: Outcome, standing: Standing) -> None:
    """How far the trace was explained, by what, and what came then."""
    out.line(
        f"{outcome.matched:,} of {counted(outcome.lines, 'line')} explained, at most "
        f"{counted(outcome.largest, 'state')} carried at once, {outcome.seconds:.1f} s"
    )
    out.line(f"actions in the trace: {', '.join(sorted(outcome.named)) or 'none'}")
    out.line(f"supposed besides: {', '.join(sorted(outcome.inferred)) or 'none'}")
    if outcome.mismatch is not None:
        out.line()
        for line in outcome.mismatch.lines:
            out.line(line)
    out.line()
    out.line(conclusion(outcome, standing), style=COLOURS[standing])


def conclusion(outcome: Outcome, standing: Standing) -> str:
    """The verdict in one line."""
    match standing:
        case Standing.HOLDS:
            return "It conforms."
        case Standing.FAILS:
            return f"It differs after {counted(outcome.matched, 'line')}."
        case Standing.UNKNOWN:
            return f"Unknown: {outcome.reason or 'the trace is empty'}."


def outcome_json(outcome: Outcome, code: int) -> dict[str, Any]:
    """An outcome as JSON."""
    missed = outcome.mismatch
    return {
        "command": "conform", "exit": code, "verdict": outcome.verdict.value,
        "lines": outcome.lines, "matched": outcome.matched, "named": dict(outcome.named),
        "inferred": sorted(outcome.inferred), "largest": outcome.largest,
        "seconds": round(outcome.seconds, 3), "reason": outcome.reason,
        "mismatch": None if missed is None else {
            "where": missed.where, "action": missed.action, "kind": missed.kind,
            "differences": list(missed.differences),
        },
    }  # fmt: skip
