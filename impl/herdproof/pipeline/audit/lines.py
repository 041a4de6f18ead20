"""Lines of a trace for the audit: what its reader refuses goes into quarantine, with the reason."""

from __future__ import annotations

from typing import Any

from herdproof.conformance.traces.line import (
    Formats,
    TraceError,
    UnknownVersion,
    decoded,
    read_line,
)
from herdproof.errors import Malformed


class Reader:
    """Reads lines of the newest format at once; all others are read by the reader of all."""

    def __init__(self, formats: Formats) -> None:
        self._schema, _ = newest = max(formats)
        self._made = formats[newest]
        self._formats = formats

    def __call__(self, text: str, place: str) -> Any:
        """A line, or `Malformed`."""
        try:
            line = decoded(self._made, text, place)
        except TraceError:
            return self._told(text, place)
        return line if line.schema == self._schema else self._told(text, place)

    def _told(self, text: str, place: str) -> Any:
        """The line all the same, or what is wrong with it."""
        try:
            return read_line(text, place, self._formats)
        except TraceError as problem:
            version = isinstance(problem, UnknownVersion)
            reason = "unknown_version" if version else "malformed"
            raise Malformed(reason, str(problem)) from None
