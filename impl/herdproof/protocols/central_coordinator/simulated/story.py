"""
A run's log as a story: what happened to whom, in sentences, without what goes on all the time.

A log holds a line for each event that a core took (with what it answered), for each fault, and for
each change of a link; `digest` is a number of all of it, by which two runs are found to be the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum

from msgspec import Struct

from herdproof.consuming.events import Assigned, Consumed
from herdproof.consuming.offsets import NamedPartition, Offset
from herdproof.protocols.central_coordinator.events import (
    Answered,
    Ask,
    Close,
    Closed,
    CommitAsked,
    Committed,
    Connect,
    Connected,
    ConnectFailed,
    Fired,
    Opened,
    Received,
    Report,
    Send,
    Tick,
    WakeAt,
)
from herdproof.protocols.central_coordinator.simulated.random_runs import Fault
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.wire.messages import (
    Consult,
    ConsultResponse,
    Frame,
    Ping,
    PingResponse,
)
from herdproof.simulator.log import Line as Line
from herdproof.simulator.log import digest as digest_of
from herdproof.zookeeper.operations import (
    Check,
    Children,
    Create,
    Delete,
    Done,
    Exists,
    Get,
    Link,
    Multi,
    Set,
    Sync,
)

ROUTINE = (Tick, Consumed, CommitAsked, Opened, Connected, ConnectFailed, Closed, Fired, Answered)
"""Events that are told only if something came of them."""
QUIET = (WakeAt, Report, Committed, Assigned, Connect, CoordinationStep)
"""Effects that are not told."""
TALK = (Ping, PingResponse, Consult, ConsultResponse)
"""Messages that are not told."""


def digest(lines: Iterable[Line]) -> str:
    """A number of a whole log: that of another run is another, unless they are the same."""
    return digest_of(lines, CoordinationStep)


def story(lines: Sequence[Line], last: int = 50) -> list[str]:
    """The last so many lines that are worth telling, in order, and all faults."""
    told: list[str] = []
    for line in reversed(lines):
        if len(told) >= last and not isinstance(line[2], Fault):
            continue
        text = sentence(line)
        if text is not None:
            told.append(text)
    return told[::-1]


def sentence(line: Line) -> str | None:
    """A line as text; None if nothing of it is worth telling."""
    time_ms, who, event, effects = line
    if isinstance(event, Fault):
        return f"{time_ms / 1000:9.3f} s  ━━ {event}"
    worth = [effect for effect in effects if not _is_routine(effect)]
    if not worth and (isinstance(event, ROUTINE) or _is_routine(event)):
        return None
    then = "".join(f"; {shown(effect)}" for effect in worth)
    return f"{time_ms / 1000:9.3f} s  {who:8s} {shown(event)}{then}"


def _is_routine(what: object) -> bool:
    """True if such a thing goes on all the time."""
    if isinstance(what, Send | Received):
        return isinstance(what.frame.message, TALK)
    if isinstance(what, Ask):
        return isinstance(what.operation, Get | Exists | Children | Sync)
    return isinstance(what, QUIET)


def shown(what: object) -> str:
    """An event, an effect or what they are made of, shorter than Python has them."""
    match what:
        case Send(channel, frame):
            return f"sends {shown(frame)} over {channel}"
        case Received(channel, frame):
            return f"receives {shown(frame)} over {channel}"
        case Close(channel, why):
            return f"closes {channel}: {why}"
        case Ask(number, operation):
            return f"asks {number}: {shown(operation)}"
        case Answered(number, answer):
            return f"is answered {number}: {shown(answer)}"
        case Frame(message, correlation_id, epoch, generation):
            header = f"#{correlation_id}, epoch {epoch}, generation {generation}"
            return f"{shown(message)} ({header})"
        case Offset(topic, partition, offset):
            return f"{topic}-{partition}:{offset}"
        case NamedPartition(topic, partition):
            return f"{topic}-{partition}"
        case Done():
            return "done"
        case Multi(operations):
            return "{" + ", ".join(shown(part) for part in operations) + "}"
        case Check(path, version):
            return f"check {path} is {version}"
        case Create(path, data) | Set(path, data):
            return f"{type(what).__name__.lower()} {path} = {data.decode(errors='replace')}"
        case Delete(path):
            return f"delete {path}"
        case (Link() as link, session):
            return f"ZooKeeper: {link.value}, session {session}"
        case tuple():
            return "(" + ", ".join(shown(one) for one in what) + ")"
        case Enum():
            return what.name
    if isinstance(what, Struct):
        return _called(what, what.__struct_fields__)
    if is_dataclass(what) and not isinstance(what, type):
        return _called(what, [field.name for field in fields(what)])
    return repr(what)


def _called(what: object, names: Iterable[str]) -> str:
    """A value by its class, and by what it is made of."""
    return f"{type(what).__name__}({', '.join(shown(getattr(what, name)) for name in names)})"
