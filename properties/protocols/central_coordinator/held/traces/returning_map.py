"""
Maps traces of system B to the variant whose members say which registrations have stopped.

In the verified spec a former registration is over because its lease is assumed to be. Here that has
to have been said: a coordinator's line names what a Register has said (`former`), and whoever is
named must have let go by then, as its own consumer's lines have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from herdproof.conformance.traces.mapping import DecodedLine, TraceMap
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.trace_map import (
    MAP,
    CentralGroup,
    Key,
    in_replays,
)
from herdspec.check.conformance.follow import Call, Way
from herdspec.protocols.central_coordinator.variants.returning import ReturningMembers
from herdspec.protocols.central_coordinator.variants.returning_properties import RETURNING


class ReturningGroup(CentralGroup):
    """One group, and what its Registers have said of former registrations."""

    def _look(self, lines: Sequence[CentralStep]) -> None:
        """A Register says what its coordinator has heard of it."""
        super()._look(lines)
        self._says: dict[Key, tuple[str, ...]] = {
            self._keys[id(line)]: line.former for line in lines if line.former
        }

    def registers_again(self, told: DecodedLine, s: ReturningMembers) -> Iterable[Way]:
        """Whoever is named has let go before, if its consumer's lines or its lease say so."""
        m, b, wanted = told["m"], told["b"], told["wanted"]
        calls: list[Call] = [("on_lost_connection", (m,))] if s.via[m] is not None else []
        stopped = self._stopped(told)
        for n in stopped:
            if s.via[n] is not None and self._has_let_go(n, told.line.time_ns):
                calls.append(("time_out" if s.link[n] else "on_lost_connection", (n,)))
        if stopped:
            return [[*calls, ("register_again", (m, b, wanted, frozenset(stopped)))]]
        return [[*calls, ("register", (m, b, wanted))]]

    def _stopped(self, told: DecodedLine) -> list[Any]:
        """Members that the Register names, as far as they stand for those registrations still."""
        stands = self._values.standing["Member"].stood_for
        said = self._says.get(self._keys[id(told.line)], ())
        known = [
            (self._registered[n], self._registrations[n]) for n in said if n in self._registered
        ]
        return [n for n, key in known if n != told["m"] and stands(n) == key]

    def _has_let_go(self, n: Any, time_ns: int) -> bool:
        connection = self._connections[self._values.standing["Member"].stood_for(n)]
        return connection.is_released or connection.until_ns <= time_ns


@cache
def returning_map() -> TraceMap:
    """The map of the variant."""
    made = MAP.of(in_replays(RETURNING))
    row = replace(MAP.table["register"], ways=ReturningGroup.registers_again, before=())
    return replace(made, rows={**made.rows, "register": row}, group=ReturningGroup)
