"""One group's replay: the spec, who stands for whom, and what is still open."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from herdproof.central_coordinator.tracing import CentralLine
from herdproof.link.central_lines import Placed
from herdproof.link.central_view import Connection, Connections, View
from herdspec.check.conform import Outcome, Progress, Verdict
from herdspec.check.follow import (
    Call,
    Follower,
    Led,
    PlainSteps,
    Steps,
    TooManyStates,
)
from herdspec.check.mismatch import Mismatch, Miss
from herdspec.check.run import Machine
from herdspec.check.scripted import Scripted
from herdspec.engine.ground import Ground
from herdspec.language.specification import Specification
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator import CentralCoordinator, Phase

State = CentralCoordinator
Watch = Callable[[Any, str, tuple[Any, ...], Any], None]
Make: TypeAlias = "Callable[[GroupReplay, Placed], Led | None]"


NOTING = frozenset({"handle_ping_response", "handle_stop_response", "handle_commit"})
"""Lines after which more offsets may be noted."""
QUIET = frozenset({"send_ping", "handle_ping", "commit", "flush_offsets", *NOTING})
"""Lines that change nothing about who is a member, who leads, or how far a rebalance is."""


class GroupReplay:
    """Leads the spec along one group's lines."""

    def __init__(
        self, view: View, steps: Mapping[tuple[str, str], Make], specification: Specification,
        watch: Watch | None, *, plain: bool = False,
    ) -> None:  # fmt: skip
        self.view = view
        self._steps = steps
        sizes = {
            "Broker": max(1, len(view.brokers)), "Partition": max(1, len(view.partitions)),
            "Member": max(1, view.most_members),
        }  # fmt: skip
        taken: Steps = (
            plain_steps(specification, sizes)
            if plain
            else _COMPILER.of(specification, sizes, len(view.placed))
        )
        machine = taken.machine
        self.brokers = machine.elements("Broker")
        self.broker_at = {node: self.brokers[index] for node, index in view.brokers.items()}
        """By node."""
        self.members = machine.elements("Member")
        self.partitions = machine.elements("Partition")
        self.follower = Follower(taken, [taken.initial(self._stored())], watch=watch)
        self.connections = Connections(self.members)
        self.pending: dict[tuple[Any, int], Led] = {}
        """By broker and number, writes of owners that may be done at any time; at 0 `noticed`."""
        self.noticed: dict[Any, list[Any]] = {}
        """By broker, partitions that it has noticed while a write of owners was under way."""
        self.flushes = {
            self.broker_at[node]: deque(dict(self.places(line)) for line in lines)
            for node, lines in view.flushes.items()
        }
        """By broker, the writes of offsets that the replay has not come to."""
        self._noted: Any = None
        """The broker that has noted offsets since a write of them was last looked for."""
        self._stirred = True
        """Whether a rebalance may be abandoned that could not be when that was last looked for."""

    def run(self, progress: Progress | None) -> Outcome:
        """Go along all lines, or up to the first that differs."""
        named: set[str] = set()
        total, matched = len(self.view.placed), len(self.view.placed)
        mismatch, reason, follower = None, "", self.follower
        with sizes_of_sorts(follower.steps.machine.sizes):
            for number, place in self.view.ordered():
                try:
                    mismatch = self.line(place)
                except TooManyStates:
                    reason = f"too many states are possible at {place.where}"
                if mismatch or reason:
                    matched = number
                    break
                named.add(place.line.action)
                if progress:
                    progress(number + 1, len(follower.states))
        verdict = Verdict.UNKNOWN if reason else Verdict.DIFFERS if mismatch else Verdict.CONFORMS
        return Outcome(
            verdict, total, matched, {a: n for a, n in follower.taken.items() if a in named},
            frozenset(follower.taken) - named, follower.largest, 0.0, reason, mismatch,
            follower.tried,
        )  # fmt: skip

    def line(self, place: Placed) -> Mismatch | None:
        """Go along one line of the trace."""
        line = place.line
        make = self._steps.get((line.role, line.action))
        led = None if make is None else make(self, place)
        if led is None:
            return None
        missed = self.follow(led)
        self._noted = self.broker(line) if line.action in NOTING else None
        self._stirred = line.action not in QUIET
        if missed is None:
            return None
        about = f" of {line.consumer}" if line.consumer else ""
        told = f"{line.action}{about} at {line.node}"
        return Mismatch(place.where, told, missed.kind, missed.differences)

    def follow(self, line: Led) -> Miss | None:
        """Go along a line; whatever may have been written before it may have been, or not."""
        for pending in self.pending.values():
            self.follower.follow(pending)
        if self.flushes.get(self._noted):
            self._perhaps("flush_offsets", self._flushing)
        if self._stirred:
            self._perhaps("abandon_rebalance", self._abandoning)
        return self.follower.follow(line)

    def _perhaps(self, action: str, brokers: Callable[[State], Sequence[Any]]) -> None:
        """A step that no line tells, or not yet: it may have been taken by each of some brokers."""
        if any(map(brokers, self.follower.states)):
            self.follower.follow(
                Led(lambda s: [[], *([(action, (b,))] for b in brokers(s))], every=True)
            )

    def _flushing(self, s: State) -> Sequence[Any]:
        """
        Whose next write of offsets is of just those that it has noted by now.

        It may be sent later, behind another write, when more is noted: so it is done, if it ever
        is, where just its offsets are noted.
        """
        b, noted, stored = self._noted, s.noted, s.committed
        written = self.flushes[b][0]
        if not any(noted[b, p] == offset > stored[p] for p, offset in written.items()):
            return ()
        more = (p for p in self.partitions if p not in written or noted[b, p] != written[p])
        return () if any(noted[b, p] > stored[p] for p in more) else (b,)

    def _abandoning(self, s: State) -> Sequence[Any]:
        """Who ends an empty group's rebalance without a word, once no lease is waited for."""
        phase = s.phase
        return [b for b in self.brokers if phase[b] is Phase.STOPPING and not s.has_members(b)]

    def _stored(self) -> dict[tuple[str, Any], int]:
        """The offsets that were stored before the trace begins."""
        return {
            (kept, self.partitions[self.view.partitions[partition]]): self.view.rank(
                partition, offset
            )
            for partition, offset in self.view.stored.items()
            for kept in ("committed", "finished", "end")
        }

    # ── A line ──────────────────────────────────────────────────────────────────────────────

    def broker(self, line: CentralLine) -> Any:
        """The spec's broker behind a coordinator's line."""
        return self.broker_at[line.node]

    def connection(self, line: CentralLine) -> Connection | None:
        """The connection that a line is about, if it is one that the spec knows."""
        return self.connections.begun.get(self.view.connection(line))

    def places(self, line: CentralLine) -> Iterator[tuple[Any, int]]:
        """The line's partitions and offsets, in the spec's terms."""
        for topic, number, offset in line.partitions:
            index = self.view.partitions.get((topic, number))
            if index is not None:
                yield self.partitions[index], self.view.rank((topic, number), offset)

    def writes(self, b: Any) -> list[tuple[Any, int]]:
        """What this broker has sent that may be done at any time now."""
        return [key for key in self.pending if key[0] == b]

    def forget_writes(self, b: Any) -> None:
        """What this broker sent before is done by now, or never will be."""
        for key in self.writes(b):
            del self.pending[key]
        self.noticed.pop(b, None)

    def answer(self, s: State, at: dict[Any, int], m: Any, line: CentralLine) -> list[Call]:
        """A request is obeyed, after what its answer reports was consumed."""
        reported = [] if line.action == "handle_start" else self.consumed(s, at, m, line)
        return [*reported, (line.action, (m,))]

    def consumed(self, s: State, at: dict[Any, int], m: Any, line: CentralLine) -> list[Call]:
        """
        The records that must have been produced and finished by what a member reports.

        `at` has where it is by what it has reported since that state; it is brought up to date.
        """
        calls: list[Call] = []
        fetching, position = s.fetching, s.position
        for p, offset in self.places(line):
            if fetching[m, p]:
                before = at[p] if p in at else position[m, p]
                if offset > before:
                    calls += [("produce", (p,))] * (offset - max(s.end[p], before))
                    calls += [("consume", (m, p))] * (offset - before)
                    at[p] = offset
        return calls


