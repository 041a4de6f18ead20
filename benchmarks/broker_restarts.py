"""
One and the same test of consumers, at one broker after another: each is restarted in its turn.

    python benchmarks/broker_restarts.py local            # LocalBroker, in this process
    python benchmarks/broker_restarts.py mock             # librdkafka's mock, in this process
    python benchmarks/broker_restarts.py 127.0.0.1:9092   # a broker that runs
    python benchmarks/broker_restarts.py local --start 16 # no test: so many, side by side

Two consumers of confluent-kafka have four partitions; the scenario `rolling_restart` of
`herdproof.testing` closes each and starts it again, while records come. The group has settled when
the consumers say that they share all partitions, and all records were delivered: what a broker
knows of its groups is not asked, since not all tell.

It prints one line of JSON: the seconds until the broker could be asked (in this process), those of
the test, and the CPU of both in this process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # this file is run as a script, and imports its neighbours

from confluent_kafka import Producer  # noqa: E402

from herdproof.kafka.topics import Topics  # noqa: E402
from herdproof.protocols.group_protocol.testing.broker import GroupNow, place_of  # noqa: E402
from herdproof.protocols.group_protocol.testing.scenarios import Stage, rolling_restart  # noqa: E402
from herdproof.servers import eventually  # noqa: E402
from herdproof.testing import LocalBroker  # noqa: E402
from integration.group_protocol.example_consumers import ConfluentConsumers  # noqa: E402

PATIENCE_S = 90.0
PARTITIONS = 4
"""As many as librdkafka's mock gives a topic."""


class ForeignBroker:
    """Somebody else's broker, with as much of `LocalBroker` as the test needs."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._produced: list[tuple[int, int]] = []
        self._delivered: dict[tuple[int, int], None] = {}
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        Topics(self.bootstrap, PATIENCE_S).create(name, partitions)

    def produce(self, topic: str, *values: str) -> None:
        """Produce records to all partitions in turn; they are stored when this returns."""
        for value in values:
            partition = len(self._produced) % PARTITIONS
            self._producer.produce(
                topic, value.encode(), partition=partition, on_delivery=self._stored
            )
        self._producer.flush(PATIENCE_S)

    def _stored(self, problem: Any, message: Any) -> None:
        if problem is not None:
            raise RuntimeError(f"a record was not stored: {problem}")
        self._produced.append((message.partition(), message.offset()))

    def delivered(self, _member: str, record: Any) -> None:
        """A consumer was given a record."""
        _, partition, offset = place_of(record)
        self._delivered[partition, offset] = None

    def group(self, _name: str) -> GroupNow:
        """Not all brokers tell."""
        return GroupNow("not asked for", -1, {}, {})

    def undelivered(self, _group: str, _topic: str) -> Sequence[tuple[int, int]]:
        """The records that nobody was given, by partition and offset."""
        return [place for place in self._produced if place not in self._delivered]

    def advance(self, seconds: float) -> None:
        """Its time passes by itself."""


class MockBroker(ForeignBroker):
    """The mock of librdkafka, which makes topics when somebody asks for them."""

    def __init__(self) -> None:
        self._owner = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "log_level": 0}
        )
        [there] = self._owner.list_topics(timeout=PATIENCE_S).brokers.values()
        super().__init__(f"{there.host}:{there.port}")

    def create_topic(self, name: str, partitions: int) -> None:
        """Ask for a topic until it is there."""
        made = eventually(
            lambda: (
                len(self._owner.list_topics(name, PATIENCE_S).topics[name].partitions) == partitions
            ),
            PATIENCE_S,
        )
        if not made:
            raise RuntimeError(f"the mock does not make {partitions} partitions")


class SeenStage(Stage):
    """A stage whose consumers say themselves what they have."""

    def is_settled(self) -> bool:
        """Whether those that run share all partitions, and got every record."""
        consumers = self.consumers
        assert isinstance(consumers, ConfluentConsumers)
        had = [part.partition for each in consumers.running.values() for part in each.assignment()]
        everybody = all(each.assignment() for each in consumers.running.values())
        return (
            everybody
            and sorted(had) == list(range(PARTITIONS))
            and not self.broker.undelivered(consumers.group, consumers.topic)
        )


@contextmanager
def broker_at(where: str) -> Iterator[Any]:
    """The broker that the command line names, for as long as the context lasts."""
    if where == "local":
        with LocalBroker() as broker:
            yield broker
    else:
        yield MockBroker() if where == "mock" else ForeignBroker(where)


def tested(broker: Any) -> None:
    """The test: two consumers, each restarted while records come."""
    consumers = ConfluentConsumers(broker, "restarts")
    stage = SeenStage(broker, consumers, PATIENCE_S)
    for name in consumers.names:
        stage.start(name)
    stage.produce()
    stage.settle()
    rolling_restart(stage)
    for name in consumers.names:
        stage.stop(name)


def restarted(where: str) -> dict[str, float]:
    """The seconds of the test at one broker."""
    begun, cpu = time.perf_counter(), time.process_time()
    with broker_at(where) as broker:
        ready, cpu_ready = time.perf_counter(), time.process_time()
        tested(broker)
        ended = time.perf_counter()
        return {
            "start_seconds": ready - begun, "start_cpu_seconds": cpu_ready - cpu,
            "test_seconds": ended - ready, "cpu_seconds": time.process_time() - cpu_ready,
        }  # fmt: skip


def started(where: str, count: int) -> dict[str, float]:
    """The seconds until so many brokers, one after the other, can be asked; all live at once."""
    took, cpu = [], time.process_time()
    with ExitStack() as stack:
        for _ in range(count):
            begun = time.perf_counter()
            stack.enter_context(broker_at(where))
            took.append(time.perf_counter() - begun)
    return {
        "first_seconds": took[0], "slowest_seconds": max(took), "seconds": sum(took),
        "cpu_seconds": time.process_time() - cpu,
    }  # fmt: skip


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("where", help="local, mock, or host:port")
    parser.add_argument("--start", type=int, metavar="COUNT", help="only start so many")
    args = parser.parse_args()
    found: dict[str, float] | dict[str, str]
    try:
        found = started(args.where, args.start) if args.start else restarted(args.where)
    except Exception as problem:
        found = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
