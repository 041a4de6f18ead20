"""
The state of single groups, as Prometheus reads it: members, generation, phase.

Looked up in the core's own groups when somebody reads them, by another thread than the core's: each
figure is one that was so, and two of them may be of different moments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from herdproof.protocols.central_coordinator.coordinator.groups import Group


class GroupStates(Collector):
    """Of the groups that have a label (`names`) those that are known to the core."""

    def __init__(self, names: Collection[str], registry: CollectorRegistry) -> None:
        self._names = names
        self.groups: Mapping[str, Group] = {}
        """The core's; none before there is one, or while it does not lead."""
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The groups as they are now."""
        members = GaugeMetricFamily(
            "herdproof_group_members", "Members of a group.", labels=["group"]
        )
        generation = GaugeMetricFamily(
            "herdproof_group_generation", "The generation of a group.", labels=["group"]
        )
        phase = GaugeMetricFamily(
            "herdproof_group_phase",
            "1 for the phase that a group is in.",
            labels=["group", "phase"],
        )
        # One step each: the core's thread may add to both meanwhile.
        for name in list(self._names):
            if (group := self.groups.get(name)) is not None:
                members.add_metric([name], len(group.members))
                generation.add_metric([name], group.generation)
                phase.add_metric([name, group.phase.value], 1)
        yield from (members, generation, phase)