WORTH_IT = 500
"""Compiling a spec takes about as long as the plain Python takes for so many lines."""


@dataclass
class _Compiler:
    """The compiled steps of each size that enough lines were seen of; groups share them."""

    steps: dict[tuple[int, ...], Scripted] = field(default_factory=dict)
    lines: Counter[tuple[int, ...]] = field(default_factory=Counter)

    def of(self, specification: Specification, sizes: Mapping[str, int], lines: int) -> Steps:
        """How the steps of a spec at these sizes (or a bit above) are to be taken."""
        larger = {name: size if size < 4 else size + -size % 4 for name, size in sizes.items()}
        key = (id(specification), *larger.values())
        self.lines[key] += lines
        if self.lines[key] < WORTH_IT:
            return plain_steps(specification, sizes)
        if key not in self.steps:
            self.steps[key] = Scripted(specification, larger)
        return self.steps[key]


_COMPILER = _Compiler()


def plain_steps(specification: Specification, sizes: Mapping[str, int]) -> PlainSteps:
    """Steps by the spec's own Python."""
    return PlainSteps(Machine(Ground(specification, sizes, bound=1, faults=1)))


def refused(why: str) -> Led:
    """A line that nothing leads to."""
    return Led([[]], lambda _: [why])


def broken(s: State, connection: Connection) -> list[Call]:
    """What made a connection break of which its coordinator learns now."""
    m = connection.member
    if not s.link[m]:
        return []
    return let_go(s, m) if connection.released else [("cut", (m,))]


def let_go(s: State, m: Any) -> list[Call]:
    """A member closes its fetchers."""
    if s.via[m] is None:
        return []
    return [("time_out" if s.link[m] else "on_lost_connection", (m,))]
