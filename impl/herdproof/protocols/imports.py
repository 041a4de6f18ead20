"""
Digests the code of a protocol: its package, and all that it imports, however far away.

A verdict about code may be kept for as long as none of this changes. Packages are taken whole, so
that what is imported within a call, or by a name that is put together, counts as well. Of libraries
that are installed, the version counts.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

from herdproof.raised import is_installed
from herdspec.check.digest import hashed, versions

SUFFIXES = frozenset({".py", ".so", ".pyd"})
KEYED = frozenset({"herdproof", "herdspec"})
"""Packages that the key of every verdict about code knows anyway."""


def digest_of_imports(*modules: str) -> str:
    """The digest of these modules, and of all that they import; the standard library left out."""
    tops = sorted({module.partition(".")[0] for module in modules} - KEYED)
    own = {name for top in tops for name in _distributions().get(top, ())}
    return _digest_from(tops, own)


def digest_from(files: Iterable[Path], tops: Iterable[str]) -> str:
    """The digest of all that these files import, anywhere in them, and of these top-level names."""
    names = {name for file in files for name in _imports(file.read_bytes())}
    return _digest_from(sorted({*names, *tops}), own=())


def _digest_from(tops: Collection[str], own: Collection[str]) -> str:
    """Of these names and of all beyond; of a distribution that is not `own` its version counts."""
    found: dict[str, str] = {}
    todo = [*tops]
    while todo:
        top = todo.pop()
        if top in found or top in KEYED:
            continue
        distributions = {*_distributions().get(top, ())}
        places = _places(top)
        if top in sys.stdlib_module_names and all(map(is_installed, places)):
            continue  # a neighbour's file may have such a name, too
        if distributions and not distributions & {*own} and any(map(is_installed, places)):
            found[top] = versions(sorted(distributions))
            continue
        files = _files(places)
        texts = [(name, file.read_bytes()) for file, name in files]
        found[top] = hashed(*(part for name, text in texts for part in (name, text.hex())))
        todo += {name for _, text in texts for name in _imports(text)}
    return hashed("imports", *(part for pair in sorted(found.items()) for part in pair))


@cache
def _distributions() -> Mapping[str, Collection[str]]:
    """By top-level name, what is installed under it."""
    return packages_distributions()


def _places(top: str) -> list[Path]:
    """The file of a module, or the folders of a package; none if it is neither."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # `__main__`, for one
        return []
    if spec is None:
        return []
    return [Path(place) for place in spec.submodule_search_locations or (spec.origin,) if place]


def _files(places: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """The files of a module or package that can be imported, each with its place in it."""
    for place in places:
        if place.is_file():
            yield place, place.name
        elif place.is_dir():
            for file in sorted(place.rglob("*")):
                if file.suffix in SUFFIXES:
                    yield file, file.relative_to(place).as_posix()


@cache
def _imports(text: bytes) -> Collection[str]:
    """The top-level names that a file imports, anywhere in it."""
    try:
        return {*_imported(ast.parse(text))}
    except (SyntaxError, ValueError):  # it imports nothing, then: it cannot be imported
        return ()


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
