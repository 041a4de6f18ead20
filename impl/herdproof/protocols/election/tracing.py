"""
Traces: one JSON line for each step of a node's protocol, written from the core's own fields.

`Tracer` is the seam's writer: give it to a shell as its observer. What it writes is version 1 of an
election's lines, which `docs/trace.md` documents, where other implementations find what they must
write. Lines are read as all traces are (`conformance/traces/line.py`); `FORMATS` says as what.

Every line is written with one call and flushed before the core's effects are carried out: what a
node did is in its trace even if the node is killed then. Only the machine's crash can lose lines
(there is no fsync), and a process that is killed within the call can leave a last line that is
cut off, which the reader names as such.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Final, Literal, TextIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from herdproof.conformance.traces.line import Formats, Int, Line
from herdproof.conformance.traces.tracer import Clock
from herdproof.protocols.election.elector import (
    NOBODY_KNOWS,
    Ask,
    Call,
    Effect,
    Elector,
    Event,
    Step,
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

SCHEMA: Final = 1
"""The version of the format; a reader refuses what it does not know."""

ELECTION: Final = "election"
"""The protocol of an election's trace."""

UNNAMED = frozenset({"start", "handle_watch", "handle_wake", "handle_late", "ignore"})
"""Actions of a trace that the spec does not have; all others are named as the spec's are."""


WRITE: Final = "write"
"""The call, and the step, of the owner's fenced writes."""
STALE = Refusal(Why.BAD_VERSION, 0)
"""The answer to a write of an epoch that is over."""


class State(Struct, kw_only=True, gc=False):
    """The state of a core after a step; see `Elector`."""

    link: str
    stands: bool
    leads: bool
    token: Int
    call: str
    due: bool


BEGINNING = State(
    link=Link.LOST.value, stands=False, leads=False, token=0, call=Call.NONE.value, due=False
)
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

    call: str
    number: Int
    watch: bool
    """True if it leaves a watch."""
    epoch: Int
    """The epoch that its transaction checks; -1 where it checks none."""


class TraceLine(Line, kw_only=True, gc=False):
    """One step of one node."""

    schema: Literal[1] = SCHEMA
    protocol: Literal["election"] = ELECTION
    since_ns: Int
    """A write was sent then; of all other steps, `time_ns`."""
    session: Int
    """The session after the step; 0 before the first."""
    answered: AnswerLine | None
    asked: AskLine | None
    state: State

    @property
    def epoch(self) -> int:
        """The last epoch that the node led in."""
        return self.state.token

    @property
    def earliest_ns(self) -> int:
        """When the step may have happened at the earliest."""
        return min(self.since_ns, self.time_ns)

    def written(self) -> str:
        """The line as it stands in a file, without its end."""
        raw = msgspec.to_builtins(self)
        return json.dumps({name: raw[name] for name in WRITTEN}, separators=(",", ":"))


WRITTEN = (
    "schema", "protocol", "run", "node", "sequence", "time_ns", "since_ns", "action", "session",
    "answered", "asked", "state",
)  # fmt: skip
"""The fields of a line, as they are written."""

FORMATS: Formats = {(SCHEMA, ELECTION): TraceLine}
"""The formats of elections' traces."""


# ── Writing ─────────────────────────────────────────────────────────────────────────────────


class Tracer:
    """
    Writes the trace of one process of a node, from `start` on; an observer for a shell.

    `run` names what belongs together. Several tracers may share a stream. May be called by any
    thread; what the stream raises is raised.
    """

    def __init__(
        self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns
    ) -> None:  # fmt: skip
        self.node = node
        self.run = run
        self.stream = stream
        self.clock = clock
        self._lock = threading.Lock()
        self._sequence = 0
        self._session = 0
        self._state = BEGINNING
        self._write("start")

    def __call__(self, core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        """The core has taken an event."""
        del event  # the core says what it was
        asked = next((e for e in effects if isinstance(e, Ask)), None)
        with self._lock:
            self._session = core.session
            self._state = state_of(core)
            for step in effects:
                if isinstance(step, Step):
                    told = answer_line(step.call.value, step.number, step.answer)
                    self._write(step.action, told if step.number else None, _asked(core, asked))

    def wrote(self, epoch: int, answer: Answer, since_ns: int | None = None) -> None:
        """The owner's fenced write, sent at `since_ns` under an epoch, was answered."""
        with self._lock:
            told = replace(answer_line(WRITE, 0, answer), epoch=epoch)
            self._write(WRITE, told, since_ns=since_ns)

    def _write(
        self, action: str, answered: AnswerLine | None = None, asked: AskLine | None = None,
        since_ns: int | None = None,
    ) -> None:  # fmt: skip
        self._sequence += 1
        now = self.clock()
        line = TraceLine(
            run=self.run, node=self.node, sequence=self._sequence, time_ns=now,
            since_ns=now if since_ns is None else since_ns, action=action,
            session=self._session, answered=answered, asked=asked, state=self._state,
        )  # fmt: skip
        self.stream.write(line.written() + "\n")
        self.stream.flush()


class Tracers(dict[Elector, Tracer]):
    """
    Tracers for many nodes on one stream: a new one for each core that turns up.

    Another core of the same name is another process of its node.
    """

    def __init__(self, run: str, stream: TextIO, clock: Clock = time.time_ns) -> None:
        super().__init__()
        self._given = run, stream, clock

    def __missing__(self, core: Elector) -> Tracer:
        tracer = self[core] = Tracer(core.broker, *self._given)
        return tracer

    def __call__(self, core: Elector, event: Event, effects: Sequence[Effect]) -> None:
        """A core has taken an event."""
        self[core](core, event, effects)

    def wrote(self, core: Elector, epoch: int, answer: Answer) -> None:
        """A write of this core's owner was answered."""
        self[core].wrote(epoch, answer)


def state_of(core: Elector) -> State:
    """A core's fields, as a trace tells them."""
    return State(
        link=core.link.value, stands=core.stands, leads=core.leads,
        token=core.token, call=core.call.value, due=core.due,
    )  # fmt: skip


def _asked(core: Elector, asked: Ask | None) -> AskLine | None:
    """The call that was sent; what a transaction checks, it checks first."""
    if asked is None:
        return None
    watch, epoch = False, ANY_VERSION
    match asked.operation:
        case Exists(watch=watch) | Get(watch=watch):
            pass
        case Multi(operations=(Set(path=path, version=version) | Check(path, version), *_)):
            epoch = version if path == core.paths.epoch else ANY_VERSION
    return AskLine(call=core.call.value, number=asked.number, watch=watch, epoch=epoch)


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
