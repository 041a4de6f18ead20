"""
Causes that stop a group's readers at each moment, as lines of its coordinators tell them.

Nothing is guessed: who leads, who is a member, whose Stop or Start is not answered, and who is gone
but may fetch until its lease is over, all follow from lines. Where some are missing, the cause is
unknown until a rebalance (or an election after which enough is known) begins anew.

A coordinator that died tells nothing of it. So once another one is elected, it is amended: from the
line on in which a consumer first told that its connection was lost, nobody was heard to lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from herdproof.conformance.traces.line import START as BEGINS
from herdproof.pipeline.judging.unread import (
    ADMISSION,
    ELECTION,
    FAILURE,
    LEASE,
    NOBODY,
    NOTHING,
    REBALANCE,
    RETURN,
    START,
    STOP,
    UNKNOWN,
    UnreadPartitions,
)
from herdproof.protocols.central_coordinator.judged.partners import MISSING
from herdproof.protocols.central_coordinator.steps import LEFT, OVER
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, action_of
from herdproof.protocols.central_coordinator.tracing import CONSUMER

Registration = str
Who = dict[Registration, str]
"""By registration (or by connection), a consumer."""

OF_ANYBODY = frozenset({"coordinator_startup", "handle_register", "handle_resume"})
"""Lines of coordinators that matter whoever leads."""
QUEUED, STOPPING, WRITING, STARTING = "queued", "stopping", "writing", "starting"
IDLE, FAILED, DOUBTFUL = "idle", "failed", "doubtful"
"""Stages of a group's rebalance; doubtful: lines are missing."""


