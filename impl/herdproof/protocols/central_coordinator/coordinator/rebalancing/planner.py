"""
Plans who is to get what, in portions, and remembers a plan while nothing has changed.

A plan weighs each topic with each subscription and each member of a group: together that can be
millions of steps. From one tick to the next no more than a portion of them is taken, whichever
groups they are for; who is not done goes on with the next. A rebalance asks for its plan several
times, and as a rule nobody has come or gone in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from herdproof.consuming.assignment import Partition, Share, shares
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Making

PORTION = 60_000
"""Number of steps, of 50 to 150 ns each, taken until the next tick: 3 to 10 ms."""


class GroupPlans(CorePart):
    """The plans of all groups."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._topics = context.topics
        self._matches = context.matches
        self._left = PORTION

    # ── Portions ────────────────────────────────────────────────────────────────────────────

    def portion(self) -> None:
        """A tick has come: a new portion begins."""
        self._left = PORTION

    def is_used_up(self) -> bool:
        """True if this portion is used up: the next tick goes on."""
        return self._left <= 0

    def spend(self, steps: int) -> bool:
        """Take so many steps of this portion; False if it lacks them and is no whole one."""
        if steps > self._left and self._left < PORTION:
            return False
        self._left -= steps
        return True

    # ── Plans ───────────────────────────────────────────────────────────────────────────────

    def is_planned(self, group: Group) -> bool:
        """Go on with a group's plan until it is done, or this portion is used up; whether it is."""
        making = self._making(group)
        while making.rest is not None and not self.is_used_up():
            self._go_on(group, making)
        return making.rest is None

    def plan(self, group: Group) -> dict[Partition, str]:
        """Who is to get what: the partitions that there are, for the members that live."""
        making = self._making(group)
        while making.rest is not None:
            self._go_on(group, making)
        return making.plan

    def plans_any(self, group: Group) -> bool:
        """True if there is anything for a group's members to consume."""
        making = self._making(group)
        while making.rest is not None and not (making.plan and self.is_used_up()):
            self._go_on(group, making)
        return bool(making.plan)

    def _making(self, group: Group) -> Making:
        """The plan that is being made, or was, for these members and topics; else a new one."""
        names = (*group.members,)
        making = group.making
        if making is None or making.members != names or making.topics != self._topics.changes:
            making = group.making = Making(names, self._topics.changes, self._shares(group))
        return making

    def _shares(self, group: Group) -> Iterator[Share]:
        """A plan, topic by topic."""
        members = group.members.values()
        each = {id(member.subscription): member.subscription for member in members}
        topics = self._topics.of(each.values())
        who = [(m.consumer_id, m.registration, m.subscription) for m in members]
        self._left -= len(who)
        return shares(topics, who, self._matches.columns)

    def _go_on(self, group: Group, making: Making) -> None:
        """Plan for one more topic."""
        assert making.rest is not None
        share = next(making.rest, None)
        if share is None:
            making.rest = None
            fitting = self._fitting(making.plan)
            group.unread = len(making.plan) - len(fitting)
            making.plan = fitting
        else:
            making.plan.update(share)
            self._left -= 8 + len(making.members) + len(share)

    def _fitting(self, plan: dict[Partition, str]) -> dict[Partition, str]:
        """As much of a plan as each member's Start can say: a larger one would be sent for ever."""
        most = self._settings.max_start_bytes
        if sum(said_in(partition) for partition in plan) <= most:
            return plan
        said: Counter[str] = Counter()
        fitting = {}
        for partition, name in plan.items():
            said[name] += said_in(partition)
            if said[name] <= most:
                fitting[partition] = name
        return fitting


def said_in(partition: Partition) -> int:
    """The number of bytes of a Start that say a partition: two strings, and an offset."""
    topic, number = partition
    return len(topic.encode()) + len(number) + 12
