"""
The protocol's own sentences, beside the contract's: of its coordinators' requests, and of shares.

`Requests` fills the fields of the protocol's spec that `OF_ITS_OWN` speaks of; what is stored it
takes from the contract's fields, and so does `Shares`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from herdproof.conformance.traces.line import START
from herdproof.consuming.assignment import uneven_share
from herdproof.consuming.subscription import Subscription
from herdproof.protocols.central_coordinator.judged.consumers import Member, Partition
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdspec.check.observation.inconclusive import UNKNOWN, Inconclusive, LastReported
from herdspec.check.observation.observed import Observed, Ruling
from herdspec.check.observation.watches import watches_of
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, OF_ITS_OWN
from herdspec.protocols.central_coordinator.spec import Asked, Phase
from herdspec.protocols.contract.spec import Stage

INITIAL: Mapping[str, Any] = {
    "asked": Asked.NONE, "books": None, "phase": Phase.IDLE, "given": False, "begin": 0,
    "owner": None, "orphan": False, "committed": 0, "election.leads": UNKNOWN,
}  # fmt: skip
"""The fields of the protocol's spec that are filled, before anything is told."""
BOOKS, LEADS = "books", "election.leads"

NAMES = {p.name for p in OF_ITS_OWN}
WATCHES = watches_of(
    CENTRAL_COORDINATOR, INITIAL, [p for p in CENTRAL_COORDINATOR.properties if p.name in NAMES]
)

CONNECTIONS = 8
"""The number of a consumer's last connections that are kept: a coordinator may lag behind."""

PHASES = {
    "write_owners": Phase.WRITING, "begin_rebalance": Phase.STOPPING,
    "finish_rebalance": Phase.IDLE, "fail_rebalance": Phase.FAILED,
}  # fmt: skip

TURNS = frozenset({START, "step_down", "coordinator_startup"})
"""The lines after which it is known whether a broker leads."""
OF_OWN = frozenset({
    *TURNS, "handle_register", "handle_resume",
    "handle_closed", "fail", "send_ping", "send_stop", "send_start",
    "handle_ping", "handle_stop", "handle_start", "answered", *PHASES,
})  # fmt: skip
"""The lines that tell of requests."""


class Requests:
    """Who sends what to whom: each request and each answer over the connection that it names."""

    def __init__(self, contract: Observed) -> None:
        self.seen = Observed(WATCHES)
        self._entries = self.seen.entries
        self._stored = contract.entries
        self._sent: dict[Member, set[str]] = defaultdict(set)
        """By connection, the kinds of requests that were sent and are not answered."""
        self._sender: dict[Member, str] = {}
        """By connection, who has accepted it."""
        self._terms: dict[str, int] = {}
        """By node, the epoch in which it has coordinated last."""
        self._connections: dict[str, deque[Member]] = defaultdict(deque)
        """By consumer, its last ones."""
        self._writes: dict[str, int] = {}
        """By node, the number of its write of owners."""

    def take(self, line: CentralStep, *, is_present: bool) -> bool:
        """The next line, one of `OF_OWN`; whether it broke something."""
        if line.role == CONSUMER:
            if line.action != START:
                self._obeys(line)
            return self.seen.step()
        leads = self._entries[LEADS][line.node]
        if type(leads) is LastReported:  # it was not its last line
            self._entries[LEADS][line.node] = leads.value
        match line.action:
            case "send_ping" | "send_stop" | "send_start":
                self._sends(line, is_present=is_present)
            case action if action in TURNS:
                self._leads(line.node, action == "coordinator_startup")
                self._terms[line.node] = line.epoch or self._terms.get(line.node, 0)
            case "handle_register" | "handle_resume":
                if line.outcome == "accepted":
                    self._counts(line)
            case "handle_closed" | "fail":
                self._set(BOOKS, self._member(line), None)
            case _:
                self._moves(line)
        return self.seen.step()

    def _member(self, line: CentralStep) -> Member:
        m = (line.consumer, line.connection)
        if m not in self.seen.domains["Member"]:
            self.seen.add("Member", m)
            known = self._connections[line.consumer]
            known.append(m)
            if len(known) > CONNECTIONS:
                self._forget(known.popleft())
        return m

    def _forget(self, m: Member) -> None:
        self._sent.pop(m, None)
        self._sender.pop(m, None)
        self.seen.drop("Member", m)

    def _set(self, field: str, key: Any, value: Any) -> None:
        if self._entries[field][key] is UNKNOWN:
            self.seen.refine(field, key, value)
        else:
            self.seen.set(field, key, value)
        self.seen.step()

    def _leads(self, b: str, leads: bool) -> None:
        """It begins to coordinate; or it does no more, and closes every channel."""
        self.seen.add("Broker", b)
        if not leads:
            for m, whose in [*self._entries[BOOKS].items()]:
                if not isinstance(whose, Inconclusive) and whose == b:
                    self.seen.set(BOOKS, m, None)
        self.seen.set("phase", b, Phase.IDLE)
        self._set(LEADS, b, leads)

    def _counts(self, line: CentralStep) -> None:
        m = self._member(line)
        self.seen.add("Broker", line.node)
        self._sent.pop(m, None)
        self._sender[m] = line.node
        self._set(BOOKS, m, line.node)

    def _moves(self, line: CentralStep) -> None:
        """It goes on with its rebalance."""
        if line.action == "write_owners":
            self._writes[line.node] = line.number
        phase = PHASES.get(line.action)
        if line.action == "answered" and self._writes.get(line.node) == line.number:
            phase = Phase.STARTING
        if phase is not None:
            self._set("phase", line.node, phase)

    def _sends(self, line: CentralStep, *, is_present: bool) -> None:
        """Who sends over a connection has it open; a Start says what is stored."""
        m = self._member(line)
        what = line.action[5:]
        self._sent[m].add(what)
        if self._sender.get(m) != line.node or self._entries[LEADS][line.node] is not True:
            self._sender[m] = line.node
            self._holds(m, line.node)
        if what == "start" and is_present:
            self._starts(m, line)

    def _holds(self, m: Member, b: str) -> None:
        """A connection is open, at least in this step."""
        self.seen.add("Broker", b)
        self._set(BOOKS, m, b)
        if self._entries[LEADS][b] is False:
            self.seen.amend(BOOKS, m, None)

    def _starts(self, m: Member, line: CentralStep) -> None:
        given = {(t, n): o + 1 for t, n, o in line.partitions}
        for p, begin in given.items():
            self.seen.add("Partition", p)
            for field in ("owner", "committed"):
                self._entries[field][p] = self._stored[field][p]
            self.seen.set("given", (m, p), True)
            self.seen.set("begin", (m, p), begin)
        self.seen.set("asked", m, Asked.START)
        self.seen.step()
        for p in given:
            for field in ("given", "begin"):
                self._entries[field].pop((m, p), None)
        self._entries["asked"][m] = Asked.NONE

    def _obeys(self, line: CentralStep) -> None:
        """
        Take what it obeys as sent; if no line says so, by whoever has its connection.

        Another epoch than that one's is another coordinator's, whose admission is missing.
        """
        m = (line.consumer, line.connection)
        what = line.action[7:]
        if what in self._sent.get(m, ()):
            self._sent[m].remove(what)
            return
        sender = self._sender.get(m, "")
        if self._terms.get(sender) == line.epoch and self._entries[LEADS][sender] is False:
            self._holds(m, sender)

    def lose(self) -> None:
        """From here on, lines of a coordinator may be missing."""
        self._sent.clear()
        self._sender.clear()
        for field in (BOOKS, LEADS, "phase"):
            self.seen.blind(field)
        self.seen.gap(0, (BOOKS, LEADS))

    def find(self) -> None:
        """From here on, none is."""
        self._sent.clear()
        self._sender.clear()
        for field in (BOOKS, LEADS, "phase"):
            self.seen.sees(field)

    def leave(self, line: CentralStep) -> None:
        """That was the last line of a process: who has stepped down may lead again."""
        if line.role == COORDINATOR:
            self.seen.leave(LEADS, line.node)
            self.seen.left.clear()


