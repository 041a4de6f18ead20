"""Checks the arguments of decorators and of declarations where they are written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from functools import wraps
from types import FrameType, FunctionType
from typing import Any, TypeVar, cast

from herdspec.language.errors import SpecError

HERE = __name__.rpartition(".")[0]
"""The package whose own frames are nobody's mistake."""
MARK = "__herdspec_action__"
"""Under which an action's function bears its mark."""
ALONE: set[str] = set()
"""The names of the decorators that stand alone."""
_F = TypeVar("_F", bound=Callable[..., Any])


def misused(construct: str, advice: str) -> SpecError:
    """The error about a call of a word of the language, at the line that calls it."""
    frame = _whose()
    return SpecError(frame.f_code.co_filename, frame.f_lineno, construct, advice)


def _whose() -> FrameType:
    """The frame that calls a word of the language."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(HERE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def decorator(make: _F) -> _F:
    """A decorator that stands alone above a plain function, without parentheses."""
    word = f"@{make.__name__}"
    ALONE.add(make.__name__)

    @wraps(make)
    def checked(*given: Any, **named: Any) -> Any:
        if named or len(given) != 1:
            raise misused(f"{word} with arguments", f"write {word} alone, without parentheses")
        return make(plain(word, given[0]))

    return cast(_F, checked)


def plain(word: str, function: Any) -> FunctionType:
    """The plain function that a decorator stands above, which has no other one."""
    advice = f"write {word} above a plain `def`, as its only decorator"
    if not isinstance(function, FunctionType):
        raise misused(f"{word} of {said(function)}", advice)
    if hasattr(function, MARK):
        if word != "@action" or _is_above(_whose(), function):
            raise misused(f"{word} of {function.__name__}, which is an action already", advice)
        return _again(function)
    return function


def _is_above(frame: FrameType, function: FunctionType) -> bool:
    """Tells whether a frame is at the decorators of a function, not where it is used again."""
    code = function.__code__
    first = next((line for *_, line in code.co_lines() if line), code.co_firstlineno)
    here = code.co_firstlineno <= frame.f_lineno <= first
    return frame.f_code.co_filename == code.co_filename and here


def _again(function: FunctionType) -> FunctionType:
    """A copy of a function, to be marked otherwise: a variant's mark is not its original's."""
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip


def said(value: Any) -> str:
    """The words in which a message names what was given."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    inner = getattr(value, "function", None) or getattr(value, "__wrapped__", None)
    name = getattr(inner, "__name__", "")
    return f"{name}, a {type(value).__name__}" if name else shortened(repr(value))


def shortened(text: str) -> str:
    """A text of one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}…"


def one_of(word: str, name: str, value: Any, kind: type, known: str) -> None:
    """Refuse an argument that is no member of an enum of this language."""
    if not isinstance(value, kind):
        raise misused(f"{name}={shortened(repr(value))} of {word}", f"write {known}")


def whole(word: str, value: Any, least: int) -> None:
    """Refuse what is no whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        what = f"{word}({shortened(repr(value))})"
        raise misused(what, f"write {word}(n) with a whole number n of at least {least}")


def unchangeable(word: str, value: Any) -> None:
    """Refuse a start value that could be changed after it was given."""
    if not isinstance(value, Hashable):
        what = f"{word}({shortened(repr(value))}), a value that can change"
        raise misused(what, "start with a constant, a frozen record, None, or empty()")
