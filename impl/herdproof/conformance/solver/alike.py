"""States that differ only by the names of their elements: one key for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from herdspec.language.specification import Specification
from herdspec.language.types import MapOf, Option, SortOf, Type

Element = tuple[str, int]
"""A sort, and which of its elements."""
Fact = tuple[Any, ...]
"""Something that is so: plain values, and elements in between."""
Colours = Mapping[Element, int]


class Alike:
    """
    Tells states of one size apart, but for the names of elements.

    Elements are told apart by what is said of them, then by what is said of those that are named
    with them, and so on (colour refinement). Two states that differ by names alone have one key;
    where elements are related to each other in a very regular way, others may share it, too.
    """

    def __init__(self, spec: Specification, sizes: Mapping[str, int]) -> None:
        self.kinds: dict[str, Type] = {f.name: f.kind for f in spec.fields}
        self.elements = [(sort, k) for sort in spec.sorts for k in range(sizes[sort])]

    def key(
        self, entries: Mapping[tuple[str, tuple[int, ...]], int],
        arguments: Iterable[tuple[str, Type, Mapping[tuple[int, ...], int]]] = (),
    ) -> Sequence[Any]:  # fmt: skip
        """The key of a state, its entries as numbers (`values.encode`), and of arguments."""
        facts = [fact(name, self.kinds[name], at, n) for (name, at), n in entries.items()]
        for name, kind, numbers in arguments:
            facts += [fact(f"({name})", kind, at, n) for at, n in numbers.items()]
        colours = self._colours(facts)
        return sorted(_coloured(f, colours) for f in facts)

    def _colours(self, facts: list[Fact]) -> Colours:
        about: dict[Element, list[tuple[Fact, int]]] = {e: [] for e in self.elements}
        for f in facts:
            for place, part in enumerate(f):
                if isinstance(part, tuple):
                    about[part].append((f, place))
        sorts = sorted({sort for sort, _ in self.elements})
        colours: Colours = {e: sorts.index(e[0]) for e in self.elements}
        number = len(set(colours.values()))
        while True:
            said = {
                e: (colours[e], tuple(sorted((at, *_coloured(f, colours)) for f, at in of)))
                for e, of in about.items()
            }
            order = {s: k for k, s in enumerate(sorted(set(said.values())))}
            colours = {e: order[s] for e, s in said.items()}
            if len(order) == number:
                return colours
            number = len(order)


def _coloured(f: Fact, colours: Colours) -> tuple[Any, ...]:
    return tuple(colours[p] if isinstance(p, tuple) else p for p in f)


def fact(name: str, kind: Type, at: Sequence[int], number: int) -> Fact:
    """The fact that an entry has a value."""
    keys = kind.keys if isinstance(kind, MapOf) else ()
    value = kind.value if isinstance(kind, MapOf) else kind
    named = [(k.name, n) if isinstance(k, SortOf) else n for k, n in zip(keys, at, strict=True)]
    return (name, *named, *_value(value, number))


def _value(kind: Type, number: int) -> tuple[Any, ...]:
    """A value: what it is, and whom it names (-1: nobody)."""
    within = 0
    while isinstance(kind, Option):
        kind, within = kind.of, within + 1
    if not isinstance(kind, SortOf):
        return (number, -1)
    return (within, (kind.name, number - within)) if number >= within else (number, -1)
