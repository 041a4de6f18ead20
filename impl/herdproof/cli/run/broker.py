"""
`herdproof broker`: a server that unmodified Kafka clients join groups at, until Ctrl-C or SIGTERM.

Its first line on stdout, `listening HOST:PORT`, says what to bootstrap from. Logs go to stderr.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.cli.run.kafka import topic_of
from herdproof.cli.run.serving import allow_open_files, until_signalled
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.broker.answering import GroupApis
    from herdproof.broker.metrics import BrokerMetrics
    from herdproof.broker.server import BrokerServer
    from herdproof.broker.upstream import Address
    from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
    from herdproof.protocols.group_protocol.server.configuration import BrokerConfiguration

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
    log_form: Annotated[
        str | None, typer.Option("--log", metavar="text|json", help="How to log, on stderr.")
    ] = None,
) -> None:
    """Coordinate consumer groups for any Kafka client: by itself, or in front of a real Kafka."""
    from prometheus_client import disable_created_metrics

    from herdproof.protocols.group_protocol.server.configuration import read_broker
    from herdproof.protocols.group_protocol.server.cores import core_with
    from herdproof.shells.logs import log_to_stderr

    if in_front_of is not None and topic:
        raise UsageError("--topic and --in-front-of: a real Kafka's topics are created there")
    kafka = None if in_front_of is None else addresses_of(in_front_of)
    topics = dict(map(topic_of, topic or []))
    said = {
        "broker_id": broker_id, "zookeeper.hosts": zookeeper, "listener.host": host,
        "listener.port": port, "metrics.port": metrics_port,
        "log.form": log_form, "groups.group_initial_rebalance_delay_ms": rebalance_delay,
    }  # fmt: skip
    configuration = read_broker(config, said)
    coordinator = core_with(bug)
    disable_created_metrics()  # type: ignore[no-untyped-call] # they double the figures
    log_to_stderr(configuration.log.form, configuration.log.level)
    allow_open_files(configuration.listener.max_connections, "listener.max_connections")
    raise typer.Exit(run(configuration, kafka, topics, coordinator))


def run(
    configuration: BrokerConfiguration, kafka: list[Address] | None, topics: dict[str, int],
    coordinator: type[GroupCoordinator],
) -> int:  # fmt: skip
    """Serve clients, and metrics to Prometheus, until a signal; the code to exit by."""
    from herdproof.broker.metrics import BrokerMetrics
    from herdproof.shells.metrics import MetricsServer

    with ExitStack() as stack:
        metrics = BrokerMetrics()
        if configuration.metrics.port is not None:
            where = (configuration.metrics.host, configuration.metrics.port)
            served = stack.enter_context(MetricsServer(metrics.registry, *where))
            log.info("metrics on %s:%d", configuration.metrics.host, served.port)
        serving = serve(configuration, metrics, kafka, topics, coordinator)
        return asyncio.run(until_signalled(serving))


async def serve(
    configuration: BrokerConfiguration, metrics: BrokerMetrics, kafka: list[Address] | None,
    topics: dict[str, int], coordinator: type[GroupCoordinator],
) -> None:  # fmt: skip
    """Serve until the server fails, or this is cancelled."""
    from herdproof.broker.alone import AloneBroker
    from herdproof.broker.front import FrontBroker
    from herdproof.broker.server import BrokerServer

    listener = configuration.listener
    async with BrokerServer(listener, configuration.tls, metrics) as server:
        if kafka is None:
            alone = AloneBroker(server, configuration.broker_id, configuration.records)
            knows = alone.log.topics.__contains__
            async with coordinating(configuration, server, coordinator, knows) as (groups, stand):
                here = await alone.open(listener, topics, groups)
                await stand((here.host, here.port))
                await served(server, (here.host, here.port))
        else:
            async with coordinating(configuration, server, coordinator) as (groups, stand):
                front = FrontBroker(server, kafka, listener, groups)
                address = await front.open()
                found = front.here()
                assert found is not None, "Kafka has told of a broker"
                await stand((found.host, found.port))
                await served(server, address)


async def served(server: BrokerServer, address: Address) -> None:
    """Say where to bootstrap from, and serve until it ends."""
    print("listening {}:{}".format(*address), flush=True)
    await server.until_it_ends()


@asynccontextmanager
async def coordinating(
    configuration: BrokerConfiguration, server: BrokerServer,
    coordinator: type[GroupCoordinator],
    knows_topic: Callable[[str], bool] = lambda _topic: True,
) -> AsyncIterator[tuple[GroupApis, Callable[[Address], Awaitable[None]]]]:  # fmt: skip
    """A coordinator, and what lets it coordinate once clients can find it; its groups' place."""
    from herdproof.protocols.group_protocol.server.shell import GroupShell
    from herdproof.protocols.group_protocol.server.standing import StandingGroups
    from herdproof.protocols.group_protocol.stores.memory import MemoryGroupStore

    settings = configuration.groups
    if configuration.zookeeper is None:
        alone = GroupShell(
            settings, MemoryGroupStore(), fail=server.fail, knows_topic=knows_topic,
            coordinator=coordinator,
        )  # fmt: skip

        async def lead(_address: Address) -> None:
            alone.elected(epoch=1)

        yield alone, lead
        return
    groups = StandingGroups(
        settings, configuration.zookeeper, configuration.broker_id,
        fail=server.fail, knows_topic=knows_topic, coordinator=coordinator,
    )  # fmt: skip
    try:
        await groups.start()
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
