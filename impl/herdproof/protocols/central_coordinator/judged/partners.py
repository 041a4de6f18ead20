"""
Lines that are missing, though the lines of those with whom they were exchanged tell of them.

A request, what its consumer did, and the answer are three lines, and over one connection they come
strictly in turn. So what is left of them tells that there was another one, what it said, and
between which lines. Where a gap must hold as many such lines as are missing in it, all of them are
known: they are put in their places, and it is a gap no more. What a consumer's line would have said
of its lease nobody tells: it lasts no longer than was told before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter, itemgetter

from msgspec.structs import replace

from herdproof.pipeline.judging.gaps import Filled, Gap
from herdproof.protocols.central_coordinator.judged.namesakes import without_namesakes
from herdproof.protocols.central_coordinator.judged.restarts import restarts
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR

PARTS: Mapping[str, tuple[str, int]] = {
    action: (request, part)
    for request in ("ping", "stop", "start")
    for part, action in enumerate((
        f"send_{request}", f"handle_{request}", f"handle_{request}_response"
    ))
}  # fmt: skip
"""Which part of which exchange a line is: the request, what was done, the answer."""
REQUEST, DEED, ANSWER = range(3)
MISSING = "missing, as "
"""Beginning of the place of a line of which others tell: they do not tell all that it said."""
Line = tuple[int, CentralStep]
"""A line, and its index."""


@dataclass(frozen=True, eq=False)
class _Untold:
    """A line that there was: after the line of one index, and before that of another."""

    after: int
    before: int
    line: CentralStep
    request: _Untold | None = None
    """The request that it did, if that is not told either: it is after that."""

    def places(self, gap: Gap) -> range:
        """Before which lines it may have been, if it is in this gap."""
        if (gap.role, gap.node) != (self.line.role, self.line.node):
            return range(0)
        return range(max(gap.begin, self.after + 1), min(gap.end, self.before) + 1)


def with_untold(own: Sequence[CentralStep], gaps: Sequence[Gap], last: set[int]) -> Filled:
    """Put the missing lines of which others tell into their places."""
    own, gaps, last = without_namesakes(own, gaps, last)
    gaps = [*gaps, *restarts(own, gaps)]
    counted = [gap for gap in gaps if gap.lines and gap.exact]
    if not counted:
        return Filled(own, gaps, last)
    full = {
        gap: found
        for gap, found in _assigned([*_untold(own)], counted).items()
        if len(found) == gap.lines
    }
    closed, placed = _placed(full)
    added = sorted(((at, x.line) for x, at in placed.items()), key=itemgetter(0))
    at = [index for index, _ in added]

    def place(index: int) -> int:
        return index + bisect_left(at, index)

    return Filled(
        _inserted(own, added),
        [x._replace(begin=place(x.begin), end=place(x.end)) for x in gaps if x not in closed],
        {place(index + 1) - 1 for index in last},
        closed,
    )


def _placed(full: Mapping[Gap, Sequence[_Untold]]) -> tuple[list[Gap], dict[_Untold, int]]:
    """
    The gaps that can be closed; of each of their lines the index of that before which it stands.

    What is said first over a connection is heard first, and nothing is done before it is asked
    for: where the request has no place, nor has what was done. So coordinators come first.
    """
    closed, placed = list[Gap](), dict[_Untold, int]()
    for gap, found in sorted(full.items(), key=lambda item: item[0].role == CONSUMER):
        asked = [x.request for x in found if x.request is not None]
        if not all(request in placed for request in asked):
            continue
        places = dict(_in_turn(gap, found, placed))
        if len(places) == len(found):
            closed.append(gap)
            placed |= places
    return closed, placed


def _in_turn(
    gap: Gap, found: Sequence[_Untold], placed: Mapping[_Untold, int]
) -> Iterator[tuple[_Untold, int]]:
    """
    The lines of one gap in their places, those aside for which there is none.

    Who begins to consume does so as late as it can: nobody shared with it before. So does who
    commits by itself: it had not got so far before.
    """
    latest = 0
    for x in sorted(found, key=attrgetter("before")):
        places = x.places(gap)
        latest = max(latest, places[-1] if x.line.action in _LATE else places[0])
        if x.request is not None:
            latest = max(latest, placed[x.request])
        if latest in places:
            yield x, latest


def _inserted(
    own: Sequence[CentralStep], added: Sequence[tuple[int, CentralStep]]
) -> list[CentralStep]:
    """The lines, with others before those of these indices, each at its own process's time."""
    found: list[CentralStep] = []
    until: dict[str, int] = {}
    waiting = deque(added)
    for index, line in enumerate([*own, None]):
        while waiting and waiting[0][0] == index:
            _, new = waiting.popleft()
            time_ns = found[-1].time_ns if found else new.time_ns
            lease = time_ns if new.action == "handle_stop" else until.get(new.node, time_ns)
            told_by = f"{MISSING}{new.place} tells"
            found.append(replace(
                new, time_ns=time_ns, place=told_by,
                until_ns=lease if new.role == CONSUMER else 0,
            ))  # fmt: skip
        if line is not None:
            found.append(line)
            if line.role == CONSUMER:
                until[line.node] = line.until_ns
    return found


