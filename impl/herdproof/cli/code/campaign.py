"""`herdproof campaign PROTOCOL`: runs of a simulator, each audited where it is made."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.report.render import COLOURS, JsonOption, Output, spoken, table_of
from herdspec.check.verdict import Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdproof.pipeline.campaign.campaign import CampaignSummary, Tell
    from herdproof.pipeline.campaign.runs import Asked
    from herdproof.pipeline.campaign.work import Plan


def campaign(
    protocol: Annotated[
        str, typer.Argument(metavar="PROTOCOL", help="The protocol: election, or one of yours.")
    ],
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="So many seeds.")] = 100,
    first_seed: Annotated[int, typer.Option(min=0, metavar="K", help="From this one on.")] = 0,
    mix: Annotated[
        list[str] | None,
        typer.Option("--mix", metavar="NAME", help="This mix alone; may be said again."),
    ] = None,
    flaw: Annotated[
        str, typer.Option("--flaw", metavar="NAME", help="Give the cores this mistake.")
    ] = "",
    out: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Where the tables are written.")
    ] = "campaign",
    spark: Annotated[
        str | None,
        typer.Option("--spark", metavar="MASTER", help="Run on Spark: local[*], spark://…"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Tell the run of this seed; write nothing."),
    ] = None,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="--seed: with the fewest faults that break it.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Simulate many seeds under all mixes of faults. Each is audited; tables say what was found."""
    output = Output(json)
    if shrink and seed is None:
        raise UsageError("--shrink is for --seed")
    with output.progress("reading the simulators and their specs"):
        from herdproof.pipeline.campaign.work import Plan

        plan = Plan(protocol, runs, first_seed, tuple(mix or ()), flaw)
        plan.check()
    if seed is not None:
        tell_run(output, plan, seed, shrink=shrink)
    with output.progress(f"campaign {protocol}") as tell:
        summary = run(plan, out, spark, tell)
    print_summary(output, summary, out)
    standing = standing_of(summary)
    output.json({"command": "campaign", "exit": standing.value, **summary.as_json()})
    raise typer.Exit(standing.value)


def run(plan: Plan, out: str, master: str | None, tell: Tell) -> CampaignSummary:
    """The campaign, here or on Spark."""
    from herdproof.pipeline.campaign.campaign import run_here, run_on_spark

    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return run_here(plan, Path(out), tell)
    from herdproof.pipeline.spark.master import master_of
    from herdproof.pipeline.spark.session import spark_job
    from herdproof.pipeline.spark.store import OutputDirectory

    tell("starting Spark", None)
    with spark_job("campaign", master_of(master or "local[*]")) as session:
        return run_on_spark(session, plan, OutputDirectory(session, out), tell)


# ── One run ─────────────────────────────────────────────────────────────────────────────────


def tell_run(output: Output, plan: Plan, seed: int, *, shrink: bool) -> None:
    """The run of one seed as a story, and what its audit found; ends with its exit code."""
    from herdproof.pipeline.campaign.runs import Asked, chosen_mix
    from herdproof.pipeline.campaign.work import audited
    from herdproof.protocols.implementation import simulators

    simulated = simulators()[plan.protocol]
    asked = Asked(plan.protocol, 0, seed, chosen_mix(simulated, seed, plan.mixes), plan.flaw)
    output.line(f"mix {asked.mix}: {simulated.mixes[asked.mix]}")
    if plan.flaw:
        output.line(f"flaw {plan.flaw}: {simulated.flaws[plan.flaw]}")
    with output.progress(f"seed {seed}") as tell:
        tell("it runs, and is audited", None)
        rows = audited(asked)
        tell("looking for fewer faults that break it" if shrink else "telling its story", None)
        story = simulated.story(asked, shrink=shrink)
    for line in ("", *story):
        output.line(line)
    (found,) = rows["runs"]
    audit = [v for v in rows["violations"] if v["group"] or v["property"] not in found["broken"]]
    for violation in audit:
        output.line()
        output.line(f"The audit of group {violation['group']}, {spoken(violation['property'])}:")
        output.line(f"  {violation['told']} ({violation['place']})")
        for step in violation["story"]:
            output.line(f"    {told(step)}")
    standing = _STANDINGS.get(found["outcome"], Standing.UNKNOWN)
    output.line()
    output.line(_said(found), style=COLOURS[standing])
    output.json({"command": "campaign", "exit": standing.value, **run_json(asked, rows, story)})
    raise typer.Exit(standing.value)


