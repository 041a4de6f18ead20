"""
Facts of lines beside the contract's fields, for tables: as they are read for these.

That a rebalance begins, or fails; who wrote the owners; until when a lease lasts; which commits
were refused; how a member went.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.conformance.traces.line import START
from herdproof.consuming.subscription import Subscription
from herdproof.pipeline.judging.changes import Changes
from herdproof.protocols.central_coordinator.judged.consumers import Member, Partition
from herdproof.protocols.central_coordinator.judged.fields import CentralFields
from herdproof.protocols.central_coordinator.judged.hindrance import Hindrance
from herdproof.protocols.central_coordinator.steps import LEFT
from herdproof.protocols.central_coordinator.traces.lines import CentralStep
from herdproof.protocols.central_coordinator.tracing import CONSUMER
from herdspec.check.observation.observed import Observed

ANSWERS = frozenset({"handle_ping", "handle_stop", "handle_start"})
HEARS = frozenset(f"{answer}_response" for answer in ANSWERS)
"""Lines of a coordinator that show that a consumer lives; each follows one of the consumer's."""


class TellingFields(CentralFields):
    """The lines of one group, as steps of the contract's fields, and for tables."""

    def __init__(self, seen: Observed, stored: Mapping[Partition, int], generation: int) -> None:
        super().__init__(seen, stored, generation)
        self.tells: Changes | None = None
        self.hindrance: Hindrance | None = None
        self._line: CentralStep | None = None
        self._heard: dict[Member, int] = {}
        """When a member was heard last: by its own lines, or by its coordinator."""
        self._answered: dict[Member, bool] = {}
        """True if a member has told of its last answer; if not, its lease is longer than told."""
        self._leases: dict[str, int] = {}
        """Until when a consumer may deliver, unless it says before that it does no more."""

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told."""
        self.tells, self.hindrance = tells, Hindrance(tells.unread)

    def take(self, line: CentralStep) -> bool:
        """The next line; whether it may have told of a step."""
        self._line = line
        if self.hindrance is None:
            return super().take(line)
        self.hindrance.take(line)
        if line.role != CONSUMER:
            found = super().take(line)
            if line.action in HEARS:
                self._hear((line.consumer, line.connection), line.time_ns)
            return found
        is_answer = line.action in ANSWERS
        renews = is_answer and line.until_ns > self._leases.get(line.node, 0)
        found = super().take(line)
        m = (line.consumer, line.connection)
        if m in self._members:
            self._heard[m] = line.time_ns
            if is_answer:  # of one that others tell nobody knows the lease
                self._answered[m] = renews
        return found

    def _hear(self, m: Member, time_ns: int) -> None:
        """A coordinator hears a member: if that has not told of its answer, lines are missing."""
        if m not in self._members:  # it was dropped, and nobody asks for it any more
            return
        self._heard[m] = time_ns
        if not self._answered.pop(m, False):
            self._heard[m] = max(time_ns, self._leases.get(m[0], 0) + 1)

    def lose(self, *, of_consumer: bool) -> None:
        """Lines are missing from here on."""
        if self.tells is not None and self.hindrance is not None:
            self.hindrance.lose(self.tells.last_ns, of_consumer=of_consumer)

    def find(self, *, of_consumer: bool) -> None:
        """From here on, they can have been no more."""
        if self.tells is not None and self.hindrance is not None:
            self.hindrance.find(self.tells.last_ns, of_consumer=of_consumer)

    @property
    def subscribed(self) -> Mapping[Member, Subscription | None]:
        """The subscription of each member, as far as that can be read."""
        return self._subscribed

    def _cease(self, node: str, had: Mapping[Partition, tuple[Member, int]]) -> None:
        if self.tells is not None and self._line is not None:
            lost = self._line.action == "on_lost_connection"
            itself = self._line.role == CONSUMER and self._line.node == node
            until_ns = self._leases.get(node, 0)
            is_told = itself and self._line.action != START and until_ns >= self._line.time_ns
            how = "lost_connection" if lost else "stopped"
            for m in {m: None for m, _ in had.values()}:
                self.tells.ceases(m, until_ns, how, None if is_told else self._heard.get(m))
        super()._cease(node, had)

    def _drop(self, m: Member) -> None:
        self._heard.pop(m, None)
        self._answered.pop(m, None)
        super()._drop(m)

    def _renew(self, line: CentralStep) -> None:
        if line.until_ns > line.time_ns:
            self._leases[line.node] = line.until_ns
        super()._renew(line)

    def coordinator_handle_register(self, line: CentralStep) -> None:
        """Who a member is."""
        if self.tells is not None and line.outcome == "accepted":
            m = (line.consumer, line.connection)
            self.tells.named(m, line.member, line.consumer)
        super().coordinator_handle_register(line)

    def coordinator_handle_resume(self, line: CentralStep) -> None:
        """Who a member is, of which another trace may have told."""
        if self.tells is not None and line.outcome == "accepted":
            self.tells.named((line.consumer, line.connection), line.member, line.consumer)
        super().coordinator_handle_resume(line)

    def coordinator_handle_closed(self, line: CentralStep) -> None:
        """Tell the way in which a member went."""
        if self.tells is not None:
            how = "failed" if line.action == "fail" else "closed"
            self.tells.goes("left" if line.outcome == LEFT else how)
        super().coordinator_handle_closed(line)

    coordinator_fail = coordinator_handle_closed

    def coordinator_begin_rebalance(self, line: CentralStep) -> None:
        """A rebalance begins, if one is necessary."""
        super().coordinator_begin_rebalance(line)
        if self.tells is not None and line.outcome == "necessary":
            self.tells.begins(self._epochs.get(line.node, 0))

    def coordinator_fail_rebalance(self, line: CentralStep) -> None:
        """It has failed."""
        super().coordinator_fail_rebalance(line)
        if self.tells is not None:
            self.tells.fails()

    def _hand_over(self, write: CentralStep, time_ns: int) -> None:
        if self.tells is not None:
            self.tells.writes(write.node, write.epoch)
        super()._hand_over(write, time_ns)

    def coordinator_handle_commit(self, line: CentralStep) -> None:
        """An offset is taken, or refused."""
        for t, n, o in line.partitions if self.tells is not None else ():
            self._commits((t, n), o, line.outcome, line, generation=line.generation)
        super().coordinator_handle_commit(line)

    def coordinator_answered(self, line: CentralStep) -> None:
        """Offsets are stored, or nobody knows."""
        write = self._writes.get((line.node, line.number))
        outcome = {"done": "stored", "unknown": "unknown"}.get(line.outcome)
        super().coordinator_answered(line)
        if write is not None and write.action == "flush_offsets" and outcome is not None:
            for t, n, o in write.partitions if self.tells is not None else ():
                self._commits((t, n), o, outcome, write)

    def _commits(
        self, p: Partition, offset: int, outcome: str, line: CentralStep, **told: Any
    ) -> None:
        assert self.tells is not None, "who calls has looked"
        epoch = line.epoch or self._epochs.get(line.node, 0)
        self.tells.commits(
            p, offset, outcome, epoch=epoch, consumer=line.consumer or None, **told
        )  # fmt: skip
