"""
The command line: `herdproof verify`, and the other commands, in folders by what they are about.

Exit codes: 0 it holds, 1 a property fails, 2 it could not be asked (usage, or something is
missing), 3 cut short or unknown, 130 Ctrl-C. Each command imports what it needs when it is called:
`elect` runs in a small container without the checkers' libraries.
"""

from __future__ import annotations

import typer

from herdproof.cli import verify
from herdproof.cli.code import audit, campaign, conform, replay, tables_report
from herdproof.cli.errors import Commands
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
from herdproof.cli.spec import diff, explore, mutate, new, prove, refine, search, simulate, step

app = typer.Typer(
    cls=Commands,
    name="herdproof",
    help="Coordination protocols: specified, proved, tested and run from one source.",
    epilog="Exit codes: 0 holds, 1 fails, 2 usage or something is missing, 3 cut short or unknown.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(verify.verify)
app.command()(explore.explore)
app.command()(step.step)
app.command()(prove.prove)
app.command()(refine.refine)
app.command()(search.search)
app.command()(simulate.simulate)
app.command()(mutate.mutate)
app.command()(replay.replay)
app.command()(diff.diff)
app.command()(conform.conform)
app.command()(audit.audit)
app.command()(zookeeper.zookeeper)
app.command()(kafka.kafka)
app.command()(elect.elect)
app.command()(coordinator.coordinator)
app.command()(broker.broker)
app.command()(consume.consume)
app.add_typer(groups.groups)
app.command()(new.new)
app.command()(campaign.campaign)
app.command()(tables_report.report)
app.command()(doctor.doctor)

__all__ = ["app"]
