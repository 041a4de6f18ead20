"""
How system B's consumer finds its coordinator, loses it, and leaves: its core, by scripted frames.

The quotations are from the drafts `000` and `002`, and from PROTOCOLS.md, section B (rulings).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from herdproof.consuming.events import (
    Consumed,
    RevocationHandled,
    Revoked,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NamedPartition, Offset, OffsetReset
from herdproof.protocols.central_coordinator.client.consumer import ConsumerPhase
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Failed,
    Received,
    Send,
    Shutdown,
    Subscribe,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.settings import BadSettings
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    BrokerInfo,
    Commit,
    CommitResponse,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from properties.protocols.central_coordinator.client.consumer_script import (
    KNOWN,
    LISTED,
    PING_MS,
    SESSION_MS,
    T0,
    T1,
    Script,
    started,
)

# ── Startup: consult, connect, register ─────────────────────────────────────────────────────


def test_it_consults_registers_and_from_then_on_only_answers() -> None:
    """
    "Set up a socket channel with the current coordinator and send a RegisterRequest."
    Reference: 002, consumerStartup.
    """
    script = Script(auto_offset_reset=OffsetReset.SMALLEST)

    assert script(Subscribe()).of(Connect) == [Connect(1, "one", 1)]
    assert script(Connected(1)).sent == [Consult()]
    script.answer(ConsultResponse(ErrorCode.NONE, 8, LISTED))
    assert script.of(Close) == [Close(1, "consulted")]
    assert script.of(Connect) == [Connect(2, "eight", 8)]
    assert script(Connected(2)).sent == [
        Register("g", "c", '{"t": 1}', True, OffsetReset.SMALLEST, PING_MS, 3, SESSION_MS, ())
    ]
    assert script.answer(RegisterResponse(ErrorCode.NONE)).sent == []
    assert script.core.phase is ConsumerPhase.REGISTERED
    assert script(Tick(), after_ms=PING_MS).sent == []


def test_brokers_are_consulted_in_turns_from_the_start_index_on() -> None:
    """
    "In a round robin fashion, pick a broker in the cluster server."
    Reference: 000, Consumer.onStartup 2.1, 2.3; the start index is ours.
    """
    script = Script(start_index=4)(Subscribe())

    asked = [script.of(Connect)[0].host]
    for _ in range(2):
        asked.append(script(ConnectFailed(script.channel)).of(Connect)[0].host)

    assert asked == ["two", "three", "one"]


@pytest.mark.parametrize(
    "fail",
    [
        lambda script: script(ConnectFailed(script.channel)),
        lambda script: script(Connected(script.channel))(Closed(script.channel)),
        lambda script: script(Tick(), after_ms=5_000),
        lambda script: script(Connected(script.channel))(Tick(), after_ms=5_000),
        lambda script: script(Connected(script.channel)).answer(
            ConsultResponse(ErrorCode.MALFORMED, NO_COORDINATOR, ())
        ),
        lambda script: script(Connected(script.channel)).answer(StopResponse(None)),
    ],
    ids=["refuses", "closes", "does not answer", "is silent", "answers an error", "talks nonsense"],
)
def test_a_broker_that_fails_is_followed_by_the_next(fail: Callable[[Script], Script]) -> None:
    """
    "If the channel cannot be created, try another broker and redo 2.2."
    Reference: 000, Consumer.onStartup 2.3.
    """
    script = Script()(Subscribe())

    fail(script)

    assert script.of(Connect) == [Connect(2, "two", 2)]


def test_when_every_known_broker_fails_it_tries_again_until_shut_down() -> None:
    """
    "The consumer will keep trying to consult the brokers until it succeeds or is shut down."
    Reference: 000, Consumer.onStartup 2.4; with a back-off, which is ours.
    """
    script = Script()(Subscribe())
    waits = []

    for _ in range(8):
        for _ in KNOWN:
            script(ConnectFailed(script.channel))
        [wake] = script.of(WakeAt)
        waits.append(wake.time_ms - script.now_ms)
        assert script(Tick(), after_ms=waits[-1] - 1).of(Connect) == []
        assert script(Tick(), after_ms=1).of(Connect)[0].host == "one"

    assert waits == [50, 100, 200, 400, 800, 1600, 2500, 2500]
    assert script(Shutdown()).core.phase is ConsumerPhase.CLOSED
    assert script(Tick(), after_ms=60_000).effects == []


def test_when_every_known_broker_fails_it_gives_up_if_it_is_set_to() -> None:
    """
    "If all the brokers cannot be connected, throw an AllKnownBrokersNotAvailable exception."
    Reference: 002, consumerStartup 1.2.
    """
    script = Script(gives_up=True)(Subscribe())

    for _ in KNOWN:
        script(ConnectFailed(script.channel))

    [failed] = script.of(Failed)
    assert failed.error == "AllKnownBrokersNotAvailable"
    assert "one:1, two:2, three:3" in failed.why
    assert script(Tick(), after_ms=60_000).effects == []


def test_only_failures_in_a_row_make_all_brokers_unavailable() -> None:
    """A broker that answers is there, though it knows of no coordinator: the count begins anew."""
    script = Script(gives_up=True)(Subscribe())
    script(ConnectFailed(script.channel))  # one
    script.consult(NO_COORDINATOR, ())  # two
    script.wake()

    script(ConnectFailed(script.channel))  # three
    script(ConnectFailed(script.channel))  # one

    assert script.of(Failed) == []
    assert script(ConnectFailed(script.channel)).of(Failed) != []


def test_later_reconnects_consult_the_brokers_of_the_answer() -> None:
    """
    "Taking over the cluster list from the answer, which later reconnects use."
    Reference: PROTOCOLS.md, B, Consumer; those given at first come after it (ours).
    """
    script = Script().register()
    script(Closed(script.channel))

    script(Tick(), after_ms=100)
    asked = [script.of(Connect)[0].host]
    for _ in range(4):
        asked.append(script(ConnectFailed(script.channel)).of(Connect)[0].host)

    assert sorted(asked[:2] + asked[2:]) == ["eight", "one", "seven", "three", "two"]
    assert script.core.server_cluster.known[:2] == (Address("seven", 7), Address("eight", 8))


@pytest.mark.parametrize(
    ("coordinator", "brokers"),
    [(NO_COORDINATOR, LISTED), (9, LISTED), (8, ())],
    ids=["nobody", "nobody listed", "an empty list"],
)
def test_without_a_coordinator_it_waits_and_consults_the_next(
    coordinator: int, brokers: tuple[BrokerInfo, ...]
) -> None:
    """A broker that knows of no coordinator has not failed, but there is nobody to connect to."""
    script = Script()(Subscribe())

    script.consult(coordinator, brokers)

    assert script.of(Connect) == []
    assert script.core.phase is ConsumerPhase.BACKING_OFF
    assert script.core.unavailable == 0
    assert len(script.wake().of(Connect)) == 1


@pytest.mark.parametrize("timeout", [False, True])
def test_a_coordinator_that_cannot_be_connected_to_is_asked_for_anew(timeout: bool) -> None:
    """
    "A failed connect consults again, with back-off."
    Reference: PROTOCOLS.md, B, Consumer (ours).
    """
    script = Script()(Subscribe()).consult()

    script(Tick(), after_ms=5_000) if timeout else script(ConnectFailed(script.channel))

    assert script.core.phase is ConsumerPhase.BACKING_OFF
    assert len(script.of(Close)) == timeout  # what never stood need not be closed
    script(Tick(), after_ms=100)
    assert script.wake().of(Connect) != []


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_COORDINATOR, ErrorCode.STALE_EPOCH, ErrorCode.GROUP_FULL]
)
def test_a_refused_registration_is_a_lost_connection(code: ErrorCode) -> None:
    """
    "If the registry is rejected by the coordinator, trigger the lost-connection procedure."
    Reference: 000, Consumer.onStartup 4.
    """
    script = Script()(Subscribe()).consult()
    channel = script.channel
    script(Connected(channel))

    script.answer(RegisterResponse(code))

    assert [close.channel for close in script.of(Close)] == [channel]
    assert script.core.phase is ConsumerPhase.BACKING_OFF


@pytest.mark.parametrize("code", [ErrorCode.INVALID_SUBSCRIPTION, ErrorCode.INVALID_TIMEOUTS])
def test_a_registration_that_can_never_be_accepted_fails(code: ErrorCode) -> None:
    """What no other attempt can change is an error for the user, and no loop."""
    script = Script()(Subscribe()).consult()
    script(Connected(script.channel))

    script.answer(RegisterResponse(code))

    [failed] = script.of(Failed)
    assert failed.error == "RegistrationRefused"
    assert failed.why.startswith(f"the registration was refused: {code.name}")
    assert ("max_session_timeout_ms" in failed.why) == (code is ErrorCode.INVALID_TIMEOUTS)
    assert len(script.of(Close)) == 1
    assert script(Tick(), after_ms=60_000).effects == []


def test_a_coordinator_that_does_not_answer_the_register_is_given_up() -> None:
    """Nothing blocks for ever: an unanswered Register is a lost connection."""
    script = Script()(Subscribe()).consult()
    script(Connected(script.channel))
    registering = script.channel

    while script.core.phase is ConsumerPhase.REGISTERING:
        script.wake()

    assert script.core.phase is ConsumerPhase.BACKING_OFF
    assert script.now_ms == 5_000
    assert registering in [close.channel for close in script.of(Close)]


def test_a_success_resets_the_back_off() -> None:
    """Only failures in a row count."""
    script = Script()(Subscribe())
    for _ in range(4 * len(KNOWN)):
        script(ConnectFailed(script.channel)) if script.core.channel else script(Tick(), 10_000)
    script(Tick(), after_ms=10_000).register()

    script(Closed(script.channel))

    assert script.of(WakeAt) == [WakeAt(script.now_ms + 50)]


def rounds(script: Script, count: int, one: Callable[[Script], object]) -> list[int]:
    """Let so many rounds of consulting come to nothing, each so; how long each was waited for."""
    waits = []
    for _ in range(count):
        before_ms = script.now_ms
        one(script.wake())
        waits.append(script.now_ms - before_ms)
    return waits


def nobody_leads(script: Script) -> None:
    """A broker answers that there is no coordinator."""
    script.consult(coordinator=NO_COORDINATOR)


def the_leader_is_dead(script: Script) -> None:
    """A broker names a coordinator that cannot be connected to: its session is not over yet."""
    script.consult()(ConnectFailed(script.channel))


def nobody_answers(script: Script) -> None:
    """No known broker can be connected to."""
    while script.core.channel is not None:
        script(ConnectFailed(script.channel))


@pytest.mark.parametrize("why", [nobody_leads, the_leader_is_dead])
def test_who_has_lost_its_coordinator_looks_for_the_next_all_the_time(
    why: Callable[[Script], None],
) -> None:
    """It is there within 0.3 s of an election, however long that has been waited for."""
    script = Script(start_index=999).register().start(T0)

    waits = rounds(script(Closed(script.channel)), 40, why)

    assert max(waits) == 299
    assert sum(waits) > 10_000


def test_who_finds_none_for_long_asks_ever_more_seldom() -> None:
    """After half a minute the back-off goes on as ever: a cluster may be down for hours."""
    script = started(T0)

    waits = rounds(script(Closed(script.channel)), 250, nobody_leads)

    assert max(waits[:150]) == 150
    assert waits[-1] == 2_500


def test_where_no_broker_answers_nobody_is_asked_more_often() -> None:
    """Whoever comes back is not met by all of its consumers at once."""
    script = started(T0)

    waits = rounds(script(Closed(script.channel)), 8, nobody_answers)

    assert waits == [50, 100, 200, 400, 800, 1_600, 2_500, 2_500]


# ── Lost connections ────────────────────────────────────────────────────────────────────────


def test_a_closed_channel_closes_the_fetchers() -> None:
    """
    "If the connection is closed or failed, trigger the lost-connection procedure."
    Reference: 000, Connector.onStartup 3.
    """
    script = started(T0)

    script(Closed(script.channel))

    assert script.effects[0] == StopFetchers()
    assert script.of(Close) == []
    assert script.core.phase is ConsumerPhase.BACKING_OFF
    assert script.core.consumption.generation == 0


def test_the_draft_reconnects_and_fetches_on() -> None:
    """
    "It will treat it as the connection has lost and try to reconnect" (and no word of fetchers).
    Reference: 002, Overview: the flaw `reconnects_fetching`.
    """
    script = started(T0, flaws=frozenset({"reconnects_fetching"}))

    script(Closed(script.channel))

    assert script.of(StopFetchers) == []
    assert script.core.may_deliver(script.now_ms)
    script(Tick(), after_ms=100).consult()(Connected(script.channel))
    script.answer(RegisterResponse(ErrorCode.NONE))
    assert script.start(T1, generation=2).sent == [StartResponse(ErrorCode.ILLEGAL_STATE)]


def test_what_comes_over_a_past_connection_is_nothing_any_more() -> None:
    """A channel that was given up says nothing that counts."""
    script = started(T0)
    past = script.channel
    script(Closed(past))

    for event in (
        Received(past, Frame(Stop(), 5, 1)), Closed(past), Connected(past), ConnectFailed(past)
    ):  # fmt: skip
        assert script(event).effects == []


@pytest.mark.parametrize("message", [StopResponse(None), RegisterResponse(ErrorCode.NONE)])
def test_a_coordinator_that_talks_nonsense_is_hung_up_on(message: Message) -> None:
    """A response that nobody asked for ends the connection, never the consumer."""
    script = started(T0)

    script.read(message)

    assert len(script.of(Close)) == 1
    assert script.core.phase is ConsumerPhase.BACKING_OFF


def test_a_request_before_the_answer_to_the_register_is_refused() -> None:
    """Who has not accepted this consumer does not command it."""
    script = Script()(Subscribe()).consult()
    script(Connected(script.channel))

    script.start(T0)

    assert script.core.fetcher_stopped
    assert len(script.of(Close)) == 1


# ── Epochs ──────────────────────────────────────────────────────────────────────────────────


def test_a_smaller_epoch_than_seen_is_refused() -> None:
    """
    "Every request to a consumer carries the epoch, and consumers refuse a smaller one."
    Reference: PROTOCOLS.md, Election, ruling.
    """
    script = Script().register()
    script.read(Ping(0), epoch=5)
    assert script.of(Send)[0].frame.epoch == 5

    channel = script.channel
    script.read(Start((T0,)), epoch=5, generation=1)

    script.read(Stop(), epoch=4)

    # The fetchers are closed before anything is sent, but the answer is no stop's.
    [stop, _, refusal, close, *_] = script.effects
    assert stop == StopFetchers()
    assert refusal == Send(
        channel,
        Frame(
            StopResponse(None), script.correlation_id, 5, 1, error=ErrorCode.STALE_EPOCH
        ),
    )  # fmt: skip
    assert close == Close(channel, "epoch 4 is over: 5 has been seen")


@pytest.mark.parametrize(
    ("request_", "response"),
    [(Ping(0), PingResponse(None)), (Start((T0,)), StartResponse(ErrorCode.STALE_EPOCH))],
)
def test_who_coordinates_in_a_past_epoch_is_told_so(request_: Message, response: Message) -> None:
    """The refusal has the epoch that was seen, so that a deposed coordinator steps down."""
    script = Script().register()
    script.read(Ping(0), epoch=5)

    script.read(request_, epoch=4)

    [send] = script.of(Send)
    assert (send.frame.message, send.frame.error, send.frame.epoch) == (
        response, ErrorCode.STALE_EPOCH, 5
    )  # fmt: skip
    assert len(script.of(Close)) == 1


def test_the_seen_epoch_outlives_the_connection() -> None:
    """A coordinator of before refuses itself: Register says which epoch was seen, and remembers."""
    script = Script().register()
    script.read(Ping(0), epoch=5)
    script(Closed(script.channel))

    script(Tick(), after_ms=100).consult()(Connected(script.channel))

    assert script.of(Send)[0].frame.epoch == 5
    script.answer(RegisterResponse(ErrorCode.NONE))  # in epoch 1
    assert script.core.phase is ConsumerPhase.BACKING_OFF


def test_the_flaw_ignores_epoch_obeys_whoever_asks() -> None:
    """The flaw `ignores_epoch`: a deposed coordinator is obeyed."""
    script = Script(flaws=frozenset({"ignores_epoch"})).register()
    script.read(Ping(0), epoch=5)

    assert script.read(Stop(), epoch=4).sent == [StopResponse(())]


# ── Shutdown ────────────────────────────────────────────────────────────────────────────────


def test_a_shutdown_commits_what_is_consumed_and_leaves() -> None:
    """The user's close: nothing is delivered any more, the offsets are stored, then it leaves."""
    script = started(T0)
    channel = script.channel
    script(Consumed(Offset("t", "0", 44), 1))

    script(Shutdown())
    assert script.effects[:2] == [StopFetchers(), Revoked((NamedPartition("t", "0"),))]
    assert script.sent == [Commit((Offset("t", "0", 44),))]
    assert script.of(Close) == []
    script.answer(CommitResponse(ErrorCode.NONE))
    assert script.sent == [Leave()]
    assert script.of(Close) == []
    script.answer(LeaveResponse(ErrorCode.NONE))

    assert script.of(Close) == [Close(channel, "the consumer is closed")]
    assert script.core.phase is ConsumerPhase.CLOSED
    assert script(Tick(), after_ms=SESSION_MS).effects == []


