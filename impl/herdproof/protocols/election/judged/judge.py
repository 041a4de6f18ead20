"""
The contract's fields as each line of an election fills them: no guard, no judgement.

- A `Broker` is one taking up of an epoch, by one process of a node: what it has taken up, it keeps.
  So who takes the epoch up that another one had is seen, however much later that is.
- A write was accepted in some epoch, between its sending and its answer. It was somebody else's
  than the elected broker's if a later epoch had been taken up before it was sent.
- ZooKeeper's epoch itself is told by no line, but as of some time before.
- Where lines of a node are missing, it may not have led on, or may have led again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herdproof.conformance.traces.line import START
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.plain import PlainJudge
from herdproof.protocols.election.tracing import ElectorLine
from herdspec.check.observation.watches import watches_of
from herdspec.protocols.election.contract import CONTRACT

INITIAL: Mapping[str, Any] = {"token": 0, "leads": False, "stale_write_accepted": False}
"""The fields that these lines fill, before anything is told."""

WATCHES = watches_of(CONTRACT, INITIAL)

Broker = tuple[str, int, int]
"""A node, which of its processes, and the epoch."""


class ElectionJudge(PlainJudge):
    """One run's lines, taken one after the other in their order."""

    def __init__(self) -> None:
        super().__init__(WATCHES)
        self._lives: dict[str, int] = {}
        self._leads: dict[str, Broker] = {}
        """By node, as what it believes that it leads."""
        self._taken_up_ns: dict[int, int] = {}
        """By epoch, when it was first taken up."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.seen.bind(WATCHES)

    def take(self, line: ElectorLine) -> bool:
        """The next line; whether it broke something."""
        node, state, told = line.node, line.state, line.arguments.answered
        if line.action == START:
            self._lives[node] = self._lives.get(node, 0) + 1
        if told is not None and (told.call, told.outcome) == ("write", "done"):
            is_stale = any(
                epoch > told.epoch and since_ns < line.earliest_ns
                for epoch, since_ns in self._taken_up_ns.items()
            )
            self.seen.amend("stale_write_accepted", (), False)
            if is_stale:
                self.seen.set("stale_write_accepted", (), True)
        now = (node, self._lives.get(node, 0), state.token) if state.leads else None
        if now is not None and now == self._leads.get(node):
            self.seen.refine("leads", now, True)
        else:
            self._leads_no_more(node)
            if now is not None:
                self._takes_up(now, line.time_ns)
        return self.seen.step()

    def _takes_up(self, broker: Broker, time_ns: int) -> None:
        node, _, epoch = broker
        self._leads[node] = broker
        self._taken_up_ns.setdefault(epoch, time_ns)
        self.seen.add("Broker", broker)
        self.seen.set("token", broker, epoch)
        self.seen.set("leads", broker, True)

    def _leads_no_more(self, node: str) -> None:
        if node in self._leads:
            self.seen.set("leads", self._leads.pop(node), False)

    def lose(self, gap: Gap) -> None:
        """Forget a node: whether it leads, nobody knows from now on."""
        self.seen.gap(gap.lines, INITIAL)
        if gap.node in self._leads:
            self.seen.forget("leads", self._leads[gap.node])
