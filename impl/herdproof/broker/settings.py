"""The settings of a broker's process, but for those of the groups' coordinator."""

from __future__ import annotations

from dataclasses import dataclass, fields

from herdproof.shells.configuration import BadConfiguration, Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaListener(Listener):
    """Where the broker listens, and what it takes from a client."""

    port: int = 9092
    """0 chooses a free one; in front of a Kafka, its brokers' ports are those that follow."""
    max_frame_bytes: int = 16 << 20
    """A request that says it is larger ends its connection."""
    idle_timeout_ms: int = 600_000
    """A connection over which nothing came for so long, and on which nothing waits, is closed."""
    max_connections: int = 20_000
    """One more is closed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLimits:
    """The limits of the log in memory."""

    max_bytes: int = 256 << 20
    """Records of all partitions together; what goes beyond is refused, POLICY_VIOLATION."""
    max_batch_bytes: int = 1 << 20
    """A larger batch is refused, MESSAGE_TOO_LARGE."""
    max_partitions: int = 10_000
    """Of all topics together."""
    max_producers: int = 1_000
    """Idempotent producers that a partition remembers; beyond, it forgets the most silent."""
    max_waiting_fetches: int = 20_000
    """Fetches that wait for records; one more is answered at once, with what there is."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise BadConfiguration(f"records.{field.name} is {value}: it is at least 1.")
