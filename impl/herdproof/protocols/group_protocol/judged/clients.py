"""
Fills from our clients' lines what the contract asks of members: no guard, no judgement.

The fenced form is judged: a member consumes while its generation is the one whose assignment is
stored; who goes on longer counts no more. Whose client tells nothing may consume whatever it is
told that it is assigned, and may finish anything.

How far applications are is the largest of what all have told: it is known only while nobody can
have told more. From the first line on that is missing, nobody knows it; once a process is heard no
more that did not say that it closes, it is what was told last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.pipeline.judging.gaps import Gap
from herdproof.protocols.group_protocol.judged.entries import Member, Partition
from herdproof.protocols.group_protocol.traces.answers import JOINED
from herdspec.check.observation.inconclusive import UNKNOWN, LastReported, as_told, is_lost, same
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import Watches

INITIAL: Mapping[str, Any] = {
    "consumes": False, "position": 0, "finished": UNKNOWN, "owner": UNKNOWN, "committed": UNKNOWN,
}  # fmt: skip
OF_MEMBERS = ("consumes", "position")
READ = ("owner", "committed")
"""Fields that coordinators' lines fill."""
STOPS = (
    START, "initiate_join_group", "join_again", "reset_generation", "lose", "poll_time_out",
    "close",
)  # fmt: skip
"""Lines after which a client consumes nothing, until it tells that it begins."""
LOST = ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "ILLEGAL_GENERATION")
"""Errors by which it learns that it is a member no more."""


class SeenMembers:
    """Members as a contract's entries have them, in a table of their own."""

    def __init__(self, watches: Watches, contract: Observed) -> None:
        self.seen = Observed(watches)
        self._contract = contract

    def _follow_members(self) -> None:
        """Have a row for each member that the contract's table has, and for no other."""
        own, there = self.seen.domains["Member"], self._contract.domains["Member"]
        if own.keys() != there.keys():
            for m in [m for m in own if m not in there]:
                self._drop(m)
            for m in there:
                self.seen.add("Member", m)

    def _drop(self, m: Member) -> None:
        self.seen.drop("Member", m)

    def _known(self, names: Iterable[str]) -> list[Member]:
        members = self.seen.domains["Member"]
        return [(name,) for name in sorted(names) if (name,) in members]


