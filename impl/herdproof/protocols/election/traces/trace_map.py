"""
The map of elections' traces: what their lines are to the election's spec.

Two judges look at each line. The *ledger* (`ledger.py`) checks what the spec knows nothing of:
that sequences have no gap, that calls and answers pair up, that sessions and zxids fit together.
The spec (`herdspec.check.conformance.conform`) checks everything else, by replay. The first line
that either refuses counts.

A process that has no session yet is no part of the spec's world; its first session is where it
enters, as the broker that the spec begins with, or, if it is not the node's first process, by
`restart`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from msgspec.structs import asdict

from herdproof.conformance.traces.groups import Missing
from herdproof.conformance.traces.mapping import Raw, TraceMap
from herdproof.protocols.election.traces.ledger import NAMED, UNNAMED, Ledger
from herdproof.protocols.election.tracing import ELECTION as NAME
from herdproof.protocols.election.tracing import FORMATS, ElectorArguments, ElectorLine
from herdspec.check.conformance.possible import Line
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Answer, Broker, Call, Link

NEVER = frozenset({"pause", "resume"})
"""Actions that need not be inferred: a pause only withholds steps."""


def raw(lines: Sequence[ElectorLine]) -> Raw:
    """All lines of a run, in order, up to the first to which the ledger objects."""
    nodes = {line.node: None for line in lines}
    brokers = {node: index for index, node in enumerate(nodes)}
    ledger = Ledger()
    made: list[tuple[int, Line]] = []
    objection = None
    times = accumulate((line.time_ns for line in lines), max)
    for number, (line, time) in enumerate(zip(lines, times, strict=True)):
        before = ledger.process(line)
        again = line.node in ledger.sessions.values()
        if (why := ledger.objection(line)) is not None:
            objection = number, why
            break
        broker = brokers[line.node]
        if before is not None and before.session:
            made.append((number, spec_line(line, broker, before.state.due, time)))
        elif line.action == "handle_new_session":
            made += ((number, of) for of in entering(line, broker, time, again=again))
    return Raw(
        {"Broker": max(1, len(brokers))}, [line for _, line in made], NAMED, NEVER, "answer",
        at=[number for number, _ in made], names=list(nodes), objection=objection,
    )  # fmt: skip


def untraced(lines: Sequence[ElectorLine]) -> Iterator[Missing]:
    """Sessions that own the leader's node, and are nobody's whose trace is here."""
    sessions = {line.arguments.session for line in lines}
    for k, line in enumerate(lines):
        answered = line.arguments.answered
        owner = 0 if answered is None else answered.owner
        if owner and owner not in sessions:
            sessions.add(owner)
            why = f"session {owner}, which {line.node} found to lead ({line.place}), is of nobody"
            yield Missing(f"{why} whose trace is here", k)


def former(lines: Sequence[ElectorLine], at: int) -> str:
    """
    Why a line from `at` on need not be explained: elections that were before this run.

    The replay begins at epoch 0. Where the first epoch that is read is one that nobody here began,
    it knows nothing of it; an epoch that is read later has to be one that it knows.
    """
    asked = [line.arguments.asked for line in lines]
    begun = {call.epoch + 1 for call in asked if call and call.call.value == Call.CREATE.value}
    first = (k for k in range(at + 1) if is_read(lines[k]))
    line = next((lines[k] for k in first), None)
    if line is None or line.arguments.answered is None:
        return ""
    epoch, then = line.arguments.answered.epoch, line.arguments.asked
    if epoch in begun | {0} or (then is not None and then.epoch != epoch):
        return ""
    why = f"epoch {epoch}, which {line.node} read first ({line.place}), was begun before"
    return f"{why}, by nobody whose trace is here"


def is_read(line: ElectorLine) -> bool:
    """Tells whether a line has the answer to a reading of the epoch."""
    answered = line.arguments.answered
    return answered is not None and answered.outcome == "epoch"


def entering(line: ElectorLine, broker: int, time: int, *, again: bool) -> list[Line]:
    """The first session of a process: where it enters the spec's world, maybe `again`."""
    end = Line(
        node=broker, action="stand" if line.state.stands else None,
        arguments=(Broker(broker),) if line.state.stands else (),
        after=seen_after(line), became=became(line), time=time, where=line.place,
    )  # fmt: skip
    begin = replace(end, action="restart", arguments=(Broker(broker),), after={}, became={})
    return [begin, end] if again else [end]


def spec_line(line: ElectorLine, broker: int, was_due: bool, time: int) -> Line:
    """A step of a broker that takes part; its line before told `was_due`."""
    plain = Line(node=broker, action=None, time=time, where=line.place)
    if line.action == "write":
        return _write(line, plain)
    plain = replace(plain, after=seen_after(line, was_due), became=became(line))
    if line.action in UNNAMED:
        return plain
    before = seen_before(line.arguments)
    return replace(plain, action=line.action, arguments=(Broker(broker),), before=before)


def _write(line: ElectorLine, plain: Line) -> Line:
    """A write: whether the epoch's check let it pass; where nobody knows, nothing is claimed."""
    told = line.arguments.answered
    if told is None or told.outcome not in ("done", "refused"):
        return plain
    return replace(
        plain, action="write", arguments=(Broker(plain.node),), before={"token": told.epoch},
        answers={"accepts_write": told.outcome == "done"},
        since=line.earliest_ns if line.earliest_ns < line.time_ns else None,
    )  # fmt: skip


def seen_after(line: ElectorLine, was_due: bool = False) -> dict[str, Any]:
    """
    The fields of the spec's state after the step, as a line shows them.

    `due` is seen while it is true, and when the step ended it. Otherwise the spec may have it true
    already, as it counts a watch as due when it fires, and the core when it has taken the event.
    """
    state = line.state
    seen: dict[str, Any] = {
        **asdict(state), "link": Link(state.link.value), "call": Call(state.call.value)
    }  # fmt: skip
    if not (state.due or was_due):
        del seen["due"]
    asked = line.arguments.asked
    if asked is not None and asked.call.value == Call.CREATE.value:
        seen["number"] = asked.epoch
    return seen


def became(line: ElectorLine) -> dict[str, Any]:
    """The fields that cannot have become true by the step itself."""
    return {} if line.state.due else {"due": False}


def seen_before(told: ElectorArguments) -> dict[str, Any]:
    """The fields of the spec's state before an answer was handled, as that shows them."""
    answered = told.answered
    if answered is None:
        return {}
    call, outcome = answered.call, answered.outcome
    if outcome == "found":
        mine = answered.owner == told.session
        seen = {"answer": Answer.MINE if mine else Answer.OTHERS}
        return {**seen, "number": answered.epoch} if mine and call == Call.RECALL.value else seen
    if outcome == "done":
        if call == Call.CREATE.value:
            return {"answer": Answer.CREATED, "number": answered.epoch}
        return {"answer": Answer.DELETED}
    if outcome == "epoch":
        return {"answer": Answer.EPOCH, "number": answered.epoch}
    return {"answer": Answer(outcome)}


TRACES = TraceMap(
    ELECTION, protocol=NAME, raw=raw, formats=FORMATS, untraced=untraced, excused=former
)  # fmt: skip
"""Of traces of elections (`docs/trace.md`)."""
