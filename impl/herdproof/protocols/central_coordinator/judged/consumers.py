"""
Consumers' lines as the contract's fields: who consumes what, and how far it is.

A member is a connection: its consumer's id and its number. That a lease is over is taken where
somebody relies on it; if its consumer renews it all the same, it has never ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from herdproof.consuming.subscription import (
    InvalidSubscription,
    Subscription,
    parse,
)
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdspec.check.observation.inconclusive import (
    UNKNOWN,
    Inconclusive,
    LastReported,
    as_told,
    is_lost,
    same,
)
from herdspec.check.observation.observed import Observed

Partition = tuple[str, str]
Member = tuple[str, int]

NOTHING_NEW = False
"""Result of a line that says what was said before."""
OF_CONSUMERS = ("consumes", "position", "resolved", "heeded", "interest")
"""Fields that the lines of consumers tell, each of its own members."""

DROPPED = 16
"""The number of ended members that are known again if somebody speaks of them."""


class Consumers:
    """The lines of a group's consumers, as steps of the contract's fields."""

    def __init__(self, seen: Observed, stored: Mapping[Partition, int]) -> None:
        self.seen = seen
        self._entries = seen.entries
        self._partitions = seen.domains["Partition"]
        self._members = seen.domains["Member"]
        self._stored = stored
        """Offsets that were stored before the trace begins."""
        self._connection: dict[str, Member] = {}
        self._consumed: dict[str, dict[Partition, tuple[Member, int]]] = {}
        """Partitions that it consumes, as which member, and from where on."""
        self._begun: dict[str, tuple[Member, int]] = {}
        """As which member, and in which generation, it began to."""
        self._asked: set[tuple[Member, Partition]] = set()
        """Offsets that it has asked to be stored, since it resolved where to begin."""
        self._had: dict[str, dict[Partition, tuple[Member, int]]] = {}
        """Partitions that it consumed before lines of it were missing."""
        self._lost: dict[str, bool] = {}
        """Of whom lines are missing since it was known last what it consumed."""
        self._until_ns: dict[str, int] = {}
        """When its lease ends."""
        self._lapsed: set[str] = set()
        """Whose lease was over when others relied on that."""
        self._unheard: set[str] = set()
        """Of whom no line comes any more."""
        self._by_partition: dict[Partition, dict[str, None]] = {}
        self._subscribed: dict[Member, Subscription | None] = {}
        self._dropped: dict[Member, tuple[Any, Subscription | None, bool]] = {}
        """
        Members that have ended: what they had heeded, and what they had asked for.

        And true if their consumer had no later connection.
        """
        self._at_least: dict[Partition, int] = {}
        """Offset up to which a partition was finished at least, where nobody knows more."""
        self._hears_all = True
        """False if somebody may have finished more than any line has told, or will tell."""
        self._last: dict[str, tuple[Any, ...]] = {}
        """Words of it, or of its coordinator, that came last: most heartbeats say nothing new."""

    def partition(self, p: Partition) -> Partition:
        """A partition that is named; it was there before, and was nobody's."""
        if p not in self._partitions:
            self.seen.add("Partition", p)
            if self._stored.get(p):
                for field in ("committed", "finished"):
                    self.seen.refine(field, p, self._stored[p])
            if not self._hears_all:
                self.seen.leave("finished", p)
            for m in self._subscribed:
                self._begin(m, p)
        return p

    def was_stored(self, p: Partition) -> None:
        """Of a partition that was named already, it is now known what was stored before."""
        for field in ("committed", "finished"):
            now = self._entries[field][p]
            if not isinstance(now, Inconclusive) and now < self._stored[p]:
                self.seen.refine(field, p, self._stored[p])

    def close(self, time_ns: int) -> None:
        """Nothing more comes: who has no lease then consumes nothing."""
        self._lapse_all(self._consumed, time_ns)
        self.seen.step()

    def _begin(self, m: Member, p: Partition) -> None:
        """A member begins without the partition."""
        key = (m, p)
        if self._entries["consumes"][key] is UNKNOWN:
            self._is_nowhere(m, p)
        subscription = self._subscribed[m]
        if subscription is not None:
            self.seen.refine("interest", key, is_wanted(subscription, p[0]))

    def _is_nowhere(self, m: Member, p: Partition) -> None:
        for field, value in (("position", 0), ("resolved", False), ("consumes", False)):
            self.seen.refine(field, (m, p), value)

    def _member(self, line: CentralStep) -> Member:
        m = (line.consumer, line.connection)
        if m not in self._members:
            self._add(m)
        return m

    def _add(self, m: Member) -> None:
        """A member is named; of one that was dropped it is known that it consumes nothing."""
        self.seen.add("Member", m)
        if m in self._dropped:
            heeded, self._subscribed[m], is_present = self._dropped.pop(m)
            if is_present:  # it was silent, and goes on
                self._connection.setdefault(m[0], m)
            for p in self._partitions:
                self._begin(m, p)
            self.seen.refine("heeded", m, heeded)
            if m[0] in self._unheard:
                self._leave_member(m)

    def _has_ended(self, m: Member) -> bool:
        """True if a connection is over, as its consumer tells, and nothing is consumed over it."""
        node = m[0]
        if node in self._had or m not in self._subscribed:
            return False
        if node not in self._unheard and m in self.members_of(node):
            return False
        consumes = self._entries["consumes"]
        return not is_lost(self._entries["heeded"][m]) and all(
            as_told(consumes[m, p]) is False for p in self._partitions
        )

    def _drop(self, m: Member) -> None:
        """A member is needed no more: long runs have many."""
        is_present = self._connection.get(m[0]) == m
        self._dropped[m] = (self._entries["heeded"][m], self._subscribed.pop(m), is_present)
        if len(self._dropped) > DROPPED:
            del self._dropped[next(iter(self._dropped))]
        self._asked.difference_update((m, p) for p in self._partitions)
        self.seen.drop("Member", m)
        node = m[0]
        if m in self.members_of(node):
            self._connection.pop(node, None)
            for p in self._consumed.pop(node, {}):
                self._by_partition[p].pop(node, None)

    def _learn(self, field: str, key: Any, value: Any) -> None:
        """It is this now: a step, unless nobody knows what it was."""
        if self._entries[field][key] is UNKNOWN:
            self.seen.refine(field, key, value)
        else:
            self.seen.set(field, key, value)

    # ── Their lines ─────────────────────────────────────────────────────────────────────────

    def consumer_start(self, line: CentralStep) -> None:
        """A process begins; of the one before nothing is left."""
        self._unheard.discard(line.node)
        self._ends(line.node)
        self._until_ns.pop(line.node, None)

    def consumer_register(self, line: CentralStep) -> None:
        """It is a new member, and has heeded the epoch that it knows of."""
        m = self._connection[line.node] = self._member(line)
        self._subscribed[m] = subscribed(line.subscription)
        for p in self._partitions:
            self._begin(m, p)
        self.seen.refine("heeded", m, line.epoch)
        self._renew(line)

    def consumer_resume(self, line: CentralStep) -> None:
        """It is the member that it was, and asks to be counted as one."""
        self._renew(line)

    def consumer_handle_ping(self, line: CentralStep) -> bool:
        """It heeds an epoch, and is where it says."""
        said = (line.partitions, line.epoch, line.connection)
        is_new = self._last.get(line.node) != said
        if is_new:
            self._heeds(line)
            self._last[line.node] = said
        is_new = is_new or line.node in self._lapsed
        self._renew(line)
        return is_new

    def consumer_commit(self, line: CentralStep) -> None:
        """It is where it says, and asks for that to be stored."""
        self._heeds(line)
        m = self._member(line)
        self._asked.update((m, (t, n)) for t, n, _ in line.partitions)
        self._renew(line)

    def consumer_handle_stop(self, line: CentralStep) -> None:
        """It is where it says, and then consumes nothing, unless its lease goes on."""
        self._heeds(line)
        self.seen.step()
        if line.until_ns <= line.time_ns:
            self._ends(line.node)
        self._renew(line)

    def consumer_on_lost_connection(self, line: CentralStep) -> None:
        """It consumes nothing, unless its lease goes on; it had finished what it says."""
        m, has = self._member(line), self._consumed.get(line.node, {})
        for t, n, o in line.partitions:
            if (t, n) in has and has[t, n][0] == m:
                self._finishes((t, n), o + 1, has[t, n][1])
        if line.until_ns <= line.time_ns:
            self._ends(line.node)
        self._renew(line)

    def consumer_renew_lease(self, line: CentralStep) -> None:
        """Its lease ends at another time."""
        self._renew(line)

    def consumer_handle_start(self, line: CentralStep) -> None:
        """It consumes what it is given, from there on; what it has on the same terms goes on."""
        m = self._member(line)
        self._learn("heeded", m, line.epoch)
        told = as_told(self._entries["generation"][()])
        if type(told) is int and line.generation > told:
            self.doubt_finished()  # who has begun it, untold, may have heard of others, too
        if not line.outcome:
            given = {self.partition((t, n)): o + 1 for t, n, o in line.partitions}
            has = self._consumed.get(line.node, {})
            if has.keys() != given.keys() or any(x[0] != m for x in has.values()):
                self._ends(line.node)
                self.seen.step()
                self._begins(line.node, m, given, line)
        self._renew(line)

    def _begins(
        self, node: str, m: Member, given: Mapping[Partition, int], line: CentralStep
    ) -> None:
        self._until_ns[node] = line.until_ns
        self._consumed[node] = {p: (m, o) for p, o in given.items()}
        self._had.pop(node, None)
        self._begun[node] = m, line.generation
        for p, o in given.items():
            self._lapse_all(self._by_partition.get(p, ()), line.time_ns)
            self._by_partition.setdefault(p, {})[node] = None
            self._learn("consumes", (m, p), True)
            self._learn("position", (m, p), o)
            self._learn("resolved", (m, p), False)
        for p in self._partitions:
            if p not in given and self._entries["consumes"][m, p] is UNKNOWN:
                self._is_nowhere(m, p)

    def _heeds(self, line: CentralStep) -> None:
        m = self._member(line)
        if not is_known(self._entries["heeded"][m], line.epoch):
            self._learn("heeded", m, line.epoch)
        is_fetched = line.action != "commit"  # which may be of what it has stopped fetching
        if line.node in self._had and is_fetched:
            self._goes_on(line, m)
        has = self._consumed.get(line.node)
        positions = self._entries["position"]
        for t, n, o in line.partitions:
            p, key = (t, n), (m, (t, n))
            if p not in self._partitions:
                self.partition(p)
            if o < 0 or is_known(positions[key], o + 1):
                continue
            if has is not None and p in has:
                if positions[key] is UNKNOWN:
                    self.seen.refine("position", key, o + 1)
                else:
                    self._resolves(m, p, positions[key], has[p][1], o + 1)
                    self.seen.set("position", key, o + 1)
                self._finishes(p, o + 1, has[p][1])
            elif self._entries["consumes"][key] is UNKNOWN and is_fetched:
                self._lapse_all(self._by_partition.get(p, ()), line.time_ns)
                self.seen.step()
                self.seen.refine("consumes", key, True)
                self.seen.refine("position", key, o + 1)
                self.seen.refine("resolved", key, may_have_resolved(0))
                self._consumed.setdefault(line.node, {})[p] = (m, 0)
                self._by_partition.setdefault(p, {})[line.node] = None
                self._finishes(p, o + 1, 0)

    def _resolves(self, m: Member, p: Partition, position: Any, start: int, to: int) -> None:
        """Where no offset was stored, the first that it tells is its start; then it goes on."""
        if not start and same(position, 0):
            self.seen.set("resolved", (m, p), True)
            self._asked.discard((m, p))
        elif (m, p) in self._asked and self._entries["resolved"][m, p] is True and position != to:
            self.seen.set("resolved", (m, p), False)  # silent: it was told that this is stored
            self.seen.step()

    def _finishes(self, p: Partition, to: int, since: int) -> None:
        """Who began no later than the first unfinished record has finished all before `to`."""
        first = as_told(self._entries["finished"][p])
        if first is UNKNOWN:
            self._at_least[p] = max(to, self._at_least.get(p, 0))
        elif to > first and since <= first:
            self.seen.set("finished", p, self._at(to))

    def _at(self, finished: int) -> Any:
        """The offset up to which all is finished, or the least that it can be."""
        return finished if self._hears_all else LastReported(finished)

    def doubt_finished(self) -> None:
        """Who is heard no more may go on, and of who would hear it lines are missing."""
        self._hears_all = False
        for p in self._partitions:
            self.seen.leave("finished", p)

    def lose_finished(self) -> None:
        """Who tells how far it is, and who hears it, may both not have told: it was no less."""
        self._hears_all = False
        for p in self._partitions:
            first = as_told(self._entries["finished"][p])
            if not is_lost(first):
                self._at_least[p] = max(first, self._at_least.get(p, 0))
        self.seen.forget_all("finished")

    def _renew(self, line: CentralStep) -> None:
        """
        The lease ends as the line says; if others thought it over, it was not.

        Who fetches no more may wind up, until it has answered the Stop or its lease is over.
        """
        node = line.node
        if line.until_ns <= line.time_ns:
            return
        self._until_ns[node] = line.until_ns
        if node in self._lapsed:
            self.seen.step()
            self._lapsed.discard(node)
            for p, (m, start) in self._consumed.get(node, {}).items():
                others = [x for x in self._by_partition.get(p, ()) if x != node]
                self._lapse_all(others, line.time_ns)
                self.seen.forget("position", (m, p))
                self.seen.amend("consumes", (m, p), True)
                self.seen.amend("resolved", (m, p), may_have_resolved(start))

    def _lapse_all(self, nodes: Iterable[str], time_ns: int) -> None:
        """Have whoever, of these, is over its lease consume nothing."""
        for node in [*nodes]:
            if self._until_ns.get(node, 0) <= time_ns and node not in self._lapsed:
                self._lapsed.add(node)
                self._cease(node, self._consumed.get(node, {}))

    def _ends(self, node: str) -> None:
        """It consumes nothing."""
        had = self._consumed.pop(node, {})
        for p in had:
            self._by_partition[p].pop(node, None)
        self._cease(node, had)
        if self._lost.pop(node, None):
            self._consumes_nothing(node)
        self._lapsed.discard(node)
        self._last.pop(node, None)

    def _consumes_nothing(self, node: str) -> None:
        """Whatever it consumed while lines of it were missing, it does so no longer."""
        members = {*self.members_of(node), *(m for m, _ in self._had.pop(node, {}).values())}
        for m in members:
            for p in self._partitions:
                if self._entries["consumes"][m, p] is UNKNOWN:
                    self._is_nowhere(m, p)

    def _cease(self, node: str, had: Mapping[Partition, tuple[Member, int]]) -> None:
        is_heard = node not in self._unheard
        for p, (m, _) in had.items():
            for field, value in (("consumes", False), ("position", 0), ("resolved", False)):
                self.seen.set(field, (m, p), value if is_heard else LastReported(value))

    # ── Lines that are missing ──────────────────────────────────────────────────────────────

    def members_of(self, node: str) -> list[Member]:
        """The members whose entries a consumer's missing lines could have told."""
        current = self._connection.get(node)
        found = {m for m, _ in self._consumed.get(node, {}).values()}
        return sorted(found | ({current} if current is not None else set()))

    def lose_consumer(self, node: str) -> None:
        """Of a consumer lines are missing from here on."""
        had = self._consumed.pop(node, {})
        self._lost[node] = True
        if had:
            self._had[node] = had
        for p in had:
            self._by_partition[p].pop(node, None)
        self._lapsed.discard(node)
        self._last.pop(node, None)

    def _goes_on(self, line: CentralStep, m: Member) -> None:
        """Who consumes in the generation in which it did before a gap has not stopped in it."""
        had = self._had.pop(line.node, {})
        begun = self._begun.get(line.node)
        if begun != (m, line.generation) or not had:
            return
        self._consumed[line.node] = had
        for p in self._partitions:
            if p in had:
                self._by_partition.setdefault(p, {})[line.node] = None
            if self._entries["consumes"][m, p] is UNKNOWN:
                self.seen.refine("consumes", (m, p), LastReported(p in had))
            if self._entries["position"][m, p] is UNKNOWN:
                self.seen.refine("position", (m, p), LastReported(had[p][1] if p in had else 0))
            if self._entries["resolved"][m, p] is UNKNOWN:
                start = had[p][1] if p in had else 1
                self.seen.refine("resolved", (m, p), may_have_resolved(start))

    def leave_consumer(self, node: str) -> None:
        """That was its process's last line, whether it has ended or its trace was cut."""
        self._unheard.add(node)
        for m in self.members_of(node):
            self._leave_member(m)
        for p in self._consumed.get(node, ()):
            self.seen.leave("finished", p)

    def _leave_member(self, m: Member) -> None:
        for p in self._partitions:
            for field in ("consumes", "position", "resolved", "interest"):
                self.seen.leave(field, (m, p))
        self.seen.leave("heeded", m)


def may_have_resolved(start: int) -> Any:
    """False after a stored start; else `LastReported`: who began may have resolved that itself."""
    return False if start else LastReported(True)


@cache
def subscribed(text: str) -> Subscription | None:
    """The subscription that a Register asks for; None where nobody can say."""
    try:
        return parse(text)
    except InvalidSubscription:
        return None


@lru_cache(maxsize=4096)
def is_wanted(subscription: Subscription, topic: str) -> bool:
    """True if a subscription is for a topic."""
    return subscription.streams(topic) > 0


def is_known(value: Any, number: int) -> bool:
    """True if a value is known to be this number."""
    return type(value) is int and value == number
