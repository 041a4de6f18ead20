"""
Conditions that must hold once all has been quiet for long enough, as the contract's fields.

The group is said to be stable where nothing changes any more and nobody has anything left to do;
then `complete` and the goal of `settles` decide, and the assignor's promise of even shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from herdproof.consuming.assignment import uneven_share
from herdproof.consuming.offsets import NamedPartition
from herdproof.protocols.central_coordinator.judged.world_fields import (
    Consumes,
    Fields,
    GroupFields,
)
from herdproof.protocols.central_coordinator.judged.world_promises import (
    SETTLED,
    SHARES_ARE_EVEN,
    PromiseBroken,
    shown,
)
from herdproof.simulator.kafka import Log
from herdspec.protocols.contract.spec import Stage

if TYPE_CHECKING:
    from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
    from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer


class RunEnd:
    """The end of a run, which has been quiet since then, and had so long to settle."""

    def __init__(
        self, fields: Fields, brokers: Sequence[SimulatedBroker],
        consumers: Sequence[SimulatedConsumer], logs: Mapping[NamedPartition, Log],
    ) -> None:  # fmt: skip
        self._fields = fields
        self._leading = [broker.name for broker in brokers if broker.leads]
        self._members = [c for c in consumers if c.alive and not c.leaving]
        self._logs = {(p.topic, p.partition): log for p, log in sorted(logs.items(), key=str)}

    def judge(self, quiet_since_ms: float, settle_ms: float) -> None:
        """Every group is stable, has nothing left to do, and its shares are even."""
        changed_ms = self._fields.last_change_ms - quiet_since_ms
        unquiet = []
        if len(self._leading) != 1:
            unquiet.append(f"brokers that coordinate: {', '.join(self._leading) or 'none'}")
        if changed_ms > settle_ms:
            unquiet.append(f"fetchers were started or stopped {changed_ms / 1000:.1f} s after that")
        for name in sorted({m.group for m in self._members} or self._fields.groups):
            group = self._fields.of(name)
            members = [member for member in self._members if member.group == name]
            self._fill(group, members, is_stable=not unquiet)
            self._settles(group, [*unquiet, *self._left(group, members)])
            self._shares_are_even(group, members)

    def _fill(
        self, group: GroupFields, members: Sequence[SimulatedConsumer], *, is_stable: bool
    ) -> None:
        """Who lives and wants what, who consumes all that it owns; what is there must be known."""
        seen = group.seen
        for p in self._logs:
            seen.add("Partition", p)
            seen.set("exists", p, True)
            seen.set("known", p, bool(self._leading))
        for m in members:
            own = {p for p in self._logs if group.get("owner", p) is m}
            has = group.fetching.get(m, {}).keys() if m.may_deliver() else set()
            seen.add("Member", m)
            seen.set("live", m, True)
            seen.set("informed", m, own <= has)
            for p in self._logs:
                seen.set("interest", (m, p), _streams(m, p[0]) > 0)
        seen.set("stage", (), Stage.STABLE if is_stable else Stage.OPEN)
        group.step("everything has been quiet for long")

    def _settles(self, group: GroupFields, left: Sequence[str]) -> None:
        """The goal of `settles`, where something is left to do."""
        if left:
            group.seen.set("stage", (), Stage.OPEN)
            group.step("is not stable")
        if group.seen.status(SETTLED) is not True:
            self._breaks(SETTLED.name, group, "; ".join(left) or "a partition is not known")

    def _left(self, group: GroupFields, members: Sequence[SimulatedConsumer]) -> Iterator[str]:
        """Work that a group has not done yet: records to finish, offsets to commit by itself."""
        for p, log in self._logs.items():
            if not any(_streams(m, p[0]) for m in members):
                continue
            finished, committed = group.get("finished", p), group.get("committed", p)
            if finished != log.end + 1:
                yield f"{shown(p)} is finished with up to {finished - 1} of {log.end} records"
            elif committed != finished and any(m.member.auto_commit for m in members):
                yield f"{shown(p)} is finished with up to {log.end}, committed to {committed - 1}"

    def _shares_are_even(self, group: GroupFields, members: Sequence[SimulatedConsumer]) -> None:
        for topic in dict.fromkeys(topic for topic, _ in self._logs):
            many = sum(p[0] == topic for p in self._logs)
            has = Counter(m for m, had in group.fetching.items() for p in had if p[0] == topic)
            threads: dict[Consumes, int] = {m: _streams(m, topic) for m in members}
            if (m := uneven_share(many, has, threads)) is not None:
                how = f"{m.name} has {has[m]} of the {many} partitions of {topic}"
                self._breaks(SHARES_ARE_EVEN, group, how)

    def _breaks(self, promise: str, group: GroupFields, how: str) -> None:
        if promise in self._fields.watches:
            raise PromiseBroken(promise, f"{how} in group {group.name}: {promise}.")


def _streams(member: SimulatedConsumer, topic: str) -> int:
    return member.core.consumption.subscription.streams(topic)
