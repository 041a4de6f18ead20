"""`herdproof replay FILE…`: saved counterexamples, taken once more on the spec and on the code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.report.render import COLOURS, JsonOption, Output
from herdspec.check.verdict import Standing, counted

if TYPE_CHECKING:
    from herdproof.cli.code.stories import Verdict


def replay(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Stories, as --save-stories saves them."),
    ],
    on: Annotated[
        str | None,
        typer.Option("--spec", metavar="SPEC", help="Replay on this spec, not on the file's own."),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option("--code", metavar="MODULE:ADAPTER", help="Replay on this code, too."),
    ] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Let each file expect what came of it now, and name its code (exit 0)."
        ),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Replay stories on their specs, and on the code. What came of each is told."""
    from herdproof.cli.code.stories import judged

    out = Output(json)
    verdicts = []
    for path in files:
        verdict = judged(path, on, code)
        if accept:
            verdict = accepted(path, verdict, code)
        print_verdict(out, path, verdict)
        verdicts.append(verdict)
    standing = worst(verdicts)
    out.line(conclusion(verdicts), style=COLOURS[standing])
    out.json(verdicts_json(verdicts, standing.value))
    raise typer.Exit(standing.value)


def accepted(path: Path, verdict: Verdict, code: str | None = None) -> Verdict:
    """Write what came of a story into its file, and judge it by that; never what is unknown."""
    from dataclasses import replace

    from herdproof.cli.code.stories import relative
    from herdspec.check.running.replay import Expect

    found = verdict.replayed
    if found.outcome is Expect.UNKNOWN or (found.as_expected and not code):
        return verdict
    story = found.story.expecting(found.outcome, relative(code, path.parent) if code else "")
    story.write(path)
    return replace(verdict, replayed=replace(found, story=story))


def worst(verdicts: Sequence[Verdict]) -> Standing:
    """The worst of these: failures before unknowns."""
    codes = {v.exit_code for v in verdicts}
    return Standing(1 if 1 in codes else max(codes))


def print_verdict(out: Output, path: Path, verdict: Verdict) -> None:
    """A story step by step, and what came of it."""
    *told, came, expected = verdict.lines
    for line in (str(path), *(f"  {line}" for line in told)):
        out.line(line)
    out.line(f"  {came}, {expected}", style=COLOURS[Standing(verdict.exit_code)])
    out.line()


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """All verdicts in one line."""
    good = sum(v.as_expected for v in verdicts)
    stories = counted(len(verdicts), "story")
    unseen = [v for v in verdicts if v.not_shown]
    rest = f" Unknown: of {len(unseen)} the code does not show where they end." if unseen else ""
    left = sum(bool(v.without_code) for v in verdicts)
    rest += f" Unknown: {left} would need code that there is none of." if left else ""
    return f"{good} of {stories} came as expected.{rest}"


def verdicts_json(verdicts: Sequence[Verdict], code: int) -> dict[str, Any]:
    """Verdicts as JSON."""
    return {
        "command": "replay", "exit": code,
        "stories": [
            {
                "file": str(v.path), "spec": v.subject, "property": v.replayed.story.property,
                "outcome": v.replayed.outcome.value, "expect": v.replayed.story.expect.value,
                "verdict": v.replayed.verdict, "changed": v.replayed.changed,
                "steps": len(v.replayed.steps),
                "code": None if v.code is None else v.code.line,
                "code_outcome": None if v.code is None else v.code.outcome.value,
                "as_expected": v.as_expected, "unknown": v.unknown or None,
            }
            for v in verdicts
        ],
    }  # fmt: skip
