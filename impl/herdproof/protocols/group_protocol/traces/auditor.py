"""
Traces of group coordinators for the audit. Format: `docs/group_protocol_trace.md`.

What lines say of the contract's fields is in `judged/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.conformance.traces.line import SCHEMA, TraceLine
from herdproof.pipeline.audit.lines import Reader
from herdproof.pipeline.audit.map_trace import MapAuditor
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.judging import Judging
from herdproof.protocols.group_protocol.judged.judge import SENTENCES, UNDECIDED, GroupJudge


class GroupLine(TraceLine, kw_only=True, gc=False, omit_defaults=True):
    """A line of a coordinator, which numbers them through all its groups."""

    @property
    def shared(self) -> bool:
        """Its process's numbers run through the lines of several groups."""
        return True


class GroupsAuditor(MapAuditor):
    """What the pipeline knows of group coordinators' traces."""

    grouped = True
    options: ClassVar[Mapping[str, Any]] = {"invariants": False, "whole": False}
    """A state that was replayed in a proved spec breaks no promise; what is missing is known."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._read = Reader({(SCHEMA, ""): GroupLine})

    @property
    def sentences(self) -> Mapping[str, str]:
        """What the contract promises."""
        return SENTENCES

    @property
    def undecided(self) -> Mapping[str, str]:
        """What no trace can decide."""
        return UNDECIDED

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a group's lines: by the contract's own properties."""
        return GroupJudging(run, group, self.name, GroupJudge(), UNDECIDED)
