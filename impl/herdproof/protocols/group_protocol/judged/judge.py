"""
One group's lines, held against the contract's own properties, and two of the protocol's own.

What the contract asks of members (who consumes what, from where, what was finished before it was
committed), and who leads a generation, no coordinator sees: that is not observable, unless clients
tell of it. Kafka's answers are judged by what they tell of the contract's fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from herdproof.conformance.traces.line import TraceLine
from herdproof.pipeline.judging.changes import Changes
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.plain import PlainJudge
from herdproof.protocols.group_protocol.judged import answers, clients, generations
from herdproof.protocols.group_protocol.judged.answers import AnswerFields
from herdproof.protocols.group_protocol.judged.members import MemberFields
from herdproof.protocols.group_protocol.judged.stored import INITIAL, LOST_WITH_LINES
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdspec.check.observation.clauses import needs
from herdspec.check.observation.observed import Judgement, Observed, Ruling, Violation
from herdspec.check.observation.watches import JUDGED, watches_of
from herdspec.language.specification import DeclaredProperty
from herdspec.protocols.contract.properties import CONTRACT, PROMISES
from herdspec.protocols.group_protocol.properties import HELD

NAMES = {p.name for p in PROMISES}
PROMISED = [p for p in CONTRACT.properties if p.name in NAMES or p.goal is not None]
SENTENCES = {p.name: p.sentence for p in PROMISED}
"""Sentences that are promised, by the property's name."""
IN_THE_END = "a trace cannot show what is left undone for ever"
ONLY_TAKEN = "what_was_taken_is_stored_at_the_handover"
"""Of a commit there is one answer, once it is stored."""


def seen_by(initial: Mapping[str, Any], *, but: str = "") -> list[DeclaredProperty]:
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
OF_CLIENTS = [p for p in seen_by(clients.INITIAL) if p not in WATCHES.promises]
CLIENTS_TELL = watches_of(CONTRACT, clients.INITIAL, OF_CLIENTS)
ITS_OWN = ("one_leader", "what_is_handed_out_is_stored")
"""Promises of the protocol beyond the contract's."""
OF_GENERATIONS = [p for p in HELD.properties if p.name in ITS_OWN]
GENERATIONS_TELL = watches_of(HELD, generations.INITIAL, OF_GENERATIONS)
SENTENCES |= {p.name: p.sentence for p in OF_GENERATIONS}
NO_CLIENT = "in no line of a coordinator, and no client tells anything"
UNDECIDED = {
    name: why for name, why in unseen_by(INITIAL, "no line of a coordinator").items()
    if name not in CLIENTS_TELL.needs
}  # fmt: skip
"""Reasons why the other promises stay undecided: nobody sees them, or no trace can."""
ANSWERS_TELL = watches_of(CONTRACT, answers.INITIAL, seen_by(answers.INITIAL, but=ONLY_TAKEN))
UNDECIDED_BY_ANSWERS = {
    **unseen_by(answers.INITIAL, "no answer", but=ONLY_TAKEN),
    **dict.fromkeys(ITS_OWN, "who is told of which generation: in no answer"),
}


class GroupJudge(PlainJudge):
    """One group's lines, taken one after the other in their order."""

    def __init__(self, *, is_late: bool = False) -> None:
        """Begin; it `is_late` if clients have told something before."""
        super().__init__(WATCHES)
        self._fields = MemberFields(self.seen, CLIENTS_TELL, GENERATIONS_TELL)
        if is_late:
            self._fields.come_late()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for seen, watches in zip(self._all, (WATCHES, CLIENTS_TELL, GENERATIONS_TELL), strict=True):
            seen.bind(watches)

    @property
    def _all(self) -> tuple[Observed, ...]:
        return self.seen, self._fields.consuming.seen, self._fields.generations.seen

    def listen(self, tells: Changes) -> None:
        """From now on, tables are told what changes, and what the contract has no field for."""
        super().listen(tells)
        self._fields.tells = tells

    def broken(self) -> list[Violation]:
        """The violations since this was asked last."""
        return [violation for seen in self._all for violation in seen.broken()]

    def judgements(self) -> list[Judgement]:
        """The ruling on each promise; where no client tells anything, some are not observable."""
        found = [judgement for seen in self._all for judgement in seen.judgements()]
        if self._fields.has_clients:
            return found
        return [
            Judgement(promise=j.promise, ruling=Ruling.NOT_OBSERVABLE, why=NO_CLIENT)
            if j.promise.name in (*CLIENTS_TELL.needs, "one_leader") else j
            for j in found
        ]  # fmt: skip

    def foresee(self, lines: Sequence[TraceLine], whole: int) -> None:
        """If a client tells something, what members do is known from the first line on."""
        del whole
        if any(line.role == CONSUMER for line in lines):
            self._fields.expect_clients()

    def take(self, line: TraceLine) -> bool:
        """The next line; whether it broke something."""
        if line.role == CONSUMER:
            return self._fields.hear(line)
        self._fields.take(line)
        broken = self.seen.step()
        return self._fields.follow(line) or broken

    def lose(self, gap: Gap) -> None:
        """Forget what these lines could have told: nobody knows it from now on."""
        self._fields.lose_lines(gap)
        if gap.role != CONSUMER:
            self.seen.gap(gap.lines, INITIAL)
            for field in LOST_WITH_LINES:
                self.seen.blind(field)
            self.seen.add("Broker", gap.node)
            self.seen.blind("term", gap.node)

    def find(self, gap: Gap) -> None:
        """Trust what is told from now on."""
        if gap.role != CONSUMER:
            for field in LOST_WITH_LINES:
                self.seen.sees(field)
            self.seen.sees("term", gap.node)
        self._fields.find_lines(gap)

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
