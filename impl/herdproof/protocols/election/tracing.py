"""
The trace of an election: a line for each step of a node's protocol, from the core's own fields.

`ElectorTracer` is the seam's writer: give it to a shell as its observer. Its lines are version 2 of
the format: actions and fields in the names of the spec, and as arguments what the spec has none of
(sessions, calls, transactions). `docs/trace.md` says what other implementations must write. Lines
are read as all traces are (`conformance/traces/line.py`); `FORMATS` says as what.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final, Literal, TextIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from herdproof.conformance.traces.line import SCHEMA, START, Formats, Int, Line, TraceLine
from herdproof.conformance.traces.tracer import Clock, Tracer
from herdproof.protocols.election.elector import (
    NOBODY_KNOWS,
    AskZooKeeper,
    Call,
    Effect,
    ElectionStep,
    Elector,
    Event,
    read_leader,
)
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Changed,
    Check,
    Data,
    Done,
    Exists,
    Found,
    Get,
    Link,
    Multi,
    Refusal,
    Set,
    Why,
)

ELECTION: Final = "election"
"""The protocol of an election's trace."""

WRITE: Final = "write"
"""The call, and the step, of the owner's fenced writes."""
STALE = Refusal(Why.BAD_VERSION, 0)
"""The answer to a write of an epoch that is over."""


class State(Struct, kw_only=True, gc=False):
    """The state of a core after a step; see `Elector`."""

    link: Link
    stands: bool
    leads: bool
    token: Int
    call: Call
    due: bool


BEGINNING = State(link=Link.LOST, stands=False, leads=False, token=0, call=Call.NONE, due=False)
"""The state of a core when its process starts."""


class AnswerLine(Struct, kw_only=True, gc=False):
    """An answer that was handled, or the outcome of a write."""

    call: str
    """`look`, `recall`, `read`, `create`, `delete`, `write`, or `none` if nobody waits for it."""
    number: Int
    """The call that it answers; 0 for a write."""
    outcome: str
    """
    `absent`, `found`, `epoch`, `done`, `refused`, `unknown`, or `late` if nobody waits for it.
    """
    owner: Int
    """Found: the session that owns the leader's node."""
    epoch: Int
    """The epoch that it tells: read, created, recalled, or written under."""
    zxid: Int
    """The transaction that made what it tells, where ZooKeeper says so; else 0."""


class AskLine(Struct, kw_only=True, gc=False):
    """A call that was sent, read off the operation itself."""

    call: Call
    number: Int
    watch: bool
    """True if it leaves a watch."""
    epoch: Int
    """The epoch that its transaction checks; -1 where it checks none."""


class ElectorArguments(Struct, kw_only=True, frozen=True, gc=False, omit_defaults=True):
    """The arguments of a step that the spec does not have."""

    session: Int = 0
    """The session after the step; 0 before the first."""
    answered: AnswerLine | None = None
    asked: AskLine | None = None


class ElectorLine(TraceLine, kw_only=True, gc=False, omit_defaults=True):
    """One step of one node."""

    schema: Literal[2]
    protocol: Literal["election"]
    arguments: ElectorArguments = ElectorArguments()  # type: ignore[assignment]
    seen: State | None = None  # type: ignore[assignment]
    """The node's own entries of the spec's fields; None in the first line of a process."""

    def __post_init__(self) -> None:
        if self.seen is None and self.action != START:
            raise ValueError("the field `seen` is missing")

    @property
    def state(self) -> State:
        """The core's fields after the step."""
        return BEGINNING if self.seen is None else self.seen

    @property
    def epoch(self) -> int:
        """The last epoch that the node led in."""
        return self.state.token


class FormerElectorLine(Line, kw_only=True, gc=False):
    """A line of version 1, which had the arguments and the state beside each other."""

    schema: Literal[1]
    protocol: Literal["election"]
    since_ns: Int
    session: Int
    answered: AnswerLine | None
    asked: AskLine | None
    state: State

    def translated(self) -> ElectorLine:
        """The line of version 2 that says the same."""
        begins = self.action == "start"
        return ElectorLine(
            schema=SCHEMA, protocol=self.protocol, run=self.run, node=self.node,
            sequence=self.sequence, time_ns=self.time_ns, action=START if begins else self.action,
            since_ns=0 if self.since_ns == self.time_ns else self.since_ns,
            arguments=ElectorArguments(
                session=self.session, answered=self.answered, asked=self.asked
            ),
            seen=None if begins and self.state == BEGINNING else self.state,
        )  # fmt: skip


