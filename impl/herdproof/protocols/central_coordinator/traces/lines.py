"""
Lines of the traces of system B: as they are written, as all that comes after the reader knows them,
and what orders them.

What its tracers write (`protocols/central_coordinator/tracing.py`) is documented in
`docs/central_trace.md`. Lines are read and ordered as all traces are (`conformance/traces`);
`FORMATS` says as what.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, Literal

from msgspec import defstruct, structs

from herdproof.conformance.traces.line import (
    SCHEMA,
    START,
    After,
    Formats,
    Int,
    Line,
    TraceError,
    TraceLine,
    read_line,
    read_texts,
)
from herdproof.conformance.traces.ordering import Link
from herdproof.protocols.central_coordinator.steps import CoordinationStep
from herdproof.protocols.central_coordinator.tracing import CENTRAL, CONSUMER, COORDINATOR, Place

_AS_WRITTEN: dict[Any, Any] = {int: Int, "partitions": tuple[Place, ...]}
"""Types that are not those of the cores' own steps."""
_FIELDS = [
    f for f in structs.fields(CoordinationStep)
    if f.name not in ("action", "group", "until_ms", "brought")
]  # fmt: skip
_TOLD: list[Any] = [
    *((f.name, _AS_WRITTEN.get(f.name, _AS_WRITTEN.get(f.type, f.type))) for f in _FIELDS),
    ("until_ns", Int), ("brought", tuple[Place, ...], ()),
]  # fmt: skip
"""Names and types of the arguments of a step, in their order."""
_WHO = [("schema", int), ("protocol", str), ("run", str), ("node", str), ("sequence", Int),
        ("time_ns", Int), ("action", str), ("role", str), ("group", str)]  # fmt: skip
TOLD = tuple(str(each[0]) for each in _TOLD)
"""The arguments of a step, as its core tells them: each is in each line, but for `brought`."""

CentralArguments: Any = defstruct("CentralArguments", _TOLD, gc=False)
"""
The arguments of a step, each of them.

Where one is missing nobody knows what it would have told; it is not empty. But `brought`, which is
told where anything was, and by no older coordinator.
"""
NOTHING = (*(f.default for f in _FIELDS), 0, ())
"""The arguments of a process's first line, which has none."""

OF_ALL = frozenset({START, "coordinator_startup", "step_down", "topic_change_listener"})
"""Actions that concern all groups."""

_STEP: Any = defstruct(
    "_STEP", [*_WHO, *_TOLD, ("after", After | None, None)], bases=(Line,), gc=False
)


class CentralStep(_STEP, gc=False):  # type: ignore[misc, call-arg]
    """A line of a coordinator or of a consumer: who and when, and a `CoordinationStep`'s fields."""

    @property
    def shared(self) -> bool:
        """True if its process's numbers run through the lines of several groups."""
        return bool(self.role == COORDINATOR)

    def follows(self, before: CentralStep, /) -> bool:
        """
        True if it can be the next line of the process that has told the other one.

        A consumer speaks of one connection until it has lost it, and of no other before it
        registers there.
        """
        if self.role == COORDINATOR:
            return True
        if self.action == "register":
            return before.action in (START, "on_lost_connection")
        return bool(self.connection == before.connection)

    def written(self) -> str:
        """The line as it stands in a file, without its end."""
        told = {} if self.action == START else {name: getattr(self, name) for name in TOLD}
        if not self.brought:
            told.pop("brought", None)
        return TraceLine(
            schema=SCHEMA, protocol=CENTRAL, run=self.run, node=self.node, role=self.role,
            group=self.group, sequence=self.sequence, time_ns=self.time_ns, action=self.action,
            arguments=told, after=self.after,
        ).written()  # fmt: skip


class WrittenStep(Line, kw_only=True, gc=False):
    """A line as it is written: version 2."""

    schema: Literal[2]
    protocol: Literal["central_coordinator"]
    role: str
    group: str = ""
    arguments: CentralArguments | None = None
    after: After | None = None

    def translated(self) -> CentralStep:
        """The line as all that comes after the reader knows it."""
        if not self.group and self.action not in OF_ALL:
            raise TraceError("the field `group` is missing")
        if self.arguments is None and self.action != START:
            raise TraceError("the field `arguments` is missing")
        told = NOTHING if self.arguments is None else structs.astuple(self.arguments)
        return CentralStep(
            SCHEMA, CENTRAL, self.run, self.node, self.sequence, self.time_ns, self.action,
            self.role, self.group, *told, self.after,
        )  # fmt: skip


class FormerStep(_STEP, gc=False):  # type: ignore[misc, call-arg]
    """A line of version 1, which had all of this beside each other."""

    schema: Literal[1]
    protocol: Literal["central_coordinator"]

    def translated(self) -> CentralStep:
        """The line as all that comes after the reader knows it."""
        now = {"schema": SCHEMA, "action": action_of(self.action)}
        return CentralStep(**structs.asdict(self) | now)


def action_of(name: str) -> str:
    """The action of a line that goes by a name without signs, as all did in version 1."""
    return START if name == "start" else name


FORMATS: Formats = {(SCHEMA, CENTRAL): WrittenStep, (1, CENTRAL): FormerStep}
"""Classes of lines that a reader of these traces reads."""


