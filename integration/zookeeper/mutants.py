"""
Simulated ZooKeepers with one planted mistake each: do comparisons with the real one find them?

Each mistake is one that somebody could make, or believe; its class's docstring says what is wrong.
"""

from __future__ import annotations

from herdproof.simulator.tree import Draft, split
from herdproof.simulator.zookeeper import NOTHING, SessionState, ZooKeeper
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Changed,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Delete,
    Deleted,
    Exists,
    Get,
    Multi,
    NodeChange,
    Refusal,
    Set,
    Watched,
    Why,
)


class MultiIsNotAtomic(ZooKeeper):
    """What a multi did before it was refused stays done."""

    def _write(self, session: int, operation: Create | Delete | Set | Multi) -> Answer:
        answer = super()._write(session, operation)
        if isinstance(operation, Multi) and isinstance(answer, Refusal):
            super()._write(session, Multi(operation.operations[: answer.index]))
        return answer


class MultiBlamesTheNext(ZooKeeper):
    """A refused multi names the operation after the one to blame."""

    def _write(self, session: int, operation: Create | Delete | Set | Multi) -> Answer:
        answer = super()._write(session, operation)
        if isinstance(answer, Refusal) and answer.index is not None:
            return Refusal(answer.why, answer.index + 1)
        return answer


class WatchFiresTwice(ZooKeeper):
    """A watch stays after it fired."""

    def _tell(self, session: int, changes: tuple[Watched, ...]) -> None:
        before = self._session(session)
        super()._tell(session, changes)
        self._put(session, before._replace(events=self._session(session).events))


class WatchOutlivesTheConnection(ZooKeeper):
    """A connection that breaks leaves its watches behind."""

    def lose_connection(self, session: int) -> None:
        """Nothing happens."""


class OwnChangesAreNotTold(ZooKeeper):
    """A session is not told of what it did itself."""

    def _write(self, session: int, operation: Create | Delete | Set | Multi) -> Answer:
        answer = super()._write(session, operation)
        self.take_events(session)
        return answer


class RefusedGetWatches(ZooKeeper):
    """`Get` leaves a watch on what is not there."""

    def _read(self, session: int, operation: Exists | Get | Children) -> Answer:
        answer = super()._read(session, operation)
        if isinstance(operation, Get) and isinstance(answer, Refusal) and operation.watch:
            self._watch(session, self._session(session), operation)
        return answer


class ExistsWatchesOnlyWhatStands(ZooKeeper):
    """`Exists` leaves no watch on what is not there, so a creation is never told."""

    def _watch(self, session: int, state: SessionState, operation: Exists | Get | Children) -> None:
        if operation.path in self._nodes:
            super()._watch(session, state, operation)


class ChildWatchSurvivesItsNode(ZooKeeper):
    """A child watch is not told that the node itself is gone."""

    def _tell(self, session: int, changes: tuple[Watched, ...]) -> None:
        children = self._session(session).child_watches
        state = self._session(session)
        self._put(session, state._replace(child_watches=NOTHING))
        super()._tell(session, tuple(c for c in changes if c.change is not NodeChange.CHILDREN))
        state = self._session(session)
        self._put(session, state._replace(child_watches=children))
        super()._tell(session, tuple(c for c in changes if c.change is NodeChange.CHILDREN))


class DeletionIsToldTwice(ZooKeeper):
    """A session that watches data and children is told twice that a node is gone."""

    def _tell(self, session: int, changes: tuple[Watched, ...]) -> None:
        both = self._session(session).data_watches & self._session(session).child_watches
        super()._tell(session, changes)
        state = self._session(session)
        twice = tuple(c for c in changes if c.change is NodeChange.DELETED and c.path in both)
        self._put(session, state._replace(events=state.events + twice))


class EphemeralsStay(ZooKeeper):
    """The ephemerals of a session outlive it."""

    def _end(self, session: int, *, told: bool = False) -> None:
        del told
        self._put(session, self._session(session)._replace(alive=False))


class _VersionIsNotChecked(Draft):
    def refused(self, path: str, version: int) -> Refusal | None:
        """No version is wrong, but for one that no node has."""
        return super().refused(path, min(version, ANY_VERSION))


class VersionIsNotChecked(ZooKeeper):
    """An operation that expects another version is done."""

    draft = _VersionIsNotChecked


class _CheckIsNotChecked(Draft):
    def part(
        self, operation: Create | Delete | Set | Check
    ) -> Created | Deleted | Changed | Checked | Refusal:
        """A check is never refused."""
        return Checked() if isinstance(operation, Check) else super().part(operation)


class CheckIsNotChecked(ZooKeeper):
    """A check within a multi refuses nothing."""

    draft = _CheckIsNotChecked


