"""A consumer's core of system B, played by script: frames and events in, effects to look at."""

from __future__ import annotations

from typing import Any, TypeVar

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.events import (
    Connected,
    ConsumerEffect,
    ConsumerEvent,
    Received,
    Send,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.held.flawed import consumer_with
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    BrokerInfo,
    ConsultResponse,
    ErrorCode,
    Frame,
    Message,
    RegisterResponse,
    Start,
)

E = TypeVar("E")

KNOWN = (Address("one", 1), Address("two", 2), Address("three", 3))
LISTED = (BrokerInfo("", 7, "seven", 7), BrokerInfo("", 8, "eight", 8))
T0, T1 = Offset("t", "0", 40), Offset("t", "1", 41)
SESSION_MS, PING_MS = 10_000, 2_000
ENDLESS = 1_000
"""A core that wants to be woken so often at one time goes round for ever."""


class Script:
    """A consumer's core with a clock; of the last event, the steps and the other effects."""

    def __init__(
        self, topic_count: str = '{"t": 1}', flaws: frozenset[str] = frozenset(),
        start_index: int = 0, brokers: tuple[Address, ...] = KNOWN, **settings: Any,
    ) -> None:  # fmt: skip
        self.core = consumer_with(flaws)(
            "g", "c", topic_count, ConsumerSettings(**settings), brokers, start_index
        )
        self.now_ms = 0
        self.effects: list[ConsumerEffect] = []
        self.steps: list[CoordinationStep] = []
        self.wakes_ms: int | None = None
        self.wakes = 0
        """Number of wakes in a row that no time has passed before."""
        self.correlation_id = 100

    def __call__(self, event: ConsumerEvent, after_ms: int = 0) -> Script:
        """Give the core an event, some time after the last one."""
        self.now_ms += after_ms
        if isinstance(event, Tick):
            self.wakes_ms = None
        told = self.core.receive(event, self.now_ms)
        self.steps = [effect for effect in told if isinstance(effect, CoordinationStep)]
        self.effects = [effect for effect in told if not isinstance(effect, CoordinationStep)]
        for wake in self.of(WakeAt):
            self.wakes_ms = wake.time_ms
        return self

    def wake(self) -> Script:
        """Let time pass until the core wants to be woken, and wake it."""
        assert self.wakes_ms is not None
        after_ms = max(0, self.wakes_ms - self.now_ms)
        self.wakes = 0 if after_ms else self.wakes + 1
        assert self.wakes < ENDLESS, "it asks to be woken again and again, without an end"
        return self(Tick(), after_ms)

    def of(self, kind: type[E]) -> list[E]:
        """The effects of a kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def sent(self) -> list[Message]:
        """The messages sent."""
        return [effect.frame.message for effect in self.of(Send)]

    @property
    def channel(self) -> int:
        """The present connection."""
        assert self.core.channel is not None
        return self.core.channel

    def read(
        self, message: Message, *, after_ms: int = 0, epoch: int = 1, generation: int = 0,
        correlation_id: int | None = None,
    ) -> Script:  # fmt: skip
        """Give the core a frame; one without a correlation id gets a new one."""
        if correlation_id is None:
            self.correlation_id += 1
            correlation_id = self.correlation_id
        frame = Frame(message, correlation_id, epoch, generation)
        return self(Received(self.channel, frame), after_ms)

    def answer(self, message: Message, after_ms: int = 0) -> Script:
        """Answer the request that the core has sent last."""
        [*_, request] = self.of(Send)
        return self.read(message, after_ms=after_ms, correlation_id=request.frame.correlation_id)

    def consult(self, coordinator: int = 8, brokers: tuple[BrokerInfo, ...] = LISTED) -> Script:
        """Let a broker be connected to, and answer."""
        self(Connected(self.channel))
        return self.answer(ConsultResponse(ErrorCode.NONE, coordinator, brokers))

    def register(
        self, member: str | None = None, brokers: tuple[BrokerInfo, ...] = LISTED
    ) -> Script:
        """Go from nothing, or from a wait, to a registration at time `now_ms`."""
        self(Subscribe() if self.core.phase is ConsumerPhase.IDLE else Tick())
        self.consult(brokers=brokers)
        self(Connected(self.channel))
        return self.answer(RegisterResponse(ErrorCode.NONE, member))

    def start(self, *offsets: Offset, generation: int = 1, after_ms: int = 0) -> Script:
        """Let the core be told to start."""
        return self.read(Start(offsets), generation=generation, after_ms=after_ms)


def started(*offsets: Offset, member: str | None = None, **settings: Any) -> Script:
    """A consumer that was told to start with these partitions."""
    return Script(**settings).register(member).start(*(offsets or (T0, T1)))
