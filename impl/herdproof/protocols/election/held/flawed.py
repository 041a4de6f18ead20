"""
The elector's known mistakes, which the checkers must catch: each a subclass of the core.

Each stands under its name in `FLAWS`; the spec has a variant of the same name
(`herdspec.protocols.election.flaws`). `no_sync` is a mistake of a shell, so of the simulated world.

    Elector = elector_with(frozenset({"no_watch"}))
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from herdproof.conformance.flawed import flawed
from herdproof.protocols.election.elector import Call, Effect, ElectionPaths, Elector, read_leader
from herdproof.protocols.election.simulated import SimulatedElection
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Check,
    Create,
    Data,
    Delete,
    Done,
    Exists,
    Found,
    Link,
    Multi,
    Set,
)

_PATHS = ElectionPaths()


class UnfencedWrite(Elector):
    """Its owner's writes do not check the epoch."""

    def fenced(self, *operations: Create | Set | Delete | Check, epoch: int | None = None) -> Multi:
        """The owner's writes, as they are."""
        return Multi(operations)


class BelievesLostReply(Elector):
    """Takes a creation whose reply was lost for a success."""

    def handle_suspended(self) -> list[Effect]:
        """The connection is lost; if a creation was under way, it leads."""
        if self.call is not Call.CREATE:
            return super().handle_suspended()
        self._cut_off(Link.SUSPENDED)
        return self._lead(self.expected + 1)


class IgnoresSuspended(Elector):
    """Leads on while its connection is lost."""

    def handle_suspended(self) -> list[Effect]:
        """The connection is lost, and nothing comes of it."""
        self._cut_off(Link.SUSPENDED)
        return []


class IgnoresLost(Elector):
    """Leads on even when it is told of the expiry, until its next session."""

    def handle_lost(self) -> list[Effect]:
        """The session has expired, and nothing comes of it."""
        self._cut_off(Link.LOST)
        return []


class WatchAfterCheck(Elector):
    """Looks, and sets its watch by a second call whose answer it ignores."""

    def __init__(self, broker: str, paths: ElectionPaths = _PATHS) -> None:
        super().__init__(broker, paths)
        self.watches = False
        """True if the look under way is the one that only sets the watch."""

    def handle_look(self, answer: Answer) -> list[Effect]:
        """Go by the first answer, and then watch."""
        if self.watches:
            return self._finish()
        stat = answer.stat if isinstance(answer, Found) else None
        if stat is None or (stat.ephemeral_owner == self.session and not self.leads):
            return super().handle_look(answer)
        effects = [] if stat.ephemeral_owner == self.session else self._step_down()
        self.watches = True
        return effects + self._ask(Call.LOOK, Exists(self.paths.leader, watch=True))

    def _look(self) -> list[Effect]:
        self.due = self.watches = False
        return self._ask(Call.LOOK, Exists(self.paths.leader))


class NoWatch(Elector):
    """Looks without a watch."""

    def _look(self) -> list[Effect]:
        self.due = False
        return self._ask(Call.LOOK, Exists(self.paths.leader))


class MineByData(Elector):
    """Takes a node with its own id for its own, whoever's session it is of."""

    def handle_look(self, answer: Answer) -> list[Effect]:
        """Whatever stands may be its own: it reads the node's data to know."""
        if isinstance(answer, Found) and answer.stat is not None:
            return self._finish() if self.leads else self._recall()
        return super().handle_look(answer)

    def handle_recall(self, answer: Answer) -> list[Effect]:
        """If the node's data names this broker, it holds that epoch."""
        if not isinstance(answer, Data):
            return self._look_again()
        owner, epoch = read_leader(answer.data)
        if owner != self.broker and answer.stat.ephemeral_owner != self.session:
            return self._step_down() + self._finish()
        return self._give_up() if epoch == self.over else self._hold(epoch)


class DeleteAny(Elector):
    """Deletes the leader's node without looking whose it is."""

    def _delete(self) -> list[Effect]:
        return self._ask(Call.DELETE, Multi((Delete(self.paths.leader, ANY_VERSION),)))


class ResignKeepsNode(Elector):
    """Stops leading but leaves its node."""

    def resign(self) -> list[Effect]:
        """Take part no more."""
        self.stands = self.due = False
        return self._step_down()


class NoLookAfterReconnect(Elector):
    """Trusts what it knew before the connection was lost."""

    def handle_reconnected(self) -> list[Effect]:
        """The session lives on, and nothing comes of it."""
        self.link = Link.CONNECTED
        return []


class UncountedEpoch(Elector):
    """Creates its node without counting the epoch up."""

    def _create(self, version: int) -> list[Effect]:
        self.expected = version
        return self._ask(Call.CREATE, Multi((self._node(version),)))

    def won(self, answer: Done) -> int:
        """The epoch that was read: no other has begun."""
        return self.expected


class CreatesAtOnce(Elector):
    """Creates its node without having read the epoch that it follows."""

    def _read(self) -> list[Effect]:
        return self._create(0)

    def _count_up(self, version: int) -> Set:
        return super()._count_up(ANY_VERSION)


class EpochOfRead(Elector):
    """Leads in the epoch that it read, not in the one that it created."""

    def won(self, answer: Done) -> int:
        """The epoch that was read."""
        return self.expected


FLAWS: Mapping[str, type[Elector]] = {
    "unfenced_write": UnfencedWrite,
    "believes_lost_reply": BelievesLostReply,
    "ignores_suspended": IgnoresSuspended,
    "ignores_lost": IgnoresLost,
    "watch_after_check": WatchAfterCheck,
    "no_watch": NoWatch,
    "mine_by_data": MineByData,
    "delete_any": DeleteAny,
    "resign_keeps_node": ResignKeepsNode,
    "no_look_after_reconnect": NoLookAfterReconnect,
    "uncounted_epoch": UncountedEpoch,
    "creates_at_once": CreatesAtOnce,
    "epoch_of_read": EpochOfRead,
}
"""The core's."""


class NoSync(SimulatedElection):
    """A world whose shells may be told of the past by the first read after a reconnection."""

    def _sync(self, b: int) -> None:
        """Nothing is asked of the server: what is read from it may be of the past."""


FLAWS_OF_SHELLS: Mapping[str, type[SimulatedElection]] = {"no_sync": NoSync}
"""Flaws of the simulated world, by name."""


@cache
def elector_with(flaws: frozenset[str]) -> type[Elector]:
    """The elector's core with these flaws; raises `ValueError` if one of them is not known."""
    return flawed(Elector, flaws, FLAWS)


def simulated_with(flaws: frozenset[str], size: int, **told: Any) -> SimulatedElection:
    """
    A simulated election of so many brokers, its cores and its shells with these flaws.

    Who is `told` is as in `SimulatedElection`.
    """
    of_shells = flaws.intersection(FLAWS_OF_SHELLS)
    world = flawed(SimulatedElection, of_shells, FLAWS_OF_SHELLS)
    elector = elector_with(flaws - of_shells)
    return world(size, elector=elector, **told)
