"""
What the traces of system B's flawed cores are to the variants of the spec, each to its own.

Most are read as the verified cores' are (`trace_map.py`); some have a few rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from herdproof.conformance.traces.mapping import DecodedLine, Row, TraceMap
from herdproof.conformance.traces.replay import conform_lines
from herdproof.conformance.traces.standing import Former
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import (
    MAP,
    CentralGroup,
    State,
    in_replays,
    names,
)
from herdspec.check.conformance.conform import Outcome
from herdspec.check.conformance.follow import Call, Way
from herdspec.protocols.central_coordinator.flaws import FLAWS, FOUND
from herdspec.protocols.central_coordinator.spec import Phase
from herdspec.protocols.group import Member

Key = tuple[str, int, int]


class ReconnectsFetchingGroup(CentralGroup):
    """Consumers whose leases have no end where nothing is connected: nobody knows of them."""

    def gives_up(self, told: DecodedLine) -> None:
        """The connection is given up, whatever is fetched."""
        connection = self._connections.get(self._keys[id(told.line)])
        if connection is not None:
            connection.is_released = True


class OwnersWrittenLateGroup(CentralGroup):
    """Coordinators whose owners are decided on where the first Start is sent."""

    def _look(self, lines: Sequence[CentralStep]) -> None:
        """Of each rebalance, who is given what, also by Starts that are still to come."""
        super()._look(lines)
        self._decided: dict[int, dict[Key, list[str]]] = {}
        """By line that sends a Start, the partitions of each connection's."""
        latest: dict[str, dict[Key, list[str]]] = {}
        for line in lines:
            if line.action == "begin_rebalance":
                latest[line.node] = {}
            elif line.action == "send_start":
                shares = self._decided[id(line)] = latest.setdefault(line.node, {})
                shares[self._keys[id(line)]] = [name for name, _ in names(line)]

    def starts_as_decided(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """Whoever sends the first Start has decided on all of them."""
        m, b = told["m"], told["b"]
        calls: list[Call] = []
        if s.phase[b] is Phase.STOPPING:
            calls = [
                *self._let_go(s, b, told.line.time_ns),
                ("decide_owners", (b, self._plan(told, s))),
            ]
        return [[*calls, ("send_start", (m, b))]]

    def _plan(self, told: DecodedLine, s: State) -> dict[Any, Any]:
        """What is decided on: the rest is for those to whom no Start is ever sent."""
        standing = self._values.standing["Member"]
        shares = {standing.get(key): of for key, of in self._decided[id(told.line)].items()}
        plan = {self._named[name]: m for m, of in shares.items() for name in of}
        for p in self._partitions:
            others = (m for m in Member if m not in shares and s.serves(m, p, told["b"]))
            plan.setdefault(p, next(others, Member(0)))
        return plan


class KnownByTheirIds(CentralGroup):
    """Coordinators that take who comes back for who it was: by the ids of consumers."""

    def is_gone(self, told: DecodedLine, former: Former, s: State) -> bool:
        """What is owned by one consumer's connection is not another's."""
        is_own = former.key[0] == self._keys[id(told.line)][0]
        return super().is_gone(told, former, s) and (
            is_own or all(s.owner[p] != former.element for p in self._partitions)
        )


class LostTriggerGroup(CentralGroup):
    """Coordinators that leave out what their plan gave to who is gone."""

    def writes_what_is_left(self, told: DecodedLine, s: State) -> Iterable[Way]:
        """A partition that has no owner is planned for somebody who cannot be."""
        b, owners = told["b"], self._owners(told.line)
        for p in self._partitions:
            others = (m for m in Member if not (s.serves(m, p, b) and s.heir[m, p] == b))
            owners.setdefault(p, next(others, Member(0)))
        yield [*self._let_go(s, b, told.line.time_ns), ("write_owners", (b, owners))]


ROWS: Mapping[str, tuple[type[CentralGroup], Mapping[str, Row]]] = {
    "reconnects_fetching": (
        ReconnectsFetchingGroup,
        {"on_lost_connection": Row(None, note=ReconnectsFetchingGroup.gives_up)},
    ),
    "member_by_id": (KnownByTheirIds, {}),
    "no_start": (KnownByTheirIds, {}),
    "lost_trigger": (
        LostTriggerGroup,
        {
            "write_owners": replace(
                MAP.table["write_owners"], ways=LostTriggerGroup.writes_what_is_left
            )
        },
    ),
    "owners_written_late": (
        OwnersWrittenLateGroup,
        {
            "send_start": replace(
                MAP.table["send_start"], ways=OwnersWrittenLateGroup.starts_as_decided
            )
        },
    ),
}
"""By variant: what is known of a group, and rows that are others."""


@cache
def map_of_variant(name: str) -> TraceMap:
    """The map of a flaw's variant."""
    group, rows = ROWS.get(name, (CentralGroup, {}))
    variant = in_replays({**FLAWS, **FOUND}[name].spec)
    member = replace(MAP.identities["Member"], is_gone=group.is_gone)
    return replace(MAP.of(variant, rows), group=group, identities={"Member": member})


def conform_variant(lines: Sequence[CentralStep], name: str) -> Outcome:
    """Replay lines in the variant of a flaw, of which nothing was proved."""
    return conform_lines(lines, map_of_variant(name), invariants=False)
