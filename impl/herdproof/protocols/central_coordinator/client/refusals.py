"""Refusals of a coordinator's requests by a consumer."""

from __future__ import annotations

from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Message,
    Ping,
    PingResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)


def refusal_of(request: Message) -> tuple[Message, ErrorCode] | None:
    """The response, and its error, to a request in a past epoch; responses have none."""
    match request:
        case Ping():
            return PingResponse(None), ErrorCode.STALE_EPOCH
        case Stop():
            return StopResponse(None), ErrorCode.STALE_EPOCH
        case Start():
            return StartResponse(ErrorCode.STALE_EPOCH), ErrorCode.STALE_EPOCH
        case _:
            return None
