"""
Maps the traces of system C to its spec: a table, and what a group's replay remembers.

Coordinators tell every step that they take (`tracing.py`). What a client asked for shows where it
is read (`replayed.py`); our own clients tell their steps, too (`clients.py`). What nobody else
tells is supposed where a line could not be without it: that a broker was killed, that a session was
lost, who was elected.

- What is to be stored is stored by the time of its answer. Of a change that was never answered both
  is carried on where its coordinator ends, until what another one finds tells.
- The core goes on while offsets are being stored, the spec does not: there they are stored where
  the core asks for it, if they ever are.
- Whoever coordinates no more, and does not know, is heard by its own clients alone: once another
  one has loaded the group, of what it says nothing is claimed.
- Offsets are ranks, since the spec only compares them; 0 is "none stored".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.conformance.traces.mapping import ANY, OWN, DecodedLine, Row, TraceMap
from herdproof.conformance.traces.values import Scale, Values
from herdproof.protocols.group_protocol.messages import NO_OFFSET
from herdproof.protocols.group_protocol.steps import (
    CHANGED,
    DONE,
    EVERYTHING,
    NEW,
    REFUSED,
    TOLD,
    WAITS,
)
from herdproof.protocols.group_protocol.traces.clients import (
    CLIENT_ROWS,
    ClientsTrace,
    keeps,
    untraced,
)
from herdproof.protocols.group_protocol.traces.lines import FORMATS, member, members, owners
from herdproof.protocols.group_protocol.traces.tails import predecessors, unaccounted
from herdproof.protocols.group_protocol.tracing import ANSWERED, CONSUMER
from herdproof.protocols.group_protocol.tracing import GROUP_PROTOCOL as NAME
from herdproof.protocols.group_replay import GroupReplay, places
from herdspec.check.conformance.follow import ELSE, Call, Way, differences
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.properties import GROUP_PROTOCOL
from herdspec.protocols.group_protocol.replays.replayed import goes_to, in_replays
from herdspec.protocols.group_protocol.spec import (
    Entry,
    GroupAnswer,
    GroupProtocol,
    GroupState,
    GroupWrite,
)

State = GroupProtocol
Plan = dict[Partition, Member | None]
Shown = Mapping[str, tuple[Any, Any]]
"""By what it is: what the spec has, and what the line shows."""

NOTHING_WRONG = "NONE"
"""The outcome of what is taken without an error."""
ANSWERS = {
    "MEMBER_ID_REQUIRED": GroupAnswer.MEMBER_ID_REQUIRED,
    "UNKNOWN_MEMBER_ID": GroupAnswer.UNKNOWN_MEMBER_ID,
    "ILLEGAL_GENERATION": GroupAnswer.ILLEGAL_GENERATION,
    "REBALANCE_IN_PROGRESS": GroupAnswer.REBALANCE_IN_PROGRESS,
}
"""Kafka's errors, in the spec's terms; requests with any other are not modelled."""
KNOWN = frozenset({NOTHING_WRONG, EVERYTHING, NEW, WAITS, CHANGED, TOLD, *ANSWERS})
ASKING = ("complete_join", "share_out", "replace_member", "flush_offsets")
"""Lines that ask for something to be stored, where they have a number."""
WRITES = {
    "complete_join": GroupWrite.GENERATION, "share_out": GroupWrite.ASSIGNMENT,
    "replace_member": GroupWrite.REPLACEMENT,
}  # fmt: skip
"""By line that asks for it, what is to be stored."""
TOLD_OF_GENERATION = (GroupAnswer.LEADER, GroupAnswer.FOLLOWER)


class GroupTrace(GroupReplay):
    """One group of one run: what its lines tell beforehand, and what is known as they are read."""

    kept = ("committed", "finished")
    clients_class: ClassVar[type[ClientsTrace]] = ClientsTrace

    def __init__(self, values: Values, lines: Sequence[TraceLine]) -> None:
        super().__init__(values)
        self.clients = self.clients_class(values, lines)
        self._fates: dict[int, str] = {}
        """By line, what became of what it asks to be stored, if anybody heard."""
        self._asked: dict[int, TraceLine] = {}
        """By the line that tells that, who has asked for it; nobody, if that line is missing."""
        self._found: dict[int, TraceLine] = {}
        """By line of `load_group`, what it finds of the group, if anything."""
        self._leading: dict[Broker, bool] = {}
        """Of each broker that was seen, whether it believes that it coordinates."""
        self._write: TraceLine | None = None
        """The last change that was to be stored, but for offsets."""
        self._epoch = 0
        self._untold = 0
        """Changes of offsets of which the coordinator has heard, and has told nobody."""
        self._heard = 0
        """The number of the last of these."""
        self._last: dict[Partition, Member] = {}
        """By partition, to whom it was assigned last, as far as that was told."""
        self._sent: dict[Partition, dict[int, int]] = {}
        """By partition, the offsets that the coordinator has sent, by the changes' numbers."""
        loads: dict[str, TraceLine] = {}
        asked: dict[str, dict[int, TraceLine]] = {}
        for line in lines:
            if line.role == CONSUMER:
                continue
            self._gather(line)
            of = line.arguments
            if line.action == START:
                asked[line.node] = {}
            elif line.action == "answered":
                asking = asked.get(line.node, {}).pop(of["number"], None)
                if asking is not None:
                    self._asked[id(line)] = asking
                    self._fates[id(asking)] = of["outcome"]
            elif line.action in ASKING and "number" in of:
                asked.setdefault(line.node, {})[of["number"]] = line
            elif line.action == "load_group":
                loads[line.node] = line
            elif line.action == "found" and line.node in loads:
                self._found[id(loads[line.node])] = line
        first = next((line for line in lines if line.action == "load_group"), None)
        self._inherited = self._found.get(id(first))
        """Line that says what was stored of the group before the trace begins, if any."""
        self._stored.update(places(self._inherited, "offsets") if self._inherited else ())

    def _gather(self, line: TraceLine) -> None:
        """Names and numbers."""
        values = self._values
        values.element("Broker", line.node)
        for name in (member(line), *members(line)):
            values.element("Member", name)
        for name, place in owners(line):
            values.element("Member", name)
            values.element("Partition", place)
        self._mention(line, "offsets")
        self._mention(line, "refused")
        if line.action in ("found", "complete_join"):
            values.rank("generation", line.arguments.get("generation", 0))

    # ── What a line tells ───────────────────────────────────────────────────────────────────

    def b(self, told: DecodedLine) -> Broker:
        """The broker whose line it is."""
        broker: Broker = self._values.element("Broker", told.line.node)
        return broker

    def m(self, line: TraceLine) -> Member:
        """The member whose request it is, or the client whose line."""
        if line.role == CONSUMER:
            return self.clients.element(line)
        return self._member(member(line))

    def _belong(self, line: TraceLine) -> list[Member]:
        told = {self._member(name) for name in members(line)}
        return [m for m in self._members if m in told]

    def _generation(self, line: TraceLine) -> int:
        return self._values.rank("generation", line.arguments.get("generation", 0))

    def _is_present(self, told: DecodedLine, s: State) -> bool:
        return self._generation(told.line) == s.generation

    def _plan(self, line: TraceLine) -> Plan:
        """Whose each partition is."""
        told = {place: self._member(name) for name, place in owners(line)}
        names = self._values.names["Partition"]
        return {p: told.get(name) for name, p in zip(names, self._partitions, strict=False)}

    def _marks(self, line: TraceLine, of: str = "offsets") -> dict[Partition, int]:
        """Offsets by partition."""
        return dict(self._places(line, of))

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def believes(self, told: DecodedLine) -> bool:
        """True if it has loaded its groups, and has not stepped down since."""
        return self._leading.get(self.b(told), False)

    def _settles(self, s: State) -> list[Way]:
        """The ways in which the coordinator's write was stored by now, or will never be."""
        line = self._write
        if line is None or s.done or s.write != WRITES[line.action]:
            return [[]]
        stored = [self.stores(line)]
        return [stored] if self._fates.get(id(line)) == DONE else [stored, []]

    def stores(self, line: TraceLine) -> Call:
        """The step that stores what a line has asked for."""
        if line.action == "share_out":
            return "store_assignment", (self._plan(line),)
        if not members(line):
            return "store_empty_generation", ()
        return "store_generation", (self._member(line.arguments["leader"]),)

    def starts(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A process of a broker: another one than before, if there was one; or a client's."""
        if told.line.role == CONSUMER:
            return [[]]
        b = self.b(told)
        was_there, self._leading[b] = b in self._leading, False
        before = self._settles(s) if s.coordinator == b else [[]]
        return [[*way, ("restart", (b,))] for way in before] if was_there else [[]]

    def begins(self, told: DecodedLine) -> None:
        """It coordinates from now on, as far as it knows."""
        self._leading[self.b(told)] = True
        epoch = told.line.arguments["epoch"]
        self._is_late, self._is_new = epoch < self._epoch, epoch > self._epoch
        self._epoch = max(epoch, self._epoch)
        self._untold = self._heard = 0
        self._sent.clear()

    def loads(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It was elected, and loads the group, unless another one has loaded it since."""
        if self._is_late:
            return [[]]
        b, before = self.b(told), list[Call]()
        if self._inherited is not None and s.election.epoch == 0:
            before += self._inherits(self._inherited)
        if self._is_new:
            before += [("lose_session", (s.seat,))] if s.seat is not None else []
            before += [("step_down", (b,))] if s.election.leads[b] else []
            before.append(("elect", (b,)))
        return [[*way, *before, ("load_group", (b,))] for way in self._settles(s)]

    def _inherits(self, line: TraceLine) -> list[Call]:
        """The steps that put in place what was stored before the trace begins."""
        if not self._generation(line):
            return []
        of, belong = line.arguments, set(self._belong(line))
        before: Call = "inherit", (belong, self._plan(line), of.get("is_assigned", False))
        leads: list[Call] = [("inherit_leader", (self._member(of["leader"]),))]
        return [before, *(leads if "leader" in of else [])]

    def loaded(self, told: DecodedLine, s: State) -> Shown:
        """Of a group that it finds nothing of, nothing is stored."""
        if id(told.line) in self._found:
            return {}
        return {
            "the generation that is stored": (s.generation, 0),
            "the offsets that are stored": (any(s.committed[p] for p in self._partitions), False),
        }

    def found(self, told: DecodedLine, s: State) -> Shown:
        """The claims about what is stored of the group."""
        line = told.line
        of, marks = line.arguments, self._marks(line)
        shown: dict[str, tuple[Any, Any]] = {
            "the generation": (s.generation, self._generation(line)),
            "its leader": (s.leader, self._member(of["leader"]) if "leader" in of else None),
            "its members": ([m for m in self._members if s.belongs[m]], self._belong(line)),
            "whether it is assigned": (s.state == GroupState.STABLE, of.get("is_assigned", False)),
            "the offsets": (s.committed, {p: marks.get(p, 0) for p in self._partitions}),
        }
        return shown | ({"the owners": (s.owner, self._plan(line))} if "is_assigned" in of else {})

    def steps_down(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It coordinates no more, for whatever reason; or it was still loading."""
        b = self.b(told)
        self._leading[b] = False
        if not s.election.leads[b]:
            return [[]]
        before = self._settles(s) if s.coordinator == b else [[]]
        return [[*way, ("doubt" if s.seat == b else "step_down", (b,))] for way in before]

    # ── Generations ─────────────────────────────────────────────────────────────────────────

    def joins(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A JoinGroup is read."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        changed = outcome == CHANGED and s.answers_at_once(m)
        handle = "handle_changed_join" if changed else "handle_join_group"
        new: Way = [("ask_to_join", (m, False)), ("handle_join_group", (m,))]
        if outcome == "MEMBER_ID_REQUIRED":
            return [new]
        return [[*(new if outcome == NEW else ()), ("ask_to_join", (m, True)), (handle, (m,))]]

    def joined(self, told: DecodedLine, s: State) -> Shown:
        """It waits, or is told of the generation, or of an error."""
        return self._heard_now(told, s, s.joined, self._of_generation)

    def _heard_now(
        self, told: DecodedLine, s: State, waiting: Mapping[Member, bool],
        given: Callable[[TraceLine, State, Iterable[Member]], Shown],
    ) -> Shown:  # fmt: skip
        """Somebody waits, or is told what is `given`, or of an error."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        if outcome in ANSWERS:
            return {"the answer": (s.down[m], ANSWERS[outcome])}
        if outcome == TOLD:
            return given(told.line, s, [m])
        return {"whether it waits": (waiting[m], True)}

    def _of_generation(self, line: TraceLine, s: State, answered: Iterable[Member]) -> Shown:
        """These are told of a generation."""
        right = True, self._generation(line)
        return {
            f"what {m} is told": ((s.down[m] in TOLD_OF_GENERATION, s.said[m]), right)
            for m in answered
        }

    def asks(self, told: DecodedLine) -> None:
        """The next generation, or its assignment, is to be stored."""
        self._write = told.line
        self._last.update({p: m for p, m in self._plan(told.line).items() if m is not None})

    def completes(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """All have joined; what never was stored may never have been sent, in the spec."""
        del s
        is_known = id(told.line) in self._fates
        return [[("complete_join", ())], *([] if is_known else [ELSE, []])]

    def completed(self, told: DecodedLine, s: State) -> Shown:
        """Of whom the next generation is."""
        if s.write != GroupWrite.GENERATION:
            return {}
        return {
            "the generation": (s.generation + 1, self._generation(told.line)),
            "its members": ([m for m in self._members if s.is_member(m)], self._belong(told.line)),
        }

    def joins_answered(self, told: DecodedLine, s: State) -> Shown:
        """All who wait are told of the generation."""
        return self._of_generation(told.line, s, self._belong(told.line))

    # ── Assignments ─────────────────────────────────────────────────────────────────────────

    def syncs(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A SyncGroup is read."""
        m = told["m"]
        ask = "ask_for_assignment", (m, self._is_present(told, s))
        return [[ask, ("handle_sync_group", (m,))]]

    def synced(self, told: DecodedLine, s: State) -> Shown:
        """It waits, or is told its assignment, or of an error."""
        return self._heard_now(told, s, s.synced, self._given)

    def _given(self, line: TraceLine, s: State, answered: Iterable[Member]) -> Shown:
        """These are told their assignments."""
        plan = self._plan(line)
        return {
            f"what {m} is given": (
                (s.down[m], [p for p in self._partitions if self.offers(s)[m, p]]),
                (GroupAnswer.ASSIGNMENT, [p for p in self._partitions if plan[p] == m]),
            )
            for m in answered
        }

    def offers(self, s: State) -> Mapping[tuple[Member, Partition], bool]:
        """The assignments that are under way."""
        return s.given

    def shared_out(self, told: DecodedLine, s: State) -> Shown:
        """The SyncGroup that was read was the leader's."""
        del told
        return {"what is to be stored": (s.write, GroupWrite.ASSIGNMENT)}

    def syncs_answered(self, told: DecodedLine, s: State) -> Shown:
        """All who wait are told their assignments."""
        return self._given(told.line, s, self._belong(told.line))

    # ── Being a member ──────────────────────────────────────────────────────────────────────

    def expires(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Somebody is waited for no longer."""
        del s
        return [[("expire", (told["m"],))], ELSE, [("expire_gone", (told["m"],))]]

    def beats(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A heartbeat is read."""
        m = told["m"]
        return [[("be_alive", (m, self._is_present(told, s))), ("heartbeat", (m,))]]

    def beaten(self, told: DecodedLine, s: State) -> Shown:
        """The claims about the answer to a heartbeat."""
        m, outcome = told["m"], told.line.arguments["outcome"]
        is_over = s.has_id[m] and s.at[m] != s.generation
        rebalances = s.rejoin[m] and s.has_id[m] and not is_over
        return {
            "whether it is a member": (s.has_id[m], outcome != "UNKNOWN_MEMBER_ID"),
            "whether its generation is over": (is_over, outcome == "ILLEGAL_GENERATION"),
            "whether it is to join anew": (rebalances, outcome == "REBALANCE_IN_PROGRESS"),
        }

    def leaves(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A LeaveGroup is read, of somebody who was there; or of nobody."""
        m, is_there = told["m"], s.entry[told["m"]] != Entry.NONE
        if is_there != (told.line.arguments["outcome"] == NOTHING_WRONG):
            return []
        return [[("ask_to_leave", (m,)), ("handle_leave_group", (m,))]] if is_there else [[]]

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def commits(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """An OffsetCommit is read: what of it is taken, what is not."""
        m, present, way = told["m"], self._is_present(told, s), list[Call]()
        taken, refused = self._marks(told.line), self._marks(told.line, "refused")
        nobodys = {p for p in taken if s.owner[p] is None and self._had_last(m, p, s)}
        for said, handle in (
            ({*refused}, ("refuse_commit", (m,))),
            (nobodys, ("take_of_nobodys", (m, nobodys))),
            (taken.keys() - nobodys, ("handle_offset_commit", (m,))),
        ):
            for p in self._partitions:
                way += goes_to(s, m, p, (taken | refused)[p]) if p in said else ()
            way += [("ask_to_commit", (m, present, said)), handle] if said else []
        return [way]

    def _had_last(self, m: Member, p: Partition, s: State) -> bool:
        """False of a partition that another one was assigned last, who is still a member."""
        last = self._last.get(p)
        return last in (None, m) or not s.belongs[last]

    def committed(self, told: DecodedLine, s: State) -> Shown:
        """The claims that offsets which are taken are noted."""
        taken = self._marks(told.line)
        return {"what is taken": ({p: s.noted[p] for p in taken}, taken)}

    def sends(self, told: DecodedLine) -> None:
        """Offsets are to be stored, or were found."""
        for p, rank in self._marks(told.line).items():
            self._sent.setdefault(p, {})[told.line.arguments.get("number", 0)] = rank

    def flushes(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Offsets are to be stored, and are, where anybody hears of that; else perhaps."""
        del s
        known = [ELSE] if self._fates.get(id(told.line)) == DONE else []
        stored: Way = [("flush_offsets", ()), ("store_offsets", ()), ("answer_commits", ())]
        return [stored, *known, []]

    def flushed(self, told: DecodedLine, s: State) -> Shown:
        """The claims that offsets which are known to be stored are."""
        marks = self._marks(told.line) if self._fates.get(id(told.line)) == DONE else {}
        return {"what is stored": ({p: s.committed[p] for p in marks}, marks)}

    def hears(self, told: DecodedLine) -> None:
        """Note what became of a change."""
        self._answer = self._asked.get(id(told.line))
        if self._answer is not None and self._answer.action == "flush_offsets":
            self._untold += 1
            self._heard = heard = told.line.arguments["number"]
            for p in self._marks(self._answer):
                sent = self._sent.get(p, {})
                self._sent[p] = {number: sent[number] for number in sent if number >= heard}

    def answered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It was stored; what is too large to be is not modelled."""
        del s
        if told.line.arguments["outcome"] != DONE or self._answer is None:
            return []
        return [[] if self._answer.action == "flush_offsets" else [self.stores(self._answer)]]

    def tells(self, _told: DecodedLine) -> None:
        """Somebody's OffsetCommit is answered."""
        self._untold -= 1

    def commits_answered(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Its offsets are stored, and that is known."""
        del told, s
        return [[]] if self._untold >= 0 else []

    def fetched(self, told: DecodedLine, s: State) -> Shown:
        """
        Offsets are told as they are stored, with all that was taken before somebody asked.

        What was sent since, and not heard of, is stored in the spec already.
        """
        marks = self._marks(told.line)
        if told.line.arguments.get("outcome") == EVERYTHING:
            marks = dict.fromkeys(self._partitions, 0) | marks
        known = max(told.line.arguments.get("number", 0), self._heard)
        wanted = {p: s.committed[p] for p in marks}
        for p in marks:
            sent = self._sent.get(p, {})
            if max(sent, default=0) > known:
                before = [number for number in sent if number <= known]
                wanted[p] = sent[max(before)] if before else 0
        return {"the offsets": (wanted, marks)}


# ── The table ───────────────────────────────────────────────────────────────────────────────

UNMODELLED = ("commit_from_outside", "delete_offsets", "delete_group")
"""Steps of the coordinator that the spec does not have."""
G = GroupTrace
Leads = Callable[[Any, DecodedLine, State], Iterable[Way]]
Shows = Callable[[Any, DecodedLine, State], Shown]


def stays(group: GroupTrace, told: DecodedLine, s: State) -> Iterable[Way]:
    """Nothing changes."""
    del group, told, s
    return [[]]


def once(action: str) -> Leads:
    """The action is taken, whatever the line tells."""

    def leads(group: GroupTrace, told: DecodedLine, s: State) -> Iterable[Way]:
        del group, told, s
        return [[(action, ())]]

    return leads


def decided(
    leads: Leads, shows: Shows | None = None, note: Callable[..., object] | None = None,
    action: str | None = OWN, *, known: frozenset[str] = KNOWN,
) -> Row:  # fmt: skip
    """Row of a coordinator's decision; one of a coordinator that was replaced leads nowhere."""

    def is_sure(group: GroupTrace, told: DecodedLine, s: State) -> bool:
        return s.coordinator == group.b(told)

    def is_passed_over(told: DecodedLine) -> bool:
        return told.line.arguments.get("outcome", DONE) not in (DONE, REFUSED, *known)

    def ways(group: GroupTrace, told: DecodedLine, s: State) -> Iterable[Way]:
        if is_passed_over(told):
            return [[]]
        if is_sure(group, told, s):
            return leads(group, told, s)
        return [[]] if group.believes(told) else []

    def claims(group: GroupTrace, told: DecodedLine, s: State) -> Sequence[str]:
        if shows is None or is_passed_over(told) or not is_sure(group, told, s):
            return ()
        return differences(shows(group, told, s))

    return Row(action, ways=ways, claims=claims, note=note)


ROWS: Mapping[str, Row] = {
    START: Row(None, ways=G.starts),
    "load_group": replace(decided(stays, G.loaded, G.begins), ways=G.loads),
    "found": decided(stays, G.found, G.sends, action=None),
    "step_down": Row(ways=G.steps_down),
    "handle_join_group": decided(G.joins, G.joined),
    "complete_join": decided(G.completes, G.completed, G.asks),
    "answer_joins": decided(once("answer_joins"), G.joins_answered),
    "handle_sync_group": decided(G.syncs, G.synced),
    "share_out": decided(stays, G.shared_out, G.asks, action=None),
    "answer_syncs": decided(once("answer_syncs"), G.syncs_answered),
    "expire": decided(G.expires),
    "heartbeat": decided(G.beats, G.beaten),
    "handle_leave_group": decided(G.leaves),
    "handle_offset_commit": decided(G.commits, G.committed),
    "flush_offsets": decided(G.flushes, G.flushed, G.sends),
    "answered": decided(G.answered, note=G.hears, action=None),
    "answer_commits": decided(G.commits_answered, note=G.tells),
    "handle_offset_fetch": decided(stays, G.fetched, action=None),
    **dict.fromkeys((ANSWERED, *UNMODELLED), Row(None)),
    **CLIENT_ROWS,
}


def map_for(lines: Sequence[TraceLine]) -> TraceMap | None:
    """The map of Kafka's own answers, static or cooperative members, if lines tell of any."""
    if any(line.action == ANSWERED for line in lines):
        from herdproof.protocols.group_protocol.traces.observed_map import map_of_answers

        return map_of_answers()
    if any(line.arguments.get("instance") for line in lines):
        from herdproof.protocols.group_protocol.traces.static_members import map_of_statics

        return map_of_statics()
    if any(keeps(line) for line in lines):
        from herdproof.protocols.group_protocol.traces.cooperative import map_of_cooperative

        return map_of_cooperative()
    return None


@cache
def map_of() -> TraceMap:
    """The map of the verified spec."""
    return TraceMap(
        in_replays(GROUP_PROTOCOL), ROWS, protocol=NAME, group=GroupTrace, initial=G.initial,
        arguments={"m": G.m, "b": "node", "p": ANY, "plan": ANY, "wanted": ANY}, plain=True,
        ranks={"offset": Scale(zero=NO_OFFSET), "generation": Scale(counted=True)},
        untraced=untraced, variant=map_for, excused=unaccounted,
        strangers=predecessors, unmodelled=UNMODELLED, formats=FORMATS,
    )  # fmt: skip
