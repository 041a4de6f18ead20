"""
Values that nobody knows, and what may be said of them all the same.

Of a system that is only observed, an entry of the state is known (a plain value), one of a few
(`Among`), what was told last by somebody who may have gone on unheard (`LastReported`), or
`UNKNOWN`. Plain Python that meets one of the latter three raises `Doubt`: a formula that comes to
its end without has a certain answer. Where it does not, the functions of this module read it by
Kleene's strong logic of three values: for each of its literals, whether it may hold, and whether it
may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NoReturn


class Doubt(Exception):
    """A value that is not known was asked for."""


class Inconclusive:
    """A value that is not known: whatever would depend on it raises `Doubt`."""

    __slots__ = ()

    def _met(self, *_: object) -> NoReturn:
        raise Doubt

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _met
    __add__ = __radd__ = __sub__ = __rsub__ = __mod__ = __rmod__ = _met
    __floordiv__ = __rfloordiv__ = __bool__ = __hash__ = _met


class Unknown(Inconclusive):
    """It may be anything; `UNKNOWN` is the only one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __reduce__(self) -> str:
        """There is one of it wherever it arrives."""
        return "UNKNOWN"


UNKNOWN = Unknown()


class AnyElement:
    """Any element: all entries of a field; `ANY` is the only one."""

    __slots__ = ()

    def __reduce__(self) -> str:
        """There is one of it wherever it arrives: what is not to be believed stays so."""
        return "ANY"


ANY = AnyElement()


class Among(Inconclusive):
    """It is one of these values, at least two; `among` makes them."""

    __slots__ = ("values",)

    def __init__(self, values: frozenset[Any]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Among({', '.join(sorted(map(repr, self.values)))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Among, (self.values,)


class LastReported(Inconclusive):
    """
    It was this (or one of these) when it was told last, by somebody who was heard no more.

    Nobody can tell who stopped there from whose trace was cut off. So nothing is violated because
    of it, as if it were unknown; but what holds, holds as it was told.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"LastReported({self.value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return LastReported, (self.value,)


def among(values: Iterable[Any]) -> Any:
    """One of these plain values; where there is only one, that."""
    found = frozenset(values)
    return Among(found) if len(found) > 1 else next(iter(found))


def possible(x: Any) -> frozenset[Any] | None:
    """All that a value may be; None: anything."""
    if x is UNKNOWN or type(x) is LastReported:
        return None
    return x.values if type(x) is Among else frozenset((x,))


def is_lost(x: Any) -> bool:
    """Tells whether nobody has told what it is."""
    return x is UNKNOWN or type(x) is Among


def same(a: Any, b: Any) -> bool:
    """Tells whether as much is known of one as of the other."""
    if a is b:
        return True
    if type(a) is not type(b):
        return not isinstance(a, Inconclusive) and not isinstance(b, Inconclusive) and bool(a == b)
    if type(a) is Among:
        return bool(a.values == b.values)
    return same(a.value, b.value) if type(a) is LastReported else bool(a == b)


# ── What a formula is read with ─────────────────────────────────────────────────────────────


def untold(x: Any) -> Any:
    """A value that was told last, as one that may have changed since."""
    return UNKNOWN if type(x) is LastReported else x


def as_told(x: Any) -> Any:
    """A value that was told last, as one that has not changed."""
    return x.value if type(x) is LastReported else x


def may_be(x: Any) -> bool:
    """Tells whether it may be true."""
    values = possible(x)
    return values is None or True in values


def may_not_be(x: Any) -> bool:
    """Tells whether it may be false."""
    values = possible(x)
    return values is None or False in values


def may_equal(a: Any, b: Any) -> bool:
    """Tells whether two values may be the same."""
    x, y = possible(a), possible(b)
    return x is None or y is None or not x.isdisjoint(y)


def may_differ(a: Any, b: Any) -> bool:
    """Tells whether two values may be different."""
    x, y = possible(a), possible(b)
    return x is None or y is None or len(x | y) > 1


def may_be_at_most(a: Any, b: Any) -> bool:
    """Tells whether one number may be no larger than another."""
    x, y = possible(a), possible(b)
    return x is None or y is None or min(x) <= max(y)


def may_exceed(a: Any, b: Any) -> bool:
    """Tells whether one number may be larger than another."""
    x, y = possible(a), possible(b)
    return x is None or y is None or max(x) > min(y)


def lifted(operation: Callable[..., Any], *operands: Any) -> Any:
    """An operation, lifted to values that may not be known."""
    each = [possible(x) for x in operands]
    if any(values is None for values in each):
        return UNKNOWN
    found = [operation(*chosen) for chosen in product(*(v for v in each if v is not None))]
    return UNKNOWN if any(x is UNKNOWN for x in found) else joined(found)


def joined(found: Iterable[Any]) -> Any:
    """One of several values, none of which need be known."""
    each = [possible(x) for x in found]
    if any(values is None for values in each):
        return UNKNOWN
    return among(x for values in each if values is not None for x in values)


def chosen(may_hold: bool, may_fail: bool, a: Any, b: Any) -> Any:
    """The first value where a test holds, else the second."""
    return joined([a] * may_hold + [b] * may_fail)


def truth(may_hold: bool, may_fail: bool) -> Any:
    """A formula as a value."""
    return UNKNOWN if may_hold and may_fail else may_hold


def between(least: int, most: int) -> Any:
    """A number of which only the bounds are known."""
    return among(range(least, most + 1))


READ = {
    f.__name__: f
    for f in (
        untold, as_told, may_be, may_not_be, may_equal, may_differ, may_be_at_most, may_exceed,
        lifted, chosen, truth, between,
    )
}  # fmt: skip
"""Functions that emitted code knows by name."""
