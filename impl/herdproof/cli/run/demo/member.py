"""
A consumer of the demonstration: `python -m herdproof.cli.run.demo.member SETTINGS`, a process.

It is an ordinary `Consumer` that says in a line of JSON what it is given, with the moments at which
it asked for it and had it (the machine's monotonic clock, in seconds). SIGTERM lets it leave.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from herdproof.cli.errors import sigterm_unwinds
from herdproof.consumer import Consumer, RebalanceListener, TopicPartition

ASK_S = 1.0
"""Longest wait for a record before the member asks again."""

_one_line = threading.Lock()


def say(what: str, **more: object) -> None:
    """One line."""
    with _one_line:
        sys.stdout.write(json.dumps({"said": what, **more}) + "\n")
        sys.stdout.flush()


class Sayer(RebalanceListener):
    """Says what this consumer has, as that changes."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are its own from now on."""
        say("has", partitions=sorted(place.partition for place in partitions))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """It has none until it is told of others."""
        del partitions
        say("has", partitions=[])


def consume(topic: str, settings: dict[str, Any]) -> None:
    """Read the topic until a signal comes."""
    with Consumer(listener=Sayer(), auto_offset_reset="smallest", **settings) as consumer:
        consumer.subscribe([topic])
        while True:
            asked_s = time.monotonic()
            record = consumer.poll(ASK_S)
            if record is not None:
                say(
                    "read", partition=record.partition, number=int(record.value or b"-1"),
                    generation=record.generation, asked_s=asked_s, had_s=time.monotonic(),
                )  # fmt: skip


if __name__ == "__main__":
    logging.basicConfig(format="herdproof: %(message)s", level=logging.WARNING)
    told = json.loads(sys.argv[1])
    with sigterm_unwinds():
        consume(told.pop("topic"), told)
