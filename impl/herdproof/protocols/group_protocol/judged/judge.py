"""
One group's lines of coordinators, held against the contract's own properties.

What the contract asks of members (who consumes what, from where, what was finished before it was
committed) no coordinator sees: that is not observable here.
"""

from __future__ import annotations

from typing import Any

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.plain import PlainJudge
from herdproof.protocols.group_protocol.judged.fields import GroupFields
from herdproof.protocols.group_protocol.judged.stored import INITIAL, LOST_WITH_LINES
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.protocols.contract.properties import CONTRACT, PROMISES

NAMES = {p.name for p in PROMISES}
WATCHES = watches_of(CONTRACT, INITIAL, [p for p in CONTRACT.properties if p.name in NAMES])
PROMISED = [p for p in CONTRACT.properties if p.name in NAMES or p.goal is not None]
SENTENCES = {p.name: p.sentence for p in PROMISED}
"""What is promised, by name."""
UNDECIDED = {
    p.name: "a trace cannot show what is left undone for ever"
    for p in PROMISED
    if p.expectation not in JUDGED
}
"""What no trace can decide."""


class GroupJudge(PlainJudge):
    """One group's lines, taken one after the other in their order."""

    def __init__(self) -> None:
        super().__init__(WATCHES)
        self._fields = GroupFields(self.seen)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.seen.bind(WATCHES)

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""
        super().listen(tells)
        self._fields.tells = tells

    def take(self, line: TraceLine) -> bool:
        """The next line; whether it broke something."""
        self._fields.take(line)
        return self.seen.step()

    def lose(self, gap: Gap) -> None:
        """What these lines could have told, nobody knows from now on."""
        self.seen.gap(gap.lines, INITIAL)
        for field in LOST_WITH_LINES:
            self.seen.blind(field)
        self.seen.add("Broker", gap.node)
        self.seen.blind("term", gap.node)
        self._fields.lose(gap.node)

    def find(self, gap: Gap) -> None:
        """What is told from now on is so."""
        for field in LOST_WITH_LINES:
            self.seen.sees(field)
        self.seen.sees("term", gap.node)
        self._fields.lose(gap.node)

    def leave(self, line: TraceLine) -> None:
        """That was the last line of a process, as far as is known."""
        self._fields.leave(line)
