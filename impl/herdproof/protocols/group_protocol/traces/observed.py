"""
Things known of a group beforehand, from all answers of Kafka's coordinator that were seen.

An answer tells what was so at some moment since its request. Of a generation each member's answer
tells a part, and its leader's who belongs to it: so they are put together first.

Answers of which there is no line have to be reckoned with. Whoever looks on writes a line of every
answer that it passes on, and requests of one connection are answered in their order: so a request
without a line was the last of its connection, or came on one of which nothing was seen at all. That
a member asks by two connections at once, and loses one of which nothing else was seen, is not
thought of.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from herdproof.conformance.traces.groups import Missing, gaps
from herdproof.conformance.traces.line import START, TraceLine
from herdproof.consuming.consumer_protocol import read_assignment
from herdproof.errors import Malformed
from herdproof.protocols.group_protocol.messages import Error
from herdproof.protocols.group_protocol.tracing import ANSWERED, KAFKA

CONSUMERS = "consumer"
"""The type of groups whose assignments are partitions."""
GROUP_ID, GENERATION, MEMBER = "group_id", "generation_id", "member_id"
OF_GENERATION = frozenset({
    Error.NONE, Error.REBALANCE_IN_PROGRESS, Error.ILLEGAL_GENERATION,
})  # fmt: skip
"""The errors that members alone are told."""
Beginning = tuple[int, str]
"""A generation, and who leads it: of one number there may be two, where one was forgotten."""
Place = tuple[str, int]


def api(line: TraceLine) -> str:
    """Its API; empty where it is of no answer."""
    return str(line.arguments.get("api", "")) if line.action == ANSWERED else ""


def asked(line: TraceLine) -> Mapping[str, Any]:
    """Its request."""
    of: Mapping[str, Any] = line.arguments.get("request", {})
    return of


def answer(line: TraceLine) -> Mapping[str, Any]:
    """Its answer."""
    of: Mapping[str, Any] = line.arguments.get("answer", {})
    return of


def error(line: TraceLine) -> int:
    """The error of an answer that has one for all of it; else the first that it has."""
    of = answer(line)
    if "error_code" in of and api(line) != "OffsetFetch":
        return int(of["error_code"])
    return next(iter(sorted(errors(line), reverse=True)), 0)


def errors(line: TraceLine) -> set[int]:
    """The errors of a commit's partitions."""
    topics = answer(line).get("topics") or ()
    return {int(each["error_code"]) for topic in topics for each in topic.get("partitions") or ()}


def committed(line: TraceLine) -> set[Place]:
    """The partitions of which a commit is taken."""
    return {
        (str(topic["name"]), int(each["partition_index"]))
        for topic in answer(line).get("topics") or ()
        for each in topic["partitions"]
        if not each["error_code"]
    }


def generation(line: TraceLine) -> int:
    """The generation that a request names, or its answer tells."""
    of = asked(line)
    if api(line) == "JoinGroup":
        return int(answer(line).get(GENERATION, -1))
    return int(of.get(GENERATION, of.get("generation_id_or_member_epoch", -1)))


def member(line: TraceLine) -> str:
    """The member whose request it is; of one that has joined, by the id that it was given."""
    told = answer(line).get(MEMBER) if api(line) == "JoinGroup" else ""
    return str(told or asked(line).get(MEMBER) or "")


def leavers(line: TraceLine) -> list[tuple[str, int]]:
    """The members that a LeaveGroup names, each with its error."""
    every = answer(line).get("members") or [{**asked(line), "error_code": 0}]
    return [(str(x.get(MEMBER) or ""), int(x["error_code"]) or error(line)) for x in every]


def listed(line: TraceLine) -> set[str]:
    """The members that a leader is told of."""
    return {str(each[MEMBER]) for each in answer(line).get("members") or ()}


def given(told: str | None) -> set[Place]:
    """The partitions of an assignment; none where that cannot be read."""
    try:
        return set(read_assignment(base64.b64decode(told or "")))
    except Malformed:
        return set()


def plan(line: TraceLine) -> dict[str, set[Place]]:
    """By member, what a SyncGroup gives it."""
    every = asked(line).get("assignments") or ()
    return {str(each[MEMBER]): given(each["assignment"]) for each in every}


def is_joined(line: TraceLine) -> bool:
    """Tells whether somebody was told of its generation."""
    return api(line) == "JoinGroup" and not error(line)


