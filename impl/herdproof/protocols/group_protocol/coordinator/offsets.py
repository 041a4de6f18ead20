"""
OffsetCommit, OffsetFetch and OffsetDelete: who may commit, and what is committed.

Commits of a group do not wait for each other: each is answered when it is stored, and counts from
then. Whoever fetches waits for the commits that came before, so that nobody starts behind an offset
that is about to be stored (Kafka answers with the older one).

With `commits = "owner"` a member commits only for what it owns, or what nobody owns (*ours*; Kafka
checks nothing but member and generation, so that a member overwrites offsets of a partition that
was another's all the time). A partition that nobody has been assigned yet is its last owner's. The
answer is ILLEGAL_GENERATION, from which clients conclude what is true: that the partition is
another's since a rebalance, and the commit is not to be tried again.

Source: apache/kafka, `OffsetMetadataManager`; `ClassicGroup.validateOffsetCommit`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from functools import partial
from itertools import groupby

from herdproof.protocols.group_protocol.coordinator.context import (
    Deed,
    GroupContext,
    GroupPart,
    StoredThen,
)
from herdproof.protocols.group_protocol.coordinator.gathered import GatheredAnswer
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.refusals import refusal
from herdproof.protocols.group_protocol.coordinator.sessions import Sessions
from herdproof.protocols.group_protocol.coordinator.states import GroupState
from herdproof.protocols.group_protocol.coordinator.stored import marks_of
from herdproof.protocols.group_protocol.effects import StoredCommit, TopicPartition
from herdproof.protocols.group_protocol.messages import (
    Error,
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    GroupToFetch,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionResult,
    PartitionToCommit,
    TopicResult,
)
from herdproof.protocols.group_protocol.reports import What
from herdproof.protocols.group_protocol.steps import EVERYTHING, GroupAction, GroupStep

NOT_FOUND_FROM_VERSION = 9
"""From here on a commit learns that there is no such group."""

Offsets = Mapping[TopicPartition, StoredCommit | None]


class CommittedOffsets(GroupPart):
    """OffsetCommit, OffsetFetch and OffsetDelete."""

    def __init__(self, context: GroupContext, sessions: Sessions) -> None:
        super().__init__(context)
        self._sessions = sessions
        self._storing: dict[str, deque[list[Deed]]] = {}
        """Of each group, for each change that is being stored, what waits for it."""

    def clear(self) -> None:
        """Nothing is being stored."""
        self._storing.clear()

    # ── OffsetCommit ────────────────────────────────────────────────────────────────────────

    def commit(self, caller: int, request: OffsetCommitRequest) -> None:
        """Somebody commits offsets; who commits none is not looked at, as by Kafka."""
        if not request.topics:
            self._outbox.answer(caller, OffsetCommitResponse())
            return
        group = self._groups.get(request.group_id)
        error = self._why_not(group, request)
        if error:
            asked = {
                (topic.name, each.partition): self._stored_offset(request, each)
                for topic in request.topics
                for each in topic.partitions
            }
            self._take(request, error, {}, asked)
            self._report_refused(request, error, len(asked))
            self._outbox.answer(caller, refusal(request, error))
            return
        if group is None:  # which stands once something is committed
            group = ClassicGroup(request.group_id, self._outbox.now_ms)
        member = group.members.get(request.member_id)
        if member is not None:
            self._sessions.renew(group, member)
        self._commit(group, caller, request)

    def _commit(self, group: ClassicGroup, caller: int, request: OffsetCommitRequest) -> None:
        """Store what is not refused, then answer."""
        accepted: dict[TopicPartition, StoredCommit] = {}
        refused: dict[TopicPartition, StoredCommit] = {}
        errors: Counter[Error] = Counter()
        topics = []
        for topic in request.topics:
            results = []
            for each in topic.partitions:
                where = (topic.name, each.partition)
                error = self._why_not_partition(group, request.member_id, where, each)
                into = refused if error else accepted
                if error:
                    errors[error] += 1
                into[where] = self._stored_offset(request, each)
                results.append(PartitionResult(each.partition, error))
            topics.append(TopicResult(topic.name, tuple(results)))
        told = OffsetCommitResponse(topics=tuple(topics))
        self._take(request, Error.NONE, accepted, refused)
        for error, count in errors.items():
            self._report_refused(request, error, count)
        if accepted:
            self._groups[request.group_id] = group
            told_then = partial(self._committed, caller, request, told)
            self._store("flush_offsets", group, accepted, told_then)
        else:
            self._outbox.answer(caller, told)

    def _report_refused(self, request: OffsetCommitRequest, error: Error, count: int) -> None:
        """Tell that so many offsets of a commit were refused."""
        if error is Error.FENCED_INSTANCE_ID:
            self._outbox.report(
                What.MEMBER_FENCED, request.group_id, member=request.member_id,
                request="OffsetCommit",
            )  # fmt: skip
        else:
            self._outbox.report(
                What.COMMIT_REFUSED, request.group_id, member=request.member_id,
                error=error.name, generation=request.generation_id, partitions=count,
            )  # fmt: skip

    def _why_not(self, group: ClassicGroup | None, request: OffsetCommitRequest) -> Error:
        """Why nothing of a commit is taken; NONE if something may be."""
        if group is None:
            if request.generation_id < 0:
                return Error.POLICY_VIOLATION if self._context.is_full else Error.NONE
            known = request.version >= NOT_FOUND_FROM_VERSION
            return Error.GROUP_ID_NOT_FOUND if known else Error.ILLEGAL_GENERATION
        if request.generation_id < 0 and group.is_in(GroupState.EMPTY):
            return Error.NONE
        instance = request.group_instance_id
        error = group.why_not(request.member_id, instance)
        if error:
            return error
        if request.generation_id != group.generation:
            return Error.ILLEGAL_GENERATION
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            return Error.REBALANCE_IN_PROGRESS
        return Error.NONE

    def _why_not_partition(
        self, group: ClassicGroup, member_id: str, where: TopicPartition, offset: PartitionToCommit
    ) -> Error:
        if len(offset.metadata or "") > self._settings.offset_metadata_max_bytes:
            return Error.OFFSET_METADATA_TOO_LARGE
        owner = group.owners.get(where)
        if self._settings.commits == "owner" and group.members and owner not in (None, member_id):
            return Error.ILLEGAL_GENERATION
        return Error.NONE

    def _stored_offset(self, request: OffsetCommitRequest, each: PartitionToCommit) -> StoredCommit:
        now_ms, kept_ms = self._outbox.now_ms, request.retention_time_ms
        return StoredCommit(
            offset=each.offset,
            leader_epoch=each.leader_epoch,
            metadata=each.metadata or "",
            committed_ms=now_ms,
            expires_ms=None if kept_ms is None else now_ms + kept_ms,
        )

    def _committed(
        self, caller: int, request: OffsetCommitRequest, told: OffsetCommitResponse, ok: bool
    ) -> None:
        if ok:
            self._outbox.take(GroupStep(action="answer_commits", group=request.group_id))
            self._outbox.answer(caller, told)
        else:
            self._outbox.report(What.NOT_STORED, request.group_id, change="a commit")
            self._outbox.answer(caller, refusal(request, Error.INVALID_COMMIT_OFFSET_SIZE))

    def _take(
        self, request: OffsetCommitRequest, error: Error, accepted: Offsets, refused: Offsets
    ) -> None:
        """An OffsetCommit is read, and this comes of it."""
        is_outside = request.generation_id < 0 and not error
        self._outbox.take(
            GroupStep(
                action="commit_from_outside" if is_outside else "handle_offset_commit",
                group=request.group_id, member=request.member_id,
                generation=request.generation_id, outcome=error.name,
                offsets=marks_of(accepted), refused=marks_of(refused),
            )
        )  # fmt: skip

    # ── OffsetFetch ─────────────────────────────────────────────────────────────────────────

    def fetch(self, caller: int, request: OffsetFetchRequest) -> None:
        """Somebody asks for committed offsets."""
        answer = partial(self._answer_fetch, caller)
        gathered = GatheredAnswer[FetchedGroup](len(request.groups), answer)
        for place, asked in enumerate(request.groups):
            fetch = partial(self._fetch, gathered, place, asked, self._outbox.token)
            self.after_commits(asked.group_id, fetch)

    def _fetch(
        self, gathered: GatheredAnswer[FetchedGroup], place: int, asked: GroupToFetch, since: int
    ) -> None:
        """Tell what is stored; the last change that was there to be waited for has this number."""
        group = self._groups.get(asked.group_id)
        offsets = group.offsets if group is not None else {}
        if asked.topics is None:
            by_topic = groupby(sorted(offsets), key=lambda where: where[0])
            wanted = [(topic, [where[1] for where in wheres]) for topic, wheres in by_topic]
        else:
            wanted = [(topic.name, list(topic.partitions)) for topic in asked.topics]
        topics = tuple(
            FetchedTopic(topic, tuple(_fetched(offsets.get((topic, n)), n) for n in partitions))
            for topic, partitions in wanted
        )
        told = {(topic, n): offsets.get((topic, n)) for topic, numbers in wanted for n in numbers}
        self._outbox.take(
            GroupStep(
                action="handle_offset_fetch", group=asked.group_id, offsets=marks_of(told),
                number=since, outcome="" if asked.topics is not None else EVERYTHING,
            )
        )  # fmt: skip
        gathered.put(place, FetchedGroup(asked.group_id, topics))

    def _answer_fetch(self, caller: int, groups: tuple[FetchedGroup, ...]) -> None:
        self._outbox.answer(caller, OffsetFetchResponse(groups=groups))

    # ── OffsetDelete ────────────────────────────────────────────────────────────────────────

    def delete(self, caller: int, request: OffsetDeleteRequest) -> None:
        """Committed offsets are to be forgotten, but for topics that the group subscribes to."""
        self.after_commits(request.group_id, partial(self._delete, caller, request))

    def _delete(self, caller: int, request: OffsetDeleteRequest) -> None:
        group = self._groups.get(request.group_id)
        if group is None:
            self._outbox.answer(caller, OffsetDeleteResponse(error=Error.GROUP_ID_NOT_FOUND))
            return
        if not group.is_in(GroupState.EMPTY) and not group.is_of_consumers():
            self._outbox.answer(caller, OffsetDeleteResponse(error=Error.NON_EMPTY_GROUP))
            return
        topics = tuple(
            TopicResult(topic.name, tuple(PartitionResult(n, error) for n in topic.partitions))
            for topic in request.topics
            for error in (_why_not_delete(group, topic.name),)
        )
        gone = {
            (topic.name, n): None
            for topic in request.topics
            for n in topic.partitions
            if (topic.name, n) in group.offsets and not _why_not_delete(group, topic.name)
        }
        told = OffsetDeleteResponse(topics=topics)
        if gone:
            deleted = partial(self._deleted, caller, group.name, len(gone), told)
            self._store("delete_offsets", group, gone, deleted)
        else:
            self._outbox.answer(caller, told)

    def _deleted(
        self, caller: int, group: str, count: int, told: OffsetDeleteResponse, ok: bool
    ) -> None:
        if ok:
            self._outbox.report(What.OFFSETS_DELETED, group, offsets=count)
        else:
            self._outbox.report(What.NOT_STORED, group, change="a deletion of offsets")
        failed = OffsetDeleteResponse(error=Error.UNKNOWN_SERVER_ERROR)
        self._outbox.answer(caller, told if ok else failed)

    # ── Storing ─────────────────────────────────────────────────────────────────────────────

    def after_commits(self, group: str, deed: Deed) -> None:
        """Do this once all that is being stored of a group is."""
        self._in_turn(group, partial(self._after_commits, group, deed))

    def forget(self, group: ClassicGroup, partitions: list[TopicPartition]) -> None:
        """Nobody needs these offsets any more."""
        expired = partial(self._expired, group.name, len(partitions))
        self._store("delete_offsets", group, dict.fromkeys(partitions), expired)

    def _expired(self, group: str, count: int, ok: bool) -> None:
        if ok:
            self._outbox.report(What.OFFSETS_EXPIRED, group, offsets=count)
        else:
            self._outbox.report(What.NOT_STORED, group, change="a deletion of offsets")

    def _after_commits(self, group: str, deed: Deed) -> None:
        storing = self._storing.get(group)
        if storing:
            storing[-1].append(deed)
        else:
            deed()

    def _store(
        self, action: GroupAction, group: ClassicGroup, offsets: Offsets, then: StoredThen
    ) -> None:
        self._storing.setdefault(group.name, deque()).append([])
        stored = partial(self._stored, group, offsets, then)
        step = GroupStep(action=action, group=group.name, offsets=marks_of(offsets))
        self._outbox.store(step, stored, offsets=offsets)

    def _stored(self, group: ClassicGroup, offsets: Offsets, then: StoredThen, ok: bool) -> None:
        """The first change that was being stored is, or will not be."""
        if ok:
            for where, offset in offsets.items():
                if offset is None:
                    group.offsets.pop(where, None)
                else:
                    group.offsets[where] = offset
        then(ok)
        storing = self._storing[group.name]
        deeds = storing.popleft()
        if not storing:
            del self._storing[group.name]
        for deed in deeds:
            self._in_turn(group.name, deed)


def _why_not_delete(group: ClassicGroup, topic: str) -> Error:
    return Error.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic) else Error.NONE


def _fetched(offset: StoredCommit | None, partition: int) -> FetchedPartition:
    if offset is None:
        return FetchedPartition(partition)
    return FetchedPartition(partition, offset.offset, offset.leader_epoch, offset.metadata)
