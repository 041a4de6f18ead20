"""
Traces of elections for the audit. Format: `docs/trace.md`.

An election has no groups: what is judged is the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.pipeline.audit.map_trace import MapAuditor
from herdproof.pipeline.judging.events import Deposed, Elected, Event, ProcessStarted, Wrote
from herdproof.pipeline.judging.findings import SENTENCES
from herdproof.pipeline.judging.history import History
from herdproof.pipeline.judging.judging import Judging
from herdproof.pipeline.judging.told import ToldJudging
from herdproof.protocols.election.tracing import TraceLine

OBSERVABLE: Mapping[str, str] = {
    **dict.fromkeys(SENTENCES, "an election has no groups, members or offsets"),
    "FENCED_COMMAND": "an election commands nobody",
    "FENCED_WRITE": "",
    "MONOTONE": "",
    "ONE_COORDINATOR": "",
    "SETTLES": "a trace cannot show what is left undone for ever",
}  # fmt: skip
"""What electors tell enough about."""


class ElectionTeller:
    """Tells an election's lines, one after the other."""

    def __init__(self) -> None:
        self._leads: dict[str, int] = {}
        """Who believes that it leads, and in which epoch."""

    def tell(self, line: TraceLine) -> list[Event]:
        """What a line, the next one in order, says that happened."""
        told: list[Event] = []
        where: dict[str, Any] = {
            "time_ns": line.time_ns, "place": line.place, "node": line.node,
        }  # fmt: skip
        if line.action == "start":
            self._leads.pop(line.node, None)
            told.append(ProcessStarted(**where, role="coordinator"))
        answered = line.answered
        if answered is not None and (answered.call, answered.outcome) == ("write", "done"):
            told.append(Wrote(**where, epoch=answered.epoch, asked_ns=line.since_ns))
        led, leads = self._leads.get(line.node), line.state.token if line.state.leads else None
        if led != leads:
            self._leads.pop(line.node, None)
            if led is not None:
                told.append(Deposed(**where, epoch=led))
            if leads is not None:
                self._leads[line.node] = leads
                told.append(Elected(**where, epoch=leads))
        return told


class ElectionAuditor(MapAuditor):
    """What the pipeline knows of an election's traces."""

    options: ClassVar[Mapping[str, Any]] = {"invariants": False, "whole": False}
    """A state that was replayed in a proved spec breaks no promise; what is missing is known."""

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a run's lines."""
        return ToldJudging(History(run, group, self.name, OBSERVABLE), ElectionTeller())
