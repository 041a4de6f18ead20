"""`herdproof audit SOURCE…`: traces of any size, judged; tables of what was found."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.cli.options import BOOTSTRAP_NAMES, WHERE_KAFKA_LISTENS
from herdproof.report.render import COLOURS, JsonOption, Output, spoken, table_of
from herdspec.check.verdict import Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.pipeline.audit.here import AuditHere
    from herdproof.pipeline.audit.summary import Summary
    from herdproof.pipeline.spark.sources import Sources
    from herdspec.check.verify import Tell

SparkOption = Annotated[
    str | None,
    typer.Option(
        "--spark", metavar="MASTER", help="Run on Spark, this one: local[*], spark://HOST:PORT, …"
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be said again."),
]


FOLLOWED_S = 60.0
"""Seconds that a line may come late, and after which tables are renewed, where not said."""

SourcesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...", help="Traces, Parquet, directories of these, or patterns."
    ),
]
OutOption = Annotated[str, typer.Option("--out", metavar="DIR", help="Where the tables go.")]
KafkaOption = Annotated[
    str | None,
    typer.Option(*BOOTSTRAP_NAMES, "--kafka", metavar="HOSTS", help=WHERE_KAFKA_LISTENS),
]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="The topic with the lines.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")
]
UntilIdleOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="--follow: end when nothing came so long."),
]
LateOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="--follow: how late a line may come (60)."),
]
RefreshOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="--follow: how often tables are renewed (60)."),
]
AtOnceOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="--follow: so many files, or records, at once."),
]
ClusterOption = Annotated[
    str, typer.Option("--run", metavar="NAME", help="What to call a __consumer_offsets.")
]
NoReplayOption = Annotated[
    bool, typer.Option("--no-replay", help="Check the contract alone, not the spec.")
]


def audit(
    sources: SourcesArgument = None,
    out: OutOption = "audit",
    kafka: KafkaOption = None,
    topic: TopicOption = None,
    follow: FollowOption = False,
    until_idle: UntilIdleOption = None,
    late: LateOption = None,
    refresh: RefreshOption = None,
    at_once: AtOnceOption = None,
    run: ClusterOption = "cluster",
    no_replay: NoReplayOption = False,
    spark: SparkOption = None,
    conf: ConfOption = None,
    json: JsonOption = None,
) -> None:
    """Judge traces of any size by the contract and the spec. It writes tables of what it finds."""
    from herdproof.pipeline.spark.sources import Topic, check_topic, find_sources, followed_sources

    output = Output(json)
    if (kafka is None) != (topic is None):
        raise UsageError("--bootstrap-servers and --topic go together")
    if not sources and kafka is None:
        raise UsageError("name a SOURCE, or --bootstrap-servers and --topic")
    of_follow = {
        "--until-idle": until_idle, "--late": late, "--refresh": refresh, "--at-once": at_once,
    }  # fmt: skip
    if not follow and (said := [name for name, value in of_follow.items() if value is not None]):
        raise UsageError(f"{said[0]} is for --follow")
    find = followed_sources if follow else find_sources
    found = find(sources or [], Topic(kafka, topic) if kafka and topic else None)
    for name in found.skipped[:5]:
        output.errors.print(f"no trace by its name or kind, and left out: {name}", markup=False)
    if len(found.skipped) > 5:
        output.errors.print(f"and {len(found.skipped) - 5:,} more files", markup=False)
    if found.topic:
        check_topic(found.topic)
    own = dict(setting(text) for text in conf or [])
    here = None if follow or spark is not None or own else judged_here(found, out)
    settings = {**own, **kafka_settings(found, output)}
    master = spark or "local[*]"
    with output.progress("audit") as tell:
        if here is not None:
            summary = audited_here(found, out, tell, replay=not no_replay, run=run, audit=here)
        elif follow:
            summary = followed(
                found, out, master, settings, tell, not no_replay,
                late=FOLLOWED_S if late is None else late, until_idle=until_idle,
                refresh=FOLLOWED_S if refresh is None else refresh, at_once=at_once,
            )  # fmt: skip
        else:
            summary = audited(found, out, master, settings, tell, replay=not no_replay, run=run)
    print_summary(output, summary, out)
    output.json(summary.as_json())
    raise typer.Exit(summary.exit)


def setting(text: str) -> tuple[str, str]:
    """A `KEY=VALUE` of Spark's."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise UsageError(f"--conf {text}: say it as spark.some.setting=value")
    return key, value


def kafka_settings(found: Sources, output: Output) -> Mapping[str, str]:
    """The settings that Spark needs to read a topic."""
    if found.topic is None:
        return {}
    from herdproof.pipeline.spark.connector import connector_settings

    return connector_settings(output.errors.print)


def judged_here(found: Sources, out: str) -> type[AuditHere] | None:
    """The audit, in this process or in several, for which nobody asks for a Spark; or none."""
    if "PYSPARK_GATEWAY_PORT" in os.environ or "://" in out:  # spark-submit's; Spark's to write
        return None
    from herdproof.pipeline.audit.here import AuditHere, fits_here
    from herdproof.pipeline.audit.processes import AuditByProcesses, fits_processes

    if fits_here(found):
        return AuditHere
    return AuditByProcesses if fits_processes(found) else None


