"""A report of `verify` as people read it: one table, the flaws, the stories, sizes and bounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from herdproof.report.kept import assumptions_json, discharged
from herdproof.report.render import (
    COLOURS,
    Output,
    coloured,
    conclusion,
    findings_json,
    shown,
    spoken,
    story,
    table_of,
    verdict,
)
from herdspec.check.verdict import Finding, Mark, Standing, safety, standing_of
from herdspec.check.verify import Done, PlanReport

GROUPS = {"sometimes": "what must be possible", "lemma": "lemmas of the proof"}
"""Kinds of properties that share one row while all is well with them."""


def print_report(out: Output, report: PlanReport, all_stories: bool) -> None:
    """Print everything that there is to say."""
    out.line()
    print_table(out, report, *report.plan.columns)
    for other in report.plan.others:
        out.line()
        print_table(out, report, other)
    if report.plan.flaws:
        out.line()
        print_flaws(out, report)
    for finding in to_tell(report, all_stories):
        out.line()
        for line in story(finding):
            out.line(line)
    out.line()
    print_bounds(out, report)
    out.line()
    out.line(f"{report.plan.protocol}: {conclusion(report.findings)}",
             style=COLOURS[report.standing])  # fmt: skip


# ── The table ───────────────────────────────────────────────────────────────────────────────


def print_table(out: Output, report: PlanReport, *columns: str) -> None:
    """One row for each property, one column for each subject."""
    table = table_of(report.plan.protocol, *columns)
    for name, findings in rows(report.of(*columns)).items():
        cells = (cell([f for f in findings if f.subject == column]) for column in columns)
        table.add_row(spoken(name), *cells)
    out.table(table)


def rows(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Findings by row: possibilities and lemmas share one while they hold."""
    found: dict[str, list[Finding]] = {}
    for f in findings:
        shared = f.kind in GROUPS and f.mark not in BAD
        found.setdefault(GROUPS[f.kind] if shared else f.row, []).append(f)
    order = [name for name in found if name not in GROUPS.values()]
    order += [name for name in GROUPS.values() if name in found]
    return {name: found[name] for name in order}


def cell(findings: list[Finding]) -> str:
    """The cell of a property (or of a group of them): each way of looking once."""
    between = "\n" if any(f.mark in BAD for f in findings) else "  "
    return between.join(coloured(f, text) for text, f in parts(findings))


def parts(findings: list[Finding]) -> list[tuple[str, Finding]]:
    """The texts of a cell, each with a finding that it is about; of failures, nothing else."""
    bad = {verdict(f): f for f in reversed(findings) if f.mark is Mark.FAILS}
    if bad:
        return list(reversed(bad.items()))
    lines: dict[str, list[Finding]] = {}
    for f in sorted(findings, key=lambda f: ORDER.index(f.mark)):
        lines.setdefault(verdict_of_group(f), []).append(f)
    return [(numbered(text, of), of[0]) for text, of in lines.items()]


BAD = (Mark.FAILS, Mark.UNKNOWN)
ORDER = tuple(Mark)
"""Within a cell, what says most comes first."""


def verdict_of_group(finding: Finding) -> str:
    """A finding's verdict, without the note that tells it from others of its group."""
    return f"{finding.mark.value} {finding.bounds}" if finding.kind in GROUPS else verdict(finding)


def numbered(text: str, findings: list[Finding]) -> str:
    """A group's verdict says how many it is about."""
    return f"{text} (all {len(findings)})" if findings[0].kind in GROUPS else text


# ── Flaws ───────────────────────────────────────────────────────────────────────────────────


def print_flaws(out: Output, report: PlanReport) -> None:
    """Print what each flaw leads to, beside what the verified protocol fails too."""
    table = table_of("flaw put back", "what it breaks", "steps", "last action", "as declared")
    for flaw, findings in flaws_of(report).items():
        for f in findings:
            table.add_row(
                flaw if f is findings[0] else "", spoken(f.row), coloured(f, said_of_flaw(f)),
                f.found.last if f.found else "", coloured(f, declared(f)),
            )  # fmt: skip
    out.table(table)


def flaws_of(report: PlanReport) -> dict[str, list[Finding]]:
    """The failures of each flaw, without those of the verified protocol that are just the same."""
    verified = {(f.row, f.found) for f in report.of(report.plan.verified) if f.found}
    made = {}
    for flaw in report.plan.flaws:
        findings = [f for f in report.of(flaw) if f.found or f.standing is not Standing.HOLDS]
        own = [f for f in findings if (f.row, f.found) not in verified]
        made[flaw] = own or findings
    return made


