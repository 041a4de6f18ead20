"""
Lines of the central coordinator as the contract's fields: no guard, no judgement.

- A `Member` is a connection (its consumer's id and its number): who registers anew is another one.
  A `Broker` is a node, a `Partition` a topic and a number.
- Offsets are one more than told, 0 is "none stored": the contract's numbers are natural.
- A line is a step, or several. What nobody tells is *silent*: that a lease is over is taken where
  somebody relies on it, that an offset was taken where it is sent to be stored. What explains a
  line is supposed for that step alone.
- A write that is not answered may have been done: until its answer, or until somebody reads what
  it wrote, both are possible. Whoever coordinates is taken for who wrote, but where an answer tells
  whose the write was: that is judged by its own epoch, if no later one was there when it was sent.
- Where lines are missing, what they could have told is unknown, until it is told again (`gaps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from herdproof.protocols.central_coordinator.judged.consumers import (
    NOTHING_NEW,
    Member,
    Partition,
)
from herdproof.protocols.central_coordinator.judged.writes import StoredFields, is_unsure, name_of
from herdproof.protocols.central_coordinator.traces.lines import CentralStep, action_of
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdspec.check.observation.inconclusive import UNKNOWN, LastReported, is_lost, joined
from herdspec.check.observation.observed import Observed
from herdspec.protocols.contract.spec import Stage

INITIAL: Mapping[str, Any] = {
    "epoch": 0, "elected": None, "author": None, "term": 0, "known": False, "interest": UNKNOWN,
    "live": False, "informed": False, "stage": Stage.OPEN, "generation": 0, "owner": None,
    "heeded": UNKNOWN, "current": False, "consumes": UNKNOWN, "position": UNKNOWN,
    "resolved": UNKNOWN, "finished": 0, "reported": 0, "committing": 0, "accepted": 0,
    "storing": 0, "committed": 0,
}  # fmt: skip
"""The fields that these lines fill, before anything is told."""

OF_COORDINATORS = (
    "known", "live", "informed", "stage", "generation", "owner", "current", "reported",
    "committing", "accepted", "storing", "committed",
)  # fmt: skip
"""Fields that the lines of the coordinator tell, whoever that is."""

FORGOTTEN: Mapping[str, Any] = {
    "known": False, "accepted": 0, "storing": 0, "live": False, "informed": False, "reported": 0,
    "committing": 0,
}  # fmt: skip
"""Values of what a coordinator does not know yet when its epoch begins."""


class CentralFields(StoredFields):
    """The lines of one group, in their order, as steps of the contract's fields."""

    def __init__(self, seen: Observed, stored: Mapping[Partition, int], generation: int) -> None:
        super().__init__(seen, stored)
        if generation:
            seen.refine("generation", (), generation)
        self._winner = ""
        """The node that has coordinated last."""
        self._is_whole = True
        """True if no line of a coordinator is missing."""
        self._tells = {role: _methods(self, role) for role in (CONSUMER, COORDINATOR)}

    def take(self, line: CentralStep) -> bool:
        """The next line; whether it may have told of a step."""
        tell = self._tells[line.role].get(line.action)
        if tell is None:
            return False
        if self._sending is not None and line.action != "answered":
            self.settle()
        return tell(line) is not NOTHING_NEW

    # ── Their lines ─────────────────────────────────────────────────────────────────────────

    def coordinator_start(self, line: CentralStep) -> None:
        """A process begins, and coordinates nothing; its former one's writes are in doubt."""
        self.seen.add("Broker", line.node)
        self._doubt_writes_of(line.node)
        self._epochs.pop(line.node, None)
        self.seen.set("term", line.node, 0)

    def coordinator_step_down(self, line: CentralStep) -> None:
        """It coordinates no more, and forgets."""
        self._doubt_writes_of(line.node)
        if self.is_present(line):
            self._forget()
        self._epochs.pop(line.node, None)
        self.seen.set("term", line.node, 0)

    def coordinator_coordinator_startup(self, line: CentralStep) -> None:
        """It coordinates in an epoch, and knows nothing yet."""
        self.seen.add("Broker", line.node)
        self._epochs[line.node] = line.epoch
        self.seen.set("term", line.node, line.epoch)
        if line.epoch >= self._epoch:
            self._winner = line.node
        if line.epoch > self._epoch:
            self._epoch = line.epoch
            for field, value in (
                ("epoch", line.epoch), ("elected", line.node), ("author", line.node)
            ):  # fmt: skip
                self._learn(field, (), value)
            self._forget()

    def _forget(self) -> None:
        self.seen.set("stage", (), Stage.OPEN)
        for field, value in FORGOTTEN.items():
            self.seen.set_all(field, value)
        self._said.clear()
        self._last.clear()
        self._is_changed = True

    def _changes(self) -> None:
        self._is_changed = True
        stage = self._entries["stage"][()]
        if isinstance(stage, Stage) and stage == Stage.STABLE:
            self.seen.set("stage", (), Stage.OPEN)

    def coordinator_topic_change_listener(self, line: CentralStep) -> None:
        """It knows partitions."""
        if self.is_present(line):
            for t, n, _ in line.partitions:
                if (t, n) in self._partitions:
                    self.seen.set("known", (t, n), True)
            self._changes()

    def coordinator_handle_register(self, line: CentralStep) -> None:
        """It counts a member as one."""
        if line.outcome == "accepted":
            m = self._registered[line.member] = self._member(line)
            if self.is_present(line):
                self.seen.set("live", m, True)
                for field in ("informed", "current"):
                    self._learn(field, m, False)
                self._brings(line)
                self._changes()

    def _brings(self, line: CentralStep) -> None:
        """It hears how far former registrations were, which its Register says to be over."""
        if not line.brought:
            return
        others = {m for name, m in self._registered.items() if name not in line.former}
        own = {m for m in self._members if m[0] == line.consumer} - others
        for t, n, o in line.brought:
            p = self.partition((t, n))
            owner = self._entries["owner"][p]
            m = owner.value if type(owner) is LastReported else owner
            is_own = not is_lost(m) and m in own
            if is_own:
                self._finishes(p, o + 1, self._since(m, p))
            elif is_unsure(owner):  # there has been another one since
                self.seen.forget("accepted", p)
            for each in own:
                self._said.setdefault(p, {}).setdefault(each, set()).add(o + 1)

    def coordinator_handle_resume(self, line: CentralStep) -> None:
        """It has read what is stored, and counts a member as one again, which consumes on."""
        if line.outcome == "accepted":
            m = self._registered[line.member] = self._member(line)
            if self.is_present(line):
                self._reads(line)
                for t, n, o in line.partitions:
                    p = self.partition((t, n))
                    if is_unsure(self._entries["owner"][p]):
                        self.seen.refine("owner", p, m)
                    self._reads_offset(p, o + 1)
                for field in ("live", "informed"):
                    self._learn(field, m, True)
                if not is_unsure(self._entries["generation"][()]):
                    self._learn("current", m, True)
                self._changes()

    def coordinator_handle_closed(self, line: CentralStep) -> None:
        """It counts a member no more."""
        if self.is_present(line):
            m = self._member(line)
            self.seen.set("live", m, False)
            self.seen.set("informed", m, False)
            self._changes()

    coordinator_fail = coordinator_handle_closed

    def coordinator_send_stop(self, line: CentralStep) -> None:
        """It no longer counts on a member consuming."""
        if self.is_present(line):
            self.seen.set("informed", self._member(line), False)

    def coordinator_send_start(self, line: CentralStep) -> None:
        """It has read where the partitions are stored."""
        if not self.is_present(line):
            return
        m = self._member(line)
        self.seen.set("informed", m, False)
        for t, n, o in line.partitions:
            p = self.partition((t, n))
            self._reads_offset(p, o + 1)
            if is_lost(self._entries["owner"][p]):
                self._lapse_all(self._consumed, line.time_ns)
                self.seen.step()
                self.seen.refine("owner", p, m)

    def coordinator_handle_ping_response(self, line: CentralStep) -> bool:
        """It hears how far a member is."""
        if not line.partitions:
            return NOTHING_NEW
        said, name = (line.partitions, line.generation, line.connection), f" {line.consumer}"
        if self._last.get(name) == said or not self.is_present(line):
            return NOTHING_NEW
        self._hears(line, self._member(line), "reported")
        self._last[name] = said
        return True

    def coordinator_handle_stop_response(self, line: CentralStep) -> None:
        """It hears how far a member is that has stopped."""
        self._is_changed = False
        if self.is_present(line):
            self._hears(line, self._member(line), "reported")

    def coordinator_handle_commit(self, line: CentralStep) -> None:
        """It hears how far a member is, and takes it."""
        if line.outcome != "accepted" or not self.is_present(line):
            return
        m = self._member(line)
        self._hears(line, m, "committing")
        self.seen.step()
        who = self._registered.get(line.member, None if self._is_whole else m)
        for t, n, o in line.partitions:
            self._accepts((t, n), m, o + 1, line, is_known=who == m)

    def _accepts(
        self, p: Partition, m: Member, offset: int, line: CentralStep, *, is_known: bool
    ) -> None:
        """An offset is taken: of whom does not matter, since somebody must have been right."""
        owner, generation = self._entries["owner"][p], self._entries["generation"][()]
        accepted = self._entries["accepted"][p]
        if is_unsure(owner) or is_unsure(generation) or is_lost(accepted):
            self.seen.forget("accepted", p)
            return
        if is_known and owner == m and generation == line.generation:
            if type(accepted) is LastReported or offset > accepted:
                self.seen.suppose("committing", (m, p), offset)
                self.seen.set("accepted", p, offset)
        else:
            self.seen.suppose("accepted", p, 0)  # whatever it says is taken, and is new
            self.seen.suppose("committing", (m, p), 0)
            self.seen.set("accepted", p, offset)

    def _hears(self, line: CentralStep, m: Member, field: str) -> None:
        """Hear what a member has said: it counts in its generation alone; in that it has begun."""
        generation = self._entries["generation"][()]
        is_of_now = UNKNOWN if is_unsure(generation) else generation == line.generation
        if is_of_now is True and self._entries["current"][m] is not True:
            self._learn("current", m, True)
            self.seen.step()
        for t, n, o in line.partitions:
            if o < 0:
                continue
            p = self.partition((t, n))
            owner = self._entries["owner"][p]
            if is_unsure(owner) or owner == m:
                self._finishes(p, o + 1, self._since(m, p))
            if is_of_now is not False:
                self.seen.set(field, (m, p), o + 1 if is_of_now is True else UNKNOWN)
                self._said.setdefault(p, {}).setdefault(m, set()).add(o + 1)

    def _since(self, m: Member, p: Partition) -> int:
        """From where on it has consumed; where nobody tells, it was right to."""
        has = self._consumed.get(m[0], {})
        return has[p][1] if p in has and has[p][0] == m else 0

    def coordinator_handle_start_response(self, line: CentralStep) -> None:
        """It learns that a member has begun."""
        if not line.outcome and self.is_present(line):
            m = self._member(line)
            generation = self._entries["generation"][()]
            self.seen.set("informed", m, True)
            if not is_unsure(generation):
                is_of_now = generation == line.generation
                if is_of_now or self._entries["current"][m] is UNKNOWN:
                    self._learn("current", m, is_of_now)

    def coordinator_begin_rebalance(self, line: CentralStep) -> None:
        """It has read the generation: a write in doubt was done, or was not."""
        if not self.is_present(line):
            return
        self._reads(line)
        self._is_changed = False
        is_over = line.outcome == "unnecessary"
        self.seen.set("stage", (), Stage.STABLE if is_over else Stage.OPEN)

    def coordinator_finish_rebalance(self, line: CentralStep) -> None:
        """Every Start is acknowledged: stable, unless something has changed since the plan."""
        if self.is_present(line):
            both = joined([Stage.STABLE, Stage.OPEN])
            self.seen.set("stage", (), both if self._is_changed else Stage.STABLE)

    def coordinator_fail_rebalance(self, line: CentralStep) -> None:
        """It will begin again."""
        if self.is_present(line):
            self.seen.set("stage", (), Stage.OPEN)

    # ── Lines that are missing ──────────────────────────────────────────────────────────────────

    def coordinator_send_ping(self, line: CentralStep) -> bool:
        """It counts a member as one, and knows the generation: told again after a gap."""
        if self._is_whole or not self.is_present(line) or not line.generation:
            return NOTHING_NEW
        if self._entries["generation"][()] is UNKNOWN:
            self.seen.refine("generation", (), line.generation)
        m = self._member(line)
        if self._entries["live"][m] is UNKNOWN:
            self.seen.refine("live", m, True)
        return True

    def lose_coordinator(self) -> None:
        """Of whoever coordinates lines are missing from here on: no write is known."""
        self._sending = None
        self._writes.clear()
        self._in_doubt.clear()
        self._maybe.clear()
        self._settled.clear()
        self._said.clear()
        self._last.clear()
        self._missed.update(self._partitions)
        self._is_changed = True
        self._is_whole = False

    def leave(self, line: CentralStep) -> None:
        """That was the last line of a process, whether it has ended or its trace was cut."""
        self.settle()
        if line.role == CONSUMER:
            self.leave_consumer(line.node)
            return
        writes = (*self._writes.values(), *self._in_doubt)
        self._left.update(name_of(write) for write in writes if write.node == line.node)
        if line.node == self._winner:  # it may begin anew in its epoch, though it has stepped down
            for field in OF_COORDINATORS:
                self.seen.leave_all(field)
            for p in self._partitions:
                self.seen.leave("finished", p)
            self.seen.leave("term", line.node)
            self._last.clear()

    def come_back(self, line: CentralStep) -> None:
        """It was not its process's last line: nothing was missed."""
        if line.role == CONSUMER:
            self._unheard.discard(line.node)
        else:
            self._left = {name for name in self._left if name[0] != line.node}


def _methods(table: CentralFields, role: str) -> dict[str, Callable[[Any], bool | None]]:
    """By action, what takes a line of a role."""
    return {action_of(name): getattr(table, f"{role}_{name}") for name in _actions(role)}


@cache
def _actions(role: str) -> list[str]:
    """The actions of a role that are taken."""
    names = [name for name in dir(CentralFields) if name.startswith(f"{role}_")]
    return [name.removeprefix(f"{role}_") for name in names]
