"""Metadata that a client has of the cluster: brokers, and topics that it, or its group, wants."""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.protocols.group_protocol.client.core.context import ClientContext
from herdproof.protocols.group_protocol.client.core.events import MetadataRequest, MetadataResponse
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.client.core.network import ConsumerNetworkClient


class Metadata:
    """Asked of the least loaded node, now and then and whenever `update_requested`."""

    def __init__(self, context: ClientContext, client: ConsumerNetworkClient) -> None:
        self._context = context
        self._client = client
        self.topics: Mapping[str, int] = {}
        """Of each topic that there is, how many partitions it has."""
        self.wanted: tuple[str, ...] | None = ()
        """None: all topics."""
        self.update_requested = True
        self.version = 0
        """Number of answers that have come."""
        self._next_ms = 0
        self._future: RequestFuture[MetadataResponse] | None = None
        self._asked_for: tuple[str, ...] | None = ()

    def want(self, topics: tuple[str, ...] | None) -> None:
        """From now on these topics are looked at; None: all."""
        if topics != self.wanted:
            self.wanted = topics
            self.request_update()

    def request_update(self) -> None:
        """Ask as soon as that is possible."""
        self.update_requested = True

    def fresh(self) -> RequestFuture[MetadataResponse]:
        """Ask now; what is under way is of before."""
        node = self._client.least_loaded_node()
        self._asked_for = self.wanted
        asked = self._client.send(node, MetadataRequest(self.wanted), MetadataResponse)
        self._future = asked
        asked.add_listener(self._answered)
        return asked

    def maybe_update(self) -> None:
        """Ask, if it is time; once at a time."""
        if self._future is None and self._is_due() and self._context.now_ms >= self._next_ms:
            self.fresh()

    def next_deadline(self) -> int | None:
        """When it is looked at next; None while it is being asked."""
        return None if self._future is not None else self._next_ms

    def _is_due(self) -> bool:
        return self.update_requested or self._context.now_ms >= self._next_ms

    def _answered(self, done: RequestFuture[MetadataResponse]) -> None:
        if done is self._future:
            self._future = None
        if not done.succeeded:
            self.update_requested = True
            self._next_ms = self._context.after_backoff()
            return
        response = done.value
        self.version += 1
        self.topics = dict(response.topics)
        self._client.learned(response.nodes)
        self.update_requested = self.wanted != self._asked_for
        age_ms = self._context.settings.metadata_max_age_ms
        self._next_ms = self._context.now_ms + (0 if self.update_requested else age_ms)
        if self.wanted is not None and any(topic not in self.topics for topic in self.wanted):
            self._next_ms = self._context.after_backoff()
            self.update_requested = True
