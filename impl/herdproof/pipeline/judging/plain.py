"""A judge that takes lines as they come: all that most judges do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap
from herdspec.check.observation.observed import Judgement, Observed, Violation
from herdspec.check.observation.watches import Watches


class PlainJudge:
    """Fills the fields that are watched; who inherits says with what (`take`)."""

    def __init__(self, watches: Watches) -> None:
        self.seen = Observed(watches)

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes."""
        self.seen.hears = tells.hears

    def broken(self) -> list[Violation]:
        """The violations since this was asked last."""
        return self.seen.broken()

    def judgements(self) -> list[Judgement]:
        """The ruling on each promise."""
        return self.seen.judgements()

    def sure(self, lines: Sequence[Any], come: int) -> int:
        """All of them: nothing that is told depends on lines that come."""
        del lines
        return come

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """Ignore the lines that come: nothing that is told depends on them."""

    def lose(self, gap: Gap) -> None:
        """Do nothing: what these lines would have told is not known."""

    def find(self, gap: Gap) -> None:
        """Do nothing: what is told from now on is so."""

    def knows(self, gap: Gap) -> None:
        """Nobody tells of another's lines."""

    def leave(self, line: Any) -> None:
        """Nothing is violated that who is not heard any more could mend."""

    def close(self, time_ns: int) -> None:
        """Nothing more comes."""
