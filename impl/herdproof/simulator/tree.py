"""
ZooKeeper's tree of nodes, and how one transaction changes it.

A tree is a mapping that is never changed in place: a transaction (`Draft`) writes into a copy,
which becomes the tree when it succeeds and is dropped when it does not. So a snapshot of the tree
costs nothing, a server that lags is an older tree, and a `Multi` is all or nothing of itself.

Source: ZooKeeper 3.9, `PrepRequestProcessor` (what is refused, and in which order) and `DataTree`
(what is changed, and which watches that triggers). Absent: the service's own nodes below
`/zookeeper`, access control, quotas, sequential, container and TTL nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Changed,
    Check,
    Checked,
    Create,
    Created,
    Delete,
    Deleted,
    NodeChange,
    Refusal,
    Set,
    Stat,
    Watched,
    Why,
)


class TreeNode(NamedTuple):
    """One node; its fields mean what `Stat` says of them."""

    data: bytes = b""
    owner: int = 0
    czxid: int = 0
    mzxid: int = 0
    version: int = 0
    cversion: int = 0
    children: frozenset[str] = frozenset()

    def stat(self) -> Stat:
        """The stat of this node that a client is told."""
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            version=self.version,
            cversion=self.cversion,
            ephemeral_owner=self.owner,
            data_length=len(self.data),
            num_children=len(self.children),
        )


Nodes: TypeAlias = Mapping[str, TreeNode]
"""A tree: its nodes by path."""

SEED: Nodes = {"/": TreeNode()}
"""The tree of a new service."""


def split(path: str) -> tuple[str, str]:
    """The parent's path and the node's name: `split("/a/b") == ("/a", "b")`."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class Draft:
    """One transaction in the making: its nodes, and which changes it made, in order."""

    def __init__(self, nodes: Nodes, *, zxid: int, session: int) -> None:
        """Begin the transaction `zxid` of `session` on a copy of `nodes`."""
        self.nodes = dict(nodes)
        self.changes: list[Watched] = []
        self._zxid = zxid
        self._session = session

    def part(
        self, operation: Create | Delete | Set | Check
    ) -> Created | Deleted | Changed | Checked | Refusal:
        """Do one operation of a `Multi`; a refused one changes nothing."""
        if isinstance(operation, Check):
            return self.refused(operation.path, operation.version) or Checked()
        return self.write(operation)

    def write(self, operation: Create | Delete | Set) -> Created | Deleted | Changed | Refusal:
        """Do one operation; a refused one changes nothing."""
        match operation:
            case Create():
                return self.create(operation)
            case Delete(path, version):
                return self.delete(path, version)
            case Set():
                return self.set(operation)

    def create(self, operation: Create) -> Created | Refusal:
        """Add a node below its parent."""
        path = operation.path
        parent = self.nodes.get(split(path)[0])
        if parent is None:
            return Refusal(Why.NO_NODE)
        if path in self.nodes:
            return Refusal(Why.NODE_EXISTS)
        if parent.owner:
            return Refusal(Why.NO_CHILDREN_FOR_EPHEMERALS)
        owner = self._session if operation.ephemeral else 0
        self.nodes[path] = TreeNode(operation.data, owner, self._zxid, self._zxid)
        self.changes.append(Watched(path, NodeChange.CREATED))
        self._change_children(path)
        return Created(path)

    def delete(self, path: str, version: int = ANY_VERSION) -> Deleted | Refusal:
        """Remove a node that has no children."""
        if path == "/":
            return Refusal(Why.BAD_ARGUMENTS)
        refusal = self.refused(path, version)
        if refusal is not None:
            return refusal
        if self.nodes[path].children:
            return Refusal(Why.NOT_EMPTY)
        del self.nodes[path]
        self.changes.append(Watched(path, NodeChange.DELETED))
        self._change_children(path)
        return Deleted()

    def set(self, operation: Set) -> Changed | Refusal:
        """Replace a node's data."""
        refusal = self.refused(operation.path, operation.version)
        if refusal is not None:
            return refusal
        node = self.nodes[operation.path]
        node = node._replace(data=operation.data, mzxid=self._zxid, version=node.version + 1)
        self.nodes[operation.path] = node
        self.changes.append(Watched(operation.path, NodeChange.DATA))
        return Changed(node.stat())

    def refused(self, path: str, version: int) -> Refusal | None:
        """Why an operation that expects this version must not be done, if so."""
        node = self.nodes.get(path)
        if node is None:
            return Refusal(Why.NO_NODE)
        if version not in (ANY_VERSION, node.version):
            return Refusal(Why.BAD_VERSION)
        return None

    def _change_children(self, path: str) -> None:
        """The parent of `path` has one child more, or one less."""
        above, name = split(path)
        parent = self.nodes[above]
        self.nodes[above] = parent._replace(
            children=parent.children ^ {name}, cversion=parent.cversion + 1
        )
        self.changes.append(Watched(above, NodeChange.CHILDREN))
