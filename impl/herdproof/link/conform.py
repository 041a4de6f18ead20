"""
Traces of elections, replayed in the election's spec.

Two judges look at each line. The *ledger* (`ledger.py`) checks what the spec knows nothing of:
that sequences have no gap, that calls and answers pair up, that sessions and zxids fit together.
The spec (`herdspec.check.conform`) checks everything else, by replay. The first line that either
refuses counts.

A process that has no session yet is no part of the spec's world; its first session is where it
enters, as the broker that the spec begins with, or, if it is not the node's first process, by
`restart`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate
from pathlib import Path
from typing import Any

from herdproof.link.ledger import Ledger
from herdproof.trace import UNNAMED, AnswerLine, TraceError, TraceLine, read_trace
from herdspec.check.conform import Outcome, Progress, Verdict, conform
from herdspec.check.invariants import invariants_of
from herdspec.check.mismatch import Mismatch
from herdspec.check.possible import Line
from herdspec.language.specification import Specification
from herdspec.protocols.election import Answer, Broker, Call, Link
from herdspec.protocols.election_flaws import AT_ONCE
from herdspec.protocols.election_properties import ELECTION

NAMED = frozenset({
    "stand", "resign", "write", "restart", "look",
    "handle_look", "handle_recall", "handle_read", "handle_create", "handle_delete",
    "handle_suspended", "handle_reconnected", "handle_lost", "handle_new_session",
})  # fmt: skip
"""The spec's actions that a trace names; the others are inferred."""

NEVER = frozenset({"pause", "resume"})
"""What need not be inferred: a pause only withholds steps."""


@dataclass(frozen=True)
class Placed:
    """A line of a trace, and where it stands; `time` never goes back within a file."""

    line: TraceLine
    where: str
    time: int


