"""
GitHub's workflow commands: one line for each failure, shown beside the line of the pull request.

Format: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions. Whatever
ends a line or a property is escaped, so that no docstring can forge a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from herdproof.report.places import alarming, headline, place_of
from herdspec.check.verdict import Finding, Standing
from herdspec.check.verify import Plan, PlanReport


def commands(reports: Iterable[PlanReport]) -> Iterator[str]:
    """`::error` for what fails, `::warning` for what is unknown; nothing for what holds."""
    for report in reports:
        for finding in alarming(report):
            yield annotation(report.plan, finding)


def annotation(plan: Plan, finding: Finding) -> str:
    """One finding as a workflow command, its story as the message."""
    level = "error" if finding.standing is Standing.FAILS else "warning"
    place = place_of(plan, finding)
    at = [("file", place.shown), ("line", str(place.line))] if place else []
    properties = [*at, ("title", f"{plan.protocol}: {finding.row}")]
    given = ",".join(f"{name}={escaped_property(value)}" for name, value in properties)
    message = "\n".join([headline(finding), *finding.story])
    return f"::{level} {given}::{escaped(message)}"


def escaped(text: str) -> str:
    """A message, on one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    """A property's value, in which colons and commas have a meaning, too."""
    return escaped(text).replace(":", "%3A").replace(",", "%2C")
