"""
The layout of a group in ZooKeeper: Kafka 0.8's, and beside it the nodes that count claims.

Members of Kafka 0.8 read and write the same nodes, so names stand there as they are: what no node
can be called no group, topic or consumer can be called, either. What 0.8 does not have lies below
`/herdproof`, where no group's name can collide with it.

Source: Kafka 0.8.2, `ZKGroupDirs` and `ZKGroupTopicDirs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from herdproof.consuming import group_nodes
from herdproof.consuming.assignment import Partition
from herdproof.errors import CallerError
from herdproof.zookeeper.operations import is_path

BROKER_IDS = "/brokers/ids"
"""Its children are the brokers that live."""
TOPICS = "/brokers/topics"
"""Its children are the topics."""


class UnusableName(CallerError):
    """A group's or consumer's name that no node of ZooKeeper can have."""


def topic_path(topic: str) -> str:
    """Its data names the topic's partitions: {"version": 1, "partitions": {"0": [1, 2]}}."""
    return f"{TOPICS}/{topic}"


@dataclass(frozen=True, slots=True)
class GroupDirs:
    """Where one group has its nodes; raises `UnusableName` for one that can have none."""

    group: str

    def __post_init__(self) -> None:
        if not is_name(self.group):
            raise UnusableName(
                f"{self.group!r} cannot be a group's name: ZooKeeper's nodes have names without "
                f'"/" and control characters, and not "." or ".."'
            )

    @property
    def ids(self) -> str:
        """Its children are the members."""
        return group_nodes.ids(self.group)

    def id(self, consumer_id: str) -> str:
        """Ephemeral; its data is the member's registration."""
        return f"{self.ids}/{consumer_id}"

    @property
    def coordinated(self) -> str:
        """It stands if a coordinator has, or had, this group."""
        return group_nodes.coordinated(self.group)

    @property
    def subscriptions(self) -> str:
        """Its children are a coordinator's members: as long as there are any, the group is its."""
        return group_nodes.subscriptions(self.group)

    def owner(self, partition: Partition) -> str:
        """Ephemeral; its data is the owner: the consumer's id, "-", and a thread's number."""
        return f"/consumers/{self.group}/owners/{'/'.join(partition)}"

    def offset(self, partition: Partition) -> str:
        """Persistent; its data is the first offset that is not finished with, in decimal."""
        return f"/consumers/{self.group}/offsets/{'/'.join(partition)}"

    def claim(self, partition: Partition) -> str:
        """Persistent; its version counts the claims of the partition, its data names the last."""
        return f"/herdproof/claims/{self.group}/{'/'.join(partition)}"


def is_name(text: str) -> bool:
    """Tells whether a node can be called so: one name, without what ZooKeeper refuses in names."""
    return "/" not in text and is_path(f"/{text}") and text.isprintable() and text != ""


def parents(path: str) -> Iterator[str]:
    """The paths above a path, the root excepted, from the top."""
    names = path.split("/")[1:-1]
    return ("/" + "/".join(names[: depth + 1]) for depth in range(len(names)))
