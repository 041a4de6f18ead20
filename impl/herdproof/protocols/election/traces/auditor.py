"""
Traces of elections for the audit. Format: `docs/trace.md`.

An election has no groups: what is judged is the run. What lines say of the contract's fields is in
`judged/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.pipeline.audit.map_trace import MapAuditor
from herdproof.pipeline.judging.group import GroupJudging
from herdproof.pipeline.judging.judging import Judging
from herdproof.protocols.election.judged.judge import WATCHES, ElectionJudge
from herdspec.check.observation.watches import JUDGED


class ElectionAuditor(MapAuditor):
    """What the pipeline knows of an election's traces."""

    options: ClassVar[Mapping[str, Any]] = {"invariants": False, "whole": False}
    """A state that was replayed in a proved spec breaks no promise; what is missing is known."""

    @property
    def sentences(self) -> Mapping[str, str]:
        """What the election's contract promises."""
        judged = (p for p in WATCHES.promises if p.expectation in JUDGED)
        return {promise.name: promise.sentence for promise in judged}

    def judging(self, run: str, group: str) -> Judging:
        """Who judges a run's lines: by the election's contract."""
        return GroupJudging(run, group, self.name, ElectionJudge(), {})
