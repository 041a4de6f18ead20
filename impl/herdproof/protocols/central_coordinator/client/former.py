"""
Former registrations of a consumer's process: that they are over, and where their fetchers stopped.

The process knows both, and says it in its next Register: nobody waits for their leases, and what
they had finished is not read again. Where one stopped is what it would have answered to a Stop.
A coordinator takes that of the partition's owner alone, in the generation in which that consumed:
so it is said, however often, until a registration that has consumed in a later one is over, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.wire.messages import Brought

FORMER_SAID = 8
"""The number of former registrations named when a consumer registers anew."""

BROUGHT_BYTES = 16 * 1024
"""The most that is said of where they stopped: a coordinator takes Registers of four times that."""
BYTES_OF_AN_OFFSET = 12
"""Size of an offset without its names: their lengths, and its number."""


class FormerRegistrations:
    """The last registrations that a process has given up, and how much is said of them."""

    def __init__(self, *, brings: bool = True) -> None:
        self._may_bring = brings
        self.names: deque[str] = deque(maxlen=FORMER_SAID)
        """Names of those that fetch nothing any more, the last ones."""
        self.are_said = True
        """The next Register is of version 2, at least; not where the coordinator knows none."""
        self.brings = True
        """It may be of version 4; not where the coordinator knows none."""
        self._left: dict[str, Brought] = {}
        """By name, where they stopped, as far as that may count."""
        self._has_brought = False
        """The last Register was of version 4."""

    def add(self, name: str, generation: int, offsets: tuple[Offset, ...]) -> None:
        """A registration is over; it has finished so much of what it had in a generation."""
        self.names.append(name)
        if generation:
            self._left = {n: b for n, b in self._left.items() if b.generation >= generation}
        if generation and offsets:
            self._left[name] = Brought(name, generation, offsets)
        self._left = {n: b for n, b in self._left.items() if n in self.names}

    def said(self, *, is_busy: bool) -> tuple[tuple[str, ...] | None, tuple[Brought, ...] | None]:
        """
        The registrations that have stopped, and where, as the next Register says it.

        None while a rebalance listener is busy (`is_busy`); None for what its version cannot say.
        """
        self._has_brought = False
        if not self.are_said:
            return None, None
        if is_busy:
            return (), None
        brought = tuple(within(BROUGHT_BYTES, reversed(self._left.values())))
        self._has_brought = self.brings and self._may_bring and bool(brought)
        return tuple(self.names), brought if self._has_brought else None

    def understood(self) -> None:
        """A coordinator has accepted the Register; the next one is told all again."""
        self.are_said = self.brings = True

    def say_less(self) -> bool:
        """The coordinator does not know the Register's version; False if there is none before."""
        if self._has_brought:
            self.brings = self._has_brought = False
            return True
        could, self.are_said = self.are_said, False
        return could


def within(most: int, left: Iterable[Brought]) -> Iterable[Brought]:
    """As many of these offsets as fit into so many bytes, the first ones."""
    for one in left:
        most -= BYTES_OF_AN_OFFSET + len(one.registration.encode())
        kept = []
        for offset in one.offsets:
            most -= BYTES_OF_AN_OFFSET + len(f"{offset.topic}{offset.partition}".encode())
            if most < 0:
                break
            kept.append(offset)
        if kept:
            yield Brought(one.registration, one.generation, tuple(kept))
        if most < 0:
            return
