"""
The client as `003` prints it: the core with the printed habits put back, one at a time or all.

Each habit replaces the methods that it is printed in, and has the name of the spec's flaw. One more
has none there, since the spec knows no time: the printed client joins again at once when it was
refused (`no_back_off`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from herdproof.conformance.flawed import with_parts
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.consumer_coordinator import ConsumerCoordinator
from herdproof.protocols.group_protocol.client.core.context import FOR_EVER_MS
from herdproof.protocols.group_protocol.client.core.futures import RequestFuture
from herdproof.protocols.group_protocol.client.core.states import Generation
from herdproof.protocols.group_protocol.messages import Error, JoinGroupResponse


class KeepsJoinFuture(ConsumerCoordinator):
    """The future of the join that succeeded is kept: every later poll finds it, and sends none."""

    def reset_join_group_future(self) -> None:
        """Keep the answer that was given once."""
        if self.join_future is not None and not self.join_future.succeeded:
            super().reset_join_group_future()

    def rejoin_needed_or_pending(self) -> bool:
        """Tells whether it has to join; a future that has succeeded is not pending."""
        pending = self.join_future is not None and not self.join_future.succeeded
        return self.rejoin_needed or pending

    def join_group_if_needed(self) -> bool:
        """The printed loop, left where it would turn for ever without having sent anything."""
        if self.rejoin_needed and self.join_future is not None and self.join_future.succeeded:
            return False
        return super().join_group_if_needed()


class LeavesErrorsOpen(ConsumerCoordinator):
    """An answer to a JoinGroup with an error completes no future: its client waits for ever."""

    def join_group_refused(self, told: JoinGroupResponse, future: RequestFuture[bytes]) -> None:
        """The printed handler has no branch for it; nor has its protocol member ids to ask for."""
        if told.error is Error.MEMBER_ID_REQUIRED:
            super().join_group_refused(told, future)


class JoinsAtOnce(ConsumerCoordinator):
    """A join that was refused is sent again at once."""

    def may_join(self) -> bool:
        """It waits for nothing."""
        return True


class LosesRejoinFlag(ConsumerCoordinator):
    """Success of a join resets rejoinNeeded, whatever has set it meanwhile."""

    noticed: Mapping[str, int] = MappingProxyType({})
    """The topics of which it was told."""

    def look_at_topics(self) -> None:
        """A change of topics is told once, also while a join is under way."""
        if self.assignment_snapshot is not None and dict(self.noticed) != dict(self.cluster.topics):
            self.noticed = dict(self.cluster.topics)
            self.context.step("update_metadata", self.generation)
            self.request_rejoin()

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """The printed onSuccess."""
        self.rejoin_needed = False
        super().on_join_complete(generation, assignment)


class JoinsWithoutId(ConsumerCoordinator):
    """The first JoinGroup makes a member at once: if its answer is lost, a member is nobody."""

    join_group_version: ClassVar[int] = 3


class LeavesAtWork(ConsumerCoordinator):
    """After the poll time-out LeaveGroup is sent, and the user works on with what it has."""

    leaves_at_work = False

    def poll_timed_out(self) -> None:
        """Leave, and stop nothing."""
        self.leaves_at_work = True
        self.context.step("poll_time_out", self.generation.over)
        self.maybe_leave_group()
        self.leaves_at_work = False

    def is_lost(self) -> None:
        """Whoever has left by itself goes on."""
        if not self.leaves_at_work:
            super().is_lost()

    def on_join_prepare(self) -> bool:
        """Nothing is held back before a join."""
        self.was_held_back = True
        return super().on_join_prepare()


class JoinsWithPartitions(ConsumerCoordinator):
    """Nothing gives the partitions up before JoinGroup: others begin where it still consumes."""

    def on_join_prepare(self) -> bool:
        """The printed client has no such step."""
        return True


class DraftedCoordinator(
    KeepsJoinFuture, LeavesErrorsOpen, JoinsAtOnce, LosesRejoinFlag, JoinsWithoutId,
    LeavesAtWork, JoinsWithPartitions,
):  # fmt: skip
    """All habits at once."""


class LeaselessClient(GroupConsumer):
    """A client that hands out whatever it has, for as long as it has it."""

    def lease_until_ms(self) -> int:
        """Nobody takes it away."""
        return FOR_EVER_MS


DraftedClient = with_parts(LeaselessClient, coordinator_class=DraftedCoordinator)
"""`003`'s client as a whole."""

HABITS: Mapping[str, type[ConsumerCoordinator]] = {
    "join_future_never_reset": KeepsJoinFuture,
    "errors_complete_nothing": LeavesErrorsOpen,
    "no_back_off": JoinsAtOnce,
    "rejoin_flag_lost": LosesRejoinFlag,
    "ghost_member": JoinsWithoutId,
    "leave_while_processing": LeavesAtWork,
    "joins_with_partitions": JoinsWithPartitions,
}
"""Each printed habit: those from the document's list in its order, then one that is on none."""
AT_WORK = frozenset({"leave_while_processing", "joins_with_partitions"})
"""Habits of a client that has no lease."""


def printed_client(habit: str) -> type[GroupConsumer]:
    """The verified client with one printed habit."""
    base = LeaselessClient if habit in AT_WORK else GroupConsumer
    return with_parts(base, coordinator_class=HABITS[habit])
