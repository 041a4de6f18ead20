"""
The front of a real Kafka whose own coordinator has the groups: what it answers is observed.

Every request goes on. Whoever looks on is told of each one about groups once its answer has come,
and before that is passed on: when it was asked and answered (ns), by whom, what, and what was
answered. Of one that was never answered, since its connection ended, nobody is told.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

import msgspec
from kafka.protocol.api_key import ApiKey

from herdproof.broker.answering import BrokerNode, Reply
from herdproof.broker.codec import (
    KafkaRequest,
    RequestHead,
    Versions,
    framed,
    read_answer,
    read_request,
)
from herdproof.broker.connection import KafkaConnection
from herdproof.broker.front import FrontBroker
from herdproof.broker.reading import MalformedRequest
from herdproof.broker.sasl import SaslLogin
from herdproof.broker.server import BrokerPort, BrokerServer, versions_handler
from herdproof.broker.settings import KafkaListener
from herdproof.broker.upstream import Address, TakeWhole

log = logging.getLogger(__name__)


class SeenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A request about groups, and what Kafka has answered."""

    asked_ns: int
    answered_ns: int
    connection: int
    client: str
    host: str
    api: str
    version: int
    request: dict[str, object]
    answer: dict[str, object]


class KafkaGroups:
    """Kafka's own coordinator, as far as a front knows it: the versions that are read."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions

    def ask(self, request: KafkaRequest, reply: Reply) -> None:
        """Nobody asks here: what is about groups goes on."""
        raise AssertionError(f"request {request.head.api} was to be forwarded, not {reply}")

    def coordinator(self, here: BrokerNode) -> BrokerNode | None:
        """Nobody here."""


class ObservedFront(FrontBroker):
    """The ports in front of a Kafka that coordinates groups; `see` is told of each answer."""

    def __init__(
        self, server: BrokerServer, kafka: list[Address], listener: KafkaListener,
        versions: Versions, see: Callable[[SeenAnswer], None], login: SaslLogin | None = None,
    ) -> None:  # fmt: skip
        super().__init__(server, kafka, listener, KafkaGroups(versions), 0, login)
        self._read = versions
        self._see = see

    def _in_common(self, theirs: Versions) -> Versions:
        """The versions that both sides speak; of groups' requests, those that are read here."""
        spoken = dict(super()._in_common(theirs))
        for api, (oldest, newest) in self._read.items():
            first, last = theirs.get(api, (0, -1))
            spoken[api] = max(oldest, first), min(newest, last)
        return {api: (first, last) for api, (first, last) in spoken.items() if first <= last}

    def _equip(
        self, port: BrokerPort, addresses: Callable[[], list[Address]], node_id: int | None
    ) -> None:
        """Let a port forward to the first of these brokers that can be reached."""
        del node_id  # every broker of Kafka's is asked itself
        port.gate = self._watch
        port.forward = partial(self._forward, addresses, None)
        port.handlers = {ApiKey.ApiVersions: versions_handler(self._spoken, {})}

    def _taker(
        self, connection: KafkaConnection, head: RequestHead, frame: bytes
    ) -> TakeWhole | None:
        """Answers about groups are looked at."""
        if head.api in self._read:
            return partial(self._answered, connection, head, frame, time.time_ns())
        return super()._taker(connection, head, frame)

    def _answered(
        self, connection: KafkaConnection, head: RequestHead, asked: bytes, asked_ns: int,
        frame: bytes,
    ) -> None:  # fmt: skip
        """Kafka has answered a request about groups: tell of it, and pass it on as it came."""
        try:
            request = read_request(head, asked, connection.host)
            answer = read_answer(head, frame)
        except MalformedRequest as problem:
            log.warning("an answer about groups was passed on unread: %s", problem)
        else:
            seen = SeenAnswer(
                asked_ns=asked_ns, answered_ns=time.time_ns(), connection=connection.number,
                client=request.client_id, host=request.client_host, api=ApiKey(head.api).name,
                version=head.version, request=request.body.to_dict(json=False),
                answer=answer.to_dict(json=False),
            )  # fmt: skip
            self._see(seen)
        connection.reply(framed(frame))
