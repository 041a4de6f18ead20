"""Lines that are told as events, and judged by a history of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from herdproof.pipeline.judging.events import Event
from herdproof.pipeline.judging.findings import TOLD_BY
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.history import History
from herdproof.pipeline.spark.tables import Rows


class Teller(Protocol):
    """Tells lines as events, one after the other; keeps what is live, and can be pickled."""

    def tell(self, line: Any) -> list[Event]:
        """What a line, the next one in order, says that happened."""


class ToldJudging:
    """Judges what a teller makes of lines."""

    def __init__(self, history: History, teller: Teller) -> None:
        self._history = history
        self._teller = teller
        self.drain = history.drain

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """Nothing depends on what comes."""

    def take(self, line: Any) -> None:
        """The next line."""
        for event in self._teller.tell(line):
            self._history.feed(event)

    def lose(self, gap: Gap) -> None:
        """From here on, until they are found, these lines may have been."""
        self._history.lose(gap.why, _role(gap))

    def find(self, gap: Gap) -> None:
        """From here on, they can have been no more."""
        self._history.find(gap.why, _role(gap))

    def leave(self, line: Any) -> None:
        """What was told is taken for true until something else is."""

    def close(self) -> Rows:
        """The last rows."""
        return self._history.close()


def _role(gap: Gap) -> str:
    return gap.role if gap.role in TOLD_BY else ""
