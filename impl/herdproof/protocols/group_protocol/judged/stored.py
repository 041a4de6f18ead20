"""
Who coordinates, and what is stored, as far as coordinators' lines tell: no guard, no judgement.

- A `Broker` is a node. A generation is one whose assignment is stored: until then its
  predecessor's owners are the owners.
- What is to be stored is told before, and whether it was done by its answer. Of a change without
  one nobody knows, until the next coordinator tells what it has found; that is another one's word,
  and what differs from all that may have been stored is a step of its own, written by nobody.
- Whoever coordinates no more, and does not know, is not heard once another one has loaded: that its
  change was stored before then, the other one has found. Only if it was sent later, it is a write.
- A process that is not heard any more may have gone on: what it has stored since, nobody knows.
  The next coordinator's epoch tells whether anybody else may have coordinated in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from herdproof.conformance.traces.line import TraceLine
from herdproof.protocols.group_protocol.judged.entries import (
    GroupEntries,
    Member,
    Partition,
)
from herdproof.protocols.group_protocol.steps import DONE
from herdspec.check.observation.inconclusive import UNKNOWN, is_lost, joined, possible
from herdspec.check.observation.observed import Observed
from herdspec.protocols.contract.spec import Stage

NOBODY = ""

INITIAL: Mapping[str, Any] = {
    "epoch": 0, "elected": None, "term": 0, "author": None, "live": False, "stage": Stage.OPEN,
    "generation": UNKNOWN, "owner": UNKNOWN, "reported": 0, "committing": 0, "accepted": 0,
    "storing": 0, "committed": UNKNOWN,
}  # fmt: skip
"""
The fields that these lines fill, before anything is told.

