"""Records for a demonstration: each partition's are numbered, so that a lost one is missed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

EVERY_S = 0.05
"""A record is sent to each partition so often."""
FLUSH_S = 20.0
"""Longest wait for the last acknowledgements."""


class NumberedRecords:
    """
    A thread that sends numbered records to each partition until the context, or `stop`, ends it.

    `acknowledged` is called with the partition and the number of each record that Kafka has, by
    that thread.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int,
        acknowledged: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        self._topic, self._partitions = topic, partitions
        self._acknowledged = acknowledged
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
            "linger.ms": 5, "log_level": 0,
        })  # fmt: skip
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()

    def stop(self) -> None:
        """Send no more; what was sent is acknowledged when this returns. May be repeated."""
        self._ends.set()
        self._thread.join(FLUSH_S)

    def _run(self) -> None:
        for number in count():
            if self._ends.wait(EVERY_S):
                break
            for partition in range(self._partitions):
                self._producer.produce(
                    self._topic, str(number), partition=partition,
                    on_delivery=partial(self._done, number),
                )  # fmt: skip
            self._producer.poll(0)
        self._producer.flush(FLUSH_S)

    def _done(self, number: int, error: KafkaError | None, record: Message) -> None:
        """Only what was acknowledged has to be delivered."""
        partition = record.partition()
        if error is None and partition is not None:
            self._acknowledged(partition, number)
