"""
Lines of coordinators and of our clients, as steps of the contract's fields and the protocol's own.

What coordinators tell is as in `fields.py`. Once a client has told anything, what the contract asks
of members is filled, too (`clients.py`), and so is who leads which generation (`generations.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.judging.gaps import Gap
from herdproof.protocols.group_protocol.judged.clients import ConsumingClients
from herdproof.protocols.group_protocol.judged.entries import Member, Partition
from herdproof.protocols.group_protocol.judged.fields import CoordinatorFields
from herdproof.protocols.group_protocol.judged.generations import (
    COMES_BACK,
    ToldGenerations,
    answered,
)
from herdproof.protocols.group_protocol.judged.stored import StoredChange
from herdproof.protocols.group_protocol.steps import TOLD
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdspec.check.observation.inconclusive import possible
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import Watches

JOINS, SYNCS = ("handle_join_group", "answer_joins"), ("handle_sync_group", "answer_syncs")


class MemberFields(CoordinatorFields):
    """The lines of one group, whoever they are of."""

    def __init__(self, seen: Observed, consuming: Watches, generations: Watches) -> None:
        super().__init__(seen)
        self.consuming = ConsumingClients(consuming, seen)
        self.generations = ToldGenerations(generations, seen)
        self.has_clients = False
        """True once a client is known to tell something."""
        self._has_begun = False

    def expect_clients(self) -> None:
        """Some client tells something; of a group of which others have told, it is late."""
        if not self.has_clients and self._has_begun:
            self.come_late()
        self.has_clients = True

    def come_late(self) -> None:
        """Not all that clients have told of the group is known."""
        self.has_clients = True
        self.consuming.come_late()

    def hear(self, line: TraceLine) -> bool:
        """A client's next line; whether it broke something."""
        self.expect_clients()
        is_settled = self._is_whole and self._silent is None and not self._changes
        names = self.consuming.ids_of(line.node)
        broken = self.consuming.take(line, is_settled=is_settled)
        return self.generations.take(line, names) or broken

    def follow(self, line: TraceLine) -> bool:
        """Take what a coordinator's line says of members; whether that broke something."""
        self._has_begun = True
        is_told = line.action.startswith("answer") or line.arguments.get("outcome") == TOLD
        if line.node == self._present:
            is_of_generation = is_told and line.action in JOINS
            self.generations.follow(line, is_told=is_of_generation)
        if self.has_clients:
            self._follow_clients(line, is_told=is_told)
        return bool(self.consuming.seen.step() or self.generations.seen.step())

    def _follow_clients(self, line: TraceLine, *, is_told: bool) -> None:
        of, consuming = line.arguments, self.consuming
        if line.action == "handle_offset_commit":
            consuming.commits(of.get("member", ""), self.offsets(line))
        elif line.action == COMES_BACK:
            consuming.forget()  # whose former life it has replaced, and whether, is told later
        consuming.follow()
        if is_told and line.action in SYNCS:
            consuming.is_told(answered(line), of.get("generation", 0))

    # ── What coordinators' lines lead to ────────────────────────────────────────────────────

    def _hand_over(self, line: TraceLine, owners: Mapping[Partition, Member]) -> None:
        if self.has_clients:
            self.consuming.hands_over()
        super()._hand_over(line, owners)

    def stores(self, change: StoredChange) -> None:
        """A change is stored."""
        super().stores(change)
        line = change.line
        if line.action == "complete_join":
            self.generations.finds(line.arguments.get("generation", 0))
        elif line.action == "delete_group":
            self._forget_members()
        elif line.action == COMES_BACK:
            self._forget_clients()
            self.generations.comes_back(answered(line), line.arguments.get("generation", 0))
            self.consuming.replaces(self.owners(line), answered(line))
        elif change.is_outside:
            self.consuming.is_reset(self.offsets(line))

    def ends_loading(self, line: TraceLine) -> None:
        """The next line of who has loaded: it tells what was found, or nothing was."""
        found = line.arguments if line.action == "found" else {}
        if self.has_clients and self._is_handed_over(found):
            self.consuming.hands_over()
        super().ends_loading(line)
        self.generations.finds(found.get("generation", 0))

    def _is_handed_over(self, found: Mapping[str, Any]) -> bool:
        """True if a later generation is found to be stored than was known to be, of those sent."""
        known = possible(self._entries["generation"][()]) or ()
        is_stored = found.get("is_assigned", False) or not found.get("members", ())
        return is_stored and found.get("generation", 0) in sorted(known)[1:]

    def _forget_stored(self, *, is_cut: bool = False) -> None:
        super()._forget_stored(is_cut=is_cut)
        self._forget_members(is_cut=is_cut)

    def _forget_members(self, *, is_cut: bool = False) -> None:
        """Generations and owners may be others by now."""
        self.generations.forget(is_cut=is_cut)
        self._forget_clients(is_cut=is_cut)

    def _forget_clients(self, *, is_cut: bool = False) -> None:
        """Owners may be others by now."""
        self.consuming.forget(is_cut=is_cut)
        if self._epoch and not is_cut:  # others' clients may have finished more
            self.consuming.lose_finished()

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def lose_lines(self, gap: Gap) -> None:
        """From here on, these lines may have been."""
        of_client = gap.role == CONSUMER
        if of_client:
            self.expect_clients()
        else:
            self.lose(gap.node)
            self.generations.lose(gap)
        self.consuming.lose(gap, of_client=of_client)

    def find_lines(self, gap: Gap) -> None:
        """From here on, they can have been no more."""
        of_client = gap.role == CONSUMER
        if not of_client:
            self.lose(gap.node)
            self.generations.find()
        self.consuming.find(gap, of_client=of_client)

    def leave(self, line: TraceLine) -> None:
        """That was the last line of a process, as far as is known."""
        of_client = line.role == CONSUMER
        if not of_client:
            super().leave(line)
        self.consuming.leave(line, of_client=of_client)
