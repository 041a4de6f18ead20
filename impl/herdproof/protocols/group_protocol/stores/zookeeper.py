"""
A store in ZooKeeper, fenced by the epoch of the election: who is deposed writes nothing.

A group is a node, its data what is stored of its members; below it is a node for each topic, and
below that one for each partition with a committed offset. A change is one transaction, which begins
with the check of the epoch's node; only the deletion of a group that is too large for one is
several, the group's own node last. A change is sent at once, unless another one is under way: what
comes meanwhile is sent together, in order, once that is answered, as much as one transaction may
hold. So many commits cost hardly more than one, and each waits for two answers at most. Whoever
does not hear whether one was done is in doubt about all, and has to load anew (its connection is
lost, so that the election wants it to step down anyway).

There is no socket here: `submit` sends an operation over the one session, and calls back with its
answer, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import msgspec

from herdproof.protocols.election import elector
from herdproof.protocols.group_protocol.effects import (
    StoredClassicGroup,
    StoredCommit,
    StoredMetadata,
    StoreGroup,
    TopicPartition,
)
from herdproof.protocols.group_protocol.stores.port import LoadedThen, WriteOutcome, WrittenThen
from herdproof.zookeeper.names import lineage, quoted, unquoted
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Create,
    Data,
    Delete,
    Done,
    Get,
    Names,
    Operation,
    Refusal,
    Set,
    Sync,
    Why,
)

Submit: TypeAlias = Callable[[Operation, Callable[[Answer], None]], None]
Write: TypeAlias = Create | Set | Delete

_OVERHEAD_BYTES = 128
"""Bytes that an operation takes in a transaction beside path and data; generous."""
_DEPTH_OF_TOPICS = 1
"""Depth of topics below their group: what is deeper is a partition."""
_NAMELESS = "%"
"""The node of the group whose name is empty: nothing is quoted so."""
_DELETES = 1_000
"""The most deletions of one transaction."""
_TOGETHER = 1_000
"""From so many operations on, a transaction takes no further change."""
_FENCED = Refusal(Why.BAD_VERSION, 0)
"""The answer to a transaction by who is not of the present epoch, whose check comes first."""
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class GroupPaths:
    """The nodes of the group protocol; methods take names as users know them, unquoted."""

    groups: str = "/herdproof/group_protocol"
    """Its children are the groups."""
    election: elector.ElectionPaths = field(default_factory=elector.ElectionPaths)

    def group(self, group: str) -> str:
        """Its data is what is stored of the group's members, or empty; its children are topics."""
        return f"{self.groups}/{quoted(group) or _NAMELESS}"

    def named(self, node: str) -> str:
        """The group that a node is for."""
        return "" if node == _NAMELESS else unquoted(node)

    def topic(self, group: str, topic: str) -> str:
        """Its children are the partitions with a committed offset."""
        return f"{self.group(group)}/{quoted(topic)}"

    def offset(self, group: str, where: TopicPartition) -> str:
        """Its data is a committed offset."""
        return _below(self.topic(group, where[0]), where[1])


@dataclass(slots=True, eq=False)
class _Sent:
    """A change that was sent, and what became of it, once that is known."""

    then: WrittenThen
    left: int
    """The transactions that are not answered yet."""
    written: WriteOutcome = WriteOutcome.DONE


