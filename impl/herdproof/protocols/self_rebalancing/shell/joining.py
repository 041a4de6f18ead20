"""Joining a group that rebalances by itself: a consumer's arguments, its core, its session."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Mapping

from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import (
    MAX_POLL_INTERVAL_S,
    BadArgument,
    ConsumerArguments,
    Observe,
    both,
    poll_interval_of,
)
from herdproof.consuming.stored_groups import AskAll, GroupsAdmin
from herdproof.consuming.subscription import Subscription
from herdproof.protocols.self_rebalancing.core.connector import ConsumerConnector
from herdproof.protocols.self_rebalancing.registries.paths import GroupDirs, is_name
from herdproof.protocols.self_rebalancing.registries.registrations import registration_of
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings
from herdproof.protocols.self_rebalancing.shell.session import ConnectorSession
from herdproof.protocols.self_rebalancing.tracing import SELF_REBALANCING, ConnectorTracer
from herdproof.shells.clock import now_ms


class SelfRebalancingConsumer:
    """Who may join; raises `BadArgument`, `UnusableName` or `BadConnectorSettings`."""

    connector: type[ConsumerConnector] = ConsumerConnector

    def __init__(self, arguments: ConsumerArguments) -> None:
        options = arguments.options_for(
            "a group that rebalances by itself",
            zookeeper=None, rebalance_max_retries=4, rebalance_backoff_s=2.0,
            auto_commit_interval_s=60.0, max_poll_interval_s=MAX_POLL_INTERVAL_S,
        )  # fmt: skip
        if not options["zookeeper"]:
            raise BadArgument("zookeeper is missing: say where its servers listen, as host:port")
        timeout_s = 6.0 if arguments.session_timeout_s is None else arguments.session_timeout_s
        self._dirs = GroupDirs(arguments.group)
        self.consumer_id = arguments.consumer_id or consumer_id_of(arguments.group)
        if not is_name(self.consumer_id):
            raise BadArgument(f"consumer_id is {self.consumer_id!r}: no node can be called so")
        self.max_poll_interval_s = poll_interval_of(options)
        self._arguments = arguments
        self._zookeeper: str = options["zookeeper"]
        self._settings = ConnectorSettings(
            zookeeper_session_timeout_ms=round(timeout_s * 1000),
            rebalance_max_retries=options["rebalance_max_retries"],
            rebalance_backoff_ms=round(options["rebalance_backoff_s"] * 1000),
            auto_commit_enable=arguments.auto_commit,
            auto_commit_interval_ms=round(options["auto_commit_interval_s"] * 1000),
            auto_offset_reset=arguments.reset,
            listens=arguments.listens,
        )

    @staticmethod
    def groups(ask_all: AskAll, _kafka: Mapping[str, str]) -> GroupsAdmin:
        """The groups of this protocol, for operators."""
        from herdproof.protocols.self_rebalancing.admin import RebalancingGroups

        return RebalancingGroups(ask_all)

    def begin(
        self, subscription: Subscription, streams: Streams, listener: ListenerThread | None,
        observe: Observe,
    ) -> ConnectorSession:  # fmt: skip
        """A session, to be started; `InvalidSubscription` for what not every member reads alike."""
        registration = registration_of(subscription, round(time.time() * 1000))
        core = self.connector(self._dirs.group, self.consumer_id, registration, self._settings)
        if self._arguments.trace is not None:
            tracer = ConnectorTracer(
                self.consumer_id, self._arguments.group, self._arguments.run or SELF_REBALANCING,
                self._arguments.trace, now_ms,
            )  # fmt: skip
            observe = both(tracer, observe)
        return ConnectorSession(core, self._zookeeper, streams, listener=listener, observe=observe)


def consumer_id_of(group: str) -> str:
    """A consumer's id as Kafka 0.8 makes it: the group, the host, the time, and 8 digits."""
    return f"{group}_{socket.gethostname()}-{round(time.time() * 1000)}-{secrets.token_hex(4)}"
