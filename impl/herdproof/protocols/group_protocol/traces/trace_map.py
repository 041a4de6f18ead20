"""
What the traces of system C are to its spec: a table, and what a group's replay remembers.

Coordinators tell every step that they take (`tracing.py`), clients tell nothing: what one asked for
shows where it is read (`anybody.py`). What nobody else tells is supposed where a line could not be
without it: that a broker was killed, that a session was lost, who was elected.

- What is to be stored is stored by the time of its answer. Of a change that was never answered both
  is carried on where its coordinator ends, until what another one finds tells.
- The core goes on while offsets are being stored, the spec does not: there they are stored where
  the core asks for it, if they ever are.
- Whoever coordinates no more, and does not know, is heard by its own clients alone: once another
  one has loaded the group, of what it says nothing is claimed.
- Offsets are ranks, since the spec only compares them; 0 is "none stored".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.conformance.traces.mapping import ANY, Row, Told, TraceMap
from herdproof.conformance.traces.values import Scale, Values
from herdproof.protocols.group_protocol.messages import NO_OFFSET
from herdproof.protocols.group_protocol.steps import CHANGED, DONE, NEW, TOLD, WAITS
from herdproof.protocols.group_protocol.traces.anybody import in_replays
from herdproof.protocols.group_protocol.tracing import GROUP_PROTOCOL
from herdspec.check.conformance.follow import ELSE, Call, Way, differences
from herdspec.language.specification import Specification
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.properties import without_stopping
from herdspec.protocols.group_protocol.spec import (
    Entry,
    GroupAnswer,
    GroupProtocol,
    GroupState,
    GroupWrite,
)

State = GroupProtocol
Plan = dict[Partition, Member | None]

NOTHING_WRONG = "NONE"
"""The outcome of what is taken without an error."""
ANSWERS = {
    "MEMBER_ID_REQUIRED": GroupAnswer.MEMBER_ID_REQUIRED,
    "UNKNOWN_MEMBER_ID": GroupAnswer.UNKNOWN_MEMBER_ID,
    "ILLEGAL_GENERATION": GroupAnswer.ILLEGAL_GENERATION,
    "REBALANCE_IN_PROGRESS": GroupAnswer.REBALANCE_IN_PROGRESS,
}
"""Kafka's errors, in the spec's terms; requests with any other are not modelled."""
ASKS = frozenset({"complete_join", "share_out", "flush_offsets"})
"""What is to be stored; `answered` says what became of it."""


class GroupTrace:
    """One group of one run: what its lines tell beforehand, and what is known as they are read."""

    def __init__(self, values: Values, lines: Sequence[TraceLine]) -> None:
        self._values = values
        self._fates: dict[int, str] = {}
        """By line, what became of what it asks to be stored, if anybody heard."""
        self._asked: dict[int, TraceLine] = {}
        """By the line that tells that, who has asked for it."""
        self._found: dict[int, TraceLine] = {}
        """By line of `load_group`, what it finds of the group, if anything."""
        self._started: set[Broker] = set()
        self._leading: set[Broker] = set()
        """Who has loaded its groups, and has not stepped down."""
        self._write: TraceLine | None = None
        """The last change that was to be stored, but for offsets."""
        self._epoch = 0
        self._stored = 0
        """Changes of offsets of which the present coordinator knows, and has told nobody."""
        self._inherited: TraceLine | None = None
        """What was stored of the group before the trace begins."""
        self._look(lines)

    def _look(self, lines: Sequence[TraceLine]) -> None:
        asked: dict[str, dict[int, TraceLine]] = {}
        loads: dict[str, TraceLine] = {}
        first: TraceLine | None = None
        for line in lines:
            values, of = self._values, line.arguments
            values.element("Broker", line.node)
            for name in (self.member(line), *members(line), *(m for m, _ in owners(line))):
                if name:
                    values.element("Member", name)
            for _, place in owners(line):
                values.element("Partition", place)
            for place, offset in offsets(line):
                values.element("Partition", place)
                values.rank("offset", offset, place)
            match line.action:
                case "(start)":
                    asked[line.node] = {}
                case "complete_join" | "share_out" | "flush_offsets":
                    asked[line.node][of["number"]] = line
                case "answered" if of["number"] in asked[line.node]:
                    asking = self._asked[id(line)] = asked[line.node].pop(of["number"])
                    self._fates[id(asking)] = of["outcome"]
                case "load_group":
                    loads[line.node] = line
                    first = first or line
                case "found":
                    self._found[id(loads[line.node])] = line
            if line.action in ("found", "complete_join"):
                values.rank("generation", of.get("generation", 0))
        self._inherited = self._found.get(id(first))

    def initial(self) -> Mapping[tuple[str, Any], int]:
        """The offsets that were stored before the trace begins."""
        self._partitions, self._members = list(Partition), list(Member)
        if self._inherited is None:
            return {}
        stored = self._marks(self._inherited)
        return {(kept, p): rank for p, rank in stored.items() for kept in ("committed", "finished")}

    # ── What a line tells ───────────────────────────────────────────────────────────────────

    def member(self, line: TraceLine) -> str:
        """The member whose request it is."""
        told: str = line.arguments.get("member", "")
        return told

    def _b(self, told: Told) -> Broker:
        broker: Broker = self._values.element("Broker", told.line.node)
        return broker

    def _m(self, name: str) -> Member:
        member: Member = self._values.element("Member", name)
        return member

    def _generation(self, line: TraceLine) -> int:
        return self._values.rank("generation", line.arguments.get("generation", 0))

    def _plan(self, line: TraceLine) -> Plan:
        """Whose each partition is, as the line tells."""
        told = {place: self._m(m) for m, place in owners(line)}
        names = self._values.names["Partition"]
        return {p: told.get(name) for name, p in zip(names, self._partitions, strict=False)}

    def _marks(self, line: TraceLine, of: str = "offsets") -> dict[Partition, int]:
        """The offsets that the line tells, by partition."""
        return {
            self._values.element("Partition", place): self._values.rank("offset", offset, place)
            for place, offset in offsets(line, of)
        }

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def _is_sure(self, told: Told, s: State) -> bool:
        """Whether it is the coordinator, as the spec has it."""
        return s.coordinator == self._b(told)

    def _ways(self, told: Told, s: State, *ways: Way) -> Iterable[Way]:
        """These, if it coordinates; what one says that has been replaced leads nowhere."""
        if self._is_sure(told, s):
            return ways
        return [[]] if self._b(told) in self._leading else []

    def _settles(self, s: State) -> list[Way]:
        """What the coordinator has sent was stored by now, or will never be."""
        line = self._write
        if line is None or s.done or s.write not in (GroupWrite.GENERATION, GroupWrite.ASSIGNMENT):
            return [[]]
        stores = [self._stores(line)]
        return [stores] if self._fates.get(id(line)) == DONE else [stores, []]

    def _stores(self, line: TraceLine) -> Call:
        """What a line has asked for is stored."""
        if line.action == "share_out":
            return "store_assignment", (self._plan(line),)
        if not members(line):
            return "store_empty_generation", ()
        return "store_generation", (self._m(line.arguments["leader"]),)

    def starts(self, told: Told, s: State) -> Iterable[Way]:
        """A process of a broker: another one than before, if there was one."""
        b = self._b(told)
        self._leading.discard(b)
        if b not in self._started:
            self._started.add(b)
            return [[]]
        before = self._settles(s) if s.coordinator == b else [[]]
        return [[*way, ("restart", (b,))] for way in before]

    def begins(self, told: Told) -> None:
        """It coordinates from now on, as far as it knows."""
        self._leading.add(self._b(told))
        epoch = told.line.arguments["epoch"]
        self._is_late, self._is_new = epoch < self._epoch, epoch > self._epoch
        self._epoch = max(epoch, self._epoch)
        self._stored = 0

    def loads(self, told: Told, s: State) -> Iterable[Way]:
        """It was elected, and loads the group, unless another one has loaded it since."""
        if self._is_late:
            return [[]]
        b, before = self._b(told), list[Call]()
        if s.coordinator is None and s.election.epoch == 0 and self._inherited is not None:
            before += self._inherits(self._inherited)
        if self._is_new:
            before += [("lose_session", (s.seat,))] if s.seat is not None else []
            before += [("step_down", (b,))] if s.election.leads[b] else []
            before.append(("elect", (b,)))
        return [[*way, *before, ("load_group", (b,))] for way in self._settles(s)]

    def _inherits(self, line: TraceLine) -> list[Call]:
        """What was stored before the trace begins."""
        if not self._generation(line):
            return []
        belong, of = {self._m(name) for name in members(line)}, line.arguments
        calls: list[Call] = [("inherit", (belong, self._plan(line), of.get("is_assigned", False)))]
        return calls + ([("inherit_leader", (self._m(of["leader"]),))] if "leader" in of else [])

    def loaded(self, told: Told, s: State) -> Sequence[str]:
        """Of a group that it finds nothing of, nothing is stored."""
        if id(told.line) in self._found or not self._is_sure(told, s):
            return ()
        return differences({
            "the generation that is stored": (s.generation, 0),
            "the offsets that are stored": (any(s.committed[p] for p in self._partitions), False),
        })  # fmt: skip

    def finds(self, told: Told, s: State) -> Iterable[Way]:
        """It tells what it has loaded."""
        return self._ways(told, s, [])

    def found(self, told: Told, s: State) -> Sequence[str]:
        """What is stored of the group."""
        if not self._is_sure(told, s):
            return ()
        line = told.line
        is_assigned = line.arguments.get("is_assigned", False)
        stored, marks = {p: s.committed[p] for p in self._partitions}, self._marks(line)
        wanted: dict[str, tuple[Any, Any]] = {
            **self._of_generation(line, s),
            "whether it is assigned": (s.state == GroupState.STABLE, is_assigned),
            "the offsets": (stored, {p: marks.get(p, 0) for p in self._partitions}),
        }
        if is_assigned:
            wanted["the owners"] = ({p: s.owner[p] for p in self._partitions}, self._plan(line))
        return differences(wanted)

    def _of_generation(self, line: TraceLine, s: State) -> dict[str, tuple[Any, Any]]:
        """Which generation it is, and whose."""
        leader = line.arguments.get("leader", "")
        return {
            "the generation": (s.generation, self._generation(line)),
            "its leader": (s.leader, self._m(leader) if leader else None),
            "its members": (
                [m for m in self._members if s.belongs[m]],
                [m for m in self._members if m in {self._m(name) for name in members(line)}],
            ),
        }

    def stops(self, told: Told) -> None:
        """It coordinates no more."""
        self._leading.discard(self._b(told))

    def steps_down(self, told: Told, s: State) -> Iterable[Way]:
        """It coordinates no more, for whatever reason; or it did not, when it was loading."""
        b = self._b(told)
        if not s.election.leads[b]:
            return [[]]
        down = ("doubt" if s.seat == b else "step_down", (b,))
        before = self._settles(s) if s.coordinator == b else [[]]
        return [[*way, down] for way in before]

    # ── Joining ─────────────────────────────────────────────────────────────────────────────

    def joins(self, told: Told, s: State) -> Iterable[Way]:
        """A JoinGroup is read."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        if outcome not in (WAITS, CHANGED, NEW, TOLD, *ANSWERS):
            return [[]]
        knows = outcome != "MEMBER_ID_REQUIRED"
        changed = outcome == CHANGED and s.answers_at_once(m)
        handle = "handle_changed_join" if changed else "handle_join_group"
        way: Way = [("ask_to_join", (m, knows)), (handle, (m,))]
        if outcome == NEW:
            way = [("ask_to_join", (m, False)), (handle, (m,)), *way]
        return self._ways(told, s, way)

    def joined(self, told: Told, s: State) -> Sequence[str]:
        """It waits, or is told of the generation, or of an error."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        if not self._is_sure(told, s):
            return ()
        if outcome in ANSWERS:
            return differences({"the answer": (s.down[m], ANSWERS[outcome])})
        if outcome in (WAITS, CHANGED, NEW):
            return differences({"whether it waits": (s.joined[m], True)})
        return self._told(told.line, s, [m]) if outcome == TOLD else ()

    def _told(self, line: TraceLine, s: State, answered: Sequence[Member]) -> Sequence[str]:
        """They are told of this generation."""
        answers = (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)
        generation = self._generation(line)
        return differences({
            f"what {m} is told": ((s.down[m] in answers, s.said[m]), (True, generation))
            for m in answered
        })  # fmt: skip

    def asks(self, told: Told) -> None:
        """The next generation, or its assignment, is to be stored."""
        self._write = told.line

    def completes(self, told: Told, s: State) -> Iterable[Way]:
        """All have joined; what never was stored may never have been sent, in the spec."""
        ways: list[Way] = [[("complete_join", ())]]
        if id(told.line) not in self._fates:
            ways += [ELSE, []]
        return self._ways(told, s, *ways)

    def completed(self, told: Told, s: State) -> Sequence[str]:
        """Of whom the next generation is."""
        if not self._is_sure(told, s) or s.write != GroupWrite.GENERATION:
            return ()
        names = members(told.line)
        return differences({
            "the generation": (s.generation + 1, self._generation(told.line)),
            "its members": (
                [m for m in self._members if s.is_member(m)],
                [m for m in self._members if m in {self._m(name) for name in names}],
            ),
        })  # fmt: skip

    def answers_joins(self, told: Told, s: State) -> Iterable[Way]:
        """It is stored: all who wait for it are told."""
        return self._ways(told, s, [("answer_joins", ())])

    def joins_answered(self, told: Told, s: State) -> Sequence[str]:
        """What they are told."""
        if not self._is_sure(told, s):
            return ()
        return self._told(told.line, s, [self._m(name) for name in members(told.line)])

    # ── Assignments ─────────────────────────────────────────────────────────────────────────

    def syncs(self, told: Told, s: State) -> Iterable[Way]:
        """A SyncGroup is read."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        if outcome not in (WAITS, TOLD, *ANSWERS):
            return [[]]
        present = self._generation(told.line) == s.generation
        way = [("ask_for_assignment", (m, present)), ("handle_sync_group", (m,))]
        return self._ways(told, s, way)

    def synced(self, told: Told, s: State) -> Sequence[str]:
        """It waits, or is told its assignment, or of an error."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        if not self._is_sure(told, s):
            return ()
        if outcome in ANSWERS:
            return differences({"the answer": (s.down[m], ANSWERS[outcome])})
        if outcome == WAITS:
            return differences({"whether it waits": (s.synced[m], True)})
        return self._given(told.line, s, [m]) if outcome == TOLD else ()

    def _given(self, line: TraceLine, s: State, answered: Sequence[Member]) -> Sequence[str]:
        """They are told these assignments."""
        plan = self._plan(line)
        return differences({
            f"what {m} is given": (
                (s.down[m], [p for p in self._partitions if s.given[m, p]]),
                (GroupAnswer.ASSIGNMENT, [p for p in self._partitions if plan[p] == m]),
            )
            for m in answered
        })  # fmt: skip

    def shares(self, told: Told, s: State) -> Iterable[Way]:
        """The leader's SyncGroup, which was read, has led to this."""
        return self._ways(told, s, []) if s.write == GroupWrite.ASSIGNMENT else self._late(told, s)

    def _late(self, told: Told, s: State) -> Iterable[Way]:
        return () if self._is_sure(told, s) else self._ways(told, s)

    def answers_syncs(self, told: Told, s: State) -> Iterable[Way]:
        """It is stored: all who wait for their assignment are told."""
        return self._ways(told, s, [("answer_syncs", ())])

    def syncs_answered(self, told: Told, s: State) -> Sequence[str]:
        """What they are told."""
        if not self._is_sure(told, s):
            return ()
        return self._given(told.line, s, [self._m(name) for name in members(told.line)])

    # ── Being a member ──────────────────────────────────────────────────────────────────────

    def expires(self, told: Told, s: State) -> Iterable[Way]:
        """Somebody is waited for no longer."""
        m = told["m"]
        return self._ways(told, s, [("expire", (m,))], ELSE, [("expire_gone", (m,))])

    def beats(self, told: Told, s: State) -> Iterable[Way]:
        """A heartbeat is read."""
        m, present = told["m"], self._generation(told.line) == s.generation
        if told.line.arguments["outcome"] not in (NOTHING_WRONG, *ANSWERS):
            return [[]]
        return self._ways(told, s, [("be_alive", (m, present)), ("heartbeat", (m,))])

    def beaten(self, told: Told, s: State) -> Sequence[str]:
        """What it is told."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        if not self._is_sure(told, s) or outcome not in (NOTHING_WRONG, *ANSWERS):
            return ()
        is_prepared = s.state == GroupState.PREPARING_REBALANCE
        return differences({
            "whether it is to join": (s.rejoin[m], outcome != NOTHING_WRONG),
            "whether it is a member": (s.has_id[m], outcome != "UNKNOWN_MEMBER_ID"),
            "whether its generation is over": (
                s.has_id[m] and s.at[m] != s.generation, outcome == "ILLEGAL_GENERATION"
            ),
            "whether all join": (is_prepared or outcome != "REBALANCE_IN_PROGRESS", True),
        })  # fmt: skip

    def leaves(self, told: Told, s: State) -> Iterable[Way]:
        """A LeaveGroup is read."""
        m = told["m"]
        match told.line.arguments["outcome"], s.entry[m] == Entry.NONE:
            case "NONE", False:
                leave = [("ask_to_leave", (m,)), ("handle_leave_group", (m,))]
                return self._ways(told, s, leave)
            case "UNKNOWN_MEMBER_ID", True:
                return self._ways(told, s, [])
            case "NONE" | "UNKNOWN_MEMBER_ID", _:
                return self._late(told, s)
        return [[]]

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def commits(self, told: Told, s: State) -> Iterable[Way]:
        """An OffsetCommit is read: what of it is taken, what is not."""
        m, present = told["m"], self._generation(told.line) == s.generation
        way: list[Call] = []
        for of, handle in (("refused", "refuse_commit"), ("offsets", "handle_offset_commit")):
            said = self._marks(told.line, of)
            for p, rank in said.items():
                way += self._goes_to(s, m, p, rank)
            if said:
                way += [("ask_to_commit", (m, present, {*said})), (handle, (m,))]
        return self._ways(told, s, way)

    def _goes_to(self, s: State, m: Member, p: Partition, rank: int) -> Iterator[Call]:
        """A client comes to a position."""
        at = s.position[m, p]
        if not at <= rank or at < s.committed[p] <= rank:
            is_behind = s.committed[p] <= rank
            yield "begin_at", (m, p, is_behind)
            at = s.committed[p] if is_behind else 0
        for _ in range(at, rank):
            yield "finish", (m, p)

    def committed(self, told: Told, s: State) -> Sequence[str]:
        """What is taken is noted."""
        if not self._is_sure(told, s):
            return ()
        taken = self._marks(told.line)
        return differences({"what is taken": ({p: s.noted[p] for p in taken}, taken)})

    def flushes(self, told: Told, s: State) -> Iterable[Way]:
        """Offsets are to be stored, and are, where anybody hears of that; else perhaps."""
        stored: Way = [("flush_offsets", ()), ("store_offsets", ()), ("answer_commits", ())]
        if self._fates.get(id(told.line)) == DONE:
            return self._ways(told, s, stored, ELSE, [])
        return self._ways(told, s, stored, [])

    def flushed(self, told: Told, s: State) -> Sequence[str]:
        """What is known to be stored is."""
        if not self._is_sure(told, s) or self._fates.get(id(told.line)) != DONE:
            return ()
        marks = self._marks(told.line)
        return differences({"what is stored": ({p: s.committed[p] for p in marks}, marks)})

    def hears(self, told: Told) -> None:
        """What became of a change."""
        asking = self._asked.get(id(told.line))
        self._answer = asking
        if asking is not None and asking.action == "flush_offsets":
            self._stored += 1

    def answered(self, told: Told, s: State) -> Iterable[Way]:
        """It was stored; what is too large to be is not modelled."""
        if self._answer is None or told.line.arguments["outcome"] != DONE:
            return []
        if self._answer.action == "flush_offsets":
            return self._ways(told, s, [])
        return self._ways(told, s, [self._stores(self._answer)])

    def tells(self, told: Told) -> None:
        """Somebody's OffsetCommit is answered."""
        self._stored -= 1

    def commits_answered(self, told: Told, s: State) -> Iterable[Way]:
        """Its offsets are stored, and that is known."""
        return self._ways(told, s, []) if self._stored >= 0 else self._late(told, s)

    def fetched(self, told: Told, s: State) -> Sequence[str]:
        """Offsets are told as they are stored, and nothing that was taken is not."""
        if not self._is_sure(told, s):
            return ()
        marks = self._marks(told.line)
        return differences({
            "the offsets": ({p: s.committed[p] for p in marks}, marks),
            "what is not stored yet": ([p for p in marks if s.is_new(p)], []),
        })  # fmt: skip


