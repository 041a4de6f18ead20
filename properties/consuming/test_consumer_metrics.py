"""A consumer's figures: looked at when they are asked for, and never in its way."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import generate_latest

from herdproof.consumer import Misused
from herdproof.consuming.metrics import ConsumerMetrics
from herdproof.record import TopicPartition

ORDERS, LOGS = TopicPartition("orders", 0), TopicPartition("logs", 3)


@dataclass
class PlayedConsumer:
    """A consumer that has what the test says."""

    assignment: tuple[TopicPartition, ...] = ()
    troubles: tuple[str, ...] = ()
    lags: dict[TopicPartition, int | None] = field(default_factory=dict)

    def lag(self, partition: TopicPartition, /) -> int | None:
        """As the test says; refused where it has not said it."""
        if partition not in self.lags:
            raise Misused("it is another's")
        return self.lags[partition]


def lines(metrics: ConsumerMetrics) -> list[str]:
    """What Prometheus reads, without its comments."""
    told = generate_latest(metrics.registry).decode().splitlines()
    return [line for line in told if not line.startswith("#")]


def test_what_is_known_is_told() -> None:
    """A lag that nobody knows is no lag of 0."""
    consumer = PlayedConsumer((ORDERS, LOGS), (), {ORDERS: 7, LOGS: None})

    assert lines(ConsumerMetrics(consumer)) == [
        "herdproof_consumer_assigned_partitions 2.0",
        "herdproof_consumer_troubles 0.0",
        'herdproof_consumer_lag{partition="0",topic="orders"} 7.0',
    ]
    assert ConsumerMetrics(consumer).condition() == (True, "it consumes 2 partitions")


def test_what_is_taken_away_meanwhile_is_left_out() -> None:
    """Between the look at the assignment and that at a partition a rebalance may come."""
    consumer = PlayedConsumer((ORDERS, LOGS), ("no coordinator",), {LOGS: 0})

    assert lines(ConsumerMetrics(consumer))[1:] == [
        "herdproof_consumer_troubles 1.0",
        'herdproof_consumer_lag{partition="3",topic="logs"} 0.0',
    ]
    assert ConsumerMetrics(consumer).condition() == (False, "no coordinator")
