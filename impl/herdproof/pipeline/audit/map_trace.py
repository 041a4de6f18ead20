"""
Traces of any protocol for the audit: lines of version 2, replayed by a trace map.

A map says what lines are to the spec, and nothing of generations, owners or offsets: so only the
replay gives a verdict. Of the contract such a protocol promises no sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from herdproof.conformance.traces.line import START, TraceLine
from herdproof.conformance.traces.mapping import TraceMap
from herdproof.conformance.traces.ordering import Causes, Ordered, ordered
from herdproof.conformance.traces.replay import conform_lines
from herdproof.pipeline.audit.auditor import Auditor, Replayed, Teller
from herdproof.pipeline.audit.lines import Reader
from herdproof.pipeline.audit.replayed import replayed
from herdproof.pipeline.judging.events import Event, ProcessStarted
from herdspec.language.surface import Sort


class StartsAlone:
    """Tells of lines that processes have started, and nothing else."""

    def tell(self, line: TraceLine) -> list[Event]:
        """What a line, the next one in order, says that happened."""
        if line.action != START:
            return []
        return [
            ProcessStarted(time_ns=line.time_ns, place=line.place, node=line.node, role=line.role)
        ]


class MapAuditor(Auditor):
    """What the pipeline knows of traces that a map explains."""

    grouped = False
    """A run is judged as one: its replay looks at each group by itself."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Of replays; see `conform_lines`."""

    def __init__(self, name: str, table: TraceMap, failing: Collection[str] = ()) -> None:
        self._name = name
        self._table = replace(table, protocol=name)
        self._failing = frozenset(failing)
        self._read = Reader(table.formats)

    @property
    def name(self) -> str:
        """The protocol's name in lines."""
        return self._name

    @property
    def observable(self) -> Mapping[str, str]:
        """Of consumer groups it promises nothing."""
        return {}

    def read(self, text: str, place: str) -> Any:
        """A line of a trace, or `Malformed`."""
        return self._read(text, place)

    def ordered(self, lines: Sequence[Any]) -> Ordered[Any]:
        """A group's lines in the order in which things happened, those twice, those missing."""
        return ordered(lines, Causes(lines))

    def teller(self, run: str, group: str) -> Teller:
        """Who tells a group's lines."""
        del run, group
        return StartsAlone()

    def replay(self, lines: Sequence[Any]) -> Replayed:
        """A group's lines, in order, replayed in the spec."""
        outcome = conform_lines(lines, self._table, failing=self._failing, **self.options)
        at = outcome.matched
        time_ns = lines[at].time_ns if at < len(lines) else None
        return replayed(outcome, self._table.specification, time_ns)


def told(value: Any) -> Any:
    """A value of the spec's as a line has it: an element by the name that stories give it."""
    if isinstance(value, Sort):
        return repr(value)
    if isinstance(value, Mapping):
        return {told(key): told(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return {told(inner) for inner in value}
    if isinstance(value, list | tuple):
        return [told(inner) for inner in value]
    return value
