"""OffsetCommit and OffsetFetch: what a consumer has stored, and where it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from herdproof.consuming.events import Deliver
from herdproof.consuming.offsets import NamedPartition, Offset, number_of
from herdproof.protocols.group_protocol.client.core.events import (
    CommitResult,
    CoordinatorUnknown,
    RefusedBy,
)
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture, failed
from herdproof.protocols.group_protocol.client.core.states import (
    NO_MEMBER,
    Generation,
    MemberState,
)
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupToFetch,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionToCommit,
    TopicToCommit,
    TopicToFetch,
)

if TYPE_CHECKING:
    from herdproof.protocols.group_protocol.client.core.consumer_coordinator import (
        ConsumerCoordinator,
    )

OUTCOMES: Mapping[Error, CommitResult] = {
    Error.NONE: CommitResult.STORED,
    Error.REBALANCE_IN_PROGRESS: CommitResult.REBALANCING,
    Error.NOT_COORDINATOR: CommitResult.NOT_SENT,
    Error.COORDINATOR_NOT_AVAILABLE: CommitResult.NOT_SENT,
    Error.COORDINATOR_LOAD_IN_PROGRESS: CommitResult.NOT_SENT,
}
"""Results of commits by their errors; with any other error one was refused."""


class OffsetRequests:
    """The offsets of one consumer, which its coordinator stores."""

    def __init__(self, member: ConsumerCoordinator) -> None:
        self._member = member
        self._starts: dict[TopicPartition, int] = {}
        """Starts that the reset has found, to be stored before anything of them is delivered."""
        self._starts_from_ms = 0
        self._storing_starts = False

    # ── Commits ─────────────────────────────────────────────────────────────────────────────

    def commit_fresh(self) -> RequestFuture[CommitResult]:
        """Commit all that is finished and not stored."""
        return self.commit(self._member.subscriptions.fresh())

    def commit(self, offsets: Mapping[TopicPartition, int]) -> RequestFuture[CommitResult]:
        """Send OffsetCommit to the present coordinator; what comes of it, later."""
        future: RequestFuture[CommitResult] = RequestFuture()
        member = self._member
        generation = NO_MEMBER if member.subscriptions.by_hand else member.generation
        if not offsets:
            future.complete(CommitResult.STORED)
        elif not member.subscriptions.by_hand and member.state is not MemberState.STABLE:
            joining = member.state is MemberState.REBALANCING
            future.complete(CommitResult.REBALANCING if joining else CommitResult.REFUSED)
        elif member.coordinator is None:
            member.ensure_coordinator_ready()
            future.complete(CommitResult.NOT_SENT)
        else:
            request = OffsetCommitRequest(
                version=9, client_id=member.settings.client_id,
                group_id=member.settings.group_id, generation_id=generation.generation_id,
                member_id=generation.member_id, topics=to_commit(offsets),
                group_instance_id=None if member.subscriptions.by_hand
                else member.settings.group_instance_id,
            )  # fmt: skip
            if not member.subscriptions.by_hand:
                member.context.step("commit", generation, offsets=offsets)
            asked = member.client.send(member.coordinator, request, OffsetCommitResponse)
            asked.add_listener(
                partial(self._committed, generation=generation, offsets=offsets, future=future)
            )
        return future

    def _committed(
        self, done: RequestFuture[OffsetCommitResponse], generation: Generation,
        offsets: Mapping[TopicPartition, int], future: RequestFuture[CommitResult],
    ) -> None:  # fmt: skip
        if not done.succeeded:
            future.complete(CommitResult.UNKNOWN)
            return
        results = [(t.name, p) for t in done.value.topics for p in t.partitions]
        for topic, result in results:
            state = self._member.subscriptions.assignment.get((topic, result.partition))
            if not result.error and state is not None:
                state.committed = offsets[topic, result.partition]
        error = next((result.error for _, result in results if result.error), Error.NONE)
        if error and not self._member.subscriptions.by_hand:
            self._member.refused("OffsetCommit", error, generation)
        elif error in OUTCOMES and OUTCOMES[error] is CommitResult.NOT_SENT:
            self._member.mark_coordinator_unknown()
        future.complete(OUTCOMES.get(error, CommitResult.REFUSED))

    # ── Where partitions begin ──────────────────────────────────────────────────────────────

    def fetch_committed(
        self, partitions: Sequence[TopicPartition]
    ) -> RequestFuture[Mapping[TopicPartition, int]]:
        """Send OffsetFetch for these partitions; `NO_OFFSET` where nothing is stored."""
        member = self._member
        if member.coordinator is None:
            return failed(CoordinatorUnknown("nobody is known who coordinates the group"))
        topics = tuple(
            TopicToFetch(topic, tuple(number for _, number in of_topic))
            for topic, of_topic in groupby(partitions, key=lambda where: where[0])
        )
        request = OffsetFetchRequest(
            version=8, client_id=member.settings.client_id,
            groups=(GroupToFetch(member.settings.group_id, topics),), require_stable=True,
        )  # fmt: skip
        future: RequestFuture[Mapping[TopicPartition, int]] = RequestFuture()
        generation = member.generation
        asked = member.client.send(member.coordinator, request, OffsetFetchResponse)
        asked.add_listener(partial(self._fetched, generation=generation, future=future))
        return future

    def _fetched(
        self, done: RequestFuture[OffsetFetchResponse], generation: Generation,
        future: RequestFuture[Mapping[TopicPartition, int]],
    ) -> None:  # fmt: skip
        if done.error is not None:
            future.fail(done.error)
            return
        (group,) = done.value.groups
        partitions = [(t.name, p) for t in group.topics for p in t.partitions]
        error = group.error or next((p.error for _, p in partitions if p.error), Error.NONE)
        if error:
            self._member.refused("OffsetFetch", error, generation)
            future.fail(RefusedBy("OffsetFetch", error))
        else:
            future.complete({(topic, p.partition): p.offset for topic, p in partitions})

    def resolved(self, start: Offset, generation: int | None) -> None:
        """The reset has found where a partition begins: that is stored, then delivered."""
        subscriptions = self._member.subscriptions
        where = start.topic, number_of(start.partition)
        if generation in (None, subscriptions.generation) and where in subscriptions.assignment:
            subscriptions.assignment[where].position = start.offset
            if not subscriptions.by_hand:
                member, found = self._member, {where: start.offset}
                member.context.step("resolve_start", member.generation, offsets=found)
            self._starts[where] = start.offset
            self.store_starts()

    def store_starts(self) -> None:
        """Have the starts stored that the reset has found, and then delivered."""
        member = self._member
        self._starts = {
            where: offset for where, offset in self._starts.items()
            if member.subscriptions.is_consuming and where in member.subscriptions.assignment
        }  # fmt: skip
        is_due = member.context.now_ms >= self._starts_from_ms
        if not self._starts or self._storing_starts or not is_due or not member.is_committable():
            return
        self._storing_starts = True
        starts, generation = dict(self._starts), member.subscriptions.generation
        stored = partial(self._stored, starts=starts, generation=generation)
        self.commit(starts).add_listener(stored)

    def _stored(
        self, done: RequestFuture[CommitResult], starts: Mapping[TopicPartition, int],
        generation: int,
    ) -> None:  # fmt: skip
        self._storing_starts = False
        if done.value is not CommitResult.STORED:
            self._starts_from_ms = self._member.context.after_backoff()
            return
        for (topic, number), offset in starts.items():
            if self._starts.get((topic, number)) == offset:
                del self._starts[topic, number]
            place = NamedPartition(topic, str(number))
            self._member.context.emit(Deliver(place, generation))
        self._starts_from_ms = 0

    def next_deadline(self) -> int | None:
        """When starts that could not be stored are tried again."""
        return self._starts_from_ms if self._starts and not self._storing_starts else None


def to_commit(offsets: Mapping[TopicPartition, int]) -> tuple[TopicToCommit, ...]:
    """Offsets as OffsetCommit has them."""
    return tuple(
        TopicToCommit(topic, tuple(PartitionToCommit(n, offsets[topic, n]) for _, n in of_topic))
        for topic, of_topic in groupby(sorted(offsets), key=lambda where: where[0])
    )
