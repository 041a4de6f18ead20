"""
kazoo's words and ours: frames and operations, results and answers, errors and refusals.

Functions between two vocabularies, without a connection. This module and `client.py`, which has the
connection, are the only ones that import kazoo (`properties/rules/test_house_rules.py`).

Source: kazoo 2.11, `kazoo.protocol.serialization` (undocumented) and `kazoo.exceptions`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import merge
from typing import Any, assert_never

from kazoo import exceptions as kazoo_errors
from kazoo.protocol import serialization as frames
from kazoo.protocol.states import EventType, KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Done,
    Exists,
    Found,
    Get,
    Link,
    Multi,
    Names,
    NodeChange,
    Operation,
    Refusal,
    Set,
    Stat,
    Sync,
    Synced,
    Why,
)
from herdproof.zookeeper.transactions import Result, TransactionFrame

log = logging.getLogger(__name__)

LINKS = {
    KazooState.CONNECTED: Link.CONNECTED,
    KazooState.SUSPENDED: Link.SUSPENDED,
    KazooState.LOST: Link.LOST,
}

CHANGES = {
    EventType.CREATED: NodeChange.CREATED,
    EventType.DELETED: NodeChange.DELETED,
    EventType.CHANGED: NodeChange.DATA,
    EventType.CHILD: NodeChange.CHILDREN,
}
"""Changes by type of watch event; the one that is left out, NONE, is about no node."""

READS = (frames.Exists, frames.GetData, frames.GetChildren)
"""The frames that are answered by the server that one is connected to, as far as it has got."""

OPEN = OPEN_ACL_UNSAFE
"""The access list of a node with which anybody may do anything."""

OWN = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
"""The access list of a node that anybody may read, and only its creator's digest may change."""

SORTED_AT_ONCE = 5_000
"""The names that are sorted in one step: two milliseconds."""

_REFUSALS: tuple[tuple[type[Exception], Why], ...] = (
    (kazoo_errors.NoNodeError, Why.NO_NODE),
    (kazoo_errors.NodeExistsError, Why.NODE_EXISTS),
    (kazoo_errors.BadVersionError, Why.BAD_VERSION),
    (kazoo_errors.NotEmptyError, Why.NOT_EMPTY),
    (kazoo_errors.NoChildrenForEphemeralsError, Why.NO_CHILDREN_FOR_EPHEMERALS),
    (kazoo_errors.BadArgumentsError, Why.BAD_ARGUMENTS),
    (kazoo_errors.SessionExpiredError, Why.SESSION_EXPIRED),
    (kazoo_errors.ConnectionLoss, Why.CONNECTION_LOSS),
    (kazoo_errors.ConnectionClosedError, Why.CONNECTION_LOSS),
    (kazoo_errors.OperationTimeoutError, Why.CONNECTION_LOSS),
    (kazoo_errors.RequestTimeoutError, Why.CONNECTION_LOSS),
    (kazoo_errors.SessionMovedError, Why.CONNECTION_LOSS),
)

_INNOCENT = {kazoo_errors.RolledBackError.code, kazoo_errors.RuntimeInconsistency.code}
"""Errors of operations that were not done because of another one."""


def frame_of(
    operation: Operation, rooted: Callable[[str], str], watcher: Any = None,
    acl: list[Any] = OPEN,
) -> Any:  # fmt: skip
    """
    An operation as kazoo sends it.

    `rooted` gives a path as the server knows it; `watcher` is for operations that ask for a watch;
    `acl` is what a created node gets. Every path is well-formed (`operations.misfitting`): kazoo
    does not look.
    """
    path = "" if isinstance(operation, Multi) else rooted(operation.path)
    match operation:
        case Create():
            flags = 1 if operation.ephemeral else 0
            return frames.Create(path, operation.data, acl, flags)
        case Delete():
            return frames.Delete(path, operation.version)
        case Set():
            return frames.SetData(path, operation.data, operation.version)
        case Multi():
            return TransactionFrame(operation.operations, rooted, acl)
        case Exists():
            return frames.Exists(path, watcher if operation.watch else None)
        case Get():
            return frames.GetData(path, watcher if operation.watch else None)
        case Children():
            return frames.GetChildren(path, watcher if operation.watch else None)
        case Sync():
            return frames.Sync(path)
        case _:
            assert_never(operation)


