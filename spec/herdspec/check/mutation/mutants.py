"""
Mutants of a spec: the same spec with one small mistake in one action or helper.

A mistake is made in the function's syntax tree: one node is replaced. The new text is compiled with
the names that the old function saw, and takes its place as any variant does (`replace`); so a
mutant runs in plain Python, is read into a graph, and is refused where it leaves the language, as
everything else. Lines are those of the original.

What is made: conditions dropped and negated, assignments and calls skipped (a message is looked at
and not taken), `<` and `<=` exchanged,
numbers one more or one less, `all` and `any` exchanged, fairness removed.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from types import CodeType, FunctionType
from typing import Any

from herdspec.language.reading.source import Function
from herdspec.language.specification import Specification

MARK = "__herdspec_action__"
"""Where the decorator `@action` notes what it was told."""
SHIFTED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
SWAPPED = {"all": "any", "any": "all"}


@dataclass(frozen=True)
class Mutant:
    """
    One mistake: `id` names it (in lists of reasons, too), `file` and `line` say where it is made.

    An id holds the function's name and the text that is changed, but no line: it survives edits
    elsewhere in the file.
    """

    id: str
    function: str
    operator: str
    file: str
    line: int
    make: Callable[[Specification], Callable[..., Any]] = field(repr=False, compare=False)

    def of(self, spec: Specification) -> Specification:
        """The spec with this mistake; raises `SpecError` where it leaves the language."""
        return spec.replace(spec.name, **{self.function: self.make(spec)})


def mutants(spec: Specification) -> list[Mutant]:
    """Every mutant of a spec's actions and of the helpers that they call, in the text's order."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for name in _reached(spec):
        function = spec.methods[name]
        for edit in [*_unfair(spec, name), *edits(function)]:
            wanted = f"{name}: {edit.text}"
            seen[wanted] = seen.get(wanted, 0) + 1
            again = f" (#{seen[wanted]})" if seen[wanted] > 1 else ""
            found.append(
                Mutant(wanted + again, name, edit.operator, function.file, edit.line, edit.make)
            )
    return found


def _reached(spec: Specification) -> list[str]:
    """The actions and what they call, in the order of the text."""
    todo = [a.name for a in (*spec.actions, *spec.starts)]
    found = set()
    while todo:
        name = todo.pop()
        if name in spec.methods and name not in found:
            found.add(name)
            calls = ast.walk(spec.methods[name].tree)
            todo += [n.attr for n in calls if isinstance(n, ast.Attribute)]
    return [name for name in spec.methods if name in found]


# ── Edits of a syntax tree ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Edit:
    """One change of one function, in words; `make` makes the function."""

    operator: str
    text: str
    line: int
    make: Callable[[Specification], Callable[..., Any]]


def edits(function: Function) -> Iterator[Edit]:
    """Every change of a function's body."""
    for node, operator, text, new in Places(function.tree):
        tree = _with(function.tree, node, new)
        yield Edit(operator, text, getattr(node, "lineno", function.line), _Making(function, tree))


Place = tuple[ast.AST, str, str, ast.AST]
"""A node, the name of what is done to it, the same in words, and what takes its place."""


class Places:
    """Everything that can be changed in one function, in the text's order."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.tree = tree
        self.owner = tree.args.args[0].arg if tree.args.args else ""
        self.is_test = isinstance(tree.returns, ast.Name) and tree.returns.id == "bool"
        self.above = {c: n for n in ast.walk(tree) for c in ast.iter_child_nodes(n)}

    def __iter__(self) -> Iterator[Place]:
        found = [p for s in self.tree.body for n in _walk(s) for p in self.places(n)]
        return iter(sorted(found, key=lambda p: (p[0].lineno, p[0].col_offset)))  # type: ignore[attr-defined]

    def places(self, node: ast.AST) -> Iterator[Place]:
        """The changes that can be made at one node."""
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id="require"), args=[test])):
                yield from _condition(test)
            case ast.Assert(test=test):
                yield from _condition(test)
            case ast.Return(value=ast.expr() as test) if self.is_test:
                yield from _condition(test)
            case ast.If(test=test) | ast.IfExp(test=test):
                yield negated(test)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield dropped(test, neutral=True)
            case ast.BoolOp(op=op, values=values):
                for value in values:
                    yield dropped(value, neutral=isinstance(op, ast.And))
            case ast.Compare():
                yield from _shifted(node)
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                yield from self._numbers(node, number)
            case ast.Call(func=ast.Name(id="all" | "any" as name)):
                new = copy.deepcopy(node)
                new.func = ast.Name(SWAPPED[name], ast.Load())
                yield node, "swap", _turned(node, new), new
            case ast.Call(func=ast.Attribute(value=queue, attr="pop"), args=[at]) if not isinstance(
                self.above[node], ast.Expr
            ):
                kept = ast.Subscript(queue, at, ast.Load())
                yield node, "skip", _turned(node, kept), kept
            case ast.stmt() if self.changes(node):
                yield node, "skip", f"skip `{said(node)}`", ast.Pass()

    def changes(self, s: ast.stmt) -> bool:
        """Tells whether a statement changes the state, by itself or by a helper."""
        match s:
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                return not isinstance(target, ast.Name)
            case ast.Expr(value=ast.Call(func=ast.Attribute() as called)):
                return self.owner in {n.id for n in ast.walk(called) if isinstance(n, ast.Name)}
        return False

    def _numbers(self, node: ast.Constant, number: int) -> Iterator[Place]:
        """One more and one less, told with the expression around it."""
        around = self.above[node]
        while not isinstance(around, ast.Compare | ast.BinOp | ast.stmt):
            around = self.above[around]
        for other in (number + 1, number - 1):
            if other >= 0:
                new = ast.Constant(other)
                yield node, "shift", _turned(around, _with(around, node, new)), new


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: annotations do not."""
    yield node
    for name, value in ast.iter_fields(node):
        if name != "annotation":
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child)