def audited_here(
    found: Sources, out: str, tell: Tell, *, replay: bool, run: str,
    audit: type[AuditHere] | None = None,
) -> Summary:  # fmt: skip
    """The batch audit without Spark: in this process, or as `audit` says."""
    from herdproof.garbage import few_collections
    from herdproof.pipeline.audit.here import AuditHere
    from herdproof.pipeline.audit.work import protocol_work
    from herdproof.pipeline.spark.store import OutputDirectory

    with few_collections():
        job = (audit or AuditHere)(protocol_work(), tell, replay, run)
        summary = job.run(found, OutputDirectory(None, out))
    gc.freeze()  # what has been compiled is no garbage, and is not looked at when the process ends
    return summary


def audited(
    found: Sources, out: str, master: str, settings: Mapping[str, str], tell: Tell, *,
    replay: bool, run: str,
) -> Summary:  # fmt: skip
    """The batch audit, in a session of its own."""
    from herdproof.pipeline.audit.audit import SETTINGS, Audit
    from herdproof.pipeline.audit.work import protocol_work
    from herdproof.pipeline.spark.master import master_of
    from herdproof.pipeline.spark.session import spark_job
    from herdproof.pipeline.spark.store import OutputDirectory

    tell("starting Spark", None)
    with spark_job("audit", master_of(master), {**SETTINGS, **settings}) as session:
        job = Audit(session, protocol_work(), tell, replay, run)
        return job.run(found, OutputDirectory(session, out))


def followed(
    found: Sources, out: str, master: str, settings: Mapping[str, str], tell: Tell, replay: bool,
    *, late: float, until_idle: float | None, refresh: float, at_once: int | None = None,
) -> Summary:  # fmt: skip
    """The streaming audit, in a session of its own."""
    from herdproof.pipeline.audit.audit import SETTINGS
    from herdproof.pipeline.audit.stream import Follow
    from herdproof.pipeline.audit.work import protocol_work
    from herdproof.pipeline.spark.master import master_of
    from herdproof.pipeline.spark.session import spark_job

    tell("starting Spark", None)
    with spark_job("audit --follow", master_of(master), {**SETTINGS, **settings}) as session:
        job = Follow(session, protocol_work(), found, out, tell, replay, int(late * 1e9), at_once)
        return job.run(until_idle, refresh)


def print_summary(output: Output, summary: Summary, out: str) -> None:
    """The counts, a row for each property, the violations, and where the tables are."""
    aside = ", ".join(f"{count:,} {spoken(r)}" for r, count in summary.quarantined.items())
    output.line(
        f"{summary.sources}: {counted(summary.records, 'record')} = {summary.judged:,} judged"
        f" + {sum(summary.quarantined.values()):,} in quarantine{aside and f' ({aside})'}"
    )
    output.line(f"{counted(summary.runs, 'run')}, {counted(summary.groups, 'group')}")
    if summary.verdicts:
        from herdproof.pipeline.audit.summary import VERDICTS

        table = table_of("property", *(f"{verdict}" for verdict in VERDICTS))
        for name, counts in summary.verdicts.items():
            cells = [f"{counts[v]:,}" if v in counts else "" for v in VERDICTS]
            table.add_row(spoken(name), *cells)
        output.line()
        output.table(table)
    for why in summary.unknown:
        output.line(f"unknown: {why}")
    for found in summary.told:
        output.line(f"{spoken(found.property)}, {found.run} {found.group}: {found.told}")
        output.line(f"  {found.place}")
    if summary.violations > len(summary.told):
        output.line(f"and {summary.violations - len(summary.told):,} more violations")
    output.line()
    output.line(f"tables: {Path(out).absolute() if '://' not in out else out}")
    standing = Standing(summary.exit)
    output.line(conclusion(summary), style=COLOURS[standing])


def conclusion(summary: Summary) -> str:
    """The last line."""
    if summary.exit == 1:
        return f"It fails: {counted(summary.violations, 'violation')}."
    if summary.exit == 0:
        return "It holds, as far as these sources can tell."
    if not summary.judged:
        return f"Unknown: nothing was judged, {nothing_judged(summary)}."
    if not any("unknown" in counts for counts in summary.verdicts.values()):
        if summary.unjudged:
            return (
                f"Unknown: {counted(summary.unjudged, 'record')} could not be judged, of which the"
                f" table quarantine says why."
            )
        return (
            "Unknown: nothing is violated that these sources show; they cannot show that it holds."
        )
    return "Unknown: something could not be judged."


def nothing_judged(summary: Summary) -> str:
    """Why an audit has judged nothing."""
    if not summary.records:
        return "since there is no record in these sources"
    why = "since every record is in quarantine, of which the table quarantine says why"
    if "unknown_protocol" in summary.quarantined:
        why += "; traces of a spec of your own are for `herdproof conform --spec FILE.py:SPEC`"
    return why


def main() -> None:
    """The job by itself, as `spark-submit` starts it: from a copy of this file."""
    from herdproof.cli.errors import Commands

    app = typer.Typer(
        cls=Commands, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True
    )
    app.command("audit")(audit)
    app.callback()(lambda: None)
    app(["audit", *sys.argv[1:]])


if __name__ == "__main__":
    # What is pickled for the workers has to be found there by its name, which is not __main__.
    from herdproof.cli.code.audit import main as command

    command()
