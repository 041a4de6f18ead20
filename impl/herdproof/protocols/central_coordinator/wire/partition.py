"""A partition's text in a frame: the plain number, or `002`'s form with a broker before it."""

from __future__ import annotations

from herdproof.consuming import offsets
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode


def number_of(partition: str) -> int:
    """A partition's number within its topic; `WireError` (MALFORMED) if the text is none."""
    try:
        return offsets.number_of(partition)
    except offsets.BadPartition as problem:
        raise WireError(ErrorCode.MALFORMED, str(problem)) from problem
