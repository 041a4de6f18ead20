"""A broker's counters and measurements, as Prometheus reads them."""

from __future__ import annotations

from kafka.protocol.api_key import ApiKey
from prometheus_client import CollectorRegistry, Counter, Gauge

from herdproof.shells.health import Health
from herdproof.shells.holds import Holds


class BrokerMetrics:
    """The figures of connections and requests; Prometheus reads `registry`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.health = Health()
        self.holds = Holds(registry)
        self.connections = Gauge("herdproof_connections", "Open connections.", registry=registry)
        self._cuts = Counter(
            "herdproof_connections_cut", "Connections that this end had a reason to end.",
            ["reason"], registry=registry,
        )  # fmt: skip
        self._requests = Counter(
            "herdproof_requests", "Requests that came.", ["request"], registry=registry
        )
        self._of = {int(api): self._requests.labels(api.name) for api in ApiKey}

    def cut(self, reason: str) -> None:
        """A connection was ended for a reason of this end's own."""
        self._cuts.labels(reason).inc()

    def requested(self, api: int) -> None:
        """A request came, of a type that there is."""
        counter = self._of.get(api)
        if counter is not None:
            counter.inc()
