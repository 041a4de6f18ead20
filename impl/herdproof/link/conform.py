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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from herdproof.conformance.traces.groups import Missing, by_group, gaps
from herdproof.conformance.traces.line import read_files
from herdproof.conformance.traces.ordering import numbered, ordered
from herdproof.link.ledger import Ledger
from herdproof.trace import FORMATS, UNNAMED, AnswerLine, TraceLine
from herdspec.check.conform import Outcome, Progress, Verdict, conform
from herdspec.check.invariants import invariants_of
from herdspec.check.mismatch import Mismatch
from herdspec.check.possible import Line
from herdspec.language.specification import Promise, Specification
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


def conform_files(
    paths: Sequence[Path], *, specification: Specification = ELECTION, slack_ns: int = 0,
    invariants: bool = True, progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """
    Replay the traces of one run, one file or several; lines are counted over all of them.

    `slack_ns` is how far the clocks of the machines that wrote them may be apart, in nanoseconds: 0
    on one machine. `invariants`: what was proved of every state is evaluated in each. Where a
    trace, or a part of one, is missing, the outcome is unknown, unless it differs before. Raises
    `TraceError` where a file cannot be read.
    """
    return conform_lines(
        read_all(paths), specification=specification, slack_ns=slack_ns, invariants=invariants,
        progress=progress,
    )  # fmt: skip


def conform_lines(
    lines: Sequence[TraceLine], *, specification: Specification = ELECTION, slack_ns: int = 0,
    invariants: bool = False, progress: Progress | None = None, whole: bool = True,
) -> Outcome:  # fmt: skip
    """Replay lines that are in their order; `whole`: all that were ever written should be there."""
    # Of a variant nothing was proved.
    proved = invariants_of(ELECTION, AT_ONCE) if specification is ELECTION and invariants else ()
    missing = [*gaps(lines), *untraced(lines)] if whole else []

    def replay(group: str, upto: int) -> Outcome:
        del group  # there is one
        return _replayed(lines[:upto], specification, slack_ns, proved, progress)

    return replace(by_group([""], len(lines), missing, replay), groups={})


def _replayed(
    lines: Sequence[TraceLine], specification: Specification, slack_ns: int,
    proved: Sequence[Promise], progress: Progress | None,
) -> Outcome:  # fmt: skip
    nodes = {line.node: None for line in lines}
    brokers = {node: index for index, node in enumerate(nodes)}
    ledger = Ledger()
    made: list[tuple[int, Line]] = []
    objection = None
    entering = Entering()
    times = accumulate((line.time_ns for line in lines), max)
    for number, (line, time) in enumerate(zip(lines, times, strict=True)):
        objection = ledger.objection(line)
        if objection is not None:
            break
        broker = brokers[line.node]
        made += ((number, of) for of in entering.lines(line, broker, time))
    outcome = conform(
        specification, {"Broker": max(1, len(brokers))}, [line for _, line in made],
        named=NAMED, never=NEVER, inbox="answer", slack=slack_ns, promises=proved,
        progress=progress,
    )  # fmt: skip
    outcome = _counted(outcome, [number for number, _ in made], lines, objection, ledger)
    return replace(outcome, mismatch=_renamed(outcome.mismatch, list(nodes)))


def untraced(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """Sessions that own the leader's node, and are nobody's whose trace is here."""
    sessions = {line.session for line in lines}
    for k, line in enumerate(lines):
        owner = 0 if line.answered is None else line.answered.owner
        if owner and owner not in sessions:
            sessions.add(owner)
            why = f"session {owner}, which {line.node} found to lead ({line.place}), is of nobody"
            yield Missing(f"{why} whose trace is here", k)


def read_all(paths: Sequence[Path]) -> list[TraceLine]:
    """The lines of all files, in their order; `TraceError` if they are not of one run."""
    return numbered(ordered(read_files(paths, FORMATS)), "start")


class Entering:
    """Makes lines for the spec; keeps which processes have entered its world."""

    def __init__(self) -> None:
        self.entered: set[int] = set()
        """The brokers whose present process has had a session."""
        self.known: set[int] = set()
        """The brokers of which some process has had one."""
        self.due: dict[int, bool] = {}
        """What each broker's last line told of `due`."""

    def lines(self, line: TraceLine, broker: int, time: int) -> list[Line]:
        """A trace's line as the spec's: none, one, or two where a process enters."""
        if line.action == "start":
            self.entered.discard(broker)
        was_due = self.due.get(broker, False)
        self.due[broker] = line.state.due
        if broker in self.entered:
            return [spec_line(line, broker, was_due, time)]
        if line.action != "handle_new_session":
            return []
        again = broker in self.known
        self.entered.add(broker)
        self.known.add(broker)
        end = Line(
            node=broker, action="stand" if line.state.stands else None,
            arguments=(Broker(broker),) if line.state.stands else (),
            after=seen_after(line), became=became(line), time=time, where=line.place,
        )  # fmt: skip
        begin = replace(end, action="restart", arguments=(Broker(broker),), after={}, became={})
        return [begin, end] if again else [end]


def spec_line(line: TraceLine, broker: int, was_due: bool, time: int) -> Line:
    """A step of a broker that takes part; its line before told `was_due`."""
    plain = Line(node=broker, action=None, time=time, where=line.place)
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
    outcome: Outcome, numbers: Sequence[int], lines: Sequence[TraceLine],
    objection: str | None, ledger: Ledger,
) -> Outcome:  # fmt: skip
    """The outcome in lines of the trace; the ledger's objection, where the spec has none before."""
    matched = ledger.accepted if outcome.matched == len(numbers) else numbers[outcome.matched]
    outcome = replace(outcome, lines=len(lines), matched=matched)
    if objection is None or outcome.verdict is not Verdict.CONFORMS:
        return outcome
    line = lines[matched]
    mismatch = Mismatch(line.place, line.action, "nothing", (objection,))
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
