"""
A consumer that has lost its coordinator consumes on while its lease holds, and asks to resume.

Reference: docs/wire.md, "Bodies of version 3"; herdspec's variant `resuming`.
"""

from __future__ import annotations

import pytest

from herdproof.consuming.events import (
    Assigned,
    Consumed,
    Deliver,
    Resolved,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NO_OFFSET, NamedPartition, Offset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.events import (
    Closed,
    CommitAsked,
    Committed,
    Connected,
    ConnectFailed,
    Send,
    Shutdown,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
)
from properties.protocols.central_coordinator.client.consumer_script import (
    SESSION_MS,
    T0,
    T1,
    Script,
    started,
)

LOST_MS = 1_000
"""When the connection is lost, after the Start: its lease goes by the Register before, at 0."""


def lost(*offsets: Offset, member: str | None = "1-1", **settings: object) -> Script:
    """A consumer that consumes, in generation 1, and whose connection is lost then."""
    script = started(*offsets, member=member, **settings)
    return script(Closed(script.channel), after_ms=LOST_MS)


def asked(script: Script) -> Frame:
    """The Register that it sends once it has found who coordinates."""
    while script.core.phase is ConsumerPhase.BACKING_OFF:
        script.wake()
    script.consult()
    script(Connected(script.channel))
    [request] = script.of(Send)
    return request.frame


def may_deliver(script: Script, after_ms: int = 0) -> bool:
    """Whether a record could be handed out some time from now."""
    return script.core.may_deliver(script.now_ms + after_ms)


def test_it_consumes_on_until_its_lease_is_over() -> None:
    """Then its fetchers are closed, as they would have been with a connection."""
    script = lost()

    assert script.of(StopFetchers) == []
    assert may_deliver(script, SESSION_MS - LOST_MS - 1)
    assert not may_deliver(script, SESSION_MS - LOST_MS)

    script(Tick(), after_ms=SESSION_MS - LOST_MS)
    assert script.of(StopFetchers) == [StopFetchers()]
    assert script.steps[0].action == "on_lost_connection"
    assert script.steps[0].until_ms == 0


def test_what_is_due_at_the_clocks_zero_is_woken_for() -> None:
    """Zero is a time like any other: the back-off that ends then is due before the lease's end."""
    script = Script()
    script.now_ms = -LOST_MS - 50  # the back-off lasts 50 ms
    script.register("1-1").start(T0).wake()
    assert script.now_ms == -50

    script(Closed(script.channel))

    assert script.of(WakeAt) == [WakeAt(0)]
    assert script.wake().core.phase is ConsumerPhase.CONSULTING


def test_it_asks_to_resume_in_its_generation() -> None:
    """It names its registration, and goes by the same number as before."""
    script = started(member="1-1")
    [number] = {step.connection for step in script.steps}
    script(Closed(script.channel))

    frame = asked(script)

    assert isinstance(frame.message, Register)
    assert (frame.message.resumes, frame.message.former) == ("1-1", ())
    assert (frame.generation, frame.epoch, frame.correlation_id) == (1, 1, number)
    [step] = script.steps
    assert (step.action, step.generation, step.connection) == ("resume", 1, number)


def test_who_is_adopted_goes_on_as_before() -> None:
    """No fetcher is closed; of the next epoch it hears by the answer, and commits in that."""
    script = lost()
    request = asked(script)

    script.read(
        RegisterResponse(ErrorCode.NONE, "1-1"), epoch=2, correlation_id=request.correlation_id
    )

    assert script.core.phase is ConsumerPhase.REGISTERED
    assert (script.of(StopFetchers), script.of(StartFetchers)) == ([], [])
    [commit] = script(CommitAsked(1, (Offset("t", "0", 43),))).of(Send)
    assert (commit.frame.epoch, commit.frame.generation) == (2, 1)
    assert commit.frame.message == Commit((Offset("t", "0", 43),))


def test_what_was_consumed_meanwhile_is_reported_to_the_next_coordinator() -> None:
    """Nothing is lost: its first ping is answered with all that was finished."""
    script = lost()
    script(Consumed(Offset("t", "0", 45), 1), after_ms=100)
    asked(script)
    script.answer(RegisterResponse(ErrorCode.NONE, "1-1"))

    [answer] = script.read(Ping(0), generation=1).sent

    assert answer == PingResponse((Offset("t", "0", 45), Offset("t", "1", 41)))


def test_to_ask_renews_no_lease_and_a_new_request_does() -> None:
    """It ends as it would have, until a request comes: then it goes by the Register's sending."""
    script = lost()
    asked(script)
    asked_ms = script.now_ms
    script.answer(RegisterResponse(ErrorCode.NONE, "1-1"), after_ms=10)
    assert script.core.delivers_until_ms == SESSION_MS

    script.read(Ping(0), generation=1, after_ms=10)

    assert script.core.delivers_until_ms == asked_ms + SESSION_MS


def test_whose_lease_ends_before_it_is_answered_stops() -> None:
    """It hangs up, and registers anew: what comes later would find nothing that goes on."""
    script = lost()
    asked(script)

    script(Tick(), after_ms=SESSION_MS - script.now_ms)

    assert script.of(StopFetchers) == [StopFetchers()]
    assert script.core.phase is ConsumerPhase.BACKING_OFF
    frame = asked(script)
    assert isinstance(frame.message, Register)
    assert (frame.message.resumes, frame.message.former) == (None, ("1-1",))


@pytest.mark.parametrize("code", [ErrorCode.STALE_GENERATION, ErrorCode.UNKNOWN_VERSION])
def test_who_is_refused_stops_and_registers_anew(code: ErrorCode) -> None:
    """Another generation has begun; or the coordinator is an older one, that knows no resuming."""
    script = lost()
    asked(script)

    script.answer(RegisterResponse(code))

    assert script.of(StopFetchers) == [StopFetchers()]
    frame = asked(script)
    assert isinstance(frame.message, Register)
    assert (frame.message.resumes, frame.message.former, frame.generation) == (None, ("1-1",), 0)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.STALE_EPOCH])
