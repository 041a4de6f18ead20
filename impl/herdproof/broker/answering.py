"""Who answers which request: handlers by a request's type, and the port to a coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kafka.protocol.api_message import ApiMessage

from herdproof.broker.codec import KafkaRequest, Versions

Reply: TypeAlias = Callable[[ApiMessage | None], None]
"""Takes the answer to a request, once, now or later; None: there is none to be sent."""
Answering: TypeAlias = Callable[[KafkaRequest, Reply], None]
"""Answers requests of one type."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Who answers requests of one type, in these versions."""

    versions: tuple[int, int]
    answer: Answering


Handlers: TypeAlias = Mapping[int, Handler]
"""By the type of the request."""


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker, as clients are told of it."""

    node_id: int
    host: str
    port: int


COORDINATORS_FROM = 1 << 30
"""
Where ids of coordinators begin in front of a Kafka: no client must take one for a broker of
Kafka's, whose ids are small; nor for another coordinator, since a client whose connection to the
former one lives on does not open another one to the same id (seen: aiokafka).
"""


class GroupApis(Protocol):
    """A coordinator of consumer groups, as the broker sees it; some protocol's room has one."""

    versions: Versions
    """The requests that it answers."""

    def ask(self, request: KafkaRequest, reply: Reply) -> None:
        """Have a request answered."""

    def coordinator(self, here: BrokerNode) -> BrokerNode | None:
        """Who coordinates all groups: this broker, another one, or nobody who is known."""


def at_once(answer: Callable[[KafkaRequest], ApiMessage]) -> Answering:
    """Who answers without waiting for anything."""

    def answering(request: KafkaRequest, reply: Reply) -> None:
        reply(answer(request))

    return answering
