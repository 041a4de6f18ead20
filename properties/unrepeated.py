"""Lines that say nothing of those before them, as they were written before tracers repeated any."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from herdproof.conformance.traces.line import TraceLine

T = TypeVar("T", bound=TraceLine)


def unrepeated(lines: Iterable[T]) -> list[T]:
    """The same lines; of one that is gone, no other one tells."""
    return [replace(line, previous=0, before=None) for line in lines]
