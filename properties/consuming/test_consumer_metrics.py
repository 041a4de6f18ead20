"""A consumer's figures: looked at when they are asked for, and never in its way."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import generate_latest

from herdproof.consuming.fetching.watermarks import KafkaUnreachable
from herdproof.consuming.metrics import ConsumerMetrics
from herdproof.record import TopicPartition

ORDERS, LOGS = TopicPartition("orders", 0), TopicPartition("logs", 3)


@dataclass
class PlayedConsumer:
    """A consumer that has what the test says."""

    assignment: tuple[TopicPartition, ...] = ()
    troubles: tuple[str, ...] = ()
    told: dict[TopicPartition, int] | None = field(default_factory=dict)

    def lags(self) -> dict[TopicPartition, int]:
        """As the test says; None: Kafka does not answer."""
        if self.told is None:
            raise KafkaUnreachable("nobody listens there")
        return self.told


def lines(metrics: ConsumerMetrics) -> list[str]:
    """What Prometheus reads, without its comments."""
    told = generate_latest(metrics.registry).decode().splitlines()
    return [line for line in told if not line.startswith("#")]


def test_what_is_known_is_told() -> None:
    """A lag that nobody knows is no lag of 0."""
    consumer = PlayedConsumer((ORDERS, LOGS), (), {ORDERS: 7})

    assert lines(ConsumerMetrics(consumer)) == [
        "herdproof_consumer_assigned_partitions 2.0",
        "herdproof_consumer_troubles 0.0",
        'herdproof_consumer_lag{partition="0",topic="orders"} 7.0',
    ]
    assert ConsumerMetrics(consumer).condition() == (True, "it consumes 2 partitions")


def test_a_kafka_that_does_not_answer_spoils_no_other_figure() -> None:
    """Nor is its consumer well then."""
    consumer = PlayedConsumer((ORDERS, LOGS), ("Kafka is not reached",), None)

    assert lines(ConsumerMetrics(consumer)) == [
        "herdproof_consumer_assigned_partitions 2.0",
        "herdproof_consumer_troubles 1.0",
    ]
    assert ConsumerMetrics(consumer).condition() == (False, "Kafka is not reached")
