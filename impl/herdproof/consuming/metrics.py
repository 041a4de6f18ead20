"""A consumer's figures, as Prometheus reads them, and whether it is well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from herdproof.errors import HerdError
from herdproof.record import TopicPartition
from herdproof.shells.health import Condition


class Measured(Protocol):
    """Measurements of a consumer."""

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are consumed at present."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """The troubles at present, a sentence each."""

    def lags(self) -> Mapping[TopicPartition, int]:
        """The lag behind each partition's end; raises `HerdError` if nobody tells."""


class ConsumerMetrics(Collector):
    """The figures of one consumer, looked at when they are asked for; `registry` has them."""

    def __init__(self, consumer: Measured) -> None:
        self._consumer = consumer
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The figures as they are now."""
        assigned = self._consumer.assignment
        yield gauge("assigned_partitions", "Partitions that are consumed here.", len(assigned))
        yield gauge("troubles", "What is wrong at present.", len(self._consumer.troubles))
        lags = GaugeMetricFamily(
            "herdproof_consumer_lag", "Records of a partition that are not handed out yet.",
            labels=["topic", "partition"],
        )  # fmt: skip
        with suppress(HerdError):  # Kafka does not answer: then nobody knows
            for place, lag in self._consumer.lags().items():
                lags.add_metric([place.topic, str(place.partition)], lag)
        yield lags

    def condition(self) -> Condition:
        """Ready while nothing is wrong: then it waits for its share, or has it."""
        if troubles := self._consumer.troubles:
            return Condition(False, "; ".join(troubles))
        return Condition(True, f"it consumes {len(self._consumer.assignment)} partitions")


def gauge(name: str, means: str, value: float) -> GaugeMetricFamily:
    """A figure without labels."""
    return GaugeMetricFamily(f"herdproof_consumer_{name}", means, value=value)
