"""
A broker's coordinator makes itself known: an ephemeral node that says where it listens.

Consumers are told of coordinators by these addresses, which are not those of Kafka. The node is of
the session, so it is created anew in each one, and waits for that of a previous life to go: only
its session's end removes it.

Source: *ours*; `/brokers/ids/[id]` of Kafka, which this stands beside, is kept in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from herdproof.protocols.election.shell import parents
from herdproof.shells.logs import fields
from herdproof.troubles import Troubles
from herdproof.zookeeper.operations import (
    Answer,
    Create,
    Created,
    Exists,
    Found,
    Operation,
    Refusal,
    Why,
)

log = logging.getLogger(__name__)

Ask = Callable[[Operation], Awaitable[Answer]]
"""Asks ZooKeeper; the answer may be CONNECTION_LOSS, but it comes."""

TAKEN = "taken"
"""The name of the trouble that another session holds the node."""
RETRY_S = 1.0
"""The time until it looks again where nothing tells it to."""


class Registration:
    """
    The node of one broker.

    `data` tells what it shall hold, `session` the id of the session that `ask` uses.
    """

    def __init__(
        self, path: str, data: Callable[[], bytes], ask: Ask, session: Callable[[], int]
    ) -> None:
        self.path = path
        self._data = data
        self._ask = ask
        self._session = session
        self._changed = asyncio.Event()
        self._stands = asyncio.Event()
        self._troubles = Troubles(log)

    @property
    def troubles(self) -> tuple[str, ...]:
        """A sentence on why the node is not this broker's, if it is known."""
        return self._troubles.present

    def look_again(self) -> None:
        """The session is another, the connection is back, or the watch on the node fired."""
        self._changed.set()

    async def wait_registered(self) -> None:
        """Wait until the node stands, the first time."""
        await self._stands.wait()

    async def keep(self) -> None:
        """Keep the node standing, until cancelled."""
        while True:
            self._changed.clear()
            mine = await self._look()
            if mine:
                self._stands.set()
            try:
                await asyncio.wait_for(self._changed.wait(), None if mine else RETRY_S)
            except TimeoutError:
                continue

    async def _look(self) -> bool:
        """Look whether the node stands, leave a watch, and create it if none does."""
        match await self._ask(Exists(self.path, watch=True)):
            case Found(stat=None):
                return await self._create()
            case Found(stat=stat) if stat is not None and stat.ephemeral_owner == self._session():
                self._troubles.mend(TAKEN, f"the node {self.path} is this broker's")
                return True
            case Found():
                self._troubles.tell(
                    TAKEN,
                    f"another session holds this broker's node, {self.path}: a previous life's "
                    f"ends with its session timeout; if it stays, two coordinators run with one "
                    f"--broker-id",
                )
        return False

    async def _create(self) -> bool:
        """Create the node and what is above it; the watch then fires, which leads to a look."""
        node = Create(self.path, self._data(), ephemeral=True)
        answer = await self._ask(node)
        if answer == Refusal(Why.NO_NODE):
            for parent in parents(self.path):
                await self._ask(Create(parent))
            answer = await self._ask(node)
        if isinstance(answer, Created):
            log.info("registered", extra=fields(path=self.path, data=node.data.decode()))
        elif answer == Refusal(Why.BAD_ARGUMENTS):
            log.error("not allowed to register: check zookeeper.user", extra=fields(path=self.path))
        return isinstance(answer, Created)
