"""
A client's core alone with a coordinator's: time passes by hand, and answers come when let through.

As a rule everything is answered at once; what `holds` names waits until `let_through`, or is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from herdproof.consuming.events import Tick
from herdproof.consuming.offsets import OffsetReset
from herdproof.consuming.subscription import named
from herdproof.protocols.group_protocol.client.assignors.assignor import PartitionAssignor
from herdproof.protocols.group_protocol.client.assignors.plain import RangeAssignor
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import (
    ClientEffect,
    ClientEvent,
    ClientRequest,
    ClientResponse,
    Disconnected,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HangUp,
    MetadataRequest,
    MetadataResponse,
    Node,
    Poll,
    Polled,
    RequestAnswered,
    SendRequest,
    SubscribeTo,
)
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from properties.protocols.group_protocol.coordinator.group_world import (
    GROUP,
    TOPIC,
    CoordinatorAlone,
)

NODES = (Node(1, "one", 9092), Node(2, "two", 9092))
SETTINGS = ClientSettings(
    group_id=GROUP, client_id="c", session_timeout_ms=10_000, max_poll_interval_ms=60_000,
    auto_offset_reset=OffsetReset.SMALLEST,
)  # fmt: skip
E = TypeVar("E", bound=ClientEffect)


class ClientAlone:
    """One client, whose coordinator is at the first node."""

    def __init__(
        self, settings: ClientSettings = SETTINGS, client: type[GroupConsumer] = GroupConsumer,
        assignors: Sequence[PartitionAssignor] | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        self.world = CoordinatorAlone().elected()
        self.topics = {TOPIC: 3}
        self.core = client(replace(settings, **fields), NODES, assignors or [RangeAssignor()])
        self.holds: tuple[type[ClientRequest], ...] = ()
        self.done: list[ClientEffect] = []
        """All effects, in order."""
        self.held: list[SendRequest] = []
        self._events: deque[ClientEvent] = deque()
        self._is_busy = False
        self._parked: dict[int, int] = {}
        """By the coordinator's caller, the client's number."""

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.world.now_ms

    def give(self, *events: ClientEvent) -> list[ClientEffect]:
        """Let this happen, with all that follows from it; the effects."""
        before = len(self.done)
        self._events += events
        while self._events and not self._is_busy:
            self._is_busy = True
            self._carry_out(self.core.receive(self._events.popleft(), self.now_ms))
            self._is_busy = False
        return self.done[before:]

    def subscribed(self) -> ClientAlone:
        """It has subscribed, and what follows has had its time."""
        self.give(SubscribeTo(named({TOPIC: 1})))
        self.wait(100)
        return self

    def stable(self) -> ClientAlone:
        """It has its assignment."""
        self.subscribed()
        assert self.core.coordinator.state.value == "STABLE"
        return self

    def poll(self, timeout_ms: int = 0, *, at_work: bool = False) -> bool | None:
        """The application polls; what came of it, if anything has."""
        polled = [e for e in self.give(Poll(timeout_ms, at_work)) if isinstance(e, Polled)]
        return polled[-1].ok if polled else None

    def wait(self, ms: int, step_ms: int = 100) -> list[ClientEffect]:
        """Time passes for both; the effects."""
        before = len(self.done)
        for _ in range(0, ms, step_ms):
            self.world.wait(step_ms)
            self._answer_parked()
            self.give(Tick())
        return self.done[before:]

    def effects(self, kind: type[E]) -> list[E]:
        """The effects of a kind."""
        return [effect for effect in self.done if isinstance(effect, kind)]

    def sent(self, kind: type[ClientRequest]) -> list[Any]:
        """The requests of a kind that were sent."""
        return [e.request for e in self.effects(SendRequest) if isinstance(e.request, kind)]

    def let_through(self) -> None:
        """What was held is answered."""
        held, self.held = self.held, []
        for send in held:
            self._ask(send)

    def lose(self, *, is_read: bool = False) -> None:
        """What was held is lost with its connection; read before, or not."""
        held, self.held = self.held, []
        for send in held:
            if is_read:
                self.world.ask(send.request)  # type: ignore[arg-type]  # of the group APIs
            self.give(Disconnected(send.node))

    def answer(self, send: SendRequest, response: ClientResponse) -> None:
        """What was held is answered so."""
        self.held.remove(send)
        self.give(RequestAnswered(send.number, response))

    # ── Between the two ─────────────────────────────────────────────────────────────────────

    def _carry_out(self, effects: Sequence[ClientEffect]) -> None:
        self.done += effects
        for effect in effects:
            match effect:
                case SendRequest() if isinstance(effect.request, self.holds):
                    self.held.append(effect)
                case SendRequest():
                    self._ask(effect)
                case HangUp(node):
                    self.held = [send for send in self.held if send.node != node]

    def _ask(self, send: SendRequest) -> None:
        match send.request:
            case FindCoordinatorRequest():
                self.give(RequestAnswered(send.number, FindCoordinatorResponse(node=NODES[0])))
            case MetadataRequest():
                told = MetadataResponse(NODES, tuple(self.topics.items()))
                self.give(RequestAnswered(send.number, told))
            case request:
                self._parked[self.world.ask(request)] = send.number
                self._answer_parked()

    def _answer_parked(self) -> None:
        for caller in [caller for caller in self._parked if caller in self.world.answers]:
            number = self._parked.pop(caller)
            self.give(RequestAnswered(number, self.world.answers[caller]))
