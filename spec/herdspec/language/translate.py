"""
From a function's syntax tree to the expression graph: what an action requires and what it changes.

A body is executed once, symbolically: fields and names stand for expressions over the state before
the step. `if` merges its branches, a loop over a sort is one simultaneous update, helper methods
are inlined. Whatever has no meaning in every reading is refused with its place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, EnumMeta
from types import FunctionType
from typing import Any

from herdspec.language import graph as g
from herdspec.language.errors import SpecError
from herdspec.language.graph import Expr
from herdspec.language.source import Function, function_of
from herdspec.language.surface import Property, Sort
from herdspec.language.types import BOOL, NAT, EnumOf, MapOf, Option, SortOf, Type, said

Fields = Mapping[str, Expr]
"""What each field stands for."""


@dataclass(frozen=True)
class Whole:
    """A name that stands for a state: its attributes are fields."""

    fields: Fields | None = None  # None: the state that the body is changing


@dataclass
class Body:
    """The execution of one function's body; `state` changes as its statements do."""

    function: Function
    methods: Mapping[str, Function]
    state: dict[str, Expr]
    names: dict[str, Expr | Whole]
    path: Expr = g.TRUE
    guard: Expr = g.TRUE
    reads: list[tuple[str, Expr, ast.AST]] = field(default_factory=list)
    depth: int = 0
    outer: frozenset[str] = frozenset()  # inside a loop: the names that stood before it

    def refuse(self, at: ast.AST, construct: str, advice: str) -> SpecError:
        """The error to raise about a construct here."""
        return self.function.refuse(at, construct, advice)

    # ── Statements ──────────────────────────────────────────────────────────────────────────

    def run(self, statements: list[ast.stmt]) -> None:
        """Execute statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, s: ast.stmt) -> None:
        """Execute one statement."""
        match s:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self.call_statement(call)
            case ast.Assert(test=test) if __debug__:  # under `python -O` it would guard nothing
                self.require(self.truth(test))
            case ast.Assign(targets=[target], value=value):
                self.assign(target, value)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self.assign(target, value)
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                self.assign(target, ast.copy_location(ast.BinOp(target, ast.Add(), value), s))
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(self.truth(test), body, orelse)
            case ast.Match(subject=subject, cases=cases):
                self.match(subject, cases)
            case ast.For(target=ast.Name(id=name), iter=source, body=body, orelse=[]):
                self.loop(name, self.sort(source), body)
            case ast.Return(value=None):
                raise self.refuse(s, "a bare return", "put the rest under an `if`")
            case _:
                what = f"the statement `{ast.unparse(s).splitlines()[0]}`"
                raise self.refuse(
                    s, what, "write assignments, require, if, match, or for over a sort"
                )

    def require(self, condition: Expr) -> None:
        """Add a guard, under the branches taken so far."""
        self.guard = g.conj(self.guard, g.implies(self.path, condition))

    def call_statement(self, call: ast.Call) -> None:
        """A call for its effect: `require`, or a helper method."""
        match call.func:
            case ast.Name(id="require") if len(call.args) == 1 and not call.keywords:
                self.require(self.truth(call.args[0]))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self.is_state(owner):
                self.inline(call, self.method(call, name))
            case _:
                what = f"the call `{ast.unparse(call)}`"
                raise self.refuse(call, what, "call require or a method of the spec")

    def inline(self, call: ast.Call, function: Function) -> None:
        """Execute a helper method in place."""
        inner = self.enter(call, function)
        inner.state, inner.reads = self.state, self.reads
        inner.path, inner.guard = self.path, self.guard
        inner.run(function.tree.body)
        self.guard = inner.guard

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Assign a name, a field or an entry of a field."""
        match target:
            case ast.Name(id=name):
                self.names[name] = self.local(target, name, self.value(value))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self.is_state(owner):
                kind = self.field(target, name).kind
                self.state[name] = self.fit(value, self.value(value, kind), kind)
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=owner), attr=name), slice=index
            ) if self.is_state(owner):
                table = self.field(target, name)
                if not isinstance(table.kind, MapOf):
                    raise self.refuse(target, f"an index into `{name}`", "it is no dict")
                at = self.fit(index, self.value(index), table.kind.key)
                entry = self.fit(value, self.value(value, table.kind.value), table.kind.value)
                self.state[name] = g.store(table, at, entry)
            case _:
                what = f"the assignment to `{ast.unparse(target)}`"
                raise self.refuse(target, what, "assign a name, self.field or self.field[index]")

    def local(self, at: ast.expr, name: str, found: Expr) -> Expr:
        """The value of a local name, which must mean the same in Python."""
        if isinstance(found.kind, MapOf):
            what = f"the name `{name}` for a whole map"
            raise self.refuse(at, what, "look its entries up in the field itself")
        if name in self.outer or isinstance(self.names.get(name), Whole):
            what = f"the assignment to `{name}`, a name from outside of the loop"
            raise self.refuse(at, what, "use a name of its own")
        return found

    def branch(self, test: Expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        """Execute both branches, and let each field be what its branch made of it."""
        path, state, names = self.path, self.state, self.names
        self.path, self.state, self.names = g.conj(path, test), dict(state), dict(names)
        self.run(body)
        then, then_names = self.state, self.names
        self.path, self.state = g.conj(path, g.negate(test)), dict(state)
        self.names = dict(names)
        self.run(orelse)
        # The state is changed in place: the caller of an inlined helper holds the same one.
        for name in state:
            state[name] = g.ite(test, then[name], self.state[name])
        merged: dict[str, Expr | Whole] = {}  # what is not the same on both paths has no meaning
        for name in then_names.keys() & self.names.keys():
            a, b = then_names[name], self.names[name]
            if isinstance(a, Whole):
                merged[name] = a
            elif isinstance(b, Expr) and a.kind == b.kind:
                merged[name] = g.ite(test, a, b)
        self.path, self.state, self.names = path, state, merged

    def match(self, subject: ast.expr, cases: list[ast.match_case]) -> None:
        """A `match` over an enum, as a chain of branches."""
        if not cases:
            return
        first, rest = cases[0], cases[1:]
        if first.guard is not None:
            raise self.refuse(first.pattern, "a guard of a case", "use an `if` inside the case")
        if isinstance(first.pattern, ast.MatchAs) and first.pattern.name is None:
            self.run(first.body)
            return
        test = self.matches(subject, first.pattern)
        if not rest:
            self.branch(test, first.body, [])
        else:
            tail = ast.copy_location(ast.Match(subject, rest), first.pattern)
            self.branch(test, first.body, [tail])

    def matches(self, subject: ast.expr, pattern: ast.pattern) -> Expr:
        """Whether the subject is one of the pattern's members."""
        match pattern:
            case ast.MatchValue(value=value):
                return self.equal(subject, value)
            case ast.MatchOr(patterns=patterns):
                return g.disj(*(self.matches(subject, p) for p in patterns))
        raise self.refuse(pattern, "this pattern", "match members of an Enum")

    def loop(self, name: str, sort: SortOf, body: list[ast.stmt]) -> None:
        """All turns at once: each writes its own entries, and reads what stood before."""
        if name in self.names:
            raise self.refuse(body[0], f"a loop over the known name `{name}`", "use another name")
        turn = g.fresh(name, sort)
        before, guard, reads = dict(self.state), self.guard, self.reads
        names, outer = dict(self.names), self.outer
        self.outer = frozenset(names)
        self.names[name], self.guard, self.reads = turn, g.TRUE, []
        self.run(body)
        changed = {f for f in before if self.state[f] is not before[f]}
        for read, at, where in self.reads:
            if read in changed and at is not turn:
                what = f"reading `{read}` of another turn of the loop, which writes it"
                raise self.refuse(where, what, "keep the old values in a map of their own")
        for f in changed:
            if not _writes_only(self.state[f], before[f], turn):
                what = f"the loop's assignment to `{f}`"
                raise self.refuse(body[0], what, f"assign self.{f}[{name}], nothing else of it")
            self.state[f] = g.lam(turn, g.select(self.state[f], turn))
        self.guard = g.conj(guard, g.forall(turn, self.guard))
        reads += self.reads  # in place: the caller of an inlined helper holds the same list
        self.names, self.outer, self.reads = names, outer, reads

    # ── Expressions ─────────────────────────────────────────────────────────────────────────

    def truth(self, e: ast.expr) -> Expr:
        """An expression that must be true or false."""
        found = self.value(e)
        if found.kind != BOOL:
            what = f"`{ast.unparse(e)}`, a {said(found.kind)}, as a condition"
            raise self.refuse(e, what, "compare it with something")
        return found

    def value(self, e: ast.expr, want: Type | None = None) -> Expr:
        """What an expression stands for; `want` tells the type of a `None`."""
        match e:
            case ast.Constant(value=value):
                return self.constant(e, value, want)
            case ast.Name(id=name):
                return self.name(e, name)
            case ast.Attribute():
                return self.attribute(e)
            case ast.Subscript(value=table, slice=index):
                return self.lookup(e, table, index)
            case ast.BoolOp(op=op, values=values):
                join = g.conj if isinstance(op, ast.And) else g.disj
                return join(*map(self.truth, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return g.negate(self.truth(operand))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                pairs = zip([left, *comparators], ops, comparators, strict=False)
                return g.conj(*(self.compare(a, op, b) for a, op, b in pairs))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                a = self.value(body, want)
                a = self.fit(body, a, want) if want else a
                return self.choose(self.truth(test), a, orelse)
            case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=int(amount))) if (
                not isinstance(amount, bool)
            ):
                return g.add(self.fit(left, self.value(left), NAT), amount)
            case ast.Call():
                return self.call(e)
            case ast.DictComp(key=ast.Name(id=key), value=body, generators=[turn]):
                return self.table(e, key, body, turn, want)
        raise self.refuse(
            e, f"the expression `{ast.unparse(e)}`", "see docs/language.md for what may be written"
        )

    def constant(self, e: ast.expr, value: Any, want: Type | None) -> Expr:
        """A constant, at its type."""
        if isinstance(value, Enum):
            return g.const(EnumOf(type(value)), list(type(value)).index(value))
        if isinstance(value, bool):
            return g.boolean(value)
        if isinstance(value, int) and value >= 0:
            return g.const(NAT, value)
        if value is None and isinstance(want, Option):
            return g.none(want)
        raise self.refuse(e, f"the constant {value!r}", "use bools, naturals and members of Enums")

    def name(self, e: ast.expr, name: str) -> Expr:
        """What a name stands for."""
        found = self.names.get(name)
        if isinstance(found, Expr):
            return found
        if found is not None:
            raise self.refuse(e, "a whole state as a value", "name one of its fields")
        try:
            return self.constant(e, self.function.lookup(name), None)
        except KeyError:
            raise self.refuse(e, f"the unknown name `{name}`", "define it first") from None

    def attribute(self, e: ast.Attribute) -> Expr:
        """A field of a state, or a member of an enum."""
        if isinstance(e.value, ast.Name):
            owner = self.names.get(e.value.id)
            if isinstance(owner, Whole):
                return self.field(e, e.attr, owner)
            try:
                holder = self.function.lookup(e.value.id)
            except KeyError:
                holder = None
            if isinstance(holder, EnumMeta) and e.attr in holder.__members__:
                return self.constant(e, holder[e.attr], None)
        raise self.refuse(
            e, f"the attribute `{ast.unparse(e)}`", "use fields of the state and members of Enums"
        )

    def field(self, at: ast.AST, name: str, owner: Whole | None = None) -> Expr:
        """What a field stands for."""
        fields = self.state if owner is None or owner.fields is None else owner.fields
        if name not in fields:
            raise self.refuse(at, f"the unknown field `{name}`", f"known: {', '.join(fields)}")
        return fields[name]

    def lookup(self, e: ast.expr, table: ast.expr, index: ast.expr) -> Expr:
        """An entry of a map; an index must be there."""
        found = self.value(table)
        if not (isinstance(found.kind, MapOf) and isinstance(table, ast.Attribute)):
            raise self.refuse(e, f"an index into `{ast.unparse(table)}`", "it is no dict")
        at = self.value(index)
        if isinstance(at.kind, Option):
            what = f"`{ast.unparse(index)}`, which may be absent, as an index"
            raise self.refuse(
                e, what, "take it as a parameter: require(self.field == x), then use x"
            )
        at = self.fit(index, at, found.kind.key)
        if isinstance(table, ast.Attribute):
            self.reads.append((table.attr, at, e))
        return g.select(found, at)

    def compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
        """One comparison of a chain."""
        match op:
            case ast.Is() | ast.IsNot() if not _is_none(left) and not _is_none(right):
                raise self.refuse(left, "`is` between values", "use == and !=; `is` is for None")
            case ast.Eq() | ast.Is():
                return self.equal(left, right)
            case ast.NotEq() | ast.IsNot():
                return g.negate(self.equal(left, right))
            case ast.In() | ast.NotIn() if isinstance(right, ast.Tuple | ast.Set | ast.List):
                among = g.disj(*(self.equal(left, member) for member in right.elts))
                return among if isinstance(op, ast.In) else g.negate(among)
            case ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE():
                a = self.fit(left, self.value(left), NAT)
                b = self.fit(right, self.value(right), NAT)
                if isinstance(op, ast.Gt | ast.GtE):
                    a, b = b, a
                return g.lt(a, b) if isinstance(op, ast.Lt | ast.Gt) else g.le(a, b)
        raise self.refuse(left, f"the comparison {type(op).__name__}", "use ==, <, is None, or in")

    def equal(self, left: ast.expr, right: ast.expr) -> Expr:
        """Equality; a plain value can equal an optional one."""
        if _is_none(left):
            left, right = right, left
        a = self.value(left)
        if isinstance(a.kind, MapOf):
            what = f"`{ast.unparse(left)}`, a whole map, in a comparison"
            raise self.refuse(left, what, "compare entries: all(… for x in Sort)")
        if _is_none(right):
            if not isinstance(a.kind, Option):
                raise self.refuse(right, f"None compared with a {said(a.kind)}", "it is never None")
            return g.eq(a, g.none(a.kind))
        b = self.value(right)
        if isinstance(b.kind, Option):
            return g.eq(self.fit(left, a, b.kind), b)
        return g.eq(a, self.fit(right, b, a.kind))

    def choose(self, test: Expr, a: Expr, orelse: ast.expr) -> Expr:
        """A conditional expression."""
        return g.ite(test, a, self.fit(orelse, self.value(orelse, a.kind), a.kind))

    def call(self, e: ast.Call) -> Expr:
        """A quantifier, or a helper that returns a value."""
        match e.func:
            case ast.Name(id="all" | "any" as name) if len(e.args) == 1 and not e.keywords:
                if isinstance(e.args[0], ast.GeneratorExp):
                    return self.quantify(name, e.args[0])
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if isinstance(
                self.names.get(owner), Whole
            ):
                return self.returned(e, self.method(e, name))
            case ast.Name(id=name):
                try:
                    helper = self.function.lookup(name)
                except KeyError:
                    helper = None
                if isinstance(helper, FunctionType):
                    return self.returned(e, function_of(helper, self.function.names))
        what = f"the call `{ast.unparse(e)}`"
        raise self.refuse(e, what, "call all, any over a sort, or a helper that returns a value")

    def returned(self, call: ast.Call, function: Function) -> Expr:
        """The value that a helper returns, without any effect."""
        inner = self.enter(call, function)
        kind = function.annotation(call, function.tree.returns)
        found = inner.result(function.tree.body, kind)
        self.reads += inner.reads
        return found

    def result(self, statements: list[ast.stmt], kind: Type) -> Expr:
        """The value of the first `return` that is reached."""
        for position, s in enumerate(statements):
            match s:
                case ast.Return(value=ast.expr() as value):
                    return self.fit(value, self.value(value, kind), kind)
                case ast.If(test=test, body=body, orelse=orelse):
                    rest = statements[position + 1 :]
                    decided = self.truth(test)
                    yes = replace(self, names=dict(self.names)).result(body + rest, kind)
                    no = replace(self, names=dict(self.names)).result(orelse + rest, kind)
                    return g.ite(decided, yes, no)
                case ast.Assign(targets=[ast.Name()]) | ast.Expr(value=ast.Constant()):
                    self.statement(s)
                case _:
                    what = "a helper that returns a value and does something else"
                    raise self.refuse(s, what, "split it in two: one changes, one returns")
        raise self.refuse(self.function.tree, "a helper that may not return", "end it by a return")

    def quantify(self, name: str, e: ast.GeneratorExp) -> Expr:
        """`all` or `any` over a generator."""
        return self.generators(name, e.elt, list(e.generators))

    def generators(self, name: str, body: ast.expr, turns: list[ast.comprehension]) -> Expr:
        """The quantifiers of a generator, from the outermost."""
        if not turns:
            return self.truth(body)
        turn, rest = turns[0], turns[1:]
        if not isinstance(turn.target, ast.Name):
            raise self.refuse(turn.target, "this loop variable", "use one name")
        bound = g.fresh(turn.target.id, self.sort(turn.iter))
        inner = replace(self, names={**self.names, turn.target.id: bound})
        kept = g.conj(*map(inner.truth, turn.ifs))
        found = inner.generators(name, body, rest)
        if name == "all":
            return g.forall(bound, g.implies(kept, found))
        return g.exists(bound, g.conj(kept, found))

    def table(
        self, e: ast.expr, key: str, body: ast.expr, turn: ast.comprehension, want: Type | None
    ) -> Expr:
        """A map written as a comprehension."""
        if not isinstance(turn.target, ast.Name) or turn.target.id != key or turn.ifs:
            raise self.refuse(e, "this comprehension", "write {x: value for x in Sort}")
        bound = g.fresh(key, self.sort(turn.iter))
        inner = replace(self, names={**self.names, key: bound})
        if not isinstance(want, MapOf):
            raise self.refuse(e, "a whole map here", "assign it to a field")
        return g.lam(bound, inner.fit(body, inner.value(body, want.value), want.value))

    # ── Names and types ─────────────────────────────────────────────────────────────────────

    def is_state(self, name: str) -> bool:
        """Whether a name stands for the state that is being changed."""
        owner = self.names.get(name)
        return isinstance(owner, Whole) and owner.fields is None

    def method(self, at: ast.AST, name: str) -> Function:
        """A helper of the spec."""
        if name not in self.methods:
            raise self.refuse(at, f"the unknown method `{name}`", "define it in the spec")
        return self.methods[name]

    def enter(self, call: ast.Call, function: Function) -> Body:
        """The body of a helper, its parameters bound to the call's arguments."""
        if self.depth > 20:
            raise self.refuse(call, f"`{function.name}`, which calls itself", "unroll it")
        parameters = function.tree.args.args
        method = isinstance(call.func, ast.Attribute)
        if method and not parameters:
            raise function.refuse(function.tree, "a method without `self`", "add it")
        names: dict[str, Expr | Whole] = {}
        state = self.state
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            whole = self.names[call.func.value.id]
            names[parameters[0].arg] = Whole()
            state = dict(whole.fields) if isinstance(whole, Whole) and whole.fields else state
        given = parameters[1:] if method else parameters
        if call.keywords or len(given) != len(call.args):
            what = f"{len(call.args)} arguments for `{function.name}`"
            raise self.refuse(call, what, f"give {len(given)}, by position")
        for parameter, argument in zip(given, call.args, strict=True):
            owner = self.names.get(argument.id) if isinstance(argument, ast.Name) else None
            if isinstance(owner, Whole):
                names[parameter.arg] = owner
                continue
            kind = function.annotation(parameter, parameter.annotation)
            if isinstance(kind, MapOf):
                what = f"the parameter `{parameter.arg}`, a whole map"
                raise function.refuse(parameter, what, "look its entries up in the field itself")
            names[parameter.arg] = self.fit(argument, self.value(argument, kind), kind)
        return Body(function, self.methods, state, names, depth=self.depth + 1)

    def sort(self, e: ast.expr) -> SortOf:
        """The sort that a loop runs over."""
        if isinstance(e, ast.Name):
            try:
                found = self.function.lookup(e.id)
            except KeyError:
                found = None
            if isinstance(found, type) and issubclass(found, Sort):
                return SortOf(found.__name__)
        raise self.refuse(e, f"a loop over `{ast.unparse(e)}`", "loop over a Sort")

    def fit(self, at: ast.AST, found: Expr, kind: Type) -> Expr:
        """The expression at a type; a plain value fits where an optional one is wanted."""
        if found.kind == kind:
            return found
        if isinstance(kind, Option) and found.kind == kind.of:
            return g.some(found)
        what = f"`{ast.unparse(at)}`, a {said(found.kind)}"
        raise self.refuse(at, what, f"a {said(kind)} is wanted here")


def _is_none(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and e.value is None


def _writes_only(after: Expr, before: Expr, turn: Expr) -> bool:
    """Whether a map differs from what it was at no other index than this."""
    if after is before:
        return True
    if after.op == "store" and after.args[1] is turn:
        return _writes_only(after.args[0], before, turn)
    if after.op == "ite":
        return all(_writes_only(a, before, turn) for a in after.args[1:])
    return False


Parameter = tuple[str, Expr]


def execute(
    function: Function, methods: Mapping[str, Function], fields: Fields
) -> tuple[tuple[Parameter, ...], Expr, dict[str, Expr]]:
    """An action's parameters, its guard, and what becomes of the fields that it changes."""
    parameters = function.tree.args.args
    if not parameters:
        raise function.refuse(function.tree, "an action without `self`", "write a method")
    given: list[Parameter] = []
    for parameter in parameters[1:]:
        kind = function.annotation(parameter, parameter.annotation)
        if not isinstance(kind, SortOf | EnumOf) and kind != BOOL:
            what = f"the parameter `{parameter.arg}`, a {said(kind)}"
            raise function.refuse(parameter, what, "choose from a Sort, an Enum or bool")
        given.append((parameter.arg, g.variable(parameter.arg, kind)))
    names: dict[str, Expr | Whole] = {parameters[0].arg: Whole(), **dict(given)}
    body = Body(function, methods, dict(fields), names)
    body.run(function.tree.body)
    updates = {name: new for name, new in body.state.items() if new is not fields[name]}
    return tuple(given), body.guard, updates


def read_off(
    python: Callable[..., object],
    kind: Type,
    methods: Mapping[str, Function],
    fields: Fields,
    names: Mapping[str, Any],
) -> Expr:
    """A function of a state (and of an element, for a map) as an expression of this type."""
    function = function_of(python, names)
    owner, *elements = function.tree.args.args
    if len(elements) != isinstance(kind, MapOf):
        raise function.refuse(function.tree, "its parameters", "take the state, and an element")
    known: dict[str, Expr | Whole] = {owner.arg: Whole(fields)}
    body = Body(function, methods, dict(fields), known)
    if not isinstance(kind, MapOf):
        return body.result(function.tree.body, kind)
    bound = g.fresh(elements[0].arg, kind.key)
    known[elements[0].arg] = bound
    return g.lam(bound, body.result(function.tree.body, kind.value))


def evaluate(
    promise: Property, methods: Mapping[str, Function], states: tuple[Fields, ...],
    names: Mapping[str, Any],
) -> tuple[Function, Expr]:  # fmt: skip
    """A property's function and its expression over one state, or over two for a step."""
    function = function_of(promise.function, names)
    parameters = function.tree.args.args
    if len(parameters) != len(states):
        what = f"a property of {len(parameters)} states"
        raise function.refuse(
            function.tree, what, f"{promise.expectation.value} takes {len(states)}"
        )
    owners: dict[str, Expr | Whole] = {
        p.arg: Whole(state) for p, state in zip(parameters, states, strict=True)
    }
    body = Body(function, methods, dict(states[0]), owners)
    return function, body.result(function.tree.body, BOOL)
