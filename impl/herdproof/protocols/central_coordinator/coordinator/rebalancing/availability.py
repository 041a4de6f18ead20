"""
Partitions that have no reader while their group is rebalanced: told as reports, with the cause.

A partition has a reader, as far as its coordinator knows, if its owner has acknowledged the Start
of the present generation and was sent no Stop since. What was before this coordinator's election,
or before the first member is back after it, is not counted here: an audit tells it.
"""

from __future__ import annotations

from herdproof.protocols.central_coordinator.coordinator.context import CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group, WithoutReader
from herdproof.protocols.central_coordinator.reports import What

LEASE, RETURN, STOP, REBALANCE, START = "lease", "return", "stop", "rebalance", "start"
FAILURE, NOBODY = "failure", "nobody"
"""Causes, called as the audit calls them."""

NAMED = 5
"""The most partitions that are named when they are read again."""


class Availability(CorePart):
    """Time for which partitions of each group have had no reader, and what stood in the way."""

    def waits(self, group: Group) -> None:
        """A group's rebalance cannot go on: for a lease, or for who is expected back."""
        why = LEASE if group.ghosts else RETURN if group.expected else ""
        if not why or not group.members or not self.hinders(group, why):
            return
        assert group.outage is not None, "it has just begun, or is another one"
        details: dict[str, str | int] = {"who": next(iter(group.expected), ""), "left_ms": 0}
        what = f"consumer {details['who']} to come back"
        if why == LEASE:
            last = max(group.ghosts.values(), key=lambda ghost: ghost.until_ms)
            left_ms = max(0, last.until_ms - self._outbox.now_ms)
            details = {"who": last.registration, "left_ms": left_ms}
            what = f"the lease of consumer {last.consumer_id} ({last.registration}), "
            what += f"{left_ms / 1000:.1f} s left"
        many = len(group.ghosts) if why == LEASE else len(group.expected)
        what += f", and {many - 1} more" if many > 1 else ""
        self._outbox.report(
            What.REBALANCE_WAITS, group.name, why=what, **details,
            partitions=len(group.outage.partitions),
        )  # fmt: skip

    def hinders(self, group: Group, why: str) -> bool:
        """This is in the way from now on; whether it was not, and somebody is missed."""
        outage, now_ms = group.outage, self._outbox.now_ms
        if outage is None:
            unread = self._unread(group)
            if not unread:
                return False
            group.outage = WithoutReader(now_ms, unread, why, now_ms)
            return True
        if outage.why == why:
            return False
        self._account(group, outage, why)
        return True

    def ends(self, group: Group) -> None:
        """A group is stable, or has no members any more."""
        outage, group.outage = group.outage, None
        if outage is None:
            return
        self._account(group, outage, NOBODY)
        if group.members:
            ms = self._outbox.now_ms - outage.since_ms
            named = [f"{topic}-{number}" for topic, number in sorted(outage.partitions)]
            more = len(named) - NAMED
            of = ", ".join(named[:NAMED]) + (f" and {more} more" if more > 0 else "")
            self._outbox.report(
                What.READ_AGAIN, group.name, ms=ms, partitions=len(named), of=of,
                causes=", ".join(f"{why} {n / 1000:.1f} s" for why, n in outage.past_ms.items()),
            )  # fmt: skip

    def _account(self, group: Group, outage: WithoutReader, why: str) -> None:
        """Account for the time that the last cause has taken, and begin with this one."""
        now_ms = self._outbox.now_ms
        past_ms = now_ms - outage.why_ms
        outage.past_ms[outage.why] = outage.past_ms.get(outage.why, 0) + past_ms
        self._outbox.report(What.UNREAD, group.name, why=outage.why, ms=past_ms)
        outage.why, outage.why_ms = why, now_ms

    def _unread(self, group: Group) -> set[tuple[str, str]]:
        """The partitions that nobody reads, of those that somebody is to read."""
        reading = {n for n, m in group.members.items() if m.acked == group.generation}
        read = {p for p, owner in group.owners.items() if owner.registration in reading}
        return (group.owners.keys() | group.plan.keys()) - read