def conform_files(
    paths: Sequence[Path], *, specification: Specification = ELECTION, slack_ns: int = 0,
    invariants: bool = True, progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """
    Replay the traces of one run, one file or several; lines are counted over all of them.

    The lines of one file come in its order; files are merged by time. `slack_ns` is how far the
    clocks of the machines that wrote them may be apart, in nanoseconds: 0 on one machine.
    `invariants`: what was proved of every state is evaluated in each. Raises `TraceError` where a
    file cannot be read.
    """
    placed = read_all(paths)
    return conform_placed(
        placed, specification=specification, slack_ns=slack_ns, invariants=invariants,
        progress=progress,
    )  # fmt: skip


def conform_placed(
    placed: Sequence[Placed], *, specification: Specification = ELECTION, slack_ns: int = 0,
    invariants: bool = True, progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """Replay lines that are in the order of time."""
    # Of a variant nothing was proved.
    proved = invariants_of(ELECTION, AT_ONCE) if specification is ELECTION and invariants else ()
    nodes = {p.line.node: None for p in placed}
    brokers = {node: index for index, node in enumerate(nodes)}
    ledger = Ledger()
    lines: list[tuple[int, Line]] = []
    objection = None
    entering = Entering()
    for number, p in enumerate(placed):
        objection = ledger.objection(p.line)
        if objection is not None:
            break
        broker = brokers[p.line.node]
        lines += ((number, line) for line in entering.lines(p, broker))
    outcome = conform(
        specification, {"Broker": max(1, len(brokers))}, [line for _, line in lines],
        named=NAMED, never=NEVER, inbox="answer", slack=slack_ns, promises=proved,
        progress=progress,
    )  # fmt: skip
    outcome = _counted(outcome, [number for number, _ in lines], placed, objection, ledger)
    return replace(outcome, mismatch=_renamed(outcome.mismatch, list(nodes)))


def read_all(paths: Sequence[Path]) -> list[Placed]:
    """The lines of all files, merged by time; `TraceError` if they are not of one run."""
    placed = list(merge(*map(_read, paths), key=lambda p: p.time))
    runs = sorted({p.line.run for p in placed})
    if len(runs) > 1:
        raise TraceError(f"these are traces of different runs ({', '.join(runs)}): give one run's")
    if not placed:
        raise TraceError(f"no line in {', '.join(map(str, paths))}: was anything traced?")
    return placed


def _read(path: Path) -> list[Placed]:
    lines = read_trace(path)
    times = accumulate((line.time_ns for line in lines), max)
    return [
        Placed(line, f"{path}, line {number}", time)
        for number, (line, time) in enumerate(zip(lines, times, strict=True), start=1)
    ]


class Entering:
    """Makes lines for the spec; keeps which processes have entered its world."""

    def __init__(self) -> None:
        self.entered: set[int] = set()
        """The brokers whose present process has had a session."""
        self.known: set[int] = set()
        """The brokers of which some process has had one."""
        self.due: dict[int, bool] = {}
        """What each broker's last line told of `due`."""

    def lines(self, placed: Placed, broker: int) -> list[Line]:
        """A trace's line as the spec's: none, one, or two where a process enters."""
        line = placed.line
        if line.action == "start":
            self.entered.discard(broker)
        was_due = self.due.get(broker, False)
        self.due[broker] = line.state.due
        if broker in self.entered:
            return [spec_line(placed, broker, was_due)]
        if line.action != "handle_new_session":
            return []
        again = broker in self.known
        self.entered.add(broker)
        self.known.add(broker)
        end = Line(
            node=broker, action="stand" if line.state.stands else None,
            arguments=(Broker(broker),) if line.state.stands else (),
            after=seen_after(line), became=became(line), time=placed.time, where=placed.where,
        )  # fmt: skip
        begin = replace(end, action="restart", arguments=(Broker(broker),), after={}, became={})
        return [begin, end] if again else [end]


def spec_line(placed: Placed, broker: int, was_due: bool) -> Line:
    """A step of a broker that takes part; its line before told `was_due`."""
    line = placed.line
    plain = Line(node=broker, action=None, time=placed.time, where=placed.where)
    if line.action == "write":
        return _write(line, plain)
    plain = replace(plain, after=seen_after(line, was_due), became=became(line))
    if line.action in UNNAMED:
        return plain
    before = {} if line.answered is None else seen_before(line.answered, line.session)
    return replace(plain, action=line.action, arguments=(Broker(broker),), before=before)


def _write(line: TraceLine, plain: Line) -> Line:
    """A write: whether the epoch's check let it pass; where nobody knows, nothing is claimed."""
    told = line.answered
    if told is None or told.outcome not in ("done", "refused"):
        return plain
    return replace(
        plain, action="write", arguments=(Broker(plain.node),), before={"token": told.epoch},
        answers={"accepts_write": told.outcome == "done"},
        since=line.since_ns if line.since_ns < line.time_ns else None,
    )  # fmt: skip


def seen_after(line: TraceLine, was_due: bool = False) -> dict[str, Any]:
    """
    What a line shows of the spec's state after the step.

    `due` is seen while it is true, and when the step ended it. Otherwise the spec may have it true
    already, as it counts a watch as due when it fires, and the core when it has taken the event.
    """
    state = line.state
    seen: dict[str, Any] = {
        "link": Link(state.link), "stands": state.stands, "leads": state.leads,
        "token": state.token, "call": Call(state.call),
    }  # fmt: skip
    if state.due or was_due:
        seen["due"] = state.due
    if line.asked is not None and line.asked.call == Call.CREATE.value:
        seen["number"] = line.asked.epoch
    return seen


def became(line: TraceLine) -> dict[str, Any]:
    """What cannot have become true by the step itself."""
    return {} if line.state.due else {"due": False}


def seen_before(answered: AnswerLine, session: int) -> dict[str, Any]:
    """What an answer shows of the spec's state before it was handled."""
    call, outcome = answered.call, answered.outcome
    if outcome == "found":
        mine = answered.owner == session
        seen = {"answer": Answer.MINE if mine else Answer.OTHERS}
        return {**seen, "number": answered.epoch} if mine and call == Call.RECALL.value else seen
    if outcome == "done":
        if call == Call.CREATE.value:
            return {"answer": Answer.CREATED, "number": answered.epoch}
        return {"answer": Answer.DELETED}
    if outcome == "epoch":
        return {"answer": Answer.EPOCH, "number": answered.epoch}
    return {"answer": Answer(outcome)}


def _counted(
    outcome: Outcome, numbers: Sequence[int], placed: Sequence[Placed],
    objection: str | None, ledger: Ledger,
) -> Outcome:  # fmt: skip
    """The outcome in lines of the trace; the ledger's objection, where the spec has none before."""
    matched = ledger.accepted if outcome.matched == len(numbers) else numbers[outcome.matched]
    outcome = replace(outcome, lines=len(placed), matched=matched)
    if objection is None or outcome.verdict is not Verdict.CONFORMS:
        return outcome
    p = placed[matched]
    mismatch = Mismatch(p.where, p.line.action, "nothing", (objection,))
    return replace(outcome, verdict=Verdict.DIFFERS, mismatch=mismatch)


def _renamed(mismatch: Mismatch | None, nodes: Sequence[str]) -> Mismatch | None:
    """The explanation with the nodes' own names for the spec's brokers."""
    if mismatch is None or mismatch.kind == "nothing":
        return mismatch
    names = {repr(Broker(index)): node for index, node in enumerate(nodes)}

    def renamed(text: str) -> str:
        return re.sub(r"\bbroker\d+\b", lambda found: names.get(found[0], found[0]), text)

    differences = tuple(map(renamed, mismatch.differences))
    return replace(mismatch, action=renamed(mismatch.action), differences=differences)
