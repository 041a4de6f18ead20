"""
Traces of the central coordinator for the audit: their order, their judge, their replay.

What lines say of the contract's fields is in `judged/`. Format: `docs/central_trace.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from herdproof.conformance.traces.line import TraceError
from herdproof.conformance.traces.replay import Watches
from herdproof.errors import Malformed
from herdproof.pipeline.audit.auditor import Replayed
from herdproof.pipeline.audit.map_trace import JudgedAuditor
from herdproof.pipeline.judging.gaps import Filled, Gap
from herdproof.protocols.central_coordinator.judged.judge import (
    SENTENCES,
    UNDECIDED,
    CentralJudge,
)
from herdproof.protocols.central_coordinator.judged.partners import with_untold
from herdproof.protocols.central_coordinator.traces.untraced import untraced


def with_offsets_as_numbers(text: str) -> str | None:
    """
    A line whose offsets are texts, with numbers in their place; None for any other.

    Parquet's arrays have one type: where a line's places are a column, their offsets become texts.
    """
    try:
        raw = json.loads(text)
        places = raw["partitions"]
        if not any(isinstance(offset, str) for _, _, offset in places):
            return None
        raw["partitions"] = [[topic, number, _number(offset)] for topic, number, offset in places]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return json.dumps(raw)


def _number(offset: int | str) -> int:
    """An offset; raises `ValueError` for a text that no number is written as."""
    number = int(offset)
    if str(number) != str(offset):
        raise ValueError(offset)
    return number


class CentralAuditor(JudgedAuditor):
    """Auditor of the central coordinator's traces."""

    grouped = True
    judge = CentralJudge
    promised = SENTENCES
    untold = UNDECIDED

    def read(self, text: str, place: str) -> Any:
        """A line of a trace, or `Malformed`."""
        try:
            return self._read(text, place)
        except Malformed:
            as_numbers = with_offsets_as_numbers(text)
            if as_numbers is None:
                raise
            return self._read(as_numbers, place)

    def filled(self, lines: Sequence[Any], gaps: Sequence[Gap], last: set[int]) -> Filled:
        """A group's lines, and those missing ones of which others over a connection tell."""
        return with_untold(lines, gaps, last)

    def replay(self, lines: Sequence[Any], watches: Watches | None = None) -> Replayed:
        """A group's lines, in order, replayed in the spec; of who has no trace nothing is known."""
        for missing in untraced(lines):
            return Replayed("unknown", missing.why)
        try:
            return super().replay(lines, watches)
        except KeyError as unnamed:
            return Replayed("unknown", f"no line tells of {unnamed}")
        except TraceError as problem:  # one line is no reason to judge nothing else
            return Replayed("unknown", str(problem))
