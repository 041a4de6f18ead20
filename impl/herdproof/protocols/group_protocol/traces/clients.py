"""
Maps the lines of our own clients to the spec: to their own steps, whoever coordinates.

A client is an element of its own, one for each life of its process, beside those of the member ids
that coordinators' lines name. Its lines are the spec's own steps of a client, after the answer that
they say it was given (`replayed_clients.py`), which coordinators' lines must have told, where there
are any (`answers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdproof.conformance.traces.groups import Missing
from herdproof.conformance.traces.line import START, TraceLine
from herdproof.conformance.traces.mapping import OWN, DecodedLine, Row
from herdproof.conformance.traces.values import Values
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.traces.answers import (
    JOINED,
    Answers,
    heard_by,
    places,
    untold,
)
from herdproof.protocols.group_protocol.traces.observed import unfollowed
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdproof.protocols.group_replay import GroupReplay
from herdspec.check.conformance.follow import Call, Way, differences
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.spec import GroupProtocol

if TYPE_CHECKING:
    from herdproof.protocols.group_protocol.traces.trace_map import GroupTrace

State = GroupProtocol
GOES_ON: Mapping[str, Sequence[str]] = {
    "initiate_join_group": ("learn_member_id",), "on_join_complete": JOINED,
}  # fmt: skip
"""Lines, and those right before that said the same member id and generation."""
FIRST = 2
"""The number of a process's first step: its first line says that it is there."""
LOSES_ID = ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
REJOINS = ("ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS")


