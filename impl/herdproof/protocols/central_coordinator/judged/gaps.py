"""
Who has no trace at all, as the others' lines show.

Of a coordinator that nobody has told of, the epoch shows: one that is obeyed, or written in, or
left out between two others. Of a consumer, the Register that was accepted. What comes after a
process's last line nobody can tell from its end (`CentralFields.leave`). Where the numbers of a
coordinator's process go on as those of the one before it were cut off, what it says shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from herdproof.pipeline.judging.gaps import Gap
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

ACTS = frozenset({
    "begin_rebalance", "send_ping", "send_stop", "send_start", "handle_ping_response",
    "handle_stop_response", "handle_start_response", "handle_commit", "flush_offsets",
    "write_owners", "finish_rebalance",
})  # fmt: skip
"""Actions that only a coordinator takes."""
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR.name


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
        self._consumers: set[str] = set()
        self._accepted: set[str] = set()

    def take(self, line: CentralStep) -> None:
        """The next line."""
        if line.epoch:
            self._named.add(line.epoch)
        if line.role == CONSUMER:
            self._consumers.add(line.node)
        elif line.action == "coordinator_startup":
            self._begun.add(line.epoch)
            self._coordinate.add(line.node)
            self._is_strange = False
        elif line.action in ("start", "step_down"):
            self._coordinate.discard(line.node)
            self._idle.add(line.node)
        elif line.action in ACTS and line.node not in self._coordinate | self._idle:
            self._coordinate.add(line.node)
            self._is_strange = True
        elif line.action == "handle_register" and line.outcome == "accepted":
            self._accepted.add(line.consumer)

    def lose(self) -> None:
        """Lines are missing from here on."""
        self._idle.clear()

    def consumers(self, ahead: Sequence[CentralStep]) -> bool:
        """True if a consumer registered, or will do so, of which there is no line."""
        told = self._consumers | {line.node for line in ahead if line.role == CONSUMER}
        accepted = {
            line.consumer
            for line in ahead
            if line.action == "handle_register" and line.outcome == "accepted"
        }
        return not self._accepted | accepted <= told

    def coordinators(self, ahead: Sequence[CentralStep], whole: int) -> list[bool]:
        """
        Of each line that comes, whether somebody may coordinate then who tells nothing.

        Before the first `whole` of them none is missing.
        """
        hidden = [False] * len(ahead)
        for begin, end in [*self._left_out(ahead), *self._strange(ahead, whole)]:
            hidden[begin:end] = [True] * len(hidden[begin:end])
        return hidden

    def _left_out(self, ahead: Sequence[CentralStep]) -> list[tuple[int, int]]:
        """Where the coordinators of epochs can have been that nobody began."""
        begun = dict.fromkeys(self._begun, -1)
        begun |= {x.epoch: k for k, x in enumerate(ahead) if x.action == "coordinator_startup"}
        named = self._named | {line.epoch for line in ahead if line.epoch}
        between = {*range(min(begun), max(begun))} if begun else set()
        return [
            (
                max((k for e, k in begun.items() if e < epoch), default=-1) + 1,
                max(0, min((k for e, k in begun.items() if e > epoch), default=len(ahead))),
            )
            for epoch in sorted((named | between) - begun.keys())
        ]

    def _strange(self, ahead: Sequence[CentralStep], whole: int) -> list[tuple[int, int]]:
        """Where somebody coordinates of whom no line tells that he began, from the election on."""
        elections = [k for k, x in enumerate(ahead) if x.action == "coordinator_startup"]
        bounds = [0, *elections, len(ahead)]
        found = {0} if self._is_strange else set[int]()
        coordinate, idle, latest = {*self._coordinate}, {*self._idle}, 0
        for index, line in enumerate(ahead):
            if line.role != COORDINATOR:
                continue
            if line.action == "coordinator_startup":
                coordinate.add(line.node)
                latest = index
            elif line.action in ("start", "step_down"):
                coordinate.discard(line.node)
                idle.add(line.node)
            elif line.action in ACTS and line.node not in coordinate:
                if line.node in idle and index < whole:
                    continue
                coordinate.add(line.node)
                found.add(latest)
        return [(begin, min(b for b in bounds if b > begin)) for begin in sorted(found) if ahead]


@dataclass
class _Process:
    """A coordinator's process, of which no line is missing."""

    last: int
    """The index of its last line, of those that are no other process's before one begins."""
    epoch: int = 0
    """In which it coordinates; 0 while it does not."""
    accepted: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Over each connection, how many members it has: two may have drawn one number."""
    denied: Gap | None = None
    """Before a line that says that it does not coordinate, if nothing else tells of another."""

    def takes(self, line: CentralStep, index: int) -> bool:
        """True if it can tell a line: it begins once, and hears who has registered there."""
        about = (line.consumer, line.connection)
        match line.action:
            case "handle_register":
                self._answers(line, index)
            case "coordinator_startup":
                began, self.epoch = self.epoch, line.epoch
                return not began
            case "step_down":
                self.epoch, self.denied = 0, None
            case "handle_commit" if line.outcome != "accepted":
                return True
            case _ if about in self.accepted:
                self.last, self.denied = index, None
                if line.action in ("handle_closed", "fail"):
                    self.accepted -= Counter([about])
            case _:
                return not (self.epoch and line.connection)
        return True

    def _answers(self, line: CentralStep, index: int) -> None:
        """Who registers is accepted, or told that it does not coordinate."""
        if line.outcome == "accepted":
            self.accepted[line.consumer, line.connection] += 1
            self.denied = None
        elif line.outcome == NOT_COORDINATOR and self.epoch and self.denied is None:
            self.denied = _cut(line, self.last, index)


def restarted(lines: Sequence[CentralStep], gaps: Sequence[Gap]) -> Iterator[Gap]:
    """
    Where one process of a coordinator's node ends and another goes on, and no number tells.

    A line over a connection of which the node tells no Register is the other's, and so are all of
    its own before that since its consumer has registered.
    """
    until: dict[str, int] = {}
    for gap in gaps:
        until[gap.node] = min(gap.begin, until.get(gap.node, gap.begin))
    processes: dict[str, _Process] = {}
    latest: dict[str, int] = {}
    registered: dict[tuple[str, int], dict[str, int]] = {}
    for index, line in enumerate(lines):
        if line.role != COORDINATOR:
            if line.action == "register":
                registered[line.consumer, line.connection] = {**latest}
            continue
        if until and index >= until.get(line.node, len(lines)):
            continue
        process = processes.get(line.node)
        if line.action == "start":
            processes[line.node] = _Process(index)
            if process is not None and process.denied is not None:
                yield process.denied
        elif process is not None and not process.takes(line, index):
            heard = registered.get((line.consumer, line.connection), {})
            yield _cut(line, heard.get(line.node, process.last), index)
            del processes[line.node]
        latest[line.node] = index
    yield from (process.denied for process in processes.values() if process.denied is not None)


def _cut(line: CentralStep, last: int, index: int) -> Gap:
    """Another process than that of the last line has told this one: lines of both are missing."""
    why = f"of {line.node}, what came before line {line.sequence}: another process tells it"
    return Gap(last + 1, index, why, line.role, line.node, 0, exact=False)
