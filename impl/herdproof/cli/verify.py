"""
`herdproof verify`: the main job. Specs explored and proved, drafts shown to fail, one table.

What is checked of a spec is planned in `herdspec.check.verify`; what is checked of the
implementation is added here (`checks.py`), since the spec knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.render import JsonOption, Output

if TYPE_CHECKING:
    from herdspec.check.verify import Check, Plan, Report, Scale, Tell


def verify(
    protocols: Annotated[
        list[str] | None, typer.Argument(metavar="[PROTOCOL]...", help="All, if none is named.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Explore 2 brokers × 2 faults instead of 3 × 3.")
    ] = False,
    stories: Annotated[
        bool, typer.Option("--stories", help="Tell every counterexample, not only a shortest.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Explore, prove and conform: whole protocols, as drafted and as verified, in one table."""
    from herdproof.cli.report import print_report, report_json
    from herdspec.check.verdict import standing_of
    from herdspec.check.verify import FULL, PLANS, QUICK
    from herdspec.check.verify import verify as carry_out

    out = Output(json)
    with out.progress("reading the specs"):
        plans = [planned(name, QUICK if quick else FULL) for name in protocols or PLANS]
    reports = []
    for plan in plans:
        report = carry_out(plan, watch(out, plan), survived_errors())
        print_report(out, report, stories)
        reports.append(report)
    standing = standing_of(f for report in reports for f in report.findings)
    out.json(verdicts_json(reports, standing.value, report_json))
    raise typer.Exit(standing.value)


def planned(protocol: str, scale: Scale) -> Plan:
    """The checks of a protocol's spec and of its implementation."""
    from herdproof.cli.checks import IMPLEMENTATION
    from herdspec.check.verify import plan_of

    plan = plan_of(protocol, scale)
    return plan.also(*(make(plan.verified) for make in IMPLEMENTATION.get(protocol, ())))


def survived_errors() -> tuple[type[Exception], ...]:
    """A check that cannot run for want of a service is unknown; the others go on."""
    from herdproof.errors import HerdError

    return (HerdError,)


def watch(out: Output, plan: Plan) -> Callable[[Check], AbstractContextManager[Tell]]:
    """Show each check's progress, with its number."""
    number = count(1)

    @contextmanager
    def watched(check: Check) -> Iterator[Tell]:
        with out.progress(f"{next(number)}/{len(plan.checks)} {check.name}") as tell:
            yield tell

    return watched


def verdicts_json(
    reports: list[Report], code: int, one: Callable[[Report], dict[str, Any]]
) -> dict[str, Any]:
    """All reports as JSON."""
    return {"command": "verify", "exit": code, "protocols": [one(report) for report in reports]}