class ClientsTrace(GroupReplay):
    """The clients of one group: who is who, and which member id each has."""

    def __init__(self, values: Values, lines: Sequence[TraceLine]) -> None:
        super().__init__(values)
        self._names: dict[int, str] = {}
        """By line of a client, what its present life is called."""
        self._ids: dict[str, str] = {}
        """By life, the member id that it was told last."""
        self._then: dict[int, tuple[str, int]] = {}
        """By line that tells a member id or a generation, with what its client goes on."""
        self._cooperative: set[str] = set()
        """The lives that keep what they have while they join."""
        self.answers = Answers(lines)
        lives: dict[str, int] = {}
        before: dict[str, TraceLine] = {}
        for line in lines:
            if line.role == CONSUMER:
                lives[line.node] = lives.get(line.node, 0) + (line.action == START)
                name = self._names[id(line)] = f"{line.node} (process {lives[line.node]})"
                values.element("Member", name)
                self._gather(line)
                if keeps(line):
                    self._cooperative.add(name)
                if name in before and before[name].action in GOES_ON.get(line.action, ()):
                    self._then[id(before[name])] = heard_by(line)
                before[name] = line

    def _gather(self, line: TraceLine) -> None:
        self._mention(line, "offsets")
        for topic, number in places(line, heard_by(line)[0]):
            self._values.element("Partition", f"{topic}-{number}")
        if generation := line.arguments.get("generation", 0):
            self._values.rank("generation", generation)

    def element(self, line: TraceLine) -> Member:
        """Whose line it is."""
        found: Member = self._values.element("Member", self._names[id(line)])
        return found

    def _generation(self, line: TraceLine) -> int:
        return self._values.rank("generation", line.arguments.get("generation", 0))

    def _marks(self, line: TraceLine) -> dict[Partition, int]:
        """Offsets by partition, as ranks."""
        return dict(self._places(line, "offsets"))

    def _given(self, line: TraceLine) -> set[Partition]:
        """The partitions that its member says are its own."""
        return {self._partition(f"{t}-{n}") for t, n in places(line, heard_by(line)[0])}

    # ── What leads to a line ────────────────────────────────────────────────────────────────

    def subscribes(self, m: Member, _line: TraceLine, _s: State) -> Way:
        """It begins; which partitions it wants, the plan alone would ask."""
        return [("subscribe", (m, set()))]

    def initiates(self, m: Member, _line: TraceLine, _s: State) -> Way:
        """It sends JoinGroup to whoever coordinates."""
        return [("find", (m,)), ("initiate_join_group", (m,))]

    def joins(self, m: Member, line: TraceLine, s: State) -> Way:
        """It is told of its generation; at once, where it needs no member id for that."""
        before: list[Call] = [] if s.has_id[m] else [(step, (m,)) for step in COMES_AGAIN]
        first = "be_told_of_generation", (m, line.action == "on_join_leader")
        later = [("be_told_of_the_next", (m,))] * (self._generation(line) - 1)
        return [*before, first, *later, (line.action, (m,))]

    def completes(self, m: Member, line: TraceLine, _s: State) -> Way:
        """It has its assignment."""
        return [("be_assigned", (m, self._given(line))), ("on_join_complete", (m,))]

    def fails(self, m: Member, line: TraceLine, _s: State) -> Way:
        """It is refused what it awaits."""
        known = line.action == "join_again"
        return [("be_refused", (m, known)), (line.action, (m,))]

    def closes(self, m: Member, line: TraceLine, _s: State) -> Way:
        """It ends; whoever has not subscribed yet has never begun."""
        return [("find", (m,)), (line.action, (m,))] if line.sequence > FIRST else []

    def is_refused(self, m: Member, line: TraceLine, _s: State) -> Way | None:
        """The steps of a refusal of what it asked for as a member; most errors change nothing."""
        outcome = line.arguments.get("outcome", "")
        if outcome not in Error.__members__:
            return None
        if outcome not in (*LOSES_ID, *REJOINS):
            return []
        return [("hear_it_is_over", (m, outcome in REJOINS))]

    def begins(self, m: Member, line: TraceLine, _s: State) -> Way:
        """It is told where to begin."""
        moves = [("finish", (m, p)) for p, rank in self._marks(line).items() for _ in range(rank)]
        return [("be_told_where", (m,)), *moves]

    def moves(self, m: Member, line: TraceLine, s: State) -> Way | None:
        """It goes on to these offsets, of which none is where it was already."""
        action = "consume" if line.action == "consume" else "finish"
        steps = {p: range(s.position[m, p], rank) for p, rank in self._marks(line).items()}
        if not all(steps.values()):
            return None
        return [(action, (m, p)) for p, times in steps.items() for _ in times]

    def commits(self, m: Member, line: TraceLine, _s: State) -> Way:
        """OffsetCommit is sent."""
        return [("find", (m,)), ("commit_some", (m, {*self._marks(line)}))]

    # ── What a line shows ───────────────────────────────────────────────────────────────────

    def shows(self, m: Member, line: TraceLine, s: State) -> Mapping[str, tuple[Any, Any]]:
        """The values that the spec has, and those that the line says."""
        me, _ = heard_by(line)
        own = self._ids.get(self._names[id(line)], "")
        is_over = line.action == "poll_time_out" or (line.action == "close" and me)
        has_id = s.has_id[m] or is_over or line.action in STABLE
        shown: dict[str, tuple[Any, Any]] = {"its member id": (own if has_id else "", me)}
        if line.action in (*JOINED, *STABLE):
            shown["its generation"] = s.at[m], self._generation(line)
        if id(line) in self._then and self.answers.is_odd(line):
            shown["what it goes on with"] = self._then[id(line)], heard_by(line)
        owners = {who for who, *_ in line.arguments.get("owners", ())}
        if owners - {me}:
            shown["whose the partitions are"] = {me}, owners
        if line.action == "initiate_join_group":
            shown["what it keeps"] = {p for p in Partition if s.given[m, p]}, self._given(line)
        told = self._marks(line)
        if line.action in ("update_fetch_positions", "resolve_start", "consume"):
            shown["how far it is"] = {p: s.position[m, p] for p in told}, told
            shown["what it has"] = [True] * len(told), [s.given[m, p] for p in told]
        elif line.action == "commit":
            done = {p: min(rank, s.position[m, p]) for p, rank in told.items()}
            shown["what it has finished"] = done, told
        if line.action == "update_fetch_positions":
            had = sum(s.given[m, p] for p in Partition)
            shown["how many partitions it has"] = had, len(told)
        return {**shown, **self.answers.differs(line)}

    def notes(self, line: TraceLine) -> None:
        """The member id that it has from now on."""
        name, (me, _) = self._names[id(line)], heard_by(line)
        is_asked_anew = line.action == "initiate_join_group" and not me
        if is_asked_anew or line.action == "learn_member_id":
            self._ids[name] = me
        elif line.action in JOINED and not self._ids.get(name):
            self._ids[name] = me  # of a coordinator that asks nobody to come again with an id


