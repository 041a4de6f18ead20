"""
Traces of elections for the audit. Format: `docs/trace.md`.

An election has no groups: what is judged is the run. What lines say of the contract's fields is in
`judged/`.
"""

from __future__ import annotations

from typing import ClassVar

from herdproof.pipeline.audit.map_trace import JudgedAuditor
from herdproof.protocols.election.judged.judge import WATCHES, ElectionJudge
from herdspec.check.observation.watches import JUDGED


class ElectionAuditor(JudgedAuditor):
    """Knows what an election's contract promises, and judges a run's lines by it."""

    judge = ElectionJudge
    promised: ClassVar = {p.name: p.sentence for p in WATCHES.promises if p.expectation in JUDGED}
