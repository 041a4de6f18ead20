"""
Fills what the protocol itself promises of generations: by whom each is led, and which are told.

A `Member` is a member id. A generation is stored here whether it is assigned or not. Who is told of
one has heard it, or has not, until it names it; whether it leads, its own lines tell alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.pipeline.judging.gaps import Gap
from herdproof.protocols.group_protocol.judged.clients import SeenMembers
from herdproof.protocols.group_protocol.steps import NEW
from herdproof.protocols.group_protocol.traces.answers import JOINED
from herdspec.check.observation.inconclusive import (
    UNKNOWN,
    Inconclusive,
    LastReported,
    as_told,
    is_lost,
    joined,
    possible,
)

NEW_MEMBER: Mapping[str, Any] = {"said": 0, "at": 0, "leads": False}
INITIAL: Mapping[str, Any] = {"generation": UNKNOWN, **NEW_MEMBER}
HANDED_OUT = ("MEMBER_ID_REQUIRED", NEW)
"""Outcomes of a JoinGroup that hand out a member id."""
COMES_BACK = "replace_member"
"""A static member that comes back is given a member id, too."""
NAMES_ITS_OWN = ("handle_sync_group", "heartbeat", "handle_offset_commit")
"""Requests in which a member says in which generation it is."""
NO_MEMBER = (START, "reset_generation", "close")


class ToldGenerations(SeenMembers):
    """Which generation is stored, who is told of which, and who leads it."""

    _new: frozenset[str] = frozenset()
    """Member ids that were handed out, and of which nothing has come yet."""
    _remaining: tuple[int, frozenset[str]] = (0, frozenset())
    """The last generation in which a next life was stored, and its members since then."""

    # ── Lines of coordinators ───────────────────────────────────────────────────────────────

    def follow(self, line: TraceLine, *, is_told: bool) -> None:
        """The present coordinator's next line; it tells of a generation if it `is_told`."""
        of = line.arguments
        if not is_told and not self._may_say(line):
            return
        if of.get("outcome") in HANDED_OUT or (line.action == COMES_BACK and "member" in of):
            self._new |= {of["member"]}
        elif line.action == "expire":
            self._new -= {of["member"]}
        self._follow_members()
        for m in self._known(self._new):
            self._new -= {m[0]}
            for field, value in NEW_MEMBER.items():
                self.seen.refine(field, m, value)
        if is_told:
            for name in answered(line):
                self._tells((name,), of.get("generation", 0))
        elif line.action in NAMES_ITS_OWN:
            self._hears((of.get("member", ""),), of.get("generation", 0))
        self.seen.step()

    def finds(self, generation: int) -> None:
        """It is this one that is stored."""
        self.seen.refine("generation", (), generation)
        self.seen.step()

    def comes_back(self, members: Collection[str], generation: int) -> None:
        """A static member is stored under its new id; it is told of the present generation."""
        self._remaining = generation, frozenset(members)
        for m in self.seen.domains["Member"]:
            if as_told(self.seen.get("leads", m)) is True and m[0] not in members:
                self.seen.set("leads", m, False)
        self.seen.step()
        for name in members:
            if self._was_told((name,), 0):
                self._tells((name,), generation)

    def _may_say(self, line: TraceLine) -> bool:
        """True if a line may say anything new: most requests name a generation that is known."""
        if line.action in NAMES_ITS_OWN:
            at = self.seen.get("at", (line.arguments.get("member", ""),))
            return isinstance(at, Inconclusive)
        return line.action in ("handle_join_group", "complete_join", "expire", COMES_BACK)

    def _drop(self, m: tuple[str]) -> None:
        """Drop a member: that it may not have heard of its last generation matters no more."""
        among = possible(as_told(self.seen.get("at", m)))
        if among is not None:
            self.seen.refine("at", m, max(among))
        super()._drop(m)

    def _tells(self, m: tuple[str], generation: int) -> None:
        """A member is told of a generation, and is in it, or where it was."""
        at = self.seen.get("at", m)
        either = joined([as_told(at), generation])
        self.seen.set("said", m, generation)
        self.seen.refine("at", m, LastReported(either) if type(at) is LastReported else either)
        self.seen.forget("leads", m)

    def _hears(self, m: tuple[str], generation: int) -> None:
        """A member says in which generation it is; that counts if it was told of that."""
        if m in self.seen.domains["Member"] and self._was_told(m, generation):
            self._learn("at", m, generation)

    def _was_told(self, m: tuple[str], generation: int) -> bool:
        """True if it is known that this is the last generation that a member was told of."""
        return possible(self.seen.get("said", m)) == frozenset((generation,))

    # ── Lines of clients ────────────────────────────────────────────────────────────────────

    def take(self, line: TraceLine, names: Iterable[str]) -> bool:
        """The next line of a client, which had these member ids; whether it broke something."""
        m = (line.arguments.get("member", ""),)
        if line.action in JOINED and m in self.seen.domains["Member"]:
            self._joins(m, line.arguments.get("generation", 0), line.action == JOINED[0])
        for m in self._known(names if line.action in NO_MEMBER else ()):
            self._learn("leads", m, False)
        return self.seen.step()

    def _joins(self, m: tuple[str], generation: int, leads: bool) -> None:
        """A member says whether it leads a generation; that counts if it was told of that."""
        if not self._was_told(m, generation):
            self.seen.forget("at", m)
            self.seen.forget("leads", m)
            return
        self._learn("at", m, generation)
        of, remaining = self._remaining
        if leads and of == generation and m[0] not in remaining:
            self.seen.forget("leads", m)  # whether it has led before its next life did
            return
        self._learn("leads", m, leads)

    def _learn(self, field: str, m: tuple[str], value: Any) -> None:
        if is_lost(self.seen.get(field, m)):
            self.seen.refine(field, m, value)
        else:
            self.seen.set(field, m, value)

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def forget(self, *, is_cut: bool = False) -> None:
        """Somebody else may have coordinated; if a trace is cut, it is as told last."""
        self.seen.forget("generation", ())
        for field in NEW_MEMBER:
            (self.seen.leave_all if is_cut else self.seen.forget_all)(field)

    def lose(self, gap: Gap) -> None:
        """From here on, these lines of a coordinator may have been."""
        self.seen.gap(gap.lines, INITIAL)
        for field in INITIAL:
            self.seen.blind(field)

    def find(self) -> None:
        """From here on, they can have been no more."""
        for field in INITIAL:
            self.seen.sees(field)


def answered(line: TraceLine) -> Sequence[str]:
    """The members that a line says are answered."""
    of = line.arguments
    alone = [of["member"]] if "member" in of else []
    told: Sequence[str] = of.get("members", alone)
    return told
