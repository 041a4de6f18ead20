"""
`herdproof consume`: a member of a consumer group that prints the records it gets, until Ctrl-C.

Start several with one GROUP, kill one, and watch the others take over.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdproof.cli.options import (
    BOOTSTRAP_SERVERS,
    KafkaOption,
    RunOption,
    TraceOption,
    kafka_settings,
)
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.consumer import Consumer, RebalanceListener, Record
    from herdproof.record import TopicPartition
    from herdproof.shells.metrics import MetricsServer

ConfigOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A consumer's arguments (TOML); options win over it."),
]
TlsAuthorityOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Speak TLS to coordinators: who signs their certificates."),
]
TlsCertificateOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Its own certificate for them (PEM).")
]
TlsKeyOption = Annotated[str | None, typer.Option(metavar="FILE", help="The key of that.")]
ProtocolOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The group's: central, self_rebalancing, group_protocol."),
]
CoordinatorsOption = Annotated[
    str | None,
    typer.Option(
        "--coordinators",
        "--brokers",
        metavar="HOSTS",
        help="Where coordinators listen: host:port,host:port",
    ),
]
ZooKeeperOption = Annotated[
    str | None,
    typer.Option(metavar="HOSTS", help="Of a group that rebalances by itself: ZooKeeper's."),
]
ResetOption = Annotated[
    str | None,
    typer.Option("--reset", metavar="WHERE", help="Without an offset: smallest, largest."),
]
SessionTimeoutOption = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="SECONDS", help="When others take over from it."),
]
PingIntervalOption = Annotated[
    float | None,
    typer.Option(min=0.05, metavar="SECONDS", help="How often a coordinator asks it."),
]


def consume(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group to join.")],
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC...", help='Topics, or one pattern that begins with "^".'),
    ],
    bootstrap_servers: Annotated[str | None, BOOTSTRAP_SERVERS] = None,
    config: ConfigOption = None,
    protocol: ProtocolOption = None,
    coordinators: CoordinatorsOption = None,
    zookeeper: ZooKeeperOption = None,
    reset: ResetOption = None,
    streams: Annotated[int, typer.Option(min=1, help="Streams of each topic.")] = 1,
    consumer_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="This consumer's name.")
    ] = None,
    session_timeout: SessionTimeoutOption = None,
    ping_interval: PingIntervalOption = None,
    max_records: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after so many records.")
    ] = None,
    no_commit: Annotated[
        bool, typer.Option("--no-commit", help="Leave the group's offsets as they are.")
    ] = False,
    gives_up: Annotated[
        bool | None, typer.Option("--gives-up", help="End if no known broker answers.")
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Print each record as a line of JSON.")
    ] = False,
    metrics_port: Annotated[
        int | None, typer.Option(metavar="N", help="Serve its metrics on this port.")
    ] = None,
    kafka: KafkaOption = None,
    tls_authority: TlsAuthorityOption = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    trace: TraceOption = None,
    run: RunOption = "",
) -> None:
    """Join a consumer group and print its records. At Ctrl-C or SIGTERM it leaves the group."""
    from herdproof.consumer import CommitFailed, Consumer

    logging.basicConfig(format="herdproof: %(message)s", level=logging.WARNING)
    if len(topics) > 1 and any(topic.startswith("^") for topic in topics):
        raise UsageError("TOPIC: either one pattern or names of topics, not both")
    tls = {"authority": tls_authority, "certificate": tls_certificate, "key": tls_key}
    said = {
        "group": group, "protocol": protocol, "bootstrap_servers": bootstrap_servers,
        "consumer_id": consumer_id, "auto_offset_reset": reset,
        "auto_commit": False if no_commit else None, "session_timeout_s": session_timeout,
        "trace": trace, "run": run or None, "coordinators": coordinators, "zookeeper": zookeeper,
        "ping_interval_s": ping_interval, "gives_up": gives_up, "kafka": kafka_settings(kafka),
        "tls": {name: file for name, file in tls.items() if file} or None,
    }  # fmt: skip
    with Consumer.from_file(config, listener=teller(), **said) as consumer, ExitStack() as stack:
        if metrics_port is not None:
            stack.enter_context(measured(consumer, metrics_port))
        consumer.subscribe(topics[0] if topics[0].startswith("^") else topics, streams=streams)
        for number, record in enumerate(consumer, start=1):
            print(line(record, json_lines), flush=True)
            if number == max_records:
                with suppress(CommitFailed):  # it will be delivered again
                    if not no_commit:
                        consumer.commit(record)
                return


def measured(consumer: Consumer, port: int) -> MetricsServer:
    """The server of the consumer's figures, and of whether it is well."""
    from herdproof.consuming.metrics import ConsumerMetrics
    from herdproof.shells.health import Health
    from herdproof.shells.metrics import MetricsServer

    figures = ConsumerMetrics(consumer)
    server = MetricsServer(figures.registry, "127.0.0.1", port, Health(figures.condition))
    print(f"metrics on 127.0.0.1:{server.port}", file=sys.stderr, flush=True)
    return server


def teller() -> RebalanceListener:
    """A listener that says on stderr what this consumer has."""
    from herdproof.consumer import RebalanceListener

    class PrintingListener(RebalanceListener):
        """A record of what it was given, and what it has lost."""

        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            say("assigned", partitions)

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            say("revoked", partitions)

    return PrintingListener()


def say(what: str, partitions: Sequence[TopicPartition]) -> None:
    """Tell of a change of the assignment, beside the records."""
    names = " ".join(f"{place.topic}-{place.partition}" for place in partitions)
    print(f"{what}: {names or 'nothing'}", file=sys.stderr, flush=True)


def line(record: Record, as_json: bool) -> str:
    """A record as it is printed."""
    if as_json:
        return json.dumps(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": text(record.key),
                "value": text(record.value),
            }
        )
    key = "" if record.key is None else f"{text(record.key)}: "
    said = f"{record.topic}-{record.partition}@{record.offset} {key}{text(record.value) or ''}"
    return said.replace("\r", "\\r").replace("\n", "\\n")


def text(data: bytes | None) -> str | None:
    r"""Bytes as text; what is no UTF-8 as escapes, like \\xff."""
    return None if data is None else data.decode("utf-8", "backslashreplace")
