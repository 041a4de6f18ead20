"""
Traces of any protocol for the audit: lines of version 2, replayed by a trace map.

A map says what lines are to the spec, and nothing of generations, owners or offsets: so only the
replay gives a verdict, and of the contract no sentence is promised. A protocol may have a judge,
who fills the contract's fields from the lines (`JudgedAuditor`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from msgspec.structs import replace as replaced

from herdproof.conformance.traces.clocks import Early, Setting
from herdproof.conformance.traces.line import Formats
from herdproof.conformance.traces.mapping import TraceMap
from herdproof.conformance.traces.ordering import Ordered, ordered
from herdproof.conformance.traces.replay import Watches, conform_lines, may_be_cut
from herdproof.pipeline.audit.auditor import Auditor, Replayed
from herdproof.pipeline.audit.lines import Reader
from herdproof.pipeline.audit.replayed import replayed
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.judging import Judge, Judging
from herdproof.pipeline.spark.tables import Rows
from herdspec.language.surface import Sort


class ReplayedAlone:
    """Judges nothing: its lines say nothing of generations, owners or offsets."""

    def sure(self, lines: Sequence[Any], come: int) -> int:
        """All of them."""
        del lines
        return come

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """Whatever comes."""

    def take(self, line: Any) -> bool:
        """The next line."""
        del line
        return False

    def lose(self, gap: Gap) -> None:
        """Lines are missing."""

    def find(self, gap: Gap) -> None:
        """Take numbers off those that are missing."""

    def knows(self, gap: Gap) -> None:
        """Others tell of them."""

    def doubt(self, why: str) -> None:
        """Their order is not known."""

    def leave(self, line: Any) -> None:
        """A process has ended."""

    def drain(self) -> Rows:
        """No rows."""
        return {}

    def close(self) -> Rows:
        """No rows, and no verdict but that of the replay."""
        return {"verdicts": []}


class MapAuditor(Auditor):
    """Auditor of traces that a map explains."""

    grouped = False
    """A run is judged as one: its replay looks at each group by itself."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Of replays; see `conform_lines`."""
    formats: ClassVar[Formats | None] = None
    """Of its lines; None: those of the map."""

    def __init__(self, name: str, table: TraceMap, failing: Collection[str] = ()) -> None:
        self._name = name
        self._table = replace(table, protocol=name)
        self._failing = frozenset(failing)
        self._read = Reader(self.formats or table.formats)

    @property
    def name(self) -> str:
        """The protocol's name in lines."""
        return self._name

    @property
    def sentences(self) -> Mapping[str, str]:
        """Of the contract it promises nothing: of groups and offsets its lines do not speak."""
        return {}

    @property
    def undecided(self) -> Mapping[str, str]:
        """Nothing."""
        return {}

    def read(self, text: str, place: str) -> Any:
        """A line of a trace, or `Malformed`."""
        return self._read(text, place)

    def ordered(self, lines: Sequence[Any]) -> Ordered[Any]:
        """A group's lines in the order in which things happened, those twice, those missing."""
        return ordered(lines, self._table.links(lines))

    def settings(self, found: Ordered[Any]) -> Sequence[Setting] | None:
        """Its judge asks for no more than causes say, or by itself how clocks stand."""
        del found
        return None

    def early(self) -> Early | None:
        """Whoever follows its lines goes by their times."""
        return None

    def shifted(self, line: Any, ahead_ns: int) -> Any:
        """The line of a clock that was ahead, by the one that all are compared with."""
        return replaced(line, time_ns=line.time_ns - ahead_ns)

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a group's lines: of the contract such a protocol promises nothing."""
        del run, group
        return ReplayedAlone()

    def cut(self, lines: Sequence[Any], at: int) -> str:
        """Whose lines may be missing where one of a group's differs; empty if nobody's."""
        return may_be_cut(lines, at, self._table)

    def replay(self, lines: Sequence[Any], watches: Watches | None = None) -> Replayed:
        """
        A group's lines, in order, replayed in the spec; who `watches` is told of each step.

        Where a line tells of one that is in no trace, those before are replayed, and may differ;
        more is unknown.
        """
        untraced = () if self._table.untraced is None else self._table.untraced(lines)
        missing = min(untraced, key=lambda missing: missing.upto, default=None)
        whole = lines if missing is None else lines[: missing.upto]
        table = self._table.chosen(whole)
        outcome = conform_lines(
            whole, table, failing=self._failing, watches=watches, **self.options
        )
        at = outcome.matched
        time_ns = lines[at].time_ns if at < len(lines) else None
        found = replayed(outcome, table.specification, time_ns)
        if missing is None or found.verdict == "differs":
            return found
        return replace(found, verdict="unknown", told=missing.why, place="", time_ns=None)


class JudgedAuditor(MapAuditor):
    """Knows of a protocol's traces what their map explains, and how a judge rules on them."""

    options: ClassVar[Mapping[str, Any]] = {"invariants": False, "whole": False}
    """
    A state that was replayed in a proved spec breaks no promise. Missing lines are known before
    the replay, in which other groups' lines would look like gaps.
    """
    judge: ClassVar[Callable[[], Judge]]
    """Makes the judge of a group, or of a run without groups."""
    promised: ClassVar[Mapping[str, str]]
    """The sentences of the contract, by name."""
    untold: ClassVar[Mapping[str, str]] = {}
    """The promises that no trace can decide, each with the reason."""

    @property
    def sentences(self) -> Mapping[str, str]:
        """The sentences of the contract, by name."""
        return self.promised

    @property
    def undecided(self) -> Mapping[str, str]:
        """The promises of the spec that no trace can decide, each with the reason."""
        return self.untold

    def judging(self, run: str, group: str) -> Judging:
        """The rulings on one group's lines, by the protocol's judge."""
        return GroupJudging(run, group, self.name, type(self).judge(), self.untold)


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
