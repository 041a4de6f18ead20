"""`herdproof kafka`: real Kafka brokers beside a ZooKeeper, until Ctrl-C; nothing of them stays."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.report.render import Output
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.kafka.embedded import EmbeddedKafka

LOOK_EVERY_S = 1.0
LAST_PORT = 65_535


def kafka(
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOSTS", help="A ZooKeeper that runs; one is started where not said."),
    ] = None,
    brokers: Annotated[int, typer.Option(min=1, max=9, help="How many brokers.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=LAST_PORT, help="The first broker's port; free ones are chosen."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PARTITIONS", help="A topic to create; may be said again."),
    ] = None,
) -> None:
    """Run a real Kafka until Ctrl-C or SIGTERM; its first lines of output are the addresses."""
    from herdproof.kafka.embedded import EmbeddedKafka
    from herdproof.kafka.jars import kafka_jars
    from herdproof.zookeeper.embedded import EmbeddedZooKeeper

    if port is not None and port + brokers - 1 > LAST_PORT:
        raise UsageError(f"--port {port}: there are no {brokers} ports from there on")
    topics = [topic_of(text) for text in topic or []]
    output = Output()
    with ExitStack() as running:
        with output.progress("starting Kafka"):
            kafka_jars(output.errors.print)
            if zookeeper is None:
                zookeeper = running.enter_context(EmbeddedZooKeeper()).hosts
            ports = [None if port is None else port + n for n in range(brokers)]
            cluster = [
                running.enter_context(EmbeddedKafka(zookeeper, broker_id=n, port=p))
                for n, p in enumerate(ports, start=1)
            ]
            for name, partitions in topics:
                cluster[0].create_topic(name, partitions)
        print(f"kafka={','.join(broker.bootstrap for broker in cluster)}")
        print(f"zookeeper={zookeeper}", flush=True)
        print("Press Ctrl-C to stop it; its data go with it.", file=sys.stderr, flush=True)
        look_on(cluster)


def look_on(cluster: list[EmbeddedKafka]) -> None:
    """Wait for ever; raises `ServerFailed` when a broker ends by itself."""
    from herdproof.servers import ServerFailed

    never = threading.Event()
    while not never.wait(LOOK_EVERY_S):
        dead = [broker.bootstrap for broker in cluster if not broker.alive()]
        if dead:
            raise ServerFailed(f"The Kafka broker at {', '.join(dead)} has ended.")


def topic_of(text: str) -> tuple[str, int]:
    """`NAME:PARTITIONS`, taken apart; raises `UsageError`."""
    name, _, partitions = text.rpartition(":")
    if not name or not partitions.isdecimal() or int(partitions) < 1:
        raise UsageError(f"--topic {text}: write NAME:PARTITIONS, such as orders:4")
    return name, int(partitions)
