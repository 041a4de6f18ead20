"""
The trace of system B: one line for each step of a coordinator or of a consumer.

Both tracers are observers of their shells (`Server`, `Session`, the simulator's processes): they
are told of every event after the core has taken it, and before anything that it decided is done.
What they write is read off the event, the effects and the core's own fields; the lines are named as
the specification's actions are. The format is documented in `docs/trace.md`, the reader of traces
is `herdproof.link.central`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

from herdproof.central_coordinator.consumer import ConsumerCore, Phase
from herdproof.central_coordinator.coordinator import Coordinator
from herdproof.central_coordinator.events import (
    Answered,
    Ask,
    ConsumerEffect,
    ConsumerEvent,
    CoordinatorEffect,
    CoordinatorEvent,
    Received,
    Report,
    Send,
)
from herdproof.central_coordinator.paths import unquoted
from herdproof.central_coordinator.recovery import read_owner
from herdproof.central_coordinator.reports import What
from herdproof.wire.messages import (
    Commit,
    ErrorCode,
    Frame,
    Leave,
    Offset,
    Ping,
    PingResponse,
    Register,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.zookeeper.operations import Answer, Done, Multi, Refusal, Why

SCHEMA = 1
"""The version of the format."""

CENTRAL = "central_coordinator"
"""The protocol of these traces."""

COORDINATOR, CONSUMER = "coordinator", "consumer"

Clock = Callable[[], int]
"""Nanoseconds since 1970, the same for all nodes of a run."""

Place = tuple[str, str, int]
"""A topic, a partition's number as text, and an offset (-1: none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CentralLine:
    """One step of one node; what has no meaning for an action is empty or 0."""

    schema: int = SCHEMA
    protocol: str = CENTRAL
    run: str
    node: str
    role: str
    """`coordinator` or `consumer`."""
    sequence: int
    """From 1, without a gap, for each process of a node."""
    time_ns: int
    """Wall clock, nanoseconds since 1970."""
    action: str
    group: str = ""
    epoch: int = 0
    generation: int = 0
    consumer: str = ""
    """The consumer's id."""
    member: str = ""
    """The registration, as its coordinator names it."""
    connection: int = 0
    """The correlation id of the Register: its consumer's number for the connection."""
    subscription: str = ""
    """What a Register asks for: its `topic_count`."""
    partitions: tuple[Place, ...] = ()
    """What is assigned, reported, committed or written; of a topic, the partitions that it has."""
    owners: tuple[tuple[str, str, str], ...] = ()
    """Of `write_owners`: topic, partition and registration."""
    number: int = 0
    """Of a write and its answer: which one it is."""
    outcome: str = ""
    until_ns: int = 0
    """Of a consumer: until when it may deliver records, unless its lease is renewed."""

    def written(self) -> str:
        """The line as it stands in a file, without its end."""
        return json.dumps(asdict(self), separators=(",", ":"))


class Writer:
    """Numbers and writes one process's lines; may be called by any thread."""

    def __init__(self, node: str, role: str, run: str, stream: TextIO, clock: Clock) -> None:
        self.clock = clock
        self._node = node
        self._role = role
        self._run = run
        self._stream = stream
        self._sequence = 0
        self._lock = threading.Lock()
        self.write("start")

    def write(self, action: str, **told: object) -> None:
        """Write a line, and flush it."""
        with self._lock:
            self._sequence += 1
            line = CentralLine(
                run=self._run, node=self._node, role=self._role, sequence=self._sequence,
                time_ns=self.clock(), action=action, **told,  # type: ignore[arg-type]
            )  # fmt: skip
            self._stream.write(line.written() + "\n")
            self._stream.flush()


# ── The coordinator ─────────────────────────────────────────────────────────────────────────

_WRITTEN = re.compile(r"/consumers/([^/]+)/(offsets|owners)/([^/]+)/([^/]+)")

_REPORTED = {
    What.REBALANCE_STARTED: ("begin_rebalance", "necessary"),
    What.REBALANCE_UNNECESSARY: ("begin_rebalance", "unnecessary"),
    What.REBALANCE_DONE: ("finish_rebalance", ""),
    What.REBALANCE_FAILED: ("fail_rebalance", ""),
}
"""Reports about a group that are steps: the action, and its outcome."""

