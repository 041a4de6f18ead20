"""
Fills the contract's fields from lines of a group coordinator: no guard, no judgement.

Members tell nothing: what they consume, how far they are, and what their applications have
finished is in no line. A member says how far it is by a commit; that counts if it is of the
generation whose assignment is stored, and of what is its own by that.

What is set back while a group has no member is how users reset offsets, of which the contract does
not speak: what is stored then is known anew. What is deleted begins anew, and is no step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.protocols.group_protocol.judged.entries import Member, Partition
from herdproof.protocols.group_protocol.judged.stored import StoredChange, StoredEntries
from herdproof.protocols.group_protocol.steps import CHANGED, EVERYTHING, NEW, TOLD, WAITS
from herdspec.check.observation.inconclusive import UNKNOWN, as_told, is_lost
from herdspec.check.observation.observed import Observed
from herdspec.protocols.contract.spec import Stage

JOINS = frozenset({WAITS, CHANGED, NEW})
"""Outcomes of a JoinGroup with which a rebalance begins, or goes on."""
NOTHING_WRONG = "NONE"


class CoordinatorFields(StoredEntries):
    """The lines of one group, in their order, as steps of the contract's fields."""

    def __init__(self, seen: Observed) -> None:
        super().__init__(seen)
        self._rebalances = False
        """True if a rebalance has begun that has made no generation yet."""
        self._untold: set[Member] = set()
        """Who was not told its assignment yet."""
        self._is_outside = False
        """True if the last commit was nobody's of the group."""

    def take(self, line: TraceLine) -> None:
        """The next line."""
        self.heard(line)
        if line.node == self._loading and line.action != START:
            self.ends_loading(line)
        action = line.action
        if action in OF_BROKERS:
            OF_BROKERS[action](self, line)
        elif action == "answered":
            self.answered(line, is_present=self.coordinates(line.node))
        else:
            if "number" in line.arguments and action in CHANGES:
                self.asks(line, is_outside=self._is_outside)
            if action in OF_COORDINATORS and self.coordinates(line.node):
                OF_COORDINATORS[action](self, line)

    # ── Members ─────────────────────────────────────────────────────────────────────────────

    def handle_join_group(self, line: TraceLine) -> None:
        """Somebody is a member from now on, or again."""
        if line.arguments["outcome"] in JOINS | {TOLD}:
            self.learn("live", self.member(line.arguments["member"]), True)
        if line.arguments["outcome"] in JOINS:
            self._begins(line)

    def expire(self, line: TraceLine) -> None:
        """A member, or somebody who was about to be one, is waited for no longer."""
        self._goes(line, "failed")

    def handle_leave_group(self, line: TraceLine) -> None:
        """A member has left."""
        if line.arguments["outcome"] == NOTHING_WRONG:
            self._goes(line, "left")

    def _goes(self, line: TraceLine, how: str) -> None:
        m = (line.arguments["member"],)
        if m not in self._members or self._entries["live"][m] is False:
            return
        if self.tells is not None:
            self.tells.goes(how)
        self.learn("live", m, False)
        self._begins(line)

    def _begins(self, line: TraceLine) -> None:
        """All are to join anew, if they are not at it."""
        self.seen.set("stage", (), Stage.OPEN)
        if not self._rebalances and self.tells is not None:
            self.tells.begins(self._epochs.get(line.node, 0))
        self._rebalances = True

    def replace_member(self, line: TraceLine) -> None:
        """A static member goes on under another id: whose partitions are so, is told later."""
        if "number" not in line.arguments:
            self.learn("live", self.member(line.arguments["member"]), True)
            for p in self._partitions:
                self.seen.amend("owner", p, UNKNOWN)

    # ── Generations ─────────────────────────────────────────────────────────────────────────

    def complete_join(self, line: TraceLine) -> None:
        """The next generation: who has not joined is a member no more."""
        members = {self.member(name) for name in line.arguments.get("members", ())}
        for m in [*self._members]:
            self.learn("live", m, m in members)
        self._rebalances = False
        self._untold = set(members)
        self._is_owned(self.owners(line))

    def _is_owned(self, owners: Mapping[Partition, Member]) -> None:
        """These were the owners before, where that is not known."""
        for p, owner in owners.items():
            if is_lost(self._entries["owner"][p]):
                self.finds_owner(p, owner)

    def told_assignments(self, line: TraceLine) -> None:
        """Members are told what they are assigned, which is stored."""
        told = {(name,) for name in line.arguments.get("members", ())}
        if line.action == "handle_sync_group":
            if line.arguments["outcome"] != TOLD:
                return
            told = {(line.arguments["member"],)}
        for p, owner in self.owners(line).items():
            self.finds_owner(p, owner)
        self._untold -= told
        if not self._untold and self._entries["stage"][()] is Stage.HANDED:
            self.seen.step()
            self.seen.set("stage", (), Stage.STABLE)

    def _hand_over(self, line: TraceLine, owners: Mapping[Partition, Member]) -> None:
        if self.tells is not None:
            self.tells.writes(line.node, self._epochs.get(line.node, 0))
        self.seen.set("author", (), line.node)
        for p, heir in self.heirs(line, owners).items():
            self.seen.set("owner", p, heir)
        self.seen.set("generation", (), line.arguments.get("generation", 0))
        self.seen.set("stage", (), Stage.HANDED)
        self.seen.step()
        if not line.arguments.get("members"):
            self.seen.set("stage", (), Stage.STABLE)
        self._drop_gone()

    def _drop_gone(self) -> None:
        """Who is no member any more, and owns nothing, is dropped."""
        owners = [self._entries["owner"][p] for p in self._partitions]
        if any(is_lost(m) for m in owners):
            return
        owning = {as_told(m) for m in owners}
        for m in [m for m in self._members if m not in owning]:
            if self._entries["live"][m] is False:
                self.seen.drop("Member", m)

    # ── Offsets ─────────────────────────────────────────────────────────────────────────────

    def handle_offset_commit(self, line: TraceLine) -> None:
        """A member says how far it is; what is taken of it is to be stored."""
        self._is_outside = False
        for p, offset in self.offsets(line, "refused").items():
            self._commits(p, offset, "refused", line)
        for p, offset in self.offsets(line).items():
            self._commits(p, offset, "accepted", line)
            generation = self._entries["generation"][()]
            if is_lost(generation):
                self.seen.forget("accepted", p)
                continue
            is_of_now = line.arguments.get("generation", 0) == generation
            owner = self._entries["owner"][p] if is_of_now else None
            self.takes(p, offset, line.arguments.get("member", ""), owner)

    def commit_from_outside(self, line: TraceLine) -> None:
        """Somebody sets offsets of a group without members."""
        self._is_outside = True
        for p, offset in self.offsets(line).items():
            self._commits(p, offset, "accepted", line)

    def handle_offset_fetch(self, line: TraceLine) -> None:
        """Somebody is told what is stored."""
        told = self.offsets(line)
        if line.arguments.get("outcome") == EVERYTHING:
            told = dict.fromkeys(self._partitions, 0) | told
        for p, offset in told.items():
            self.finds("committed", p, offset)

    def _commits(self, p: Partition, offset: int, outcome: str, line: TraceLine) -> None:
        if self.tells is not None:
            self.tells.commits(
                p, offset - 1, outcome, epoch=self._epochs.get(line.node, 0),
                generation=line.arguments.get("generation"),
                consumer=line.arguments.get("member"),
            )  # fmt: skip

    # ── What is stored ──────────────────────────────────────────────────────────────────────

    def stores(self, change: StoredChange) -> None:
        """A change is stored."""
        line = change.line
        match line.action:
            case "flush_offsets":
                self._flush(change)
            case "share_out":
                self._hand_over(line, self.owners(line))
            case "complete_join" if not line.arguments.get("members"):
                self._hand_over(line, {})
            case "replace_member":
                for p, owner in self.owners(line).items():
                    self.seen.amend("owner", p, owner)
            case "delete_offsets":
                self._delete(self.offsets(line))
            case "delete_group":
                self._delete(self._partitions)
                self.seen.amend("generation", (), 0)
                for p in self._partitions:
                    self.seen.amend("owner", p, None)

    def _flush(self, change: StoredChange) -> None:
        line = change.line
        for p, offset in self.offsets(line).items():
            self._commits(p, offset, "stored", line)
            if change.is_outside:
                self.seen.forget("committed", p)
                self.seen.step()
                self.seen.refine("committed", p, offset)
                continue
            self.seen.suppose("storing", p, offset)
            self.seen.set("author", (), line.node)
            self.seen.set("committed", p, offset)
            self.seen.step()
            if is_lost(self._entries["accepted"][p]) and not self.is_waited_for(p):
                self.seen.refine("accepted", p, offset)

    def _delete(self, partitions: Mapping[Partition, object]) -> None:
        for p in partitions:
            self.seen.amend("committed", p, 0)
            self.seen.amend("accepted", p, 0)


C = CoordinatorFields
Fills = Callable[[CoordinatorFields, TraceLine], None]
OF_BROKERS: Mapping[str, Fills] = {
    START: C.start, "load_group": C.load_group,
    "step_down": C.step_down,
}  # fmt: skip
"""Lines of who need not coordinate."""
OF_COORDINATORS: Mapping[str, Fills] = {
    "handle_join_group": C.handle_join_group, "expire": C.expire,
    "handle_leave_group": C.handle_leave_group,
    "replace_member": C.replace_member, "complete_join": C.complete_join,
    "answer_syncs": C.told_assignments,
    "handle_sync_group": C.told_assignments,
    "handle_offset_commit": C.handle_offset_commit,
    "commit_from_outside": C.commit_from_outside,
    "handle_offset_fetch": C.handle_offset_fetch,
}  # fmt: skip
CHANGES = frozenset({
    "complete_join", "share_out", "replace_member", "flush_offsets", "delete_offsets",
    "delete_group",
})  # fmt: skip
"""Actions that ask for something to be stored."""
