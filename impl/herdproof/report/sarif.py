"""
SARIF 2.1.0, as code scanning reads it: a rule for each property, a result for each that fails.

A counterexample is a code flow: one location for each of its steps, with the action's file and
line. What is unknown is a result of the kind `open`; what holds, or fails as declared, is none.
Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from herdproof.report.places import Place, alarming, headline, name_of, place_of, place_of_action
from herdspec.check.digest import hashed
from herdspec.check.verdict import Finding, Standing, StoryStep
from herdspec.check.verify import Plan, PlanReport

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
"""The folder that paths are relative to: the root of the repository."""


def sarif(reports: Sequence[PlanReport]) -> str:
    """The reports as one SARIF log with one run."""
    found = [(report.plan, f) for report in reports for f in alarming(report)]
    rules = rules_of((report.plan, f) for report in reports for f in report.findings)
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": driver(rules)},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "results": [result(plan, f, numbers) for plan, f in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def driver(rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Who says so."""
    return {"name": "herdproof", "semanticVersion": version("herdproof"), "rules": rules}


def rules_of(findings: Iterable[tuple[Plan, Finding]]) -> list[dict[str, Any]]:
    """The rules that were checked: every property once, with its sentence."""
    rules: dict[str, dict[str, Any]] = {}
    for plan, f in findings:
        name = rule_of(plan, f)
        rules.setdefault(
            name,
            {
                "id": name,
                "shortDescription": {"text": f.sentence or f.row},
                "properties": {"tags": [f.kind]},
            },
        )
    return list(rules.values())


def rule_of(plan: Plan, finding: Finding) -> str:
    """A property's name among all."""
    return f"{plan.protocol}/{finding.row}"


def result(plan: Plan, finding: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    """One finding."""
    rule, fails = rule_of(plan, finding), finding.standing is Standing.FAILS
    place = place_of(plan, finding)
    made: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": numbers[rule],
        "kind": "fail" if fails else "open",
        "level": "error" if fails else "none",
        "message": {"text": "\n".join([headline(finding), *finding.story])},
        "locations": [location(place)] if place else [],
        "partialFingerprints": {
            "finding/v1": hashed(plan.protocol, finding.subject, name_of(finding))
        },
    }
    if finding.steps:
        made["codeFlows"] = [flow(plan, finding)]
    return made


def flow(plan: Plan, finding: Finding) -> dict[str, Any]:
    """A story, step by step."""
    spec = plan.specs.get(finding.subject)
    steps = []
    for number, step in enumerate(finding.steps, start=1):
        place = place_of_action(spec, step.action) if spec else None
        steps.append({"executionOrder": number, "location": location(place, told(step))})
    return {"threadFlows": [{"locations": steps}]}


def told(step: StoryStep) -> str:
    """A step in words, with what it changes."""
    return f"{step.sentence} [{', '.join(step.changes) or 'nothing changes'}]"


def location(place: Place | None, message: str = "") -> dict[str, Any]:
    """A place, with what is said of it."""
    made: dict[str, Any] = {"message": {"text": message}} if message else {}
    if place:
        made["physicalLocation"] = {
            "artifactLocation": artifact(place),
            "region": {"startLine": place.line},
        }
    return made


def artifact(place: Place) -> dict[str, str]:
    """A file: below the repository's root, or else by its whole path."""
    if place.relative is None:
        return {"uri": place.file.resolve().as_uri()}
    return {"uri": quote(place.relative), "uriBaseId": ROOT}
