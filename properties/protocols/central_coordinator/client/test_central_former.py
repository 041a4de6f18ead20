"""
A consumer that registers anew says which of its registrations have stopped.

Reference: docs/wire.md, "Bodies of version 2".
"""

from __future__ import annotations

from herdproof.consuming.events import RevocationHandled
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.client.former import FORMER_SAID
from herdproof.protocols.central_coordinator.events import (
    Closed,
    Connect,
    Connected,
    Failed,
    Subscribe,
    Tick,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Register,
    RegisterResponse,
)
from properties.protocols.central_coordinator.client.consumer_script import (
    SESSION_MS,
    T0,
    Script,
)


def registered(script: Script, member: str | None) -> Register:
    """Let it consult and register, as `member`; what its Register says."""
    script(Subscribe() if script.core.phase is ConsumerPhase.IDLE else Tick(), after_ms=10_000)
    script.consult()
    [register] = script(Connected(script.channel)).sent
    assert isinstance(register, Register)
    script.answer(RegisterResponse(ErrorCode.NONE, member))
    return register


def test_who_registers_for_the_first_time_has_nothing_to_say() -> None:
    """Version 2 is spoken from the beginning: so its name is told."""
    assert registered(Script(), "1-1").former == ()


def test_a_registration_that_was_lost_is_named_from_then_on() -> None:
    """Its fetchers were closed when it was lost; a coordinator may hear of it more than once."""
    script = Script()
    registered(script, "1-1")
    script.start(T0)

    first = registered(script(Closed(script.channel)), "1-7")
    second = registered(script(Closed(script.channel)), "2-1")

    assert (first.former, second.former) == (("1-1",), ("1-1", "1-7"))


def test_only_the_last_registrations_are_named() -> None:
    """However often a consumer comes back, its Register stays small."""
    script = Script()
    for number in range(FORMER_SAID + 5):
        registered(script, f"1-{number}")
        script(Closed(script.channel))

    said = registered(script, "2-1").former

    assert said == tuple(f"1-{number}" for number in range(5, FORMER_SAID + 5))


def test_who_was_told_no_name_has_nothing_to_say() -> None:
    """A coordinator of version 1 tells none."""
    script = Script()
    registered(script, None)

    assert registered(script(Closed(script.channel)), None).former == ()


def test_while_a_rebalance_listener_is_busy_it_does_not_register() -> None:
    """It has yet to give up what was revoked; once it has, that can be said."""
    script = Script(listens=True, resumes=False)
    registered(script, "1-1")
    script.start(T0)(Closed(script.channel))

    script.wake()
    assert (script.core.phase, script.of(Connect)) == (ConsumerPhase.BACKING_OFF, [])
    script(RevocationHandled(), after_ms=100).wake().consult()

    [register] = script(Connected(script.channel)).sent
    assert isinstance(register, Register)
    assert register.former == ("1-1",)


def test_a_listener_is_not_waited_for_once_the_lease_is_over() -> None:
    """Then it is back, and says nothing: the lease is over by itself."""
    script = Script(listens=True)
    registered(script, "1-1")
    script.start(T0)
    lost_ms = script.now_ms
    script(Closed(script.channel))

    script.wake().wake()
    assert script.now_ms <= lost_ms + SESSION_MS
    script.consult()

    [register] = script(Connected(script.channel)).sent
    assert isinstance(register, Register)
    assert register.former == ()


def test_an_older_coordinator_is_spoken_to_as_it_understands() -> None:
    """It refuses version 2, and gets version 1; the next one is spoken to in version 2 again."""
    script = Script()(Subscribe()).consult()
    script(Connected(script.channel))

    script.answer(RegisterResponse(ErrorCode.UNKNOWN_VERSION))
    assert script.core.phase is ConsumerPhase.BACKING_OFF
    again = registered(script, None)
    later = registered(script(Closed(script.channel)), "2-1")

    assert (again.former, later.former) == (None, ())


def test_who_speaks_no_version_of_ours_fails() -> None:
    """What is refused in both versions will be refused for ever."""
    script = Script()(Subscribe()).consult()
    script(Connected(script.channel)).answer(RegisterResponse(ErrorCode.UNKNOWN_VERSION))
    script(Tick(), after_ms=10_000).consult()

    script(Connected(script.channel)).answer(RegisterResponse(ErrorCode.UNKNOWN_VERSION))

    [failed] = script.of(Failed)
    assert failed.why.startswith("the registration was refused: UNKNOWN_VERSION")
