"""
Finds the place of a finding: the file and the line that whoever repairs it wants to open.

A property stands where it is defined; a state without a next step, or whatever is no property, with
the action that led there, or else with the first line of the spec.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from herdspec.check.verdict import Finding, Standing
from herdspec.check.verify import Plan, PlanReport
from herdspec.language.specification import Specification


@dataclass(frozen=True)
class Place:
    """A line (1-based) of a file."""

    file: Path
    line: int

    @property
    def relative(self) -> str | None:
        """The file's path below the repository's root, with slashes; None where it is elsewhere."""
        path, root = self.file.resolve(), root_of_repository()
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else None

    @property
    def shown(self) -> str:
        """The path as short as it can be said."""
        return self.relative or str(self.file)


def root_of_repository() -> Path:
    """Where the paths of reports begin: GitHub's workspace, or else the present directory."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve()


def place_of(plan: Plan, finding: Finding) -> Place | None:
    """Where a finding stands; None if it is about no spec of the plan."""
    spec = plan.specs.get(finding.subject)
    if spec is None:
        return None
    for promise in spec.properties:
        if promise.name == finding.row:
            return Place(Path(promise.file), promise.line)
    return place_of_action(spec, finding.found.last if finding.found else "")


def place_of_action(spec: Specification, name: str) -> Place | None:
    """Where an action is defined; for a name that is none, where the spec's first one is."""
    by_name = {a.name: Place(Path(a.file), a.line) for a in spec.actions}
    if name in by_name:
        return by_name[name]
    return min(by_name.values(), key=lambda place: place.line, default=None)


def alarming(report: PlanReport) -> Iterator[Finding]:
    """The findings that somebody has to look at: unexpected failures, and what is unknown."""
    return (f for f in report.findings if f.standing is not Standing.HOLDS)


def headline(finding: Finding) -> str:
    """The line that says what is wrong: the sentence, and what was found."""
    from herdproof.report.render import remarked, said, spoken

    sentence = finding.sentence or spoken(finding.row)
    remark = f" ({more})" if (more := remarked(finding)) else ""
    return f"{sentence} {finding.mark.value} {said(finding)}{remark} [{finding.subject}]"


def name_of(finding: Finding) -> str:
    """The finding's name in lists, and how it was looked at."""
    bounds = f" ({finding.bounds})" if finding.bounds else ""
    return f"{finding.row}{bounds}"
