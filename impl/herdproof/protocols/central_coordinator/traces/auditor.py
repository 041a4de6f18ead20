"""
Traces of the central coordinator for the audit: their order, their judge, their replay.

What lines say of the contract's fields is in `judged/`. Format: `docs/central_trace.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from herdproof.conformance.traces.clocks import Early, Setting, leads, settings
from herdproof.conformance.traces.line import TraceError
from herdproof.conformance.traces.ordering import Ordered
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
from herdproof.protocols.central_coordinator.traces.lines import (
    Messages,
    exchanged,
    is_said_by_one,
    is_said_once,
)

OF_OFFSETS = ("partitions", "brought")
"""Arguments that are places, with offsets."""


def with_offsets_as_numbers(text: str) -> str | None:
    """
    A line whose offsets are texts, with numbers in their place; None for any other.

    Parquet's arrays have one type: where a line's places are a column, their offsets become texts.
    """
    try:
        raw = json.loads(text)
        told = raw.get("arguments") or raw
        places = {name: told[name] for name in OF_OFFSETS if name in told}
        if not any(isinstance(offset, str) for each in places.values() for _, _, offset in each):
            return None
        for name, each in places.items():
            told[name] = [[topic, number, _number(offset)] for topic, number, offset in each]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
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

    def settings(self, found: Ordered[Any]) -> Sequence[Setting] | None:
        """
        Settings of the nodes' clocks that causes allow; None if these do not contradict the times.

        What is known by what it carries may be said again: where a line of that is missing, or is
        not as it should be, this shows nothing of clocks.
        """
        if not found.contradicted:
            return None
        once = leads(found.lines, Messages(found.lines), is_said_once)
        is_whole = all(found.lines[index].shared for index in found.gaps)
        each = [once]
        if is_whole:
            each.insert(0, leads(found.lines, Messages(found.lines), lambda _: True))
        for known in each:
            if all(lead > 0 for lead in known.values()):
                return None
            if all(lead >= 0 for lead in known.values()):
                return []  # who hears has the time of who says: the clocks stand still
            if allowed := settings(known):
                return allowed
        return []

    def early(self) -> Early | None:
        """Who notices as lines come that their times contradict each other."""
        return Early(exchanged, is_said_by_one)

    def shifted(self, line: Any, ahead_ns: int) -> Any:
        """A line of a clock that was so far ahead, with the times of one that was not."""
        until_ns = line.until_ns and line.until_ns - ahead_ns
        return replace(line, time_ns=line.time_ns - ahead_ns, until_ns=until_ns)

    def filled(self, lines: Sequence[Any], gaps: Sequence[Gap], last: set[int]) -> Filled:
        """A group's lines, and those missing ones of which others over a connection tell."""
        return with_untold(lines, gaps, last)

    def replay(self, lines: Sequence[Any], watches: Watches | None = None) -> Replayed:
        """A group's lines, in order, replayed in the spec; of what they do not name all is open."""
        try:
            return super().replay(lines, watches)
        except KeyError as unnamed:
            return Replayed("unknown", f"no line tells of {unnamed}")
        except TraceError as problem:  # one line is no reason to judge nothing else
            return Replayed("unknown", str(problem))
