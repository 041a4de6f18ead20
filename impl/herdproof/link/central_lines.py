"""Reading the traces of system B: files into lines, each in its place, merged by time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from herdproof.central_coordinator.tracing import CENTRAL, SCHEMA, CentralLine
from herdproof.trace import TraceError


class Placed(NamedTuple):
    """A line of a trace, and where it stands; `time` never goes back within a file."""

    line: CentralLine
    where: str
    time: int


_LINE = TypeAdapter(CentralLine)


def read_central(paths: Sequence[Path]) -> list[Placed]:
    """The lines of all files, merged by time; `TraceError` if they are not of one run."""
    placed = list(merge(*map(_read, paths), key=lambda p: p.time))
    runs = sorted({p.line.run for p in placed})
    if len(runs) > 1:
        raise TraceError(f"these are traces of different runs ({', '.join(runs)}): give one run's")
    if not placed:
        raise TraceError(f"no line in {', '.join(map(str, paths))}: was anything traced?")
    return placed


def _read(path: Path) -> list[Placed]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise TraceError(f"{path} cannot be read: {problem}") from problem
    texts = text.split("\n")
    ended = texts.pop() == "" if texts else True
    if not ended:
        texts = text.split("\n")
    return list(placed_lines(texts, str(path), ended=ended))


def placed_lines(texts: Iterable[str], name: str, *, ended: bool = True) -> list[Placed]:
    """Lines of one file or stream, in its order."""
    found: list[CentralLine] = []
    texts = list(texts)
    for number, text in enumerate(texts, start=1):
        try:
            found.append(read_central_line(text))
        except TraceError as problem:
            cut = number == len(texts) and not ended
            what = "the last line is cut off: its writer died, or still writes" if cut else problem
            raise TraceError(f"{name}, line {number}: {what}") from problem
    times = accumulate((line.time_ns for line in found), max)
    return [
        Placed(line, f"{name}, line {number}", time)
        for number, (line, time) in enumerate(zip(found, times, strict=True), start=1)
    ]


def read_central_line(text: str) -> CentralLine:
    """One line of a trace; `TraceError` says what is wrong with it."""
    try:
        raw = json.loads(text)
    except ValueError as problem:
        raise TraceError(f"this is no JSON ({problem}): {text[:60]!r}") from problem
    if not isinstance(raw, dict):
        raise TraceError("a line of a trace is a JSON object")
    if raw.get("schema") != SCHEMA:
        known = f"this reader knows version {SCHEMA}"
        raise TraceError(f"the schema's version is {raw.get('schema')!r}; {known}")
    if raw.get("protocol") != CENTRAL:
        raise TraceError(f"the protocol is {raw.get('protocol')!r}; known is {CENTRAL!r}")
    try:
        return _LINE.validate_python(raw)
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise TraceError(f"the field `{field}`: {first['msg']}") from problem
