"""Groups that rebalance by themselves, disturbed, on real services: the contract judges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.proxy import FaultProxy
from herdspec.protocols.self_rebalancing.plan import drafted
from integration.rebalancing_herd import RebalancingHerd
from integration.rebalancing_judgement import judge

pytestmark = pytest.mark.real

_names = count(1)


Herds = Callable[..., RebalancingHerd]
DRAFTED = sorted(drafted().switches)


@pytest.fixture
def herd(kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Herds:
    """Makes groups."""

    def make(*flaws: str) -> RebalancingHerd:
        name = f"herd-{next(_names)}"
        return RebalancingHerd(
            tmp_path, name, f"{name}-topic", bootstrap=kafka.bootstrap, zookeeper=zookeeper.hosts,
            flaws=flaws,
        )  # fmt: skip

    return make


@pytest.mark.timeout(300)
def test_ours_alone_keep_the_contract(
    herd: Herds, zookeeper: EmbeddedZooKeeper, proxy: FaultProxy, report: Callable[[str], None]
) -> None:
    """Killed, paused beyond a session, cut off, closed: nothing is lost, and no promise broken."""
    with herd() as group:
        group.add_topic("", 6)
        group.start("a")
        group.start("b", zookeeper=proxy.hosts)
        group.await_flow("a", "b")
        group.start("c")
        group.await_flow("a", "b", "c")
        proxy.refuse()
        proxy.cut()
        group.await_flow("a", "c")
        proxy.accept()
        group.await_flow("a", "b", "c")
        group.pause("a")
        group.await_flow("b", "c")
        group.resume("a")
        group.kill("c")
        group.await_flow("a", "b")
        group.close("a")
        group.await_flow("b")
        group.await_all_delivered()
        group.end()
        found = judge(group.evidence(zookeeper.directory))

    report(f"ours alone: {found}")
    assert found.is_clean, str(found)
    assert found.hands > 6


@pytest.mark.timeout(300)
def test_the_draft_alone_is_caught(
    herd: Herds, zookeeper: EmbeddedZooKeeper, proxy: FaultProxy, report: Callable[[str], None]
) -> None:
    """Consumers with the draft's habits: one that is cut off consumes what another one has."""
    with herd(*DRAFTED) as group:
        group.add_topic("", 6)
        group.start("a")
        group.await_flow("a")
        group.start("b", zookeeper=proxy.hosts)
        group.await_flow("a", "b")
        proxy.freeze()
        group.await_flow("a")
        proxy.thaw()
        group.await_all_delivered()
        group.end()
        found = judge(group.evidence(zookeeper.directory))

    report(f"the draft alone: {found}")
    assert {"exclusive", "who_consumes_owns"} <= {finding.promise for finding in found.owed}


@pytest.mark.timeout(300)
def test_theirs_and_ours_in_one_group(
    herd: Herds, zookeeper: EmbeddedZooKeeper, report: Callable[[str], None]
) -> None:
    """Two of Kafka 0.8.2.2's and two of ours: what breaks is what one of theirs did."""
    with herd() as group:
        group.add_topic("", 6)
        group.start("a", "b")
        group.start_old("old1", "old2")
        group.await_flow("a", "b", "old1", "old2")
        group.kill("old1")
        group.await_flow("a", "b", "old2")
        group.pause("old2")
        group.await_flow("a", "b")
        group.resume("old2")
        group.await_flow("a", "b", "old2")
        group.kill("a")
        group.await_flow("b", "old2")
        group.close("old2")
        group.await_flow("b")
        group.await_all_delivered()
        group.end()
        found = judge(group.evidence(zookeeper.directory))

    report(f"theirs and ours: {found}")
    assert found.owes_nothing, str(found)
    assert found.hands > 6
