"""
Steps up to renaming: what is lowered once for all arguments that differ only by their names.

The elements of a sort are alike: the language can tell whether two are the same, and nothing else.
A step for other elements is therefore the same step with the elements exchanged, in the slots'
indices and wherever a constant stands for one. `Nameable` lowers so that both can be told;
`renamed` says of a choice of arguments what it shares with others, and what the names stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from herdspec.engine.ground import Ground
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.types import NAT, Key, MapOf, Option, SortOf, Type

Names = Mapping[str, Sequence[int]]
"""The elements that stand for those of each sort, and for the entries of each map to elements."""


@dataclass(frozen=True, slots=True)
class Element:
    """
    A name for an element: one of a sort, or an entry of a map of the arguments.

    As a value it may be `within` so many optional ones.
    """

    of: str
    number: int
    within: int = 0

    def named(self, names: Names) -> int:
        """The number of what it stands for."""
        return names[self.of][self.number] + self.within


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """A name for a slot's place: `first`, and so many steps for each of these elements."""

    first: int
    steps: tuple[tuple[Element, int], ...]

    def named(self, names: Names) -> int:
        """The place of the slot that it stands for."""
        return self.first + sum([names[e.of][e.number] * step for e, step in self.steps])


@dataclass(frozen=True)
class Nameable(Ground):
    """
    A ground spec in which it can be told what stands for an element: an `Element`, not a number.

    Two of a sort are the same or not. What an entry of a map of the arguments is, is not known: it
    is no constant, but a leaf (`given`), and may be an index of a slot.
    """

    _constants: dict[tuple[Type, Any], Expr] = field(default_factory=dict, repr=False)

    def constant(self, kind: Type, n: Any) -> Expr:
        """A ground constant (a truth value, a number, an element), or what stands for one."""
        found = self._constants.get((kind, n))
        if found is None:
            found = self._constants[kind, n] = self._constant(kind, n)
        return found

    def _constant(self, kind: Type, n: Any) -> Expr:
        if isinstance(n, Element):
            return g.node("given", NAT, data=n)
        sort, within = _sort(kind)
        if sort and n >= within:
            return g.const(NAT, Element(sort, n - within, within))
        return super().constant(kind, n)

    def position(self, kind: Key, index: Expr) -> Any:
        """Which of a key's values an index is, or which element stands for it."""
        if not isinstance(index.data, Element):
            return super().position(kind, index)
        return index.data.number if index.op == "const" else index.data

    def leaf(self, e: Expr, index: tuple[Any, ...]) -> Expr:
        """The slot of a field's entry."""
        if not any(isinstance(n, Element) for n in index):
            return super().leaf(e, index)
        like = super().leaf(e, tuple(0 if isinstance(n, Element) else n for n in index))
        return g.node(like.op, like.kind, data=(e.data, index))

    def plus_one(self, e: Expr) -> Expr:
        """A value as a present optional one."""
        return _moved(e, 1) if isinstance(e.data, Element) else super().plus_one(e)

    def minus_one(self, e: Expr, kind: Type) -> Expr:
        """The reverse of `plus_one`."""
        return _moved(e, -1) if isinstance(e.data, Element) else super().minus_one(e, kind)

    def place(self, index: tuple[Any, ...], kind: Type) -> AffineIndex:
        """Where a slot lies among those of its field, of this kind."""
        steps, step, first = [], 1, 0
        keys = kind.keys if isinstance(kind, MapOf) else ()
        for key, n in zip(reversed(keys), reversed(index), strict=True):
            if isinstance(n, Element):
                steps.append((n, step))
            elif isinstance(key, SortOf):
                steps.append((Element(key.name, n), step))
            else:
                first += n * step
            step *= self.values(key)
        return AffineIndex(first, tuple(steps))


def _moved(e: Expr, by: int) -> Expr:
    """An element within so many more optional values."""
    return g.node(e.op, NAT, data=replace(e.data, within=e.data.within + by))


def renamed(
    ground: Ground, parameters: Sequence[tuple[str, Expr]], arguments: Sequence[Any]
) -> tuple[tuple[Any, ...], Names]:
    """
    The arguments, shared with others that differ by renaming, and what the names stand for.

    The elements that they speak of come first; the entries of a map to elements have names.
    """
    given = [(name, p.kind, a) for (name, p), a in zip(parameters, arguments, strict=True)]
    sorts = _order(ground, given)
    back = {sort: dict(zip(of, range(len(of)), strict=True)) for sort, of in sorts.items()}
    names: dict[str, Sequence[int]] = {**sorts}
    shared: list[Any] = []
    for name, kind, argument in given:
        if not isinstance(kind, MapOf):
            shared.append(_value(kind, argument, back))
            continue
        indices = ground.indices(kind)
        entries = dict(zip(indices, argument, strict=True))
        stood_for = [
            entries[tuple([_value(k, n, sorts) for k, n in zip(kind.keys, i, strict=True)])]
            for i in indices
        ]
        sort, within = _sort(kind.value)
        if sort:
            names[f"{name}[]"] = [n - within for n in stood_for]
            shared.append(tuple([
                n if n < within else Element(f"{name}[]", k, within)
                for k, n in enumerate(stood_for)
            ]))  # fmt: skip
        else:
            shared.append(tuple(stood_for))
    return tuple(shared), names


def _order(ground: Ground, given: Iterable[tuple[str, Type, Any]]) -> dict[str, list[int]]:
    """The elements of each sort by what the arguments say of them, so that like comes to like."""
    said: dict[str, list[list[int]]] = {
        name: [[] for _ in range(ground.sizes[name])] for name in ground.spec.sorts
    }
    for _, kind, argument in given:
        if isinstance(kind, SortOf):
            for n, about in enumerate(said[kind.name]):
                about.append(n != argument)
        elif isinstance(kind, MapOf) and len(kind.keys) == 1:
            sort, _ = _sort(kind.keys[0])
            to, within = _sort(kind.value)
            for n, about in zip(argument, said.get(sort, ()), strict=False):
                about.append(min(n, within) if to else n)
    return {name: sorted(range(len(of)), key=of.__getitem__) for name, of in said.items()}


def _value(kind: Type, n: int, names: Names | Mapping[str, Mapping[int, int]]) -> int:
    """The number that a name of this type stands for; any other number stands for itself."""
    sort, within = _sort(kind)
    return names[sort][n - within] + within if sort and n >= within else n


def _sort(kind: Type) -> tuple[str, int]:
    """The sort that a value names an element of, or none, and within how many optional ones."""
    within = 0
    while isinstance(kind, Option):
        kind, within = kind.of, within + 1
    return (kind.name, within) if isinstance(kind, SortOf) else ("", within)
