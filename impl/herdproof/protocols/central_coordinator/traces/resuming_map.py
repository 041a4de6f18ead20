"""
Maps traces of system B to the variant whose members resume their registrations.

Who resumes goes by the number of its former connection, and by the name of its registration: it is
the member that it was. That it asks is no step by itself: nobody knows of it before its Register is
taken. By then its former connection is over, whoever had it in its books.

- A Register that is refused is nothing to the spec: its sender goes on as if it had not asked.
- A deposed coordinator, which has not heard of that yet, may go on with whoever another one has
  adopted. It writes nothing any more, and of what it does with that member nothing is claimed.
- A commit that was lost with a connection, or by a coordinator that could not store it, says
  nothing: in the spec the next ping would report as much, though where the user alone commits,
  pings report nothing.
- What a Register says of other registrations that have stopped is left to another variant: as in
  the verified spec, these are over because of the assumption `lease`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from msgspec.structs import replace as replaced

from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.conformance.traces.standing import Former
from herdproof.conformance.traces.values import Values
from herdproof.consuming.offsets import NO_OFFSET, Offset
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import (
    MAP,
    CentralGroup,
    Key,
    State,
    in_replays,
)
from herdspec.check.conformance.follow import Call, Way
from herdspec.protocols.central_coordinator.variants.resuming import ResumingMembers
from herdspec.protocols.central_coordinator.variants.resuming_properties import RESUMING

ABOUT_MEMBERS = (
    "handle_closed", "fail", "send_ping", "send_stop", "send_start", "handle_ping_response",
    "handle_stop_response", "handle_start_response", "handle_commit",
)  # fmt: skip
"""Lines of coordinators about a member."""


class LostWords:
    """
    Lines that came to nothing in a group whose members resume.

    Commits: no coordinator has heard them, or who has could not store them; or they say again what
    was stored when their member was adopted. Answers to pings, which were lost with a connection.

    A member that resumes does not say again what its user had committed, though in the spec its
    next ping does. What the coordinator that adopts it has read tells what was not stored; that a
    write was done which it has not read is no loss, and stays.
    """

    def __init__(self) -> None:
        self.lines: set[int] = set()
        """The lines of who has sent a commit that was lost, and of who has heard it."""
        self._answered: dict[Key, deque[CentralStep]] = defaultdict(deque)
        """By connection, the pings that are answered, and their answers not heard."""
        self._sent: dict[Key, deque[CentralStep | None]] = defaultdict(deque)
        """By connection, what is under way; None where its member has asked to resume."""
        self._heard: dict[Key, list[tuple[CentralStep, CentralStep]]] = defaultdict(list)
        self._found: dict[Key, dict[tuple[str, str], int]] = {}
        """By connection, the offsets that were stored when it was adopted."""
        self._writes: dict[tuple[str, int], CentralStep] = {}
        self._done: set[Offset] = set()
        self._most: dict[tuple[str, str], int] = {}
        """By partition, the largest offset that is known to be stored."""
        self.unread: dict[int, list[str]] = {}
        """By line that adopts, what is known to be stored, and was not read."""
        self._unstored: set[tuple[str, Offset]] = set()
        """Offsets of commits that were heard, each with its node."""

    def take(self, line: CentralStep, key: Key | None) -> None:
        """The next line of a group, and the connection that it is about, if any."""
        match line.action:
            case "flush_offsets":
                self._writes[line.node, line.number] = line
            case "answered" if line.outcome == "done":
                write = self._writes.get((line.node, line.number))
                for place in write.partitions if write else ():
                    self._done.add(place)
                    self._most[place[:2]] = max(place[2], self._most.get(place[:2], NO_OFFSET))
            case "commit" if key is not None:
                self._sent[key].append(line)
            case "handle_ping" if key is not None:
                self._answered[key].append(line)
            case "handle_ping_response" if key is not None and self._answered[key]:
                self._answered[key].popleft()
            case "resume" if key is not None:
                self._sent[key].append(None)
            case "handle_commit" if key is not None:
                self._hears(line, key)
            case "handle_resume" if key is not None and is_adoption(line):
                self._adopts(line, key)

    def close(self) -> None:
        """That was the last line."""
        for sent in self._sent.values():
            self.lines.update(id(line) for line in sent if line is not None)

    def stored(self, write: CentralStep) -> CentralStep:
        """A write of offsets without those that were lost with it."""
        left = [p for p in write.partitions if (write.node, p) not in self._unstored]
        return replaced(write, partitions=tuple(left))

    def _hears(self, line: CentralStep, key: Key) -> None:
        """Commits over a connection are heard in their order, those that are."""
        sent = self._sent[key]
        while sent:
            before = sent.popleft()
            if before is None:
                continue
            if before.partitions == line.partitions:
                self._heard[key].append((before, line))
                if all(
                    p[2] <= self._found.get(key, {}).get(p[:2], NO_OFFSET) for p in line.partitions
                ):
                    self.lines |= {id(before), id(line)}
                return
            self.lines.add(id(before))

    def _adopts(self, line: CentralStep, key: Key) -> None:
        """Nothing comes over its former connection any more; what is stored is known."""
        self.lines.update(id(ping) for ping in self._answered.pop(key, ()))
        sent = self._sent[key]
        while None in sent:
            before = sent.popleft()
            self.lines.update(() if before is None else (id(before),))
        stored = {(topic, number): offset for topic, number, offset in line.partitions}
        self._found[key] = stored
        self.unread[id(line)] = [
            f"{topic}-{number} was stored at {most}, the trace has read {offset}"
            for (topic, number), offset in stored.items()
            if offset < (most := self._most.get((topic, number), NO_OFFSET))
        ]
        for commit, heard in self._heard.pop(key, ()):
            lost = [p for p in heard.partitions if p[2] > stored.get(p[:2], p[2])]
            if lost and not self._done.intersection(lost):
                self.lines |= {id(commit), id(heard)}
                self._unstored.update((heard.node, p) for p in lost)


class ResumingGroup(CentralGroup):
    """One group, and who has adopted which of its members."""

    def __init__(self, values: Values, lines: Sequence[CentralStep]) -> None:
        self._adopted: dict[Key, str] = {}
        """By connection, the node that has adopted it last."""
        self._adoptions: Counter[Key] = Counter()
        """By connection, how often it is adopted from here on."""
        self._lost = LostWords()
        super().__init__(values, lines)

    def _look(self, lines: Sequence[CentralStep]) -> None:
        super()._look(lines)
        for line in lines:
            self._lost.take(line, self._keys.get(id(line)))
            if is_adoption(line):
                self._adoptions[self._keys[id(line)]] += 1
        self._lost.close()
        self._sent = [self._lost.stored(write) for write in self._sent]

    def is_heard(self, told: DecodedLine) -> bool:
        """True if a coordinator has heard what a member says, and did not lose it."""
        return id(told.line) not in self._lost.lines

    def is_gone(self, told: DecodedLine, former: Former, s: State) -> bool:
        """As before; who may yet be adopted, so late that its lease is over, is counted on."""
        return not self._adoptions[former.key] and super().is_gone(told, former, s)

    def resumes(self, told: DecodedLine, s: ResumingMembers) -> Iterable[Way]:
        """Whoever asked has lost its former connection, and is adopted."""
        m, b, holder = told["m"], told["b"], s.books[told["m"]]
        calls: list[Call] = [("cut", (m,))] if s.link[m] else []
        if holder is not None:
            calls.append(("handle_closed", (m, holder)))
        return [[*calls, ("resume", (m, b)), ("handle_resume", (m, b))]]

    def is_adopted(self, told: DecodedLine) -> bool:
        """A coordinator has adopted a member; who is refused is as it was."""
        line = told.line
        if not is_adoption(line):
            return False
        key = self._keys[id(line)]
        self._adopted[key] = line.node
        self._adoptions[key] -= 1
        self.is_registered(told)
        return True

    def found(self, told: DecodedLine, s: ResumingMembers) -> Sequence[str]:
        """The claims that what was read is not less than what is known to be stored, nor more."""
        more = [
            f"{p} is stored at {s.committed[p]}, the trace has read {offset}"
            for p, offset in self._places(told.line)
            if s.seat == told["b"] and s.committed[p] < offset
        ]
        return [*more, *self._lost.unread.get(id(told.line), ())]

    def is_its_own(self, told: DecodedLine) -> bool:
        """True if nobody else has adopted the member since."""
        node = told.line.node
        return bool(self._adopted.get(self._keys[id(told.line)], node) == node)

    def is_obeyed(self, told: DecodedLine) -> bool:
        """True if a coordinator has heard what is said to a ping."""
        self.obeys(told)
        return self.is_heard(told)

    def is_noted(self, told: DecodedLine) -> bool:
        """True if a commit is that of a member of its own, and was not lost."""
        return self.is_its_own(told) and self.is_heard(told)


def is_adoption(line: CentralStep) -> bool:
    """Tells whether a coordinator adopts a member by this line; others ask in vain."""
    return bool(line.action == "handle_resume" and line.outcome == "accepted")


@cache
def resuming_map() -> TraceMap:
    """The map of the variant."""
    made = MAP.of(in_replays(RESUMING))
    known = {name: made.table.get(name, Row()) for name in ABOUT_MEMBERS}
    rows = {name: replace(row, note=ResumingGroup.is_its_own) for name, row in known.items()}
    rows["commit"] = replace(made.table["commit"], note=ResumingGroup.is_heard)
    rows["handle_ping"] = replace(made.table["handle_ping"], note=ResumingGroup.is_obeyed)
    rows["handle_commit"] = replace(rows["handle_commit"], note=ResumingGroup.is_noted)
    rows["handle_resume"] = Row(
        seen={"books[m]": "node"}, note=ResumingGroup.is_adopted, ways=ResumingGroup.resumes,
        claims=ResumingGroup.found,
    )  # fmt: skip
    members = replace(made.identities["Member"], is_gone=ResumingGroup.is_gone)
    return replace(
        made, rows={**made.rows, **rows}, group=ResumingGroup,
        identities={**made.identities, "Member": members},
    )  # fmt: skip


def map_for(lines: Sequence[CentralStep]) -> TraceMap | None:
    """The map of the variant, where a member of this group has resumed; else there is no need."""
    return resuming_map() if any(map(is_adoption, lines)) else None
