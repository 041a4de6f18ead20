"""The figures of a session with ZooKeeper, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from herdproof.shells.figures import SECONDS
from herdproof.zookeeper.operations import Answer, Operation, Refusal


class ZooKeeperFigures:
    """The figures of one broker's session."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._kinds: dict[type[Operation], Histogram] = {}
        self._linked = Gauge(
            "herdproof_zookeeper_connected", "Whether ZooKeeper is reached (0 or 1).",
            registry=registry,
        )  # fmt: skip
        self._operations = Histogram(
            "herdproof_zookeeper_seconds", "From asking ZooKeeper to its answer.", ["operation"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._refusals = Counter(
            "herdproof_zookeeper_refusals", "What ZooKeeper refused, or did not answer.", ["why"],
            registry=registry,
        )  # fmt: skip

    def linked(self, is_linked: bool) -> None:
        """ZooKeeper is reached, or no more."""
        self._linked.set(is_linked)

    def asked(self, operation: Operation, answer: Answer, seconds: float) -> None:
        """ZooKeeper answered after so long."""
        self._of(type(operation)).observe(seconds)
        if isinstance(answer, Refusal):
            self._refusals.labels(answer.why.value).inc()

    def _of(self, kind: type[Operation]) -> Histogram:
        """The histogram of such operations; to look it up by its name is slow."""
        if kind not in self._kinds:
            self._kinds[kind] = self._operations.labels(kind.__name__)
        return self._kinds[kind]
