"""
Traces of elections for the audit. Format: `docs/trace.md`.

An election has no groups: what is judged is the run. What lines say of the contract's fields is in
`judged/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from herdproof.conformance.traces.replay import Watches
from herdproof.pipeline.audit.auditor import Replayed
from herdproof.pipeline.audit.map_trace import JudgedAuditor
from herdproof.protocols.election.judged.judge import WATCHES, ElectionJudge
from herdproof.protocols.election.traces.trace_map import untraced
from herdspec.check.observation.watches import JUDGED


class ElectionAuditor(JudgedAuditor):
    """Knows what an election's contract promises, and judges a run's lines by it."""

    judge = ElectionJudge
    promised: ClassVar = {p.name: p.sentence for p in WATCHES.promises if p.expectation in JUDGED}

    def replay(self, lines: Sequence[Any], watches: Watches | None = None) -> Replayed:
        """A run's lines, in order, replayed in the spec: up to a leader that has no trace."""
        found = super().replay(lines, watches)
        for missing in untraced(lines):
            if found.verdict != "differs" or found.lines >= missing.upto:
                return replace(found, verdict="unknown", told=missing.why, place="", time_ns=None)
            break
        return found
