"""
What system B's scenarios run in processes of its own: consumers, and a coordinator with a flaw.

    python central_programs.py consumers {"group": …, "topics": …, "members": {"a": 0.2}, …}
    python central_programs.py coordinator FLAW --zookeeper HOSTS …

Consumers report in lines of JSON: each record, and each change of what they have. `at` is the
machine's monotonic clock in seconds, which all processes share. A member's number says for how long
it winds up its work when partitions are taken from it; until then they are its own (PROTOCOLS.md,
the contract: a revoked partition is nobody else's before the listener has returned).
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

from herdproof.cli import app
from herdproof.consumer import Consumer, RebalanceListener
from herdproof.protocols.central_coordinator.client.reports import What
from herdproof.protocols.central_coordinator.events import (
    ConsumerEffect,
    ConsumerEvent,
    Received,
    Report,
)
from herdproof.protocols.central_coordinator.held.flawed import coordinator_with
from herdproof.protocols.central_coordinator.wire.messages import Stop
from herdproof.record import TopicPartition

_one_line = threading.Lock()


def report(event: str, consumer: str, **more: object) -> None:
    """One line."""
    line = {"event": event, "consumer": consumer, **more}
    with _one_line:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def names(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    """Partitions as they are reported."""
    return [(partition.topic, partition.partition) for partition in partitions]


class Reporter(RebalanceListener):
    """Reports what a member has, and winds up for a while before it lets go."""

    def __init__(self, consumer: str, winds_up_s: float) -> None:
        self.consumer = consumer
        self.winds_up_s = winds_up_s
        self.stopped = False

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are its own from now on."""
        self.stopped = False
        report("assigned", self.consumer, at=time.monotonic(), partitions=names(partitions))

    def on_revoked(self, _partitions: Sequence[TopicPartition]) -> None:
        """After a Stop, these are no longer its own once this returns."""
        stopped = self.stopped  # a later Stop is one of the next registration
        time.sleep(self.winds_up_s)
        report("revoked", self.consumer, at=time.monotonic(), stopped=stopped)

    def observe(
        self, _core: object, event: ConsumerEvent, effects: Sequence[ConsumerEffect]
    ) -> None:
        """Note a Stop: what follows it is an orderly revocation; and report a lost connection."""
        if isinstance(event, Received) and isinstance(event.frame.message, Stop):
            self.stopped = True
        if any(isinstance(e, Report) and e.what == What.LOST_CONNECTION for e in effects):
            report("lost", self.consumer, at=time.monotonic())


def consume(
    consumer: str, winds_up_s: float, group: str, topics: str, traces: str, more: Any
) -> None:
    """One member's life: report each record, and trace each step."""
    reporter = Reporter(consumer, winds_up_s)
    with Consumer(
        group, consumer_id=consumer, listener=reporter,
        auto_offset_reset="smallest", trace=f"{traces}/{consumer}.trace", **more,
    ) as member:  # fmt: skip
        member._observe = reporter.observe
        member.subscribe(topics)
        for record in member:
            report(
                "record", consumer, at=time.monotonic(), generation=record.generation,
                topic=record.topic, partition=record.partition, offset=record.offset,
            )  # fmt: skip


def consumers(told: str) -> None:
    """Several members, each in a thread, until a signal ends them all."""
    settings = json.loads(told)
    members: dict[str, float] = settings.pop("members")
    group, topics, traces = (settings.pop(name) for name in ("group", "topics", "traces"))
    for name, winds_up_s in members.items():
        arguments = (name, winds_up_s, group, topics, traces, settings)
        threading.Thread(target=consume, args=arguments, daemon=True).start()
    signal.pause()


def flawed_coordinator(flaw: str, *arguments: str) -> None:
    """`herdproof coordinator`, whose core has one of the drafts' mistakes."""
    flawed = coordinator_with(frozenset({flaw}))
    with mock.patch("herdproof.protocols.central_coordinator.server.server.Coordinator", flawed):
        app(["coordinator", *arguments])


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    if role == "consumers":
        logging.basicConfig(level=logging.WARNING)
        consumers(*words)
    else:
        flawed_coordinator(*words)
