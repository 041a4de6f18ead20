"""
Who may say what is consumed: offsets out of answers, and the user's own commits.

Both are taken from the partition's owner alone, in the group's present generation, and from nobody
while the owners are being changed: the answers to the Stops belong to the old generation, until the
handover. What an answer says is stored in a while; a commit is answered once it is stored.

Source: `002` (PingResponse), `000` (the answer to a stop-fetcher request), PROTOCOLS.md, rulings 7
and 8, and the contract (Fenced).
"""

from __future__ import annotations

from functools import partial

from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import Offset, text_of
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Registered
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
)
from herdproof.protocols.central_coordinator.wire.partition import number_of


class Commits(CorePart):
    """Takes offsets from those who may say them."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._server = context.server
        self._offsets = context.offsets

    def note(self, member: Registered, generation: int, offsets: tuple[Offset, ...]) -> None:
        """A member with auto_commit answers with what it has consumed."""
        if not member.auto_commit:
            return
        group = self._groups[member.group]
        for offset in offsets:
            partition = (offset.topic, normal(offset.partition))
            if self._may_say(group, member, partition, generation):
                self._offsets.note(group.name, partition, offset.offset)
        self._offsets.flush_later()

    def handle_commit(self, number: int, frame: Frame, commit: Commit) -> None:
        """A user commits offsets: all of them are stored, or none."""
        member = self._server.channels[number].member
        if member is None:
            self._answer(number, frame, ErrorCode.NOT_REGISTERED)
            return
        group = self._groups[member.group]
        offsets = {(o.topic, normal(o.partition)): o.offset for o in commit.offsets}
        error = ErrorCode.NONE
        if any(not partition for _, partition in offsets) or min(offsets.values(), default=0) < 0:
            error = ErrorCode.MALFORMED
        elif not all(self._may_say(group, member, p, frame.generation) for p in offsets):
            error = ErrorCode.STALE_GENERATION
        outcome = "accepted" if error is ErrorCode.NONE else "refused"
        self._outbox.emit(member.step("handle_commit", frame.generation, commit.offsets, outcome))
        if error is not ErrorCode.NONE:
            self._outbox.report(
                What.COMMIT_REFUSED, group.name, consumer=member.consumer_id, error=error.name,
                generation=frame.generation,
            )  # fmt: skip
            self._answer(number, frame, error)
            return
        for partition, offset in offsets.items():
            self._offsets.note(group.name, partition, offset)
        self._offsets.flush(
            group.name, partial(self._committed, number, frame, group.name, offsets)
        )

    def _may_say(
        self, group: Group, member: Registered, partition: Partition, generation: int
    ) -> bool:
        """True if what a member says of a partition is of its present owner."""
        return group.owns(member, partition, generation)

    def _committed(
        self, number: int, frame: Frame, group: str, offsets: dict[Partition, int], done: bool
    ) -> None:
        """A write is over; what this commit shares with a write before it may not be stored."""
        done = done and self._offsets.are_stored(group, offsets)
        self._answer(number, frame, ErrorCode.NONE if done else ErrorCode.NOT_STORED)

    def _answer(self, number: int, frame: Frame, error: ErrorCode) -> None:
        self._server.respond(
            number, CommitResponse(error), frame, generation=frame.generation, error=error
        )


def normal(partition: str) -> str:
    """
    A partition's number as text, without the broker that `002` puts before it; "" if it is neither.

    >>> normal("3"), normal("0-3"), normal("three")
    ('3', '3', '')
    """
    try:
        return text_of(number_of(partition))
    except WireError:
        return ""