def lines_of(texts: Iterable[str], name: str) -> list[CentralStep]:
    """Lines of one stream of several processes, in its order."""
    return read_texts(texts, name, FORMATS)


def read_central_line(text: str) -> CentralStep:
    """One line of a trace; `TraceError` says what is wrong with it."""
    line: CentralStep = read_line(text, formats=FORMATS)
    return line


# ── Order ───────────────────────────────────────────────────────────────────────────────────


Number = tuple[str, int]
"""A consumer's id, and the number that it has drawn for a connection."""


def drawn_twice(lines: Iterable[CentralStep]) -> set[Number]:
    """
    The numbers of several registrations: by their names, their Registers, or their processes.

    A name that one line alone tells, which is no Register, is a mistake.
    """
    lines = [*lines]
    names = {(x.consumer, x.connection, x.member) for x in lines if x.member and x.connection}
    again = _again(names)
    told = Counter(
        (x.consumer, x.connection, x.member, x.action == "handle_register")
        for x in lines if again and (x.consumer, x.connection) in again
    )  # fmt: skip
    named = {each[:3] for each, many in told.items() if each[2] and (each[3] or many > 1)}
    registers = {
        (x.consumer, x.connection, x.sequence, x.time_ns) for x in lines if x.action == "register"
    }
    starts: dict[str, list[int]] = defaultdict(list)
    for x in lines:
        if x.sequence == 1 and x.role == CONSUMER:
            starts[x.node].append(x.time_ns)
    begun = {node: sorted(times) for node, times in starts.items() if len(times) > 1}
    processes = {
        (x.consumer, x.connection, bisect_right(begun[x.node], x.time_ns))
        for x in lines if x.node in begun and x.connection and x.role == CONSUMER
    }  # fmt: skip
    return _again(named) | _again(registers) | _again(processes)


def _again(found: Iterable[tuple[Any, ...]]) -> set[Number]:
    """The numbers that are there more than once."""
    counts = Counter((each[0], each[1]) for each in found)
    return {number for number, many in counts.items() if many > 1}


class Messages:
    """
    Order of lines as messages, and generations that were written, say it.

    They are known by what they carry, not by their number: a line that is missing moves no other.
    Of messages over connections of one number nobody knows over which each was sent.
    """

    def __init__(self, lines: Iterable[CentralStep] = ()) -> None:
        self._twice = drawn_twice(lines)
        self._started: dict[tuple[str, str, str, int], int] = {}
        """By node and connection, the generation of the last Start."""

    def __call__(self, line: CentralStep) -> Link | None:
        """The messages that a line needs, and those that it says; told in a node's order."""
        kind = _MESSAGES.get(line.action)
        if kind is None:
            return None
        consumer, connection, number = line.consumer, line.connection, line.generation
        if kind == "generation":
            says = line.action == "write_owners"
            return ((), ((kind, number),)) if says else (((kind, number),), ())
        if self._twice and (consumer, connection) in self._twice:
            return None
        if kind == "start":
            self._started[line.role, line.node, consumer, connection] = number
            begins, begun = (kind, consumer, connection, number), (consumer, connection, number)
            return ((), (begins,)) if line.action == "send_start" else ((begins,), (begun,))
        if kind == "started":
            return ((consumer, connection, number),), ()
        accepted = ("accepted", consumer, connection)
        if kind in ("register", "registered"):  # another connection may have had its number
            self._started.pop((line.role, line.node, consumer, connection), None)
        if kind == "register":
            return (), ((kind, consumer, connection),)
        if kind == "registered":
            said = (accepted,) if line.outcome == "accepted" else ()
            return (("register", consumer, connection),), said
        if kind in ("resume", "resumed"):
            asks = ("resume", consumer, connection)
            return ((), (asks,)) if kind == "resume" else ((asks,), ())
        if kind == "stopped":
            number = self._started.get((line.role, line.node, consumer, connection), 0)
        told = (kind, consumer, connection, number if kind == "stopped" else 0, line.partitions)
        return ((accepted,), (told,)) if line.role == CONSUMER else ((told,), ())


_MESSAGES = {
    "register": "register", "handle_register": "registered",
    "resume": "resume", "handle_resume": "resumed",
    "send_start": "start", "handle_start": "start", "handle_start_response": "started",
    "handle_stop": "stopped", "handle_stop_response": "stopped",
    "handle_ping": "said", "handle_ping_response": "said",
    "commit": "said", "handle_commit": "said",
    "write_owners": "generation", "begin_rebalance": "generation",
}  # fmt: skip


def is_said_once(message: Hashable) -> bool:
    """True for what nobody says twice: not for what a message carries that can come again."""
    return not isinstance(message, tuple) or message[0] not in ("said", "stopped", "resume")


def is_said_by_one(message: Hashable) -> bool:
    """True for what one says once, and nobody else: a generation may be written in vain before."""
    return is_said_once(message) and not (isinstance(message, tuple) and message[0] == "generation")


def exchanged(line: CentralStep) -> Link | None:
    """The messages of a line by itself: what depends on lines before it is not to be relied on."""
    return Messages()(line)
