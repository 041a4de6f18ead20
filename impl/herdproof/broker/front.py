"""
The broker in front of a real Kafka: groups are coordinated here, everything else goes on to there.

Each of Kafka's brokers has a port of ours, and clients hear of no other: addresses are rewritten
where answers have some. So that no other answer need be read, what is announced ends before the
versions that have addresses in them, too (Produce 10, Fetch 16), and no features are announced, of
which some would make a client send those versions all the same.

Source: KIP-951 (addresses in Produce and Fetch), KIP-848, -932 and -1071 (groups of other kinds).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from herdproof.broker.answering import (
    COORDINATORS_FROM,
    BrokerNode,
    GroupApis,
    Handler,
    Handlers,
    at_once,
)
from herdproof.broker.codec import (
    KafkaRequest,
    RequestHead,
    Versions,
    messages,
    read_answer,
    read_request,
    write_answer,
)
from herdproof.broker.connection import KafkaConnection
from herdproof.broker.groups import GROUP_KEYS, SEVERAL_KEYS_FROM, group_handlers
from herdproof.broker.sasl import SASL_VERSIONS, SaslLogin, SaslWatch
from herdproof.broker.server import BrokerPort, BrokerServer, advertised, versions_handler
from herdproof.broker.settings import KafkaListener
from herdproof.broker.upstream import Address, TakeWhole, UpstreamLink, ask_kafka, link
from herdproof.errors import WorldError
from herdproof.shells.logs import fields

log = logging.getLogger(__name__)

HIDDEN = frozenset({
    ApiKey.AddOffsetsToTxn, ApiKey.TxnOffsetCommit, ApiKey.ConsumerGroupHeartbeat,
    ApiKey.ConsumerGroupDescribe, *range(ApiKey.ShareGroupHeartbeat, ApiKey.ShareAcknowledge + 1),
    *range(ApiKey.InitializeShareGroupState, ApiKey.DeleteShareGroupOffsets + 1),
})  # fmt: skip
"""Groups of other kinds, and offsets in transactions: not coordinated here."""
REWRITTEN = frozenset({ApiKey.Metadata, ApiKey.DescribeCluster, ApiKey.FindCoordinator})
"""Answers with addresses."""
NEWEST: Mapping[int, int] = {ApiKey.Produce: 9, ApiKey.Fetch: 15, ApiKey.DescribeQuorum: 1}
"""The last versions without addresses in their answers."""
OLDEST: Mapping[int, int] = {ApiKey.SaslHandshake: 1}
"""The first version that is followed by frames."""
PLAIN_METADATA = RequestHead(ApiKey.Metadata, 1, 0)
PLAIN_VERSIONS = RequestHead(ApiKey.ApiVersions, 0, 0)

FindHere: TypeAlias = Callable[[KafkaRequest, KafkaConnection], None]
"""Says who coordinates groups: this broker does, or one beside it."""


class FrontBroker:
    """
    The ports in front of the Kafka at these addresses, for the groups of one coordinator.

    The coordinator is found at the port for bootstrapping, as broker `COORDINATORS_FROM` +
    `broker_id`. With a `login` that Kafka asks for SASL: whom it lets in is let in here.
    """

    def __init__(
        self, server: BrokerServer, kafka: list[Address], listener: KafkaListener,
        groups: GroupApis, broker_id: int, login: SaslLogin | None = None,
    ) -> None:  # fmt: skip
        self._broker_id = broker_id
        self._server = server
        self._kafka = kafka
        self._listener = listener
        self._groups = groups
        self._login = login
        self._watch = None if login is None else SaslWatch()
        self._brokers: dict[int, Address] = {}
        """Where Kafka's brokers are, by id."""
        self._ports: dict[int, BrokerPort] = {}
        """Where each of them is for our clients."""
        self._first: BrokerPort | None = None
        """The port for bootstrapping."""
        self._opening = asyncio.Lock()
        self._spoken: Versions = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lists_nothing = Handler(groups.versions[ApiKey.ListGroups], at_once(list_nothing))

    async def open(self) -> Address:
        """
        Ask Kafka what it speaks, and open all ports; the first one's address, for bootstrapping.

        Raises `NoKafkaBehind`, `CannotListen`, `BadTls`.
        """
        told = await ask_kafka(self._kafka, PLAIN_VERSIONS, {}, self._login)
        self._spoken = self._in_common({
            each.api_key: (each.min_version, each.max_version) for each in told.api_keys
        })  # fmt: skip
        self._first = first = await self._server.open_port(self._listener.port)
        metadata = await ask_kafka(self._kafka, PLAIN_METADATA, {"topics": []}, self._login)
        await self._heard({each.node_id: (each.host, each.port) for each in metadata.brokers})
        self._equip(first, lambda: list(self._brokers.values()) + self._kafka, None)
        return first.address

    # ── Ports ───────────────────────────────────────────────────────────────────────────────

    def _in_common(self, theirs: Versions) -> Versions:
        """The versions that are announced: what both sides speak."""
        spoken: dict[int, tuple[int, int]] = dict(self._groups.versions)
        for api, (oldest, newest) in theirs.items():
            if api in HIDDEN or api in spoken:
                continue
            if api in REWRITTEN:
                kind, _ = messages()[api]
                newest = min(newest, kind.max_version)
            newest = min(newest, NEWEST.get(api, newest))
            oldest = max(oldest, OLDEST.get(api, oldest))
            if oldest <= newest:
                spoken[api] = oldest, newest
        return spoken

    def _equip(
        self, port: BrokerPort, addresses: Callable[[], list[Address]], node_id: int | None
    ) -> None:
        """Let a port answer, and forward to the first of these brokers that can be reached."""
        groups: Handlers = group_handlers(self._groups, self.here)
        find = groups[ApiKey.FindCoordinator]
        port.gate = self._watch
        port.forward = partial(self._forward, addresses, partial(port.hand, find))
        port.handlers = {
            **{api: handler for api, handler in groups.items() if api != ApiKey.FindCoordinator},
            ApiKey.ApiVersions: versions_handler(self._spoken, {}),
        }
        if node_id is not None:
            port.handlers = {**port.handlers, ApiKey.ListGroups: self._lists_nothing}

    def here(self) -> BrokerNode | None:
        """This broker, as it is found as coordinator: at the port for bootstrapping."""
        if self._first is None:
            return None
        return advertised(COORDINATORS_FROM + self._broker_id, self._listener, self._first)

    def _advertised(self, node_id: int) -> Address:
        """Where clients reach a broker."""
        host = self._listener.advertised_host or self._listener.host
        return host, self._ports[node_id].address[1]

    async def _heard(self, brokers: dict[int, Address]) -> None:
        """Kafka told where its brokers are: see to it that each has a port."""
        async with self._opening:
            for node_id, address in sorted(brokers.items()):
                self._brokers[node_id] = address
                if node_id in self._ports:
                    continue
                first = self._listener.port
                number = first and first + 1 + len(self._ports)
                port = self._ports[node_id] = await self._server.open_port(number)
                self._equip(port, partial(self._at, node_id), node_id)

    def _at(self, node_id: int) -> list[Address]:
        """Where a broker is."""
        return [self._brokers[node_id]]

    # ── Requests ────────────────────────────────────────────────────────────────────────────

    def _forward(
        self, addresses: Callable[[], list[Address]], find: FindHere | None,
        connection: KafkaConnection, head: RequestHead, frame: bytes,
    ) -> None:  # fmt: skip
        """Send a request on, unless it asks for the coordinator of groups, who is to be here."""
        oldest, newest = self._spoken.get(head.api, (0, -1))
        if not oldest <= head.version <= newest:
            connection.refuse(f"unknown version {head.version} of request {head.api}")
            return
        if head.api == ApiKey.FindCoordinator and find is not None:
            request = read_request(head, frame, connection.host)
            if request.body.key_type == GROUP_KEYS:
                find(request, connection)
                return
        take = self._taker(connection, head, frame)
        if isinstance(connection.upstream, UpstreamLink):
            connection.upstream.forward(head, frame, take)
        else:
            self._run(self._link(connection, addresses(), head, frame, take))

    def _taker(
        self, connection: KafkaConnection, head: RequestHead, frame: bytes
    ) -> TakeWhole | None:
        """Who takes the whole answer to a request, before it is passed on; None: nobody."""
        if head.api in REWRITTEN:
            return partial(self._rewrite, connection, head)
        if head.api in SASL_VERSIONS and self._watch is not None:
            return partial(self._watch.answered, connection, head, frame)
        return None

    async def _link(
        self, connection: KafkaConnection, addresses: list[Address], head: RequestHead,
        frame: bytes, take: Any,
    ) -> None:  # fmt: skip
        """Connect a client on, and send its first request."""
        try:
            upstream = await link(connection, addresses)
        except OSError:
            connection.refuse("Kafka cannot be reached")
            return
        if connection.is_over:
            upstream.close()
            return
        connection.upstream = upstream
        upstream.forward(head, frame, take)

    def _run(self, work: Any) -> None:
        """Let something be done that has to wait."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ── Answers ─────────────────────────────────────────────────────────────────────────────

    def _rewrite(self, connection: KafkaConnection, head: RequestHead, frame: bytes) -> None:
        """Put our addresses into an answer, and pass it on."""
        answer = read_answer(head, frame)
        nodes = nodes_of(head, answer)
        brokers = {getattr(each, name): (each.host, each.port) for name, each in nodes}
        if all(self._brokers.get(node_id) == brokers[node_id] for node_id in brokers):
            self._pass_on(connection, head, answer, nodes)
        else:
            self._run(self._pass_on_later(connection, head, answer, nodes, brokers))

    async def _pass_on_later(
        self, connection: KafkaConnection, head: RequestHead, answer: ApiMessage,
        nodes: list[tuple[str, Any]], brokers: dict[int, Address],
    ) -> None:  # fmt: skip
        """Pass an answer on once all brokers that it tells of have a port."""
        try:
            await self._heard(brokers)
        except WorldError as problem:
            log.warning("no port for a broker of Kafka's", extra=fields(why=str(problem)))
            connection.refuse("no port for a broker")
            return
        self._pass_on(connection, head, answer, nodes)

    def _pass_on(
        self, connection: KafkaConnection, head: RequestHead, answer: ApiMessage,
        nodes: list[tuple[str, Any]],
    ) -> None:  # fmt: skip
        """Pass an answer on, with our addresses."""
        for name, each in nodes:
            each.host, each.port = self._advertised(getattr(each, name))
        self._add_coordinator(head, answer)
        connection.reply(write_answer(head, answer))

    def _add_coordinator(self, head: RequestHead, answer: Any) -> None:
        """Name the coordinator among the brokers: some clients look for its address only there."""
        here = self.here()
        node = None if here is None else self._groups.coordinator(here)
        if node is None:
            return
        if head.api == ApiKey.Metadata:
            made = type(answer).MetadataResponseBroker
            answer.brokers.append(made(node_id=node.node_id, host=node.host, port=node.port))
        elif head.api == ApiKey.DescribeCluster:
            made = type(answer).DescribeClusterBroker
            answer.brokers.append(made(broker_id=node.node_id, host=node.host, port=node.port))


def nodes_of(head: RequestHead, answer: Any) -> list[tuple[str, Any]]:
    """The parts of an answer that have an address, and what each calls a broker's id."""
    if head.api == ApiKey.Metadata:
        return [("node_id", each) for each in answer.brokers]
    if head.api == ApiKey.DescribeCluster:
        return [("broker_id", each) for each in answer.brokers]
    found = [answer] if head.version < SEVERAL_KEYS_FROM else answer.coordinators
    return [("node_id", each) for each in found if not each.error_code]


def list_nothing(request: KafkaRequest) -> ApiMessage:
    """ListGroups at another port than the coordinator's: a tool that asks all gets each once."""
    return ListGroupsResponse(version=request.head.version)