def test_whom_another_broker_refuses_asks_the_next_one(code: ErrorCode) -> None:
    """Whoever does not coordinate says nothing of the registration: its epoch may be any."""
    script = lost()
    request = asked(script)

    script.read(RegisterResponse(code), epoch=0, correlation_id=request.correlation_id)

    assert script.of(StopFetchers) == []
    frame = asked(script)
    assert isinstance(frame.message, Register)
    assert frame.message.resumes == "1-1"


def test_it_seeks_on_where_nobody_can_be_connected_to() -> None:
    """Brokers that fail, in turn, stop nobody."""
    script = lost()
    while script.core.phase is ConsumerPhase.BACKING_OFF:
        script.wake()
    for _ in range(3):
        script(ConnectFailed(script.channel))
        assert script.of(StopFetchers) == []
    assert may_deliver(script)


def test_who_was_stopped_resumes_nothing() -> None:
    """A Stop came: its partitions may be another's soon."""
    script = started(member="1-1")
    script.read(Stop(), generation=1)
    script(Closed(script.channel))

    frame = asked(script)

    assert isinstance(frame.message, Register)
    assert (frame.message.resumes, frame.message.former) == (None, ("1-1",))


def test_who_was_given_nothing_resumes_all_the_same() -> None:
    """It has begun in the generation: if nobody else has changed, no rebalance is necessary."""
    script = Script().register("1-1").start()
    script(Closed(script.channel))

    frame = asked(script)

    assert isinstance(frame.message, Register)
    assert (frame.message.resumes, frame.generation) == ("1-1", 1)


@pytest.mark.parametrize("settings", [{"member": None}, {"resumes": False}])
def test_who_cannot_ask_stops_at_once(settings: dict[str, object]) -> None:
    """A coordinator of version 1 told it no name; or it is not to resume."""
    script = lost(**settings)  # type: ignore[arg-type]

    assert script.of(StopFetchers) == [StopFetchers()]
    assert not may_deliver(script)


def test_whose_coordinator_is_of_the_past_stops_at_once() -> None:
    """What breaks the protocol ends more than a connection."""
    script = started(member="1-1")
    script.read(Ping(0), epoch=2, generation=1)

    script.read(Ping(0), epoch=1, generation=1)

    assert script.of(StopFetchers) == [StopFetchers()]