Members report nothing unless they commit; what they commit, and what is sent to be stored, is
supposed in the step in which it is taken, or stored.
"""
STORED = ("generation", "owner", "committed")
LOST_WITH_LINES = (
    "epoch", "elected", "author", "live", "stage", "generation", "owner", "accepted", "committed",
)  # fmt: skip
"""Fields that lines of any broker may have told; of its own term it alone tells."""


class StoredChange(NamedTuple):
    """A change that is to be stored."""

    line: TraceLine
    is_late: bool
    """True if it was sent when another one had loaded in a later epoch."""
    is_outside: bool = False
    """True if it is of offsets that nobody of the group has committed."""


class StoredEntries(GroupEntries):
    """Entries of one group that are stored, and by whom."""

    def __init__(self, seen: Observed) -> None:
        super().__init__(seen)
        self._epochs: dict[str, int] = {}
        """By node, the epoch that it coordinates in, or has last; of others it was not told."""
        self._epoch = 0
        """The last epoch in which somebody has loaded the group."""
        self._won: dict[str, int] = {}
        """By node, the last epoch that it was elected in."""
        self._present = NOBODY
        """Who is heard as the present coordinator."""
        self._loading = NOBODY
        """Who is about to tell what it has found."""
        self._silent: tuple[str, int] | None = None
        """Whoever coordinated last, if that was its last line, and its number."""
        self._changes: dict[tuple[str, int], StoredChange] = {}
        """The changes of which nobody has told what became of them, by node and number."""

    # ── Who coordinates ─────────────────────────────────────────────────────────────────────

    def start(self, line: TraceLine) -> None:
        """A process begins, and coordinates nothing; what the one before has found, none told."""
        if line.node == self._loading:
            self._loading = NOBODY
        self._stops(line)

    def step_down(self, line: TraceLine) -> None:
        """It coordinates no more; what became of its changes, it will not hear."""
        self._stops(line)

    def _stops(self, line: TraceLine) -> None:
        self.seen.add("Broker", line.node)
        self.seen.set("term", line.node, 0)
        self._epochs.pop(line.node, None)

    def load_group(self, line: TraceLine) -> None:
        """It coordinates in an epoch; what it has found of the group follows, if it has."""
        node, epoch = line.node, line.arguments["epoch"]
        self.seen.add("Broker", node)
        before, self._won[node] = self._won.get(node, 0), epoch
        self._epochs[node] = epoch
        if epoch < self._epoch:  # it was elected before the present one, unless its own was later
            self.learn("term", node, epoch)
            if epoch < before:
                self.learn("epoch", (), epoch)
            return
        follows = self._is_whole and self._silent is None and epoch <= self._epoch + 1
        self.learn("epoch", (), epoch)
        self.learn("elected", (), node)
        self.learn("term", node, epoch)
        self.seen.step()
        for key, change in self._changes.items() if follows else ():
            if key[0] == self._present:
                self._may_be_done(change.line)
        if not follows:
            self._forget_stored(is_cut=self._is_whole and epoch <= self._epoch + 1)
        self._present, self._epoch, self._silent = node, epoch, None
        self._loading, self._is_whole = node, False
        for field, value in (("live", False), ("accepted", 0)):
            self.seen.set_all(field, value)
        self.seen.set("stage", (), Stage.OPEN)

    def coordinates(self, node: str) -> bool:
        """True if it is heard as the present coordinator; who was not told to load may be it."""
        epoch = self._epochs.get(node, 0)
        if node == self._present and epoch:
            return True
        if 0 < epoch < self._epoch:
            return False
        if node != self._present:
            self._present, self._loading, self._is_whole = node, NOBODY, False
            self._forget_stored()
            self.seen.forget_all("accepted")
        return True

    # ── What is stored ──────────────────────────────────────────────────────────────────────

    def offsets(self, line: TraceLine, of: str = "offsets") -> dict[Partition, int]:
        """The offsets that a line tells, each one more."""
        told = line.arguments.get(of, ())
        return {self.partition(topic, number): offset + 1 for topic, number, offset in told}

    def owners(self, line: TraceLine) -> dict[Partition, Member]:
        """Whose partitions are, as a line tells."""
        told = line.arguments.get("owners", ())
        return {self.partition(topic, n): self.member(name) for name, topic, n in told}

    def heirs(self, line: TraceLine, owners: Mapping[Partition, Member]) -> dict[Partition, Any]:
        """The next owners: what nobody has now stays its last owner's, if that is a member."""
        members = {(name,) for name in line.arguments.get("members", ())}
        kept = {p: self._entries["owner"][p] for p in self._partitions if p not in owners}
        return {**owners, **{p: _if_member(m, members) for p, m in kept.items()}}

    def _may_be_done(self, line: TraceLine) -> None:
        """It was sent, and nobody heard whether it was stored."""
        match line.action:
            case "flush_offsets" | "delete_offsets":
                for p, offset in self.offsets(line).items():
                    self.seen.widen("committed", p, offset)
            case "share_out":
                self._may_hand_over(line, self.owners(line))
            case "complete_join" if not line.arguments.get("members"):
                self._may_hand_over(line, {})
            case "delete_group" | "replace_member":
                self._forget_stored()

    def _may_hand_over(self, line: TraceLine, owners: Mapping[Partition, Member]) -> None:
        for p, heir in self.heirs(line, owners).items():
            self.seen.widen("owner", p, heir)
        self.seen.widen("generation", (), line.arguments.get("generation", 0))

    def _forget_stored(self, *, is_cut: bool = False) -> None:
        """Forget what is stored; it `is_cut` if what is missing can but follow a last line."""
        del is_cut
        for field in STORED:
            self.seen.forget_all(field)

    # ── Whoever coordinates finds it ────────────────────────────────────────────────────────

    def ends_loading(self, line: TraceLine) -> None:
        """The next line of who has loaded: it tells what was found, or nothing was."""
        self._loading = NOBODY
        of = line.arguments if line.action == "found" else {}
        stored = self.offsets(line) if of else {}
        for p in self._partitions:
            self.finds("committed", p, stored.get(p, 0))
        self._finds_owners(line, of)
        for name in of.get("members", ()):
            self.seen.set("live", self.member(name), True)
        if of.get("is_assigned"):
            self.seen.set("stage", (), Stage.STABLE)
        self.seen.step()
        self._is_whole = True

    def _finds_owners(self, line: TraceLine, of: Mapping[str, Any]) -> None:
        owners = self.owners(line) if of else {}
        if of.get("is_assigned") or not of.get("members"):
            self.finds("generation", (), of.get("generation", 0))
            for p, owner in self.heirs(line, owners).items():
                if p in owners or not is_lost(owner):
                    self.finds_owner(p, owner)
            return
        for p in self._partitions:  # its assignment is not stored: the owners are its predecessor's
            told = possible(self._entries["owner"][p])
            if p in owners and (told is None or owners[p] in told):
                self.finds_owner(p, owners[p])

    # ── What becomes of changes ─────────────────────────────────────────────────────────────

    def asks(self, line: TraceLine, *, is_outside: bool = False) -> None:
        """A change is to be stored."""
        is_late = 0 < self._epochs.get(line.node, 0) < self._epoch
        key = (line.node, line.arguments["number"])
        self._changes[key] = StoredChange(line, is_late, is_outside)

    def answered(self, line: TraceLine, *, is_present: bool) -> None:
        """It is known what became of a change."""
        change = self._changes.pop((line.node, line.arguments["number"]), None)
        is_done = line.arguments["outcome"] == DONE
        if not is_present:
            if change is not None and is_done and change.is_late:
                self.stores(change)
        elif change is not None and is_done:
            self.stores(change)
        elif change is not None:
            self._refused(change.line)
        elif is_done:
            self._forget_stored()  # something is stored, and the line is missing that told what

    def stores(self, change: StoredChange) -> None:
        """A change is stored."""
        raise NotImplementedError

    def _refused(self, line: TraceLine) -> None:
        """It will not be stored: whoever committed is told so."""
        if line.action == "flush_offsets":
            for p in self.offsets(line):
                known = self._entries["committed"][p]
                if is_lost(known):
                    self.seen.forget("accepted", p)
                else:
                    self.learn("accepted", p, known)

    def is_waited_for(self, p: Partition) -> bool:
        """True if an offset of a partition is being stored."""
        return any(p in _places(change.line) for change in self._changes.values())

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def lose(self, node: str) -> None:
        """Lines of a broker are missing: whether it coordinates, and what it stores, is unknown."""
        self._epochs.pop(node, None)
        for key in [key for key in self._changes if key[0] == node]:
            del self._changes[key]
        self._loading, self._is_whole = NOBODY, False
        if node == self._present:
            self._present = NOBODY

    def leave(self, line: TraceLine) -> None:
        """That was the last line of a process, as far as is known."""
        if line.node == self._present:
            self._silent = line.node, line.sequence

    def heard(self, line: TraceLine) -> None:
        """Who goes on in the same process was not silent."""
        if self._silent is None:
            return
        node, last = self._silent
        if line.node == node and line.sequence > last:
            self._silent = None


def _if_member(owner: Any, members: Iterable[Member]) -> Any:
    """An owner, as long as it is a member."""
    among = possible(owner)
    if among is None:
        return UNKNOWN
    return joined([m if m in members else None for m in among])


def _places(line: TraceLine) -> set[Partition]:
    return {(topic, str(number)) for topic, number, _ in line.arguments.get("offsets", ())}