@dataclass
class ToldGeneration:
    """The parts of a generation that answers tell."""

    lines: dict[str, list[TraceLine]] = field(default_factory=lambda: defaultdict(list))
    """By member, the answers that told it."""
    lists: dict[frozenset[str], list[TraceLine]] = field(default_factory=lambda: defaultdict(list))
    """Its members, as its leader was told: more than once, if it was forgotten, and began again."""

    @property
    def every(self) -> list[TraceLine]:
        """All of these answers."""
        return [line for lines in self.lines.values() for line in lines]

    @property
    def since_ns(self) -> int:
        """When the first of them was asked for."""
        return min(line.earliest_ns for line in self.every)


class ObservedAnswers:
    """The answers about one group, in their order."""

    def __init__(self, lines: Sequence[TraceLine]) -> None:
        self.lines = [line for line in lines if api(line)]
        self.begun: dict[Beginning, ToldGeneration] = defaultdict(ToldGeneration)
        self.shares: dict[int, dict[str, set[Place]]] = defaultdict(dict)
        """By generation and member, what it was told that it is assigned."""
        self.joined: set[str] = set()
        """Whoever was given a member id, or was told of a generation."""
        self.accepted: dict[int, set[str]] = defaultdict(set)
        """By generation, who was answered as its member."""
        self._of: dict[str, list[TraceLine]] = defaultdict(list)
        """By member, the answers that it was given."""
        self._last: dict[int, TraceLine] = {}
        """By connection, its last answer."""
        for line in self.lines:
            self._take(line)

    def _take(self, line: TraceLine) -> None:
        code, name = error(line), member(line)
        self._last[line.arguments.get("connection", 0)] = line
        if name:
            self._of[name].append(line)
        if is_joined(line):
            told = self.begun[generation(line), str(answer(line)["leader"])]
            told.lines[name].append(line)
            if listed(line):
                told.lists[frozenset(listed(line))].append(line)
            self.joined.add(name)
        elif code == Error.MEMBER_ID_REQUIRED:
            self.joined.add(name)
        elif name and is_taken(line):
            self.accepted[generation(line)].add(name)
            if api(line) == "SyncGroup":
                self.shares[generation(line)][name] = given(answer(line)["assignment"])

    def members(self, of: Beginning) -> list[frozenset[str]]:
        """
        The members with which a generation may have begun: in most cases there is one such set.

        Each of them has waited for it: of whoever was told otherwise, or nothing, the answer, or
        the request, was lost.
        """
        told = self.begun[of]
        if told.lists:
            return [names for names, lines in told.lists.items() if self._waited(of, names, lines)]
        others = {m for o, x in self.begun.items() if o[0] == of[0] and o != of for m in x.lines}
        names = frozenset({of[1], *told.lines, *(self.accepted[of[0]] - others)})
        return [names] if self._waited(of, names, told.every) else []

    def _waited(self, of: Beginning, names: frozenset[str], lines: list[TraceLine]) -> bool:
        """True if each of a generation's members may have waited until it began."""
        told = self.begun[of]
        until_ns = min(line.time_ns for line in lines)
        return all(
            any(x.earliest_ns <= until_ns for x in told.lines.get(name, ()))
            or self.may_have_lost(name, told.since_ns, until_ns)
            for name in names
        )

    def may_have_lost(self, name: str, since_ns: int, until_ns: int) -> bool:
        """True if a request of a member's that had an effect then may be in no line."""
        own = self._of[name]
        for number in {x.arguments.get("connection", 0) for x in own}:
            last = self._last[number]
            later = (x for x in own if x.earliest_ns > last.time_ns)
            after = next(later, None)
            if last.earliest_ns <= until_ns and (after is None or after.time_ns >= since_ns):
                return True
        return not own

    def may_have_shared(self, of: Beginning, by_ns: int) -> bool:
        """True if a leader's assignment may be there, of which no line tells."""
        own = (x for x in self._of[of[1]] if api(x) == "SyncGroup" and generation(x) == of[0])
        if any(not is_plain(error(x)) for x in own):
            return True
        return self.may_have_lost(of[1], self.begun[of].since_ns, by_ns)


def is_plain(code: int) -> bool:
    """Tells whether an error says all of what came of a request; after others, it may be done."""
    return code in (Error.UNKNOWN_MEMBER_ID, *OF_GENERATION)


