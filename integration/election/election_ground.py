"""A place of its own for one test's election, and brokers that write down what they are told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from herdproof.protocols.election.elector import ElectionPaths, read_leader
from herdproof.protocols.election.gate import Observe
from herdproof.protocols.election.shell import ZkElection
from herdproof.zookeeper.client import expire_session
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import Create, Data, Get
from integration.clients import TestClient, eventually, new_root


class Ground:
    """A place of its own for one test's election, seen by a client that takes no part in it."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, client: TestClient, stack: ExitStack) -> None:
        root = new_root(zookeeper)
        self.hosts = zookeeper.hosts
        self.paths = ElectionPaths(leader=f"{root}/election/leader", epoch=f"{root}/election/epoch")
        self.plan = f"{root}/plan"
        self.client = client
        self._stack = stack
        client.perform(Create(self.plan, b"empty"))

    def broker(self, name: str, hosts: str = "", observe: Observe | None = None) -> Broker:
        """A broker that has started, and does not stand yet; it is closed after the test."""
        broker = Broker(self, name, hosts or self.hosts, observe)
        self._stack.callback(broker.close)
        broker.start()
        return broker

    def node(self) -> Data | None:
        """The leader's node."""
        found = self.client.perform(Get(self.paths.leader))
        return found if isinstance(found, Data) else None

    def leader(self) -> tuple[str, int] | None:
        """The broker and the epoch that the leader's node names."""
        node = self.node()
        return read_leader(node.data) if node else None

    def plan_now(self) -> bytes:
        """The data that leaders write."""
        found = self.client.perform(Get(self.plan))
        assert isinstance(found, Data)
        return found.data


class Broker(ZkElection):
    """A broker that writes down when it was told that it leads, or leads no more."""

    def __init__(self, ground: Ground, name: str, hosts: str, observe: Observe | None) -> None:
        self.told: list[tuple[str, int]] = []
        super().__init__(
            hosts,
            name,
            on_elected=lambda epoch: self.told.append(("elected", epoch)),
            on_deposed=lambda epoch: self.told.append(("deposed", epoch)),
            paths=ground.paths,
            observe=observe,
        )

    def is_leader(self) -> bool:
        """Whether it leads, and its owner was told: it leads before it tells."""
        return self.leads and self.told[-1:] == [("elected", self.epoch)]

    def is_deposed(self) -> bool:
        """Whether it leads no more, and its owner was told."""
        return not self.leads and self.told[-1:] == [("deposed", self.epoch)]

    def expiry(self, hosts: str) -> Callable[[], None]:
        """What ends its present session at the server, also when the broker itself has ended."""
        return partial(expire_session, hosts, self.client.session, self.client.password)


def lead(broker: Broker) -> int:
    """Have a broker stand and win; its epoch."""
    broker.stand()
    eventually(broker.is_leader)
    return broker.epoch
