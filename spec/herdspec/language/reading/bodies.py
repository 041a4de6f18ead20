"""
Finds definitions that Python lets vanish: of two of one name in a body, only the last is there.

The text shows both. A module shows, too, what is marked as an action and belongs to no spec.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import FunctionType, ModuleType
from weakref import WeakSet

from herdspec.language.errors import SpecError
from herdspec.language.given import ALONE, MARK

READ: WeakSet[FunctionType] = WeakSet()
"""The functions that some spec, or a variant of one, has as its actions or helpers."""


def text_of(file: str) -> str:
    """A file's text as it stands now."""
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


@lru_cache(maxsize=64)
def tree_of(text: str) -> ast.Module:
    """A text's syntax tree, which whoever reads it leaves as it is."""
    return ast.parse(text)


def check_class(file: str, name: str, body: list[ast.stmt]) -> None:
    """Refuse two fields, actions or helpers of one name in a class, two parts in a record."""
    for member, lines in bound(body).items():
        if len(lines) > 1:
            raise _again(file, f"`{member}` in the class {name}", lines)


def check_alone(file: str, function: ast.FunctionDef) -> None:
    """Refuse a function whose name the body that it stands in binds again."""
    if lines := _bound_again(text_of(file)).get(function.lineno):
        raise _again(file, f"`{function.name}`", lines)


def check_module(module: ModuleType) -> None:
    """Refuse what a module defines and no spec will ever see."""
    file = module.__file__ or ""
    for name, lines in _hidden_properties(text_of(file)):
        raise _again(file, f"`{name}`", lines)
    for value in vars(module).values():
        own = isinstance(value, FunctionType) and value.__module__ == module.__name__
        if own and hasattr(value, MARK) and value not in READ:
            what = f"the action `{value.__name__}` outside of a spec"
            advice = "write it in the class, or make a variant with it: replace, add"
            raise SpecError(file, value.__code__.co_firstlineno, what, advice)


def _again(file: str, what: str, lines: list[int]) -> SpecError:
    """The error about a name's second definition."""
    found = f"{what} for the second time: it stands in line {lines[0]}, too"
    return SpecError(file, lines[1], found, "Python would keep the last; give each its own name")


def bound(body: list[ast.stmt]) -> dict[str, list[int]]:
    """Every name that a body binds, with the lines where it does."""
    found: dict[str, list[int]] = {}
    for s in body:
        for name in _names(s):
            found.setdefault(name, []).append(s.lineno)
    return found


def _names(s: ast.stmt) -> Iterator[str]:
    match s:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets, value=value):
            used = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            named = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            yield from (name for name in named if name not in used)  # f = always(f) keeps f
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (a.asname or a.name.partition(".")[0] for a in aliases)


@lru_cache(maxsize=64)
def _bound_again(text: str) -> Mapping[int, list[int]]:
    """The line of each function whose name its body binds more than once, with all such lines."""
    bodies = (getattr(node, "body", None) for node in ast.walk(tree_of(text)))
    return {
        s.lineno: lines
        for body in bodies
        if isinstance(body, list)
        for name, lines in bound(body).items()
        if len(lines) > 1
        for s in body
        if isinstance(s, ast.FunctionDef) and s.name == name
    }


@lru_cache(maxsize=64)
def _hidden_properties(text: str) -> list[tuple[str, list[int]]]:
    """The names that a module binds more than once, once of them to a property; their lines."""
    body = tree_of(text).body
    promised = {s.name for s in body if isinstance(s, ast.FunctionDef) and _is_property(s)}
    return [(n, lines) for n, lines in bound(body).items() if n in promised and len(lines) > 1]


def _is_property(function: ast.FunctionDef) -> bool:
    """Tells whether a function bears the decorator of a property."""
    return any(ast.unparse(d).rpartition(".")[2] in ALONE for d in function.decorator_list)
