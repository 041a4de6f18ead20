"""
Digests: when two specs (or two formulas) say the same, and when a verdict may therefore be kept.

A digest is made of what a spec *is*: its fields, actions, properties and their sentences, as graph.
It knows no paths, line numbers, hash seeds or counters of this process: bound variables are told
apart by their depth, the two sides of an equality have no order. Two processes, on two machines,
come to the same digest of the same spec; whoever changes a guard, a sentence or a type changes it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from herdspec.language.graph import Expr
from herdspec.language.specification import ANY, Specification

BINDERS = ("all", "any", "lam", "number")
"""Operators whose last argument is a body, and whose others are the variables bound in it."""
PLACES = ("file", "line", "python", "methods", "names", "shape", "state")
"""Attributes of a spec beside what it says: where it was read, and the Python that read it."""
SOLVERS = ("numpy", "scipy", "llvmlite", "z3-solver", "cvc5")
"""The libraries that verdicts rest on."""


def digest(spec: Specification) -> str:
    """A spec's digest: 64 hexadecimal digits, the same in every process and at every path."""
    return digest_of(spec)


def digest_of(*values: Any) -> str:
    """The digest of plain values, expressions, types, and dataclasses and collections of them."""
    return hashed("values", *map(_digester().of, values))


@cache
def _digester() -> Digester:
    """The digester of this process: specs share most of their expressions, which live for ever."""
    return Digester()


def hashed(*parts: str) -> str:
    """One digest of several texts; where each of them ends makes a difference."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.hexdigest()


class Digester:
    """Makes digests of values that share expressions: each shared expression is read once."""

    def __init__(self) -> None:
        self._free: dict[Expr, frozenset[Expr]] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        self._kinds: dict[Any, str] = {}

    def of(self, value: Any) -> str:
        """The digest of one value; raises `TypeError` for what has no stable one."""
        match value:
            case Expr():
                return self.expression(value, {})
            case Enum():
                return hashed("member", type(value).__name__, value.name, self.of(value.value))
            case type():
                return self._class(value)
            case _ if value is ANY:
                return hashed("any value")
            case None | bool() | int() | float() | str() | bytes():
                return hashed(type(value).__name__, repr(value))
            case Mapping():
                entries = (hashed(self.of(k), self.of(v)) for k, v in value.items())
                return hashed("mapping", *sorted(entries))
            case set() | frozenset():
                return hashed("set", *sorted(map(self.of, value)))
            case list() | tuple():
                return hashed("sequence", *map(self.of, value))
        if is_dataclass(value):
            return self._dataclass(value)
        raise TypeError(f"there is no stable digest of {type(value).__name__}: {value!r}")

    def _class(self, cls: type[Any]) -> str:
        """A type that a spec names: an enum by its members, anything else by its name."""
        members = [(m.name, m.value) for m in cls] if issubclass(cls, Enum) else []
        return hashed("class", cls.__name__, self.of(members))

    def _dataclass(self, value: Any) -> str:
        parts = [type(value).__name__]
        for f in fields(value):
            if f.compare and f.name not in PLACES:
                parts += [f.name, self.of(getattr(value, f.name))]
        return hashed("dataclass", *parts)

    # ── Expressions ─────────────────────────────────────────────────────────────────────────

    def expression(self, e: Expr, levels: Mapping[Expr, int]) -> str:
        """The digest of an expression; `levels` numbers the variables that are bound around it."""
        free = self.free(e)
        seen = {v: levels[v] for v in free if v in levels}
        key = (e, frozenset(seen.items()))
        if key not in self._known:
            self._known[key] = self._expression(e, seen)
        return self._known[key]

    def _expression(self, e: Expr, levels: dict[Expr, int]) -> str:
        if e in levels:
            return hashed("bound", str(levels[e]), self.kind(e))
        if e.op in BINDERS:
            return self._binder(e, levels)
        parts = [self.expression(a, levels) for a in e.args]
        if e.op == "eq":
            parts.sort()
        return hashed("node", e.op, self.kind(e), self.of(e.data), *parts)

    def _binder(self, e: Expr, levels: dict[Expr, int]) -> str:
        *bound, body = e.args
        inner = dict(levels)
        for variable in bound:
            inner[variable] = 1 + max(inner.values(), default=-1)
        kinds = [self.kind(v) for v in bound]
        return hashed("binder", e.op, *kinds, self.expression(body, inner))

    def kind(self, e: Expr) -> str:
        """The digest of an expression's type."""
        if e.kind not in self._kinds:
            self._kinds[e.kind] = self.of(e.kind)
        return self._kinds[e.kind]

    def free(self, e: Expr) -> frozenset[Expr]:
        """The variables that occur in an expression and are not bound within it."""
        if e not in self._free:
            if e.op == "var":
                found = frozenset((e,))
            elif e.op in BINDERS:
                found = self.free(e.args[-1]) - frozenset(e.args[:-1])
            else:
                found = frozenset[Expr]().union(*map(self.free, e.args))
            self._free[e] = found
        return self._free[e]


# ── What verdicts rest on beside the spec ───────────────────────────────────────────────────


@cache
def engine() -> str:
    """The digest of the checkers themselves: herdspec's sources, Python, and the solvers."""
    import herdspec

    root = Path(herdspec.__file__).parent
    parts = [sources(root / part) for part in ("language", "engine", "check")]
    python = ".".join(map(str, sys.version_info[:3]))
    return hashed("engine", python, *parts, *map(installed, SOLVERS))


@cache
def sources(folder: Path) -> str:
    """The digest of all Python files below a folder: their places in it and their texts."""
    found: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        found += [path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")]
    return hashed("sources", *found)


def installed(library: str) -> str:
    """A library with its version, or that it is not there."""
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return f"{library} absent"


def versions(libraries: Iterable[str]) -> str:
    """The versions of these libraries, as text."""
    return ", ".join(map(installed, libraries))