def test_commits_are_refused_meanwhile_and_those_under_way_are_in_doubt() -> None:
    """As without a coordinator ever: the application learns of each."""
    script = started(member="1-1")
    script(CommitAsked(1))

    script(Closed(script.channel))
    assert script.of(Committed) == [Committed(1, ErrorCode.NOT_STORED)]
    script(CommitAsked(2))
    assert script.of(Committed) == [Committed(2, ErrorCode.NOT_REGISTERED)]


def test_a_start_that_is_resolved_meanwhile_is_stored_afterwards() -> None:
    """Until it is, nothing of that partition is delivered: who comes next would skip it."""
    unknown = Offset("t", "0", NO_OFFSET)
    script = lost(unknown)
    assert script(Resolved(Offset("t", "0", 7), 1)).sent == []
    asked(script)
    script.answer(RegisterResponse(ErrorCode.NONE, "1-1")).wake()

    assert script.sent == [Commit((Offset("t", "0", 7),))]
    script.answer(CommitResponse(ErrorCode.NONE))
    assert script.of(Deliver) == [Deliver(NamedPartition("t", "0"), 1)]


def test_a_start_whose_storing_was_under_way_is_stored_afterwards() -> None:
    """The answer was lost with the connection: it is asked again."""
    script = started(Offset("t", "0", NO_OFFSET), member="1-1")
    assert script(Resolved(Offset("t", "0", 7), 1)).sent == [Commit((Offset("t", "0", 7),))]
    script(Closed(script.channel))
    asked(script)

    script.answer(RegisterResponse(ErrorCode.NONE, "1-1")).wake()

    assert script.sent == [Commit((Offset("t", "0", 7),))]


def test_who_is_closed_meanwhile_stops() -> None:
    """Its fetchers are closed; there is nobody to say goodbye to."""
    script = lost()(Shutdown())

    assert script.of(StopFetchers) == [StopFetchers()]
    assert script.core.phase is ConsumerPhase.CLOSED


def test_who_is_adopted_obeys_stops_and_starts_as_ever() -> None:
    """An old Start is still an old one."""
    script = lost(T0, T1)
    asked(script)
    script.answer(RegisterResponse(ErrorCode.NONE, "1-1"))

    script.read(Stop(), generation=1)
    assert script.of(StopFetchers) == [StopFetchers()]
    assert script.read(Start((T0,)), generation=1).sent == [
        StartResponse(ErrorCode.STALE_GENERATION)
    ]
    script.read(Start((T0,)), generation=2)
    assert script.of(Assigned) == [Assigned((NamedPartition("t", "0"),))]


def test_who_is_adopted_under_another_name_stops() -> None:
    """That is no registration of its own."""
    script = lost()
    asked(script)

    script.answer(RegisterResponse(ErrorCode.NONE, "2-1"))

    assert script.of(StopFetchers) == [StopFetchers()]


def test_a_start_of_before_is_refused_after_it_has_resumed_too() -> None:
    """What it was told to stop, it does not begin again, whichever connection brings it."""
    script = started(member="1-1")
    script.read(Stop(), generation=1)
    script.start(T0, T1, generation=2)
    script(Closed(script.channel))
    asked(script)
    script.answer(RegisterResponse(ErrorCode.NONE, "1-1"))

    script.read(Start((T0, T1)), generation=1)

    assert script.sent == [StartResponse(ErrorCode.STALE_GENERATION)]


def test_it_is_woken_when_its_lease_ends_whatever_else_it_waits_for() -> None:
    """A connection that is not refused, and not made."""
    script = started(member="1-1")
    script(Closed(script.channel), after_ms=SESSION_MS - 500)
    while script.core.phase is ConsumerPhase.BACKING_OFF:
        script.wake()
    assert script.core.phase is ConsumerPhase.CONSULTING

    assert script.wakes_ms == SESSION_MS
    assert script.wake().of(StopFetchers) == [StopFetchers()]


def test_it_asks_often_while_it_consumes() -> None:
    """Its lease runs: brokers that do not coordinate yet are asked again soon."""
    script = lost()
    for _ in range(6):
        request = asked(script)
        script.read(RegisterResponse(ErrorCode.NOT_COORDINATOR), epoch=0,
                    correlation_id=request.correlation_id)  # fmt: skip
        assert script.wakes_ms is not None
        assert script.wakes_ms - script.now_ms <= script.core.settings.seek_ms