def told(step: str) -> str:
    """A line of a story as people read it."""
    time_ns, who, whom, what = step.split("|", 3)
    to = f" → {whom}" if whom not in ("", who) else ""
    return f"{int(time_ns) / 1e9:9.3f} s  {who}{to}: {what}"


def run_json(asked: Asked, rows: Any, story: list[str]) -> dict[str, Any]:
    """One run as JSON."""
    (found,) = rows["runs"]
    keep = ("seed", "mix", "flaw", "outcome", "broken", "told", "steps", "edges", "digest")
    return {
        "protocol": asked.protocol, **{name: found[name] for name in keep}, "story": story,
        "violations": rows["violations"],
        "verdicts": [
            {k: v[k] for k in ("group", "property", "verdict", "why")} for v in rows["verdicts"]
        ],
    }  # fmt: skip


def _said(found: Any) -> str:
    if found["broken"]:
        return f"It fails: {', '.join(map(spoken, found['broken']))}."
    kept = found["outcome"] == "kept"
    return "Nothing was broken." if kept else f"Unknown: {found['told']}."


# ── All of them ─────────────────────────────────────────────────────────────────────────────

_STANDINGS = {"kept": Standing.HOLDS, "broken": Standing.FAILS}


def standing_of(summary: CampaignSummary) -> Standing:
    """The standing of a campaign."""
    if summary.outcomes["broken"]:
        return Standing.FAILS
    return Standing.UNKNOWN if summary.outcomes["unknown"] else Standing.HOLDS


def print_summary(output: Output, summary: CampaignSummary, out: str) -> None:
    """Print how many runs broke what, the first of them, and the curve of edges."""
    plan = summary.plan
    output.line(
        f"{plan.protocol}: {counted(plan.runs, 'run')}, seeds {plan.first_seed} to"
        f" {plan.first_seed + plan.runs - 1}, {summary.seconds:.1f} s"
        f" ({plan.runs / summary.seconds:.2f} runs a second, {summary.cpu_s:.1f} s of processor)"
    )
    if summary.broken:
        table = table_of("broken", "runs")
        for name, count in summary.broken.most_common():
            table.add_row(spoken(name), f"{count:,}")
        output.line()
        output.table(table)
        _again(output, plan, summary.first)
    if unknown := summary.outcomes["unknown"]:
        output.line()
        output.line(f"{counted(unknown, 'run')} could not be judged")
        _again(output, plan, summary.unjudged)
    output.line()
    output.line(f"{counted(summary.edges, 'edge')} of the spec, seen coarsely, were taken:")
    before = 0
    table = table_of("runs", "new edges", "per thousand runs", "edges")
    for point in summary.curve:
        rate = 1000 * point["new"] / (point["runs"] - before)
        before = point["runs"]
        table.add_row(f"{before:,}", f"{point['new']:,}", f"{rate:,.0f}", f"{point['edges']:,}")
    output.table(table)
    output.line()
    place = Path(out).absolute() if "://" not in out else out
    output.line(f"tables: {place} (herdproof report {out})")
    standing = standing_of(summary)
    output.line(conclusion(summary, standing), style=COLOURS[standing])


def _again(output: Output, plan: Plan, runs: Sequence[Any]) -> None:
    """Print how each of these runs is seen again, and what came of it."""
    flaw = f" --flaw {plan.flaw}" if plan.flaw else ""
    for row in runs:
        again = f"herdproof campaign {plan.protocol} --seed {row['seed']} --mix {row['mix']}{flaw}"
        output.line(f"{again}: {row['told']}")


def conclusion(summary: CampaignSummary, standing: Standing) -> str:
    """The last line."""
    if standing is Standing.FAILS:
        return f"It fails: {counted(summary.outcomes['broken'], 'run')} broke a promise."
    if standing is Standing.UNKNOWN:
        return "Unknown: something could not be judged."
    return f"No promise was broken in {counted(summary.plan.runs, 'run')}, which proves nothing."


def main() -> None:
    """The job by itself, as `spark-submit` starts it: from a copy of this file."""
    from herdproof.cli.errors import Commands

    app = typer.Typer(
        cls=Commands, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True
    )
    app.command("campaign")(campaign)
    app.callback()(lambda: None)
    app(["campaign", *sys.argv[1:]])


if __name__ == "__main__":
    # What is pickled for the workers has to be found there by its name, which is not __main__.
    from herdproof.cli.code.campaign import main as command

    command()
