"""
Mutants of the cores of system B: the code with one small mistake in one function, made by rule.

What is made is what `herdproof mutate` makes of a spec (`herdspec.check.mutation.mutants`), and
what code has besides: an early return that is never taken, a `case` without its guard, a change of
anybody's state. The mistake is made in the syntax tree of the module, which is compiled; then the
function's code is exchanged in memory, so that whoever holds the function has the mistake.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from herdproof.protocols import central_coordinator, election
from herdspec.check.mutation.mutants import Place, Places, dropped, negated

ROOM, ELECTION = Path(central_coordinator.__file__).parent, Path(election.__file__).parent
CORES = (
    *sorted((ROOM / "coordinator").rglob("*.py")),
    ROOM / "client" / "connector.py",
    ROOM / "client" / "consumer.py",
    ROOM / "client" / "server_cluster.py",
    ROOM / "client" / "topic_registry.py",
    ELECTION / "elector.py",
)
"""Modules without sockets, clocks or threads: all that decides."""
PACKAGES = ROOM.parents[2]
_WATCHED = "_value_that_is_watched"


@dataclass(frozen=True)
class Mutant:
    """
    One mistake. `id` names it by function and changed text, and by no line: it survives edits.

    `lines` are those of which one is run before the mistake can make a difference.
    """

    id: str
    file: Path
    function: str
    line: int
    lines: frozenset[int]
    operator: str
    _node: ast.AST = field(repr=False, compare=False)
    _new: ast.AST = field(repr=False, compare=False)

    def plant(self) -> None:
        """Make the mistake here, for ever: for processes that end after it."""
        self._put(self._new)

    def watch(self) -> Counter[bool]:
        """Make none, and count how often the mistake would have made a difference there, or not."""
        assert isinstance(self._node, ast.expr), "a statement has no value"
        assert isinstance(self._new, ast.expr)
        differs: Counter[bool] = Counter()
        is_test = self.operator in ("drop", "negate")

        def watched(value: Any, mistaken: Callable[[], Any]) -> Any:
            other = mistaken()
            differs[bool(value) is not bool(other) if is_test else value != other] += 1
            return value

        live(self.file, self.function).__globals__[_WATCHED] = watched
        nothing = ast.arguments([], [], None, [], [], None, [])
        self._put(
            ast.Call(
                ast.Name(_WATCHED, ast.Load()), [self._node, ast.Lambda(nothing, self._new)], []
            )
        )
        return differs

    def _put(self, new: ast.AST) -> None:
        exchange(parsed(self.file), self._node, new)
        whole = compile(parsed(self.file), self.file, "exec", dont_inherit=True)
        function = live(self.file, self.function)
        function.__code__ = next(
            code
            for code in codes(whole)
            if code.co_qualname == self.function
            and code.co_firstlineno == function.__code__.co_firstlineno
        )


def exchange(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put one node in the place of another, in the tree itself."""

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is old else self.generic_visit(node)

    ast.fix_missing_locations(Exchange().visit(tree))


@cache
def parsed(file: Path) -> ast.Module:
    """A module's syntax tree, always the same one."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def mutants() -> tuple[Mutant, ...]:
    """Every mutant of the cores, in the text's order."""
    return tuple(mutant for file in CORES for mutant in mutants_of(file))


def mutants_of(file: Path) -> Iterator[Mutant]:
    """The mutants of one module's functions and methods."""
    room = ELECTION if file.is_relative_to(ELECTION) else ROOM
    module = ".".join(file.relative_to(room).with_suffix("").parts)
    seen: dict[str, int] = {}
    for name, tree in functions(parsed(file)):
        for node, operator, text, new in CorePlaces(tree):
            wanted = f"{module}.{name}: {' '.join(text.split())}"
            seen[wanted] = seen.get(wanted, 0) + 1
            again = f" (#{seen[wanted]})" if seen[wanted] > 1 else ""
            yield Mutant(
                wanted + again, file, name, tree.lineno, lines_of(tree, node), operator, node, new
            )


def drawn(seed: int, number: int) -> list[Mutant]:
    """
    So many mutants by a seed, in an order that an edit of the code hardly changes.

    Each has its place by what it is; so what others edit brings or takes only what they edited.
    """
    return sorted(mutants(), key=lambda m: sha256(f"{seed} {m.id}".encode()).digest())[:number]


# ── Where mistakes are made ─────────────────────────────────────────────────────────────────


class CorePlaces(Places):
    """Everything that can be changed in one function of a core."""

    def places(self, node: ast.AST) -> Iterator[Place]:
        """The changes of a spec, and those that only code knows."""
        match node:
            case ast.If(test=test, body=[*_, ast.Return() | ast.Continue() | ast.Raise()]):
                yield dropped(test, neutral=False)
                yield negated(test)
            case ast.match_case(guard=ast.expr() as guard):
                yield dropped(guard, neutral=True)
                yield negated(guard)
            case ast.Assert():  # to drop what is always so changes nothing
                yield from (place for place in super().places(node) if place[1] != "drop")
            case _:
                yield from super().places(node)

    def changes(self, s: ast.stmt) -> bool:
        """Tells whether a statement changes anybody's state: cores hold each other's."""
        match s:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name("super"))))
            ):
                return False  # the code without it has no `__class__`, and is none of that function
            case ast.Delete(targets=[ast.Name()]):
                return False  # it says that an argument is not used
            case ast.Expr(value=ast.Call(func=ast.Attribute())) | ast.Delete():
                return True
        return super().changes(s)


def functions(tree: ast.Module | ast.ClassDef, within: str = "") -> Iterator[tuple[str, Any]]:
    """The functions and methods of a module, by their qualified names."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield within + name, node
            case ast.ClassDef(name=name):
                yield from functions(node, f"{within}{name}.")


def lines_of(tree: ast.FunctionDef, node: ast.AST) -> frozenset[int]:
    """The lines of a node, and those on which the statements around it begin."""
    inside: ast.AST | None = node
    above = {c: n for n in ast.walk(tree) for c in ast.iter_child_nodes(n)}
    place: Any = node
    found = set(range(place.lineno, place.end_lineno + 1))
    while inside is not None and not isinstance(inside, ast.stmt):
        inside = above.get(inside)
    return frozenset(found | ({inside.lineno} if isinstance(inside, ast.stmt) else set()))


# ── Functions that live ─────────────────────────────────────────────────────────────────────


def live(file: Path, name: str) -> FunctionType:
    """The function of this name, as it is in use."""
    module: ModuleType = import_module(
        ".".join(file.relative_to(PACKAGES).with_suffix("").parts).removesuffix(".__init__")
    )
    assert getsourcefile(module) == str(file), "the code that runs is the code that is looked at"
    found: Any = module
    for part in name.split("."):
        found = vars(found)[part]
    for inner in ("fget", "func", "__func__", "__wrapped__"):
        found = getattr(found, inner, found)
    assert isinstance(found, FunctionType), f"{name} is a function"
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    """All that was compiled within this."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)
