"""A broker's counters and measurements, as Prometheus reads them."""

from __future__ import annotations

from kafka.protocol.api_key import ApiKey
from prometheus_client import Counter

from herdproof.shells.figures import ServerFigures


class BrokerMetrics(ServerFigures):
    """The figures of connections and requests; Prometheus reads `registry`."""

    def __init__(self) -> None:
        super().__init__()
        self._requests = Counter(
            "herdproof_requests", "Requests that came.", ["request"], registry=self.registry
        )
        self._of = {int(api): self._requests.labels(api.name) for api in ApiKey}

    def requested(self, api: int) -> None:
        """A request came, of a type that there is."""
        counter = self._of.get(api)
        if counter is not None:
            counter.inc()
