"""
Traces of group coordinators, and of what Kafka's own answers, for the audit.

Format: `docs/group_protocol_trace.md`. What lines say of the contract's fields is in `judged/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herdproof.conformance.traces.line import SCHEMA
from herdproof.conformance.traces.replay import Watches
from herdproof.pipeline.audit.auditor import Replayed
from herdproof.pipeline.audit.map_trace import JudgedAuditor
from herdproof.pipeline.judging.chosen import ChosenJudging
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.judging import Judging
from herdproof.protocols.group_protocol.judged.judge import (
    SENTENCES,
    UNDECIDED,
    UNDECIDED_BY_ANSWERS,
    AnswersJudge,
    GroupJudge,
)
from herdproof.protocols.group_protocol.traces.lines import GroupTraceLine
from herdproof.protocols.group_protocol.tracing import CONSUMER, KAFKA, UNSEEN_STEPS


class GroupLine(GroupTraceLine, kw_only=True, gc=False, omit_defaults=True):
    """A line of a coordinator, which numbers them through all its groups."""

    @property
    def shared(self) -> bool:
        """Its process's numbers run through the lines of several groups."""
        return True


class GroupsAuditor(JudgedAuditor):
    """Audits group coordinators' traces in the pipeline."""

    grouped = True
    formats = {(SCHEMA, ""): GroupLine}  # noqa: RUF012
    promised = SENTENCES
    untold = UNDECIDED

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a group's lines: by the contract's own properties."""
        return WhoseLines(run, group, self.name)

    def replay(self, lines: Sequence[Any], watches: Watches | None = None) -> Replayed:
        """A group's lines, in order, replayed in the spec; answers of Kafka's are no steps."""
        if any(line.role == KAFKA for line in lines):
            return Replayed("not observable", UNSEEN_STEPS)
        return super().replay(lines, watches)


class WhoseLines(ChosenJudging):
    """
    Judges lines of our coordinators, or answers of Kafka's, whichever come first.

    Clients' lines are judged beside those of our own coordinators alone.
    """

    def __init__(self, run: str, group: str, protocol: str) -> None:
        self._who = run, group, protocol
        self._is_kafkas = self._is_late = False
        self._made: GroupJudging | None = None

    @property
    def chosen(self) -> GroupJudging | None:
        """Who was chosen, if anybody was."""
        return self._made

    def judges(self, role: str) -> GroupJudging | None:
        """Who judges lines of a role; None: nobody does, or not yet."""
        if role == CONSUMER:
            self._is_late = self._is_late or self._made is None
            return None if self._is_kafkas else self._made
        if self._made is None:
            self._is_kafkas = role == KAFKA
            self._made = (
                GroupJudging(*self._who, AnswersJudge(), UNDECIDED_BY_ANSWERS) if self._is_kafkas
                else GroupJudging(*self._who, GroupJudge(is_late=self._is_late), UNDECIDED)
            )  # fmt: skip
        return self._made

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """These come next, as far as is known; before the first `whole` of them none is missing."""
        for role in [line.role for line in lines if line.role != CONSUMER][:1]:
            self.judges(role)
        super().foresee(lines, whole)

    def take(self, line: Any) -> bool:
        """The next line; one of the other kind tells that somebody else coordinates, too."""
        judging = self.judges(line.role)
        if judging is None or (line.role == KAFKA) == self._is_kafkas:
            return super().take(line)
        why = f"of {line.node}: another coordinator has a group of this name in this run"
        judging.lose(Gap(0, 0, why, line.role, line.node, 1, exact=False))
        return False