class Unspecified(NamedTuple):
    """A sentence that no spec has."""

    name: str
    sentence: str


SHARES = Unspecified(
    "shares_are_even",
    "Each thread has as many partitions of a topic as any other, or one more or less.",
)


class Uneven(NamedTuple):
    """Somebody has too many partitions of a topic, or too few."""

    promise: Unspecified
    of: Mapping[str, Any]


class SharesRuled(NamedTuple):
    """Ruling on the sentence of even shares."""

    promise: Unspecified
    ruling: Ruling
    held: int
    open: int
    why: str


class Shares:
    """Even shares, which the assignor promises, looked at whenever a group is stable."""

    def __init__(self, contract: Observed) -> None:
        self._entries = contract.entries
        self._domains = contract.domains
        self._held = self._open = self._broken = 0

    def look(self, subscribed: Mapping[Member, Subscription | None]) -> Uneven | None:
        """The group may be stable now: are its shares even?"""
        stage = self._entries["stage"][()]
        if isinstance(stage, Inconclusive) or stage is not Stage.STABLE:
            return None
        found = self._uneven(subscribed)
        if found is None:
            self._open += 1
        elif not found:
            self._held += 1
        else:
            self._broken += 1
            m, topic = found
            return Uneven(SHARES, {"m": m, "topic": topic})
        return None

    def _uneven(
        self, subscribed: Mapping[Member, Subscription | None]
    ) -> tuple[Member, str] | tuple[()] | None:
        """Who has too much or too little of which topic; None where nobody knows."""
        known, owner = self._entries["known"], self._entries["owner"]
        live = {m: self._entries["live"][m] for m in self._domains["Member"]}
        wanted = {m: subscribed.get(m) for m, v in live.items() if v is True}
        entries = [*live.values(), *(e[p] for e in (known, owner) for p in self._of_all())]
        if None in wanted.values() or any(isinstance(x, Inconclusive) for x in entries):
            return None
        for topic in sorted({t for t, _ in self._of_all()}):
            own = [p for p in self._of_all() if p[0] == topic and known[p]]
            threads = {m: n for m, s in wanted.items() if s and (n := s.streams(topic))}
            shares = {m: sum(owner[p] == m for p in own) for m in threads}
            m = uneven_share(len(own), shares, threads)
            if m is not None:
                return m, topic
        return ()

    def _of_all(self) -> list[Partition]:
        return [*self._domains["Partition"]]

    def judgement(self) -> SharesRuled:
        """The ruling on even shares."""
        ruling, why = Ruling.NOT_OBSERVABLE, "nothing of it has happened"
        if self._broken:
            ruling, why = Ruling.VIOLATED, ""
        elif self._held:
            ruling, why = Ruling.HOLDS, ""
        elif self._open:
            ruling, why = Ruling.UNKNOWN, "whenever the group was stable, something was not told"
        return SharesRuled(SHARES, ruling, self._held, self._open, why)
