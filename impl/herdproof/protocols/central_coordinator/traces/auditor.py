"""
Traces of the central coordinator for the audit: their order, their replay.

What lines say that happened is told by `teller.py`. Format: `docs/central_trace.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from herdproof.conformance.traces.ordering import Ordered, ordered
from herdproof.pipeline.audit.auditor import Auditor, Malformed, Replayed
from herdproof.pipeline.audit.lines import Reader
from herdproof.protocols.central_coordinator.traces.lines import FORMATS, CentralStep, Messages
from herdproof.protocols.central_coordinator.traces.replays import replay_central
from herdproof.protocols.central_coordinator.traces.teller import CentralTeller
from herdproof.protocols.central_coordinator.tracing import CENTRAL

_LIVENESS = "a trace cannot show what is left undone for ever"

OBSERVABLE: Mapping[str, str] = {
    "EXCLUSIVE": "",
    "FENCED_COMMIT": "",
    "FENCED_WRITE": "",
    "FENCED_COMMAND": "",
    "COMMANDS_NOBODY": "",
    "WRITTEN_FIRST": "",
    "MONOTONE": "",
    "NOTHING_SKIPPED": "",
    "ONLY_FINISHED": "",
    "STORED_FIRST": "",
    "COMPLETE": "",
    "ONE_COORDINATOR": "",
    "SETTLES": _LIVENESS,
}
"""What coordinators and consumers together tell enough about."""


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


class CentralAuditor(Auditor):
    """What the pipeline knows of the central coordinator's traces."""

    name = CENTRAL
    grouped = True
    observable = OBSERVABLE

    def __init__(self) -> None:
        self._read = Reader(FORMATS)

    def read(self, text: str, place: str) -> CentralStep:
        """A line of a trace, or `Malformed`."""
        line: CentralStep
        try:
            line = self._read(text, place)
        except Malformed:
            as_numbers = with_offsets_as_numbers(text)
            if as_numbers is None:
                raise
            line = self._read(as_numbers, place)
        return line

    def ordered(self, lines: Sequence[CentralStep]) -> Ordered[CentralStep]:
        """A group's lines in the order in which things happened, those twice, those missing."""
        return ordered(lines, Messages())

    def teller(self, run: str, group: str) -> CentralTeller:
        """Who tells a group's lines."""
        del run
        return CentralTeller(group)

    def replay(self, lines: Sequence[CentralStep]) -> Replayed:
        """A group's lines, in order, replayed in the spec."""
        return replay_central(lines)
