"""
The numbers in an election's lines that must fit together, though its spec has none of them.

Call numbers, session ids and transaction ids are ZooKeeper's and the elector's own: a sequence has
no gap, an answer belongs to the call under way, a session is nobody else's, and zxids and epochs go
up together, since ZooKeeper counts both in one transaction.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from msgspec.structs import replace

from herdproof.conformance.traces.line import START
from herdproof.protocols.election.elector import Call
from herdproof.protocols.election.tracing import BEGINNING, AnswerLine, ElectorLine, State

OUTCOMES = {
    "look": {"absent", "found"},
    "recall": {"absent", "found"},
    "read": {"epoch"},
    "create": {"done", "refused"},
    "delete": {"done", "refused"},
    "write": {"done", "refused", "unknown"},
}
"""Which outcomes each call may have where its answer counts."""

NO_EPOCH = -1
"""The epoch that a call tells which checks none."""

HANDLE = {"write"} | {f"handle_{call}" for call in OUTCOMES if call != "write"}
"""Steps that handle an answer."""
NAMED = frozenset({
    "stand", "resign", "restart", "look", *HANDLE,
    "handle_suspended", "handle_reconnected", "handle_lost", "handle_new_session",
})  # fmt: skip
"""The spec's actions that a trace names; the others are inferred. No line says `restart`."""
UNNAMED = frozenset({START, "handle_watch", "handle_wake", "handle_late", "ignore"})
"""Actions of a trace that the spec does not have; all others are named as the spec's are."""


@dataclass(frozen=True)
class ProcessLedger:
    """The books of one process of a node."""

    sequence: int = 0
    session: int = 0
    number: int = 0
    state: State = field(default_factory=lambda: BEGINNING)
    tokens: frozenset[int] = frozenset({0})

    def after(self, line: ElectorLine) -> ProcessLedger:
        """The books after one more line."""
        told = line.arguments
        number = self.number if told.asked is None else told.asked.number
        tokens = self.tokens | {line.state.token}
        return ProcessLedger(line.sequence, told.session, number, line.state, tokens)


class Ledger:
    """Takes a run's lines in order, and objects to the first that does not fit."""

    def __init__(self) -> None:
        self.processes: dict[str, ProcessLedger] = {}
        self.sessions: dict[int, str] = {}
        self.transactions = Transactions()

    def process(self, line: ElectorLine) -> ProcessLedger | None:
        """The books of a line's process, before it."""
        return ProcessLedger() if line.action == START else self.processes.get(line.node)

    def objection(self, line: ElectorLine) -> str | None:
        """Why a line does not fit those before it, if so; otherwise it is in the books."""
        process = self.process(line)
        if process is None:
            return f"the trace of {line.node} does not begin with `{START}`"
        found = (
            self._sequence(process, line)
            or self._session(process, line)
            or self._call(process, line)
            or self._answer(process, line)
            or self.transactions.objection(line)
        )
        if found is None:
            self.processes[line.node] = process.after(line)
        return found

    def _sequence(self, process: ProcessLedger, line: ElectorLine) -> str | None:
        if line.sequence != process.sequence + 1:
            return f"sequence {line.sequence} follows {process.sequence}: a line is missing"
        if line.action not in UNNAMED | NAMED - {"restart"}:
            return f"the action {line.action!r} is unknown"
        if line.action == START and (line.state != BEGINNING or line.arguments.session):
            return "a process starts with a session, or with knowledge"
        if line.action == "write" and line.state != process.state:
            return "a write changed the elector"
        rises = line.state.due and not process.state.due
        if rises and line.action not in ("handle_watch", "stand"):
            return f"{line.action} made a look due, which only a watch or a wish to stand does"
        return None

    def _session(self, process: ProcessLedger, line: ElectorLine) -> str | None:
        session = line.arguments.session
        if line.action != "handle_new_session":
            if session != process.session:
                return f"the session became {session}, and no new session was told of"
            unconnected = {START, "stand", "resign", "ignore", "write", "handle_wake"}
            if not session and (line.action not in unconnected or _acts(line)):
                return "something happened before the first session"
            return None
        if session == 0 or session in self.sessions:
            whose = self.sessions.get(session, "nobody")
            return f"the new session {session} is not new: it is {whose}'s"
        self.sessions[session] = line.node
        return None

    def _call(self, process: ProcessLedger, line: ElectorLine) -> str | None:
        asked = line.arguments.asked
        if asked is None:
            if line.state.call not in (Call.NONE, process.state.call):
                return f"the call {line.state.call.value} is under way, and none was sent"
            return None
        if asked.number != process.number + 1:
            return f"call {asked.number} follows call {process.number}"
        call = asked.call.value
        if asked.call != line.state.call:
            return f"a {call} was sent, but a {line.state.call.value} is under way"
        if asked.watch != (call == "look"):
            return f"a {call} was sent {'with' if asked.watch else 'without'} a watch"
        if call == "delete" and asked.epoch != line.state.token:
            return f"a delete was sent that checks epoch {asked.epoch}, not {line.state.token}"
        if call not in ("create", "delete") and asked.epoch != NO_EPOCH:
            return f"a {call} checks no epoch, but {asked.epoch} is told"
        return None

    def _answer(self, process: ProcessLedger, line: ElectorLine) -> str | None:
        answered = line.arguments.answered
        if answered is not None and (idle := _idle(answered)):
            return f"`{idle}` has no meaning in the outcome {answered.outcome!r}, but is not 0"
        wanted = line.action.removeprefix("handle_")
        answers = line.action in HANDLE
        if answered is None:
            return f"{line.action} tells no answer" if answers or wanted == "late" else None
        if not answers and wanted != "late":
            return f"{line.action} handles no answer, but one is told"
        under_way = process.state.call.value
        awaited = under_way != "none" and answered.number == process.number
        if wanted == "late":
            call = under_way if awaited else "none"
            if (answered.outcome, answered.call) == ("unknown" if awaited else "late", call):
                return None
            awaits = "awaited" if awaited else "not awaited"
            return f"the answer to call {answered.number} was {awaits}: {answered.outcome}?"
        if answered.call != wanted:
            return f"{line.action} handles the answer to a {answered.call}"
        if answered.outcome not in OUTCOMES[wanted]:
            return f"a {wanted} cannot have the outcome {answered.outcome!r}"
        if wanted == "write":
            known = answered.epoch in process.tokens and answered.epoch > 0
            return None if known else f"it wrote under epoch {answered.epoch}, which it never had"
        if not awaited or answered.call != under_way:
            return (
                f"the answer to {answered.call} {answered.number} was handled, while"
                f" {under_way} {process.number} was under way"
            )
        return None


