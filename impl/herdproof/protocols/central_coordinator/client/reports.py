"""The vocabulary of a consumer's `Report`: what it tells in its log."""

from __future__ import annotations

from enum import StrEnum


class What(StrEnum):
    """The name of a report; those without a connection have the details consumer, broker, why."""

    REGISTERED = "registered"
    """The coordinator has accepted this consumer. Details: channel."""
    LOST_CONNECTION = "lost_connection"
    """Fetchers are closed, if any ran; it consults again."""
    BROKER_NOT_AVAILABLE = "broker_not_available"
    """A known broker could not be consulted; the next one is."""
    NO_COORDINATOR = "no_coordinator"
    """A broker answered that nobody coordinates, or somebody whom it does not list."""
    ILLEGAL_STATE = "illegal_state"
    """A Start came while fetchers ran for another assignment."""
    START_NOT_STORED = "start_not_stored"
    """A start that was resolved by reset was refused: it is delivered no more. Details: code."""
