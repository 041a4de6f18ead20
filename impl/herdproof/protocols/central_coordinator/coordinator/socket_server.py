"""
The coordinator's side of its channels: at most one request is outstanding over each.

A request that has to wait for the answer to another waits in the channel's queue. A retry is the
same request again, with the same correlation id; so a new correlation id proves to its reader that
the answer to the request before has arrived, and renews the consumer's lease (`sent_ms`).

Source: `002` (socketServer, request queues), PROTOCOLS.md, ruling 2; the window of one is *ours*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Registered
from herdproof.protocols.central_coordinator.events import Close, Send
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import CoordinatorAction
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Message,
    Ping,
    PingResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.shells.expiry import Expired, Key

Request: TypeAlias = Ping | Stop | Start
Failed: TypeAlias = Callable[[int, str], None]
"""Told of a channel that has failed, and why; has to close it."""

ANSWERS: dict[type[Request], type[Message]] = {
    Ping: PingResponse,
    Stop: StopResponse,
    Start: StartResponse,
}

_SENDS: dict[type[Request], CoordinatorAction] = {
    Ping: "send_ping",
    Stop: "send_stop",
    Start: "send_start",
}


class Outstanding(Struct, eq=False, gc=False):
    """A request that is not answered yet."""

    request: Request
    generation: int
    copies: int = 1


@dataclass(slots=True, eq=False)
class Channel:
    """One connection: who has registered over it, and its window."""

    number: int
    silent: Key
    """Under this key the answer to a request is waited for."""
    expired: Expired
    """Told when none comes; made once, since very many wait at a time."""
    member: Registered | None = None
    registers: bool = False
    """A Register came over it; there is only one."""
    correlation_id: int = 0
    """Of the last new request."""
    sent_ms: int = 0
    """When the last new request was sent, its first copy."""
    outstanding: Outstanding | None = None
    queue: deque[Outstanding] = field(default_factory=deque)

    def is_busy(self) -> bool:
        """True if a request is outstanding, or waits; then no ping is sent."""
        return self.outstanding is not None or bool(self.queue)


class SocketServer(CorePart):
    """All channels; `failed` is told of those that don't answer or answer nonsense."""

    def __init__(self, context: Context, failed: Failed) -> None:
        super().__init__(context)
        self.channels: dict[int, Channel] = {}
        self.held: deque[int] = deque()
        """Channels whose next request is sent by the next ticks."""
        self._name = f"coordinator-{context.broker_id}"
        self._failed = failed

    # ── Channels ────────────────────────────────────────────────────────────────────────────

    def opened(self, number: int) -> None:
        """Somebody connected: wait for its Register, unless there are too many already."""
        if len(self.channels) >= self._settings.max_channels:
            self._outbox.report(What.CHANNEL_REFUSED, channel=number)
            self._outbox.emit(Close(number, f"{self._settings.max_channels} channels are open"))
            return
        expired = partial(self._expired, number)
        self.channels[number] = Channel(number, ("request", number), expired)
        patience_ms = self._settings.register_timeout_ms
        self._after(patience_ms, ("register", number), partial(self._silent, number))

    def registers(self, number: int) -> None:
        """A Register came: from now on its sender waits for us, however many came before it."""
        self._purgatory.clear(("register", number))
        self.channels[number].registers = True

    def registered(self, number: int, member: Registered) -> None:
        """A consumer has registered over a channel: it is to be sent requests."""
        self.channels[number].member = member

    def resumed(self, number: int) -> None:
        """Take a member's lease as granted now, though nothing was sent over its channel yet."""
        self.channels[number].sent_ms = self._outbox.now_ms

    def close(self, number: int, why: str) -> None:
        """Close a channel after what was sent on it; from now on it is not there."""
        if self.forget(number):
            self._outbox.emit(Close(number, why))

    def forget(self, number: int) -> Channel | None:
        """A channel is closed: nothing is waited for over it."""
        self._purgatory.clear(("register", number))
        self._purgatory.clear(("request", number))
        return self.channels.pop(number, None)

    def close_all(self, why: str) -> None:
        """Close every channel; nothing else is waited for any more, either."""
        self.held.clear()
        for number in self.channels:
            self._outbox.emit(Close(number, why))
        self.channels.clear()

    # ── Requests of the coordinator ─────────────────────────────────────────────────────────

    def request(self, number: int, request: Request, generation: int) -> None:
        """Send a request, now or when what is outstanding has been answered."""
        channel = self.channels.get(number)
        if channel is None:
            return
        if isinstance(request, Stop):
            channel.queue.clear()  # a Start that has not been sent is overtaken
        channel.queue.append(Outstanding(request, generation))
        self._send_next(channel)

    def withdraw(self, number: int) -> None:
        """Withdraw what waits behind the outstanding request."""
        channel = self.channels.get(number)
        if channel is not None:
            channel.queue.clear()

    def answered(self, number: int, frame: Frame) -> Outstanding | None:
        """
        The request that a response answers, which is outstanding no more; then `go_on`.

        None if it answers nothing: an answer to a second copy comes after that to the first. One to
        a request that was never sent, or of another kind, is a fault of the peer's.
        """
        channel = self.channels[number]
        outstanding = channel.outstanding
        if frame.correlation_id > channel.correlation_id:
            self.accuse(number, f"answers a request {frame.correlation_id} that was never sent")
            return None
        if outstanding is None or frame.correlation_id != channel.correlation_id:
            return None
        if not isinstance(frame.message, ANSWERS[type(outstanding.request)]):
            request = type(outstanding.request).__name__
            self.accuse(number, f"answers a {request} by a {type(frame.message).__name__}")
            return None
        channel.outstanding = None
        self._purgatory.clear(channel.silent)
        return outstanding

    def go_on(self, number: int) -> None:
        """An answer has been dealt with: send what waits for that."""
        channel = self.channels.get(number)
        if channel is not None:
            self._send_next(channel)

    def run(self) -> None:
        """Send the requests that are held, as many as fit into this event."""
        while self.held and not self._outbox.is_full():
            self.go_on(self.held.popleft())

    def fail(self, number: int, why: str) -> None:
        """A channel is of no use any more: its member is gone."""
        self._failed(number, why)

    def accuse(self, number: int, why: str) -> None:
        """A peer does what the protocol forbids: its channel fails."""
        self._outbox.report(What.PEER_AT_FAULT, channel=number, why=why)
        self._failed(number, why)

    def _send_next(self, channel: Channel) -> None:
        """Send what waits longest, if nothing is outstanding; later, if the event is full."""
        if channel.outstanding is not None or not channel.queue:
            return
        if self._outbox.is_full():
            self.held.append(channel.number)
            return
        outstanding = channel.outstanding = channel.queue.popleft()
        channel.correlation_id += 1
        channel.sent_ms = self._outbox.now_ms
        member = channel.member
        assert member is not None, "only members are sent requests"
        request = outstanding.request
        given: tuple[Offset, ...] = ()
        if isinstance(request, Start) and request.partitions:
            member.may_fetch = True
            given = request.partitions
        self._outbox.emit(member.step(_SENDS[type(request)], outstanding.generation, given))
        patience = member.ping_interval_ms if isinstance(request, Ping) else member.patience_ms()
        self._send_copy(channel, outstanding, patience)

    def _send_copy(self, channel: Channel, outstanding: Outstanding, patience_ms: int) -> None:
        """Send a request, and set the watcher that its response clears."""
        frame = Frame(
            outstanding.request, channel.correlation_id, self._context.epoch,
            outstanding.generation, self._name,
        )  # fmt: skip
        self._outbox.emit(Send(channel.number, frame))
        self._after(patience_ms, channel.silent, channel.expired)

    def _expired(self, number: int) -> None:
        """A request was not answered in time: a ping is sent again, up to its retries."""
        channel = self.channels[number]
        outstanding, member = channel.outstanding, channel.member
        assert outstanding is not None
        assert member is not None
        request = outstanding.request
        if isinstance(request, Ping) and request.num_retries < member.max_ping_retries:
            outstanding.request = again = Ping(request.num_retries + 1)
            self._outbox.report(
                What.PING_RETRIED, member.group, consumer=member.consumer_id,
                member=member.registration, num_retries=again.num_retries,
            )  # fmt: skip
            self._send_copy(channel, outstanding, member.ping_interval_ms)
        else:
            self._failed(number, f"a {type(request).__name__} was not answered in time")

    def _silent(self, number: int) -> None:
        """Nobody has registered over a channel for too long."""
        self._failed(number, "nobody has registered")

    # ── Responses of the coordinator ────────────────────────────────────────────────────────

    def respond(
        self, number: int, message: Message, to: Frame, *, generation: int = 0,
        error: ErrorCode = ErrorCode.NONE, legacy: bool = False,
    ) -> None:  # fmt: skip
        """Answer a consumer's request; over a channel that is closed nothing is sent."""
        if number in self.channels:
            frame = Frame(
                message, to.correlation_id, self._context.epoch, generation, self._name, error
            )
            self._outbox.emit(Send(number, frame, legacy))