def said_of_flaw(finding: Finding) -> str:
    """A counterexample's length, or why there is none."""
    return str(finding.found.steps) if finding.found else verdict(finding)


def declared(finding: Finding) -> str:
    """The words for whether a flaw's failure is the one that was declared."""
    if finding.standing is not Standing.FAILS:
        return "yes" if finding.standing is Standing.HOLDS else "unknown"
    if finding.expected is None:
        return "no: not declared"
    return f"no: {shown(finding.expected)}, the last {finding.expected.last}"


# ── Stories ─────────────────────────────────────────────────────────────────────────────────


def to_tell(report: PlanReport, all_stories: bool) -> list[Finding]:
    """Which counterexamples to tell: whatever is unexpected, and the draft's shortest."""
    told = unrepeated(f for f in report.findings if f.mark in BAD and f.story)
    if all_stories:
        return told
    unexpected = [f for f in told if f.standing is not Standing.HOLDS]
    drafts = [f for f in told if f.subject == report.plan.drafted and safety(f)]
    first = sorted(drafts, key=lambda f: f.found.steps if f.found else 0)[:1]
    return [f for f in told if f in unexpected or f in first]


def unrepeated(findings: Iterable[Finding]) -> list[Finding]:
    """Findings, without those whose story another tells: a proof may fail by the same run."""
    told: dict[Hashable, Finding] = {}
    for f in findings:
        told.setdefault((f.subject, f.row, f.standing, f.story), f)
    return list(told.values())


# ── Sizes and bounds ────────────────────────────────────────────────────────────────────────


def print_bounds(out: Output, report: PlanReport) -> None:
    """Print what was looked at, how long it took, and what all of it rests on."""
    flaws = [d for d in report.done if of_flaws(d.result.findings, report)]
    for done in report.done:
        if done not in flaws or standing_of(done.result.findings) is not Standing.HOLDS:
            out.line(f"{done.check}: {done.result.measured}, {spent(done)}")
    if flaws:
        seconds = sum(d.seconds for d in flaws)
        kept = f", {number} kept" if (number := sum(d.kept for d in flaws)) else ""
        out.line(f"{len(flaws)} flaws: {', '.join(bounds_of(flaws))}, {seconds:.1f} s{kept}")
    out.line(f"in all {report.seconds:.1f} s, by the clock {report.clock_seconds:.1f} s")
    for heading, text in (
        ("Assumed", report.plan.assumed),
        *((f"Assumption {d.assumption}", discharged(report, d)) for d in report.plan.discharges),
        ("Not modelled", report.plan.not_modelled),
        ("Marks", "● proved by induction, for any number · ○ every state of that size · "
         "✔ the implementation was run · ✗ a counterexample · ? unknown"),
    ):  # fmt: skip
        if text:
            out.line(f"{heading}: {text}")


def spent(done: Done) -> str:
    """The time of a check, or that it was not done again."""
    return "(kept)" if done.kept else f"{done.seconds:.1f} s"


def of_flaws(findings: tuple[Finding, ...], report: PlanReport) -> bool:
    """Tells whether findings are about a flaw."""
    return all(f.subject in report.plan.flaws for f in findings)


def bounds_of(flaws: Iterable[Any]) -> list[str]:
    """The sizes at which flaws were explored, each once."""
    return sorted({f"○ {f.bounds}" for done in flaws for f in done.result.findings})


def report_json(report: PlanReport) -> dict[str, Any]:
    """A report as JSON, with every story."""
    return {
        "protocol": report.plan.protocol,
        "standing": report.standing.name.lower(),
        "assumed": report.plan.assumed,
        "not_modelled": report.plan.not_modelled,
        "assumptions": assumptions_json(report),
        "seconds": round(report.seconds, 3),
        "clock_seconds": round(report.clock_seconds, 3),
        "checks": [
            {
                "name": d.check,
                "measured": d.result.measured,
                "seconds": round(d.seconds, 3),
                "kept": d.kept,
            }
            for d in report.done
        ],
        "findings": [
            told | where(report, f)
            for told, f in zip(findings_json(report.findings), report.findings, strict=True)
        ],
    }


def where(report: PlanReport, finding: Finding) -> dict[str, Any]:
    """The file and the line that a finding is about, if it is about a spec."""
    from herdproof.report.places import place_of

    place = place_of(report.plan, finding)
    return {"file": place.shown if place else None, "line": place.line if place else None}
