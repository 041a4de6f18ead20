"""Joining of a group that is coordinated: a consumer's arguments, its core, its session."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from typing import Any

from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import (
    MAX_POLL_INTERVAL_S,
    BadArgument,
    ConsumerArguments,
    Observe,
    both,
    host_ports,
    poll_interval_of,
)
from herdproof.consuming.stored_groups import AskAll, GroupsAdmin
from herdproof.consuming.subscription import Subscription
from herdproof.protocols.central_coordinator.client.consumer import ConsumerCore
from herdproof.protocols.central_coordinator.client.server_cluster import Address
from herdproof.protocols.central_coordinator.client.session import ConsumerSession
from herdproof.protocols.central_coordinator.client.settings import ConsumerSettings
from herdproof.protocols.central_coordinator.tracing import CENTRAL, ConsumerTracer
from herdproof.shells.clock import now_ms


class CoordinatedConsumer:
    """Who may join; raises `BadArgument` or `BadSettings`."""

    def __init__(self, arguments: ConsumerArguments) -> None:
        options = arguments.options_for(
            "a group with a coordinator",
            coordinators=None, ping_interval_s=2.0, max_ping_retries=3, gives_up=False, tls=None,
            request_timeout_s=5.0, backoff_s=0.1, backoff_max_s=5.0, resumes=True,
            max_poll_interval_s=MAX_POLL_INTERVAL_S,
        )  # fmt: skip
        if options["coordinators"] is None:
            raise BadArgument("coordinators is missing: say where they listen, as host:port")
        timeout_s = 10.0 if arguments.session_timeout_s is None else arguments.session_timeout_s
        self.consumer_id = arguments.consumer_id or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.max_poll_interval_s = poll_interval_of(options)
        self._arguments = arguments
        self._settings = ConsumerSettings(
            auto_commit=arguments.auto_commit,
            auto_offset_reset=arguments.reset,
            ping_interval_ms=round(options["ping_interval_s"] * 1000),
            max_ping_retries=options["max_ping_retries"],
            session_timeout_ms=round(timeout_s * 1000),
            request_timeout_ms=round(options["request_timeout_s"] * 1000),
            backoff_ms=round(options["backoff_s"] * 1000),
            backoff_max_ms=round(options["backoff_max_s"] * 1000),
            gives_up=options["gives_up"],
            resumes=options["resumes"],
            listens=arguments.listens,
        )
        found = host_ports("coordinators", addresses_of(options["coordinators"]))
        self._coordinators = [Address(host, port) for host, port in found]
        self._tls = options["tls"]

    @staticmethod
    def groups(ask_all: AskAll, _kafka: Mapping[str, str]) -> GroupsAdmin:
        """The groups of this protocol, for operators."""
        from herdproof.protocols.central_coordinator.admin import CoordinatedGroups

        return CoordinatedGroups(ask_all)

    def begin(
        self, subscription: Subscription, streams: Streams, listener: ListenerThread | None,
        observe: Observe,
    ) -> ConsumerSession:  # fmt: skip
        """A session, to be started."""
        core = ConsumerCore(
            self._arguments.group, self.consumer_id, subscription.text(), self._settings,
            self._coordinators, secrets.randbelow(2**31),
        )  # fmt: skip
        if self._arguments.trace is not None:
            run = self._arguments.run or CENTRAL
            tracer = ConsumerTracer(self.consumer_id, run, self._arguments.trace, now_ms)
            observe = both(tracer, observe)
        return ConsumerSession(core, streams, listener=listener, tls=self._tls, observe=observe)


def addresses_of(coordinators: Any) -> Any:
    """
    The addresses that are given, perhaps by brokers' ids, as `initBrokers` has them (`002`).

    The ids are not relied on: what a broker answers to a Consult names its own.

    >>> addresses_of({2: "10.0.0.2:9192", 1: "10.0.0.1:9192"})
    ['10.0.0.1:9192', '10.0.0.2:9192']
    """
    if not isinstance(coordinators, Mapping):
        return coordinators
    for broker_id in coordinators:
        if not isinstance(broker_id, int) or not 0 <= broker_id < 2**15:
            raise BadArgument(f"coordinators: {broker_id!r} is no broker's id, which is 0 to 32767")
    return [coordinators[broker_id] for broker_id in sorted(coordinators)]