class Transactions:
    """
    Transactions of ZooKeeper that lines told, by zxid: each began an epoch, or is a write in one.

    Epochs never go back from one transaction to the next; what begins an epoch is its first.
    """

    def __init__(self) -> None:
        self.told: list[tuple[int, int, bool]] = []
        """(zxid, epoch, whether it began it), sorted."""
        self.created: list[int] = []
        """Transactions that created a leader's node, of which no epoch was told; sorted."""
        self.begins: dict[int, int] = {}
        self.owners: dict[int, int] = {}
        """The session that owned the leader's node which a transaction created."""

    def objection(self, line: ElectorLine) -> str | None:
        """Why an answer does not fit what was told before, if so."""
        told = line.arguments.answered
        if told is None or not told.zxid:
            return None
        if told.call == "read":
            return self._in_order(told.zxid, told.epoch, begins=True)
        if told.call == "write":
            return self._in_order(told.zxid, told.epoch, begins=False)
        owner = line.arguments.session if told.call == "create" else told.owner
        if self.owners.setdefault(told.zxid, owner) != owner:
            return f"session {self.owners[told.zxid]} owns the node of {told.zxid}, not {owner}"
        if told.call != "look":
            return self._in_order(told.zxid, told.epoch, begins=True)
        if all(told.zxid != zxid for zxid in self.begins.values()):
            insort(self.created, told.zxid)
        return self._room(told.zxid)

    def _in_order(self, zxid: int, epoch: int, *, begins: bool) -> str | None:
        """Note a transaction of an epoch, unless it is out of order."""
        if begins and self.begins.setdefault(epoch, zxid) != zxid:
            return f"epoch {epoch} began with transaction {self.begins[epoch]}, not {zxid}"
        entry = (zxid, epoch, begins)
        place = bisect_left(self.told, entry)
        if self.told[place : place + 1] == [entry]:
            return None
        before, after = self._around(place)
        if (before and (before[1] > epoch or (begins and before[1] == epoch))) or (
            after and (after[1] < epoch or after[0] == zxid or (after[2] and after[1] == epoch))
        ):
            near = " and ".join(f"{e[0]} is of epoch {e[1]}" for e in (before, after) if e)
            return f"transaction {zxid} is not of epoch {epoch}: {near}"
        self.told.insert(place, entry)
        low, high = before[0] if before else 0, after[0] if after else zxid
        first, last = bisect_left(self.created, low), bisect_left(self.created, high + 1)
        return next(filter(None, map(self._room, self.created[first:last])), None)

    def _around(self, place: int) -> tuple[tuple[int, int, bool] | None, ...]:
        before = self.told[place - 1] if place else None
        return before, self.told[place] if place < len(self.told) else None

    def _room(self, zxid: int) -> str | None:
        """Object where a transaction that created a leader's node can have begun no epoch."""
        place = bisect_left(self.told, (zxid, 0, False))
        before, after = self._around(place)
        if after is None or (after[0] == zxid and after[2]):
            return None
        last = after[1] - 1 if after[2] else after[1]
        if after[0] == zxid or (before and before[1] >= last) or last < 1:
            return f"transaction {zxid} began no epoch, but created the leader's node"
        return None


def _idle(told: AnswerLine) -> str | None:
    """A field that says nothing in this outcome, and is not empty."""
    found, done = told.outcome == "found", told.outcome == "done"
    means = {
        "number": told.call != "write",
        "owner": found,
        "epoch": told.outcome == "epoch"
        or told.call == "write"
        or (found and told.call == "recall")
        or (done and told.call == "create"),
        "zxid": found or done or told.outcome == "epoch",
    }
    return next((name for name, used in means.items() if not used and getattr(told, name)), None)


def _acts(line: ElectorLine) -> bool:
    """Tells whether a line shows more than the wish to stand."""
    return line.state != replace(BEGINNING, stands=line.state.stands)
