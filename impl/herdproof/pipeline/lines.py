"""
Lines of a trace as structs: read by msgspec where all is as it should be, else by the reader.

The quick path takes what has exactly the documented types. Everything else goes to the protocol's
own reader, whose word counts: it takes what it takes, and says what is wrong with the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from herdproof.pipeline.auditor import Malformed
from herdproof.trace import TraceError

MOST = 2**63
"""Integers lie below it, and not below its negative: columns have no room for more."""

T = TypeVar("T")


class Reader:
    """Reads lines into `made`; what that does not take, `read` does, and `made_of` converts."""

    def __init__(
        self, made: type[Any], schema: int, read: Callable[[str], Any],
        made_of: Callable[[Any], Any],
    ) -> None:  # fmt: skip
        self._decode = msgspec.json.Decoder(made).decode
        self._schema = schema
        self._read = read
        self._made_of = made_of

    def __call__(self, text: str, place: str) -> Any:
        """A line, or `Malformed`."""
        try:
            line = self._decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            line = self._slowly(text)
        line.place = place
        return line

    def _slowly(self, text: str) -> Any:
        """What the protocol's own reader makes of it."""
        try:
            line = self._made_of(self._read(text))
        except TraceError as problem:
            raise Malformed(_reason(text, self._schema), str(problem)) from None
        except RecursionError:
            raise Malformed("malformed", "its JSON is nested too deeply") from None
        if trouble := next(_troubles(msgspec.to_builtins(line)), None):
            raise Malformed("malformed", trouble)
        return line


def _reason(text: str, schema: int) -> str:
    """Why a line is not read: its version, or anything else."""
    try:
        raw = json.loads(text)
    except ValueError:
        return "malformed"
    known = not isinstance(raw, dict) or raw.get("schema") == schema
    return "malformed" if known else "unknown_version"


def _troubles(value: Any, where: str = "") -> Any:
    """What no column can hold: integers beyond 64 bits, half a character."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _troubles(inner, f"{where}.{name}" if where else name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _troubles(inner, where)
    elif isinstance(value, int) and not -MOST <= value < MOST:
        yield f"the field `{where}` is beyond 64 bits"
    elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        yield f"the field `{where}` has half a character (a lone surrogate)"
