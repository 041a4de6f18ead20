"""
What each line of the central coordinator says of the contract's fields: no guard, no judgement.

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
    Consumers,
    Member,
    Partition,
)
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER, COORDINATOR
from herdspec.check.observation.doubt import UNKNOWN, Doubtful, Told, is_lost, joined
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
"""What the lines of the coordinator tell, whoever that is."""

FORGOTTEN: Mapping[str, Any] = {
    "known": False, "accepted": 0, "storing": 0, "live": False, "informed": False, "reported": 0,
    "committing": 0,
}  # fmt: skip
"""What a coordinator does not know yet when its epoch begins."""


class CentralFields(Consumers):
    """The lines of one group, in their order, as steps of the contract's fields."""

    def __init__(self, seen: Observed, stored: Mapping[Partition, int], generation: int) -> None:
        super().__init__(seen, stored)
        if generation:
            seen.refine("generation", (), generation)
        self._epochs: dict[str, int] = {}
        """By node, the epoch in which it coordinates."""
        self._epoch = 0
        self._winner = ""
        """The node that has coordinated last."""
        self._registered: dict[str, Member] = {}
        self._missed: set[Partition] = set()
        """Partitions of which an answer of this generation may be missing."""
        self._said: dict[Partition, dict[Member, set[int]]] = {}
        """What a member was heard to say in this generation, and was not yet stored."""
        self._writes: dict[tuple[str, int], CentralStep] = {}
        """Writes that are not answered, by node and number."""
        self._sending: CentralStep | None = None
        """The write that was sent last, if nothing has been told since."""
        self._in_doubt: list[CentralStep] = []
        """Writes of owners whose answer nobody knows."""
        self._late: set[tuple[str, int]] = set()
        """By node and time, writes that were sent when a later epoch than theirs had begun."""
        self._left: set[tuple[str, int]] = set()
        """
        Writes of processes of which no line comes any more, by node and time.

        Whatever came after these is not told.
        """
        self._maybe: dict[Partition, set[tuple[str, int]]] = {}
        """Offsets of writes whose answer nobody knows, and who sent them."""
        self._settled: dict[Any, Any] = {}
        """By partition (or () for the generation), what was stored before these writes."""
        self._is_changed = True
        """Whether anything has changed since the owners were chosen."""
        self._is_whole = True
        """Whether no line of a coordinator is missing."""
        self._tells = {role: _methods(self, role) for role in (CONSUMER, COORDINATOR)}

    def take(self, line: CentralStep) -> bool:
        """The next line; whether it may have told of a step."""
        tell = self._tells[line.role].get(line.action)
        if tell is None:
            return False
        if self._sending is not None and line.action != "answered":
            self.settle()
        return tell(line) is not NOTHING_NEW

    def settle(self) -> None:
        """The write that was sent last may be done by the time that something else is told."""
        write, self._sending = self._sending, None
        if write is None:
            return
        if write.action == "write_owners":
            self._settled.setdefault((), self._generation())
            self.seen.widen("generation", (), write.generation)
            for p, heir in self._heirs(write).items():
                self.seen.widen("owner", p, heir)
        else:
            for t, n, o in write.partitions:
                self._settled.setdefault((t, n), self._entries["committed"][t, n])
                self.seen.widen("committed", (t, n), o + 1)

    # ── Their lines ─────────────────────────────────────────────────────────────────────────

    def is_present(self, line: CentralStep) -> bool:
        """Whether nobody is known to coordinate in a later epoch."""
        return self._epochs.get(line.node) == self._epoch != 0

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
            if type(accepted) is Told or offset > accepted:
                self.seen.suppose("committing", (m, p), offset)
                self.seen.set("accepted", p, offset)
        else:
            self.seen.suppose("accepted", p, 0)  # whatever it says is taken, and is new
            self.seen.suppose("committing", (m, p), 0)
            self.seen.set("accepted", p, offset)

    def _hears(self, line: CentralStep, m: Member, field: str) -> None:
        """What a member has said counts in its generation alone; in that it has begun."""
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

    # ── Writes ──────────────────────────────────────────────────────────────────────────────

    def coordinator_flush_offsets(self, line: CentralStep) -> None:
        """Offsets are sent that it must have taken, and are stored now or later."""
        self._sends(line)
        for t, n, o in line.partitions:
            p = self.partition((t, n))
            if self.is_present(line):
                self._takes(p, o + 1)
                self.seen.set("storing", p, o + 1)
        self.seen.step()
        self._sending = line

    def _sends(self, write: CentralStep) -> None:
        self._writes[write.node, write.number] = write
        if write.epoch < self._epoch:
            self._late.add(_name(write))

    def _is_author(self, write: CentralStep) -> None:
        """What the step in hand stores is this write: done in its epoch, unless it came late."""
        self.seen.suppose("author", (), write.node)
        self.seen.suppose("term", write.node, write.epoch)
        if _name(write) not in self._late:
            self.seen.suppose("epoch", (), write.epoch)

    def _takes(self, p: Partition, offset: int) -> None:
        """Silent: what is sent was taken, of what its owner was heard to say."""
        accepted = self._entries["accepted"][p]
        if is_lost(accepted):
            self.seen.refine("accepted", p, offset)
        elif type(accepted) is Told or offset > accepted:
            owner = self._entries["owner"][p]
            m = owner.value if type(owner) is Told else owner
            if not is_lost(m) and p in self._missed:
                self.seen.suppose("reported", (m, p), UNKNOWN)
            elif not is_lost(m) and offset in self._said.get(p, {}).get(m, ()):
                self.seen.suppose("reported", (m, p), offset)
            self.seen.set("accepted", p, offset)

    def _sent(self, p: Partition) -> list[int]:
        """The offsets of a partition in writes that are not answered."""
        under_way = [
            o + 1
            for write in self._writes.values()
            if write.action == "flush_offsets"
            for t, n, o in write.partitions
            if (t, n) == p
        ]
        return [*under_way, *(offset for _, offset in self._maybe.get(p, ()))]

    def _doubt(self, write: CentralStep) -> None:
        """Nobody knows whether a write was done."""
        if write.action == "write_owners":
            self._in_doubt.append(write)
        for t, n, o in write.partitions:
            self._maybe.setdefault((t, n), set()).add((write.node, o + 1))

    def _reads_offset(self, p: Partition, offset: int) -> None:
        """What is stored is read: where that was sent in a write in doubt, this one was done."""
        committed = self._entries["committed"][p]
        if not is_unsure(committed):
            return
        maybe = {x for _, x in self._maybe.pop(p, ())}
        before = self._settled.pop(p, UNKNOWN)
        if offset in maybe and before is not UNKNOWN and type(before) is not Told:
            self.seen.refine("committed", p, before)
            self.seen.suppose("storing", p, offset)
            self.seen.set("committed", p, offset)
        else:
            self.seen.refine("committed", p, offset)
        self.seen.step()
        if sent := self._sent(p):
            self._settled[p] = offset
            for x in sent:
                self.seen.widen("committed", p, x)

    def coordinator_write_owners(self, line: CentralStep) -> None:
        """The next owners are sent, and are written now or later."""
        self._sends(line)
        self._sending = line

    def _generation(self) -> tuple[Any, dict[Partition, Any]]:
        owners = {p: self._entries["owner"][p] for p in self._partitions}
        return self._entries["generation"][()], owners

    def _heirs(self, line: CentralStep) -> dict[Partition, Any]:
        named = {self.partition((t, n)): self._of_name(who) for t, n, who in line.owners}
        return {p: named.get(p) for p in self._partitions}

    def _of_name(self, name: str) -> Any:
        m = self._registered.get(name)
        if m is None:
            return UNKNOWN
        if m not in self._members:
            self._add(m)
        return m

    def coordinator_answered(self, line: CentralStep) -> None:
        """A write was done, or was not, or nobody knows."""
        write = self._writes.pop((line.node, line.number), None)
        if write is not self._sending or line.outcome == "unknown":
            self.settle()
        self._sending = None
        if write is None:
            if line.outcome != "refused":
                self.doubt_writes()
        elif line.outcome == "unknown":
            self._doubt(write)
        elif write.action == "flush_offsets":
            self._is_author(write)
            self._stored_or_not(write, is_done=line.outcome == "done")
        elif line.outcome == "done":
            self._hand_over(write, line.time_ns)
        else:
            self._unwritten()

    def doubt_writes(self) -> None:
        """A write that nobody has told of may have been done."""
        for p in self._partitions:
            for field in ("committed", "owner"):
                self.seen.forget(field, p)
        self.seen.forget("generation", ())
        self._settled.clear()

    def _stored_or_not(self, write: CentralStep, *, is_done: bool) -> None:
        """A write of offsets was done: what was stored before is one of all that others sent."""
        for t, n, o in write.partitions:
            p = (t, n)
            before = self._settled.pop(p, self._entries["committed"][p])
            sent = self._sent(p)
            known = joined([before, *sent]) if sent else before
            if known is not UNKNOWN:
                self.seen.refine("committed", p, known)
            if is_done:
                before = o + 1
                self.seen.set("committed", p, before)
                self._forget_said(p, before)
            if sent:
                self._settled[p] = before
                maybe = self._maybe.pop(p, set())
                self._maybe[p] = {x for x in maybe if x[0] != write.node}
        self.seen.step()
        for t, n, o in write.partitions if is_done else ():
            self._relearn((t, n), o + 1)
            for x in self._sent((t, n)):
                self.seen.widen("committed", (t, n), x)

    def _forget_said(self, p: Partition, stored: int) -> None:
        """What is stored need not be explained again."""
        said = self._said.get(p, {})
        for m, offsets in said.items():
            said[m] = {x for x in offsets if x > stored}

    def _relearn(self, p: Partition, stored: int) -> None:
        """What was finished at least, where lines that told of more may be missing."""
        if self._entries["finished"][p] is UNKNOWN:
            known = (self._entries["position"][m, p] for m in self._members)
            at = [x for x in known if not isinstance(x, Doubtful)]
            self.seen.refine("finished", p, max([stored, self._at_least.get(p, 0), *at]))

    def _unwritten(self) -> None:
        """A write of owners was not done; another one may be on its way."""
        under_way = [w for w in self._writes.values() if w.action == "write_owners"]
        left = [*under_way, *self._in_doubt]
        if left or () not in self._settled:
            return
        generation, owners = self._settled.pop(())
        self.seen.refine("generation", (), generation)
        for p, owner in owners.items():
            self.seen.refine("owner", p, owner)

    def _hand_over(self, write: CentralStep, time_ns: int) -> None:
        """The next owners are written: older reports count no more, and nobody has begun."""
        self._in_doubt.clear()
        if () in self._settled:
            generation, owners = self._settled.pop(())
            self.seen.refine("generation", (), generation)
            for p, owner in owners.items():
                self.seen.refine("owner", p, owner)
        self._lapse_all(self._consumed, time_ns)
        self.seen.step()
        self._is_author(write)
        is_heard = _name(write) not in self._left
        for p, heir in self._heirs(write).items():
            self.seen.set("owner", p, heir if is_heard or heir is UNKNOWN else Told(heir))
        self.seen.set("generation", (), write.generation)
        for field, value in (
            ("current", False), ("informed", False), ("reported", 0), ("committing", 0)
        ):  # fmt: skip
            self.seen.set_all(field, value)
        self.seen.set("stage", (), Stage.HANDED)
        self._said.clear()
        self._missed.clear()
        self._last.clear()
        self.seen.step()
        self._drop_ended()

    def _drop_ended(self) -> None:
        """Who consumes and owns nothing, and is counted as nobody's member, is dropped."""
        owners = [self._entries["owner"][p] for p in self._partitions]
        if self._writes or any(isinstance(m, Doubtful) for m in owners):
            return
        for m in [*self._members]:
            if self._entries["live"][m] is False and m not in owners and self._has_ended(m):
                self._drop(m)
        kept = {*self._members, *self._dropped}
        self._registered = {name: m for name, m in self._registered.items() if m in kept}

    def _reads(self, line: CentralStep) -> None:
        while self._in_doubt:
            write = self._in_doubt.pop()
            if write.generation == line.generation:
                self._hand_over(write, line.time_ns)
            else:
                self._unwritten()
        generation = self._entries["generation"][()]
        if is_unsure(generation) or generation != line.generation:
            if not is_lost(generation) and type(generation) is not Told:
                for p in self._partitions:
                    self.seen.forget("owner", p)
            self.seen.refine("generation", (), line.generation)

    def _doubt_writes_of(self, node: str) -> None:
        for key in [k for k in self._writes if k[0] == node]:
            self._doubt(self._writes.pop(key))

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
        self._left.update(_name(write) for write in writes if write.node == line.node)
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


def _name(write: CentralStep) -> tuple[str, int]:
    return write.node, write.time_ns


def is_unsure(value: Any) -> bool:
    """Whether it need not be what it was when it was told last."""
    return is_lost(value) or type(value) is Told


def _methods(table: CentralFields, role: str) -> dict[str, Callable[[Any], bool | None]]:
    """By action, what takes a line of a role."""
    return {action: getattr(table, f"{role}_{action}") for action in _actions(role)}


@cache
def _actions(role: str) -> list[str]:
    """The actions of a role that are taken."""
    names = [name for name in dir(CentralFields) if name.startswith(f"{role}_")]
    return [name.removeprefix(f"{role}_") for name in names]
