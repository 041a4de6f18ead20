"""Clients with the mistakes of fetch positions, under the names of the spec's flaws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from herdproof.conformance.flawed import with_parts
from herdproof.consuming.events import Deliver
from herdproof.consuming.offsets import NamedPartition, Offset, number_of
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.consumer_coordinator import ConsumerCoordinator
from herdproof.protocols.group_protocol.client.core.events import CommitResult, RefusedBy
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.client.core.offset_requests import OffsetRequests
from herdproof.protocols.group_protocol.client.core.states import Generation
from herdproof.protocols.group_protocol.effects import TopicPartition


class WaitsOn(ConsumerCoordinator):
    """Goes on to wait for the offsets that it has asked for, whatever it is assigned by then."""

    def _revoked(self, done: RequestFuture[None]) -> None:
        asked = self._fetch_future
        super()._revoked(done)
        self._fetch_future = asked

    def is_lost(self) -> None:
        """Others may have the partitions already."""
        asked = self._fetch_future
        super().is_lost()
        self._fetch_future = asked

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Take the assignment."""
        asked = self._fetch_future
        super().on_join_complete(generation, assignment)
        self._fetch_future = asked


class DeliversAtOnce(OffsetRequests):
    """Has a start that the reset has found delivered, stored or not."""

    def resolved(self, start: Offset, generation: int | None) -> None:
        """The reset has found where a partition begins."""
        subscriptions = self._member.subscriptions
        where = start.topic, number_of(start.partition)
        if generation in (None, subscriptions.generation) and where in subscriptions.assignment:
            subscriptions.assignment[where].position = start.offset
            place = NamedPartition(start.topic, start.partition)
            self._member.context.emit(Deliver(place, subscriptions.generation))


class TakesErrorsForNothing(OffsetRequests):
    """Takes it that offsets cannot be told for that none are stored."""

    def fetch_committed(
        self, partitions: Sequence[TopicPartition]
    ) -> RequestFuture[Mapping[TopicPartition, int]]:
        """Send OffsetFetch; nothing is stored, if it is refused."""
        future: RequestFuture[Mapping[TopicPartition, int]] = RequestFuture()
        super().fetch_committed(partitions).add_listener(partial(self._told, future=future))
        return future

    def _told(
        self, done: RequestFuture[Mapping[TopicPartition, int]],
        future: RequestFuture[Mapping[TopicPartition, int]],
    ) -> None:  # fmt: skip
        if isinstance(done.error, RefusedBy):
            future.complete({})
        elif done.error is not None:
            future.fail(done.error)
        else:
            future.complete(done.value)


class CommitsWhatIsAtWork(OffsetRequests):
    """Commits the record that the application is at, as well."""

    def commit_fresh(self) -> RequestFuture[CommitResult]:
        """Commit all that was handed out; a start of which nothing was, as it was found."""
        found = self._member.subscriptions.finished()
        return self.commit({w: o + (w not in self._starts) for w, o in found.items()})


def _with(offsets: type[OffsetRequests]) -> type[ConsumerCoordinator]:
    return with_parts(ConsumerCoordinator, offsets_class=offsets)


MISTAKES: Mapping[str, type[ConsumerCoordinator]] = MappingProxyType({
    "late_offsets_used": WaitsOn,
    "start_unstored": _with(DeliversAtOnce),
    "error_taken_for_nothing": _with(TakesErrorsForNothing),
    "commits_what_is_at_work": _with(CommitsWhatIsAtWork),
})  # fmt: skip
"""By mistake the member that has it."""
CLIENTS: Mapping[str, type[GroupConsumer]] = MappingProxyType({
    mistake: with_parts(GroupConsumer, coordinator_class=member)
    for mistake, member in MISTAKES.items()
})  # fmt: skip
"""By mistake the client that has it."""