class ConsumingClients(SeenMembers):
    """Who consumes what, from where, and how far all are."""

    def __init__(self, watches: Watches, contract: Observed) -> None:
        super().__init__(watches, contract)
        self._joined: dict[str, int] = {}
        """By member id, the generation that its client says it has joined."""
        self._early: dict[str, tuple[int, frozenset[Partition]]] = {}
        """By member id, what its client begins with in a generation of which it is not told yet."""
        self._said: dict[str, dict[Partition, int]] = {}
        """By member id, the offsets that its client says it has committed, each the largest."""
        self._kept: dict[str, set[Partition]] = {}
        """By member id, what its client kept as it joined last, and only goes on with."""
        self._untimely: set[str] = set()
        """Member ids whose clients' clocks are behind their coordinators'."""
        self._ids: dict[str, set[str]] = {}
        """By node, the member ids that its present process has had."""
        self._unheard: set[str] = set()
        """Member ids of whom nothing is heard any more."""
        self._is_whole = True
        """True if nobody can have finished more than was told."""
        self._has_left = False
        """True if somebody may have finished more after its last line."""
        self._blind: dict[str, list[list[Member]]] = {}
        """By node, whose entries are blind while lines of it are missing."""
        self._remaining: frozenset[str] | None = None
        """Whom no next life can have replaced in the present generation; None: nobody was."""

    def ids_of(self, node: str) -> frozenset[str]:
        """The member ids that a client's present process has had."""
        return frozenset(self._ids.get(node, ()))

    # ── Lines of coordinators ───────────────────────────────────────────────────────────────

    def follow(self) -> None:
        """Take owners and offsets as the contract's entries have them now."""
        self._follow_members()
        entries = self._contract.entries
        for p in self._contract.domains["Partition"]:
            if p not in self.seen.domains["Partition"]:
                self._appears(p)
            for field in READ:
                if not same(self.seen.get(field, p), entries[field][p]):
                    self.seen.refine(field, p, entries[field][p])
        self.seen.step()

    def _appears(self, p: Partition) -> None:
        """A partition is named: what is stored of it then was finished before anybody told."""
        self.seen.add("Partition", p)
        stored = self._contract.entries["committed"][p]
        if not is_lost(stored):
            self._finish(p, as_told(stored))

    def hands_over(self) -> None:
        """These are the owners from now on: whoever consumes counts no more."""
        self._remaining = None
        for field, value in (("consumes", False), ("position", 0)):
            self.seen.set_all(field, value)
            for m in self._known(self._unheard):
                for p in self.seen.domains["Partition"]:
                    self.seen.set(field, (m, p), LastReported(value))
        self.seen.step()

    def is_told(self, names: Iterable[str], generation: int) -> None:
        """These are told what they are assigned; whose client has not said so may consume it."""
        for name in names:
            of, starts = self._early.get(name, (0, frozenset()))
            if of == generation:
                del self._early[name]
                self._has_begun((name,), starts)
            elif self._joined.get(name) != generation:
                self._forget([(name,)])
                self.lose_finished()

    def _has_begun(self, m: Member, starts: Collection[Partition]) -> None:
        """A member has said already that it consumes these; how far it is, it says again."""
        if self._may_be_replaced(m, starts):
            self._forget([m])  # by whose clock did its next life come first?
            return
        for p in self.seen.domains["Partition"]:
            self.seen.refine("consumes", (m, p), p in starts)
            if p in starts:
                self.seen.forget("position", (m, p))

    def commits(self, name: str, offsets: Mapping[Partition, int]) -> None:
        """
        A coordinator reads a commit, which its client has told before.

        If it has not, lines of it are missing, or come late: it may have finished more by now.
        """
        said = self._said.get(name, {})
        if any(said.get(p, 0) < offset for p, offset in offsets.items()):
            self._untimely.add(name)
            self.lose_finished()

    def _drop(self, m: Member) -> None:
        super()._drop(m)
        self._said.pop(m[0], None)
        self._joined.pop(m[0], None)
        self._early.pop(m[0], None)
        self._kept.pop(m[0], None)
        self._untimely.discard(m[0])

    def forget(self, *, is_cut: bool = False) -> None:
        """Forget who consumes: the owners may be others; if a trace is cut, it is as told last."""
        self._remaining = frozenset()
        for field in OF_MEMBERS:
            (self.seen.leave_all if is_cut else self.seen.forget_all)(field)

    def replaces(self, owners: Mapping[Partition, Member], members: Iterable[str]) -> None:
        """Members go on under other ids: who has had their partitions counts no more."""
        self._remaining = frozenset(members)
        for p, owner in owners.items():
            for m in self.seen.domains["Member"]:
                if m != owner:
                    self.seen.set("consumes", (m, p), False)
                    self.seen.set("position", (m, p), 0)
        self.seen.step()

    # ── Lines of clients ────────────────────────────────────────────────────────────────────

    def take(self, line: TraceLine, *, is_settled: bool) -> bool:
        """
        The next line; whether it broke something.

        If it is not `is_settled`, something else may be stored than coordinators' lines tell.
        """
        of, name = line.arguments, line.arguments.get("member", "")
        if line.action in STOPS or of.get("outcome") in LOST:
            self._stops(line)
        if name:
            self._ids.setdefault(line.node, set()).add(name)
        if line.action == "initiate_join_group":
            self._kept[name] = {(t, str(n)) for _, t, n in of.get("owners", ())}
        elif line.action in JOINED:
            self._joined[name] = of.get("generation", 0)
        elif line.action == "update_fetch_positions":
            self._begins((name,), of.get("generation", 0), marks(line), is_settled=is_settled)
        elif line.action == "commit":
            said = self._said.setdefault(name, {})
            said.update({p: max(at, said.get(p, 0)) for p, at in marks(line).items()})
        elif line.action in ("resolve_start", "consume"):
            for p, offset in marks(line).items():
                self._is_at((name,), p, offset)
        return self.seen.step()

    def _stops(self, line: TraceLine) -> None:
        names = self.ids_of(line.node)
        for name in names & self._early.keys():
            self._end_early(name)
        for m in self._known(names):
            for p in self.seen.domains["Partition"]:
                self._learn("consumes", (m, p), False)
                self._learn("position", (m, p), 0)
        if line.action == START:
            self._unheard -= self._ids.pop(line.node, set())
            for name in names:
                self._joined.pop(name, None)

    def _begins(
        self, m: Member, generation: int, starts: Mapping[Partition, int], *, is_settled: bool
    ) -> None:
        """A member consumes from there, if its generation is the present one."""
        present = self._contract.entries["generation"][()]
        if is_lost(present) or generation > present:
            self.forget()  # others may have begun in that generation, too
        if is_lost(present) or generation < present:
            return
        if generation > present or m not in self.seen.domains["Member"]:
            self._early[m[0]] = generation, frozenset(starts)
            return
        if self._may_be_replaced(m, starts):
            self._forget([m])  # it counts if it has begun before its next life was stored
            return
        said = self._said.get(m[0], {})
        is_settled = is_settled and m[0] not in self._untimely
        for p in self.seen.domains["Partition"]:
            stored = self.seen.get("committed", p)
            is_read = not is_lost(stored) and said.get(p, 0) <= stored
            is_known = is_settled and is_read and p not in self._kept.get(m[0], ())
            self._learn("consumes", (m, p), p in starts)
            self._learn("position", (m, p), starts.get(p, 0) if is_known else UNKNOWN)
        self.seen.step()
        for p in self.seen.domains["Partition"]:
            self.seen.refine("position", (m, p), starts.get(p, 0))

    def _end_early(self, name: str) -> None:
        """A client's deeds in its generation are not known once its coordinator tells of that."""
        self._early.pop(name, None)
        self._joined.pop(name, None)

    def _may_be_replaced(self, m: Member, starts: Iterable[Partition]) -> bool:
        """True if a next life may have what a member begins with: clocks tell not which is late."""
        if self._remaining is None or m[0] in self._remaining:
            return False
        return any(not same(self.seen.get("owner", p), m) for p in starts)

    def _is_at(self, m: Member, p: Partition, offset: int) -> None:
        """All before that offset is finished."""
        if p not in self.seen.domains["Partition"]:
            self.lose_finished()  # it says so before its coordinator can have told it
            return
        self._finish(p, offset)
        self.seen.step()
        if as_told(self.seen.get("consumes", (m, p))) is True:
            self.seen.set("position", (m, p), offset)
            self.seen.step()

    def _finish(self, p: Partition, offset: int) -> None:
        if not self._is_whole:
            return
        known = as_told(self.seen.get("finished", p))
        offset = offset if is_lost(known) else max(offset, known)
        value = LastReported(offset) if self._has_left else offset
        if not same(self.seen.get("finished", p), value):
            self._learn("finished", p, value)

    def is_reset(self, offsets: Mapping[Partition, int]) -> None:
        """Somebody else has set them: what lies before counts as finished."""
        for p, offset in offsets.items():
            if p in self.seen.domains["Partition"]:
                self._finish(p, offset)

    def _learn(self, field: str, key: Any, value: Any) -> None:
        if is_lost(self.seen.get(field, key)):
            self.seen.refine(field, key, value)
        else:
            self.seen.set(field, key, value)

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def _forget(self, members: Iterable[Member]) -> None:
        for m in members:
            for field in OF_MEMBERS:
                self.seen.forget_all(field, m)

    def lose_finished(self) -> None:
        """Somebody may have finished more than is told, from now on."""
        if self._is_whole:
            self._is_whole = False
            self.seen.blind("finished")

    def come_late(self) -> None:
        """Others have told of the group before any client did: of these something is missing."""
        self.forget()
        self.lose_finished()

    def lose(self, gap: Gap, *, of_client: bool) -> None:
        """From here on, these lines may have been."""
        self.seen.gap(gap.lines, INITIAL)
        self.lose_finished()
        if of_client:
            members = self._known(self.ids_of(gap.node))
            self._blind.setdefault(gap.node, []).append(members)
            for m in members:
                self._end_early(m[0])
                for field in OF_MEMBERS:
                    self.seen.blind(field, m)
        else:
            self._remaining = frozenset()
            for field in OF_MEMBERS:
                self.seen.blind(field)

    def find(self, gap: Gap, *, of_client: bool) -> None:
        """From here on, they can have been no more."""
        if of_client:
            for m in self._blind[gap.node].pop(0) if self._blind.get(gap.node) else ():
                self._joined.pop(m[0], None)
                for field in OF_MEMBERS:
                    self.seen.sees(field, m)
        else:
            for field in OF_MEMBERS:
                self.seen.sees(field)

    def leave(self, line: TraceLine, *, of_client: bool) -> None:
        """That was the last line of a process, as far as is known."""
        if line.action == "close":
            return
        self._has_left = True
        self.seen.leave_all("finished")
        names = self.ids_of(line.node) if of_client else frozenset()
        self._unheard |= names
        for m in self._known(names):
            for p in self.seen.domains["Partition"]:
                for field in OF_MEMBERS:
                    self.seen.leave(field, (m, p))


def marks(line: TraceLine) -> dict[Partition, int]:
    """The offsets that a line tells, each one more."""
    return {(t, str(n)): offset + 1 for t, n, offset in line.arguments.get("offsets", ())}