_ASKED: dict[type[object], str] = {Ping: "ping", Stop: "stop", Start: "start"}


@dataclass(frozen=True, slots=True)
class Known:
    """Whom a channel belongs to, and the request that is outstanding over it."""

    group: str
    consumer: str
    member: str
    connection: int
    correlation_id: int = 0
    kind: str = ""


class CoordinatorTracer:
    """Writes the trace of one coordinator's process, from `start` on."""

    def __init__(self, node: str, run: str, stream: TextIO, clock: Clock = time.time_ns) -> None:
        self._writer = Writer(node, COORDINATOR, run, stream, clock)
        self._connections: dict[int, int] = {}
        """By channel, the correlation id of the Register that came over it."""
        self._known: dict[int, Known] = {}
        """By channel, who is a member."""
        self._channels: dict[str, int] = {}
        """By registration, its channel."""
        self._topics: dict[str, tuple[str, ...]] = {}
        self._writes: dict[int, str] = {}
        """The writes that are not answered: by number, their group."""

    def __call__(
        self, core: Coordinator, event: CoordinatorEvent, effects: Sequence[CoordinatorEffect]
    ) -> None:
        """The core has taken an event."""
        match event:
            case Received(channel=channel, frame=Frame(message=Register()) as frame):
                self._connections.setdefault(channel, frame.correlation_id)
            case Received(channel=channel, frame=frame):
                self._received(channel, frame, effects)
            case Answered(number=number, answer=answer):
                self._answered(number, answer)
                self._look_at_topics(core)
        for effect in effects:
            match effect:
                case Report():
                    self._reported(core, event, effect)
                case Send(channel=channel, frame=frame):
                    self._sent(channel, frame)
                case Ask(number=number, operation=Multi() as operation):
                    self._asked(core, number, operation)

    # ── What it hears ───────────────────────────────────────────────────────────────────────

    def _received(self, channel: int, frame: Frame, effects: Sequence[CoordinatorEffect]) -> None:
        known = self._known.get(channel)
        if known is None or frame.error is ErrorCode.STALE_EPOCH:
            return
        match frame.message:
            case Commit(offsets=offsets):
                refused = any(
                    isinstance(e, Report) and e.what == What.COMMIT_REFUSED for e in effects
                )
                self._tell(
                    "handle_commit", known, generation=frame.generation,
                    partitions=places(offsets), outcome="refused" if refused else "accepted",
                )  # fmt: skip
            case PingResponse(offsets=offsets) | StopResponse(offsets=offsets):
                self._response(channel, known, frame, offsets or ())
            case StartResponse():
                self._response(channel, known, frame, ())

    def _response(
        self, channel: int, known: Known, frame: Frame, offsets: Iterable[Offset]
    ) -> None:
        """A response; one that answers nothing (a copy's) is no step."""
        if not known.kind or frame.correlation_id != known.correlation_id:
            return
        self._known[channel] = Known(known.group, known.consumer, known.member, known.connection)
        outcome = frame.error.name if frame.error is not ErrorCode.NONE else ""
        if isinstance(frame.message, StartResponse) and not outcome:
            code = frame.message.error_code
            outcome = code.name if code is not ErrorCode.NONE else ""
        self._tell(
            f"handle_{known.kind}_response", known, generation=frame.generation,
            partitions=places(offsets), outcome=outcome,
        )  # fmt: skip

    def _answered(self, number: int, answer: Answer) -> None:
        group = self._writes.pop(number, None)
        if group is None:
            return
        outcome = "refused"
        if isinstance(answer, Done):
            outcome = "done"
        elif isinstance(answer, Refusal) and answer.why in NOBODY_KNOWS:
            outcome = "unknown"
        self._writer.write("answered", group=group, number=number, outcome=outcome)

    def _look_at_topics(self, core: Coordinator) -> None:
        """Tell of topics that the core knows now, or knows more partitions of."""
        topics = core.topics.topics
        for topic, numbers in topics.items():
            if self._topics.get(topic) != numbers:
                self._topics[topic] = numbers
                self._writer.write(
                    "topic_change_listener", partitions=tuple((topic, n, -1) for n in numbers)
                )
        for topic in self._topics.keys() - topics.keys():
            del self._topics[topic]

    # ── What it decides ─────────────────────────────────────────────────────────────────────

    def _reported(self, core: Coordinator, event: CoordinatorEvent, report: Report) -> None:
        details = dict(report.details)
        write = self._writer.write
        match report.what:
            case What.COORDINATOR_STARTUP:
                self._topics.clear()
                write("coordinator_startup", epoch=core.epoch or 0)
            case What.STEPPED_DOWN:
                self._forget()
                write("step_down", epoch=int(details["epoch"]))
            case What.MEMBER_JOINED:
                self._joined(core, report.group, str(details["member"]))
            case What.MEMBER_LOST:
                self._lost(str(details["member"]), str(details["why"]))
            case What.REGISTRATION_REFUSED if isinstance(event, Received):
                write(
                    "handle_register", group=report.group, consumer=str(details["consumer"]),
                    connection=self._connections[event.channel], outcome=str(details["error"]),
                )  # fmt: skip
            case What() as what if what in _REPORTED:
                action, outcome = _REPORTED[what]
                generation = core.groups[report.group].generation
                write(action, group=report.group, generation=generation, outcome=outcome)

    def _forget(self) -> None:
        for kept in (self._known, self._channels, self._connections, self._topics, self._writes):
            kept.clear()

    def _joined(self, core: Coordinator, group: str, registration: str) -> None:
        member = core.groups[group].members[registration]
        known = self._known[member.channel] = Known(
            group, member.consumer_id, registration, self._connections[member.channel]
        )
        self._channels[registration] = member.channel
        self._tell("handle_register", known, outcome="accepted")

    def _lost(self, registration: str, why: str) -> None:
        channel = self._channels.pop(registration)
        known = self._known.pop(channel)
        self._connections.pop(channel, None)
        action = "handle_closed" if why in ("its connection is closed", "it left") else "fail"
        self._tell(action, known, outcome=why)

    def _sent(self, channel: int, frame: Frame) -> None:
        known, kind = self._known.get(channel), _ASKED.get(type(frame.message))
        if known is None or kind is None or frame.correlation_id == known.correlation_id:
            return  # a response, or a ping's further copy
        self._known[channel] = Known(
            known.group, known.consumer, known.member, known.connection,
            frame.correlation_id, kind,
        )  # fmt: skip
        given = frame.message.partitions if isinstance(frame.message, Start) else ()
        self._tell(f"send_{kind}", known, generation=frame.generation, partitions=places(given))

    def _asked(self, core: Coordinator, number: int, operation: Multi) -> None:
        """A write of offsets, or the one that makes a group's next generation valid."""
        paths = [getattr(part, "path", "") for part in operation.operations]
        found = [match for path in paths if (match := _WRITTEN.fullmatch(path))]
        offsets = [m for m in found if m[2] == "offsets"]
        if offsets:
            self._writes[number] = group = unquoted(offsets[0][1])
            data = {getattr(p, "path", ""): getattr(p, "data", b"") for p in operation.operations}
            told = [(unquoted(m[3]), unquoted(m[4]), data[m[0]]) for m in offsets]
            self._writer.write(
                "flush_offsets", group=group, number=number, epoch=core.epoch or 0,
                partitions=tuple((t, n, int(value)) for t, n, value in told if value),
            )  # fmt: skip
            return
        for group, jobs in core.store.jobs.items():
            point = jobs[0].point
            if point is not None and point.path in paths and len(jobs[0].parts or ()) == 1:
                self._owners_asked(core, group, number, jobs[0].changes)

    def _owners_asked(
        self, core: Coordinator, group: str, number: int, changes: dict[str, bytes | None]
    ) -> None:
        self._writes[number] = group
        owners = []
        for path, data in changes.items():
            found = _WRITTEN.fullmatch(path)
            if found is not None and data is not None:
                owner = read_owner(data).registration
                owners.append((unquoted(found[3]), unquoted(found[4]), owner))
        self._writer.write(
            "write_owners", group=group, number=number, epoch=core.epoch or 0,
            generation=core.groups[group].generation + 1, owners=tuple(owners),
        )  # fmt: skip

    def _tell(self, action: str, known: Known, **told: object) -> None:
        self._writer.write(
            action, group=known.group, consumer=known.consumer, member=known.member,
            connection=known.connection, **told,
        )  # fmt: skip