class Reply:
    """
    The server's reply to a frame, as kazoo's connection hands it over; `tell` is told of it then.

    kazoo's own can be waited for, and takes some twenty objects for that.
    """

    __slots__ = ("_tell", "exception", "value")

    def __init__(self, tell: Callable[[Reply], None]) -> None:
        self._tell = tell
        self.value: Any = None
        self.exception: Exception | None = None

    def set(self, value: Any) -> None:
        """It has come."""
        self.value = value
        self._tell(self)

    def set_exception(self, exception: Exception) -> None:
        """It says that something is wrong, or will not come."""
        self.exception = exception
        self._tell(self)


def answer_of(operation: Operation, reply: Reply, unrooted: Callable[[str], str]) -> Answer:
    """The reply to an operation, in our words; `unrooted` undoes `rooted`."""
    if reply.exception is not None:
        return _refusal(reply.exception)
    match operation:
        case Create():
            return Created(unrooted(reply.value))
        case Delete():
            return Deleted()
        case Set():
            return Changed(_stat(reply.value))
        case Multi():
            return _outcome(operation, reply.value)
        case Exists():
            return Found(None if reply.value is None else _stat(reply.value))
        case Get():
            data, stat = reply.value
            return Data(data, _stat(stat))
        case Children():
            return Names(in_order(reply.value))
        case Sync():
            return Synced()
        case _:
            assert_never(operation)


def in_order(names: list[str]) -> tuple[str, ...]:
    """
    Names in order, however many there are, without holding up other threads.

    A sort is one step of the interpreter's, in which no other thread of the process runs: of a
    million names it takes half a second. So portions are sorted, and then merged name by name.
    """
    begins = range(0, len(names), SORTED_AT_ONCE)
    return tuple(merge(*(sorted(names[begin : begin + SORTED_AT_ONCE]) for begin in begins)))


def _outcome(multi: Multi, values: list[Result]) -> Answer:
    """
    The results of a transaction: all of them good, or all of them errors.

    In the latter case the guilty operation has its own error, those before it have "rolled back",
    those after it "runtime inconsistency".
    """
    for index, value in enumerate(values):
        if isinstance(value, int) and value not in _INNOCENT:
            return _refusal(kazoo_errors.EXCEPTIONS[value](), index)
    return Done(tuple(map(_part, multi.operations, values)))


def _part(
    operation: Create | Delete | Set | Check, value: Any
) -> Created | Deleted | Changed | Checked:
    """The result of one operation of a transaction that was done."""
    match operation:
        case Create():
            return Created(value)
        case Delete():
            return Deleted()
        case Set():
            return Changed(value)
        case Check():
            return Checked()
        case _:
            assert_never(operation)


def _stat(stat: Any) -> Stat:
    """The part of kazoo's `ZnodeStat` that we keep."""
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        num_children=stat.numChildren,
        modified_ms=stat.mtime,
    )


def _refusal(problem: Exception, index: int | None = None) -> Refusal:
    """
    The refusal that kazoo raised, in our words.

    Another error that the server reports (access denied, a quota) means that it did nothing: bad
    arguments. Whatever else goes wrong leaves open whether it was done: connection loss.
    """
    for kind, why in _REFUSALS:
        if isinstance(problem, kind):
            return Refusal(why, index)
    log.error("ZooKeeper refused an operation in an unexpected way: %r", problem)
    refused = isinstance(problem, kazoo_errors.ZookeeperError)
    return Refusal(Why.BAD_ARGUMENTS if refused else Why.CONNECTION_LOSS, index)