class _ChecksNodesBeforeVersions(Draft):
    def delete(self, path: str, version: int = ANY_VERSION) -> Deleted | Refusal:
        """Look for children before the version."""
        if path in self.nodes and self.nodes[path].children:
            return Refusal(Why.NOT_EMPTY)
        return super().delete(path, version)


class EmptinessComesFirst(ZooKeeper):
    """A deletion that is wrong in its version and for children is refused for the children."""

    draft = _ChecksNodesBeforeVersions


class _LetsEphemeralsHaveChildren(Draft):
    def create(self, operation: Create) -> Created | Refusal:
        """The parent looks persistent while the node is made."""
        above = split(operation.path)[0]
        owner = self.nodes[above].owner if above in self.nodes else 0
        self._give(above, 0)
        answer = super().create(operation)
        self._give(above, owner)
        return answer

    def _give(self, path: str, owner: int) -> None:
        """Change whose node it is."""
        if path in self.nodes:
            self.nodes[path] = self.nodes[path]._replace(owner=owner)


class EphemeralsHaveChildren(ZooKeeper):
    """An ephemeral node may have children."""

    draft = _LetsEphemeralsHaveChildren


class _StartsAtOne(Draft):
    def create(self, operation: Create) -> Created | Refusal:
        """A node begins with version 1."""
        answer = super().create(operation)
        if isinstance(answer, Created):
            node = self.nodes[operation.path]
            self.nodes[operation.path] = node._replace(version=1)
        return answer


class VersionsStartAtOne(ZooKeeper):
    """A new node's version is 1."""

    draft = _StartsAtOne


class _SkipsTheSame(Draft):
    def set(self, operation: Set) -> Changed | Refusal:
        """Setting what stands already is no change."""
        refusal = self.refused(operation.path, operation.version)
        if refusal is not None or self.nodes[operation.path].data != operation.data:
            return refusal or super().set(operation)
        return Changed(self.nodes[operation.path].stat())


class SameDataIsNoChange(ZooKeeper):
    """Setting the data that a node has already changes no version and tells nobody."""

    draft = _SkipsTheSame


class _ForgetsDeletionsAbove(Draft):
    def delete(self, path: str, version: int = ANY_VERSION) -> Deleted | Refusal:
        """The last change, the parent's, is forgotten."""
        answer = super().delete(path, version)
        if isinstance(answer, Deleted):
            self.changes.pop()
        return answer


class ParentIsNotToldOfDeletions(ZooKeeper):
    """A child watch is not told that a child has gone."""

    draft = _ForgetsDeletionsAbove


class _TouchesTheParent(Draft):
    def _change_children(self, path: str) -> None:
        """A change of the children counts as a change of the data."""
        super()._change_children(path)
        above = split(path)[0]
        self.nodes[above] = self.nodes[above]._replace(mzxid=self._zxid)


class ChildrenChangeTheParent(ZooKeeper):
    """A parent's data transaction is that of its newest child."""

    draft = _TouchesTheParent


class _CountsCreations(Draft):
    def _change_children(self, path: str) -> None:
        """Only a new child counts."""
        super()._change_children(path)
        if path not in self.nodes:
            parent = self.nodes[split(path)[0]]
            self.nodes[split(path)[0]] = parent._replace(cversion=parent.cversion - 1)


class ChildVersionCountsCreations(ZooKeeper):
    """The version of the children counts creations, not deletions."""

    draft = _CountsCreations


class _TakesAZxidForEachPart(Draft):
    def part(
        self, operation: Create | Delete | Set | Check
    ) -> Created | Deleted | Changed | Checked | Refusal:
        """Each part of a multi is a transaction."""
        self._zxid += 1
        return super().part(operation)


class EachPartIsATransaction(ZooKeeper):
    """The parts of a multi bear transaction ids of their own."""

    draft = _TakesAZxidForEachPart

    def _write(self, session: int, operation: Create | Delete | Set | Multi) -> Answer:
        answer = super()._write(session, operation)
        self._zxid += 4
        return answer


MUTANTS: tuple[type[ZooKeeper], ...] = (
    MultiIsNotAtomic,
    MultiBlamesTheNext,
    WatchFiresTwice,
    WatchOutlivesTheConnection,
    OwnChangesAreNotTold,
    RefusedGetWatches,
    ExistsWatchesOnlyWhatStands,
    ChildWatchSurvivesItsNode,
    DeletionIsToldTwice,
    EphemeralsStay,
    EphemeralsHaveChildren,
    VersionIsNotChecked,
    VersionsStartAtOne,
    CheckIsNotChecked,
    EmptinessComesFirst,
    SameDataIsNoChange,
    ParentIsNotToldOfDeletions,
    ChildrenChangeTheParent,
    ChildVersionCountsCreations,
    EachPartIsATransaction,
)
"""All planted mistakes."""
