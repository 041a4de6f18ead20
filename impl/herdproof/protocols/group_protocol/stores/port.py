"""The port to where groups are stored: whatever is behind it, a shell carries out `StoreGroup`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol, TypeAlias

from herdproof.protocols.group_protocol.effects import StoredClassicGroup, StoreGroup


class WriteOutcome(Enum):
    """The outcome of a change."""

    DONE = "done"
    REFUSED = "refused"
    """It cannot be stored, and was not: report that to the coordinator."""
    FENCED = "fenced"
    """Another coordinator was elected, and it was not done: resign."""
    DOUBTFUL = "doubtful"
    """Nobody can tell whether it was done: resign."""

    @property
    def is_known(self) -> bool:
        """Tells whether the coordinator can go on: it was done or not, and it still leads."""
        return self in (WriteOutcome.DONE, WriteOutcome.REFUSED)


WrittenThen: TypeAlias = Callable[[WriteOutcome], None]
LoadedThen: TypeAlias = Callable[[Mapping[str, StoredClassicGroup] | None], None]
"""Given all groups by name; None: they cannot be read, and the coordinator is to resign."""


class GroupStore(Protocol):
    """Stored groups; changes are done, and told of, in the order in which they are given."""

    def load(self, epoch: int, then: LoadedThen) -> None:
        """Keep all coordinators of earlier epochs from writing, then read all groups."""

    def write(self, change: StoreGroup, then: WrittenThen) -> None:
        """Do all of a change, or nothing of it."""
