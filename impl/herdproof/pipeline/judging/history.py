"""
A group's history: events in, in causal order; rows of tables, figures and verdicts out.

It keeps what is live, not the past: rows that are finished are drained at any time, and a history
can be pickled between two events. What is drained on the way and what `close` gives are together
the same rows, however often it is drained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from herdproof.pipeline.judging import events as e
from herdproof.pipeline.judging.consumption_watch import SECOND, Consumption, Offsets
from herdproof.pipeline.judging.contract_watch import Coordination
from herdproof.pipeline.judging.findings import TOLD_BY, Findings
from herdproof.pipeline.judging.group_tables import Groups
from herdproof.pipeline.spark.tables import Rows

Hears = Callable[[Any], None]


class History:
    """One group of one run; `observable` says what its source can decide (`Auditor`)."""

    def __init__(self, run: str, group: str, protocol: str, observable: Mapping[str, str]) -> None:
        self._found = Findings(run, group, protocol, observable)
        offsets = Offsets()
        self._groups = Groups(self._found)
        self._consumption = Consumption(self._found, offsets)
        self._coordination = Coordination(self._found, offsets)
        self._first_ns: int | None = None
        self._last_ns = 0
        self._hears = self._listeners()

    def _listeners(self) -> dict[Any, tuple[Hears, ...]]:
        """Whom each kind of event concerns."""
        heard: dict[Any, tuple[Hears, ...]] = {
            e.Missing: (self._missing,),
            e.Resumed: (self._resumed,),
        }
        for part in (self._groups, self._coordination, self._consumption):
            for kind, name in part.HEARS.items():
                heard[kind] = (*heard.get(kind, ()), getattr(part, name))
        return heard

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hears"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hears = self._listeners()

    def feed(self, event: e.Event) -> None:
        """Take the next event."""
        if self._first_ns is None:
            self._first_ns = event.time_ns
        if event.time_ns > self._last_ns:
            self._last_ns = event.time_ns
        for hears in self._hears.get(type(event), ()):
            hears(event)

    def _missing(self, event: e.Missing) -> None:
        if event.lasting:
            self.lose(event.why, event.role)
        else:
            self.unsure(event.why, event.role)

    def _resumed(self, event: e.Resumed) -> None:
        self.find(event.why, event.role)

    def lose(self, why: str, role: str) -> None:
        """From here on, something is missing."""
        self._found.blind(why, TOLD_BY[role])
        self.unsure(why, role)

    def find(self, why: str, role: str) -> None:
        """From here on, it is missing no more."""
        self._found.sees(TOLD_BY[role])
        self.unsure(why, role)

    def unsure(self, reason: str, role: str = "") -> None:
        """
        Something is missing at this point, or comes too late.

        What is open now is marked as not known, what follows is only judged by what is seen from
        here on, and no sentence is said to hold (of which those of this role tell).
        """
        self._found.doubt(reason, TOLD_BY[role])
        for part in (self._groups, self._coordination, self._consumption):
            part.unsure()
        if "COMPLETE" in TOLD_BY[role]:
            self._groups.miss_topics()

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        return self._found.drain()

    def close(self) -> Rows:
        """The last rows: what is open, the figures of the whole group, the verdicts."""
        self._groups.close()
        self._consumption.close(self._last_ns)
        self._figures()
        rows = self._found.drain()
        rows["verdicts"] = self._found.verdicts()
        return rows

    def _figures(self) -> None:
        figure, groups, consumption = self._found.figure, self._groups, self._consumption
        lived_ns = self._last_ns - (self._first_ns or 0)
        churn = groups.came + groups.went
        figure("rebalances", groups.rebalances)
        figure("rebalances_failed", groups.failures)
        figure("members_joined", groups.came)
        figure("members_left", groups.went)
        if lived_ns:
            figure("churn", churn * 60 * SECOND / lived_ns)
        figure("zombies", consumption.zombies)
        figure("commits_refused", self._coordination.refused)
        figure("commit_regressions", self._coordination.back)
        figure("redelivered_total", consumption.again)
        figure("partition_downtime_total_s", consumption.downtime_ns / SECOND)
