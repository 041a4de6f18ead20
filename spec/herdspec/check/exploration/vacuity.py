"""
Vacuity: an `always` that holds because what it speaks of never comes about.

`all(s.holder == c for c in Client if s.lease[c] == Lease.HELD)` says nothing of a system in which
nobody ever holds a lease. What a property speaks of, its *antecedent*, is read off its text: the
filters of `all`, what is negated in an `or` (`not a or b`, `a != b or c`, `x is None or …`), the
test of `b if a else True`, of `if a: return b` before `return True`, and of `if not a: return True`
at the beginning. Where the text shows no such thing, nothing is said.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from herdspec.check.exploration.numpy_engine import CHUNK, truths
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.language import graph as g
from herdspec.language.errors import SpecError
from herdspec.language.graph import Expr
from herdspec.language.reading.expressions import Notes, Scope, Whole
from herdspec.language.reading.source import function_of
from herdspec.language.rich import Place
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation
from herdspec.language.types import BOOL, MachineOf, SortOf

MOST = 200_000
"""Spaces of more states are not looked at: in those nearly everything comes about."""
FLIPPED = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}
"""Comparisons that deny something, and what they deny."""


@dataclass(frozen=True)
class Antecedent:
    """The antecedent of an `always`: its condition as written, its line, and the states with it."""

    text: str
    line: int
    formula: Expr


def vacuous(packing: Packing, rows: Words, most: int = MOST) -> dict[str, str]:
    """
    The `always` (and lemmas) of the packed spec that none of these states says anything of.

    By name, with a note that says which antecedent never holds. Where there are more states than
    `most`, nothing is looked at or said.
    """
    found: dict[str, str] = {}
    if len(rows) > most:
        return found
    for promise in packing.ground.spec.properties:
        known = antecedents(packing.ground.spec, promise)
        unmet = [a for a in known if not is_met(packing, rows, a)]
        if unmet:
            found[promise.name] = said(promise, unmet)
    return found


def is_met(packing: Packing, rows: Words, antecedent: Antecedent) -> bool:
    """Tells whether the antecedent holds in one of these states."""
    formula = packing.ground.lower(antecedent.formula, {})
    return any(
        truths(Columns(packing, rows[low : low + CHUNK]), formula).any()
        for low in range(0, len(rows), CHUNK)
    )


def said(promise: DeclaredProperty, unmet: Sequence[Antecedent]) -> str:
    """The note beside a verdict."""
    file = Path(promise.file).name
    which = ", nor ".join(f"`{a.text}` [{file}:{a.line}]" for a in unmet)
    return f"vacuous here: no state reached has {which}"


def antecedents(spec: Specification, promise: DeclaredProperty) -> tuple[Antecedent, ...]:
    """The antecedents of an `always`, as far as its text shows; none for other properties."""
    if promise.expectation is not Expectation.ALWAYS or promise.python.negated:
        return ()
    reader = _ConditionReader(spec, promise)
    body = reader.function.tree.body
    found = [reader.made(part, before) for part, before in parts_of(body)]
    # What the state does not decide (`if a != b`) says nothing of the states; nor does what is said
    # of elements that nothing else is about, where the promise as a whole is true of any.
    known = (a for a in found if a is not None and g.leaves(a.formula, "field"))
    return tuple(a for a in known if elements_in(a.formula) <= {*spec.sorts})


def elements_in(formula: Expr) -> set[str]:
    """The names of the sorts that a formula ranges over."""
    return {x.kind.name for x in g.leaves(formula, "var") if isinstance(x.kind, SortOf)}


@dataclass
class _ConditionReader:
    """Makes formulas of a property's conditions."""

    spec: Specification
    promise: DeclaredProperty

    def __post_init__(self) -> None:
        self.function = function_of(self.promise.python.function, self.spec.names)

    def made(self, part: Part, before: list[ast.stmt]) -> Antecedent | None:
        """The antecedent behind a part of the text; None where it cannot stand by itself."""
        body = [*before, ast.fix_missing_locations(ast.Return(part.truth))]
        tree = replace_body(self.function.tree, body)
        function, shape = replace(self.function, tree=tree), self.spec.shape
        state = Whole(
            Place("", (), MachineOf(shape)), shape.methods,
            {f.name: g.field(f.name, f.kind) for f in self.spec.fields},
        )  # fmt: skip
        assert state.fields is not None, "just given"
        names = {tree.args.args[0].arg: state}
        scope = Scope(function, dict(state.fields), dict(names), Notes())
        try:
            formula = scope.result(body, BOOL)
        except SpecError:
            return None
        assert isinstance(formula, Expr), "a truth value"
        return Antecedent(part.text, part.line, formula)


def replace_body(tree: ast.FunctionDef, body: list[ast.stmt]) -> ast.FunctionDef:
    """A copy of a function with other statements."""
    made = ast.FunctionDef(**{name: getattr(tree, name) for name in tree._fields})
    made.body = body
    return ast.copy_location(made, tree)


