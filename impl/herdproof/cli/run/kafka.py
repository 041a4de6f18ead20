"""
`herdproof kafka`: real Kafka brokers beside a ZooKeeper, until Ctrl-C; what stays is asked for.

With `--keep DIR` all of it stays in that directory: whoever starts it there again finds the same
addresses, topics, records and groups.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
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
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep all data there, and go on with those that it has."),
    ] = None,
) -> None:
    """Run a real Kafka until Ctrl-C or SIGTERM. Its first lines of output are the addresses."""
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
            place = KeptFolder(keep)
            if zookeeper is None:
                server = EmbeddedZooKeeper(
                    port=place.port("zookeeper", None), directory=place.folder("zookeeper")
                )
                zookeeper = running.enter_context(server).hosts
            ports = [
                place.port(f"kafka {n + 1}", None if port is None else port + n)
                for n in range(brokers)
            ]
            cluster = [
                running.enter_context(
                    EmbeddedKafka(zookeeper, broker_id=n, port=p, directory=place.folder("kafka"))
                )
                for n, p in enumerate(ports, start=1)
            ]
            make_topics(cluster[0], topics)
        print(f"kafka={','.join(broker.bootstrap for broker in cluster)}")
        print(f"zookeeper={zookeeper}", flush=True)
        stays = "go with it" if keep is None else f"stay in {keep}"
        print(f"Press Ctrl-C to stop it; its data {stays}.", file=sys.stderr, flush=True)
        look_on(cluster)


def make_topics(broker: EmbeddedKafka, topics: list[tuple[str, int]]) -> None:
    """Create those that are not there; raises `UsageError` for one that is there otherwise."""
    here = broker.topics.partitions()
    for name, partitions in topics:
        if here.get(name, partitions) != partitions:
            raise UsageError(
                f"--topic {name}:{partitions}: it is there already, with {here[name]} partitions"
            )
        if name not in here:
            broker.create_topic(name, partitions)


class KeptFolder:
    """A folder whose services keep their data and their ports; None: nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file = Path() if folder is None else folder / "ports.json"

    def folder(self, name: str) -> Path | None:
        """Where a service's data lie."""
        return None if self._folder is None else self._folder / name

    def port(self, name: str, asked: int | None) -> int | None:
        """The port that is asked for, or that it had before, or from now on; None: any."""
        from herdproof.ports import free_ports

        if self._folder is None:
            return asked
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            known = json.loads(self._file.read_text()) if self._file.exists() else {}
            known[name] = asked or known.get(name) or free_ports(1, list(known.values()))[0]
            self._file.write_text(json.dumps(known))
        except (OSError, ValueError) as error:
            raise UsageError(f"--keep {self._folder}: it cannot be used ({error})") from None
        return int(known[name])


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