class ZooKeeperGroupStore:
    """The groups of all coordinators, of which one at a time may write."""

    def __init__(
        self, submit: Submit, paths: GroupPaths | None = None, max_transaction_bytes: int = 900_000
    ) -> None:
        self._submit = submit
        self._paths = paths or GroupPaths()
        self._max_bytes = max_transaction_bytes
        self._epoch = 0
        self._turn = 0
        """Number of times that it was loaded: what was sent before the last counts no more."""
        self._stands: dict[str, set[str]] = {}
        """Of each group, the nodes that stand, once all that was sent is done."""
        self._sent: deque[_Sent] = deque()
        """Changes of which nobody was told, in order."""
        self._waiting: deque[tuple[_Sent, list[Write]]] = deque()
        """The transactions of these that are not sent yet."""
        self._is_under_way = False

    # ── Loading ─────────────────────────────────────────────────────────────────────────────

    def load(self, epoch: int, then: LoadedThen) -> None:
        """Read all groups, with a server that does not lag behind the election."""
        self._epoch = epoch
        self._turn += 1
        self._stands = {}
        self._sent.clear()
        self._waiting.clear()
        self._is_under_way = False
        _Loading(self._submit, self._paths, partial(self._loaded, self._turn, then)).begin()

    def _loaded(self, turn: int, then: LoadedThen, loading: _Loading | None) -> None:
        if turn != self._turn:
            return
        if loading is None:
            then(None)
            return
        for path in loading.nodes:
            name = path.removeprefix(f"{self._paths.groups}/").partition("/")[0]
            self._stands.setdefault(self._paths.named(name), set()).add(path)
        then(read_groups(self._paths, loading.nodes))

    # ── Writing ─────────────────────────────────────────────────────────────────────────────

    def write(self, change: StoreGroup, then: WrittenThen) -> None:
        """Have a change stored; in the order in which they were given, `then` is told of each."""
        transactions = self._deletions(change) if change.is_deleted else self._writes(change)
        sent = _Sent(then, len(transactions))
        if any(_size(each) > self._max_bytes for each in transactions):
            sent.written, transactions, sent.left = WriteOutcome.REFUSED, [], 0
        else:
            self._note(change.group, transactions)
        self._sent.append(sent)
        self._waiting += ((sent, each) for each in transactions)
        self._send()
        self._report()

    def _send(self) -> None:
        """Send what waits, as much as one transaction may hold, unless one is under way."""
        if self._is_under_way or not self._waiting:
            return
        of: list[_Sent] = []
        writes: list[Write] = []
        left = self._max_bytes
        while self._waiting and len(writes) < _TOGETHER:
            sent, more = self._waiting[0]
            left -= _size(more)
            if of and left < 0:
                break
            self._waiting.popleft()
            of.append(sent)
            writes += more
        self._is_under_way = True
        operation = elector.fenced(self._paths.election, self._epoch, tuple(writes))
        self._submit(operation, partial(self._answered, self._turn, of))

    def _answered(self, turn: int, of: list[_Sent], answer: Answer) -> None:
        if turn != self._turn:
            return
        self._is_under_way = False
        for sent in of:
            sent.left -= 1
            if not isinstance(answer, Done):
                sent.written = WriteOutcome.FENCED if answer == _FENCED else WriteOutcome.DOUBTFUL
        self._report()
        self._send()

    def _report(self) -> None:
        """Tell of all that is known, as far as all before it is."""
        while self._sent and not self._sent[0].left:
            sent = self._sent.popleft()
            sent.then(sent.written)

    def _writes(self, change: StoreGroup) -> list[list[Write]]:
        """The one transaction of a change that is no deletion."""
        stands = self._stands.get(change.group, set())
        writes: list[Write] = []

        def put(path: str, data: bytes) -> None:
            writes.append(Set(path, data) if path in stands else Create(path, data))

        group = self._paths.group(change.group)
        if change.metadata is not None:
            put(group, _ENCODER.encode(change.metadata))
        elif group not in stands:
            put(group, b"")
        names = {name for name, _ in change.offsets}
        topics = {name: self._paths.topic(change.group, name) for name in names}
        made: set[str] = set()
        for (name, partition), offset in change.offsets.items():
            topic = topics[name]
            path = _below(topic, partition)
            if offset is not None:
                if topic not in stands and topic not in made:
                    put(topic, b"")
                    made.add(topic)
                put(path, _ENCODER.encode(offset))
            elif path in stands:
                writes.append(Delete(path))
        return [writes] if writes else []

    def _deletions(self, change: StoreGroup) -> list[list[Write]]:
        """The transactions that leave nothing of a group, what lies deepest first."""
        paths = sorted(
            self._stands.get(change.group, ()), key=lambda path: (-path.count("/"), path)
        )
        deletes: list[Write] = [Delete(path) for path in paths]
        return [deletes[at : at + _DELETES] for at in range(0, len(deletes), _DELETES)]

    def _note(self, group: str, transactions: list[list[Write]]) -> None:
        """Note which nodes stand once these transactions are done."""
        stands = self._stands.setdefault(group, set())
        for operation in (each for transaction in transactions for each in transaction):
            if isinstance(operation, Delete):
                stands.discard(operation.path)
            else:
                stands.add(operation.path)
        if not stands:
            del self._stands[group]


