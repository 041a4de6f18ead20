"""Remembers what a spec's functions saw outside of themselves when read: it must stay so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from herdspec.language.errors import SpecError
from herdspec.language.given import shortened
from herdspec.language.reading.source import Function
from herdspec.language.types import Shape


@dataclass(frozen=True)
class Seen:
    """A name that a function uses and does not bind, and its value when the function was read."""

    function: Function
    name: str
    line: int
    value: Any

    @property
    def stands(self) -> bool:
        """Tells whether the name has this value now, too."""
        now = self.function.outer_names(self.name)
        return self.name in now and _same(self.value, now[self.name])


def unchanged(shape: Shape) -> None:
    """
    Refuse a spec that was read with other values than its plain Python would use now.

    Every analysis but the plain Python is made from what was read; both must mean the same.
    """
    for name, method in shape.methods.items():
        if getattr(shape.state, name, None) is not method.python:
            what = f"`{name}`, which is another one in the class {shape.name} now"
            advice = "write it in the class, or make a variant: .replace(…)"
            raise SpecError(method.file, method.line, what, advice)
    for s in shape.seen.values():
        if s.stands:
            continue
        now = s.function.outer_names(s.name)
        became = f"is {_said(now[s.name])}" if s.name in now else "is gone"
        what = f"`{s.name}`, which was {_said(s.value)} when it was read here and {became} now"
        advice = "give it its value before the spec, and keep it; another value is another spec"
        raise SpecError(s.function.file, s.line, what, advice)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, int) and a == b)


def _said(value: Any) -> str:
    return shortened(getattr(value, "__qualname__", "") or repr(value))
