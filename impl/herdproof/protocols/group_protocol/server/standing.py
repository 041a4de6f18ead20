"""
A group coordinator that stands for election: its groups lie in ZooKeeper, and outlive it.

Of several brokers one is elected and has all groups; the others tell clients which one that is, by
the node in which each says where clients find it. One session carries the election, the fenced
writes and what is read.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from herdproof.broker.answering import COORDINATORS_FROM, BrokerNode, Reply
from herdproof.broker.codec import KafkaRequest
from herdproof.errors import WorldError
from herdproof.protocols.election.elector import ElectionPaths
from herdproof.protocols.election.leader_watch import LeaderWatch
from herdproof.protocols.election.metrics import ZooKeeperFigures
from herdproof.protocols.election.registration import Registration
from herdproof.protocols.election.zookeeper_session import ZooKeeperSession
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.server import translation
from herdproof.protocols.group_protocol.server.metrics import GroupMetrics
from herdproof.protocols.group_protocol.server.shell import (
    GroupShell,
    KnowsPartition,
    ObserveGroups,
    ignore_effects,
    knows_all,
)
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.stores.zookeeper import (
    GroupPaths,
    ZooKeeperGroupStore,
)
from herdproof.shells.configuration import ZooKeeperSection
from herdproof.shells.health import Condition
from herdproof.shells.logs import fields
from herdproof.zookeeper.operations import Answer, Data, Get, Link, Operation, Watched

log = logging.getLogger(__name__)

PATHS = GroupPaths(
    election=ElectionPaths("/herdproof/broker_election/leader", "/herdproof/broker_election/epoch")
)
REGISTRATIONS = "/herdproof/broker_addresses"
"""Its children are the brokers that run, by id."""
CONNECT_S = 30.0
STAND_AGAIN_S = 1.0
"""Time that a coordinator that had to step down stays out of the election."""


class ElectionEnded(WorldError):
    """The session with ZooKeeper is over for good."""


class StandingGroups:
    """
    The coordinator of broker `broker_id`, for a server of Kafka's wire; made in a running loop.

    `start` connects and stands; raises `ZooKeeperUnreachable`. `fail` is told what it ended by. Its
    figures are in `registry`.
    """

    versions = translation.VERSIONS

    def __init__(
        self, settings: GroupSettings, zookeeper: ZooKeeperSection, broker_id: int, *,
        fail: Callable[[Exception], None],
        knows_partition: KnowsPartition = knows_all,
        observe: ObserveGroups = ignore_effects,
        coordinator: type[GroupCoordinator] = GroupCoordinator,
        registry: CollectorRegistry | None = None,
    ) -> None:  # fmt: skip
        registry = registry or CollectorRegistry()
        self._zookeeper_figures = ZooKeeperFigures(registry)
        self._broker_id = broker_id
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._keeper = ZooKeeperSession(zookeeper, broker_id, PATHS.election, self)
        self._shell = GroupShell(
            settings, ZooKeeperGroupStore(self._keeper.submit, PATHS), fail=fail,
            step_down=self._step_down, knows_partition=knows_partition, observe=observe,
            coordinator=coordinator, metrics=GroupMetrics(registry),
        )  # fmt: skip
        self._leads = self._is_closing = False
        self._leader: BrokerNode | None = None
        self._is_linked = False
        self._leader_watch = LeaderWatch(
            PATHS.election.leader, str(broker_id), self._keeper.submit, self._led_by
        )
        self._registration: Registration | None = None
        self._registering: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect; then `stand`."""
        await self._keeper.start(CONNECT_S)

    async def stand(self, address: tuple[str, int]) -> None:
        """Stand for election, once it is known that clients find this broker at this address."""
        told = json.dumps({"host": address[0], "port": address[1]}).encode()
        path = f"{REGISTRATIONS}/{self._broker_id}"
        self._registration = Registration(
            path, lambda: told, self._keeper.ask, lambda: self._keeper.session
        )
        self._registering = self._loop.create_task(self._registration.keep())
        await self._registration.wait_registered()
        self._keeper.stand()
        self._look()

    async def close(self) -> None:
        """Resign, and end the session."""
        self._is_closing = True
        self._leader_watch.rest()
        if self._registering is not None:
            self._registering.cancel()
        await self._keeper.close()

    # ── What the server asks ────────────────────────────────────────────────────────────────

    def ask(self, request: KafkaRequest, reply: Reply) -> None:
        """Have the core answer a request."""
        self._shell.ask(request, reply)

    def coordinator(self, here: BrokerNode) -> BrokerNode | None:
        """Who coordinates all groups, as far as it is known."""
        return here if self._leads else self._leader

    # ── What ZooKeeper tells ────────────────────────────────────────────────────────────────

    def elected(self, epoch: int) -> None:
        """This broker leads."""
        self._leads = True
        self._shell.elected(epoch)

    def deposed(self, epoch: int) -> None:
        """It leads no more."""
        del epoch  # its shell knows, and tells
        self._leads = False
        self._shell.deposed()
        self._look()

    def fired(self, watched: Watched) -> None:
        """A watch fired, or may have."""
        if self._registration is not None and watched.path == self._registration.path:
            self._registration.look_again()
        else:
            self._look()

    def linked(self, link: Link) -> None:
        """The link to ZooKeeper changed."""
        log.info("the link to ZooKeeper is %s", link.value, extra=fields(link=link.value))
        self._is_linked = link is Link.CONNECTED
        self._zookeeper_figures.linked(self._is_linked)
        if self._registration is not None:
            self._registration.look_again()

    def over(self) -> None:
        """The session has ended: by this broker, or because the elector failed."""
        if not self._is_closing:
            self._fail(ElectionEnded("The election has ended for this broker; its log says why."))

    def asked(self, operation: Operation, answer: Answer, seconds: float) -> None:
        """ZooKeeper answered."""
        self._zookeeper_figures.asked(operation, answer, seconds)

    # ── Parts ───────────────────────────────────────────────────────────────────────────────

    def _step_down(self) -> None:
        """Resign, and stand again a little later: with what is stored read anew."""
        self._keeper.resign()
        self._loop.call_later(STAND_AGAIN_S, self._stand_again)

    def _stand_again(self) -> None:
        if not self._is_closing:
            self._keeper.stand()

    def condition(self) -> Condition:
        """The condition of a server: it serves groups, or tells clients who does, or neither."""
        if not self._is_linked:
            return Condition(False, "ZooKeeper is not reached")
        if self._leads:
            return Condition(True, "it leads")
        if self._leader is None:
            troubles = self._registration.troubles if self._registration is not None else ()
            return Condition(False, "; ".join(troubles) or "nobody is known to lead")
        return Condition(True, f"it stands by: {self._leader.host}:{self._leader.port} leads")

    def _look(self) -> None:
        """Look who leads, and be told when that changes."""
        if not self._is_closing and not self._leads:
            self._leader_watch.look()

    def _led_by(self, name: str) -> None:
        """Look where the leader is found, if one is known."""
        if not name:
            self._leader = None
            return
        path = f"{REGISTRATIONS}/{name}"
        self._keeper.submit(Get(path), lambda found: self._address_told(int(name), found))

    def _address_told(self, broker_id: int, answer: Answer) -> None:
        """Note where the leader is found."""
        if not isinstance(answer, Data):
            self._leader = None
            self._leader_watch.look_soon()
            return
        told = json.loads(answer.data)
        self._leader = BrokerNode(COORDINATORS_FROM + broker_id, told["host"], told["port"])
        log.info("stands by: broker %d leads, at %s:%d", broker_id, told["host"], told["port"])
