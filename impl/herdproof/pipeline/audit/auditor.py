"""Interface of a protocol for the pipeline; `protocols.py` has those that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from herdproof.conformance.traces.clocks import Early, Setting
from herdproof.conformance.traces.ordering import Ordered
from herdproof.pipeline.judging.gaps import Filled, Gap
from herdproof.pipeline.judging.judging import Judging


@dataclass(frozen=True)
class Replayed:
    """The result of a group's replay in the spec."""

    verdict: str
    """conforms, differs or unknown; or not observable, where lines are of no steps."""
    told: str = ""
    """Why it differs, or is unknown, or not observable."""
    place: str = ""
    """The line that differs."""
    time_ns: int | None = None
    """When that was."""
    lines: int = 0
    """Number of lines that were explained."""
    taken: Mapping[str, int | None] = field(default_factory=dict)
    """By action of the spec, how often; None: it was taken, but nobody counts how often."""


class Auditor(Protocol):
    """
    Interface of a protocol for the pipeline; lines have what `ordering.Numbered` names.

    Whoever writes one inherits what follows from the rest.
    """

    @property
    def name(self) -> str:
        """The protocol's name in lines."""

    @property
    def grouped(self) -> bool:
        """True if its lines name groups; if not, a run is judged as one, whose name is empty."""

    @property
    def sentences(self) -> Mapping[str, str]:
        """The properties that traces are judged by: a sentence of each, by name."""

    @property
    def undecided(self) -> Mapping[str, str]:
        """Of these, why no trace can decide it."""

    def read(self, text: str, place: str) -> Any:
        """A line of a trace, or `Malformed`."""

    def ordered(self, lines: Sequence[Any]) -> Ordered[Any]:
        """A group's lines in the order in which things happened, those twice, those missing."""

    def order(self, lines: Sequence[Any]) -> list[Any]:
        """A group's lines in the order in which things happened, each once."""
        return self.ordered(lines).lines

    def settings(self, found: Ordered[Any]) -> Sequence[Setting] | None:
        """
        Settings of the nodes' clocks that a group's lines allow; None if times can be trusted.

        An empty sequence if times say nothing of the order of different nodes' lines.
        """

    def early(self) -> Early | None:
        """Who notices as lines come that their times contradict each other; None: nobody."""

    def shifted(self, line: Any, ahead_ns: int) -> Any:
        """A line of a clock that was so far ahead, with the times of one that was not."""

    def filled(self, lines: Sequence[Any], gaps: Sequence[Gap], last: set[int]) -> Filled:
        """A group's ordered lines, and in their places those missing ones of which others tell."""
        return Filled(lines, gaps, last)

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a group's lines, and makes its tables."""

    def cut(self, lines: Sequence[Any], at: int) -> str:
        """Whose lines may be missing where one of a group's differs; empty if nobody's."""

    def replay(self, lines: Sequence[Any]) -> Replayed:
        """A group's lines, in order, replayed in the spec."""
