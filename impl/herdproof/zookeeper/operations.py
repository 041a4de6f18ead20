"""
Operations on ZooKeeper, and its answers: plain values, no network.

The same operations are performed by the real service (`client.py`, over kazoo) and by the simulated
one (`herdproof.simulator.zookeeper`), so that a core that asks for them runs in either world.
An operation is answered by a *result* or by a *refusal* (`Refusal`); neither is ever raised.
What no node can be called is refused in the same way in both worlds, before it is sent anywhere.

They are structs, not dataclasses: a transaction may hold a thousand of them, there and back, and a
frozen dataclass takes ten times as long to be made.

Source: the ZooKeeper 3.9 programmer's guide (sessions, versions, watches, multi).
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import astuple

ANY_VERSION = -1
"""A version that matches every version of a node."""


class Stat(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """The metadata of a node that a protocol may rely on (zxids are transaction ids)."""

    czxid: int
    """Transaction that created the node."""
    mzxid: int
    """Transaction that last changed its data."""
    version: int
    """The number of times that its data was set since it was created; what `Check` compares."""
    cversion: int
    """The number of times that its set of children changed."""
    ephemeral_owner: int
    """The session that owns it; 0 for a persistent node."""
    data_length: int
    num_children: int
    modified_ms: int = 0
    """When its data was last set, by ZooKeeper's clock, since 1970; the simulated one has none."""

    def __eq__(self, other: object) -> bool:
        """All but the clock's time is compared: the simulated one has none."""
        return isinstance(other, Stat) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[int, ...]:
        return astuple(self)[:-1]


class Create(Struct, frozen=True, gc=False):
    """Create a node; `NO_NODE` without its parent, `NODE_EXISTS` if it stands."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class Delete(Struct, frozen=True, gc=False):
    """Delete a node without children, if its version matches."""

    path: str
    version: int = ANY_VERSION


class Set(Struct, frozen=True, gc=False):
    """Set a node's data, if its version matches."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Check(Struct, frozen=True, gc=False):
    """Inside a `Multi`: refuse the whole of it unless the version matches."""

    path: str
    version: int


class Multi(Struct, frozen=True, gc=False):
    """All of these writes in one transaction, or none of them."""

    operations: tuple[Create | Delete | Set | Check, ...]


class Exists(Struct, frozen=True, gc=False):
    """The node's `Stat`, or `None`; the watch fires when it is created, changed or deleted."""

    path: str
    watch: bool = False


class Get(Struct, frozen=True, gc=False):
    """A node's data; the watch fires when it is changed or deleted (none is left on `NO_NODE`)."""

    path: str
    watch: bool = False


class Children(Struct, frozen=True, gc=False):
    """The names of a node's children; the watch fires when the set changes or the node goes."""

    path: str
    watch: bool = False


class Sync(Struct, frozen=True, gc=False):
    """Make the server that we are connected to catch up with the ensemble's leader."""

    path: str = "/"


Operation = Create | Delete | Set | Multi | Exists | Get | Children | Sync


class Created(Struct, frozen=True, gc=False):
    """Answers `Create`."""

    path: str


class Deleted(Struct, frozen=True, gc=False):
    """Answers `Delete`."""


class Changed(Struct, frozen=True, gc=False):
    """Answers `Set`."""

    stat: Stat


class Checked(Struct, frozen=True, gc=False):
    """Answers `Check`, inside a `Multi`."""


class Done(Struct, frozen=True, gc=False):
    """Answers `Multi`: one answer for each of its operations, in order."""

    answers: tuple[Created | Deleted | Changed | Checked, ...]


class Found(Struct, frozen=True, gc=False):
    """Answers `Exists`: `None` where nothing stands."""

    stat: Stat | None


class Data(Struct, frozen=True, gc=False):
    """Answers `Get`."""

    data: bytes
    stat: Stat


class Names(Struct, frozen=True, gc=False):
    """Answers `Children`, sorted."""

    names: tuple[str, ...]


class Synced(Struct, frozen=True, gc=False):
    """Answers `Sync`."""


class Why(Enum):
    """Why an operation was refused, or why nobody knows whether it was done."""

    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    NO_CHILDREN_FOR_EPHEMERALS = "no children for ephemerals"
    BAD_ARGUMENTS = "bad arguments"
    CONNECTION_LOSS = "connection loss"
    """The connection broke: the operation may or may not have been done."""
    SESSION_EXPIRED = "session expired"
    """The session ended: if the operation was sent before, it may have been done."""


class Refusal(Struct, frozen=True, gc=False):
    """An operation was refused; of a `Multi`, `index` says which of its operations was to blame."""

    why: Why
    index: int | None = None


@lru_cache(maxsize=4096)
def is_path(path: str) -> bool:
    """Tells whether a node could have this path: absolute, without empty names, "." or ".."."""
    names = set(path.split("/")[1:])
    return path == "/" or (path[:1] == "/" and not {"", ".", ".."} & names and "\0" not in path)


def misfitting(operation: Operation) -> Refusal | None:
    """Refuse an operation on what cannot be a path, as a client does before it sends anything."""
    if isinstance(operation, Multi):
        wrong = (i for i, part in enumerate(operation.operations) if not is_path(part.path))
        index = next(wrong, None)
        return None if index is None else Refusal(Why.BAD_ARGUMENTS, index)
    return None if is_path(operation.path) else Refusal(Why.BAD_ARGUMENTS)


Answer = Created | Deleted | Changed | Done | Found | Data | Names | Synced | Refusal


class NodeChange(Enum):
    """A change that a watch saw."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    CHILDREN = "children"


class Watched(Struct, frozen=True, gc=False):
    """A one-shot watch fired: `path` changed since it was read."""

    path: str
    change: NodeChange


class Link(Enum):
    """The state of a session, as its client knows it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost; the session may live on."""
    LOST = "lost"
    """The server said that the session has expired."""
