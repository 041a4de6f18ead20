"""
Maps traces of system B to the variant whose members resume, or bring offsets where they do not.

A consumer tells, where it lets go, where its fetchers stopped (`on_lost_connection`); a coordinator
what it took of that when the process registered anew (`handle_register`, `brought`). What was
finished since the last report is consumed at the first of these lines. The Register is sent, in the
replay, where it is taken: in between nobody knows of it, and a coordinator may say more to whoever
has gone.

- A Register that brings nothing, or of which nothing is taken, is one that says nothing: as of
  members that resume, former registrations are over because of the assumption `lease`.
- Of what a deposed coordinator does with a registration that another one knows to be over nothing
  is claimed, as of those that another one has adopted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.conformance.traces.standing import Former
from herdproof.conformance.traces.values import Values
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.resuming_map import (
    ResumingGroup,
    resuming_map,
)
from herdproof.protocols.central_coordinator.traces.resuming_map import (
    map_for as map_of_who_resumes,
)
from herdproof.protocols.central_coordinator.traces.trace_map import Key, State, in_replays
from herdspec.check.conformance.follow import Call, Way
from herdspec.protocols.central_coordinator.variants.bringing_resumed import BringingResumers
from herdspec.protocols.central_coordinator.variants.bringing_resumed_properties import (
    BRINGING_RESUMED,
)

REGISTERED = ("handle_register", "handle_resume")
"""Actions whose lines name a registration, if it is accepted."""


class BringingGroup(ResumingGroup):
    """One group, and of which registrations offsets are brought."""

    def __init__(self, values: Values, lines: Sequence[CentralStep]) -> None:
        self._bringing: set[Key] = set()
        """Connections whose Register brings something that is taken."""
        self._brought: Counter[Key] = Counter()
        """By connection, how often its offsets are brought from here on."""
        self._wanted: dict[Key, Any] = {}
        """By connection whose Register is not taken yet, the partitions that it asks for."""
        self._ended: set[Key] = set()
        """Connections that the Register in hand names, and whose consumers have given them up."""
        self._stopped: dict[Key, CentralStep] = {}
        """By connection, the line that tells where its fetchers stopped."""
        super().__init__(values, lines)

    def _look(self, lines: Sequence[CentralStep]) -> None:
        super()._look(lines)
        named: dict[str, Key] = {}
        for line in lines:
            if line.action in REGISTERED and line.outcome == "accepted":
                named[line.member] = self._keys[id(line)]
            if line.action == "on_lost_connection":
                self._stopped[self._keys[id(line)]] = line
            if line.brought:
                self._bringing.add(self._keys[id(line)])
                self._brought.update(named[name] for name in line.former if name in named)
                for topic, number, offset in line.brought:
                    self._values.rank("offset", offset, f"{topic}-{number}")

    def is_gone(self, told: DecodedLine, former: Former, s: State) -> bool:
        """As before; whose offsets will be brought is counted on."""
        return not self._brought[former.key] and super().is_gone(told, former, s)

    def stops(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """It has finished so much since it was heard; that it lets go is supposed later."""
        return [self._finished(told["m"], told.line, s)]

    def _finished(self, m: Any, line: CentralStep, s: State) -> list[Call]:
        """It has consumed as far as it tells as it lets go."""
        calls = list[Call]()
        for p, offset in self._places(line):
            if s.fetching[m, p] and offset > s.position[m, p]:
                calls += [("produce", (p,))] * (offset - max(s.end[p], s.position[m, p]))
                calls += [("consume", (m, p))] * (offset - s.position[m, p])
        return calls

    def _let_go(self, s: State, b: Any, time_ns: int) -> list[Call]:
        """As before; who tells only later how far it was, as it was paused, had come so far."""
        calls, stood_for = list[Call](), self._values.standing["Member"].stood_for
        for action, (m, *rest) in super()._let_go(s, b, time_ns):
            line = self._stopped.get(stood_for(m))
            calls += [] if line is None else self._finished(m, line, s)
            calls.append((action, (m, *rest)))
        return calls

    def asks(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A Register is sent; one that brings something, where it is taken."""
        key = self._keys[id(told.line)]
        if key in self._bringing:
            self._wanted[key] = told["wanted"]
            return [[]]
        return [self._registers(told["m"], s, "register", told["b"], told["wanted"])]

    @staticmethod
    def _registers(m: Any, s: State, action: str, *rest: Any) -> list[Call]:
        """A member registers, once its connection before is over."""
        before: list[Call] = [] if s.via[m] is None else [("on_lost_connection", (m,))]
        return [*before, (action, (m, *rest))]

    def takes(self, told: DecodedLine, s: BringingResumers) -> Iterable[Way]:
        """Whoever is named by a Register that brings something has let go, and it is taken."""
        key, m, b = self._keys[id(told.line)], told["m"], told["b"]
        if key not in self._wanted:
            return self.registered(told, s)
        calls, over = list[Call](), self._over(told, s)
        for n in over:
            if s.via[n] is not None:
                calls.append(("time_out" if s.link[n] else "on_lost_connection", (n,)))
        if not over:
            return []
        named = frozenset(over)
        calls += self._registers(m, s, "register_again", b, self._wanted[key], named)
        return [[*calls, ("handle_register", (m, b))]]

    def _over(self, told: DecodedLine, s: State) -> list[Any]:
        """Owners that the Register names, and that have let go, as their consumers tell."""
        stands, over = self._values.standing["Member"].stood_for, list[Any]()
        for name in told.line.former:
            n, key = self._registered.get(name), self._registrations.get(name)
            if n is None or key is None or n == told["m"] or stands(n) != key:
                continue
            if key in self._ended and any(s.owner[p] == n for p in self._partitions):
                over.append(n)
        return over

    def is_taken(self, told: DecodedLine) -> None:
        """A Register is taken or refused; of whom it names only its taker knows from then on."""
        said = (self._registrations.get(name) for name in told.line.former)
        named = {key: self._connections[key] for key in said if key is not None}
        self._ended = {
            key for key, connection in named.items()
            if connection.is_released or connection.until_ns <= told.line.time_ns
        }  # fmt: skip
        self.is_registered(told)
        if told.line.brought:
            for key in named:
                self._adopted[key] = told.line.node
                self._brought[key] -= 1

    def took(self, told: DecodedLine, s: BringingResumers) -> Sequence[str]:
        """The claims that what was taken is where the partitions' owners have stopped."""
        b, line = told["b"], told.line
        if s.seat != b:
            return ()
        places = self._places_of(line)
        more = [
            f"of {p}, {offset} is brought: the spec has {known} noted or stored"
            for p, offset in places
            if (known := max(s.noted[b, p], s.committed[p])) < offset
        ]
        less = [
            f"of {p}, {offset} is brought: its owner stopped at {left}"
            for p, offset in places
            if (owner := s.owner[p]) is not None and (left := s.left[owner, p]) > offset
        ]
        return more + less

    def _places_of(self, line: CentralStep) -> list[tuple[Any, int]]:
        """The offsets that a Register brings, in the spec's terms."""
        brought = [(f"{topic}-{number}", offset) for topic, number, offset in line.brought]
        return [(self._named[x], self._rank(x, o)) for x, o in brought if x in self._named]


@cache
def bringing_map() -> TraceMap:
    """The map of the variant."""
    made, group = resuming_map().of(in_replays(BRINGING_RESUMED)), BringingGroup
    rows = {
        "register": replace(made.table["register"], ways=group.asks, before=()),
        "handle_register": replace(
            made.table["handle_register"], note=group.is_taken, ways=group.takes,
            claims=group.took, then=group.flushing,
        ),
        "on_lost_connection": Row(note=group.renews, ways=group.stops),
    }  # fmt: skip
    members = replace(made.identities["Member"], is_gone=group.is_gone)
    return replace(
        made, rows={**made.rows, **rows}, group=group,
        identities={**made.identities, "Member": members},
    )  # fmt: skip


def map_for(lines: Sequence[CentralStep]) -> TraceMap | None:
    """The map of the variant, where something is brought; else of who resumes, if anybody does."""
    return bringing_map() if any(line.brought for line in lines) else map_of_who_resumes(lines)
