"""
Goes through all groups that are stored, in portions, again and again.

A group that somebody registers in is read at once (`membership.py`); the others have time. To read
a hundred thousand of them takes minutes in which leases are renewed and groups rebalanced, so it is
done with a tenth of a processor, and nobody waits for it. Whoever is found to be gone is cleared
away, and so are groups that have been empty for long (`expiry.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.reports import What
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import Answer, Children, Names, Refusal, Why

PAUSE_MS = 100
"""Between two portions, each of `max_loads` groups."""

Visit: TypeAlias = Callable[[str], None]
Then: TypeAlias = Callable[[], None]


class Walk(CorePart):
    """
    Visits each stored group by `visit`, as long as `has_room` says that one more would be read.

    `listed` is told when the groups' names have been read first.
    """

    def __init__(
        self, context: Context, visit: Visit, has_room: Callable[[], bool], listed: Then
    ) -> None:
        super().__init__(context)
        self.names: deque[str] = deque()
        """The groups' nodes that are still to be visited."""
        self.number: int | None = None
        """Number of groups when they were listed last; None before."""
        self._visit = visit
        self._has_room = has_room
        self._listed = listed

    def clear(self) -> None:
        """Nothing is visited any more."""
        self.names.clear()
        self.number = None

    def start(self) -> None:
        """List the groups, and visit each."""
        self._outbox.ask(Children(self._paths.groups), self._names_read)

    def _names_read(self, answer: Answer) -> None:
        if isinstance(answer, Refusal) and answer.why is not Why.NO_NODE:
            self._outbox.report(What.ZOOKEEPER_TROUBLE, task="groups", why=answer.why.value)
            self._after(self._settings.zookeeper_backoff_ms, _WALK, self.start)
            return
        self.names = deque(answer.names if isinstance(answer, Names) else ())
        self.number = len(self.names)
        self._go_on()
        self._listed()

    def _go_on(self) -> None:
        """Visit a portion, and go on later."""
        for _ in range(self._settings.max_loads):
            if not self.names or not self._has_room():
                break
            name = unquoted(self.names.popleft())
            if name not in self._groups:
                self._visit(name)
        if self.names:
            self._after(PAUSE_MS, _WALK, self._go_on)
        else:
            self._after(self._settings.group_check_ms, _WALK, self.start)


_WALK = ("walk", 0)