def _assigned(untold: Sequence[_Untold], gaps: Sequence[Gap]) -> dict[Gap, list[_Untold]]:
    """By gap, the lines that must be in it, in their order: there is no other place for them."""
    found: dict[Gap, list[int]] = {gap: [] for gap in gaps}
    left = [(k, [gap for gap in gaps if x.places(gap)]) for k, x in enumerate(untold)]
    while True:
        full = {gap for gap, lines in found.items() if len(lines) >= gap.lines}
        left = [(k, [gap for gap in open_to if gap not in full]) for k, open_to in left]
        sure = [(k, open_to[0]) for k, open_to in left if len(open_to) == 1]
        if not sure:
            return {gap: [untold[k] for k in sorted(own)] for gap, own in found.items()}
        left = [(k, open_to) for k, open_to in left if len(open_to) > 1]
        for k, gap in sure:
            found[gap].append(k)


# ── What others tell of ─────────────────────────────────────────────────────────────────────


def _untold(own: Sequence[CentralStep]) -> Iterator[_Untold]:
    """The lines that there were, as those of their connections tell."""
    connections: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for index, line in enumerate(own):
        if line.action in _OVER_CONNECTIONS:
            connections[line.consumer, line.connection].append((index, line))
    stopped = {x.consumer for x in own if x.action == "on_lost_connection" and x.partitions}
    for lines in (each for found in connections.values() for each in _over_each(found)):
        asks = ("register", "resume")
        obeyed = {x.epoch for _, x in lines if x.role == CONSUMER and x.action not in asks}
        hosts = {x.node for _, x in lines if x.role == COORDINATOR}
        members = {x.member for _, x in lines if x.member}
        is_one = sum(x.action == "register" for _, x in lines) <= 1
        if is_one and len(obeyed) == len(hosts) == len(members) == 1:
            known = _Dialogue(epoch=obeyed.pop(), host=hosts.pop(), member=members.pop())
            brings = lines[0][1].consumer in stopped  # perhaps: nobody else tells what was taken
            if not brings and not any(x.action == "handle_resume" for _, x in lines):
                yield from known.admission(lines)
            begun = max((index for index, x in lines if x.action in _BEGINNINGS), default=-1)
            yield from known.exchanges([x for x in lines if x[1].action in PARTS], begun)
            yield from known.commits(lines)