FORMATS: Formats = {(SCHEMA, ELECTION): ElectorLine, (1, ELECTION): FormerElectorLine}
"""The formats of elections' traces."""


# ── Writing ─────────────────────────────────────────────────────────────────────────────────


class ElectorTracer:
    """
    Writes the trace of one process of a node; an observer for a shell.

    `run` names what belongs together. Several tracers may share a stream. May be called by any
    thread; what the stream raises is raised.
    """

    def __init__(
        self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns
    ) -> None:  # fmt: skip
        self._tracer = Tracer(ELECTION, node, stream, run=run, clock=clock)
        self._lock = threading.Lock()
        self._session = 0
        self._state = BEGINNING

    def __call__(self, core: Elector, _event: Event, effects: Sequence[Effect]) -> None:
        """The core has taken an event."""
        asked = next((e for e in effects if isinstance(e, AskZooKeeper)), None)
        with self._lock:
            self._session = core.session
            self._state = state_of(core)
            for step in effects:
                if isinstance(step, ElectionStep):
                    told = answer_line(step.call.value, step.number, step.answer)
                    self._step(step.action, told if step.number else None, _asked(core, asked))

    def wrote(self, epoch: int, answer: Answer, since_ns: int = 0) -> None:
        """The owner's fenced write, sent at `since_ns` under an epoch, was answered."""
        with self._lock:
            told = replace(answer_line(WRITE, 0, answer), epoch=epoch)
            self._step(WRITE, told, since_ns=since_ns)

    def _step(
        self, action: str, answered: AnswerLine | None = None, asked: AskLine | None = None,
        since_ns: int = 0,
    ) -> None:  # fmt: skip
        told = {"session": self._session, "answered": answered, "asked": asked}
        self._tracer.step(
            action, seen=msgspec.to_builtins(self._state), since_ns=since_ns,
            arguments={name: value for name, value in told.items() if value},
        )  # fmt: skip


def state_of(core: Elector) -> State:
    """A core's fields, as a trace tells them."""
    return State(
        link=core.link, stands=core.stands, leads=core.leads,
        token=core.token, call=core.call, due=core.due,
    )  # fmt: skip


def _asked(core: Elector, asked: AskZooKeeper | None) -> AskLine | None:
    """The call that was sent; what a transaction checks, it checks first."""
    if asked is None:
        return None
    watch, epoch = False, ANY_VERSION
    match asked.operation:
        case Exists(watch=watch) | Get(watch=watch):
            pass
        case Multi(operations=(Set(path=path, version=version) | Check(path, version), *_)):
            epoch = version if path == core.paths.epoch else ANY_VERSION
    return AskLine(call=core.call, number=asked.number, watch=watch, epoch=epoch)


def answer_line(call: str, number: int, answer: Answer | None) -> AnswerLine:
    """
    The line on an answer, facts only: whether a node is one's own, its reader decides.

    Of an answer that nobody waits for (None), nothing is told.
    """
    outcome, owner, epoch, zxid = "unknown", 0, 0, 0
    match answer:
        case None:
            outcome = "late"
        case Found(stat=None):
            outcome = "absent"
        case Found(stat=stat) if stat is not None:
            outcome, owner, zxid = "found", stat.ephemeral_owner, stat.czxid
        case Data(data=data, stat=stat) if call == Call.RECALL.value:
            outcome, owner, zxid = "found", stat.ephemeral_owner, stat.czxid
            epoch = read_leader(data)[1]
        case Data(stat=stat):
            outcome, epoch, zxid = "epoch", stat.version, stat.mzxid
        case Done(answers=answers):
            outcome = "done"
            for stat in [part.stat for part in answers if isinstance(part, Changed)][:1]:
                epoch, zxid = stat.version, stat.mzxid
        case Refusal(why=Why.NO_NODE) if call == Call.RECALL.value:
            outcome = "absent"
        case Refusal(why=why) if why not in NOBODY_KNOWS and (call != WRITE or answer == STALE):
            outcome = "refused"
    return AnswerLine(
        call=call, number=number, outcome=outcome, owner=owner, epoch=epoch, zxid=zxid
    )
