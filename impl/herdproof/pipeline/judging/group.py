"""
One group of one run: lines in, in their order; rows of tables, figures and verdicts out.

It keeps what is live, not the past: rows that are finished are drained at any time, and it can be
pickled between two lines. What is drained on the way and what `close` gives are together the same
rows, however often it is drained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.judging import Judge, Ruled, StatedViolation
from herdproof.pipeline.spark.tables import Row, Rows
from herdspec.check.observation.observed import Ruling

NAMED = 3
"""The number of gaps that are named where something is unknown for them."""


class GroupJudging:
    """Judges a group by its protocol's judge; `undecided` says of promises why no trace can."""

    def __init__(
        self, run: str, group: str, protocol: str, judge: Judge, undecided: Mapping[str, str]
    ) -> None:
        self._who = {"run": run, "group": group, "protocol": protocol}
        self._judge = judge
        self._undecided = undecided
        self._changes = Changes(run, group, judge.seen)
        judge.listen(self._changes)
        self._violated = Counter[str]()
        self._gaps: list[str] = []
        """The first of those that are named, and how many there are."""
        self._missing = 0
        self._doubt = ""
        """Why lines, or their order, are not to be relied on."""

    # ── Lines ───────────────────────────────────────────────────────────────────────────────

    def sure(self, lines: Sequence[Any], come: int) -> int:
        """The number of lines, of the first `come` ones, that need not wait for others."""
        return self._judge.sure(lines, come)

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """These come next, as far as is known; before the first `whole` of them none is missing."""
        self._judge.foresee(lines, whole)

    def take(self, line: Any) -> bool:
        """The next line; whether something is broken by it."""
        self._changes.at(line)
        if not self._judge.take(line):
            return False
        for violation in {
            found.promise.name: found for found in self._judge.broken()[::-1]
        }.values():
            self._violate(line, violation)
        return True

    def lose(self, gap: Gap) -> None:
        """From here on, until they are found, these lines may have been."""
        self._missing += 1
        if len(self._gaps) < NAMED:
            self._gaps.append(gap.why)
        self._judge.lose(gap)
        self._changes.lose()

    def find(self, gap: Gap) -> None:
        """From here on, they can have been no more."""
        self._judge.find(gap)

    def knows(self, gap: Gap) -> None:
        """These lines are missing, and others tell what they said."""
        self._judge.knows(gap)

    def doubt(self, why: str) -> None:
        """From here on, lines or their order are not to be relied on: it decides nothing."""
        self._doubt = self._doubt or why

    def leave(self, line: Any) -> None:
        """That was the last line of a process, as far as is known."""
        self._judge.leave(line)

    # ── Rows ────────────────────────────────────────────────────────────────────────────────

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        return self._changes.drain()

    def close(self) -> Rows:
        """The last rows: what is open, the figures of the whole group, the verdicts."""
        self._judge.close(self._changes.last_ns)
        self._changes.close()
        return {**self._changes.drain(), "verdicts": [*self._verdicts()]}

    def _violate(self, line: Any, violation: StatedViolation) -> None:
        """A promise is broken, as a line shows."""
        promise = violation.promise
        if self._doubt:
            return
        self._violated[promise.name] += 1
        told, story = self._changes.stories.of(line, violation.of)
        self._changes.row(
            "violations", property=promise.name, sentence=promise.sentence, time_ns=line.time_ns,
            place=line.place, told=told, story=story,
        )  # fmt: skip

    def _verdicts(self) -> Iterator[Row]:
        for found in self._judge.judgements():
            name, ruling = found.promise.name, found.ruling
            is_decided = ruling in (Ruling.HOLDS, Ruling.VIOLATED)
            is_doubted = bool(self._doubt) and is_decided and not self._violated[name]
            yield {
                **self._who, "property": name,
                "verdict": (Ruling.UNKNOWN if is_doubted else ruling).value,
                "why": self._doubt if is_doubted else self._why(found),
                "checked": found.held + found.open,
            }  # fmt: skip
        for name, why in self._undecided.items():
            yield {**self._who, "property": name, "verdict": Ruling.NOT_OBSERVABLE.value,
                   "why": why, "checked": 0}  # fmt: skip

    def _why(self, found: Ruled) -> str | None:
        if found.ruling is Ruling.VIOLATED:
            count = self._violated[found.promise.name]
            return "once" if count == 1 else f"{count} times"
        if found.ruling is not Ruling.UNKNOWN or not self._gaps:
            return found.why or None
        more = self._missing - len(self._gaps)
        named = [*self._gaps, *([f"{more} more"] if more else [])]
        return f"{found.why}; missing: {'; '.join(named)}"