def members(line: TraceLine) -> Sequence[str]:
    """The members that a line tells."""
    told: Sequence[str] = line.arguments.get("members", ())
    return told


def owners(line: TraceLine) -> Iterator[tuple[str, str]]:
    """Members and the partitions that they are assigned, by their names."""
    told = line.arguments.get("owners", ())
    return ((member, f"{topic}-{number}") for member, topic, number in told)


def offsets(line: TraceLine, *of: str) -> Iterator[tuple[str, int]]:
    """Partitions by their names, and offsets: what is taken, what is refused, or both."""
    for name in of or ("offsets", "refused"):
        for topic, number, offset in line.arguments.get(name, ()):
            yield f"{topic}-{number}", offset


# ── The table ───────────────────────────────────────────────────────────────────────────────

G = GroupTrace
ROWS: Mapping[str, Row] = {
    START: Row(None, ways=G.starts),
    "load_group": Row(ways=G.loads, note=G.begins, claims=G.loaded),
    "found": Row(None, ways=G.finds, claims=G.found),
    "step_down": Row(ways=G.steps_down, note=G.stops),
    "handle_join_group": Row(ways=G.joins, claims=G.joined),
    "complete_join": Row(ways=G.completes, note=G.asks, claims=G.completed),
    "answer_joins": Row(ways=G.answers_joins, claims=G.joins_answered),
    "handle_sync_group": Row(ways=G.syncs, claims=G.synced),
    "share_out": Row(None, ways=G.shares, note=G.asks),
    "answer_syncs": Row(ways=G.answers_syncs, claims=G.syncs_answered),
    "expire": Row(ways=G.expires),
    "heartbeat": Row(ways=G.beats, claims=G.beaten),
    "handle_leave_group": Row(ways=G.leaves),
    "handle_offset_commit": Row(ways=G.commits, claims=G.committed),
    "flush_offsets": Row(ways=G.flushes, claims=G.flushed),
    "answered": Row(None, ways=G.answered, note=G.hears),
    "answer_commits": Row(ways=G.commits_answered, note=G.tells),
    "handle_offset_fetch": Row(None, ways=G.finds, claims=G.fetched),
}


@cache
def map_of(spec: Specification | None = None) -> TraceMap:
    """The map of the verified spec, of whose clients nothing is assumed; or of a variant."""
    return TraceMap(
        in_replays(spec or without_stopping()), ROWS, protocol=GROUP_PROTOCOL, group=GroupTrace,
        initial=G.initial, arguments={"m": G.member, "b": "node", "p": ANY, "plan": ANY},
        ranks={"offset": Scale(zero=NO_OFFSET), "generation": Scale(counted=True)}, plain=True,
    )  # fmt: skip
