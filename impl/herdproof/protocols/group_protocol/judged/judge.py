"""
One group's lines of coordinators, held against the contract's own properties; or Kafka's answers.

What the contract asks of members (who consumes what, from where, what was finished before it was
committed) no coordinator sees: that is not observable here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.plain import PlainJudge
from herdproof.protocols.group_protocol.judged import answers
from herdproof.protocols.group_protocol.judged.answers import AnswerFields
from herdproof.protocols.group_protocol.judged.fields import CoordinatorFields
from herdproof.protocols.group_protocol.judged.stored import INITIAL, LOST_WITH_LINES
from herdspec.check.observation.clauses import needs
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.language.specification import Promise
from herdspec.protocols.contract.properties import CONTRACT, PROMISES

NAMES = {p.name for p in PROMISES}
PROMISED = [p for p in CONTRACT.properties if p.name in NAMES or p.goal is not None]
SENTENCES = {p.name: p.sentence for p in PROMISED}
"""Sentences that are promised, by the property's name."""
IN_THE_END = "a trace cannot show what is left undone for ever"
ONLY_TAKEN = "what_was_taken_is_stored_at_the_handover"
"""Of a commit there is one answer, once it is stored."""


def seen_by(initial: Mapping[str, Any], *, but: str = "") -> list[Promise]:
    """The promises that speak of fields alone that a source fills."""
    judged = (p for p in PROMISED if p.expectation in JUDGED and p.name != but)
    return [p for p in judged if needs(p) <= initial.keys()]


def unseen_by(initial: Mapping[str, Any], whose: str, *, but: str = "") -> dict[str, str]:
    """Of all other promises, why a source cannot decide them."""
    seen = {promise.name for promise in seen_by(initial, but=but)}
    return {
        p.name: IN_THE_END if p.expectation not in JUDGED
        else f"{', '.join(sorted(needs(p) - initial.keys())) or 'what is only taken'}: in {whose}"
        for p in PROMISED if p.name not in seen
    }  # fmt: skip


WATCHES = watches_of(CONTRACT, INITIAL, seen_by(INITIAL))
UNDECIDED = unseen_by(INITIAL, "no line of a coordinator")
"""Reasons why the other promises stay undecided: coordinators do not see them, or no trace can."""
ANSWERS_TELL = watches_of(CONTRACT, answers.INITIAL, seen_by(answers.INITIAL, but=ONLY_TAKEN))
UNDECIDED_BY_ANSWERS = unseen_by(answers.INITIAL, "no answer", but=ONLY_TAKEN)


class GroupJudge(PlainJudge):
    """One group's lines, taken one after the other in their order."""

    def __init__(self) -> None:
        super().__init__(WATCHES)
        self._fields = CoordinatorFields(self.seen)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.seen.bind(WATCHES)

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""
        super().listen(tells)
        self._fields.tells = tells

    def take(self, line: TraceLine) -> bool:
        """The next line; whether it broke something."""
        self._fields.take(line)
        return self.seen.step()

    def lose(self, gap: Gap) -> None:
        """Forget what these lines could have told: nobody knows it from now on."""
        self.seen.gap(gap.lines, INITIAL)
        for field in LOST_WITH_LINES:
            self.seen.blind(field)
        self.seen.add("Broker", gap.node)
        self.seen.blind("term", gap.node)
        self._fields.lose(gap.node)

    def find(self, gap: Gap) -> None:
        """Trust what is told from now on."""
        for field in LOST_WITH_LINES:
            self.seen.sees(field)
        self.seen.sees("term", gap.node)
        self._fields.lose(gap.node)

    def leave(self, line: TraceLine) -> None:
        """That was the last line of a process, as far as is known."""
        self._fields.leave(line)


class AnswersJudge(PlainJudge):
    """Kafka's answers about one group, taken one after the other in their order."""

    def __init__(self) -> None:
        super().__init__(ANSWERS_TELL)
        self._fields = AnswerFields(self.seen)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.seen.bind(ANSWERS_TELL)

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""
        super().listen(tells)
        self._fields.tells = tells

    def foresee(self, lines: Sequence[TraceLine], whole: int) -> None:
        """Of a generation each answer tells a part: those that come are put together."""
        del whole
        self._fields.foresee(lines)

    def take(self, line: TraceLine) -> bool:
        """The next answer; whether it broke something."""
        was_blind = self._fields.is_blind
        self._fields.take(line)
        if self._fields.is_blind and not was_blind:
            self._blind()
        return self.seen.step()

    def _blind(self) -> None:
        for field in answers.LOST_WITH_LINES:
            self.seen.blind(field)

    def lose(self, gap: Gap) -> None:
        """Forget what these answers could have told: nobody knows it from now on."""
        self.seen.gap(gap.lines, answers.INITIAL)
        self._blind()

    def find(self, gap: Gap) -> None:
        """Trust what is told from now on."""
        del gap
        for field in answers.LOST_WITH_LINES:
            self.seen.sees(field)