STABLE = (
    "on_join_complete", "refused", "update_metadata", "session_time_out", "update_fetch_positions",
    "resolve_start", "consume", "commit",
)  # fmt: skip
"""The lines of who is in a generation."""
COMES_AGAIN = ("be_given_an_id", "learn_member_id", "find", "initiate_join_group")
"""Steps of who needs a member id to join with."""
Leads = Callable[[ClientsTrace, Member, TraceLine, State], "Way | None"]


def keeps(line: TraceLine) -> bool:
    """Tells whether a client begins that keeps what it has while it joins."""
    return bool(line.arguments.get("is_cooperative", False))


def uncooperative(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """Lines of cooperative groups that are not followed, or lack what that needs."""
    statics = {line.group for line in lines if line.arguments.get("instance")}
    cooperative = {line.group for line in lines if keeps(line)}
    for k, line in enumerate(lines):
        if line.group not in cooperative:
            continue
        if keeps(line) and line.group in statics:
            why = (
                f"{line.node} is cooperative ({line.place}), and its group has static members: "
                "the spec has none that are static and cooperative"
            )
        elif line.action == "join_again" and "outcome" not in line.arguments:
            why = f"{line.node} does not say by which `outcome` it joins again ({line.place})"
        else:
            continue
        yield Missing(why, k, frozenset({line.group}))


def untraced(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """Whose lines are missing, or say what is not followed."""
    yield from unfollowed(lines)
    yield from untold(lines)
    yield from uncooperative(lines)


def row_of(leads: Leads, action: str | None = OWN) -> Row:
    """The row of a client's own step."""

    def ways(group: GroupTrace, told: DecodedLine, s: State) -> Iterable[Way]:
        clients = group.clients
        way = leads(clients, clients.element(told.line), told.line, s)
        return [] if way is None else [way]

    def claims(group: GroupTrace, told: DecodedLine, s: State) -> Sequence[str]:
        clients = group.clients
        return differences(clients.shows(clients.element(told.line), told.line, s))

    def note(group: GroupTrace, told: DecodedLine) -> None:
        group.clients.notes(told.line)

    return Row(action, ways=ways, claims=claims, note=note)


def taken(method: str, action: str | None = OWN) -> Row:
    """The row of a step that is taken in the way that the group's kind of clients has."""
    return row_of(lambda clients, *of: getattr(clients, method)(*of), action)


def steps(*names: str) -> Row:
    """A line of a client that is these steps of it, one after the other."""
    return row_of(lambda _clients, m, _line, _s: [(name, (m,)) for name in names])


CLIENT_ROWS: Mapping[str, Row] = {
    "subscribe": taken("subscribes"),
    "initiate_join_group": taken("initiates"),
    "learn_member_id": steps("be_given_an_id", "learn_member_id"),
    "on_join_leader": taken("joins"),
    "on_join_follower": taken("joins"),
    "on_join_complete": taken("completes"),
    "join_again": taken("fails"),
    "reset_generation": taken("fails"),
    "lose": steps("lose"),
    "refused": taken("is_refused", action=None),
    "update_metadata": steps("look_again"),
    "session_time_out": steps("find", "session_time_out"),
    "poll_time_out": steps("find", "poll_time_out"),
    "update_fetch_positions": taken("begins"),
    "resolve_start": taken("moves", action=None),
    "consume": taken("moves"),
    "commit": taken("commits"),
    "close": taken("closes"),
}
