"""
One page of HTML: what the tables say, to be read anywhere, on any screen, with no network.

Its style and drawings are in it, it runs no script and asks for nothing from anywhere; a policy in
its head says so to the browser. Names, values and records come from whoever was audited: all of
them are escaped by the template engine, without exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby

import jinja2

from herdproof.pipeline.judging.unread import CAUSES
from herdproof.pipeline.report import availability, charts
from herdproof.pipeline.report.diagrams import Story, story_of
from herdproof.pipeline.report.facts import (
    COLUMNS,
    HOLDS,
    NOT_OBSERVABLE,
    UNKNOWN,
    VERDICTS,
    VIOLATED,
    Facts,
    PropertyFacts,
    ViolationFacts,
)
from herdproof.pipeline.report.reading import SURELY_A_DATE_NS
from herdproof.pipeline.report.timelines import timelines_of
from herdproof.report.render import spoken

MARKS = {HOLDS: "●", VIOLATED: "✗", NOT_OBSERVABLE: "–", UNKNOWN: "?"}
"""Marks that tell verdicts apart where colours do not."""
TONES = {HOLDS: "holds", VIOLATED: "fails", NOT_OBSERVABLE: "unseen", UNKNOWN: "unknown"}
ENDS = {
    HOLDS: "No violation was found.",
    VIOLATED: "There are violations.",
    UNKNOWN: "Unknown: something could not be judged, or nothing was.",
}
ROWS = {
    "generations": ("generation", "generations"), "memberships": ("membership", "memberships"),
    "ownership": ("ownership interval", "ownership intervals"), "commits": ("commit", "commits"),
    "violations": ("violation", "violations"),
    "quarantine": ("record in quarantine", "records in quarantine"),
}  # fmt: skip
"""Names of a table's rows, one and many."""
OPEN = 3
"""Stories that are open from the start."""


def page(facts: Facts) -> str:
    """The page of these facts."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([
            jinja2.PackageLoader("herdproof.pipeline.report"),
            jinja2.PackageLoader("herdproof.report"),
        ]),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "spoken": called, "mark": lambda v: MARKS.get(v, "?"), "said": charts.said,
        "tone": lambda v: TONES.get(v, "unknown"), "count": "{:,}".format, "date": date,
        "tenth": "{:.1f}".format,
        "of_rows": lambda name, n: ROWS[name][n != 1],
        "unitless": lambda name: spoken(name.removesuffix("_s")),
    }  # fmt: skip
    until_ns = facts.span_ns[1] if facts.span_ns and facts.runs == 1 else 0
    return environment.get_template("tables.html.jinja").render(
        f=facts, verdicts=VERDICTS, ends=ENDS, columns=COLUMNS, opened=OPEN,
        promises=by_protocol(facts),
        timelines=[(h, timelines_of(h, until_ns)) for h in facts.histories], charts=charts,
        coverage=[(p, list(of)) for p, of in groupby(facts.coverage, key=lambda a: a.protocol)],
        version=version("herdproof"), told=told_apart(facts.stories),
        drawn=[availability.drawing_of(o) for o in _told_outages(facts)], says=CAUSES,
    )  # fmt: skip


def _told_outages(facts: Facts) -> Sequence[availability.GroupOutage]:
    return () if facts.availability is None else facts.availability.outages


def told_apart(violations: Sequence[ViolationFacts]) -> list[tuple[Story, int]]:
    """Violations that say the same of one group are told once, with how often they are there."""
    groups: dict[tuple[str, ...], list[ViolationFacts]] = {}
    for v in violations:
        groups.setdefault((v.run, v.group, v.property), []).append(v)
    return [(story_of(same[0]), len(same)) for same in groups.values()]


def by_protocol(facts: Facts) -> list[tuple[str, list[PropertyFacts]]]:
    """The promises under their protocols, in their order."""
    ordered = sorted(facts.promises, key=lambda p: p.protocol)
    return [(name, list(of)) for name, of in groupby(ordered, key=lambda p: p.protocol)]


def called(name: str) -> str:
    """A name as words; the contract's are written in capitals."""
    return spoken(name.lower() if name.isupper() else name)


def date(time_ns: int) -> str:
    """A moment as people write it; of a simulator's, how long after its beginning."""
    if abs(time_ns) < SURELY_A_DATE_NS:
        return f"{time_ns / 1e9:,.3f} s"
    try:
        return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{time_ns} ns"
