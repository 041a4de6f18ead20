"""
`herdproof broker`: a server that unmodified Kafka clients join groups at, until Ctrl-C or SIGTERM.

Its first line on stdout, `listening HOST:PORT`, says what to bootstrap from. Logs go to stderr.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from herdproof.cli.options import RunOption, TraceOption
from herdproof.cli.run.elect import opened
from herdproof.cli.run.kafka import topic_of
from herdproof.cli.run.serving import allow_open_files, until_signalled
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.broker.answering import GroupApis
    from herdproof.broker.metrics import BrokerMetrics
    from herdproof.broker.server import BrokerServer
    from herdproof.broker.upstream import Address
    from herdproof.protocols.group_protocol.server.configuration import BrokerConfiguration
    from herdproof.protocols.group_protocol.server.cores import GroupCore

log = logging.getLogger(__name__)


def broker(
    in_front_of: Annotated[
        str | None,
        typer.Option(metavar="HOSTS", help="A real Kafka, host:port,host:port, with the records."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:N", help="By itself: a topic to create; may be said again."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings (TOML); options win over it.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen (127.0.0.1).")] = None,
    port: Annotated[
        int | None,
        typer.Option(help="The port (9092; 0: free ones). Kafka's brokers have those that follow."),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOSTS", help="Groups are stored there; one broker is elected."),
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option(metavar="N", help="This broker's id (1), of several.")
    ] = None,
    observe: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Kafka keeps its groups; its answers are written there."),
    ] = None,
    rebalance_delay: Annotated[
        int | None,
        typer.Option(metavar="MS", help="How long an empty group waits for more to join (3000)."),
    ] = None,
    bug: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For tests: have this bug of Kafka's (KAFKA-9801, say)."),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics to Prometheus on this port.")
    ] = None,
    trace: TraceOption = None,
    run: RunOption = "group_protocol",
    log_form: Annotated[
        str | None, typer.Option("--log", metavar="text|json", help="How to log, on stderr.")
    ] = None,
) -> None:
    """Coordinate consumer groups for any Kafka client. By itself, or in front of a real Kafka."""
    from herdproof.broker.metrics import BrokerMetrics
    from herdproof.protocols.group_protocol.server.configuration import read_broker

    check_together(in_front_of, topic, observe, zookeeper, trace or bug)
    kafka = None if in_front_of is None else addresses_of(in_front_of)
    topics = dict(map(topic_of, topic or []))
    said = {
        "broker_id": broker_id, "zookeeper.hosts": zookeeper, "listener.host": host,
        "listener.port": port, "metrics.port": metrics_port,
        "log.form": log_form, "groups.group_initial_rebalance_delay_ms": rebalance_delay,
    }  # fmt: skip
    configuration = read_broker(config, said)
    with ExitStack() as stack:
        metrics = BrokerMetrics()
        prepare(stack, configuration, metrics)
        if kafka is not None and observe is not None:
            stream = stack.enter_context(appended(observe))
            serving = serve_observed(configuration, metrics, kafka, run, stream)
        else:
            core = stack.enter_context(core_of(bug, trace, configuration.broker_id, run))
            serving = serve(configuration, metrics, kafka, topics, core)
        code = metrics.holds.run(until_signalled(serving))
    raise typer.Exit(code)


def prepare(stack: ExitStack, configuration: BrokerConfiguration, metrics: BrokerMetrics) -> None:
    """Log, allow for as many connections, and serve metrics, as the settings say."""
    from prometheus_client import disable_created_metrics

    from herdproof.shells.logs import log_to_stderr
    from herdproof.shells.metrics import MetricsServer

    disable_created_metrics()  # type: ignore[no-untyped-call] # they double the figures
    log_to_stderr(configuration.log.form, configuration.log.level)
    allow_open_files(configuration.listener.max_connections, "listener.max_connections")
    where = configuration.metrics
    if where.port is not None:
        pages = MetricsServer(metrics.registry, where.host, where.port, metrics.health)
        served = stack.enter_context(pages)
        log.info("metrics on %s:%d", where.host, served.port)


@contextmanager
def core_of(bug: str | None, trace: Path | None, broker_id: int, run: str) -> Iterator[GroupCore]:
    """The core, perhaps one with a bug, and what writes its trace, if that is to be."""
    from herdproof.conformance.traces.tracer import open_trace
    from herdproof.protocols.group_protocol.server.cores import GroupCore, core_with
    from herdproof.protocols.group_protocol.tracing import GroupTracer

    coordinator = core_with(bug)
    if trace is None:
        yield GroupCore(coordinator)
        return
    with opened(trace, open_trace) as stream:
        yield GroupCore(coordinator, GroupTracer(str(broker_id), run, stream))


def check_together(
    in_front_of: str | None, topic: list[str] | None, observe: Path | None,
    zookeeper: str | None, ours: Path | str | None,
) -> None:  # fmt: skip
    """Raises `UsageError` for options that do not go together."""
    if in_front_of is not None and topic:
        raise UsageError("--topic and --in-front-of: a real Kafka's topics are created there")
    if observe is not None and (in_front_of is None or zookeeper is not None):
        raise UsageError("--observe goes with --in-front-of, and not with --zookeeper")
    if observe is not None and ours is not None:
        raise UsageError("--trace and --bug do not go with --observe: there Kafka coordinates")


async def serve(
    configuration: BrokerConfiguration, metrics: BrokerMetrics, kafka: list[Address] | None,
    topics: dict[str, int], core: GroupCore,
) -> None:  # fmt: skip
    """Serve until the server fails, or this is cancelled."""
    from herdproof.broker.alone import AloneBroker
    from herdproof.broker.front import FrontBroker
    from herdproof.broker.sasl import SaslUsers
    from herdproof.broker.server import BrokerServer

    if kafka is not None and configuration.sasl is not None:
        raise UsageError("sasl and --in-front-of: users are those of a broker by itself")
    listener = configuration.listener
    async with BrokerServer(listener, configuration.tls, metrics) as server:
        if kafka is None:
            users = None if configuration.sasl is None else SaslUsers(configuration.sasl)
            alone = AloneBroker(server, configuration.broker_id, configuration.records)
            knows = alone.log.has
            async with coordinating(configuration, server, core, knows) as (groups, stand):
                here = await alone.open(listener, topics, groups, users)
                await stand((here.host, here.port))
                await served(server, (here.host, here.port))
        else:
            async with coordinating(configuration, server, core) as (groups, stand):
                front = FrontBroker(
                    server, kafka, listener, groups, configuration.broker_id, configuration.kafka
                )
                address = await front.open()
                found = front.here()
                assert found is not None, "it is open"
                await stand((found.host, found.port))
                await served(server, address)


async def serve_observed(
    configuration: BrokerConfiguration, metrics: BrokerMetrics, kafka: list[Address],
    run: str, stream: TextIO,
) -> None:  # fmt: skip
    """Serve in front of a Kafka that coordinates, and write down what it answers."""
    from herdproof.broker.observing import ObservedFront
    from herdproof.broker.server import BrokerServer
    from herdproof.protocols.group_protocol.server.translation import VERSIONS
    from herdproof.protocols.group_protocol.tracing import AnswersTracer

    see = AnswersTracer(run, stream)
    listener = configuration.listener
    async with BrokerServer(listener, configuration.tls, metrics) as server:
        front = ObservedFront(server, kafka, listener, VERSIONS, see, configuration.kafka)
        await served(server, await front.open())


def appended(file: Path) -> TextIO:
    """A file to append to; a place that cannot be written to is misuse."""
    try:
        return file.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--observe {file}: it cannot be written ({error.strerror or error})"
        ) from None


async def served(server: BrokerServer, address: Address) -> None:
    """Say where to bootstrap from, and serve until it ends."""
    from herdproof.shells.health import serving, starting

    health = server.metrics.health
    health.loop = asyncio.get_running_loop()
    if health.ready is starting:  # nobody else knows better
        health.ready = serving
    print("listening {}:{}".format(*address), flush=True)
    await server.until_it_ends()


@asynccontextmanager
async def coordinating(
    configuration: BrokerConfiguration, server: BrokerServer, core: GroupCore,
    knows: Callable[[str, int], bool] = lambda _topic, _partition: True,
) -> AsyncIterator[tuple[GroupApis, Callable[[Address], Awaitable[None]]]]:  # fmt: skip
    """A coordinator, and what lets it coordinate once clients can find it; its groups' place."""
    from herdproof.protocols.group_protocol.server.metrics import GroupMetrics
    from herdproof.protocols.group_protocol.server.shell import GroupShell
    from herdproof.protocols.group_protocol.server.standing import StandingGroups
    from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore

    settings = configuration.groups
    if configuration.zookeeper is None:
        alone = GroupShell(
            settings, MemoryGroupStore(), fail=server.fail, knows_partition=knows,
            coordinator=core.coordinator, observe=core.observe,
            metrics=GroupMetrics(server.metrics.registry),
        )  # fmt: skip

        async def lead(_address: Address) -> None:
            alone.elected(epoch=1)

        yield alone, lead
        return
    groups = StandingGroups(
        settings, configuration.zookeeper, configuration.broker_id,
        fail=server.fail, knows_partition=knows, coordinator=core.coordinator,
        observe=core.observe, registry=server.metrics.registry,
    )  # fmt: skip
    try:
        await groups.start()
        server.metrics.health.ready = groups.condition
        yield groups, groups.stand
    finally:
        await groups.close()


def addresses_of(hosts: str) -> list[Address]:
    """`host:port,host:port`, taken apart; raises `UsageError`."""
    found = []
    for text in hosts.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise UsageError(f"--in-front-of {text}: write host:port, such as 127.0.0.1:9092")
        found.append((host, int(port)))
    return found
