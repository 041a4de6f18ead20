"""What system B's consumer promises its shell, whatever events come."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from herdproof.consuming.events import (
    Consumed,
    Resolved,
    RevocationHandled,
    StartFetchers,
    StopFetchers,
)
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.client.consumer import NEXT, ConsumerPhase
from herdproof.protocols.central_coordinator.events import (
    Close,
    Closed,
    CommitAsked,
    Connected,
    ConnectFailed,
    Received,
    Send,
    Shutdown,
    Subscribe,
    Tick,
)
from herdproof.protocols.central_coordinator.held.flawed import CONSUMERS, ReconnectsFetching
from herdproof.protocols.central_coordinator.wire.messages import (
    NO_COORDINATOR,
    CommitResponse,
    Consult,
    ConsultResponse,
    ErrorCode,
    Frame,
    Leave,
    LeaveResponse,
    Message,
    Ping,
    RegisterResponse,
    Start,
    Stop,
    StopResponse,
)
from properties.protocols.central_coordinator.client.consumer_script import LISTED, T0, T1, Script

# ── Whatever happens ────────────────────────────────────────────────────────────────────────

MESSAGES: list[Message] = [
    Ping(0), Ping(1), Stop(), Start((T0,)), Start((T0, T1)), Start(()),
    Start((Offset("t", "1", NO_OFFSET),)), CommitResponse(ErrorCode.NONE),
    CommitResponse(ErrorCode.NOT_STORED), RegisterResponse(ErrorCode.NONE),
    RegisterResponse(ErrorCode.GROUP_FULL), ConsultResponse(ErrorCode.NONE, 8, LISTED),
    ConsultResponse(ErrorCode.NONE, NO_COORDINATOR, ()), StopResponse(None), Consult(),
    LeaveResponse(ErrorCode.NONE),
]  # fmt: skip

FRAMES = st.builds(
    Frame,
    st.sampled_from(MESSAGES),
    correlation_id=st.integers(1, 6),
    epoch=st.integers(0, 3),
    generation=st.integers(0, 4),
)
OLD_PING = Frame(Ping(num_retries=0), correlation_id=1, epoch=0, generation=0)
HAPPENINGS = st.one_of(
    FRAMES,
    st.sampled_from(
        [
            Connected,
            ConnectFailed,
            Closed,
            Tick,
            Tick,
            Subscribe,
            RevocationHandled,
            Shutdown,
            "go on",
        ]
    ),
    st.builds(Consumed, st.builds(Offset, st.just("t"), st.just("0"), st.integers(40, 50))),
    st.builds(Resolved, st.builds(Offset, st.just("t"), st.just("1"), st.integers(0, 50))),
    st.builds(CommitAsked, st.integers(1, 9)),
)


@given(
    happenings=st.lists(st.tuples(HAPPENINGS, st.sampled_from([0, 0, 1, 700, 4_000, 9_999]))),
    listens=st.booleans(),
    flaws=st.one_of(
        st.just(frozenset[str]()), st.sets(st.sampled_from(sorted(CONSUMERS)), max_size=1)
    ),
)
@example(  # nothing that "go on" could do after a broker answered wrongly
    happenings=[(OLD_PING, 0), (Tick, 700), (OLD_PING, 0), ("go on", 0)],
    listens=False,
    flaws=frozenset(),
)
def test_whatever_happens_the_core_keeps_its_word(
    happenings: list[tuple[Any, int]], listens: bool, flaws: frozenset[str]
) -> None:
    """
    Random events break no assertion of the core, and no promise that its shell relies on.

    Fetchers start and stop in turns; nothing is sent over a channel that was closed; where a lease
    or a wait runs, a wake was asked for that is early enough; and nothing may be delivered without
    a connection that was accepted. Who has said Leave fetches nothing, and never will.
    """
    script = Script(listens=listens, flaws=frozenset(flaws)).register()
    shell = Shell(script)
    for happening, after_ms in happenings:
        shell.take(happening, after_ms)


class Shell:
    """What a shell may rely on, checked after every event."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.fetching = False
        self.closed: set[int] = set()
        self.left = False
        self.check()

    def take(self, happening: Any, after_ms: int) -> None:
        """Let it happen, on the present channel where it needs one."""
        script = self.script
        channel = script.core.channel
        if happening == "go on":
            if script.core.phase is ConsumerPhase.BACKING_OFF:
                self.go_on()
            return
        if happening in (Connected, ConnectFailed, Closed):
            if channel is None or channel in self.closed:
                return
            script(happening(channel), after_ms)
        elif isinstance(happening, Frame):
            script(Received(channel or 0, happening), after_ms)
        else:
            script(happening() if isinstance(happening, type) else happening, after_ms)
        self.check()

    def go_on(self) -> None:
        """The wait is over; a broker names the coordinator, and that accepts the Register."""
        script = self.script
        script(Tick(), after_ms=10_000)
        self.check()
        script.consult()
        self.check()
        script(Connected(script.channel)).answer(RegisterResponse(ErrorCode.NONE))
        self.check()

    def check(self) -> None:
        """Check what the last event led to."""
        core, now_ms = self.script.core, self.script.now_ms
        for effect in self.script.effects:
            match effect:
                case StartFetchers():
                    assert not self.fetching
                    assert not self.left
                    self.fetching = True
                case StopFetchers():
                    assert self.fetching
                    self.fetching = False
                case Send(channel=channel, frame=frame):
                    assert channel not in self.closed
                    if isinstance(frame.message, Leave):
                        assert not self.fetching
                        assert not self.left
                        self.left = True
                case Close(channel=channel):
                    assert channel not in self.closed
                    self.closed.add(channel)
                case _:
                    pass
        assert self.fetching != core.fetcher_stopped
        if core.may_deliver(now_ms) and not isinstance(core, ReconnectsFetching):
            assert core.connector is not None
            assert core.connector.registered
            assert now_ms < core.connector.lease_ends_ms
        if core.phase in (ConsumerPhase.CLOSED, ConsumerPhase.FAILED, ConsumerPhase.IDLE):
            assert core.channel is None
        else:
            assert self.script.wakes_ms is not None, core.phase


def test_the_table_of_phases_names_every_phase() -> None:
    """A phase without a row could not be left; every row leads to an end."""
    assert set(NEXT) == set(ConsumerPhase)
    for phase, after in NEXT.items():
        assert ConsumerPhase.CLOSED in after or phase in (
            ConsumerPhase.CLOSED,
            ConsumerPhase.FAILED,
        )
