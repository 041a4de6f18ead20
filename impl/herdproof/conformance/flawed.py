"""
Cores with known mistakes, put together: each mistake is a subclass of the class that makes it.

The mistakes of one class can be combined, since each overrides as little as it needs and leaves the
rest to `super()`; where two override one method, the one that stands first in its table decides.
"""

from __future__ import annotations

import copyreg
from abc import ABCMeta
from collections.abc import Callable, Container, Iterable, Mapping
from inspect import getmembers, isclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdspec.check.protocol import Protocol

C = TypeVar("C")


class Flawed(ABCMeta):
    """The type of classes that are put together here: what is made of them can be pickled."""

    def __init__(cls, *what: Any) -> None:
        super().__init__(*what)
        cls.number = len(MADE)
        MADE.append(cls)


MADE: list[Flawed] = []
"""All that were put together in this process."""


def _numbered(number: int) -> Flawed:
    return MADE[number]


copyreg.pickle(Flawed, lambda made: (_numbered, (made.number,)))


def check_flaws(flaws: frozenset[str], known: Iterable[str]) -> None:
    """Raises `ValueError` if one of these flaws is not known: it would be a test that passes."""
    unknown = flaws.difference(known)
    if unknown:
        raise ValueError(f"no such flaw: {', '.join(sorted(unknown))}")


def flawed(core: type[C], flaws: frozenset[str], table: Mapping[str, type[Any]]) -> type[C]:
    """
    The class with those of these flaws, by their table, that are its own or one of its parts'.

    Its parts are the classes that its attributes name, which it makes them of. Without a flaw of
    either it is itself. Raises `ValueError` if a flaw is not known.
    """
    check_flaws(flaws, table)
    mistakes = [c for name, c in table.items() if name in flaws and issubclass(c, core)]
    parts = {name: part for name, part in getmembers(core, isclass) if name != "__class__"}
    made = {name: flawed(part, flaws, table) for name, part in parts.items()}
    changed = {name: part for name, part in made.items() if part is not parts[name]}
    if not mistakes and not changed:
        return core
    return cast(type[C], Flawed(core.__name__, (*mistakes, core), changed))


def with_parts(core: type[C], **parts: type[Any]) -> type[C]:
    """The class with other classes for those that it makes its parts of, by the attribute."""
    others = "And".join(part.__name__ for part in parts.values())
    return cast(type[C], Flawed(f"{core.__name__}With{others}", (core,), parts))


Cores: TypeAlias = "Callable[[], Callable[..., type[Adapter]]]"
"""Reads a function that makes the adapter of cores with some switches, held to some spec."""
_NO_FORMS: Mapping[str, Cores] = {}


def switched(
    protocol: Protocol, cores: Cores, known: Callable[[], Container[str]] | None = None,
    own: Container[str] = (), forms: Mapping[str, Cores] = _NO_FORMS,
) -> Callable[[str], type[Adapter] | None]:  # fmt: skip
    """
    The code of variants whose mistakes can be switched on, as an implementation's `adapter`.

    What `cores` gives is called with the switches, and with the spec that such code is held to;
    what `forms` gives, likewise, for a form of the protocol by its name, and for its flaws. `known`
    are the mistakes that the code can have; by default all. The variants of `own` break what they
    break without any switch, and so does the code as it is.
    """

    def adapter(variant: str) -> type[Adapter] | None:
        form = protocol.variants().get(variant)
        if form is not None:
            return forms[variant]()(frozenset(), form) if variant in forms else None
        if not variant:
            return cores()(frozenset(), protocol.verified())
        flaw = protocol.variant(variant)
        if not flaw or not (flaw.switches or variant in own):
            return None
        has_all = known is None or all(switch in known() for switch in sorted(flaw.switches))
        of = forms.get(flaw.form) if flaw.form else cores
        return of()(flaw.switches, flaw.spec) if has_all and of else None

    return adapter
