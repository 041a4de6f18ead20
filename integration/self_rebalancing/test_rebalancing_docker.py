"""Groups that rebalance by themselves, in containers, on three ZooKeeper servers and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.central_coordinator.central_docker import Services
from integration.self_rebalancing.rebalancing_docker import RebalancingContainers
from integration.self_rebalancing.rebalancing_judgement import judge

pytestmark = [
    pytest.mark.docker, pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600),
]  # fmt: skip


@pytest.fixture
def services(on_docker: bool) -> Iterator[Services]:
    """ZooKeeper and Kafka."""
    if not on_docker:
        pytest.skip("no Docker here")
    with ExitStack() as stack:
        yield Services(stack)


def test_in_containers_ours_keep_the_contract(
    services: Services, tmp_path: Path, report: Callable[[str], None]
) -> None:
    """Members are killed, paused and closed, ZooKeeper's leader dies: no promise is broken."""
    with RebalancingContainers(tmp_path, services, "contained") as group:
        topic = group.add_topic("", 6, replicas=3)
        group.start("a", "b")
        group.await_flow("a", "b")
        group.start("c")
        group.await_flow("a", "b", "c")
        group.kill("a")
        group.await_flow("b", "c")
        group.pause("b")
        group.await_flow("c")
        group.resume("b")
        group.await_flow("b", "c")
        leader = services.zookeeper.leader()
        services.zookeeper.kill(leader)
        services.zookeeper.await_leader(leader)
        group.add_partition(topic)
        group.await_flow("b", "c")
        services.zookeeper.start_again(leader)
        services.zookeeper.await_serving()
        group.close("c")
        group.await_flow("b")
        group.await_all_delivered()
        group.end()
        services.zookeeper.copy_logs(tmp_path / "zookeeper")
        found = judge(group.evidence(tmp_path / "zookeeper", 3))

    report(f"ours in Docker: {found}")
    assert found.is_clean, str(found)
    assert found.hands > 6
