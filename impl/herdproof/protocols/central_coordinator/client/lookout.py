"""
The lookout: what a consumer does while its coordinator says nothing.

A coordinator that is paused, or whose host is gone, closes no connection: its consumers would learn
of its successor when their leases are over. So who has heard nothing for a while asks other brokers
who coordinates, beside the connection that it has, and consumes on. It gives that connection up for
a broker that says itself that it coordinates, in a later epoch than the consumer has seen; what is
only said of another broker may be old.

Source: *ours*. To the spec a connection that its consumer gives up is one that has broken.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from herdproof.protocols.central_coordinator.client.server_cluster import (
    Address,
    ServerCluster,
    addresses_by_id,
)
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.client.topic_registry import Consumption
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    ConsumerEffect,
    Received,
    Send,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
)

Effects = list[ConsumerEffect]


class _Stage(Enum):
    """Stages of a lookout."""

    RESTS = "rests"
    ASKS = "asks"
    """It connects to a broker, or waits for its answer."""
    WAITS = "waits"
    """It was answered, and asks again over the same connection; or another broker."""


class Lookout:
    """
    Who coordinates, as other brokers than a silent coordinator say.

    `next_channel` gives the number of another connection.
    """

    def __init__(
        self, consumption: Consumption, settings: ConsumerSettings, server_cluster: ServerCluster,
        next_channel: Callable[[], int],
    ) -> None:  # fmt: skip
        self.channel: int | None = None
        self.due_ms: int | None = None
        """When it wants to go on."""
        self._stage = _Stage.RESTS
        self._consumption = consumption
        self._settings = settings
        self._cluster = server_cluster
        self._next_channel = next_channel
        self._coordinator: Address | None = None
        """The silent one."""
        self._asked: Address | None = None
        self._named: Address | None = None
        """Who leads as somebody says, and is to be asked itself."""
        self._is_named = False
        """Who is asked was named so."""
        self._asks = 0

    @property
    def looks(self) -> bool:
        """The coordinator is silent."""
        return self._stage is not _Stage.RESTS

    def rest(self, until_ms: int | None) -> Effects:
        """There is nothing to look for, as far as is known, until then."""
        effects = self._hang_up("the coordinator has spoken, or is given up")
        self._stage, self.due_ms = _Stage.RESTS, until_ms
        return effects

    def look(self, now_ms: int, coordinator: Address) -> Effects:
        """The coordinator is silent: ask somebody else, if it is time to."""
        if self._stage is _Stage.RESTS:
            self._stage, self.due_ms = _Stage.WAITS, now_ms
        if self.due_ms is None or now_ms < self.due_ms:
            return []
        effects: Effects = []
        if self._stage is _Stage.ASKS:
            effects += self._hang_up("it did not answer in time")
        if self.channel is not None:
            return self._consult(now_ms)
        self._coordinator, self._is_named = coordinator, self._named is not None
        other, self._named = self._named or self._cluster.next_but(coordinator), None
        return effects + self._connect(other, now_ms)

    def hear(
        self, event: Connected | ConnectFailed | Received | Closed, now_ms: int
    ) -> tuple[Effects, ConsultResponse | None]:
        """Something of its connection; with the answer of a broker that leads in a later epoch."""
        match event:
            case Connected():
                return self._consult(now_ms), None
            case Received(frame=Frame(message=ConsultResponse() as answer) as frame):
                return self._weigh(answer, frame.epoch > self._consumption.epoch, now_ms)
            case Received():
                effects = self._hang_up("it answers something else")
            case ConnectFailed() | Closed():
                self.channel, effects = None, []
        self._wait(now_ms)
        return effects, None

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _weigh(
        self, answer: ConsultResponse, is_later: bool, now_ms: int
    ) -> tuple[Effects, ConsultResponse | None]:
        """Whoever leads says so itself; whom somebody else names is asked next."""
        self._wait(now_ms)
        if answer.error_code is not ErrorCode.NONE:
            return self._hang_up(f"it answered {answer.error_code.name}"), None
        named = addresses_by_id(answer.brokers).get(answer.coordinator_id)
        if named == self._asked and is_later:
            return [], answer
        if named in (None, self._asked, self._coordinator):
            return [], None
        self._named = named
        if not self._is_named:  # two that name each other are asked in turns, not at once
            self.due_ms = now_ms
        return self._hang_up(f"it says that {named} coordinates"), None

    def _connect(self, broker: Address | None, now_ms: int) -> Effects:
        self._asked = broker
        if broker is None:  # nobody else is known
            self.due_ms = None
            return []
        self.channel = self._next_channel()
        self._ask(now_ms)
        return [Connect(self.channel, broker.host, broker.port)]

    def _consult(self, now_ms: int) -> Effects:
        assert self.channel is not None, "it is connected"
        self._ask(now_ms)
        self._asks += 1
        consult = Frame(
            Consult(), correlation_id=self._asks, epoch=self._consumption.epoch,
            client_id=self._consumption.consumer_id,
        )  # fmt: skip
        return [Send(self.channel, consult)]

    def _ask(self, now_ms: int) -> None:
        self._stage, self.due_ms = _Stage.ASKS, now_ms + self._settings.patience_ms

    def _wait(self, now_ms: int) -> None:
        self._stage, self.due_ms = _Stage.WAITS, now_ms + self._settings.seek_ms

    def _hang_up(self, why: str) -> Effects:
        channel, self.channel = self.channel, None
        return [] if channel is None else [Close(channel, why)]
