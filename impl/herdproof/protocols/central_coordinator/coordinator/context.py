"""
Context that the parts of a coordinator's core share, made by `coordinator.py` alone.

A part says in its `__init__` which of the other parts it uses; so those have to be made before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdproof.protocols.central_coordinator.coordinator.groups import Group, Interests
from herdproof.protocols.central_coordinator.coordinator.outbox import Outbox
from herdproof.protocols.central_coordinator.coordinator.rebalancing.matches import Matches
from herdproof.protocols.central_coordinator.paths import Paths
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.shells.expiry import Expired, Key, Purgatory

if TYPE_CHECKING:
    from herdproof.protocols.central_coordinator.coordinator.offsets import Offsets
    from herdproof.protocols.central_coordinator.coordinator.socket_server import SocketServer
    from herdproof.protocols.central_coordinator.coordinator.store import Store
    from herdproof.protocols.central_coordinator.coordinator.topics import TopicListeners


class Context:
    """State that every part of one broker's core knows, and the parts that several others use."""

    server: SocketServer
    store: Store
    offsets: Offsets
    topics: TopicListeners

    def __init__(self, broker_id: int, settings: Settings, paths: Paths) -> None:
        self.broker_id = broker_id
        self.settings = settings
        self.paths = paths
        self.outbox = Outbox()
        self.purgatory = Purgatory()
        self.epoch = 0
        """The last epoch that this broker was elected in; 0 before."""
        self.leads = False
        """True if it coordinates."""
        self.groups: dict[str, Group] = {}
        self.interests = Interests()
        self.matches = Matches()


class CorePart:
    """A part of the core; it acts through the effects that it emits and the time that passes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings
        self._paths = context.paths
        self._outbox = context.outbox
        self._purgatory = context.purgatory
        self._groups = context.groups

    def _after(self, wait_ms: int, key: Key, then: Expired) -> None:
        """Go on so after a while, unless the key is cleared or waited for anew."""
        self._purgatory.watch(key, self._outbox.now_ms + wait_ms, then)