def _condition(test: ast.expr) -> Iterator[Place]:
    """A condition that stands alone is dropped; each of its conjuncts is negated."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        yield from (negated(value) for value in test.values)
    elif not isinstance(test, ast.Constant):
        yield dropped(test, neutral=True)
        yield negated(test)


def dropped(test: ast.expr, *, neutral: bool) -> Place:
    """A condition that counts no more: in its place stands what leaves the others as they are."""
    return test, "drop", f"drop `{said(test)}`", ast.Constant(neutral)


def negated(test: ast.expr) -> Place:
    """A condition that is turned round."""
    plain = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    new = test.operand if plain else ast.UnaryOp(ast.Not(), test)  # type: ignore[attr-defined]
    return test, "negate", f"negate `{said(test)}`", new


def _shifted(node: ast.Compare) -> Iterator[Place]:
    for k, op in enumerate(node.ops):
        if type(op) in SHIFTED:
            new = ast.Compare(node.left, [*node.ops], node.comparators)
            new.ops[k] = SHIFTED[type(op)]()
            yield node, "shift", _turned(node, new), new


def _turned(old: ast.AST, new: ast.AST) -> str:
    return f"`{said(old)}` becomes `{said(new)}`"


def said(node: ast.AST) -> str:
    """A node as text, without the second parentheses that `unparse` gives a lone generator."""
    text = ast.unparse(node)
    for name in SWAPPED:
        at = text.find(f"{name}((")
        while at >= 0:
            low = at + len(name) + 1
            high = _closing(text, low)
            text = text[:low] + text[low + 1 : high] + text[high + 1 :]
            at = text.find(f"{name}((", low)
    return text


def _closing(text: str, opening: int) -> int:
    """Where the parenthesis that opens here is closed."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    raise AssertionError("the text of a syntax tree closes what it opens")


def _with(tree: Any, target: ast.AST, new: ast.AST) -> Any:
    """A copy of a tree in which one node is another."""

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return made if node is found else self.generic_visit(node)

    kept: dict[int, Any] = {}
    twin = copy.deepcopy(tree, kept)
    found, made = kept[id(target)], copy.deepcopy(new)
    return ast.fix_missing_locations(Exchange().visit(twin))


# ── Functions from trees ────────────────────────────────────────────────────────────────────

_numbers = count(1)


@dataclass(frozen=True)
class _Making:
    """Compiles a changed function, with the names that the original sees."""

    function: Function
    tree: ast.FunctionDef

    def __call__(self, spec: Specification) -> Callable[..., Any]:
        del spec
        python = self.function.python
        assert isinstance(python, FunctionType), "the language takes plain functions only"
        cells = dict(zip(python.__code__.co_freevars, python.__closure__ or (), strict=True))
        code = self._code(list(cells))
        closure = tuple(cells[name] for name in code.co_freevars)
        made = FunctionType(code, python.__globals__, python.__name__, None, closure)
        made.__dict__.update(python.__dict__)
        made.__doc__, made.__annotations__ = python.__doc__, python.__annotations__
        made.__module__, made.__qualname__ = python.__module__, python.__qualname__
        return made

    def _code(self, enclosed: list[str]) -> CodeType:
        """The code object, its text where `linecache`, and so the translator, finds it."""
        tree = copy.deepcopy(self.tree)
        tree.decorator_list = []
        whole: ast.stmt = tree
        if enclosed:  # names of an enclosing function are enclosed here, too
            arguments = ast.arguments(
                [], [ast.arg(name) for name in enclosed], None, [], [], None, []
            )
            whole = ast.fix_missing_locations(_enclosing(arguments, tree))
        text = ast.unparse(whole) + "\n"
        file = f"<mutant {next(_numbers)} of {tree.name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return _found(compile(text, file, "exec", dont_inherit=True), tree.name)


def _enclosing(arguments: ast.arguments, tree: ast.FunctionDef) -> ast.FunctionDef:
    text = "def enclosing():\n    pass\n"
    made = ast.parse(text).body[0]
    assert isinstance(made, ast.FunctionDef), "the text above is a function"
    made.args, made.body = arguments, [tree]
    return made


def _found(code: CodeType, name: str) -> CodeType:
    """The code of a function of this name, at the top or within `enclosing`."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            return inner if inner.co_name == name else _found(inner, name)
    raise AssertionError(f"the text that was compiled defines {name}")


# ── Fairness ────────────────────────────────────────────────────────────────────────────────


def _unfair(spec: Specification, name: str) -> Iterator[Edit]:
    """An action that is promised to be taken in the end is not."""
    if any(a.name == name and a.fair for a in spec.actions):
        line = spec.methods[name].line
        yield Edit("unfair", "remove its fairness", line, _Unfair(name))


@dataclass(frozen=True)
class _Unfair:
    name: str

    def __call__(self, spec: Specification) -> Callable[..., Any]:
        python = spec.methods[self.name].python
        assert isinstance(python, FunctionType), "the language takes plain functions only"
        made = FunctionType(
            python.__code__, python.__globals__, python.__name__, None, python.__closure__
        )
        made.__dict__.update(python.__dict__)
        made.__doc__, made.__annotations__ = python.__doc__, python.__annotations__
        made.__module__, made.__qualname__ = python.__module__, python.__qualname__
        marks = (getattr(vars(base).get(self.name), MARK, None) for base in spec.state.__mro__)
        mark = next(m for m in marks if m is not None)
        setattr(made, MARK, replace(mark, fair=None))
        return made
