"""
A service's log: the standard library's records, with their fields beside the message.

    log.info("registered", extra=fields(group="g", consumer="c1"))

As text a line ends with `group=g consumer=c1`; as JSON the fields are keys, so that whoever
collects logs need not take sentences apart.

What a stranger names can be in any of it. So nothing that ends a line, or moves a terminal's
cursor, is written as it is; and of one message only so many lines are written at a time.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from json.encoder import encode_basestring
from typing import Any, TextIO

Value = str | int | float | bool | None

_MARKS = re.compile('[ "=]')
"""Characters by which a value could be taken for more than one."""

WINDOW_S = 10.0
FEW, MANY = 50, 1_000
"""The number of lines of one message within it: of warnings, of what merely happens."""

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F)]
"""Characters that end a line, or move what is shown."""
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROLS} | {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_ESCAPED_IN_JSON = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 0x7F}
"""The others it escapes by itself."""


class LogForm(Enum):
    """The form of a log's lines."""

    TEXT = "text"
    JSON = "json"


def fields(**values: Value) -> dict[str, Any]:
    """A record's fields, for `extra` of the logging calls."""
    return {"fields": values}


def fields_of(record: logging.LogRecord) -> Mapping[str, Value]:
    """The fields of a record; none if it was logged without."""
    found: Mapping[str, Value] = getattr(record, "fields", {})
    return found


class TextLines(logging.Formatter):
    """For people: when, how grave, what, and the fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._second = -1
        self._shown = ""
        """The last second of a line, and that as it is shown: many lines follow within it."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's own name
        """The time of a line, to the millisecond."""
        second = int(record.created)
        if second != self._second:
            form = datefmt or self.default_time_format
            self._second, self._shown = second, time.strftime(form, self.converter(second))
        return f"{self._shown},{int(record.msecs):03}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The line without a traceback, which follows it if there is one."""
        more = "".join(f" {name}={shown(value)}" for name, value in fields_of(record).items())
        line = super().formatMessage(record) + more
        return line if line.isprintable() else line.translate(_ESCAPED)


def shown(value: Value) -> str:
    """
    A field's value, in quotes where it could be taken for more than one.

    >>> shown("orders"), shown("a level=ERROR"), shown("")
    ('orders', '"a level=ERROR"', '""')
    """
    text = str(value)
    return text if text and not _MARKS.search(text) else encode_basestring(text)


class JsonLines(logging.Formatter):
    """For machines: one object a line; a traceback is a field of it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; its own keys win over fields of the same name."""
        line: dict[str, Any] = {
            **fields_of(record),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str).translate(_ESCAPED_IN_JSON)


class FewOfEach(logging.StreamHandler[TextIO]):
    """Writes so many lines of each message within `WINDOW_S`, and then how many there were."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._since = clock()
        self._counts: Counter[tuple[str, int, str]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, unless there were many of its kind."""
        if self._clock() - self._since >= WINDOW_S:
            self.tell_left_out()
        kind = record.name, record.levelno, kind_of(record)
        self._counts[kind] += 1
        if self._counts[kind] <= at_most(record.levelno):
            super().emit(record)

    def tell_left_out(self) -> None:
        """Write how many lines were left out of what came last, and begin anew."""
        counts, self._counts, self._since = self._counts, Counter(), self._clock()
        for (name, level, msg), count in counts.items():
            if (left_out := count - at_most(level)) > 0:
                more = f"{left_out:,} more lines like this one were left out: {msg}"
                super().emit(logging.LogRecord(name, level, "", 0, more, (), None))

    def close(self) -> None:
        """Write what is still to be told."""
        self.tell_left_out()
        super().close()


def kind_of(record: logging.LogRecord) -> str:
    """The name of the event that a line tells of; else its message, before anything is put in."""
    return str(fields_of(record).get("event", record.msg))


def at_most(level: int) -> float:
    """The number of lines of one message that are written within `WINDOW_S`."""
    if level <= logging.DEBUG:
        return float("inf")
    return FEW if level >= logging.WARNING else MANY


def log_to_stderr(form: LogForm, level: str) -> None:
    """Have the whole process log in this form, from this level ("DEBUG" to "CRITICAL") on."""
    # No line tells who wrote it: to find that out takes as long as to write it.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    handler = FewOfEach(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogForm.JSON else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
