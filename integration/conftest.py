"""Where the integration suite runs, decided once for the whole run and said in its header.

The decision is made (and, the first time, Kafka's jars are fetched and images are built) before any
test or time limit starts, in the process that controls the run; xdist's workers are told.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from herdproof.errors import HerdError
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.jars import kafka_jars
from herdproof.kafka.kraft import EmbeddedKRaft
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.proxy import FaultProxy
from integration.docker.engine import DockerUnavailableError
from integration.docker.images import Decision, decide

DECISION = pytest.StashKey[Decision]()
ON_DOCKER = pytest.StashKey[bool]()


LEFT_OPEN = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")
"""Clients of others leave sockets to the garbage collector, which comes in any later test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hold no test here to what an earlier one's strangers have left open."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(LEFT_OPEN)


def pytest_configure(config: pytest.Config) -> None:
    """Decide; Docker that is required and cannot be had ends the run with one sentence."""
    # The reaper of testcontainers would have to be pulled; fixtures remove what they start.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[ON_DOCKER] = worker["on_docker"]
        return
    if config.option.collectonly:
        config.stash[ON_DOCKER] = False
        return
    try:
        decision = decide()
    except DockerUnavailableError as problem:
        raise pytest.UsageError(f"Docker is required here, but {problem}") from problem
    if decision.engine is None:
        with suppress(HerdError):  # a test that needs the jars will say why there are none
            kafka_jars(print)
    config.stash[DECISION] = decision
    config.stash[ON_DOCKER] = decision.engine is not None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist."""
    node.workerinput["on_docker"] = node.config.stash[ON_DOCKER]


def pytest_report_header(config: pytest.Config) -> str | None:
    """The one visible line."""
    return config.stash[DECISION].line if DECISION in config.stash else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the engine if this run started it."""
    if DECISION in config.stash and (engine := config.stash[DECISION].engine):
        engine.stop()


@pytest.fixture(scope="session")
def on_docker(pytestconfig: pytest.Config) -> bool:
    """Whether services run in Docker (otherwise as child processes)."""
    return pytestconfig.stash[ON_DOCKER]


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """One real server, as a child process, for all tests that do not need to break it."""
    with EmbeddedZooKeeper() as server:
        yield server


@pytest.fixture(scope="session")
def kafka(zookeeper: EmbeddedZooKeeper) -> Iterator[EmbeddedKafka]:
    """One real broker beside that server, for all tests that do not need to break it."""
    with EmbeddedKafka(zookeeper.hosts) as broker:
        yield broker


@pytest.fixture(scope="session")
def kraft() -> Iterator[EmbeddedKRaft]:
    """One real Kafka 4 broker, without a ZooKeeper, for all tests that do not need to break it."""
    with EmbeddedKRaft() as broker:
        yield broker


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[FaultProxy]:
    """A network to that server, to be broken."""
    host, port = zookeeper.hosts.split(":")
    with FaultProxy(host, int(port)) as network:
        yield network


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark of two local workers: one for all tests, since each start takes seconds."""
    from herdproof.pipeline.spark.session import spark_session

    session = spark_session("tests", "local[2]", {"spark.driver.memory": "1g"})
    yield session
    session.stop()