def test_a_consumer_that_leaves_starts_nothing_more() -> None:
    """A Start on its way is refused by who is about to close."""
    script = started(T0)
    script(Shutdown())

    assert script.start(T0, T1, generation=2).sent == [StartResponse(ErrorCode.ILLEGAL_STATE)]
    assert script.of(StartFetchers) == []


def test_a_shutdown_waits_for_the_listener_and_no_longer_than_for_an_answer() -> None:
    """The listener may commit; an answer that does not come is not waited for without end."""
    script = started(T0, listens=True)

    assert script(Shutdown()).sent == []
    assert script(RevocationHandled()).sent == [Commit((T0,))]
    assert script(Tick(), after_ms=5_000).sent == [Leave()]

    assert script.core.phase is ConsumerPhase.CLOSED


@pytest.mark.parametrize("to", range(5))
def test_a_shutdown_ends_every_phase(to: int) -> None:
    """Whatever the consumer is at, closing it hangs up and asks for nothing more."""
    script = Script()
    steps: list[Callable[[], object]] = [
        lambda: script(Subscribe()),
        lambda: script.consult(),
        lambda: script(Connected(script.channel)),
        lambda: script.answer(RegisterResponse(ErrorCode.NONE)),
    ]
    for step in steps[:to]:
        step()
    open_before = script.core.channel is not None

    script(Shutdown())
    if script.core.phase is ConsumerPhase.LEAVING:
        assert script.sent == [Leave()]
        script.answer(LeaveResponse(ErrorCode.NONE))

    assert script.core.phase is ConsumerPhase.CLOSED
    assert len(script.of(Close)) == open_before
    assert script(Tick(), after_ms=60_000).effects == []


# ── Settings ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"ping_interval_ms": 0}, "ping_interval_ms is 0"),
        ({"session_timeout_ms": 4_000}, "more than twice ping_interval_ms"),
        ({"max_ping_retries": -1}, "max_ping_retries is -1"),
        ({"backoff_ms": 2**31}, "backoff_ms is"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(setting: dict[str, int], said: str) -> None:
    """The error names the setting, and what it must be."""
    with pytest.raises(BadSettings, match=said):
        ConsumerSettings(**setting)  # type: ignore[arg-type]
