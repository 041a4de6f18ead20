"""
What lines say of the coordinator's commands: the fields of the protocol's own sentences.

- Whom a coordinator commands, it has in its books. Who has stepped down has nobody in them; a
  request that it sends then, or that a consumer obeys though nobody tells of it, shows otherwise.
- A Start is held against what is stored as far as the contract's fields say (`fields.py`), and
  against the answer to the owners' write. What it relies on is supposed for that step alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.protocols.central_coordinator.judged.consumers import Member
from herdproof.protocols.central_coordinator.judged.fields import CentralFields
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER
from herdspec.check.observation.doubt import UNKNOWN
from herdspec.check.observation.observed import Observed, Violation
from herdspec.check.observation.watches import watches_of
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR, OF_ITS_OWN
from herdspec.protocols.central_coordinator.values import Asked, Phase

FIELDS: Mapping[str, Any] = {
    "election.leads": UNKNOWN, "books": None, "asked": Asked.NONE, "phase": Phase.IDLE,
    "given": False, "begin": 0, "owner": None, "orphan": False, "committed": 0,
}  # fmt: skip
"""The fields that these lines fill, before anything is told."""
NAMES = {p.name for p in OF_ITS_OWN}
WATCHES = watches_of(
    CENTRAL_COORDINATOR, FIELDS, [p for p in CENTRAL_COORDINATOR.properties if p.name in NAMES]
)
SENT = {"send_ping": "ping", "send_stop": "stop", "send_start": "start"}
OBEYED = {"handle_ping": "ping", "handle_stop": "stop", "handle_start": "start"}
TOLD_BY = {*SENT, *OBEYED, "coordinator_startup", "step_down", "start"}
NOTHING: list[Violation] = []


class CommandFields:
    """The lines of one group, in their order, as steps of the protocol's own fields."""

    def __init__(self, table: CentralFields) -> None:
        self.seen = Observed(WATCHES)
        self._table = table
        self._leads = self.seen.entries["election.leads"]
        self._books = self.seen.entries["books"]
        self._sent: dict[Member, tuple[str, set[str]]] = {}
        """Over each connection, who sends, and what was not obeyed yet."""
        self._gaps = 0
        """How many gaps in coordinators' lines there are just now."""

    def take(self, line: CentralStep) -> list[Violation]:
        """The next line, which has been taken as one of the contract's fields; what it breaks."""
        action = line.action
        if self._gaps or action not in TOLD_BY:
            return NOTHING
        if action in OBEYED:
            is_new = self._is_untold(line, OBEYED[action])
        elif action in SENT:
            is_new = self._sends(line)
        else:
            is_new = line.role != CONSUMER
            if is_new:
                self._leads_or_not(line)
        return self.seen.broken() if is_new and self.seen.step() else NOTHING

    def lose(self, lines: int, *, begins: bool) -> None:
        """Lines of whoever coordinates are missing: from here on, or up to here."""
        self._gaps += 1 if begins else -1
        self._sent.clear()
        for node in self.seen.domains["Broker"]:
            self.seen.forget("election.leads", node)
        for m in self.seen.domains["Member"]:
            self.seen.amend("books", m, None)
        if begins:
            self.seen.gap(lines, FIELDS)

    def _leads_or_not(self, line: CentralStep) -> None:
        """It coordinates, or knows that it does not, and has nobody in its books."""
        node = line.node
        self.seen.add("Broker", node)
        leads = line.action == "coordinator_startup"
        if self._leads[node] is UNKNOWN:
            self.seen.refine("election.leads", node, leads)
        else:
            self.seen.set("election.leads", node, leads)
        if leads:
            return
        for m in [m for m, (of, _) in self._sent.items() if of == node]:
            self.seen.set("books", m, None)
            if line.action == "start":  # what its former process has sent last, nobody may tell
                del self._sent[m]

    def _has(self, node: str, m: Member) -> None:
        self.seen.add("Broker", node)
        if m not in self.seen.domains["Member"]:
            self._drop_ended()
            self.seen.add("Member", m)
        if self._leads[node] is UNKNOWN:
            self.seen.refine("election.leads", node, True)
        self.seen.set("books", m, node)

    def _drop_ended(self) -> None:
        """Members that the table has dropped are commanded no more."""
        there = self._table.seen.domains["Member"]
        for m in [m for m in self.seen.domains["Member"] if m not in there]:
            self.seen.drop("Member", m)
            self._sent.pop(m, None)

    def _sends(self, line: CentralStep) -> bool:
        """It has whom it sends a request to in its books; whether that is new."""
        m = (line.consumer, line.connection)
        if m not in self._sent:
            self._sent[m] = line.node, set()
        self._sent[m][1].add(SENT[line.action])
        is_new = self._books[m] != line.node or self._leads[line.node] is UNKNOWN
        if is_new:
            self._has(line.node, m)
        if line.action == "send_start" and self._table.is_present(line):
            self.seen.step()
            self._starts(line, m)
            return True
        return is_new

    def _starts(self, line: CentralStep, m: Member) -> None:
        """What it gives is stored, as far as anybody knows; and its write was answered."""
        is_answered = not self._table.writes_owners(line.node)
        stored = self._table.seen.entries
        suppose = self.seen.suppose
        suppose("phase", line.node, Phase.STARTING if is_answered else Phase.WRITING)
        for t, n, o in line.partitions:
            p = (t, n)
            self.seen.add("Partition", p)
            for field in ("owner", "committed"):
                suppose(field, p, stored[field][p])
            suppose("given", (m, p), True)
            suppose("begin", (m, p), o + 1)
        self.seen.set("asked", m, Asked.START)
        self.seen.step()
        self.seen.set("asked", m, Asked.NONE)

    def _is_untold(self, line: CentralStep, what: str) -> bool:
        """A consumer obeys: whether nobody has told of the request. Then somebody has sent it."""
        m = (line.consumer, line.connection)
        node, sent = self._sent.get(m, ("", {what}))
        if what in sent:
            sent.discard(what)
            return False
        self._has(node, m)
        return True
