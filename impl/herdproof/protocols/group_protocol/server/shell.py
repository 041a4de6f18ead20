"""
Shell of a group coordinator's core: time, the store, and who gets which answer.

All decisions about groups are the core's. Should it fail, nobody knows what state it is in: the
whole broker ends (`fail`), and another one takes over as if this one had crashed.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, assert_never

from herdproof.broker.answering import BrokerNode, Reply
from herdproof.broker.codec import KafkaRequest
from herdproof.consuming.events import Report
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator, Reign
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredClassicGroup,
    StoreGroup,
)
from herdproof.protocols.group_protocol.messages import (
    Error,
    GroupRequest,
    GroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    PartitionResult,
    TopicResult,
    TopicToCommit,
    TopicToFetch,
)
from herdproof.protocols.group_protocol.reports import VOCABULARY, What
from herdproof.protocols.group_protocol.server import translation
from herdproof.protocols.group_protocol.server.clock import DayClock, GroupAlarm, GroupClock
from herdproof.protocols.group_protocol.server.metrics import GroupMetrics
from herdproof.protocols.group_protocol.settings import GroupSettings
from herdproof.protocols.group_protocol.steps import GroupStep
from herdproof.protocols.group_protocol.stores.port import GroupStore, WriteOutcome

log = logging.getLogger(__name__)

T = TypeVar("T", TopicToCommit, TopicToFetch)

ObserveGroups: TypeAlias = Callable[[GroupCoordinator, Sequence[GroupEffect]], None]
"""Told after everything that the core was given: the core as it is now, and what it led to."""
KnowsPartition: TypeAlias = Callable[[str, int], bool]
CoreEvent: TypeAlias = Callable[[int], Sequence[GroupEffect]]
"""Something to be given to the core, at this time."""


def ignore_effects(core: GroupCoordinator, effects: Sequence[GroupEffect]) -> None:
    """Who observes a coordinator that nobody observes."""


def knows_all(_topic: str, _partition: int) -> bool:
    """True of any partition, where it cannot be said which there are."""
    return True


class GroupShell:
    """
    A coordinator of all groups, in the running loop, for a server of Kafka's wire.

    `knows_partition` says whose offsets can be committed, `fail` is told what the core failed by,
    `step_down` that it must not lead on as it is, and `observe` everything that happens; `metrics`
    are its figures. Without a `clock` the time is that of the day.
    """

    versions = translation.VERSIONS

    def __init__(
        self, settings: GroupSettings, store: GroupStore, *,
        fail: Callable[[Exception], None],
        step_down: Callable[[], None] = lambda: None,
        knows_partition: KnowsPartition = knows_all,
        observe: ObserveGroups = ignore_effects,
        clock: GroupClock | None = None,
        coordinator: type[GroupCoordinator] = GroupCoordinator,
        metrics: GroupMetrics | None = None,
    ) -> None:  # fmt: skip
        self._metrics = metrics or GroupMetrics()
        self._core = coordinator(settings, lambda: str(uuid.uuid4()))
        self._store = store
        self._fail = fail
        self._step_down = step_down
        self._knows_partition = knows_partition
        self._observe = observe
        self._clock = clock or DayClock()
        self._callers: dict[int, tuple[KafkaRequest, Reply, tuple[TopicResult, ...]]] = {}
        self._last_caller = 0
        self._now_ms = 0
        self._wake: GroupAlarm | None = None
        self._wakes_ms: int | None = None
        self._events: deque[CoreEvent] = deque()
        self._is_busy = self._has_failed = False

    # ── Leadership ──────────────────────────────────────────────────────────────────────────

    def elected(self, epoch: int) -> None:
        """It is the coordinator from now on: read what is stored, and coordinate."""
        self._metrics.coordinator.elected(epoch)
        self._give(partial(self._core.load, epoch=epoch))
        self._store.load(epoch, partial(self._loaded, epoch))

    def deposed(self) -> None:
        """It is the coordinator no longer."""
        self._metrics.coordinator.deposed()
        self._give(self._core.resign)

    def _give_up(self, why: What) -> None:
        """Coordinate no longer, if it does: nobody can tell what is stored."""
        if self._core.reign is Reign.NOT_ELECTED:
            return
        self._report(Report(why, details=(("epoch", self._core.epoch),)))
        self.deposed()
        self._step_down()

    def _loaded(self, epoch: int, groups: Mapping[str, StoredClassicGroup] | None) -> None:
        """Lead with the groups that were read; give up if they cannot be."""
        if epoch != self._core.epoch:
            return
        if groups is None:
            self._give_up(What.STORE_NOT_READ)
        else:
            self._give(partial(self._core.lead, groups=groups))

    # ── What the server asks ────────────────────────────────────────────────────────────────

    def coordinator(self, here: BrokerNode) -> BrokerNode | None:
        """Who coordinates all groups: this broker."""
        return here

    def ask(self, request: KafkaRequest, reply: Reply) -> None:
        """Have the core answer a request."""
        message, unknown = self._without_unknown(translation.read(request))
        self._last_caller += 1
        caller = self._last_caller
        self._callers[caller] = request, reply, unknown
        self._give(partial(self._core.handle, caller=caller, request=message))

    def _without_unknown(
        self, message: GroupRequest
    ) -> tuple[GroupRequest, tuple[TopicResult, ...]]:
        """A request without the partitions that there are not, and what is answered of those."""
        unknown: tuple[TopicResult, ...] = ()
        if isinstance(message, OffsetCommitRequest):
            commits, unknown = self._split(message.topics, lambda part: part.partition)
            return (replace(message, topics=commits) if unknown else message), unknown
        if isinstance(message, OffsetDeleteRequest):
            deletes, unknown = self._split(message.topics, lambda part: part)
            return (replace(message, topics=deletes) if unknown else message), unknown
        return message, unknown

    def _split(
        self, topics: tuple[T, ...], number_of: Callable[[Any], int]
    ) -> tuple[tuple[T, ...], tuple[TopicResult, ...]]:
        """The topics with those of their partitions that there are, and what becomes of others."""
        knows = self._knows_partition
        if all(
            each.partitions and all(knows(each.name, number_of(part)) for part in each.partitions)
            for each in topics
        ):
            return topics, ()
        no_such = Error.UNKNOWN_TOPIC_OR_PARTITION
        known: list[T] = []
        unknown: list[TopicResult] = []
        for topic in topics:
            kept: list[Any] = []
            gone: list[PartitionResult] = []
            for part in topic.partitions:
                if knows(topic.name, number_of(part)):
                    kept.append(part)
                else:
                    gone.append(PartitionResult(number_of(part), no_such))
            if kept:
                known.append(replace(topic, partitions=tuple(kept)))
            if gone:
                unknown.append(TopicResult(topic.name, tuple(gone)))
        return tuple(known), tuple(unknown)

    # ── The core ────────────────────────────────────────────────────────────────────────────

    def _give(self, event: CoreEvent) -> None:
        """Give the core something; the only way in. What an effect leads to comes after it."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events and not self._has_failed:
                self._take(self._events.popleft())
            self._wake_at(self._core.next_deadline)
        except Exception as problem:
            log.exception("The group coordinator's core failed: this broker ends.")
            self._has_failed = True
            self._fail(problem)
        finally:
            self._is_busy = False

    def _take(self, event: CoreEvent) -> None:
        """Have the core take one event, and carry out what it answers."""
        self._now_ms = max(self._now_ms, self._clock.now_ms())
        since = time.perf_counter()
        effects = event(self._now_ms)
        self._metrics.coordinator.event_seconds.observe(time.perf_counter() - since)
        self._tell_observer(effects)
        for effect in effects:
            self._carry_out(effect)

    def _tell_observer(self, effects: Sequence[GroupEffect]) -> None:
        """Tell whoever observes, whose trouble is no reason to coordinate badly."""
        try:
            self._metrics.observed(self._core, effects)
            self._observe(self._core, effects)
        except Exception:
            log.exception("The observer of the group coordinator failed.")

    def _carry_out(self, effect: GroupEffect) -> None:
        """Do what the core wants done."""
        match effect:
            case GroupAnswer(caller=caller, response=response):
                request, reply, unknown = self._callers.pop(caller)
                if unknown:
                    response = _with_unknown(response, unknown)
                reply(translation.write(request, response))
            case StoreGroup(token=token):
                self._store.write(effect, lambda written: self._written(token, written))
            case GroupStep():
                pass
            case Report():
                self._report(effect)
            case _:
                assert_never(effect)

    def _written(self, token: int, written: WriteOutcome) -> None:
        """A change is stored, or not, or nobody knows."""
        if not written.is_known:
            is_fenced = written is WriteOutcome.FENCED
            self._give_up(What.STORE_FENCED if is_fenced else What.STORE_DOUBTFUL)
        else:
            self._give(partial(self._core.stored, token=token, ok=written is WriteOutcome.DONE))

    def _report(self, report: Report) -> None:
        """Log and count what the core, or its store, has to say."""
        self._metrics.reported(report)
        VOCABULARY.log(log, report.what, report.group, report.details)

    def _wake_at(self, deadline_ms: int | None) -> None:
        """Replace the one alarm."""
        if deadline_ms == self._wakes_ms:
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._wakes_ms = deadline_ms
        if deadline_ms is not None:
            wait_ms = max(0, deadline_ms - self._now_ms)
            self._wake = self._clock.call_later(wait_ms, self._woken)

    def _woken(self) -> None:
        """The core's deadline has come."""
        self._wake = self._wakes_ms = None
        self._give(self._core.tick)


def _with_unknown(response: GroupResponse, unknown: tuple[TopicResult, ...]) -> GroupResponse:
    """A response that tells of the partitions that there are not, too, unless all is refused."""
    assert isinstance(response, OffsetCommitResponse | OffsetDeleteResponse)
    if isinstance(response, OffsetDeleteResponse) and response.error:
        return response
    by_name: dict[str, tuple[PartitionResult, ...]] = {}
    for topic in (*response.topics, *unknown):
        by_name[topic.name] = (*by_name.get(topic.name, ()), *topic.partitions)
    topics = tuple(TopicResult(name, partitions) for name, partitions in by_name.items())
    return replace(response, topics=topics)
