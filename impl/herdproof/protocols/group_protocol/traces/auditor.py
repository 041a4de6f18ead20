"""
Traces of group coordinators, and of what Kafka's own answers, for the audit.

Format: `docs/group_protocol_trace.md`. What lines say of the contract's fields is in `judged/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from herdproof.conformance.traces.line import SCHEMA, TraceLine
from herdproof.conformance.traces.replay import Watches
from herdproof.pipeline.audit.auditor import Replayed
from herdproof.pipeline.audit.lines import Reader
from herdproof.pipeline.audit.map_trace import MapAuditor
from herdproof.pipeline.judging.gaps import Gap
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.judging import Judging
from herdproof.pipeline.spark.tables import Rows
from herdproof.protocols.group_protocol.judged.judge import (
    SENTENCES,
    UNDECIDED,
    UNDECIDED_BY_ANSWERS,
    AnswersJudge,
    GroupJudge,
)
from herdproof.protocols.group_protocol.tracing import CONSUMER, KAFKA, UNSEEN_STEPS


class GroupLine(TraceLine, kw_only=True, gc=False, omit_defaults=True):
    """A line of a coordinator, which numbers them through all its groups."""

    @property
    def shared(self) -> bool:
        """Its process's numbers run through the lines of several groups."""
        return True


class GroupsAuditor(MapAuditor):
    """Audits group coordinators' traces in the pipeline."""

    grouped = True
    options: ClassVar[Mapping[str, Any]] = {"invariants": False, "whole": False}
    """A state that was replayed in a proved spec breaks no promise; what is missing is known."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._read = Reader({(SCHEMA, ""): GroupLine})

    @property
    def sentences(self) -> Mapping[str, str]:
        """The sentences that the contract promises."""
        return SENTENCES

    @property
    def undecided(self) -> Mapping[str, str]:
        """The promises that no trace can decide, and why."""
        return UNDECIDED

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a group's lines: by the contract's own properties."""
        return WhoseLines(run, group, self.name)

    def replay(self, lines: Sequence[Any], watches: Watches | None = None) -> Replayed:
        """A group's lines, in order, replayed in the spec; answers of Kafka's are no steps."""
        if any(line.role == KAFKA for line in lines):
            return Replayed("not observable", UNSEEN_STEPS)
        return super().replay(lines, watches)


class WhoseLines:
    """
    Judges lines of our coordinators, or answers of Kafka's, whichever comes first.

    Lines of clients tell nothing of what is judged here; they are held to the others' in replays.
    """

    def __init__(self, run: str, group: str, protocol: str) -> None:
        self._who = run, group, protocol
        self._role = ""
        self._made: GroupJudging | None = None

    def _of(self, role: str) -> GroupJudging:
        if self._made is None:
            self._role = role
            self._made = (
                GroupJudging(*self._who, AnswersJudge(), UNDECIDED_BY_ANSWERS) if role == KAFKA
                else GroupJudging(*self._who, GroupJudge(), UNDECIDED)
            )  # fmt: skip
        return self._made

    def foresee(self, lines: Sequence[Any], whole: int) -> None:
        """These come next, as far as is known; before the first `whole` of them none is missing."""
        judged = [line for line in lines if line.role != CONSUMER]
        if judged:
            known = sum(line.role != CONSUMER for line in lines[:whole])
            self._of(judged[0].role).foresee(judged, known)

    def take(self, line: Any) -> bool:
        """The next line; one of the other kind tells that somebody else coordinates, too."""
        if line.role == CONSUMER:
            return False
        judging = self._of(line.role)
        if line.role == self._role:
            return judging.take(line)
        why = f"of {line.node}: another coordinator has a group of this name in this run"
        judging.lose(Gap(0, 0, why, line.role, line.node, 1, exact=False))
        return False

    def lose(self, gap: Gap) -> None:
        """From here on, until they are found, these lines may have been."""
        if gap.role != CONSUMER:
            self._of(gap.role).lose(gap)

    def find(self, gap: Gap) -> None:
        """From here on, they can have been no more."""
        if gap.role != CONSUMER:
            self._of(gap.role).find(gap)

    def knows(self, gap: Gap) -> None:
        """These lines are missing, and others tell what they said."""
        if gap.role != CONSUMER:
            self._of(gap.role).knows(gap)

    def leave(self, line: Any) -> None:
        """That was the last line of a process, as far as is known."""
        if line.role != CONSUMER:
            self._of(line.role).leave(line)

    def drain(self) -> Rows:
        """The rows that were finished since the last time."""
        return self._made.drain() if self._made is not None else {}

    def close(self) -> Rows:
        """The last rows: what is open, the figures of the whole group, the verdicts."""
        return self._of("").close()