# ── The text ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Part:
    """An antecedent: the expression that is true where it holds, and how it is told."""

    truth: ast.expr
    text: str
    line: int

    @classmethod
    def of(cls, e: ast.expr) -> Part:
        """A condition as it is written."""
        return cls(e, ast.unparse(e), e.lineno)

    def under(self, outer: Part) -> Part:
        """This part where another condition holds, too."""
        truth = ast.copy_location(ast.BoolOp(ast.And(), [outer.truth, self.truth]), outer.truth)
        return Part(truth, f"{outer.text} and {self.text}", outer.line)


def parts_of(statements: list[ast.stmt]) -> Iterator[tuple[Part, list[ast.stmt]]]:
    """The antecedents of a body, each with the statements that stand before it."""
    for position, s in enumerate(statements):
        before, rest = statements[:position], statements[position + 1 :]
        match s:
            case ast.Return(value=ast.expr() as value):
                yield from ((part, before) for part in of(value))
                return
            case ast.If(test=test, body=[ast.Return(value=ast.expr() as value)], orelse=[]):
                if [*map(_returned, rest)] == [True]:
                    yield from ((part, before) for part in below(Part.of(test), of(value)))
                elif _returned(s.body[0]) is True:
                    inner = [part for part, _ in parts_of(rest)] if len(rest) == 1 else []
                    yield from ((part, before) for part in below(denied(test), inner))
                return
            case ast.If():
                return


def _returned(s: ast.stmt) -> bool | None:
    """The truth value that a statement returns, if it is a constant."""
    match s:
        case ast.Return(value=ast.Constant(value=bool() as value)):
            return value
    return None


def of(e: ast.expr) -> list[Part]:
    """The antecedents of an expression that is promised to be true."""
    match e:
        case ast.BoolOp(op=ast.And(), values=values):
            return [part for value in values for part in of(value)]
        case ast.BoolOp(op=ast.Or(), values=values):
            return _of_alternatives(values)
        case ast.IfExp(test=test, body=body, orelse=ast.Constant(value=True)):
            return below(Part.of(test), of(body))
        case ast.IfExp(test=test, body=ast.Constant(value=True), orelse=orelse):
            return below(denied(test), of(orelse))
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp(elt=body, generators=loops)]):
            return _of_all(body, loops)
    return []


def below(outer: Part, inner: list[Part]) -> list[Part]:
    """A condition with what stands under it; by itself where nothing does."""
    return [part.under(outer) for part in inner] or [outer]


def _of_alternatives(values: list[ast.expr]) -> list[Part]:
    """`not a or b`: what is denied is the antecedent, the rest what follows from it."""
    denials = [value for value in values if is_denial(value)]
    if not denials:
        return []
    if len(denials) == len(values):
        denials = denials[:1]  # `not a or not b`: the first is what it speaks of
    rest = [value for value in values if value not in denials]
    found = denied(denials[0])
    for value in denials[1:]:
        found = denied(value).under(found)
    return below(found, of(rest[0]) if len(rest) == 1 else [])


def is_denial(e: ast.expr) -> bool:
    """Tells whether an expression denies something: `not a`, `a != b`, `x is None`."""
    match e:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.Compare(ops=[op]):
            return type(op) in FLIPPED
    return False


def denied(e: ast.expr) -> Part:
    """The part that an expression denies."""
    match e:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Part.of(operand)
        case ast.Compare(left=left, ops=[ast.Is()], comparators=others):
            return Part.of(ast.copy_location(ast.Compare(left, [ast.IsNot()], others), e))
        case ast.Compare(left=left, ops=[op], comparators=others) if type(op) in FLIPPED:
            flipped = FLIPPED[type(op)]()
            return Part.of(ast.copy_location(ast.Compare(left, [flipped], others), e))
    return Part.of(ast.copy_location(ast.UnaryOp(ast.Not(), e), e))


def _of_all(body: ast.expr, loops: list[ast.comprehension]) -> list[Part]:
    """`all(b for x in X if a)`: for some x there is a, and what b speaks of."""
    words = [
        word
        for loop in loops
        for word in (
            *([f"{ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"] if _varies(loop) else []),
            *map(ast.unparse, loop.ifs),
        )
    ]
    inner = of(body)
    if not inner and words:
        inner = [Part(ast.copy_location(ast.Constant(True), body), "", body.lineno)]
    return [
        Part(
            _some(part.truth, loops),
            " and ".join(filter(None, [*words, part.text])),
            part.line,
        )
        for part in inner
    ]


def _varies(loop: ast.comprehension) -> bool:
    """Tells whether a loop runs over something that the state has: a set, a channel."""
    return isinstance(loop.iter, ast.Attribute | ast.Subscript)


def _some(truth: ast.expr, loops: list[ast.comprehension]) -> ast.expr:
    """`any(truth for …)` over the same loops."""
    generator = ast.GeneratorExp(truth, loops)
    return ast.copy_location(ast.Call(ast.Name("any", ast.Load()), [generator], []), truth)
