"""A run's log, and a number of all that is in it, by which two runs are found to be the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeAlias

Line: TypeAlias = tuple[float, str, object, Sequence[object]]
"""True time (ms), who, the event, and the effects."""


def digest(lines: Iterable[Line], step: type[object]) -> str:
    """
    A number of a whole log: that of another run is another, unless they are the same.

    Steps are left out: they only give names to what the other effects do.
    """
    summed = blake2b(digest_size=16)
    for time_ms, who, event, effects in lines:
        done = effects and [effect for effect in effects if not isinstance(effect, step)]
        summed.update(f"{time_ms:.3f} {who} {event!r} {done!r}\n".encode())
    return summed.hexdigest()
