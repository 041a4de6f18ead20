"""
`herdproof coordinator`: the central coordinator beside one Kafka broker, until Ctrl-C or SIGTERM.

Its first line on stdout, `listening HOST:PORT`, says that it can be consulted. Logs go to stderr.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.cli.options import RunOption, TraceOption
from herdproof.cli.run.elect import opened
from herdproof.cli.run.serving import allow_open_files, until_signalled

if TYPE_CHECKING:
    from herdproof.protocols.central_coordinator.server.configuration import Configuration
    from herdproof.protocols.central_coordinator.server.metrics import Metrics
    from herdproof.protocols.central_coordinator.server.server import Observe

log = logging.getLogger(__name__)


def coordinator(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings (TOML); options win over it.")
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option(metavar="N", help="The id of the Kafka broker beside it.")
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOSTS", help="host:port,host:port, as the broker's.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="The port (9192; 0 takes a free one).")] = None,
    advertised_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="What consumers are told to connect to.")
    ] = None,
    advertised_port: Annotated[
        int | None, typer.Option(metavar="N", help="And at which port, if it is another one.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics to Prometheus on this port.")
    ] = None,
    metrics_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="And at this address (127.0.0.1).")
    ] = None,
    trace: TraceOption = None,
    run: RunOption = "central_coordinator",
    log_form: Annotated[
        str | None, typer.Option("--log", metavar="text|json", help="How to log, on stderr.")
    ] = None,
) -> None:
    """Coordinate every consumer group of the cluster, if elected. Else it tells who does."""
    from prometheus_client import disable_created_metrics

    from herdproof.conformance.traces.tracer import open_trace
    from herdproof.garbage import short_collections
    from herdproof.protocols.central_coordinator.server.configuration import read
    from herdproof.protocols.central_coordinator.server.metrics import Metrics
    from herdproof.protocols.central_coordinator.server.server import ignore_event
    from herdproof.protocols.central_coordinator.tracing import CoordinatorTracer
    from herdproof.shells.logs import log_to_stderr
    from herdproof.shells.metrics import MetricsServer

    said = {
        "broker_id": broker_id, "zookeeper.hosts": zookeeper, "listener.host": host,
        "listener.port": port, "listener.advertised_host": advertised_host,
        "listener.advertised_port": advertised_port, "metrics.port": metrics_port,
        "metrics.host": metrics_host, "log.form": log_form,
    }  # fmt: skip
    configuration = read(config, said)
    disable_created_metrics()  # type: ignore[no-untyped-call] # they double the figures
    log_to_stderr(configuration.log.form, configuration.log.level)
    allow_open_files(configuration.coordinator.max_channels, "coordinator.max_channels")
    with ExitStack() as stack:
        metrics = Metrics()
        if configuration.metrics.port is not None:
            where = (configuration.metrics.host, configuration.metrics.port)
            served = stack.enter_context(MetricsServer(metrics.registry, *where, metrics.health))
            log.info("metrics on %s:%d", configuration.metrics.host, served.port)
        observe: Observe = ignore_event
        if trace is not None:
            stream = stack.enter_context(opened(trace, open_trace))
            observe = CoordinatorTracer(str(configuration.broker_id), run, stream)
        stack.enter_context(short_collections())  # a whole one takes long where members are many
        code = metrics.holds.run(serve(configuration, metrics, observe))
    raise typer.Exit(code)


async def serve(configuration: Configuration, metrics: Metrics, observe: Observe) -> int:
    """Run a server until a signal comes; the exit code that says by which signal."""
    from herdproof.protocols.central_coordinator.server.server import Server

    async def serving() -> None:
        async with Server(configuration, metrics, observe) as server:
            print("listening {}:{}".format(*server.address), flush=True)
            await server.until_it_ends()

    return await until_signalled(serving())
