"""
Consumers of confluent-kafka that read a topic to its end, each a partition in a process of its own.

    python benchmarks/backlog.py BOOTSTRAP TOPIC --consumers 4 --records 50000

Settings are librdkafka's defaults. All have connected before any begins. Printed is one line of
JSON: how many records, and the seconds from the first one's beginning to the last one's end.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Barrier
from typing import Any

from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 60.0
AT_ONCE = 1_000
together: Any = None
"""The barrier at which readers wait, in each one's process."""


def read(bootstrap: str, topic: str, partition: int, records: int) -> tuple[float, float]:
    """Read so many records of a partition from its beginning; when that began, and ended."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "backlog", "enable.auto.commit": False,
    })  # fmt: skip
    try:
        consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)
        together.wait(PATIENCE_S)
        begun = time.monotonic()
        consumer.assign([TopicPartition(topic, partition, 0)])
        left = records
        while left > 0:
            found = consumer.consume(AT_ONCE, PATIENCE_S)
            if not found:
                raise TimeoutError(f"{left} of {records} records did not come")
            left -= len(found)
        return begun, time.monotonic()
    finally:
        consumer.close()


def wait_for_each_other(barrier: Any) -> None:
    """Keep, in each process, what they wait at."""
    global together
    together = barrier


def main() -> int:
    """Read, and print how long that took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--consumers", type=int, required=True)
    parser.add_argument("--records", type=int, required=True, help="of each partition")
    of = parser.parse_args()
    barrier = Barrier(of.consumers)
    with ProcessPoolExecutor(
        of.consumers, initializer=wait_for_each_other, initargs=(barrier,)
    ) as pool:
        runs = [
            pool.submit(read, of.bootstrap, of.topic, partition, of.records)
            for partition in range(of.consumers)
        ]
        begun, ended = zip(*(run.result() for run in runs), strict=True)
    print(json.dumps({
        "records": of.consumers * of.records, "seconds": max(ended) - min(begun),
    }))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
