"""Refusals: of a coordinator's requests by a consumer, and what a consumer is told of its own."""

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

ADVICE = {
    ErrorCode.INVALID_TIMEOUTS: " (ping_interval and session_timeout must lie within the "
    "coordinators' min_ping_interval_ms and max_session_timeout_ms)",
    ErrorCode.OTHER_PROTOCOL: " (the group has members that rebalance by themselves, as Kafka "
    "0.8's: close those first, or take another group)",
}
"""Advice for a user about a refusal whose name does not say it."""


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
