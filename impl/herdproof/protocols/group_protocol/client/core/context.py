"""What the parts of the client's core share: settings, what time it is, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.client.core.events import ClientEffect
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings

FOR_EVER_MS = 2**62
"""A time that never comes."""


@dataclass(slots=True)
class ClientContext:
    """One client, for all parts of its core."""

    settings: ClientSettings
    now_ms: int = 0
    _effects: list[ClientEffect] = field(default_factory=list)

    def emit(self, *effects: ClientEffect) -> None:
        """This is to be done, after what was to be done before."""
        self._effects += effects

    def take(self) -> list[ClientEffect]:
        """What is to be done since this was asked last."""
        effects, self._effects = self._effects, []
        return effects

    def report(self, what: str, why: str) -> None:
        """For operators."""
        self.emit(Report(what, self.settings.group_id, (("why", why),)))

    def after_backoff(self) -> int:
        """When something that failed may be tried again."""
        return self.now_ms + self.settings.retry_backoff_ms


@dataclass(frozen=True, slots=True)
class Timer:
    """A budget of time, as every call has one that may wait."""

    ends_ms: int

    @classmethod
    def of(cls, timeout_ms: int, now_ms: int) -> Timer:
        """So long from now on."""
        return cls(now_ms + timeout_ms)

    def remaining_time_at_least_zero(self, now_ms: int) -> int:
        """What is left of it."""
        return max(0, self.ends_ms - now_ms)
