"""
Who has no trace at all, as the others' lines show.

Of a coordinator that nobody has told of, the epoch shows: one that is obeyed, or written in, or
left out between two others. Of a consumer, the Register that was accepted. What comes after a
process's last line nobody can tell from its end (`CentralFields.leave`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from herdproof.conformance.traces.line import START
from herdproof.protocols.central_coordinator.judged.consumers import Member
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.untraced import REGISTERED
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR

ACTS = frozenset({
    "begin_rebalance", "send_ping", "send_stop", "send_start", "handle_ping_response",
    "handle_stop_response", "handle_start_response", "handle_commit", "flush_offsets",
    "write_owners", "finish_rebalance",
})  # fmt: skip
"""Actions that only a coordinator takes."""


class Untold:
    """Who coordinates, and who consumes, as far as lines were taken; and who else must have."""

    def __init__(self) -> None:
        self._begun: set[int] = set()
        self._named: set[int] = set()
        self._coordinate: set[str] = set()
        self._idle: set[str] = set()
        """Who was told not to coordinate, where no line is missing: who acts then, should not."""
        self._is_strange = False
        """True if since the last election somebody has coordinated who never told that he began."""
        self._consumers: set[Member] = set()
        self._counted: set[Member] = set()

    def take(self, line: CentralStep) -> None:
        """The next line."""
        if line.epoch:
            self._named.add(line.epoch)
        if line.role == CONSUMER:
            self._consumers.add((line.consumer, line.connection))
        elif line.action == "coordinator_startup":
            self._begun.add(line.epoch)
            self._coordinate.add(line.node)
            self._is_strange = False
        elif line.action in (START, "step_down"):
            self._coordinate.discard(line.node)
            self._idle.add(line.node)
        elif line.action in ACTS and line.node not in self._coordinate | self._idle:
            self._coordinate.add(line.node)
            self._is_strange = True
        if _counts(line):
            self._counted.add((line.consumer, line.connection))

    def lose(self) -> None:
        """Lines are missing from here on."""
        self._idle.clear()

    def consumers(self, ahead: Sequence[CentralStep]) -> bool:
        """True if somebody is counted as a member, or will be, who tells nothing of being one."""
        told = {(line.consumer, line.connection) for line in ahead if line.role == CONSUMER}
        counted = {(line.consumer, line.connection) for line in ahead if _counts(line)}
        return not self._counted | counted <= self._consumers | told

    def sure(self, ahead: Sequence[CentralStep], come: int) -> int:
        """Up to which of the first `come` lines the rest tells nothing of untold coordinators."""
        wholly, so_far = (
            self._flags(self._left_out(lines), come) for lines in (ahead, ahead[:come])
        )
        return next((k for k in range(come) if wholly[k] != so_far[k]), come)

    def coordinators(self, ahead: Sequence[CentralStep], whole: int) -> list[bool]:
        """
        Of each line that comes, whether somebody may coordinate then who tells nothing.

        Before the first `whole` of them none is missing.
        """
        return self._flags([*self._left_out(ahead), *self._strange(ahead, whole)], len(ahead))

    @staticmethod
    def _flags(hidden: Iterable[tuple[int, int]], count: int) -> list[bool]:
        """Of so many lines, whether each is in one of these ranges."""
        found = [False] * count
        for begin, end in hidden:
            found[begin:end] = [True] * len(found[begin:end])
        return found

    def _left_out(self, ahead: Sequence[CentralStep]) -> list[tuple[int, int]]:
        """Where the coordinators of epochs can have been that nobody began, or not until then."""
        began = [(x.epoch, k) for k, x in enumerate(ahead) if x.action == "coordinator_startup"]
        before = dict.fromkeys(self._begun, -1)
        last, first = before | dict(began), dict(began[::-1]) | before
        named = {x.epoch: k for k, x in [*enumerate(ahead)][::-1] if x.epoch}
        named |= dict.fromkeys(self._named, -1)
        between = {*range(min(first), max(first))} if first else set()
        early = {epoch for epoch, k in first.items() if named.get(epoch, k) < k}
        return [
            (
                max((k for e, k in last.items() if e < epoch), default=-1) + 1,
                max(0, min((k for e, k in first.items() if e >= epoch), default=len(ahead))),
            )
            for epoch in sorted((named.keys() | between) - first.keys() | early)
        ]

    def _strange(self, ahead: Sequence[CentralStep], whole: int) -> list[tuple[int, int]]:
        """
        Where somebody coordinates of whom no line tells that he began.

        From the election on; who has told later that he does not coordinate, from there on.
        """
        elections = [k for k, x in enumerate(ahead) if x.action == "coordinator_startup"]
        bounds = [0, *elections, len(ahead)]
        found = {0} if self._is_strange else set[int]()
        coordinate, idle, latest = {*self._coordinate}, {*self._idle}, 0
        ended: dict[str, int] = {}
        for index, line in enumerate(ahead):
            if line.role != COORDINATOR:
                continue
            if line.action == "coordinator_startup":
                coordinate.add(line.node)
                latest = index
            elif line.action in (START, "step_down"):
                coordinate.discard(line.node)
                idle.add(line.node)
                ended[line.node] = index + 1
            elif line.action in ACTS and line.node not in coordinate:
                if line.node in idle and index < whole:
                    continue
                coordinate.add(line.node)
                found.add(max(latest, ended.get(line.node, 0)))
        return [(begin, min(b for b in bounds if b > begin)) for begin in sorted(found) if ahead]


def _counts(line: CentralStep) -> bool:
    """True if a coordinator counts as a member whoever it names."""
    is_counted = line.outcome == "accepted" if line.action in REGISTERED else line.action in ACTS
    return bool(is_counted and line.connection and line.role == COORDINATOR)