def _over_each(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """
    The lines over each of the connections that a registration has had, one after another.

    None, if one that says that it was adopted is missing, or goes on after its end: then nobody can
    tell them apart.
    """
    adopted = [
        k for k, (_, x) in enumerate(lines)
        if x.action == "handle_resume" and x.outcome == "accepted"
    ]  # fmt: skip
    own = [x.action for _, x in lines if x.role == CONSUMER and x.action not in _ENDS]
    gone_on = sum(a == "resume" != b for a, b in pairwise(own))
    bounds = [0, *adopted, len(lines)]
    each = [lines[begin:end] for begin, end in pairwise(bounds) if begin < end]
    if gone_on <= len(adopted) and not any(map(_goes_on_after_its_end, each)):
        yield from ([x for x in over if x[1].action not in _ENDS] for over in each)


def _goes_on_after_its_end(lines: Sequence[Line]) -> bool:
    """True if somebody tells that the connection is over, and then of more over it."""
    over = set[str]()
    for _, line in lines:
        if line.action in _ENDS:
            over.add(line.role)
        elif line.role in over and line.action in PARTS:
            return True
    return False


_LATE = {"handle_start", "commit"}
_BEGINNINGS = {"register", "handle_register", "handle_resume"}
_ENDS = {"on_lost_connection", "handle_closed", "fail"}
_OVER_CONNECTIONS = {
    *PARTS, "commit", "handle_commit", "register", "handle_register", "resume", "handle_resume",
    *_ENDS,
}  # fmt: skip


@dataclass(frozen=True)
class _Dialogue:
    """The lines over one connection, and what all have in common."""

    epoch: int
    host: str
    member: str

    def exchanges(self, lines: Sequence[Line], begun: int) -> Iterator[_Untold]:
        """The parts that are missing of exchanges since it has begun, where others are there."""
        before, index = begun, 0
        while index < len(lines):
            parts: dict[int, Line] = {}
            request = PARTS[lines[index][1].action][0]
            while index < len(lines) and _goes_on(request, parts, lines[index][1]):
                parts[PARTS[lines[index][1].action][1]] = lines[index]
                index += 1
            after = lines[index][0] if index < len(lines) else None
            yield from self._missing(request, parts, before, after)
            before = max(at for at, _ in parts.values())

    def _missing(
        self, request: str, parts: Mapping[int, Line], before: int, after: int | None
    ) -> Iterator[_Untold]:
        if {*parts} == {REQUEST}:
            return  # nobody tells what was said
        at = {part: index for part, (index, _) in parts.items()}
        said = parts[DEED if DEED in parts else ANSWER][1]
        asked = parts[REQUEST][1] if REQUEST in parts else said
        first = min(at.values())
        untold: _Untold | None = None
        if REQUEST not in parts and (request != "start" or DEED in parts):
            untold = _Untold(before, first, self._by_host(said, f"send_{request}"))
            yield untold
        if DEED not in parts and (request != "start" or REQUEST in parts):
            is_start = request == "start"
            deed = self._by_consumer(said, f"handle_{request}")
            deed = replace(deed, partitions=asked.partitions) if is_start else deed
            yield _Untold(at.get(REQUEST, before), at[ANSWER], deed, untold)
        if ANSWER not in parts and after is not None:
            answer = self._by_host(said, f"handle_{request}_response")
            is_start = request == "start"
            answer = replace(answer, partitions=()) if is_start else answer
            yield _Untold(at[DEED], after, answer)

    def commits(self, lines: Sequence[Line]) -> Iterator[_Untold]:
        """The commits that were handled, though no line tells that they were sent."""
        sent: deque[Line] = deque()
        before = lines[0][0]
        for index, line in lines:
            if line.action == "commit":
                sent.append((index, line))
            elif line.action == "handle_commit":
                same = [k for k, (_, x) in enumerate(sent) if x.partitions == line.partitions]
                if same:
                    for _ in range(same[0] + 1):
                        before = sent.popleft()[0]
                else:
                    yield _Untold(before, index, self._by_consumer(line, "commit"))

    def admission(self, lines: Sequence[Line]) -> Iterator[_Untold]:
        """That it was registered, though only its requests tell so."""
        if all(line.action != "handle_register" for _, line in lines):
            registered = [index for index, line in lines if line.action == "register"]
            first, line = next(x for x in lines if x[1].action != "register")
            admitted = replace(
                self._by_host(line, "handle_register"), partitions=(), generation=0,
                outcome="accepted",
            )  # fmt: skip
            yield _Untold(max(registered, default=-1), first, admitted)

    def _by_host(self, like: CentralStep, action: str) -> CentralStep:
        return replace(
            like, role=COORDINATOR, node=self.host, member=self.member, action=action, epoch=0
        )

    def _by_consumer(self, like: CentralStep, action: str) -> CentralStep:
        return replace(
            like, role=CONSUMER, node=like.consumer, member="", action=action, epoch=self.epoch,
            outcome="" if action == "commit" else like.outcome,
        )  # fmt: skip


def _goes_on(request: str, parts: Mapping[int, Line], line: CentralStep) -> bool:
    """True if a line belongs to the same exchange as those before it."""
    same, part = PARTS[line.action]
    return same == request and all(part > other for other in parts)
