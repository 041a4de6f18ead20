"""Records that are produced all the time, beside whatever else goes on."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer

Place = tuple[str, int]
"""A topic and a partition."""
EVERY_S = 0.02
"""A record is produced so often."""
PATIENCE_S = 60.0
"""How long is waited for the last acknowledgements."""


class Flow:
    """Records that are produced all the time, to each partition in turn, in a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.places: list[Place] = []
        self.produced: dict[tuple[Place, int], float] = {}
        """When (monotonic, in seconds) each acknowledged record was produced."""
        self.values: dict[str, tuple[Place, int]] = {}
        """Where the record of each value is: no two have the same."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin; nothing is produced before there are places."""
        self._thread.start()

    def stop(self) -> None:
        """Produce no more; what was produced is acknowledged. May be repeated."""
        self._ends.set()
        self._thread.join(PATIENCE_S)

    def is_new(self, place: Place, offset: int, since: float) -> bool:
        """
        True if the record at this offset comes after all that was acknowledged by then.

        Its own acknowledgement may be heard of later than the record itself.
        """
        known = self.produced.copy().items()  # at once: it grows meanwhile, in another thread
        return offset > max((o for (p, o), at in known if p == place and at <= since), default=-1)

    def _run(self) -> None:
        for number in count():
            if self._ends.wait(EVERY_S):
                break
            if places := list(self.places):
                topic, partition = places[number % len(places)]
                with suppress(KafkaException):  # it does not know a new partition yet
                    self._producer.produce(
                        topic, str(number), partition=partition, on_delivery=self._delivered
                    )
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        """Only what was acknowledged has to be delivered."""
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        value = record.value()
        if error is None and topic is not None and partition is not None and offset is not None:
            self.produced[(topic, partition), offset] = time.monotonic()
            self.values[(value or b"").decode()] = ((topic, partition), offset)