NOBODY_KNOWS = frozenset({Why.CONNECTION_LOSS, Why.SESSION_EXPIRED})
"""A write that ends so may or may not have been done."""


def places(offsets: Iterable[Offset]) -> tuple[Place, ...]:
    """Offsets as a trace tells them; partitions by their number alone."""
    return tuple((o.topic, o.partition.rpartition("-")[2], o.offset) for o in offsets)


# ── The consumer ────────────────────────────────────────────────────────────────────────────


FOR_EVER_NS = 2**62
"""The lease of somebody who takes no notice of one."""


class ConsumerTracer:
    """Writes the trace of one consumer's process, from `start` on; `now_ms` is its core's clock."""

    def __init__(
        self, node: str, run: str, stream: TextIO, now_ms: Callable[[], int],
        clock: Clock = time.time_ns,
    ) -> None:  # fmt: skip
        self._writer = Writer(node, CONSUMER, run, stream, clock)
        self._now_ms = now_ms
        self._connection: int | None = None
        self._answered: set[int] = set()
        """The correlation ids of the requests that were answered over this connection."""
        self._lease = 0
        """Until when records may be delivered, as the last line told it."""

    def __call__(
        self, core: ConsumerCore, event: ConsumerEvent, effects: Sequence[ConsumerEffect]
    ) -> None:
        """The core has taken an event."""
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.frame.message, Leave):
                self._tell(core, "on_lost_connection")
                self._connection = None
            elif isinstance(effect, Send):
                self._sent(core, event, effect.frame)
        if self._connection is None:
            return
        if core.connector is None or core.phase in (Phase.CLOSED, Phase.FAILED):
            self._tell(core, "on_lost_connection")
            self._connection = None
        elif core.delivers_until_ms != self._lease:
            self._tell(core, "renew_lease")

    def _sent(self, core: ConsumerCore, event: ConsumerEvent, frame: Frame) -> None:
        message = frame.message
        if isinstance(message, Register):
            self._connection = frame.correlation_id
            self._answered.clear()
            self._tell(core, "register", subscription=message.topic_count)
        elif self._connection is None:
            return
        elif isinstance(message, Commit):
            offsets = places(message.offsets)
            self._tell(core, "commit", generation=frame.generation, partitions=offsets)
        elif frame.error is not ErrorCode.STALE_EPOCH:
            self._response(core, event, frame)

    def _response(self, core: ConsumerCore, event: ConsumerEvent, frame: Frame) -> None:
        """A response; to a ping's further copy it is no step."""
        if frame.correlation_id in self._answered:
            return
        request = event.frame if isinstance(event, Received) else frame
        generation, outcome = frame.generation, ""
        offsets: Iterable[Offset] | None = None
        match frame.message:
            case PingResponse():
                action, offsets = "handle_ping", frame.message.offsets
            case StopResponse():
                action, offsets = "handle_stop", frame.message.offsets
            case StartResponse(error_code=code):
                action, generation = "handle_start", request.generation
                offsets = request.message.partitions if isinstance(request.message, Start) else ()
                outcome = "" if code is ErrorCode.NONE else code.name
            case _:
                return
        self._answered.add(frame.correlation_id)
        self._tell(
            core, action, epoch=request.epoch, generation=generation,
            partitions=places(offsets or ()), outcome=outcome,
        )  # fmt: skip

    def _tell(self, core: ConsumerCore, action: str, **told: object) -> None:
        now_ns, lease = self._writer.clock(), core.delivers_until_ms
        self._lease = lease
        until_ns = min(now_ns + max(0, lease - self._now_ms()) * 1_000_000, FOR_EVER_NS)
        told.setdefault("epoch", core.consumption.epoch)
        self._writer.write(
            action, group=core.group, consumer=core.consumer_id, connection=self._connection or 0,
            until_ns=until_ns, **told,
        )  # fmt: skip
