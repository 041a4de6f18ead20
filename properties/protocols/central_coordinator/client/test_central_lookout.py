"""
A consumer whose coordinator is silent asks others who coordinates, and consumes on.

A coordinator that is paused closes no connection. To the spec a connection that its consumer gives
up is one that has broken (herdspec's variant `resuming`).
"""

from __future__ import annotations

import pytest

from herdproof.consuming.events import RevocationHandled, StopFetchers
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Received,
    Send,
    Shutdown,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    BrokerInfo,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
)
from properties.protocols.central_coordinator.client.consumer_script import (
    PING_MS,
    SESSION_MS,
    T0,
    Script,
)

SILENT_MS, SEEK_MS, PATIENCE_MS = 3_000, 300, 1_000
"""After one and a half ping intervals a coordinator is silent; then who answers is asked so often,
and who does not is waited for so long."""
BROKERS = tuple(BrokerInfo("", number, f"b{number}", number) for number in (7, 8, 9))
SILENT = Address("b8", 8)


def silent(*given: Offset, brokers: tuple[BrokerInfo, ...] = BROKERS, **settings: object) -> Script:
    """A consumer that consumes, whose coordinator (8) says nothing more after its Start."""
    script = Script(brokers=(SILENT,), **settings)  # type: ignore[arg-type]
    script.register("1-1", brokers=brokers).start(*given)
    return until(script, SILENT_MS)


def until(script: Script, ms: int) -> Script:
    """Let time pass, and wake it whenever it wants to be."""
    while script.wakes_ms is not None and script.wakes_ms <= ms:
        script.wake()
    return script


def asks(script: Script) -> tuple[int, Address]:
    """The connection beside its own that it asks for, and where to."""
    [connect] = script.of(Connect)
    assert connect.channel != script.core.channel
    return connect.channel, Address(connect.host, connect.port)


def says(
    script: Script, channel: int, coordinator: int, epoch: int = 0,
    brokers: tuple[BrokerInfo, ...] = BROKERS,
) -> Script:  # fmt: skip
    """Let who was asked say who coordinates."""
    answer = ConsultResponse(ErrorCode.NONE, coordinator, brokers)
    return script(Received(channel, Frame(answer, 1, epoch)), after_ms=1)


def phase(script: Script) -> ConsumerPhase:
    """The stage that it is in now."""
    return script.core.phase


def is_untouched(script: Script) -> bool:
    """It is registered, over its first connection, and its fetchers run."""
    closed = {close.channel for close in script.of(Close)}
    return (
        phase(script) is ConsumerPhase.REGISTERED
        and script.core.channel not in closed
        and not script.of(StopFetchers)
    )


def test_whose_coordinator_is_silent_asks_another_broker_and_consumes_on() -> None:
    """Not before a ping is overdue, and not the coordinator itself."""
    script = silent()

    assert script.now_ms == SILENT_MS
    channel, asked = asks(script)
    assert asked != SILENT
    [send] = script(Connected(channel)).of(Send)
    assert (send.channel, send.frame.message, send.frame.epoch) == (channel, Consult(), 1)
    assert is_untouched(script)


def test_whom_its_coordinator_pings_asks_nobody() -> None:
    """A ping in every interval is all that is expected."""
    script = Script().register("1-1").start()

    for _ in range(10):
        until(script, script.now_ms + PING_MS)
        assert script.of(Connect) == []
        script.read(Ping(0), generation=1, after_ms=PING_MS - script.now_ms % PING_MS)
        assert is_untouched(script)


def test_it_resumes_at_once_at_who_leads_in_a_later_epoch() -> None:
    """It gives its connection up, not its fetchers, and names registration and generation."""
    script = silent()
    former = script.channel
    channel, asked = asks(script)
    script(Connected(channel))

    says(script, channel, asked.port, epoch=2)

    assert {close.channel for close in script.of(Close)} == {former, channel}
    [connect] = script.of(Connect)
    assert Address(connect.host, connect.port) == asked
    assert script.of(StopFetchers) == []
    assert script.core.may_deliver(script.now_ms)
    [request] = script(Connected(script.channel)).of(Send)
    assert isinstance(request.frame.message, Register)
    assert (request.frame.message.resumes, request.frame.generation) == ("1-1", 1)


@pytest.mark.parametrize("epoch", [0, 1])
def test_who_leads_in_no_later_epoch_is_not_followed(epoch: int) -> None:
    """It may have been paused itself, and not know yet that it is deposed."""
    script = silent()
    channel, asked = asks(script)
    script(Connected(channel))

    assert is_untouched(says(script, channel, asked.port, epoch))


def test_who_has_seen_a_later_epoch_and_does_not_lead_is_not_followed() -> None:
    """Its frame says the last epoch in which it led itself."""
    script = silent()
    channel, _ = asks(script)
    script(Connected(channel))

    assert is_untouched(says(script, channel, SILENT.port, epoch=2))


def test_as_long_as_nobody_else_leads_it_asks_again_over_the_same_connection() -> None:
    """Until its lease is over: then it stops, as without all this."""
    script = silent()
    channel, _ = asks(script)
    script(Connected(channel))

    for _ in range(3):
        assert is_untouched(says(script, channel, SILENT.port))
        asked_ms = script.now_ms
        until(script, script.now_ms + SEEK_MS)
        [send] = script.of(Send)
        assert (send.channel, send.frame.message) == (channel, Consult())
        assert script.now_ms == asked_ms + SEEK_MS

    while not script.of(StopFetchers):
        script.wake()
    assert script.now_ms == SESSION_MS


