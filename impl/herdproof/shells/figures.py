"""
Figures that servers of several protocols have in common, under the same names.

Each server has a registry of its own, so that two of them can live in one process (tests do that).
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from herdproof.shells.health import Health
from herdproof.shells.holds import Holds
from herdproof.shells.tallies import Moments

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""The buckets of waits: for ZooKeeper, for a rebalance."""
MOMENTS = (0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0)
"""The buckets of what a core itself takes for one event."""


class ServerFigures:
    """The figures of a server's connections; Prometheus reads `registry`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.health = Health()
        self.holds = Holds(registry)
        self.connections = Gauge("herdproof_connections", "Open connections.", registry=registry)
        self._cuts = Counter(
            "herdproof_connections_cut", "Connections that this end had a reason to end.",
            ["reason"], registry=registry,
        )  # fmt: skip

    def cut(self, reason: str) -> None:
        """A connection was ended for a reason of this end's own."""
        self._cuts.labels(reason).inc()


class CoordinatorFigures:
    """The figures of whoever coordinates groups, while it is elected; `rebalance`: from, and to."""

    def __init__(self, registry: CollectorRegistry, rebalance: str) -> None:
        self._leads = Gauge(
            "herdproof_leads", "Whether this broker coordinates (0 or 1).", registry=registry
        )
        self._epoch = Gauge(
            "herdproof_epoch", "The last epoch that this broker led in.", registry=registry
        )
        self.event_seconds = Moments(
            "herdproof_event_seconds", "What the core takes for one event.", MOMENTS, registry
        )
        self.members = Gauge(
            "herdproof_members", "Members of all groups that it coordinates.", registry=registry
        )
        self.rebalances = Histogram(
            "herdproof_rebalance_seconds", rebalance, buckets=SECONDS, registry=registry
        )

    def elected(self, epoch: int) -> None:
        """It leads."""
        self._leads.set(1)
        self._epoch.set(epoch)

    def deposed(self) -> None:
        """It leads no more."""
        self._leads.set(0)
