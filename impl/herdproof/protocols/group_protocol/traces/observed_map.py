"""
Maps answers of Kafka's own coordinator to the spec of what a coordinator may answer.

Each answer was decided at some moment between its request and when it was seen. What a coordinator
does beside is supposed where an answer could not be without it: that all were to join anew, that
somebody was dropped, that a generation began. None of that has to have happened earlier than it
shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.conformance.traces.values import Scale, Values
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.traces.observed import (
    ObservedAnswers,
    Place,
    answer,
    api,
    committed,
    error,
    errors,
    excused,
    generation,
    given,
    is_joined,
    leavers,
    listed,
    member,
    names_of,
    plan,
)
from herdproof.protocols.group_protocol.tracing import ANSWERED
from herdproof.protocols.group_protocol.tracing import GROUP_PROTOCOL as NAME
from herdspec.check.conformance.follow import ELSE, Call, Way
from herdspec.language.specification import Specification
from herdspec.protocols.group import Member, Partition
from herdspec.protocols.group_protocol.replays.answered import (
    ANSWERED as SPEC,
)
from herdspec.protocols.group_protocol.replays.answered import (
    ANSWERED_BY_KAFKA,
    AnsweredGroup,
)
from herdspec.protocols.group_protocol.values import Entry, GroupState

State = AnsweredGroup
REBALANCE: Call = ("rebalance", ())
PASSED: list[Way] = [[]]
"""The way along an answer of which nothing is claimed."""
TAKE_OVER, FORGET, BY_GENERATION = "take_over", "forget_generation", "commit_by_generation"


class AnswersTrace:
    """One group's answers: what is known of them beforehand, and the ways to each."""

    def __init__(self, values: Values, lines: Sequence[TraceLine]) -> None:
        self._values = values
        self._seen = ObservedAnswers(lines)
        self._is_kafkas = any(a.name == BY_GENERATION for a in values.spec.actions)
        self._begins: dict[tuple[int, str], list[frozenset[str]]] = {}
        """By generation and leader, with which members it may have begun."""
        members, partitions = names_of(self._seen.lines)
        for name in sorted(members):
            values.element("Member", name)
        for topic, number in sorted(partitions):
            values.element("Partition", f"{topic}-{number}")
        for line in self._seen.lines:
            values.rank("generation", generation(line))

    def initial(self) -> Mapping[tuple[str, Any], Any]:
        """
        Member ids are there from the beginning, whoever is told one later.

        Nobody else can come with one, and each is drawn anew: so nothing depends on when it was.
        """
        return {("entry", self._m(name)): Entry.PENDING for name in self._seen.joined}

    # ── In the spec's terms ─────────────────────────────────────────────────────────────────

    def _m(self, name: str) -> Member:
        found: Member = self._values.element("Member", name)
        return found

    def _all(self, names: Iterable[str]) -> set[Member]:
        return {self._m(name) for name in names}

    def _places(self, places: Iterable[Place]) -> set[Partition]:
        return {self._values.element("Partition", f"{topic}-{n}") for topic, n in places}

    def _rank(self, line: TraceLine) -> int:
        """The generation that a line names, or tells; 0 if it is none."""
        found: int = self._values.rank("generation", generation(line))
        return found

    def _now(self, line: TraceLine, s: State) -> bool:
        """True if a line is of the present generation."""
        return self._rank(line) == s.generation

    # ── The ways to an answer ───────────────────────────────────────────────────────────────

    def ways(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """The ways to an answer."""
        line = told.line
        if is_joined(line):
            return self._joined(line, s)
        match api(line), error(line):
            case "JoinGroup", Error.MEMBER_ID_REQUIRED:
                return self._given_id(self._m(member(line)), s)
            case "JoinGroup", Error.UNKNOWN_MEMBER_ID if member(line):
                return self._dropped("refuse_id", member(line))
            case "SyncGroup", 0:
                return self._synced(line, s)
            case "Heartbeat", 0:
                return [[("beat", (self._m(member(line)), self._now(line, s)))]]
            case "LeaveGroup", _:
                return self._left(line, s)
            case "OffsetCommit", _:
                return self._committed(line, s)
            case (("SyncGroup" | "Heartbeat"), code):
                return self._refused(line, s, code)
            case "DeleteGroups", _ if is_deleted(line):
                return [[("vanish", ())]]
        return PASSED

    def named(self, told: DecodedLine) -> str:
        """The action that a line counts as; empty where nothing is claimed."""
        line = told.line
        code = error(line)
        if api(line) == "OffsetCommit" and 0 in errors(line):
            return "take_from_outside" if generation(line) < 0 else "take_commit"
        return NAMES.get((api(line), code), "")

    def _given_id(self, m: Member, s: State) -> Iterable[Way]:
        """Somebody is told its member id; in another life it may have had the same."""
        anew: Way = [("give_id", (m,)), ("tell_id", (m,))]
        before: list[Call] = [("drop", (m, False))] if s.entry[m] == Entry.MEMBER else []
        return [[("tell_id", (m,))], ELSE, [*before, *anew]]

    def _joined(self, line: TraceLine, s: State) -> Iterable[Way]:
        """Somebody is told of its generation, which may begin with that."""
        m, leader = self._m(member(line)), str(answer(line)["leader"])
        names = listed(line)
        more: list[Call] = [("tell_members", (m, self._all(names)))] if names else []

        def told(now: bool) -> list[Call]:
            return [("tell_generation", (m, now, self._m(leader))), *more]

        of = generation(line), leader
        if of not in self._begins:
            self._begins[of] = self._seen.members(of)
        begun = [[*self._begun(of, set(of_whom), s), *told(True)] for of_whom in self._begins[of]]
        return [told(self._now(line, s)), ELSE, *(begun if self._rank(line) > 0 else [])]

    def _begun(self, of: tuple[int, str], names: set[str], s: State) -> list[Call]:
        """The steps by which a generation begins."""
        rank = self._values.rank("generation", of[0])
        members, since = self._all(names), s.generation
        way: list[Call] = []
        if rank <= s.generation:
            way, since = [("vanish", ()), REBALANCE], 0
        elif s.phase != GroupState.PREPARING_REBALANCE:
            way.append(REBALANCE)
        counted = [m for m in Member if s.entry[m] == Entry.MEMBER]
        if rank - since == 2 and since and not members.intersection(counted):
            way += [*(("drop", (m, False)) for m in counted), ("become_empty", ()), REBALANCE]
        else:
            way += [("pass_unseen", ())] * (rank - since - 1)
        return [*way, ("begin_generation", (members, self._m(of[1])))]

    def _synced(self, line: TraceLine, s: State) -> Iterable[Way]:
        """Somebody is told what it is assigned, by its own plan, or another one's."""
        m, now = self._m(member(line)), self._now(line, s)
        tell: Call = ("tell_assignment", (m, now, self._places(given(answer(line)["assignment"]))))
        ways: list[Way] = [[tell], ELSE]
        if not now or s.phase != GroupState.COMPLETING_REBALANCE:
            return ways
        if s.leader == m:
            ways += [[self._shared(plan(line)), tell], ELSE]
        lead = [
            o for o in self._seen.begun if o[0] == generation(line) and self._m(o[1]) == s.leader
        ]
        if any(self._seen.may_have_shared(of, line.time_ns) for of in lead):
            ways.append([self._shared(self._seen.shares[generation(line)]), tell])
        return ways

    def _shared(self, shares: dict[str, set[Place]]) -> Call:
        """The step by which the leader's assignment is there."""
        every = {(self._m(name), p) for name, of in shares.items() for p in self._places(of)}
        return "share_out", (every,)

    def _dropped(self, refusal: str, name: str) -> list[Way]:
        """Somebody is no member, or is none any more."""
        m = self._m(name)
        return [[(refusal, (m,))], ELSE, [("drop", (m, False)), (refusal, (m,))]]

    def _refused(self, line: TraceLine, s: State, code: int) -> Iterable[Way]:
        """A member is told an error."""
        m, now = self._m(member(line)) if member(line) else None, self._now(line, s)
        if m is None:
            return PASSED
        match code:
            case Error.UNKNOWN_MEMBER_ID:
                return self._dropped("refuse_member", member(line))
            case Error.REBALANCE_IN_PROGRESS:
                name = "refuse_commit" if api(line) == "OffsetCommit" else "refuse_rebalancing"
                return [[(name, (m, now))], ELSE, [REBALANCE, (name, (m, now))]]
            case Error.ILLEGAL_GENERATION:
                anew = [] if s.phase == GroupState.PREPARING_REBALANCE else [REBALANCE]
                unseen: Way = [*anew, ("pass_unseen", ()), ("refuse_generation", (m, False))]
                return [[("refuse_generation", (m, now))], ELSE, unseen]
        return PASSED

    def _left(self, line: TraceLine, s: State) -> Iterable[Way]:
        """Members have left; of some nobody knew."""
        way: list[Call] = []
        for name, code in leavers(line):
            m = self._m(name) if name else None
            if m is None or code not in (0, Error.UNKNOWN_MEMBER_ID):
                continue
            if not code or s.entry[m] != Entry.NONE:
                way.append(("drop", (m, False)))
            if code:
                way.append(("refuse_id", (m,)))
        return [way]

    def _committed(self, line: TraceLine, s: State) -> Iterable[Way]:
        """A commit is taken, or is not."""
        if 0 not in errors(line):
            return self._refused(line, s, error(line))
        if generation(line) < 0:
            taken: Call = ("take_from_outside", ())
            return [[taken], ELSE, [*emptied(s), taken]]
        m, now = self._m(member(line)), self._now(line, s)
        ways: list[Way] = [[("take_commit", (m, now, self._places(committed(line))))]]
        return [*ways, ELSE, [(BY_GENERATION, (m, now))]] if self._is_kafkas else ways


def load(self: AnsweredGroup) -> None:
    """Count whoever is in the generation; a member id that was given stays known."""
    if all(not self.belongs[m] for m in Member):
        self.phase = GroupState.EMPTY
    elif self.assigned == self.generation:
        self.phase = GroupState.STABLE
    else:
        self.phase = GroupState.COMPLETING_REBALANCE
    for m in Member:
        if self.belongs[m]:
            self.entry[m] = Entry.MEMBER
        elif self.entry[m] == Entry.MEMBER:
            self.entry[m] = Entry.NONE


def in_replays(spec: Specification) -> Specification:
    """A spec of answers, in which a forgotten member id is dropped where that shows."""
    return spec.replace(spec.name, load=load)


def emptied(s: State) -> list[Call]:
    """The steps after which the group has no member."""
    way: list[Call] = [("drop", (m, False)) for m in Member if s.entry[m] == Entry.MEMBER]
    if not way and s.phase != GroupState.PREPARING_REBALANCE:
        way.append(REBALANCE)
    return [*way, ("become_empty", ())]


def is_deleted(line: TraceLine) -> bool:
    """Tells whether the line's group was deleted."""
    results: Iterable[Any] = answer(line).get("results") or ()
    return any(x["group_id"] == line.group and not x["error_code"] for x in results)


NAMES: Mapping[tuple[str, int], str] = {
    ("JoinGroup", 0): "tell_generation",
    ("JoinGroup", Error.MEMBER_ID_REQUIRED): "tell_id",
    ("JoinGroup", Error.UNKNOWN_MEMBER_ID): "refuse_id",
    ("SyncGroup", 0): "tell_assignment",
    ("Heartbeat", 0): "beat",
    ("LeaveGroup", 0): "drop",
    ("LeaveGroup", Error.UNKNOWN_MEMBER_ID): "refuse_id",
    ("OffsetCommit", Error.REBALANCE_IN_PROGRESS): "refuse_commit",
    ("DeleteGroups", 0): "vanish",
    **{
        (kind, code): name
        for kind in ("SyncGroup", "Heartbeat", "OffsetCommit")
        for code, name in (
            (Error.UNKNOWN_MEMBER_ID, "refuse_member"),
            (Error.ILLEGAL_GENERATION, "refuse_generation"),
        )
    },
    **dict.fromkeys(
        [(kind, Error.REBALANCE_IN_PROGRESS) for kind in ("SyncGroup", "Heartbeat")],
        "refuse_rebalancing",
    ),
}
"""By API and error, the action of the spec that an answer is."""
ROW = Row(None, ways=AnswersTrace.ways, named=AnswersTrace.named, prompt=True)


@cache
def map_of_kafkas() -> TraceMap:
    """The map of the answers that Kafka's own coordinator may give."""
    return replace(map_of_answers(), spec=in_replays(ANSWERED_BY_KAFKA), silent=[TAKE_OVER, FORGET])


@cache
def map_of_answers() -> TraceMap:
    """The map of the answers that the verified protocol may give."""
    return TraceMap(
        in_replays(SPEC), {ANSWERED: ROW, START: Row(None)}, protocol=NAME, group=AnswersTrace,
        initial=AnswersTrace.initial, ranks={"generation": Scale(counted=True)},
        silent=[TAKE_OVER], plain=True, excused=excused, lenient=map_of_kafkas,
    )  # fmt: skip
