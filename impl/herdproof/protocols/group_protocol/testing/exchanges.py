"""The port of a broker for tests: keeps what is asked and answered, and carries out faults."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from herdproof.broker.answering import Handler
from herdproof.broker.codec import KafkaRequest
from herdproof.broker.connection import KafkaConnection
from herdproof.broker.server import BrokerPort, BrokerServer
from herdproof.protocols.group_protocol.testing.faults import (
    FaultKind,
    WireFault,
    answer_with,
    error_codes,
)

KEPT = 50_000
"""The number of exchanges that are kept; the oldest go first."""


@dataclass(eq=False, kw_only=True)
class WireExchange:
    """A request and its answer, as they went over the wire."""

    number: int
    client: str
    """The client's `client.id`."""
    api: str
    version: int
    request: Any
    """Kafka's own fields: `exchange.request.group_id`, say."""
    at_ms: int
    """By the coordinator's clock."""
    answer: Any = None
    """None: it is not answered (yet), or the answer was lost."""
    fault: str | None = None
    """The fault that has struck it."""

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors within the answer, by their names."""
        found = dict.fromkeys(errors_in({} if self.answer is None else self.answer.to_dict()))
        names = {code: name for name, code in error_codes().items()}
        return tuple(names.get(code, str(code)) for code in found)

    def __str__(self) -> str:
        more = f" [{self.fault}]" if self.fault else ""
        told = "unanswered" if self.answer is None else ", ".join(self.errors) or "ok"
        return f"{self.number} {self.client} {self.api}: {told}{more}"


Heard: TypeAlias = Callable[[WireExchange], None]


def errors_in(told: Any) -> list[int]:
    """The error codes within an answer but 0, in order."""
    if isinstance(told, Mapping):
        own = [told["error_code"]] if told.get("error_code") else []
        return own + [code for value in told.values() for code in errors_in(value)]
    return [code for each in told for code in errors_in(each)] if isinstance(told, list) else []


class Exchanges:
    """All that went over a broker's ports; `asked` and `answered` are told of each as it goes."""

    def __init__(self, now_ms: Callable[[], int], asked: Heard, answered: Heard) -> None:
        self.history: deque[WireExchange] = deque(maxlen=KEPT)
        self.faults: list[WireFault] = []
        self.ports: list[BrokerPort] = []
        self.connections: dict[KafkaConnection, str] = {}
        """The connections that have said something, and whose they are."""
        self.asked = asked
        self.answered = answered
        self._now_ms = now_ms
        self._number = 0

    def begin(self, request: KafkaRequest) -> tuple[WireExchange, WireFault | None]:
        """A request came; the first fault that strikes it."""
        self._number += 1
        exchange = WireExchange(
            number=self._number, client=request.client_id, api=ApiKey(request.head.api).name,
            version=request.head.version, request=request.body, at_ms=self._now_ms(),
        )  # fmt: skip
        striking = [each for each in self.faults if each.strikes(exchange.client, exchange.api)]
        fault = striking[0] if striking else None
        exchange.fault = None if fault is None else fault.kind.value
        self.history.append(exchange)
        return exchange, fault

    def apis(self) -> list[str]:
        """The requests that are answered, by name."""
        return [ApiKey(api).name for port in self.ports for api in port.handlers]


class ExchangesPort(BrokerPort):
    """A port at which nothing goes unseen."""

    def __init__(self, server: BrokerServer, exchanges: Exchanges) -> None:
        super().__init__(server)
        self._exchanges = exchanges
        exchanges.ports.append(self)

    def hand(self, handler: Handler, request: KafkaRequest, connection: KafkaConnection) -> None:
        """Have a handler answer a request, unless a fault has it otherwise."""
        self._exchanges.connections[connection] = request.client_id
        exchange, fault = self._exchanges.begin(request)
        take = partial(self._take, exchange, handler, request, connection)
        reply = partial(self._told, exchange, request, connection)
        match fault:
            case None:
                take(reply)
            case WireFault(kind=FaultKind.DROP):
                connection.abort()
            case WireFault(kind=FaultKind.DELAY, seconds=seconds):
                asyncio.get_running_loop().call_later(seconds, take, reply)
            case WireFault(kind=FaultKind.REPEAT):
                take(lambda _answer: None)
                take(reply)
            case WireFault(kind=FaultKind.LOSE_ANSWER):
                take(lambda _answer: connection.abort())
            case WireFault(kind=FaultKind.ERROR, error=error):
                assert error is not None
                answer_with(error, request, take, reply)

    def closed(self, connection: KafkaConnection) -> None:
        """A connection is over."""
        self._exchanges.connections.pop(connection, None)
        super().closed(connection)

    def _take(
        self, exchange: WireExchange, handler: Handler, request: KafkaRequest,
        connection: KafkaConnection, reply: Callable[[ApiMessage | None], None],
    ) -> None:  # fmt: skip
        """Have the handler answer, as a port does that does nothing else."""
        self._exchanges.asked(exchange)
        super().hand(
            Handler(handler.versions, partial(_instead, handler, reply)), request, connection
        )

    def _told(
        self, exchange: WireExchange, request: KafkaRequest, connection: KafkaConnection,
        answer: ApiMessage | None,
    ) -> None:  # fmt: skip
        """Send an answer."""
        exchange.answer = answer
        self._exchanges.answered(exchange)
        self.reply(connection, request.head, answer)


def _instead(
    handler: Handler, reply: Callable[[ApiMessage | None], None], request: KafkaRequest, _: Any
) -> None:
    """Have a handler answer to another one."""
    handler.answer(request, reply)
