"""The broker by itself: a log in memory, and a coordinator's group APIs."""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.broker.answering import BrokerNode, GroupApis
from herdproof.broker.groups import group_handlers
from herdproof.broker.log import MemoryLog
from herdproof.broker.records import Records
from herdproof.broker.sasl import SASL_VERSIONS, SaslGate, SaslUsers
from herdproof.broker.server import BrokerServer, advertised, with_api_versions
from herdproof.broker.settings import KafkaListener, RecordLimits
from herdproof.broker.topics import TopicApis


class AloneBroker:
    """
    One broker that has everything in memory, but for what its coordinator keeps.

    `log` stands before the port does: a coordinator is told of topics. Topics are made when it
    opens; raises `LogRefused`, `CannotListen`, `BadTls`.
    """

    def __init__(self, server: BrokerServer, node_id: int, limits: RecordLimits) -> None:
        self.log = MemoryLog(limits)
        self._server = server
        self._node_id = node_id
        self._limits = limits

    async def open(
        self, listener: KafkaListener, topics: Mapping[str, int], groups: GroupApis,
        users: SaslUsers | None = None,
    ) -> BrokerNode:  # fmt: skip
        """
        Create the topics and serve at the listener's port; as which broker.

        With `users`, only they get in.
        """
        for name, partitions in topics.items():
            self.log.create(name, partitions)
        port = await self._server.open_port(listener.port)
        port.gate = None if users is None else SaslGate(users)
        here = advertised(self._node_id, listener, port)
        port.handlers = with_api_versions({
            **Records(self.log, self._limits).handlers(),
            **TopicApis(self.log, self._limits, here).handlers(),
            **group_handlers(groups, lambda: here),
        }, {} if users is None else SASL_VERSIONS)  # fmt: skip
        return here
