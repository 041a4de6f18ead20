"""
One page of HTML: the table, the stories as sequence diagrams, state machines, coverage, bounds.

The page is self-contained: its style and its drawings are in it, it asks for nothing from anywhere,
and it follows the reader's choice of light or dark. Whatever comes from a spec (names, sentences,
values) is escaped by the template engine, without exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import jinja2

from herdproof.report import table as texts
from herdproof.report.diagrams import Drawing, drawing, sequence
from herdproof.report.places import place_of, place_of_action
from herdproof.report.render import conclusion, said, spoken, verdict
from herdspec.check.cache import Coverage
from herdspec.check.exploration.transitions import state_machines
from herdspec.check.verdict import Finding, Mark, Standing, sized, standing_of
from herdspec.check.verify import Plan, PlanReport
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification

ELEMENTS, FAULTS = 2, 2
"""The size at which state machines are read off."""


def page(reports: Sequence[PlanReport]) -> str:
    """The page of these reports."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("herdproof.report"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"spoken": spoken, "said": said, "verdict": verdict, "tone": tone}
    findings = [f for report in reports for f in report.findings]
    return environment.get_template("page.html.jinja").render(
        reports=[part(report) for report in reports], standing=standing_of(findings),
        conclusion=conclusion(findings), version=version("herdproof"),
    )  # fmt: skip


def part(report: PlanReport) -> dict[str, object]:
    """The values that the template needs of one report."""
    plan = report.plan
    return {
        "report": report,
        "plan": plan,
        "standing": report.standing,
        "tables": [table(report, plan.columns), *(table(report, (o,)) for o in plan.others)],
        "flaws": texts.flaws_of(report),
        "declared": texts.declared,
        "stories": stories(report),
        "machines": machines(report),
        "coverage": coverage(report),
    }


def tone(finding: Finding) -> str:
    """The class that colours a finding."""
    return "expected" if finding.is_expected_failure else finding.standing.name.lower()


# ── Tables ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class HtmlTable:
    """A table's columns and rows; a cell holds texts, each with the finding that it is about."""

    columns: tuple[str, ...]
    rows: list[tuple[str, str, list[list[tuple[str, Finding]]]]]


def table(report: PlanReport, columns: tuple[str, ...]) -> HtmlTable:
    """One row for each property: its name, its sentence, and a cell for each subject."""
    rows = []
    for name, findings in texts.rows(report.of(*columns)).items():
        cells = [texts.parts([f for f in findings if f.subject == c]) for c in columns]
        grouped = name in texts.GROUPS.values()
        rows.append((name, "" if grouped else findings[0].sentence, cells))
    return HtmlTable(columns, rows)


# ── Stories ─────────────────────────────────────────────────────────────────────────────────


def stories(report: PlanReport) -> list[dict[str, object]]:
    """Every counterexample: the unexpected ones first, and only they are open from the start."""
    failed = (f for f in report.findings if f.mark in (Mark.FAILS, Mark.UNKNOWN) and f.story)
    told = texts.unrepeated(failed)
    told.sort(key=lambda f: f.standing is Standing.HOLDS)
    return [
        {
            "finding": f,
            "open": f.standing is not Standing.HOLDS,
            "place": place_of(report.plan, f),
            "drawn": sequence(f, report.plan.specs.get(f.subject)) if f.steps else None,
        }
        for f in told
    ]


# ── State machines ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Machines:
    """The state machines of one subject, read off at this size."""

    subject: str
    size: str
    drawings: list[Drawing]


def machines(report: PlanReport) -> list[Machines]:
    """The state machines of the verified spec; of none, where it has no members of enums."""
    spec = report.plan.specs.get(report.plan.verified)
    if spec is None:
        return []
    sizes = dict.fromkeys(spec.sorts, ELEMENTS)
    try:
        found = state_machines(spec, sizes, faults=FAULTS)
    except UsageError:  # it cannot be explored: the table says why
        return []
    size = sized(spec, sizes, FAULTS)
    return [Machines(report.plan.verified, size, [drawing(m) for m in found])] if found else []


# ── Coverage ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ActionCount:
    """The number of times that an action was taken, and its share of the most taken one."""

    action: str
    times: int
    share: float


@dataclass(frozen=True)
class Covered:
    """The coverage of one subject by one check."""

    subject: str
    check: str
    actions: list[ActionCount]
    missed: list[str] | None


def coverage(report: PlanReport) -> list[Covered]:
    """The coverage of whatever stands in the tables; flaws have none of their own."""
    return [
        covered(report.plan, done.check, found)
        for done in report.done
        for found in done.result.coverage
        if found.subject not in report.plan.flaws
    ]


def covered(plan: Plan, check: str, found: Coverage) -> Covered:
    """One coverage, as bars and as places."""
    most = max((times for _, times in found.taken), default=0) or 1
    actions = [ActionCount(name, times, times / most) for name, times in found.taken]
    spec = plan.specs.get(found.subject)
    missed = None if found.missed is None else [branch(spec, *at) for at in found.missed]
    return Covered(found.subject, check, actions, missed)


def branch(spec: Specification | None, action: str, below: int) -> str:
    """Where a branch stands."""
    place = place_of_action(spec, action) if spec else None
    return f"{action}, {place.shown}:{place.line + below}" if place else action