def test_who_is_named_by_another_is_asked_itself() -> None:
    """What somebody knows of others may be old: a stale word costs nobody a rebalance."""
    script = silent()
    channel, asked = asks(script)
    [other] = [Address(b.host, b.port) for b in BROKERS if b.port not in (asked.port, SILENT.port)]
    script(Connected(channel))

    says(script, channel, other.port)

    assert [close.channel for close in script.of(Close)] == [channel]
    assert is_untouched(script)
    second, named = asks(script)
    assert named == other
    script(Connected(second))
    says(script, second, asked.port)
    assert script.of(Connect) == [], "two that name each other are not asked at once"
    assert is_untouched(script)
    until(script, script.now_ms + SEEK_MS)
    third, named = asks(script)
    assert named == asked
    script(Connected(third))
    assert phase(script) is ConsumerPhase.REGISTERED
    says(script, third, asked.port, epoch=3)
    assert phase(script) is ConsumerPhase.CONNECTING


@pytest.mark.parametrize("fails", [ConnectFailed, Closed])
def test_who_cannot_be_asked_gives_way_to_the_next(
    fails: type[ConnectFailed | Closed],
) -> None:
    """A little later; so does who does not answer, after a second."""
    script = silent()
    channel, asked = asks(script)
    script(fails(channel))
    assert is_untouched(script)

    until(script, script.now_ms + SEEK_MS)
    second, other = asks(script)
    assert other not in (asked, SILENT)

    until(script, script.now_ms + PATIENCE_MS)
    assert [close.channel for close in script.of(Close)] == [second]
    assert asks(script)[1] == asked
    assert is_untouched(script)


def test_a_coordinator_that_speaks_again_is_answered_and_nobody_asked() -> None:
    """Whatever who was asked says later."""
    script = silent()
    own = script.channel
    channel, asked = asks(script)
    script(Connected(channel))

    script.read(Ping(0), generation=1, after_ms=10)

    assert [close.channel for close in script.of(Close)] == [channel]
    assert [type(message) for message in script.sent] == [PingResponse]
    says(script, channel, asked.port, epoch=2)
    assert script.effects == []
    assert script.channel == own


def test_where_no_other_broker_is_known_nobody_is_asked() -> None:
    """Its lease ends as ever."""
    script = silent(brokers=BROKERS[1:2])

    while not script.of(StopFetchers):
        assert script.of(Connect) == []
        script.wake()
    assert script.now_ms == SESSION_MS


def test_whose_register_is_not_answered_looks_out_too() -> None:
    """Others still name the coordinator that is paused: known as silent, it is not waited for."""
    script = silent()
    while phase(script) is not ConsumerPhase.CONSULTING:
        script.wake()
    [connect] = script.of(Connect)
    assert Address(connect.host, connect.port) != SILENT, "who was silent is consulted last"
    script.consult(SILENT.port, BROKERS)
    [own, beside] = script.of(Connect)
    assert (own.channel, own.port, beside.port == SILENT.port) == (script.channel, 8, False)
    script(Connected(own.channel))
    script(Connected(beside.channel))

    says(script, beside.channel, beside.port, epoch=2)

    assert phase(script) is ConsumerPhase.CONNECTING
    [request] = script(Connected(script.channel)).of(Send)
    assert isinstance(request.frame.message, Register)
    assert (request.frame.message.resumes, request.frame.message.former) == (None, ("1-1",))
    script.read(
        RegisterResponse(ErrorCode.NONE, "2-1"), epoch=2,
        correlation_id=request.frame.correlation_id,
    )  # fmt: skip
    script(Closed(script.channel))
    while phase(script) is not ConsumerPhase.CONSULTING:
        script.wake()
    script.consult(SILENT.port, BROKERS)
    [connect] = script.of(Connect)
    assert connect.port == SILENT.port, "who leads again is waited for, as anybody"


def test_who_winds_up_registers_where_the_next_one_leads_once_it_has() -> None:
    """As long as a rebalance listener is busy, nobody can be told that its registration stopped."""
    script = silent(T0, resumes=False, listens=True)
    channel, asked = asks(script)
    script(Connected(channel))

    says(script, channel, asked.port, epoch=2)

    assert phase(script) is ConsumerPhase.BACKING_OFF
    script(RevocationHandled())
    while phase(script) is ConsumerPhase.BACKING_OFF:
        script.wake()
    assert script.now_ms < SESSION_MS


def test_who_was_asleep_when_somebody_leads_goes_there_once_it_consults_again() -> None:
    """Its lease is over when it hears that: it has let go, and waits before it consults."""
    script = silent()
    channel, asked = asks(script)
    script(Connected(channel))

    answer = ConsultResponse(ErrorCode.NONE, asked.port, BROKERS)
    script(Received(channel, Frame(answer, 1, 2)), after_ms=2 * SESSION_MS)

    assert phase(script) is ConsumerPhase.BACKING_OFF
    while phase(script) is ConsumerPhase.BACKING_OFF:
        script.wake()
    assert phase(script) is ConsumerPhase.CONSULTING


def test_who_does_not_resume_stops_for_the_next_coordinator_before_its_lease_is_over() -> None:
    """It registers anew, and says of its former registration that it has stopped."""
    script = silent(resumes=False)
    channel, asked = asks(script)
    script(Connected(channel))

    says(script, channel, asked.port, epoch=2)

    assert script.of(StopFetchers) == [StopFetchers()]
    [request] = script(Connected(script.channel)).of(Send)
    assert isinstance(request.frame.message, Register)
    assert (request.frame.message.resumes, request.frame.message.former) == (None, ("1-1",))


def test_who_is_closed_asks_nobody_any_more() -> None:
    """Both connections are closed in the end."""
    script = silent()
    channel, _ = asks(script)

    script(Shutdown())

    assert channel in [close.channel for close in script.of(Close)]
    assert script.core.lookout.channel is None
