"""Requests under way: to which node, how long each is waited for, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from herdproof.protocols.group_protocol.client.core.context import ClientContext
from herdproof.protocols.group_protocol.client.core.events import (
    ClientRequest,
    ClientResponse,
    HangUp,
    Node,
    RequestLost,
    SendRequest,
)
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture

R = TypeVar("R", bound=ClientResponse)


@dataclass(frozen=True, slots=True)
class InFlight(Generic[R]):
    """A request that is not answered yet."""

    node: Node
    request: ClientRequest
    ends_ms: int
    kind: type[R]
    future: RequestFuture[R]


class ConsumerNetworkClient:
    """Knows nodes, and what each was asked; `bootstrap` are those that are known at first."""

    def __init__(self, context: ClientContext, bootstrap: Sequence[Node]) -> None:
        self._context = context
        self.nodes: tuple[Node, ...] = tuple(bootstrap)
        self._bootstrap = self.nodes
        self._in_flight: dict[int, InFlight[ClientResponse]] = {}
        self._numbers = 0
        self._failures: Counter[Node] = Counter()
        """Number of times in a row that each node could not be reached."""
        self._ready: set[Node] = set()

    # ── Nodes ───────────────────────────────────────────────────────────────────────────────

    def least_loaded_node(self) -> Node:
        """The node with the fewest InFlightRequests; of several that which failed least often."""
        loads = Counter(asked.node for asked in self._in_flight.values())
        return min(self.nodes, key=lambda node: (loads[node], self._failures[node]))

    def has_ready_nodes(self) -> bool:
        """True if the connection to any known node stands, as far as was heard."""
        return any(node in self._ready for node in self.nodes)

    def learned(self, nodes: Sequence[Node]) -> None:
        """These are the nodes now; should there be none, those from the beginning."""
        self.nodes = tuple(nodes) or self._bootstrap

    # ── Requests ────────────────────────────────────────────────────────────────────────────

    def send(
        self, node: Node, request: ClientRequest, kind: type[R], timeout_ms: int | None = None
    ) -> RequestFuture[R]:
        """Ask a node; the answer is of this kind, or it is lost."""
        future: RequestFuture[R] = RequestFuture()
        if timeout_ms is None:
            timeout_ms = self._context.settings.request_timeout_ms
        self._numbers += 1
        asked = InFlight(node, request, self._context.now_ms + timeout_ms, kind, future)
        self._in_flight[self._numbers] = cast("InFlight[ClientResponse]", asked)
        self._context.emit(SendRequest(self._numbers, node, request))
        return future

    def answered(self, number: int, response: ClientResponse) -> None:
        """An answer came; one that nobody waits for any more is dropped."""
        asked = self._in_flight.pop(number, None)
        if asked is not None:
            assert isinstance(response, asked.kind), f"{asked.request} was answered by {response}"
            self._ready.add(asked.node)
            self._failures.pop(asked.node, None)
            asked.future.complete(response)

    def disconnected(self, node: Node) -> None:
        """The connection to a node is over: what it was asked is lost."""
        self._ready.discard(node)
        self._failures[node] += 1
        self._lose(node, f"the connection to {node.host}:{node.port} is over")

    def hang_up(self, node: Node) -> None:
        """End the connection to a node: nothing that it was asked is read after what follows."""
        self._ready.discard(node)
        self._context.emit(HangUp(node))
        self._lose(node, f"the connection to {node.host}:{node.port} was ended")

    def is_asked(self, node: Node) -> bool:
        """True if anything that a node was asked is not answered yet."""
        return any(asked.node == node for asked in self._in_flight.values())

    def late(self) -> list[Node]:
        """The nodes that have not answered in time, each given up."""
        late = [a.node for a in self._in_flight.values() if a.ends_ms <= self._context.now_ms]
        nodes = list(dict.fromkeys(late))
        for node in nodes:
            self._failures[node] += 1
            self.hang_up(node)
        return nodes

    def next_deadline(self) -> int | None:
        """When the first request will be given up."""
        return min((asked.ends_ms for asked in self._in_flight.values()), default=None)

    def _lose(self, node: Node, why: str) -> None:
        lost = [number for number, asked in self._in_flight.items() if asked.node == node]
        futures = [self._in_flight.pop(number).future for number in lost]
        for future in futures:
            future.fail(RequestLost(why))