class _Loading:
    """Reading all groups, many at a time; `then` is given it, or None if something is refused."""

    def __init__(
        self, submit: Submit, paths: GroupPaths, then: Callable[[_Loading | None], None]
    ) -> None:
        self.nodes: dict[str, bytes] = {}
        """The data of every node below that of all groups."""
        self._submit = submit
        self._paths = paths
        self._then = then
        self._asked = 0
        self._has_failed = False

    def begin(self) -> None:
        """Make what all groups lie under, catch up with the election, then read."""
        root = self._paths.groups
        for path in reversed(list(lineage(root))):
            self._ask(Create(path), _ignore)
        self._ask(Sync(), _ignore)
        self._ask(Children(root), partial(self._listed, root))

    def _ask(self, operation: Operation, heard: Callable[[Answer], None]) -> None:
        self._asked += 1
        self._submit(operation, partial(self._answered, heard))

    def _answered(self, heard: Callable[[Answer], None], answer: Answer) -> None:
        self._asked -= 1
        if self._has_failed:
            return
        if isinstance(answer, Refusal) and answer.why not in (Why.NODE_EXISTS, Why.NO_NODE):
            self._has_failed = True
            self._then(None)
            return
        heard(answer)
        if not self._asked:
            self._then(self)

    def _listed(self, above: str, answer: Answer) -> None:
        """Read the children: groups, and topics, have more below them."""
        depth = above.count("/") - self._paths.groups.count("/")
        for name in answer.names if isinstance(answer, Names) else ():
            path = f"{above}/{name}"
            self._ask(Get(path), partial(self._read, path))
            if depth <= _DEPTH_OF_TOPICS:
                self._ask(Children(path), partial(self._listed, path))

    def _read(self, path: str, answer: Answer) -> None:
        if isinstance(answer, Data):
            self.nodes[path] = answer.data


def read_groups(paths: GroupPaths, nodes: Mapping[str, bytes]) -> dict[str, StoredClassicGroup]:
    """The groups that these nodes, by path, keep; others among them do no harm."""
    metadata: dict[str, StoredMetadata | None] = {}
    offsets: dict[str, dict[TopicPartition, StoredCommit]] = {}
    for path in sorted(nodes):
        if not path.startswith(f"{paths.groups}/"):
            continue
        name, *where = path.removeprefix(f"{paths.groups}/").split("/")
        group = paths.named(name)
        if not where:
            data = nodes[path]
            metadata[group] = msgspec.json.decode(data, type=StoredMetadata) if data else None
        elif len(where) > _DEPTH_OF_TOPICS:
            topic, number = where
            offset = msgspec.json.decode(nodes[path], type=StoredCommit)
            offsets.setdefault(group, {})[unquoted(topic), int(number)] = offset
    return {
        name: StoredClassicGroup(found, offsets.get(name, {})) for name, found in metadata.items()
    }


def _below(topic: str, partition: int) -> str:
    """The node of a partition below that of its topic."""
    return f"{topic}/{partition}"


def _size(writes: list[Write]) -> int:
    """About how many bytes a transaction takes."""
    data = sum([len(each.data) for each in writes if not isinstance(each, Delete)])
    return data + sum([len(each.path) for each in writes]) + _OVERHEAD_BYTES * len(writes)


def _ignore(answer: Answer) -> None:
    """Go on with the next, whatever the answer is."""
    del answer
