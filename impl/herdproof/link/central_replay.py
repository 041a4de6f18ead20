"""One group's replay: the spec, who stands for whom, and what is still open."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    Way,
)
from herdspec.check.mismatch import Mismatch, Miss
from herdspec.check.run import Machine
from herdspec.check.scripted import Scripted
from herdspec.engine.ground import Ground
from herdspec.language.specification import Specification
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator import CentralCoordinator, Phase, Write

State = CentralCoordinator
Watch = Callable[[Any, str, tuple[Any, ...], Any], None]
Make: TypeAlias = "Callable[[GroupReplay, Placed], Led | None]"


NOTING = frozenset({"handle_ping_response", "handle_stop_response", "handle_commit"})
"""Lines after which more offsets may be noted."""
ENDING = frozenset({"start", "coordinator_startup", "step_down"})
"""Lines after which it is too late for ZooKeeper to do what some broker has sent."""
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
        self.written: dict[tuple[Any, int], dict[Any, int] | None] = {}
        """By broker and number, the offsets of each write that is not answered; None: owners."""
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
        missed = self.follow(led, line.action in ENDING)
        self._noted = self.broker(line) if line.action in NOTING else None
        self._stirred = line.action not in QUIET
        if missed is None:
            return None
        about = f" of {line.consumer}" if line.consumer else ""
        told = f"{line.action}{about} at {line.node}"
        return Mismatch(place.where, told, missed.kind, missed.differences)

    def follow(self, line: Led, ending: bool) -> Miss | None:
        """Go along a line; what no line tells may have been before it, or not."""
        if self.flushes.get(self._noted):
            self._perhaps(self._flushing)
        if self._stirred:
            self._perhaps(self._abandoning)
        for b in self.brokers if ending and self.written else ():
            self._perhaps(partial(self._served, b))
        return self.follower.follow(line)

    def _perhaps(self, ways: Callable[[State], Sequence[Way]]) -> None:
        """Steps that no line tells, or not yet: in each of some ways they may have been taken."""
        if any(map(ways, self.follower.states)):
            self.follower.follow(Led(lambda s: [[], *ways(s)], every=True))

    def _served(self, b: Any, s: State) -> Sequence[Way]:
        serving = self.serving(b, s)
        return [serving] if serving else ()

    def serving(self, b: Any, s: State) -> list[Call]:
        """ZooKeeper does what a broker has sent, if anything is on its way."""
        write = s.write[b]
        if write is Write.OWNERS:
            return [("serve_owners", (b, self.named(s, b)))]
        return [("serve_offsets", (b,))] if write is Write.OFFSETS else []

    def named(self, s: State, b: Any) -> dict[Any, Any]:
        """The owners that a broker has sent to ZooKeeper."""
        heir = s.heir
        return {
            p: next((m for m in self.members if heir[m, p] == b), None) for p in self.partitions
        }

    def _flushing(self, s: State) -> Sequence[Way]:
        """
        Whose next write of offsets is of just those that it has noted by now.

        It may be sent later, behind another write, when more is noted: in the spec it is sent where
        it was put together, and what was sent before it is answered by then.
        """
        b = self._noted
        noted, stored, sent = s.noted, s.committed, s.sent
        written = still_to_store(s, self.flushes[b][0])
        under_way = s.write[b] is Write.OFFSETS
        new = {
            p: noted[b, p]
            for p in self.partitions
            if noted[b, p] > stored[p] and not (under_way and sent[b, p] == noted[b, p])
        }
        if not new or new != written or s.write[b] is Write.OWNERS:
            return ()
        before = self.serving(b, s)
        if s.write[b] is not Write.NONE:
            before.append(("answered", (b,)))
        return [[*before, ("flush_offsets", (b, False))]]

    def _abandoning(self, s: State) -> Sequence[Way]:
        """Who ends an empty group's rebalance without a word, once no lease is waited for."""
        phase = s.phase
        return [
            [("abandon_rebalance", (b,))]
            for b in self.brokers
            if phase[b] is Phase.STOPPING and not s.has_members(b)
        ]

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


def still_to_store(s: State, written: Mapping[Any, int]) -> dict[Any, int]:
    """What a write of offsets says more than is stored."""
    stored = s.committed
    return {p: offset for p, offset in written.items() if offset > stored[p]}


def holds(s: State, b: Any, written: Mapping[Any, int] | None) -> bool:
    """Whether it is these offsets, as far as they are new, that a broker has sent."""
    new, sent = still_to_store(s, written or {}), s.sent
    return bool(new) and all(sent[b, p] >= offset for p, offset in new.items())


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
