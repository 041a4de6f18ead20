"""
A service's log: the standard library's records, with their fields beside the message.

    log.info("registered", extra=fields(group="g", consumer="c1"))

As text a line ends with `group=g consumer=c1`; as JSON the fields are keys, so that whoever
collects logs need not take sentences apart.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

Value = str | int | float | bool | None


class LogForm(Enum):
    """How a log's lines are written."""

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

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The line without a traceback, which follows it if there is one."""
        more = "".join(f" {name}={value}" for name, value in fields_of(record).items())
        return super().formatMessage(record) + more


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
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(form: LogForm, level: str) -> None:
    """Have the whole process log in this form, from this level ("DEBUG" to "CRITICAL") on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogForm.JSON else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
