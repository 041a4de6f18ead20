"""
The exchanges of the protocol: which request has which id, and which response answers it.

Kafka's broker APIs count from 0 (Produce, Fetch, …, about 90 today); ours begin at 1000. Both bytes
of such an id differ from a version 1 frame's first byte, its direction (0 or 1): so the first byte
of a *request* tells the two forms apart (`framing.form_of`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from herdproof.protocols.central_coordinator.wire import messages
from herdproof.protocols.central_coordinator.wire.messages import Message, Request, Response


class Direction(IntEnum):
    """Direction of a frame of version 1: it asks or answers."""

    REQUEST = 0
    RESPONSE = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, its response, and the type id that both have."""

    type_id: int
    request: type[Request]
    response: type[Response]


EXCHANGES = (
    Exchange(1000, messages.Consult, messages.ConsultResponse),
    Exchange(1001, messages.Register, messages.RegisterResponse),
    Exchange(1002, messages.Commit, messages.CommitResponse),
    Exchange(1003, messages.Ping, messages.PingResponse),
    Exchange(1004, messages.Stop, messages.StopResponse),
    Exchange(1005, messages.Start, messages.StartResponse),
    Exchange(1006, messages.Leave, messages.LeaveResponse),
)

REQUESTS: dict[int, type[Request]] = {one.type_id: one.request for one in EXCHANGES}
RESPONSES: dict[int, type[Response]] = {one.type_id: one.response for one in EXCHANGES}

TYPE_IDS: dict[type[Any], int] = {
    message: one.type_id for one in EXCHANGES for message in (one.request, one.response)
}

DIRECTIONS: dict[type[Any], Direction] = {one.request: Direction.REQUEST for one in EXCHANGES} | {
    one.response: Direction.RESPONSE for one in EXCHANGES
}


def is_request(message: Message) -> bool:
    """True if a message asks."""
    return DIRECTIONS[type(message)] is Direction.REQUEST
