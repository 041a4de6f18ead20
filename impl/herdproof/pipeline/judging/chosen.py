"""Lines of one group that one of several may judge: who it is, the lines themselves tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.judging import Judging
from herdproof.pipeline.spark.tables import Rows


class ChosenJudging(ABC):
    """Hands lines on to whoever judges those of their role; who inherits chooses (`judges`)."""

    @abstractmethod
    def judges(self, role: str) -> Judging | None:
        """Who judges lines of a role; None: nobody does, or not yet."""

    def sure(self, lines: Sequence[Any], come: int) -> int:
        """The number of lines, of the first `come` ones, that need not wait for others."""
        return come if self.chosen is None else self.chosen.sure(lines, come)

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """These come next, as far as is known; before the first `whole` of them none is missing."""
        if self.chosen is not None:
            self.chosen.foresee(lines, whole)

    def take(self, line: Any) -> bool:
        """The next line; whether something may be broken."""
        judging = self.judges(line.role)
        return judging is not None and judging.take(line)

    def lose(self, gap: Gap) -> None:
        """From here on, until they are found, these lines may have been."""
        if (judging := self.judges(gap.role)) is not None:
            judging.lose(gap)

    def find(self, gap: Gap) -> None:
        """From here on, they can have been no more."""
        if (judging := self.judges(gap.role)) is not None:
            judging.find(gap)

    def knows(self, gap: Gap) -> None:
        """These lines are missing, and others tell what they said."""
        if (judging := self.judges(gap.role)) is not None:
            judging.knows(gap)

    def doubt(self, why: str) -> None:
        """The order of lines of different nodes is not known from here on."""
        if self.chosen is not None:
            self.chosen.doubt(why)

    def leave(self, line: Any) -> None:
        """That was the last line of a process, as far as is known."""
        if (judging := self.judges(line.role)) is not None:
            judging.leave(line)

    @property
    @abstractmethod
    def chosen(self) -> Judging | None:
        """Who was chosen, if anybody was."""

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        return self.chosen.drain() if self.chosen is not None else {}

    def close(self) -> Rows:
        """The last rows: what is open, the figures of the whole group, the verdicts."""
        last = self.chosen if self.chosen is not None else self.judges("")
        return last.close() if last is not None else {"verdicts": []}
