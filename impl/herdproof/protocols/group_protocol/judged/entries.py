"""
Entries of the contract that lines about a group fill, and how an offset is taken.

A `Member` is a member id, a `Partition` a topic and a number. Offsets are one more than told, 0 is
"none stored".
"""

from __future__ import annotations

from typing import Any

from herdproof.pipeline.judging.changes import Changes
from herdspec.check.observation.inconclusive import is_lost, possible
from herdspec.check.observation.observed import Observed

Member = tuple[str]
Partition = tuple[str, str]


class GroupEntries:
    """The entries of one group's fields."""

    def __init__(self, seen: Observed) -> None:
        self.seen = seen
        self.tells: Changes | None = None
        self._entries = seen.entries
        self._partitions = seen.domains["Partition"]
        self._members = seen.domains["Member"]
        self._is_whole = False
        """True if nothing is stored of what no line has told."""

    def learn(self, field: str, key: Any, value: Any) -> None:
        """An entry is this from now on, or is known again."""
        if is_lost(self._entries[field][key]):
            self.seen.refine(field, key, value)
        else:
            self.seen.set(field, key, value)

    def finds(self, field: str, key: Any, value: Any) -> None:
        """Learn what is stored, as somebody reads it; where it cannot be, nobody wrote it."""
        among = possible(self._entries[field][key])
        if among is None or value in among:
            self.seen.refine(field, key, value)
        else:
            if "author" in self._entries:
                self.seen.set("author", (), None)
            self.seen.set(field, key, value)

    def finds_owner(self, p: Partition, owner: Member | None) -> None:
        """Whose a partition is, as somebody reads."""
        was_lost = is_lost(self._entries["owner"][p])
        self.finds("owner", p, owner)
        if was_lost and self.tells is not None and not is_lost(self._entries["owner"][p]):
            self.tells.owns(p, owner)

    def partition(self, topic: str, number: int) -> Partition:
        """A partition, of which nothing is stored where that would have been told."""
        p = (topic, str(number))
        if p not in self._partitions:
            self.seen.add("Partition", p)
            if self._is_whole:
                self.seen.refine("committed", p, 0)
                self.seen.refine("owner", p, None)
        return p

    def member(self, name: str) -> Member:
        """A member."""
        m = (name,)
        if m not in self._members:
            self.seen.add("Member", m)
            if self.tells is not None:
                self.tells.named(m, name, name)
        return m

    def takes(self, p: Partition, offset: int, name: str, owner: Member | None) -> None:
        """An offset is taken that a member has said; the owner then and there may be another."""
        if is_lost(owner):
            self.seen.forget("accepted", p)
            return
        m = self.member(name)
        if owner == m:
            self.seen.suppose("committing", (m, p), offset)
        elif not is_lost(self._entries["accepted"][p]):
            self.seen.suppose("accepted", p, 0)  # whatever it says is taken, and is new
        self.learn("accepted", p, offset)
        self.seen.step()
