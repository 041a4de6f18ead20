"""
Where one process of a coordinator's node ends and another goes on, and no number tells.

The end of one process's lines is missing and the beginning of the next one's, and what is left is
numbered as one process would have. What that says shows it, or what its consumers do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from herdproof.conformance.traces.line import START
from herdproof.pipeline.judging.gaps import Gap
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.traces.untraced import COMMANDED, REGISTERED
from herdproof.protocols.central_coordinator.tracing import COORDINATOR
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR.name
WRITES = frozenset({"write_owners", "flush_offsets"})
"""Lines of a coordinator that name its own epoch."""
ASKS = frozenset({"register", "resume"})
"""Lines of a consumer that asks to be admitted."""


def restarts(lines: Sequence[CentralStep], gaps: Sequence[Gap]) -> Iterator[Gap]:
    """Where lines of two processes are missing, beside these gaps."""
    yield from restarted(lines, gaps)
    yield from obeyed(lines, gaps)


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
    sure: int = 0
    """The index of its last line that no other process can have told: it names its epoch."""

    def is_anothers(self, line: CentralStep, index: int) -> bool:
        """True if a line names a later epoch than that in which its process coordinates."""
        if line.action == "coordinator_startup":
            self.sure = index
            return False
        epoch = epoch_of(line)
        if epoch and epoch == self.epoch:
            self.sure = index
        return 0 < self.epoch < epoch

    def takes(self, line: CentralStep, index: int) -> bool:
        """True if it can tell a line: it begins once, and hears who has registered there."""
        about = (line.consumer, line.connection)
        match line.action:
            case "handle_register" | "handle_resume":
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
    its own before that since its consumer has registered. So is one that names a later epoch; then
    any line may be, since one that names the epoch before.
    """
    until: dict[str, int] = {}
    for gap in gaps:
        until[gap.node] = min(gap.begin, until.get(gap.node, gap.begin))
    processes: dict[str, _Process] = {}
    latest: dict[str, int] = {}
    registered: dict[tuple[str, int], dict[str, int]] = {}
    for index, line in enumerate(lines):
        if line.role != COORDINATOR:
            if line.action in ("register", "resume"):
                registered[line.consumer, line.connection] = {**latest}
            continue
        if until and index >= until.get(line.node, len(lines)):
            continue
        process = processes.get(line.node)
        if line.action == START:
            processes[line.node] = _Process(index)
            if process is not None and process.denied is not None:
                yield process.denied
        elif process is not None and process.is_anothers(line, index):
            yield _cut(line, process.sure, index)
            del processes[line.node]
        elif process is not None and not process.takes(line, index):
            heard = registered.get((line.consumer, line.connection), {})
            yield _cut(line, heard.get(line.node, process.last), index)
            del processes[line.node]
        latest[line.node] = index
    yield from (process.denied for process in processes.values() if process.denied is not None)


def epoch_of(line: CentralStep) -> int:
    """The epoch of the coordinator that tells a line, if that says so; 0 if it does not."""
    if line.action == "handle_register" and line.outcome == "accepted":
        named = line.member.partition("-")[0]  # as the coordinator names a registration
        return int(named) if named.isdecimal() else 0
    return line.epoch if line.action in WRITES else 0


def _cut(line: CentralStep, last: int, index: int) -> Gap:
    """Another process than that of the last line has told this one: lines of both are missing."""
    why = f"of {line.node}, what came before line {line.sequence}: another process tells it"
    return Gap(last + 1, index, why, line.role, line.node, 0, exact=False)


def obeyed(lines: Sequence[CentralStep], gaps: Sequence[Gap]) -> Iterator[Gap]:
    """
    Gaps of nodes that must have admitted who obeys them, and do not tell that they did.

    No other node has begun the epoch that is obeyed. So where no number of this one is missing,
    another process of it did so.
    """
    evidence = [*_Obeyed(lines).evidence(lines)]
    own: dict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(lines if evidence else ()):
        if line.role == COORDINATOR:
            own[line.node].append(index)
    known = [*gaps]
    for node, since, until in evidence:
        found = [*_between(lines, known, own[node], since, until)]
        known += found
        yield from found


class _Obeyed:
    """
    Consumers that do as they are asked, and that no line of who asks admits.

    Where each line has its time from the clock of its machine, what was asked may be told after it
    was obeyed. So it counts whether a node has ever admitted a consumer over a connection.
    """

    def __init__(self, lines: Sequence[CentralStep]) -> None:
        self._begun: dict[int, set[str]] = defaultdict(set)
        self._admitted: set[tuple[str, int, str]] = set()
        drawn = Counter[tuple[str, int]]()
        for line in lines:
            if line.action == "coordinator_startup":
                self._begun[line.epoch].add(line.node)
            elif line.action in REGISTERED and line.outcome == "accepted":
                self._admitted.add((line.consumer, line.connection, line.node))
            elif line.action == "register":
                drawn[line.consumer, line.connection] += 1
        self._twice = {about for about, many in drawn.items() if many > 1}
        """Numbers that two connections have drawn, whose lines show nothing."""

    def evidence(self, lines: Sequence[CentralStep]) -> Iterator[tuple[str, int, int]]:
        """The nodes of which a line is missing, after one index and before another."""
        since: dict[tuple[str, int], int] = {}
        for index, line in enumerate(lines):
            about = (line.consumer, line.connection)
            if line.action in ASKS and about not in self._twice:
                since[about] = index
            elif line.action in COMMANDED and about in since:
                hosts = self._begun.get(line.epoch, set())
                if len(hosts) != 1:
                    continue
                (host,) = hosts
                if (*about, host) not in self._admitted:
                    yield host, since.pop(about), index


def _between(
    lines: Sequence[CentralStep], gaps: Sequence[Gap], own: Sequence[int], since: int, until: int
) -> Iterator[Gap]:
    """From its last line up to one to its first one after the other, if it tells of no gap."""
    before, after = bisect_right(own, since), bisect_left(own, until)
    if after == len(own):
        return  # what comes after its last line nobody can tell
    around = own[max(0, before - 1) : after + 1]
    first, last = around[0], around[-1]
    line = lines[last]
    is_told = any(x.node == line.node and x.begin <= last and x.end > first for x in gaps)
    begins = any(lines[a].sequence >= lines[b].sequence for a, b in pairwise(around))
    if not is_told and not begins:
        yield _cut(line, first, last)
