"""
Traces of the central coordinator for the audit: lines, their order, their replay.

What lines say that happened is told by `central_teller.py`. Format: `docs/central_trace.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec import field as struct_field

from herdproof.central_coordinator.tracing import (
    CENTRAL,
    CONSUMER,
    COORDINATOR,
    SCHEMA,
    CentralLine,
)
from herdproof.conformance.traces.ordering import Link, Ordered, ordered
from herdproof.link.central_lines import read_central_line
from herdproof.pipeline.auditor import Auditor, Replayed
from herdproof.pipeline.central_teller import CentralTeller
from herdproof.pipeline.lines import MOST, Reader
from herdproof.pipeline.replays import replay_central

Int = Annotated[int, Meta(ge=-MOST, le=MOST - 1)]


class Line(Struct, kw_only=True, gc=False):
    """A line as `CentralLine`, and where it stands."""

    schema: Literal[1]
    protocol: Literal["central_coordinator"]
    run: str
    node: str
    role: str
    sequence: Int
    time_ns: Int
    action: str
    group: str = ""
    epoch: Int = 0
    generation: Int = 0
    consumer: str = ""
    member: str = ""
    connection: Int = 0
    subscription: str = ""
    partitions: tuple[tuple[str, str, Int], ...] = ()
    owners: tuple[tuple[str, str, str], ...] = ()
    number: Int = 0
    outcome: str = ""
    until_ns: Int = 0
    place: str = struct_field(default="", name="(place)")

    @property
    def shared(self) -> bool:
        """Whether its process's numbers run through the lines of several groups."""
        return self.role == COORDINATOR

    def written(self) -> str:
        """The line as it stands in a file, without its end."""
        return central_line(self).written()


NAMES = CentralLine.__dataclass_fields__.keys()


def line_of(line: CentralLine) -> Line:
    """A line that the protocol's own reader has read, or that a tracer wrote."""
    return Line(**{name: getattr(line, name) for name in NAMES})


def central_line(line: Line) -> CentralLine:
    """The line as everybody else has it."""
    return CentralLine(**{name: getattr(line, name) for name in NAMES})


class Messages:
    """
    What messages, and generations that were written, say of the order of lines.

    They are known by what they carry, not by their number: a line that is missing moves no other.
    """

    def __init__(self) -> None:
        self._started: dict[tuple[str, str, int], int] = {}
        """By role and connection, the generation of the last Start."""

    def __call__(self, line: Line) -> Link | None:
        """What a line needs to have been said before, and what it says; told in a node's order."""
        kind = _MESSAGES.get(line.action)
        if kind is None:
            return None
        consumer, connection, number = line.consumer, line.connection, line.generation
        if kind == "generation":
            says = line.action == "write_owners"
            return ((), ((kind, number),)) if says else (((kind, number),), ())
        if kind == "start":
            self._started[line.role, consumer, connection] = number
            begins, begun = (kind, consumer, connection, number), (consumer, connection, number)
            return ((), (begins,)) if line.action == "send_start" else ((begins,), (begun,))
        if kind == "started":
            return ((consumer, connection, number),), ()
        if kind == "register":
            return (), ((kind, consumer, connection),)
        accepted = ("accepted", consumer, connection)
        if kind == "registered":
            said = (accepted,) if line.outcome == "accepted" else ()
            return (("register", consumer, connection),), said
        if kind == "stopped":
            number = self._started.get((line.role, consumer, connection), 0)
        told = (kind, consumer, connection, number if kind == "stopped" else 0, line.partitions)
        return ((accepted,), (told,)) if line.role == CONSUMER else ((told,), ())


_MESSAGES = {
    "register": "register", "handle_register": "registered",
    "send_start": "start", "handle_start": "start", "handle_start_response": "started",
    "handle_stop": "stopped", "handle_stop_response": "stopped",
    "handle_ping": "said", "handle_ping_response": "said",
    "commit": "said", "handle_commit": "said",
    "write_owners": "generation", "begin_rebalance": "generation",
}  # fmt: skip

_LIVENESS = "a trace cannot show what is left undone for ever"

OBSERVABLE: Mapping[str, str] = {
    "EXCLUSIVE": "",
    "FENCED_COMMIT": "",
    "FENCED_WRITE": "",
    "FENCED_COMMAND": "",
    "COMMANDS_NOBODY": "",
    "WRITTEN_FIRST": "",
    "MONOTONE": "",
    "NOTHING_SKIPPED": "",
    "ONLY_FINISHED": "",
    "STORED_FIRST": "",
    "COMPLETE": "",
    "ONE_COORDINATOR": "",
    "SETTLES": _LIVENESS,
}
"""What coordinators and consumers together tell enough about."""


class CentralAuditor(Auditor):
    """What the pipeline knows of the central coordinator's traces."""

    name = CENTRAL
    grouped = True
    observable = OBSERVABLE

    def __init__(self) -> None:
        self._read = Reader(Line, SCHEMA, read_central_line, line_of)

    def read(self, text: str, place: str) -> Line:
        """A line of a trace, or `Malformed`."""
        line: Line = self._read(text, place)
        return line

    def ordered(self, lines: Sequence[Line]) -> Ordered[Line]:
        """A group's lines in the order in which things happened, those twice, those missing."""
        return ordered(lines, Messages())

    def teller(self, run: str, group: str) -> CentralTeller:
        """Who tells a group's lines."""
        del run
        return CentralTeller(group)

    def replay(self, lines: Sequence[Line]) -> Replayed:
        """A group's lines, in order, replayed in the spec."""
        return replay_central([(line, line.place) for line in lines])
