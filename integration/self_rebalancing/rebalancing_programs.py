"""
A member of a group that rebalances by itself, in a process of its own, which says what it does.

    python rebalancing_programs.py {"name": "a", "group": …, "topics": …, "flaws": [], …}

It reports in lines of JSON, each with the machine's clock (`at`, seconds): each record that its
application gets, when fetching begins and stops, which claims it knows, and what it is about to
have stored. SIGTERM closes it.
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

from herdproof.consumer import Consumer
from herdproof.consuming.events import Resolved, StartFetchers, StopFetchers
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import ConnectorEffect, ConnectorEvent
from herdproof.protocols.self_rebalancing.held.flawed import connector_with
from herdproof.protocols.self_rebalancing.shell.joining import SelfRebalancingConsumer
from herdproof.protocols.self_rebalancing.steps import ConnectorStep

_one_line = threading.Lock()


def report(event: str, **more: object) -> None:
    """One line."""
    with _one_line:
        sys.stdout.write(json.dumps({"event": event, "at": time.time(), **more}) + "\n")
        sys.stdout.flush()


class Onlooker:
    """Reports what a core does, before it is carried out."""

    def __init__(self) -> None:
        self._claims: list[list[object]] = []

    def __call__(
        self, core: ConsumerConnector, event: ConnectorEvent, effects: Sequence[ConnectorEffect]
    ) -> None:
        """Report what comes of an event."""
        claims: list[list[object]] = [
            [*partition, token] for partition, token in core.rebalances.owned.tokens().items()
        ]
        if claims != self._claims:
            self._claims = claims
            report("claims", partitions=claims)
        if isinstance(event, Resolved) and core.registry.is_current(event.generation):
            self._tell("resolves", [event.offset])
        for effect in effects:
            match effect:
                case StartFetchers(partitions, generation):
                    self._tell("begins", partitions, generation=generation)
                case StopFetchers():
                    report("stops")
                case ConnectorStep(action="commit", partitions=partitions):
                    self._tell("stores", partitions)

    def _tell(self, event: str, offsets: Sequence[Any], **more: object) -> None:
        report(event, partitions=[(o.topic, o.partition, o.offset) for o in offsets], **more)


def consume(told: str) -> None:
    """One member's life."""
    settings = json.loads(told)
    group, name, topics = (settings.pop(key) for key in ("group", "name", "topics"))
    connector = connector_with(frozenset(settings.pop("flaws")))
    with mock.patch.object(SelfRebalancingConsumer, "connector", connector):
        member = Consumer(
            group, protocol="self_rebalancing", consumer_id=name, auto_offset_reset="smallest",
            **settings,
        )  # fmt: skip
        member._observe = Onlooker()
        member.subscribe(topics)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=member.close).start())
    for record in member:
        report(
            "record", generation=record.generation,
            partitions=[(record.topic, str(record.partition), record.offset)],
        )  # fmt: skip
    member.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    consume(sys.argv[1])