class Hindrance:
    """Obstacle that one group waits for; `unread` is told."""

    def __init__(self, unread: UnreadPartitions) -> None:
        self.unread = unread
        self._leader: str | None = None
        """Who is heard to lead; "" if nobody is, None where that is not known."""
        self._epoch = 0
        self._phase = DOUBTFUL
        self._is_dirty = False
        """True if a member has come or gone since a rebalance began."""
        self._is_new = False
        """True if owners were written since lines were missing: then all members are told."""
        self._members: Who = {}
        self._fetching: set[Registration] = set()
        """Who was sent a Start with partitions, and has answered no Stop since."""
        self._ghosts: Who = {}
        """Who is gone, and may fetch until its lease is over."""
        self._awaited: Who = {}
        """Of whom an answer to a Stop, or a Start, is waited for."""
        self._asked: dict[tuple[str, int], str] = {}
        """By connection, whose Register is not answered."""
        self._expected: dict[str, None] = {}
        """Consumers that the coordinator before has known, and that are not back."""
        self._owners: Who | None = None
        """The owners that are stored; None where that is not known."""
        self._written: tuple[int, Who] | None = None
        """The number of a write of owners that is not answered, and these."""
        self._hazy = False
        """Lines of consumers are missing: who has registered is not known."""
        self._gaps = 0
        """Number of gaps in coordinators' lines that have begun, and not ended."""
        self._leader_ns = 0
        """When the leader was heard last …"""
        self._lost_ns: int | None = None
        """… and when, since then, a consumer has lost its connection."""
        self._sent: dict[tuple[str, int], CentralStep] = {}
        """By connection, the last Start with partitions, as long as that is not answered."""
        self._begun: dict[tuple[str, int], int] = {}
        """By connection, the generation of the last Start that was obeyed."""

    def take(self, line: CentralStep) -> None:
        """The next line."""
        tell = TOLD.get(line.action)
        if line.role != CONSUMER:
            if line.node != self._leader:
                tell = tell if line.action in OF_ANYBODY else None
            elif line.action != BEGINS:
                self._leader_ns, self._lost_ns = line.time_ns, None
        if tell is not None:  # few lines matter: most are heartbeats
            tell(self, line)
            if line.place.startswith(MISSING):  # others tell that it was, and not when
                self.unread.stands(line.time_ns, UNKNOWN)
            else:
                self._say(line.time_ns)

    def _say(self, time_ns: int) -> None:
        why, who = self._cause()
        self.unread.stands(time_ns, why, who)

    def _cause(self) -> tuple[str, Collection[str]]:
        if self._gaps or self._phase == DOUBTFUL or self._leader is None:
            return UNKNOWN, ()
        if not self._leader:
            return ELECTION, ()
        if not self._members:
            return self._of_nobody()
        if self._phase == STOPPING and self._awaited:
            return STOP, self._awaited.values()
        if self._phase == STOPPING and self._ghosts:
            return LEASE, self._ghosts.values()
        if self._phase == STARTING and self._awaited:
            return START, self._awaited.values()
        if self._phase in (STOPPING, WRITING, STARTING):
            return REBALANCE, ()
        if self._phase == IDLE:
            return NOTHING, ()
        if self._owners is None:
            return UNKNOWN, ()
        if self._ghosts:
            return LEASE, self._ghosts.values()
        if self._expected:
            return RETURN, self._expected
        return (FAILURE if self._phase == FAILED else REBALANCE), ()

    def _of_nobody(self) -> tuple[str, Collection[str]]:
        """Why there is no member."""
        if self._hazy:
            return UNKNOWN, ()
        if self._asked:
            return ADMISSION, self._asked.values()
        if self._owners is None:
            return UNKNOWN, ()
        return (RETURN, self._expected) if self._expected else (NOBODY, ())

    # ── Who leads ───────────────────────────────────────────────────────────────────────────

    def _on_coordinator_startup(self, line: CentralStep) -> None:
        if line.epoch < self._epoch:
            return
        if self._leader:
            self._unheard()
        self._epoch, self._leader, self._leader_ns = line.epoch, line.node, line.time_ns
        self._lost_ns = None
        if self._written is not None:
            self._owners = None
        self._expected |= dict.fromkeys(self._members.values())
        self._ghosts = {**(self._owners or {})}
        self._phase = QUEUED
        self._forget()

    def _forget(self) -> None:
        self._written = None
        self._sent.clear()
        self._members.clear()
        self._fetching.clear()
        self._awaited.clear()

    def _unheard(self) -> None:
        """Whoever led is not heard any more: nobody knows when it ended, but others noticed."""
        if self._gaps:
            return
        is_stable = self._cause()[0] == NOTHING
        self.unread.amend(self._leader_ns, NOTHING if is_stable else UNKNOWN, certain=False)
        if self._lost_ns is not None:
            self.unread.stands(self._lost_ns, ELECTION, (self._leader or "",), certain=False)

    def _on_step_down(self, _: CentralStep) -> None:
        self._leader = ""
        self._expected |= dict.fromkeys(self._members.values())
        if self._written is not None:
            self._owners = None
        self._forget()
        self._phase = QUEUED

    def _on_start(self, line: CentralStep) -> None:
        """A process begins: a coordinator's former one, which led, has ended before."""
        if line.role == CONSUMER:
            self._asked = {at: who for at, who in self._asked.items() if who != line.node}
        else:
            self._unheard()
            self._on_step_down(line)

    # ── Who is a member ─────────────────────────────────────────────────────────────────────

    def _on_register(self, line: CentralStep) -> None:
        self._asked[line.consumer, line.connection] = line.consumer

    _on_resume = _on_register

    def _on_on_lost_connection(self, line: CentralStep) -> None:
        self._asked.pop((line.consumer, line.connection), None)
        self._begun.pop((line.consumer, line.connection), None)
        if self._lost_ns is None and line.epoch == self._epoch:
            self._lost_ns = line.time_ns

    def _on_handle_register(self, line: CentralStep) -> None:
        self._asked.pop((line.consumer, line.connection), None)
        if line.node != self._leader or line.outcome != "accepted":
            return
        self._hazy = False
        self._members[line.member] = line.consumer
        self._expected.pop(line.consumer, None)
        for name in line.former:
            self._ghosts.pop(name, None)
            self._fetching.discard(name)
        if line.place.startswith(MISSING):  # whom it names as former ones nobody tells
            self._owners = None
        self._changes()
        if self._phase in (STOPPING, STARTING):
            self._awaited[line.member] = line.consumer

    def _on_handle_resume(self, line: CentralStep) -> None:
        """It consumes: who closes the connection waits for its lease again."""
        self._asked.pop((line.consumer, line.connection), None)
        if line.node != self._leader or line.outcome != "accepted":
            return
        self._members[line.member] = line.consumer
        self._fetching.add(line.member)
        self._expected.pop(line.consumer, None)
        for name in (line.member, *line.former):
            self._ghosts.pop(name, None)
        self._changes()
        if self._phase == STOPPING:
            self._awaited[line.member] = line.consumer

    def _on_handle_closed(self, line: CentralStep) -> None:
        name = line.member
        start = self._sent.pop((line.consumer, line.connection), None)
        if start is not None and not self._has_begun(start):
            for t, n, _ in start.partitions:
                self.unread.may_be_read((t, n))
        self._begun.pop((line.consumer, line.connection), None)
        self._members.pop(name, None)
        self._awaited.pop(name, None)
        if name in self._fetching and line.outcome not in (LEFT, OVER):
            self._ghosts[name] = line.consumer
        self._fetching.discard(name)
        self._changes()

    def _changes(self) -> None:
        """A member has come or gone: the group is rebalanced again."""
        self._is_dirty = True
        if self._phase == IDLE:
            self._phase = QUEUED

    _on_fail = _on_handle_closed

    # ── How far its rebalance is ────────────────────────────────────────────────────────────

    def _on_begin_rebalance(self, line: CentralStep) -> None:
        """Everybody is back, and every lease is over."""
        self._ghosts.clear()
        self._expected.clear()
        self._awaited.clear()
        self._is_dirty = False
        if not line.generation:
            self._owners = {}
        if line.outcome == "necessary":
            self._awaited = {**self._members}
        if self._phase != DOUBTFUL:
            self._phase = STOPPING if line.outcome == "necessary" else IDLE

    def _on_send_stop(self, line: CentralStep) -> None:
        self._members[line.member] = line.consumer
        if self._phase == STOPPING:
            self._awaited[line.member] = line.consumer

    def _on_handle_stop_response(self, line: CentralStep) -> None:
        self._fetching.discard(line.member)
        self._awaited.pop(line.member, None)

    def _on_write_owners(self, line: CentralStep) -> None:
        if self._phase == DOUBTFUL:
            self._is_new = True
            self._owners = self._written = None
            self._members.clear()  # each of them is sent a Start, and then known
            return
        self._ghosts.clear()  # else it were not written
        self._awaited.clear()
        self._phase = WRITING
        names = {registration for _, _, registration in line.owners}
        owners = {name: self._members.get(name, name) for name in sorted(names)}
        self._written = (line.number, owners)

    def _on_answered(self, line: CentralStep) -> None:
        if self._written is not None and self._written[0] == line.number:
            self._owners = self._written[1] if line.outcome == "done" else None
            self._written = None

    def _on_send_start(self, line: CentralStep) -> None:
        self._members[line.member] = line.consumer
        if self._phase == WRITING:
            self._phase = STARTING
            self._awaited = {**self._members}
        if line.partitions:
            self._fetching.add(line.member)
            self._sent[line.consumer, line.connection] = line

    def _on_handle_start(self, line: CentralStep) -> None:
        """It obeys: if nobody told that it was asked, lines of its coordinator are missing."""
        at = (line.consumer, line.connection)
        self._begun[at] = line.generation
        for t, n, _ in () if line.outcome else line.partitions:
            self.unread.must_be_read((t, n), self._since(line))
        if line.partitions and not line.outcome and not self._is_sent(line):
            self.unread.amend(self._leader_ns, UNKNOWN)
            self._doubt()

    def _since(self, line: CentralStep) -> int:
        """When a Start was obeyed at the earliest: others tell of a missing line, and not when."""
        said: CentralStep | None = line
        if line.place.startswith(MISSING):
            said = self._sent.get((line.consumer, line.connection))
        return 0 if said is None else int(said.time_ns)

    def _is_sent(self, line: CentralStep) -> bool:
        start = self._sent.get((line.consumer, line.connection))
        return start is not None and bool(start.generation == line.generation)

    def _has_begun(self, start: CentralStep) -> bool:
        return bool(self._begun.get((start.consumer, start.connection)) == start.generation)

    def _on_handle_start_response(self, line: CentralStep) -> None:
        """It has begun: if it has not told so, lines of it are missing."""
        self._awaited.pop(line.member, None)
        start = self._sent.pop((line.consumer, line.connection), None)
        if start is not None and not line.outcome and not self._has_begun(start):
            for t, n, _ in start.partitions:
                self.unread.must_be_read((t, n), start.time_ns)

    def _on_finish_rebalance(self, _: CentralStep) -> None:
        self._awaited.clear()
        if self._phase != DOUBTFUL or self._is_new:
            self._phase = QUEUED if self._is_dirty else IDLE
        self._is_new = False

    def _on_fail_rebalance(self, _: CentralStep) -> None:
        self._awaited.clear()
        if self._phase != DOUBTFUL:
            self._phase = FAILED

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def _doubt(self) -> None:
        """Doubt how far the group's rebalance is, and who owns what."""
        self._phase, self._owners, self._written, self._is_new = DOUBTFUL, None, None, False
        self._asked.clear()

    def lose(self, time_ns: int, *, of_consumer: bool) -> None:
        """Lines are missing from here on."""
        self._hazy = True
        if not of_consumer:
            self._gaps += 1
            self._doubt()
        self._say(time_ns)

    def find(self, time_ns: int, *, of_consumer: bool) -> None:
        """From here on, they can have been no more."""
        if not of_consumer:
            self._gaps -= 1
            self._say(time_ns)


TOLD: Mapping[str, Callable[[Hindrance, CentralStep], None]] = {
    action_of(name.removeprefix("_on_")): method
    for name, method in vars(Hindrance).items()
    if name.startswith("_on_")
}
"""By action, what takes notice of it: few lines are of one of them."""
