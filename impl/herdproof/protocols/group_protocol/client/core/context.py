"""Context that the parts of the client's core share: settings, what time it is, and effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.client.core.events import ClientEffect
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from herdproof.protocols.group_protocol.client.core.states import Generation
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.steps import ClientAction, GroupStep, OffsetMark, Share

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
        """The effects since this was asked last."""
        effects, self._effects = self._effects, []
        return effects

    def step(
        self, action: ClientAction, generation: Generation, *, outcome: str = "",
        owners: Iterable[TopicPartition] = (), offsets: Mapping[TopicPartition, int] | None = None,
        is_cooperative: bool = False,
    ) -> None:  # fmt: skip
        """A step of the protocol is taken, by this member of that generation."""
        member = generation.member_id
        self.emit(
            GroupStep(
                action=action, group=self.settings.group_id, member=member, outcome=outcome,
                generation=max(0, generation.generation_id),
                owners=tuple(Share(member, *where) for where in owners),
                offsets=tuple(OffsetMark(*where, at) for where, at in (offsets or {}).items()),
                is_cooperative=is_cooperative,
            )
        )  # fmt: skip

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
        """A timer that ends at this time from now on."""
        return cls(now_ms + timeout_ms)

    def remaining_time_at_least_zero(self, now_ms: int) -> int:
        """The milliseconds that are left of the budget."""
        return max(0, self.ends_ms - now_ms)
