"""Refuses two sorts of one name: the readings know a sort by its name, Python by its class."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from herdspec.language.errors import SpecError
from herdspec.language.reading.source import Function
from herdspec.language.rich import parts
from herdspec.language.surface import Sort
from herdspec.language.types import MapOf, Option, SortOf, Type


def sorts_in(kinds: Iterable[Type]) -> Iterator[SortOf]:
    """The sorts that occur in types."""
    for kind in kinds:
        match kind:
            case SortOf():
                yield kind
            case Option(of=of):
                yield from sorts_in([of])
            case MapOf(keys=keys, value=value):
                yield from sorts_in([*keys, value])


def check_sorts(
    kinds: Iterable[Type], functions: Iterable[Function], place: tuple[str, int]
) -> None:
    """Refuse fields and functions which mean different classes by one name of a sort."""
    known: dict[str, type[Sort]] = {}
    for sort in sorts_in(kinds):
        if sort.cls and known.setdefault(sort.name, sort.cls) is not sort.cls:
            raise _twice(sort.name, *place)
    for function in functions:
        for cls in _seen_by(function):
            if known.setdefault(cls.__name__, cls) is not cls:
                raise _twice(cls.__name__, function.file, function.line)


def _seen_by(function: Function) -> Iterator[type[Sort]]:
    """The sorts of a function's parameters, and those that its body names."""
    for parameter in function.tree.args.args[1:]:
        try:
            kind = function.annotation(parameter, parameter.annotation)
        except SpecError:
            continue  # of a helper that is never called: nothing reads it
        yield from (s.cls for s in sorts_in(t for _, t in parts(kind)) if s.cls)
    for name in sorted(_names_in(function.tree)):
        try:
            found = function.lookup(name)
        except KeyError:
            continue
        if isinstance(found, type) and issubclass(found, Sort) and found is not Sort:
            yield found


def _twice(name: str, file: str, line: int) -> SpecError:
    return SpecError(file, line, f"two sorts of the name {name}", "give each its own name")


@lru_cache(maxsize=4096)
def _names_in(tree: ast.FunctionDef) -> frozenset[str]:
    # Not of annotations: Python does not evaluate these, and finds no local name for them.
    nodes = (n for s in tree.body for n in ast.walk(s))
    return frozenset(n.id for n in nodes if isinstance(n, ast.Name))
