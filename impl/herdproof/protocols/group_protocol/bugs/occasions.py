"""
Occasions of a bug: how often a coordinator that has one did otherwise than the core would have.

Without an occasion nothing is shown: a client that goes on well has not lived with the bug, but
beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from herdproof.protocols.group_protocol.coordinator.context import GroupContext, GroupPart
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.settings import GroupSettings


class CountingContext(GroupContext):
    """The common ground of a core with a bug, where its occasions are counted."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        super().__init__(settings, new_id)
        self.occasions = 0
        self.untold: dict[tuple[str, str], str] = {}
        """By group and instance, the member id that was told and not stored (KAFKA-10284)."""


class BuggyPart(GroupPart):
    """A part with a bug, which says when that makes a difference."""

    def _counting(self) -> CountingContext:
        assert isinstance(self._context, CountingContext), "a buggy part is a buggy coordinator's"
        return self._context

    def _differs(self) -> None:
        """Count an occasion: from here on it does otherwise than the core."""
        self._counting().occasions += 1


class BuggyCoordinator(GroupCoordinator):
    """A coordinator with a bug."""

    context_class: ClassVar[type[GroupContext]] = CountingContext

    @property
    def occasions(self) -> int:
        """The number of times that its bug has made a difference so far."""
        return self.counting.occasions

    @property
    def counting(self) -> CountingContext:
        """Its common ground, as what it is."""
        assert isinstance(self.context, CountingContext), "that is its class"
        return self.context
