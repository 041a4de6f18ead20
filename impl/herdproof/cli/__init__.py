"""
The command line: `herdproof verify`, and the other commands, in folders by what they are about.

Exit codes: 0 it holds, 1 a property fails, 2 it could not be asked (usage, or something is
missing), 3 cut short or unknown, 130 Ctrl-C, 143 SIGTERM, but for services: these end well by it.
Each command imports what it needs when it is called: `elect` runs in a small container without the
checkers' libraries.
"""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Annotated

import typer

from herdproof.cli import verify
from herdproof.cli.code import audit, campaign, conform, replay, tables_report
from herdproof.cli.errors import Commands
from herdproof.cli.examples import example
from herdproof.cli.run import (
    broker,
    consume,
    coordinator,
    doctor,
    elect,
    groups,
    kafka,
    zookeeper,
)
from herdproof.cli.run.demo.command import demo
from herdproof.cli.run.serving import service
from herdproof.cli.spec import diff, explore, mutate, new, prove, refine, search, simulate, step

app = typer.Typer(
    cls=Commands,
    name="herdproof",
    epilog="Exit codes: 0 holds, 1 fails, 2 usage or something is missing, 3 cut short or unknown."
    " An option that is not given is read from the environment: --trace of consume from"
    " HERDPROOF_CONSUME_TRACE.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={
        "help_option_names": ["-h", "--help"], "auto_envvar_prefix": "HERDPROOF",
        "max_content_width": 100,
    },
)  # fmt: skip


def print_version(wanted: bool) -> None:
    """Which version this is, and no more."""
    if wanted:
        print(f"herdproof {version_of('herdproof')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Coordination protocols: specified, proved, tested and run from one source."""


for command in (
    verify.verify,
    explore.explore,
    step.step,
    prove.prove,
    refine.refine,
    search.search,
    simulate.simulate,
    mutate.mutate,
    replay.replay,
    diff.diff,
    conform.conform,
    audit.audit,
    demo,
    service(zookeeper.zookeeper),
    service(kafka.kafka),
    service(elect.elect),
    service(coordinator.coordinator),
    service(broker.broker),
    service(consume.consume),
    new.new,
    campaign.campaign,
    tables_report.report,
    doctor.doctor,
):
    app.command(epilog=example(command.__name__))(command)
app.add_typer(groups.groups)

__all__ = ["app"]
