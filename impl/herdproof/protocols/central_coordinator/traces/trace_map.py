"""
Maps the traces of system B to its spec: a table, and what a group's replay remembers.

Coordinators and consumers tell every step that they take (`tracing.py`). What nobody tells is
supposed where a line could not be without it: an election, a lost session, a connection that broke,
a topic that appeared, records that were produced and finished.

- A connection is a `Member`: the same one as its consumer's connection before, where nobody counts
  on that any more.
- Offsets and epochs are ranks, since the spec only compares them; offset 0 is "none stored".
- ZooKeeper does what a broker has sent by the time at which the answer is told; or before a broker
  starts, coordinates or steps down, if it does it at all.
- That a consumer gives its connection up, or has to, the spec hears where somebody relies on it: a
  coordinator may send more to whoever has gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from herdproof.conformance.traces.line import START
from herdproof.conformance.traces.mapping import ANY, DecodedLine, Identities, Row, TraceMap
from herdproof.conformance.traces.replay import conform_lines as conform
from herdproof.conformance.traces.standing import Former
from herdproof.conformance.traces.values import Scale, Values
from herdproof.consuming.subscription import InvalidSubscription, Subscription, parse
from herdproof.protocols.central_coordinator.traces.connections import Connections
from herdproof.protocols.central_coordinator.traces.lines import FORMATS, CentralStep, Messages
from herdproof.protocols.central_coordinator.traces.untraced import former_processes, untraced
from herdproof.protocols.central_coordinator.traces.writes import (
    holds,
    may_send,
    named,
    sent_again,
    still_to_store,
)
from herdproof.protocols.central_coordinator.tracing import CENTRAL, CONSUMER, COORDINATOR
from herdspec.check.conformance.conform import Outcome
from herdspec.check.conformance.follow import CAP, ELSE, Call, Way, differences
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from herdspec.protocols.central_coordinator.spec import CentralCoordinator, Phase, Write
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition

State = CentralCoordinator
Key = tuple[str, int, int]
"""A connection: its consumer's id, the consumer's process (1, 2, …), the connection's number."""

MODELLED = frozenset({"accepted", "NOT_COORDINATOR", "STALE_EPOCH"})
"""Outcomes of a Register that the spec knows."""


@dataclass
class ReplayedConnection:
    """A consumer's connection to its coordinator, as the replay has it."""

    until_ns: int
    is_handled: bool = False
    """Its Register was."""
    is_released: bool = False
    """Its consumer has given it up."""


