"""
A group's lines, judged one after the other: what a protocol says of them, held against a contract.

`Judge` is a protocol's own: it fills the fields of a spec with what lines tell. Whoever has lines
goes through them with one (`go_through`), and so does who follows lines that keep coming.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Filled, Gap
from herdproof.pipeline.spark.tables import Rows
from herdspec.check.observation.observed import Observed, Ruling


class Takes(Protocol):
    """Takes a group's lines, in their order, and is told where some are missing."""

    def sure(self, lines: Sequence[Any], come: int) -> int:
        """
        The number of lines that can be taken, of the first `come` ones, before which all have come.

        The others wait: they may be taken otherwise once all have come that belong with the rest.
        """

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """These come next, as far as is known; before the first `whole` of them none is missing."""

    def take(self, line: Any) -> bool:
        """The next line; whether something may be broken."""

    def lose(self, gap: Gap) -> None:
        """From here on, until they are found, these lines may have been."""

    def find(self, gap: Gap) -> None:
        """From here on, they can have been no more."""

    def knows(self, gap: Gap) -> None:
        """These lines are missing, and others tell what they said: that is among what comes."""

    def leave(self, line: Any) -> None:
        """That was the last line of a process, as far as is known: it has ended, or is cut."""


class Stated(Protocol):
    """A promise, of whatever spec, or of none."""

    @property
    def name(self) -> str:
        """Under which it is told."""

    @property
    def sentence(self) -> str:
        """The promise, in a sentence."""


class StatedViolation(Protocol):
    """A promise that was broken, as `Violation` tells it."""

    @property
    def promise(self) -> Stated:
        """Which."""

    @property
    def of(self) -> Mapping[str, Any]:
        """The elements for which it was."""


class Ruled(Protocol):
    """The ruling on a promise, as `Judgement` tells it."""

    @property
    def promise(self) -> Stated:
        """Which."""

    @property
    def ruling(self) -> Ruling:
        """Its verdict."""

    @property
    def held(self) -> int:
        """The number of its instances that held."""

    @property
    def open(self) -> int:
        """The number of its instances that stayed open."""

    @property
    def why(self) -> str:
        """Why it is that, where somebody may ask."""


class Judge(Takes, Protocol):
    """Fills the fields of a contract with what lines tell; can be pickled."""

    seen: Observed

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""

    def judgements(self) -> Sequence[Ruled]:
        """The ruling on each promise."""

    def broken(self) -> Sequence[StatedViolation]:
        """The violations since this was asked last."""

    def close(self, time_ns: int) -> None:
        """Nothing more comes; the last line was told then."""


class Judging(Takes, Protocol):
    """Judges one group's lines; keeps what is live, and can be pickled."""

    def doubt(self, why: str) -> None:
        """From here on, lines or their order are not to be relied on: it decides nothing."""

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""

    def close(self) -> Rows:
        """The last rows: what is open, the figures of the whole group, the verdicts."""


T = TypeVar("T", bound=Takes)


def go_through(judge: T, filled: Filled, after: Callable[[Any], None] | None = None) -> T:
    """
    All lines of a group in their order, of which some are missing.

    `after` is told of each line once taken.
    """
    lines, gaps, doubted = filled.own, filled.gaps, filled.doubted
    for gap in filled.closed:
        judge.knows(gap)
    end = len(lines) if doubted is None else doubted.at
    judge.foresee(lines, min([end, *(gap.begin for gap in gaps)]))
    at = _by_index(gaps, len(lines))
    for index, line in enumerate(lines):
        if doubted is not None and index == doubted.at:
            cast("Judging", judge).doubt(doubted.why)  # judges alone are given no such lines
        if index in at:
            for passes, gap in at[index]:
                passes(judge, gap)
        judge.take(line)
        if after is not None:
            after(line)
        if index in filled.last:
            judge.leave(line)
    for passes, gap in at.get(len(lines), ()):
        passes(judge, gap)
    return judge


def _by_index(gaps: Sequence[Gap], end: int) -> dict[int, list[tuple[Any, Gap]]]:
    """The gaps that begin and end before each line: those that end come first."""
    at: dict[int, list[tuple[Any, Gap]]] = defaultdict(list)
    wide = [gap for gap in gaps if gap.begin < gap.end]
    for gap in wide:
        at[min(gap.end, end)].append((_finds, gap))
    for gap in wide:
        at[gap.begin].append((_loses, gap))
    for gap in gaps:
        if gap.begin >= gap.end:
            at[min(gap.begin, end)] += [(_loses, gap), (_finds, gap)]
    return at


def _loses(judge: Takes, gap: Gap) -> None:
    judge.lose(gap)


def _finds(judge: Takes, gap: Gap) -> None:
    judge.find(gap)
