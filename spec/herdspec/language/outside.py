"""Remembers what a spec's functions saw outside of themselves when read: it must stay so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from herdspec.language.errors import SpecError
from herdspec.language.given import shortened
from herdspec.language.reading.source import Function


@dataclass(frozen=True)
class Seen:
    """A name that a function uses and does not bind, and its value when the function was read."""

    function: Function
    name: str
    line: int
    value: Any


def unchanged(seen: Iterable[Seen]) -> None:
    """
    Refuse a spec that was read with other values than its plain Python would use now.

    Every analysis but the plain Python is made from what was read; both must mean the same.
    """
    for s in seen:
        now = s.function.outer_names(s.name)
        if s.name not in now:
            what = f"`{s.name}`, which was {_said(s.value)} when it was read here and is gone now"
        elif not _same(s.value, now[s.name]):
            was, now_is = _said(s.value), _said(now[s.name])
            what = f"`{s.name}`, which was {was} when it was read here and is {now_is} now"
        else:
            continue
        advice = "give it its value before the spec, and keep it; another value is another spec"
        raise SpecError(s.function.file, s.line, what, advice)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, int) and a == b)


def _said(value: Any) -> str:
    return shortened(getattr(value, "__qualname__", "") or repr(value))
