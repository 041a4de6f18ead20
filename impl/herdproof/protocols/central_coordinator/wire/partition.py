"""A partition's string on the wire: the plain number, or `002`'s form with a broker before it."""

from __future__ import annotations

import re

from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

_PARTITION = re.compile(r"(?:[0-9]+-)?([0-9]{1,9})", re.ASCII)


def text_of(number: int) -> str:
    """The string of a partition of a Kafka 3.9 topic; `2` is "2"."""
    return str(number)


def number_of(partition: str) -> int:
    """
    A partition's number within its topic: 3 for "3" and for `002`'s "0-3" (broker 0, partition 3).

    `WireError` (MALFORMED) if the string is in neither form.
    """
    found = _PARTITION.fullmatch(partition)
    if not found:
        raise WireError(ErrorCode.MALFORMED, f"{partition[:80]!r} is no partition, like 3 or 0-3")
    return int(found[1])
