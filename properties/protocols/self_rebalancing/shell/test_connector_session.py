"""The shell of a connector: it wakes its core when that wants to be woken, and not again."""

from __future__ import annotations

import time

from herdproof.consuming.events import Tick, WakeAt
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.subscription import named
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.core.events import ConnectorEffect, ConnectorEvent
from herdproof.protocols.self_rebalancing.registries.registrations import registration_of
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.shell.session import ConnectorSession


class WantsOneTick(ConsumerConnector):
    """A core that wants to be woken once, soon, and then waits for what others tell."""

    def __init__(self) -> None:
        registration = registration_of(named({"orders": 1}), 0)
        super().__init__("g", "c", registration, ConnectorSettings())
        self.events: list[ConnectorEvent] = []

    def receive(self, event: ConnectorEvent, now_ms: int) -> list[ConnectorEffect]:
        """After the first event it wants a tick."""
        self.events.append(event)
        return [WakeAt(now_ms + 1)] if len(self.events) == 1 else []


class WithoutZooKeeper(ConnectorSession):
    """A session that looks for no ZooKeeper."""

    def _connect(self) -> None:
        pass


def test_an_alarm_goes_off_once() -> None:
    """While the core waits for ZooKeeper alone, as when it is cut off, its thread sleeps."""
    core = WantsOneTick()
    session = WithoutZooKeeper(core, "127.0.0.1:1", Streams())
    session.start()
    time.sleep(0.2)
    session.close(0.0)

    assert core.events.count(Tick()) <= 2, "one for the alarm, and one for the end"
