"""
A group coordinator's counters and measurements, as Prometheus reads them.

They are computed from what any observer is told: the core as it is after an event, and the steps
that it has taken. Nothing is labelled by group or member, whose number has no bound that a
monitoring system likes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Gauge

from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.effects import GroupEffect
from herdproof.protocols.group_protocol.steps import GroupStep
from herdproof.shells.figures import CoordinatorFigures
from herdproof.shells.tallies import LabelCounts

OF_OFFSETS = frozenset({
    "heartbeat", "handle_offset_commit", "commit_from_outside", "flush_offsets", "answer_commits",
    "handle_offset_fetch",
})  # fmt: skip
"""Steps by which nobody becomes a member, and no group comes to another state."""
ALL_GROUPS = ""
"""The name of a group in steps that are about all of them."""
REBALANCES = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})


class GroupMetrics:
    """The figures; the shell calls these methods, Prometheus reads the registry."""

    def __init__(
        self, registry: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        registry = registry or CollectorRegistry()
        self.coordinator = CoordinatorFigures(
            registry, "From when all are to join anew to the assignment that all are told."
        )
        self._groups = Gauge(
            "herdproof_groups", "Groups that it coordinates, with members or without.",
            registry=registry,
        )  # fmt: skip
        self._steps = LabelCounts(
            "herdproof_steps",
            "Steps that the core took; `steps.py` lists them.",
            "action",
            registry,
        )
        self._reports = LabelCounts(
            "herdproof_reports", "What the core reported; `reports.py` lists it.", "what", registry
        )
        self._beyond = Gauge(
            "herdproof_groups_beyond_bound", "Groups that there are beyond `max_groups`.",
            registry=registry,
        )  # fmt: skip
        self._clock = clock
        self._members: dict[str, int] = {}
        """The number of members of each group that has any."""
        self._all_members = 0
        self._began: dict[str, float] = {}
        """Of each group that rebalances: since when."""

    def observed(self, core: GroupCoordinator, effects: Sequence[GroupEffect]) -> None:
        """The core has taken an event, which has led to these effects."""
        touched: set[str] = set()
        for effect in effects:
            if isinstance(effect, GroupStep):
                self._steps.counts[effect.action] += 1
                if effect.action == "answer_syncs":
                    self._ended(effect.group)
                if effect.action not in OF_OFFSETS:
                    touched.add(effect.group)
        if ALL_GROUPS in touched:
            touched |= {*self._members, *self._began}
        for group in touched:
            self._look_at(core, group)
        if touched:
            self.coordinator.members.set(self._all_members)
            self._groups.set(len(core.groups))
            self._beyond.set(max(0, len(core.groups) - core.settings.max_groups))

    def reported(self, report: Report) -> None:
        """Something was reported."""
        self._reports.counts[report.what] += 1

    def _look_at(self, core: GroupCoordinator, name: str) -> None:
        """Note how many members a group has, and whether it rebalances."""
        group = core.groups.get(name)
        now = 0 if group is None else len(group.members)
        self._all_members += now - self._members.pop(name, 0)
        if now:
            self._members[name] = now
        if group is not None and group.state in REBALANCES:
            self._began.setdefault(name, self._clock())
        elif group is None or group.is_in(GroupState.EMPTY):
            self._began.pop(name, None)

    def _ended(self, name: str) -> None:
        """A group's assignment is stored, and told to all who wait for it."""
        began = self._began.pop(name, None)
        if began is not None:
            self.coordinator.rebalances.observe(self._clock() - began)
