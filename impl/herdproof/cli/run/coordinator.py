"""
`herdproof coordinator`: the central coordinator beside one Kafka broker, until Ctrl-C or SIGTERM.

Its first line on stdout, `listening HOST:PORT`, says that it can be consulted. Logs go to stderr.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.cli.errors import SIGNALLED
from herdproof.cli.options import RunOption, TraceOption
from herdproof.cli.run.elect import opened

if TYPE_CHECKING:
    from herdproof.protocols.central_coordinator.server.configuration import Configuration
    from herdproof.protocols.central_coordinator.server.metrics import Metrics
    from herdproof.protocols.central_coordinator.server.server import Observe

log = logging.getLogger(__name__)

SPARE_FILES = 64
"""Open files beside the consumers' connections: ZooKeeper's, the metrics', the libraries'."""


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
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics to Prometheus on this port.")
    ] = None,
    trace: TraceOption = None,
    run: RunOption = "central_coordinator",
    log_form: Annotated[
        str | None, typer.Option("--log", metavar="text|json", help="How to log, on stderr.")
    ] = None,
) -> None:
    """Coordinate every consumer group of the cluster, if elected; else tell who does."""
    from prometheus_client import disable_created_metrics

    from herdproof.conformance.traces.tracer import open_trace
    from herdproof.protocols.central_coordinator.server.configuration import read
    from herdproof.protocols.central_coordinator.server.metrics import Metrics
    from herdproof.protocols.central_coordinator.server.server import ignore_event
    from herdproof.protocols.central_coordinator.tracing import CoordinatorTracer
    from herdproof.shells.logs import log_to_stderr
    from herdproof.shells.metrics import MetricsServer

    said = {
        "broker_id": broker_id, "zookeeper.hosts": zookeeper, "listener.host": host,
        "listener.port": port, "metrics.port": metrics_port, "log.form": log_form,
    }  # fmt: skip
    configuration = read(config, said)
    disable_created_metrics()  # type: ignore[no-untyped-call] # they double the figures
    log_to_stderr(configuration.log.form, configuration.log.level)
    allow_open_files(configuration.coordinator.max_channels + SPARE_FILES)
    with ExitStack() as stack:
        metrics = Metrics()
        if configuration.metrics.port is not None:
            where = (configuration.metrics.host, configuration.metrics.port)
            served = stack.enter_context(MetricsServer(metrics.registry, *where))
            log.info("metrics on %s:%d", configuration.metrics.host, served.port)
        observe: Observe = ignore_event
        if trace is not None:
            stream = stack.enter_context(opened(trace, open_trace))
            observe = CoordinatorTracer(str(configuration.broker_id), run, stream)
        code = asyncio.run(serve(configuration, metrics, observe))
    raise typer.Exit(code)


async def serve(configuration: Configuration, metrics: Metrics, observe: Observe) -> int:
    """Run a server until a signal comes; the exit code that says by which signal."""
    from herdproof.protocols.central_coordinator.server.server import Server

    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    came: list[int] = []

    def end(number: int) -> None:
        """Begin to end; a second signal does not wait until that is done."""
        came.append(number)
        this.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    try:
        async with Server(configuration, metrics, observe) as server:
            print("listening {}:{}".format(*server.address), flush=True)
            await server.until_it_ends()
    except asyncio.CancelledError:
        if not came:
            raise
    return SIGNALLED + came[0]


def allow_open_files(wanted: int) -> None:
    """Have so many files open at once if the system lets us: each consumer's connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.info(
            "this system allows %d open files, so no more than about %d consumers can connect "
            "(ulimit -n; the setting coordinator.max_channels is %d)",
            allowed, allowed - SPARE_FILES, wanted - SPARE_FILES,
        )  # fmt: skip
