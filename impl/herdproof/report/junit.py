"""
JUnit XML, as test reports of CI read it: a suite for each check, a case for each finding.

What fails is a `failure`, what is unknown an `error` (a `skipped` one would look like a pass), with
the story as text. A failure that was declared is a pass, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from herdproof.report.places import headline, name_of, place_of
from herdspec.check.verdict import Finding, Standing
from herdspec.check.verify import Done, Plan, PlanReport

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""


def junit(reports: Iterable[PlanReport]) -> str:
    """The reports as one XML document."""
    suites = Element("testsuites", name="herdproof verify")
    for report in reports:
        for done in report.done:
            suites.append(suite(report.plan, done))
    for count in ("tests", "failures", "errors"):
        suites.set(count, str(sum(int(s.get(count, 0)) for s in suites)))
    suites.set("time", f"{sum(float(s.get('time', 0)) for s in suites):.3f}")
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def suite(plan: Plan, done: Done) -> Element:
    """One check."""
    findings = done.result.findings
    standings = [f.standing for f in findings]
    made = Element(
        "testsuite", name=plain(f"{plan.protocol}: {done.check}"), tests=str(len(findings)),
        failures=str(standings.count(Standing.FAILS)), skipped="0",
        errors=str(standings.count(Standing.UNKNOWN)), time=f"{done.seconds:.3f}",
    )  # fmt: skip
    for finding in findings:
        made.append(case(plan, finding))
    SubElement(made, "system-out").text = plain(measured(done))
    return made


def measured(done: Done) -> str:
    """The words for what a check looked at, and whether that was now."""
    return f"{done.result.measured}{' (kept)' if done.kept else ''}"


def case(plan: Plan, finding: Finding) -> Element:
    """One finding."""
    made = Element(
        "testcase", name=plain(name_of(finding)),
        classname=plain(f"{plan.protocol}.{finding.subject}"), time="0",
    )  # fmt: skip
    if place := place_of(plan, finding):
        made.set("file", plain(place.shown))
        made.set("line", str(place.line))
    story = plain("\n".join(finding.story))
    if finding.standing is Standing.HOLDS:
        if finding.is_expected_failure:
            SubElement(made, "system-out").text = f"It fails, as declared.\n{story}"
        return made
    kind = "failure" if finding.standing is Standing.FAILS else "error"
    message = plain(headline(finding))
    SubElement(made, kind, message=message, type=plain(finding.kind)).text = story
    return made


def plain(text: str) -> str:
    """Text without what XML forbids."""
    return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
