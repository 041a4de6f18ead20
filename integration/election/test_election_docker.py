"""
Three brokers and three ZooKeeper servers, each in a container: the leader dies, stops, is cut off.

Where there is no Docker, the same scenarios run on child processes; where there is, these are
`long`. After each fault there is exactly one coordinator, and in a larger epoch if a session was
lost; what the old one writes is refused. How long the others took is reported, not judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from herdproof.conformance.traces.replay import conform_files
from herdproof.protocols.election.traces.trace_map import TRACES
from herdspec.check.conformance.conform import Verdict
from herdspec.protocols.election.flaws import AT_ONCE
from integration.clients import TestClient
from integration.conftest import ON_DOCKER
from integration.election.election_cluster import (
    SESSION_TIMEOUT_S,
    Cluster,
    Containers,
    Coordinator,
    assert_fenced,
    eventually,
    processes,
    running,
)

pytestmark = pytest.mark.real


Say = Callable[[str], None]
MAKE = {"docker": Containers, "processes": processes}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On Docker where it is there, with child processes as the long form; else on those alone."""
    on_docker = metafunc.config.stash[ON_DOCKER]
    places = [pytest.param("docker", marks=pytest.mark.docker)] if on_docker else []
    marks = [pytest.mark.long] if on_docker else []
    metafunc.parametrize(
        "cluster", [*places, pytest.param("processes", marks=marks)], indirect=True, scope="module"
    )


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three servers, three brokers; each test leaves it as it found it."""
    with running(MAKE[request.param]) as brokers_and_servers:
        yield brokers_and_servers


@pytest.fixture
def client(cluster: Cluster) -> Iterator[TestClient]:
    """A client that looks on."""
    with TestClient(cluster.hosts) as onlooker:
        yield onlooker


def the_coordinator(
    cluster: Cluster, client: TestClient, after: int = 0, since: float = 0.0
) -> Coordinator:
    """Wait for exactly one coordinator, in an epoch after that one, elected since (Unix time)."""
    found: list[Coordinator] = []

    def stands() -> bool:
        now = cluster.coordinator(client)
        found[:] = [now] if now and now.epoch > after and now.at > since else []
        return bool(found)

    eventually(cluster, stands)
    return found[0]


def heard(cluster: Cluster, broker: str, event: str, epoch: int) -> bool:
    """Whether a broker reported such an event of that epoch."""
    return any(r.event == event and r.epoch == epoch for r in cluster.reports(broker))


def tell(say: Say, request: pytest.FixtureRequest, fault: str, seconds: float) -> None:
    """A line for the summary."""
    place = request.node.callspec.params["cluster"]
    say(f"failover, {fault}: {seconds:.2f} s ({place}, session {SESSION_TIMEOUT_S:g} s)")


def test_the_zookeeper_leader_is_killed(
    cluster: Cluster, client: TestClient, report: Say, request: pytest.FixtureRequest
) -> None:
    """ZooKeeper's leader is killed: sessions live on, and there is one coordinator again."""
    before = the_coordinator(cluster, client)
    fault = time.time()

    server = cluster.kill_zookeeper_leader()
    after = the_coordinator(cluster, client, since=fault)

    assert heard(cluster, before.broker, "deposed", before.epoch)
    assert after.epoch > before.epoch or after.broker == before.broker
    tell(report, request, "ZooKeeper's leader killed", after.at - fault)
    cluster.restart_zookeeper(server)
    eventually(cluster, cluster.servers_serve)
    assert_fenced(cluster.reports())


def test_the_elected_broker_is_killed(
    cluster: Cluster, client: TestClient, report: Say, request: pytest.FixtureRequest
) -> None:
    """The elected broker dies by kill -9: another leads in a larger epoch; it may come back."""
    before = the_coordinator(cluster, client)
    fault = time.time()

    cluster.kill(before.broker)
    with cluster.without(before.broker):
        after = the_coordinator(cluster, client, after=before.epoch)

    assert after.broker != before.broker
    tell(report, request, "broker killed", after.at - fault)
    cluster.start(before.broker)
    assert the_coordinator(cluster, client).epoch >= after.epoch
    assert_fenced(cluster.reports())


@pytest.mark.parametrize("fault", ["paused", "cut off"])
def test_the_elected_broker_is_out_of_reach_past_its_session(
    fault: str, cluster: Cluster, client: TestClient, report: Say, request: pytest.FixtureRequest
) -> None:
    """The elected broker stops, or is cut off, until another leads: its writes are refused."""
    before = the_coordinator(cluster, client)
    old, epoch = before.broker, before.epoch
    eventually(cluster, lambda: heard(cluster, old, "wrote", epoch))
    stop, go_on = {
        "paused": (cluster.pause, cluster.resume),
        "cut off": (cluster.cut_off, cluster.join_up),
    }[fault]

    began = time.time()
    stop(old)
    with cluster.without(old):
        after = the_coordinator(cluster, client, after=epoch)
        eventually(cluster, lambda: heard(cluster, after.broker, "wrote", after.epoch))
    go_on(old)

    eventually(cluster, lambda: heard(cluster, old, "refused", epoch))
    eventually(cluster, lambda: heard(cluster, old, "deposed", epoch))
    assert after.broker != old
    assert the_coordinator(cluster, client).epoch >= after.epoch
    assert {r.why for r in cluster.reports(old) if r.event == "refused" and r.epoch == epoch} == {
        "Refusal(why=<Why.BAD_VERSION: 'bad version'>, index=0)"
    }
    assert_fenced(cluster.reports())
    tell(report, request, f"broker {fault}", after.at - began)


def test_what_the_brokers_did_is_a_run_of_the_spec(cluster: Cluster, report: Say) -> None:
    """The traces of all brokers, through all these faults, are together a run of the spec."""
    outcome = conform_files(cluster.traces(), TRACES, failing=AT_ONCE)

    assert outcome.verdict is Verdict.CONFORMS, f"{outcome}"
    report(f"conformance of the failovers: {outcome.lines} lines in {outcome.seconds:.2f} s")