def is_taken(line: TraceLine) -> bool:
    """Tells whether somebody was answered as a member of the generation that it names."""
    if generation(line) < 0 or api(line) not in ("SyncGroup", "Heartbeat", "OffsetCommit"):
        return False
    return 0 in errors(line) if api(line) == "OffsetCommit" else not error(line)


# ── What cannot be followed ─────────────────────────────────────────────────────────────────


def unfollowed(lines: Sequence[TraceLine]) -> Iterator[Missing]:
    """The groups of which answers tell what is not followed, or lack somebody; and from where."""
    if not any(line.role == KAFKA for line in lines):
        return
    starts = [k for k, line in enumerate(lines) if line.role == KAFKA and line.action == START]
    for k in starts[1:]:
        yield Missing(f"whoever looked on began anew ({lines[k].place})", k)
    times = list(accumulate((line.time_ns for line in lines), max))
    of: dict[str, list[TraceLine]] = defaultdict(list)
    for line in lines:
        of[line.group].append(line)
    for group, own in of.items():
        for why, since_ns in unfollowed_of(own) if group else ():
            yield Missing(why, bisect_left(times, since_ns), frozenset({group}))


def unfollowed_of(lines: Sequence[TraceLine]) -> Iterator[tuple[str, int]]:
    """Why a group's answers are followed no further, and since when."""
    seen = ObservedAnswers(lines)
    if seen.lines and len(seen.lines) < len(lines):
        other = next(line for line in lines if not api(line))
        yield f"lines of {other.node} are about the same group: give the traces apart", 0
    for line in seen.lines:
        if why := strange(line):
            yield f"{why} ({line.place})", 0
            return
    for (number, leader), told in seen.begun.items():
        names = sorted({leader}.union(*told.lists) - seen.joined)
        if names:
            who = f"{names[0]}, of generation {number}, was never seen to join"
            yield f"{who}: all clients of the group have to come through here", told.since_ns
    whole = {number for (number, _), told in seen.begun.items() if told.lists}
    told_of = {(number, name) for (number, _), told in seen.begun.items() for name in told.lines}
    for line in seen.lines:
        number, name = generation(line), member(line)
        if is_taken(line) and number not in whole and (number, name) not in told_of:
            who = f"{name} was never seen to be told of generation {number} ({line.place})"
            yield f"{who}: all clients of the group have to come through here", line.earliest_ns
            return


def strange(line: TraceLine) -> str:
    """The thing that an answer tells, and that is not followed; empty if there is none."""
    of, told = asked(line), answer(line)
    if of.get("group_instance_id") or any(
        each.get("group_instance_id") for each in told.get("members") or ()
    ):
        return "static members are not followed"
    if api(line) == "JoinGroup" and of.get("protocol_type", CONSUMERS) != CONSUMERS:
        return f"a group of type {of['protocol_type']} is not followed"
    if is_joined(line) and not told["leader"]:
        return "a generation without a leader is not followed: the group is of another protocol"
    if api(line) == "SyncGroup":
        every = [told.get("assignment"), *(x["assignment"] for x in of.get("assignments") or ())]
        if not all(is_readable(each) for each in every):
            return "an assignment cannot be read"
    return ""


def is_readable(told: str | None) -> bool:
    """Tells whether an assignment is one of partitions, or empty."""
    try:
        raw = base64.b64decode(told or "")
        return not raw or read_assignment(raw) is not None
    except (Malformed, ValueError):
        return False


def excused(lines: Sequence[TraceLine], at: int) -> str:
    """Of all lines, the one that differs: why it need not be wrong; empty if it is."""
    del at
    return next((f"{gap.why}, of which any may have begun earlier" for gap in gaps(lines)), "")


def names_of(lines: Iterable[TraceLine]) -> tuple[set[str], set[Place]]:
    """All members and partitions that answers tell."""
    members: set[str] = set()
    partitions: set[Place] = set()
    for line in lines:
        members |= {member(line), *listed(line), *plan(line)}
        if api(line) == "JoinGroup":
            members.add(str(asked(line).get(MEMBER) or ""))
            members.add(str(answer(line).get("leader") or ""))
        if api(line) == "LeaveGroup":
            members |= {name for name, _ in leavers(line)}
        partitions |= committed(line) if api(line) == "OffsetCommit" else set()
        for each in plan(line).values():
            partitions |= each
        if api(line) == "SyncGroup":
            partitions |= given(answer(line).get("assignment"))
    return members - {""}, partitions
