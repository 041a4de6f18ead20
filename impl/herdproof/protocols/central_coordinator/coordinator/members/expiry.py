"""
Groups that have been empty for long expire: what is stored of them is deleted.

A group is empty from when its last consumer is gone (then the node above its subscriptions is
written) until somebody registers. It expires once nothing of it was written for
`group_retention_ms`: neither that node, nor its commit point, nor an offset. All these times are
ZooKeeper's, and so is the present one: it is that of this leader's election, and what has passed
since. So no leader's end makes a group older or younger.

Source: Kafka's `offsets.retention.minutes`, which is *ours* here; the drafts keep groups for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group
from herdproof.protocols.central_coordinator.coordinator.outbox import Then, ignore
from herdproof.protocols.central_coordinator.coordinator.store import StoreResult
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.election.elector import fenced
from herdproof.zookeeper.names import lineage
from herdproof.zookeeper.operations import (
    Answer,
    Children,
    Data,
    Delete,
    Get,
    Names,
    Operation,
    Refusal,
    Why,
)

Told: TypeAlias = Callable[[Group], None]


class Look:
    """Findings about an empty group before it expires."""

    def __init__(self, group: Group, newest_ms: int) -> None:
        self.group = group
        self.newest_ms = newest_ms
        """When anything of it was written last."""
        self.open = 0
        """The number of reads that are under way."""
        self.stays = False
        """It cannot be read as a whole, or somebody else has something there."""


class Expiry(CorePart):
    """
    Deletes what is stored of groups; `stays` is told of one that does not expire.

    `gone` is told of one of which nothing may stand any more: whoever has registered meanwhile
    waits until it is read again.
    """

    def __init__(self, context: Context, stays: Told, gone: Told) -> None:
        super().__init__(context)
        self.elected_ms = 0
        """When this coordinator was elected, by its own clock …"""
        self._elected_then_ms: int | None = None
        """… and by ZooKeeper's; None: not known."""
        self._store = context.store
        self._stays = stays
        self._gone = gone

    def clear(self) -> None:
        """Another leader's election is at another time."""
        self._elected_then_ms = None

    def takes(self, group: Group) -> bool:
        """True if an empty group may have to expire; then one of the two is told later."""
        if not self._settings.group_retention_ms or not group.modified_ms:
            return False
        if self._elected_then_ms is not None and self._is_young(group.modified_ms):
            return False
        look = Look(group, group.modified_ms)
        name = group.name
        self._read(look, Get(self._paths.election.epoch), self._election_read)
        self._read(look, Get(self._paths.subscriptions(name)), partial(self._dated, look))
        self._read(look, Children(self._paths.ids(name)), partial(self._strangers_read, look))
        self._read(look, Children(self._paths.offsets(name)), partial(self._topics_read, look))
        return True

    def _is_young(self, written_ms: int) -> bool:
        assert self._elected_then_ms is not None, "it is read first"
        now_ms = self._elected_then_ms + self._outbox.now_ms - self.elected_ms
        return now_ms - written_ms < self._settings.group_retention_ms

    # ── Looking ─────────────────────────────────────────────────────────────────────────────

    def _read(self, look: Look, operation: Operation, then: Then) -> None:
        look.open += 1
        self._outbox.ask(operation, partial(self._answered, look, operation, then))

    def _answered(self, look: Look, operation: Operation, then: Then, answer: Answer) -> None:
        """One read was answered; what is not there is as good an answer."""
        if not isinstance(answer, Refusal):
            if isinstance(operation, Get | Children) and then != self._election_read:
                self._store.stands(look.group.name, operation.path)
            then(answer)
        elif answer.why is not Why.NO_NODE:
            look.stays = True
        look.open -= 1
        if not look.open:
            self._decide(look)

    def _election_read(self, answer: Answer) -> None:
        assert isinstance(answer, Data)
        self._elected_then_ms = answer.stat.modified_ms

    def _dated(self, look: Look, answer: Answer) -> None:
        assert isinstance(answer, Data)
        look.newest_ms = max(look.newest_ms, answer.stat.modified_ms)

    def _strangers_read(self, look: Look, answer: Answer) -> None:
        """Who rebalances by itself has a node here: then the group is another protocol's."""
        assert isinstance(answer, Names)
        look.stays = look.stays or bool(answer.names)

    def _topics_read(self, look: Look, answer: Answer) -> None:
        assert isinstance(answer, Names)
        above = self._paths.offsets(look.group.name)
        for topic in answer.names:
            path = f"{above}/{topic}"
            self._read(look, Children(path), partial(self._partitions_read, look, path))

    def _partitions_read(self, look: Look, above: str, answer: Answer) -> None:
        assert isinstance(answer, Names)
        for partition in answer.names:
            self._read(look, Get(f"{above}/{partition}"), partial(self._dated, look))

    # ── Deciding ────────────────────────────────────────────────────────────────────────────

    def _decide(self, look: Look) -> None:
        group = look.group
        if self._groups.get(group.name) is not group:
            return
        is_known = self._elected_then_ms is not None
        stays = look.stays or not is_known or self._is_young(look.newest_ms)
        if stays or not group.is_deserted():
            self._stays(group)
            return
        group.loaded = False  # who registers now waits until it is read again
        nodes: dict[str, bytes | None] = dict.fromkeys(self._nodes(group.name))
        self._store.write(group.name, nodes, partial(self._deleted, group))

    def _nodes(self, name: str) -> list[str]:
        """The nodes of a group, each after those below it; but where strangers come, first."""
        paths, ids = self._paths, self._paths.ids(name)
        tops = (paths.group(name), paths.owners(name), paths.offsets(name), ids)
        standing = self._store.standing.get(name, set())
        own = [path for path in standing if any(top in lineage(path) for top in tops)]
        return sorted(own, key=lambda path: (path != ids, -path.count("/"), path))

    def _deleted(self, group: Group, outcome: StoreResult) -> None:
        if outcome is StoreResult.DONE:
            self._outbox.report(What.GROUP_EXPIRED, group.name, generation=group.generation)
            above = Delete(self._paths.ids(group.name).rpartition("/")[0])
            self._outbox.ask(fenced(self._paths.election, self._context.epoch, (above,)), ignore)
        self._gone(group)
