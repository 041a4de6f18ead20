"""
The layout of system B's state in ZooKeeper: its paths, and how what stands there is written.

The owners and offsets lie where Kafka 0.8 has them, below `/consumers/[group]`. What coordination
alone needs lies below `/herdproof`, where no group's name can collide with it. What no node's name
can hold ("/", control characters) is percent-quoted in names, and so is the "%" itself.

Source: `002` (Paths Stored in ZooKeeper) as PROTOCOLS.md rules; Kafka's own nodes below `/brokers`.
"""

from __future__ import annotations

from dataclasses import dataclass

from herdproof.consuming import group_nodes
from herdproof.protocols.election import elector
from herdproof.zookeeper.names import quoted

_ELECTION = elector.ElectionPaths()


@dataclass(frozen=True, slots=True)
class Paths:
    """The nodes of system B; methods take names as users know them, unquoted."""

    root: str = "/herdproof"
    consumers: str = "/consumers"
    brokers: str = "/brokers"
    election: elector.ElectionPaths = _ELECTION

    # ── Kafka's own ─────────────────────────────────────────────────────────────────────────

    @property
    def topics(self) -> str:
        """Its children are the topics."""
        return f"{self.brokers}/topics"

    def topic(self, topic: str) -> str:
        """Its data names the topic's partitions: {"partitions": {"0": [1, 2]}}."""
        return f"{self.brokers}/topics/{quoted(topic)}"

    @property
    def broker_ids(self) -> str:
        """Its children are the ids of the brokers that live."""
        return f"{self.brokers}/ids"

    def broker(self, broker_id: str) -> str:
        """Ephemeral; its data says where Kafka listens: {"host": …, "port": …}."""
        return f"{self.brokers}/ids/{broker_id}"

    # ── Of coordination alone ───────────────────────────────────────────────────────────────

    @property
    def coordinators(self) -> str:
        """Its children are the ids of the brokers beside which a coordinator listens."""
        return f"{self.root}/coordinators"

    def coordinator(self, broker_id: str) -> str:
        """Ephemeral; its data says where that coordinator listens: {"host": …, "port": …}."""
        return f"{self.root}/coordinators/{broker_id}"

    @property
    def groups(self) -> str:
        """Its children are the groups."""
        return f"{self.root}/groups"

    def group(self, group: str) -> str:
        """The group's commit point: {"generation": n, "epoch": e, "owners_parts": k, …}."""
        return f"{self.root}/groups/{quoted(group)}"

    def subscriptions(self, group: str) -> str:
        """Its children are the consumers that have registered and are not known to be gone."""
        return f"{self.group(group)}/subscriptions"

    def subscription(self, group: str, consumer_id: str) -> str:
        """Its data is the consumer's topic_count."""
        return f"{self.group(group)}/subscriptions/{quoted(consumer_id)}"

    # ── Where Kafka 0.8 has them ────────────────────────────────────────────────────────────

    def ids(self, group: str) -> str:
        """Its children are members that rebalance by themselves: then the group is theirs."""
        return group_nodes.ids(quoted(group))

    def owners(self, group: str) -> str:
        """Its children are the topics of which a partition has, or had, an owner."""
        return f"{self.consumers}/{quoted(group)}/owners"

    def owners_of(self, group: str, topic: str) -> str:
        """Its children are the topic's partitions that have, or had, an owner."""
        return f"{self.consumers}/{quoted(group)}/owners/{quoted(topic)}"

    def owner(self, group: str, topic: str, partition: str) -> str:
        """Persistent; its data is the owner: {"consumer": …, "member": …, "generation": n}."""
        return f"{self.consumers}/{quoted(group)}/owners/{quoted(topic)}/{quoted(partition)}"

    def offsets(self, group: str) -> str:
        """Its children are the topics of which an offset is stored."""
        return f"{self.consumers}/{quoted(group)}/offsets"

    def offset(self, group: str, topic: str, partition: str) -> str:
        """Its data is the committed offset, in decimal."""
        return f"{self.consumers}/{quoted(group)}/offsets/{quoted(topic)}/{quoted(partition)}"
