"""Prints what `herdproof explore` found: counts, coverage, verdicts, a story; and its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdproof.report.render import (
    COLOURS,
    Output,
    coloured,
    conclusion,
    findings_json,
    spoken,
    story,
    table_of,
    verdict,
)

if TYPE_CHECKING:
    from herdspec.check.exploration.explore import Exploration
    from herdspec.check.verdict import Finding


def print_exploration(out: Output, name: str, result: Exploration, findings: list[Finding]) -> None:
    """Counts, actions and verdicts of the spec that was asked for under this name."""
    from herdspec.check.verdict import bounds_of, measured_by

    r = result
    out.line(f"{name}: {r.spec.sentence}")
    out.line(f"{bounds_of(r)}: {measured_by(r)}, {r.seconds:.1f} s, {engine_of(r)}")
    for cut in r.cuts:
        out.line(f"cut: {cut.sentence}")
    if r.note:
        out.line(r.note)
    if r.constraint:
        out.line(f"not gone on from: {r.constrained:,} states without {spoken(r.constraint)}")
    out.line()
    table = table_of("action", "kind", "taken")
    table.columns[2].justify = "right"
    for action in r.spec.actions:
        count = result.taken[action.name]
        table.add_row(action.name, action.kind.value, f"{count:,}" if count else "never")
    out.table(table)
    for branch in result.branches:
        place = f"{Path(branch.file).name}:{branch.line}"
        out.line(f"a branch of {branch.action} was never taken: {place}")
    out.line()
    table = table_of("property", "demand", "verdict")
    for f in findings:
        table.add_row(spoken(f.row), f.kind, coloured(f, verdict(f)))
    out.table(table)


def engine_of(result: Exploration) -> str:
    """Which engine searched: `numpy`, or `native, 2 threads`."""
    return result.engine + (f", {result.threads} threads" if result.threads > 1 else "")


def print_why(out: Output, result: Exploration) -> None:
    """Print what makes the space as large as it is."""
    out.line()
    table = table_of("entry of the state", "different values")
    table.columns[1].justify = "right"
    for name, number in result.why.values.items():
        table.add_row(name, f"{number:,}")
    out.table(table)
    out.line()
    table = table_of("action", "steps from each state")
    table.columns[1].justify = "right"
    for name, mean in result.why.successors.items():
        table.add_row(name, f"{mean:.2f}")
    out.table(table)


def print_story(out: Output, findings: list[Finding], wanted: str | None) -> None:
    """The story that was asked for, or a shortest counterexample."""
    told = [f for f in findings if (f.story or f.found) and f.row == wanted]
    if wanted is None:
        broken = [f for f in findings if f.story and f.found and f.kind != "sometimes"]
        told = sorted(broken, key=lambda f: f.found.steps if f.found else 0)[:1]
    for finding in told:
        out.line()
        for line in story(finding):
            out.line(line)
    if wanted and not told:
        out.line()
        out.line(f"{spoken(wanted)}: there is no story to tell, no state that was seen breaks it")


def print_conclusion(out: Output, findings: list[Finding], expected: str) -> None:
    """The verdict in one line, and what was expected of a known spec, if that is to be said."""
    from herdspec.check.verdict import standing_of

    standing = standing_of(findings)
    out.line()
    if expected:
        out.line(expected)
    out.line(conclusion(findings), style=COLOURS[standing])


def exploration_json(result: Exploration, findings: list[Finding], code: int) -> dict[str, Any]:
    """An exploration as JSON."""
    r = result
    return {
        "command": "explore", "exit": code, "spec": r.spec.name, "sizes": dict(r.sizes),
        "faults": r.faults, "bound": r.bound, "states": r.states, "orbits": r.orbits,
        "generated": r.generated, "depth": r.depth, "dropped": r.dropped,
        "bounds_tried": list(r.bounds_tried), "within": r.within,
        "cuts": [vars(cut) | {"sentence": cut.sentence} for cut in r.cuts],
        "truncated": r.truncated, "symmetric": r.symmetric, "taken": r.taken,
        "constraint": r.constraint, "constrained": r.constrained,
        "branches_never_taken": [
            {"action": b.action, "file": b.file, "line": b.line} for b in r.branches
        ],
        "engine": r.engine, "threads": r.threads, "note": r.note, "seconds": round(r.seconds, 4),
        "findings": findings_json(findings),
    }  # fmt: skip