class CentralGroup:
    """One group of one run: what its lines tell beforehand, and what is known as they are read."""

    def __init__(self, values: Values, lines: Sequence[CentralStep]) -> None:
        self._values = values
        self._keys: dict[int, Key] = {}
        """By line, the connection that it is about."""
        self._handled: dict[int, Key] = {}
        """Of these, the lines of connections whose Register a coordinator ever handles."""
        self._handlers: dict[Key, str] = {}
        """The node that handles a connection's Register."""
        self._winners: dict[int, str] = {}
        """By epoch, the node that coordinates in it."""
        self._stored: dict[str, int] = {}
        """Offsets that were stored before the trace begins."""
        self._sent: list[CentralStep] = []
        """The writes of offsets."""
        self._again = sent_again(lines)
        self._connections: dict[Key, ReplayedConnection] = {}
        self._heard: dict[tuple[str, int], int] = {}
        """The latest epoch that a consumer's process (its node, and 1, 2, …) has heard of."""
        self._started: set[str] = set()
        """The brokers of which a process has been seen."""
        self._registered: dict[str, Any] = {}
        """By a coordinator's name for a registration, the member."""
        self._registrations: dict[str, Key] = {}
        """By that name, the connection."""
        self._flushes: dict[Any, deque[dict[Any, int]]] = {}
        """By broker, the writes of offsets that the replay has not come to."""
        self._written: dict[tuple[Any, int], dict[Any, int] | None] = {}
        """By broker and number, the offsets of a write that is not answered; None: owners."""
        self._placed: dict[Any, Sequence[tuple[Any, int]]] = {}
        """By partitions and offsets, these in the spec's terms: heartbeats say the same again."""
        self._look(lines)

    def _look(self, lines: Sequence[CentralStep]) -> None:
        """A coordinator's line is about the latest connection of that consumer and number."""
        lives: dict[tuple[str, str], int] = {}
        latest: dict[tuple[str, int], Key] = {}
        known, seen = set[str](), set[Any]()
        connections = Connections()
        for node in dict.fromkeys(line.node for line in lines if line.role == COORDINATOR):
            self._values.element("Broker", node)
        for line in lines:
            action, role = line.action, line.role
            if action == START:
                lives[role, line.node] = lives.get((role, line.node), 0) + 1
            if line.connection:
                about = (line.consumer, connections.apart(line).connection)
                if role == CONSUMER:
                    life = lives.get((role, line.node), 0)
                    latest[about] = (line.consumer, life, about[1])
                self._keys[id(line)] = latest.get(about) or (line.consumer, 0, about[1])
            if action == "coordinator_startup":
                self._winners[line.epoch] = line.node
                self._values.rank("epoch", line.epoch)
            elif action == "handle_register" and line.outcome in MODELLED:
                self._handlers[self._keys[id(line)]] = line.node
            elif action == "write_owners":
                self._values.rank("generation", line.generation)
            elif action == "flush_offsets":
                self._sent.append(line)
            for name, offset in names(line) if line.group and line.partitions not in seen else ():
                if action in ("send_start", "handle_resume") and name not in known and offset >= 0:
                    # The first time anybody says it, before any offset was written.
                    self._stored[name] = offset
                known.add(name)
                self._values.rank("offset", offset, name)
                seen.add(line.partitions)
        self._handled = {k: key for k, key in self._keys.items() if key in self._handlers}
        self._find_partitions(lines)

    def _find_partitions(self, lines: Sequence[CentralStep]) -> None:
        """Finds the partitions of the topics that anybody of the group ever wants."""
        wanted = [subscribed(line.subscription) for line in lines if line.action == "register"]
        for line in lines:
            if line.action == "topic_change_listener":
                for topic, number, _ in line.partitions:
                    if any(s is not None and s.streams(topic) for s in wanted):
                        self._values.element("Partition", f"{topic}-{number}")

    def initial(self) -> Mapping[tuple[str, Any], int]:
        """The offsets that were stored before the trace begins."""
        self._partitions = list(Partition)
        self._named = dict(zip(self._values.names["Partition"], self._partitions, strict=False))
        for line in self._sent:
            self._flushes.setdefault(self._broker(line), deque()).append(dict(self._places(line)))
        return {
            (kept, self._named[name]): self._rank(name, offset)
            for name, offset in self._stored.items()
            if name in self._named
            for kept in ("committed", "finished", "end")
        }

    # ── What a line is about ────────────────────────────────────────────────────────────────

    def about(self, line: CentralStep) -> Key | None:
        """The connection, if any coordinator ever handles its Register."""
        return self._handled.get(id(line))

    def handler(self, line: CentralStep) -> str:
        """The node that handles a Register."""
        return self._handlers[self._keys[id(line)]]

    def wanted(self, line: CentralStep) -> list[str]:
        """The partitions that a Register asks for."""
        subscription = subscribed(line.subscription)
        return [
            name
            for name in self._values.names["Partition"]
            if subscription is not None and subscription.streams(name.rpartition("-")[0])
        ]

    def _broker(self, line: CentralStep) -> Any:
        return self._values.element("Broker", line.node)

    def _rank(self, name: str, offset: int) -> int:
        return self._values.rank("offset", offset, name)

    def _generation(self, line: CentralStep) -> int:
        return self._values.rank("generation", line.generation)

    def _places(self, line: CentralStep) -> Sequence[tuple[Any, int]]:
        """The line's partitions and offsets, in the spec's terms."""
        told = line.partitions
        if not told:
            return ()
        places = self._placed.get(told)
        if places is None:
            places = self._placed[told] = [
                (self._named[name], self._rank(name, offset))
                for name, offset in names(line)
                if name in self._named
            ]
        return places

    # ── Connections and leases ──────────────────────────────────────────────────────────────

    def is_gone(self, told: DecodedLine, former: Former, s: State) -> bool:
        """Nobody counts on that member any more, and it has heard of nothing that is to come."""
        m, connection = former.element, self._connections[former.key]
        return (
            connection.is_handled
            and s.books[m] is None
            and (s.via[m] is None or connection.is_released)
            and s.seen[m] <= s.election.token[told["b"]]
            and all(s.heir[m, p] is None for p in self._partitions)
        )

    def registers(self, told: DecodedLine) -> None:
        """A connection begins."""
        self._connections[self._keys[id(told.line)]] = ReplayedConnection(told.line.until_ns)

    def is_registered(self, told: DecodedLine) -> None:
        """A coordinator has taken a Register, and calls the member by a name of its own."""
        line, key = told.line, self._keys[id(told.line)]
        self._connections[key].is_handled = True
        self._registered[line.member], self._registrations[line.member] = told["m"], key
        for name in line.former:
            if name in self._registrations:
                self._connections[self._registrations[name]].is_released = True

    def registered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A Register is accepted, or refused; over a connection that is closed it is lost."""
        m, b = told["m"], told["b"]
        accepted = told.line.outcome == "accepted"
        return [[("handle_register", (m, b))] if accepted or s.up[m] else []]

    def renews(self, told: DecodedLine) -> None:
        """The end of a lease has moved; or the connection is given up, and nothing is fetched."""
        line = told.line
        connection = self._connections.get(self._keys[id(line)])
        if connection is not None:
            connection.until_ns = line.until_ns
            if line.action == "on_lost_connection":
                connection.is_released = line.until_ns <= line.time_ns

    def _let_go(self, s: State, b: Any, time_ns: int) -> list[Call]:
        """Owners that are in no book of this coordinator, whose lease is over, fetch no more."""
        calls: list[Call] = []
        owners = {s.owner[p] for p in self._partitions if not s.is_free(p, b)}
        for m in (m for m in owners if m is not None):
            connection = self._connections[self._values.standing["Member"].stood_for(m)]
            if connection.is_released or connection.until_ns <= time_ns:
                calls.append(("time_out" if s.link[m] else "on_lost_connection", (m,)))
        return calls

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def starts(self, told: DecodedLine, _: State) -> Iterable[Way]:
        """A process of a broker: another one than before, if there was one."""
        line = told.line
        if line.role == CONSUMER or line.node not in self._started:
            self._started |= {line.node} if line.role == COORDINATOR else set()
            return [[]]
        return [[("restart", (self._broker(line),))]]

    def coordinates(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A broker coordinates: in an epoch of its own that goes on, or in a new one."""
        b, epoch = told["b"], told.rank("epoch", told.line.epoch)
        if s.election.epoch > epoch:
            # It hears so late of its election that another one has won since, and it will hear of
            # that next. In the spec it takes nothing up; whatever else it did would differ.
            return [[]]
        if s.seat == b and s.election.won[b] == epoch:
            return [[("coordinator_startup", (b,))]]
        before: list[Call] = [] if s.seat is None else [("lose_session", (s.seat,))]
        winners = {told.rank("epoch", won): node for won, node in self._winners.items()}
        for missed in range(s.election.epoch + 1, epoch):  # whose winner will hear of it later
            other = self._values.element("Broker", winners[missed])
            before += [("elect", (other,)), ("lose_session", (other,))]
        return [[*before, ("elect", (b,)), ("coordinator_startup", (b,))]]

    def epoch(self, told: DecodedLine, s: State) -> Sequence[str]:
        """It coordinates in the epoch that it tells, unless that is over."""
        epoch = told.rank("epoch", told.line.epoch)
        if s.election.epoch > epoch:
            return ()
        return differences({"the epoch": (s.election.token[told["b"]], epoch)})

    def notices(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A topic is known, or has more partitions; whoever tells it first makes them appear."""
        b, calls = told["b"], list[Call]()
        for p, _ in self._places(told.line):
            calls += [] if s.exists[p] else [("appear", (p,))]
            if s.election.leads[b] and not s.knows[b, p]:
                calls.append(("topic_change_listener", (b, p)))
        return [calls]

    # ── Requests and answers ────────────────────────────────────────────────────────────────

    def sends(self, told: DecodedLine, s: State) -> Sequence[str]:
        """The differences between a request and its line; none for a deposed coordinator."""
        m, line = told["m"], told.line
        if s.seat != told["b"]:
            return ()
        wanted: dict[str, Any] = {
            "the generation": (s.down[m][-1].generation, self._generation(line))
        }
        if line.action == "send_start":
            given = dict(self._places(line))
            mine = {p for p in self._partitions if s.given[m, p]}
            wanted["what is given"] = (mine, set(given))
            for p in mine & given.keys():
                wanted[f"where {p} begins"] = (s.begin[m, p], given[p])
        return differences(wanted)

    def obeys(self, told: DecodedLine) -> None:
        """A request has renewed the lease."""
        self.renews(told)
        process = told.line.node, self._keys[id(told.line)][1]
        self._past = self._heard.get(process, 0)
        self._heard[process] = max(self._past, told.line.epoch)

    def obeyed(self, told: DecodedLine, s: State) -> Sequence[str]:
        """Whose request it was, and what is fetched; of a deposed coordinator's Start nothing."""
        line, m = told.line, told["m"]
        if line.epoch < self._past:
            return [f"it obeys epoch {line.epoch}, and has heard of epoch {self._past}"]
        if line.action != "handle_start" or line.outcome or s.seat is None or s.seat != s.via[m]:
            return ()
        fetched = {p: s.position[m, p] for p in self._partitions if s.fetching[m, p]}
        return differences({
            "the generation": (s.at[m], self._generation(line)),
            "what it fetches": (fetched, dict(self._places(line))),
        })  # fmt: skip

    def reports(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """The steps by which what is reported was produced and finished before."""
        m, action, calls = told["m"], told.line.action, list[Call]()
        places = self._places(told.line)
        if places:
            fetching, position = s.fetching, s.position
        for p, offset in places:
            if fetching[m, p] and offset > position[m, p]:
                calls += [("produce", (p,))] * (offset - max(s.end[p], position[m, p]))
                calls += [("consume", (m, p))] * (offset - position[m, p])
        yield [*calls, (action, (m,))]
        if action == "commit":  # who fetches nothing commits nothing, in the spec
            yield from (ELSE, [])

    # ── Writes ──────────────────────────────────────────────────────────────────────────────

    def serving(self, b: Any, s: State) -> list[Call]:
        """ZooKeeper does what a broker has sent, if anything is on its way."""
        if s.write[b] is Write.OWNERS:
            return [("serve_owners", (b, named(s, b)))]
        return [("serve_offsets", (b,))] if s.write[b] is Write.OFFSETS else []

    def served(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """The candidate writes that may have been done by now; later it would be too late."""
        if told.line.role == CONSUMER or not self._written:
            return []
        ways: list[Way] = [[]]
        for b in Broker:
            serving = self.serving(b, s)
            ways += [[*way, *serving] for way in ways] if serving else []
        return ways[1:]

    def flushing(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """
        Whose next write of offsets is of just those that it has noted by now.

        It may be sent later, behind another write, when more is noted: in the spec it is sent where
        it was put together, and what was sent before it is answered by then.
        """
        b = told["b"]
        if not self._flushes.get(b) or s.write[b] is Write.OWNERS:
            return []
        noted, stored = s.noted, s.committed
        written: dict[Any, int] = {}
        for p, offset in self._flushes[b][0].items():
            if offset > stored[p]:
                if noted[b, p] != offset:
                    return []
                written[p] = offset
        if not written:
            return []
        under_way, sent = s.write[b] is Write.OFFSETS, s.sent
        for p in self._partitions:
            is_new = noted[b, p] > stored[p] and not (under_way and sent[b, p] == noted[b, p])
            if is_new != (p in written):
                return []
        before = self.serving(b, s)
        if s.write[b] is not Write.NONE:
            before.append(("answered", (b,)))
        return [[*before, ("flush_offsets", (b, False))]]

    def writes(self, told: DecodedLine) -> None:
        """A write is under way."""
        b, line = told["b"], told.line
        owners = line.action == "write_owners"
        self._written[b, line.number] = None if owners else self._flushes[b].popleft()

    def flushes(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A write of offsets is sent, perhaps again; or it was, where it was put together."""
        b, written = told["b"], self._written[told["b"], told.line.number]
        if s.write[b] is Write.NONE and still_to_store(s, written):
            if holds(s, b, written):
                yield [("flush_offsets", (b, True))]
                yield ELSE
            yield [("flush_offsets", (b, False))]
            yield ELSE
        if s.write[b] is not Write.NONE or not still_to_store(s, written) or s.seat != b:
            yield []  # of what is deposed, and will be refused, nothing is claimed

    def flushed(self, told: DecodedLine, s: State) -> Sequence[str]:
        """The offsets that the line tells, at least, are sent."""
        b, written = told["b"], self._written[told["b"], told.line.number]
        if s.seat != b:
            return ()
        return [
            f"{p} is sent at {s.sent[b, p]}, the trace wrote {offset}"
            for p, offset in still_to_store(s, written).items()
            if s.sent[b, p] < offset
        ]

    def _owners(self, line: CentralStep) -> dict[Any, Any]:
        """The members that a write of owners names."""
        return {
            self._named[name]: self._registered.get(who)
            for topic, number, who in line.owners
            if (name := f"{topic}-{number}") in self._named
        }

    def writes_owners(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A write of owners, by when the lease of whoever is in no books must be over."""
        b, owners = told["b"], self._owners(told.line)
        if s.write[b] is Write.OWNERS and told.line in self._again.values():
            yield []
            return
        plan = {p: owners.get(p) or Member(0) for p in self._partitions}
        yield [*self._let_go(s, b, told.line.time_ns), ("write_owners", (b, plan))]
        if s.seat != b:  # of what is deposed, and will be refused, nothing is claimed
            yield from (ELSE, [])

    def owners(self, told: DecodedLine, s: State) -> Sequence[str]:
        """The generation and the owners that were sent."""
        b = told["b"]
        if s.seat != b:
            return ()
        sent = {p: m for p, m in named(s, b).items() if m is not None}
        return differences({
            "the generation": (s.generation + 1, self._generation(told.line)),
            "the owners": (sent, self._owners(told.line)),
        })  # fmt: skip

    def is_written(self, told: DecodedLine) -> bool:
        """True if an answer is that of a write of this group."""
        write = told["b"], told.line.number
        if write not in self._written:
            return False
        self._answer = self._written.pop(write)
        return True

    def answered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A write was done or refused, by now at the latest; or nobody knows."""
        b, outcome, written = told["b"], told.line.outcome, self._answer
        write, before = s.write[b], self.serving(b, s)
        if write is Write.NONE or (write is Write.OFFSETS and not holds(s, b, written)):
            # It is over in the spec, or was never sent there; then it must not have been done.
            stored = written is not None and not still_to_store(s, written)
            return [[]] if stored or outcome != "done" else [[("answered", (b,))]]
        if outcome == "refused" and before:
            again = self._again.get(id(told.line))
            if again is not None and not may_send(s, b, self._owners(again)):
                return [[]]
            is_stale = s.election.token[b] != s.election.epoch
            before = [("refuse_stale" if is_stale else "refuse", (b,))]
        if outcome == "unknown":
            lost = ("lose_answer", (b,))
            return [[lost], [*before, lost]] if before else [[lost]]
        return [[*before, ("answered", (b,))]]

    def fails(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A rebalance has failed, and will be tried again; or it was over already."""
        b = told["b"]
        if s.phase[b] not in (Phase.STOPPING, Phase.STARTING):
            return [[]]
        # Amid its Starts nobody is waited for: one on its way may yet be carried out.
        gone = [] if s.phase[b] is Phase.STARTING else self._let_go(s, b, told.line.time_ns)
        return [[*gone, ("fail_rebalance", (b,))]]


def names(line: CentralStep) -> Iterator[tuple[str, int]]:
    """A line's partitions by their names, and offsets."""
    return ((f"{topic}-{number}", offset) for topic, number, offset in line.partitions)


@cache
def subscribed(text: str) -> Subscription | None:
    """The subscription that a Register asks for; None where nobody can say."""
    try:
        return parse(text)
    except InvalidSubscription:
        return None


# ── The table ───────────────────────────────────────────────────────────────────────────────

G = CentralGroup
ABANDON = ("abandon_rebalance",)
"""Who ends an empty group's rebalance does so without a word, once no lease is waited for."""

ROWS: Mapping[str, Row] = {
    # Coordinators
    START: Row(None, ways=G.starts, perhaps=G.served),
    "coordinator_startup": Row(ways=G.coordinates, claims=G.epoch, perhaps=G.served),
    "step_down": Row(
        ("doubt", "step_down", None), seen={"election.leads[b]": lambda *_: False},
        perhaps=G.served,
    ),
    "topic_change_listener": Row(ways=G.notices, silent=ABANDON),
    "handle_register": Row(
        seen={"books[m]": lambda _, line: line.node if line.outcome == "accepted" else None},
        note=G.is_registered, ways=G.registered, silent=ABANDON,
    ),
    "handle_resume": Row(None),
    "handle_closed": Row(before=["cut"]),
    "fail": Row(("fail", "handle_closed"), before=["cut"]),
    "begin_rebalance": Row(
        seen={"phase[b]": lambda _, line: "STOPPING" if line.outcome == "necessary" else "IDLE"},
        before=["requeue"], silent=ABANDON,
    ),
    "send_stop": Row(claims=G.sends),
    "send_start": Row(claims=G.sends),
    "handle_ping_response": Row(then=G.flushing),
    "handle_stop_response": Row(then=G.flushing),
    "handle_commit": Row(("handle_commit", None), then=G.flushing),
    "flush_offsets": Row(note=G.writes, ways=G.flushes, claims=G.flushed),
    "write_owners": Row(note=G.writes, ways=G.writes_owners, claims=G.owners),
    "answered": Row(note=G.is_written, ways=G.answered),
    "fail_rebalance": Row(ways=G.fails),
    # Consumers
    "register": Row(
        arguments={"b": G.handler}, begins="m", note=G.registers, before=["on_lost_connection"]
    ),
    "resume": Row(None, note=G.renews),
    "handle_ping": Row(note=G.obeys, ways=G.reports, claims=G.obeyed, seen={"seen[m]": "epoch"}),
    "handle_stop": Row(note=G.obeys, ways=G.reports, claims=G.obeyed, seen={"seen[m]": "epoch"}),
    "handle_start": Row(note=G.obeys, claims=G.obeyed, seen={"seen[m]": "epoch"}),
    "commit": Row(ways=G.reports),
    "renew_lease": Row(None, note=G.renews),
    "on_lost_connection": Row(None, note=G.renews),
}  # fmt: skip
"""`send_ping`, `handle_start_response` and `finish_rebalance` are the actions of their names."""

MAP = TraceMap(
    CENTRAL_COORDINATOR, ROWS, protocol=CENTRAL, formats=FORMATS, cap=CAP,
    links=Messages, untraced=untraced, strangers=former_processes, group=CentralGroup,
    initial=G.initial,
    arguments={
        "b": "node", "wanted": G.wanted, "p": ANY, "plan": ANY, "again": ANY, "uneven": ANY
    },
    identities={"Member": Identities(G.about, G.is_gone, owner=lambda key: key[0])},
    ranks={
        "epoch": Scale(["seen", "election.token"]), "offset": Scale(zero=-1),
        "generation": Scale(counted=True),
    },
    spare=["Broker", "Partition"],
)  # fmt: skip
"""Map of the lines of its traces to the verified spec, in which one commit is under way."""

ROOM = 4
"""The most messages of a channel that are compiled; where there are more, plain Python goes on."""


def whenever(self: CentralCoordinator, m: Member) -> bool:  # noqa: ARG001
    """However many commits are under way: only explorations need a bound."""
    return True


def in_replays(spec: Specification) -> Specification:
    """The spec, or a variant of it, as traces are replayed in it."""
    return spec.with_room(spec.name, ROOM, may_commit=whenever)


@cache
def map_of() -> TraceMap:
    """The map of the verified spec; of the variant, for groups in which somebody has resumed."""
    from herdproof.protocols.central_coordinator.traces.bringing_map import map_for

    return replace(MAP.of(in_replays(CENTRAL_COORDINATOR)), variant=map_for)


def conform_lines(
    lines: Sequence[CentralStep], *, invariants: bool = False, **options: Any
) -> Outcome:
    """Replay lines in the spec, each group by itself; `options` are those of any map's replay."""
    return conform(lines, map_of(), invariants=invariants, **options)
