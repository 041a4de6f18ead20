"""Three Kafka brokers beside a ZooKeeper ensemble, each in a container, to be killed or paused."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from herdproof.kafka.topics import Topics
from herdproof.ports import free_ports
from herdproof.zookeeper.operations import Exists, Found
from integration.clients import TestClient
from integration.docker import containers
from integration.docker.ensemble import Ensemble
from integration.docker.images import kafka_image
from integration.docker.ports import LOOPBACK, publish_on

BROKERS = (1, 2, 3)
LOOK_EVERY_S = 0.25
PATIENCE_S = 60.0
"""How long a broker may take for what it must do; only a failing test waits that long."""


class Brokers:
    """
    The brokers 1, 2 and 3, as `kafka-1` and so on in the network; `stack` removes them.

    They are started one after the other: starts are what costs most here, and the machine is small.
    """

    def __init__(
        self, network: Network, ensemble: Ensemble, session_s: float, stack: ExitStack
    ) -> None:
        self._ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        self._brokers: dict[int, DockerContainer] = {}
        self._onlooker = stack.enter_context(TestClient(ensemble.hosts))
        for broker in BROKERS:
            container = DockerContainer(kafka_image(), network=network)
            container.with_network_aliases(f"kafka-{broker}")
            container.with_envs(
                KAFKA_ID=str(broker), KAFKA_ZOOKEEPER=ensemble.hosts_inside,
                KAFKA_HOST=f"kafka-{broker}", KAFKA_SESSION_MS=str(round(session_s * 1000)),
                KAFKA_ADVERTISED=f"{LOOPBACK}:{self._ports[broker]}",
            )  # fmt: skip
            self._brokers[broker] = container
            stack.callback(container.stop)
            publish_on(container, 9092, self._ports[broker]).start()
            self._await_that(partial(self._stands, broker))
        self.await_serving()

    @property
    def bootstrap(self) -> str:
        """The brokers, for clients here."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._ports.values())

    @property
    def bootstrap_inside(self) -> str:
        """The brokers, for clients in the network."""
        return ",".join(f"kafka-{broker}:9093" for broker in BROKERS)

    def controller(self) -> int:
        """The broker that is Kafka's controller."""
        return int(AdminClient(_client(self.bootstrap)).list_topics(timeout=5.0).controller_id)

    def kill(self, broker: int) -> None:
        """By SIGKILL."""
        containers.kill(self._brokers[broker])

    def pause(self, broker: int) -> None:
        """Stop it in its tracks, and wait until the others know it."""
        containers.pause(self._brokers[broker])
        self._await_that(lambda: not self._stands(broker))

    def resume(self, broker: int) -> None:
        """Let it go on, and wait until every replica has caught up."""
        containers.resume(self._brokers[broker])
        self.await_serving()

    def start_again(self, broker: int) -> None:
        """
        Start one that was killed, on its data, and wait until every replica has caught up.

        ZooKeeper must have forgotten its id before: no second session may take it over.
        """
        self._await_that(lambda: not self._stands(broker))
        containers.start_again(self._brokers[broker])
        self.await_serving()

    def await_serving(self) -> None:
        """Wait until each broker serves, and all replicas of all partitions are in sync."""
        for broker, port in self._ports.items():
            at = f"{LOOPBACK}:{port}"
            self._await_that(partial(Topics(at, 5.0).served_by, broker, ()))
            self._await_that(partial(in_sync, at))

    def _await_that(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds; a failure shows what the brokers said last."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"it did not come about\n{self.said()}"
            time.sleep(LOOK_EVERY_S)

    def said(self) -> str:
        """The end of what each broker said."""
        ends = {
            broker: container.get_wrapped_container().logs(tail=15).decode()
            for broker, container in self._brokers.items()
        }
        return "\n".join(f"--- kafka-{broker}\n{end}" for broker, end in ends.items())

    def _stands(self, broker: int) -> bool:
        """Whether its id stands in ZooKeeper, or that is not known."""
        return self._onlooker.perform(Exists(f"/brokers/ids/{broker}")) != Found(None)


def in_sync(bootstrap: str) -> bool:
    """Whether the broker there knows of all brokers, and of no replica that lags behind."""
    try:
        cluster = AdminClient(_client(bootstrap)).list_topics(timeout=5.0)
    except KafkaException:
        return False
    places = [place for topic in cluster.topics.values() for place in topic.partitions.values()]
    return set(cluster.brokers) == set(BROKERS) and all(
        set(place.isrs) == set(place.replicas) for place in places
    )


def _client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Settings of a client that does not chatter."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}
