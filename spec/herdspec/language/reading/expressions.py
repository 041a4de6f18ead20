"""
From an expression's syntax tree to the graph: what a piece of Python stands for in a state.

A `Scope` knows the names, the state and the conditions under which an expression is evaluated.
What must be there for it to mean anything (an optional value that is looked into, a bounded number
that must fit) is noted as an obligation under these conditions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, EnumMeta
from operator import methodcaller
from types import FunctionType
from typing import Any

from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.errors import SpecError
from herdspec.language.graph import Expr
from herdspec.language.outside import Seen
from herdspec.language.reading import calls, channels, quantifiers, sets
from herdspec.language.reading.source import Function, function_of
from herdspec.language.rich import Fields, Place, Struct, Value
from herdspec.language.surface import empty, require
from herdspec.language.types import (
    BOOL,
    INT,
    NAT,
    ChannelOf,
    EnumOf,
    Key,
    MachineOf,
    MapOf,
    Option,
    OptionalRecord,
    Range,
    RecordOf,
    Rich,
    SetOf,
    Table,
    Type,
    is_number,
    is_scalar,
    said,
)

WORDS: Mapping[str, Any] = {
    "all": all, "any": any, "sum": sum, "len": len, "min": min, "max": max, "range": range,
    "set": set, "require": require, "empty": empty,
}  # fmt: skip
"""Names that the language itself gives a meaning; a module may have its own of that name."""


@dataclass(frozen=True)
class Whole:
    """A name that stands for a state, or for a machine in it: its attributes are fields."""

    place: Place
    methods: Mapping[str, Function]
    fields: Fields | None = None  # None: the state that the body is changing


@dataclass
class Notes:
    """Notes of what is found on the way, of one action or property; shared by all its scopes."""

    relational: bool = False
    defined: list[Expr] = field(default_factory=list)
    fits: list[Expr] = field(default_factory=list)
    branches: list[tuple[int, Expr]] = field(default_factory=list)
    guards: list[Expr] = field(default_factory=list)
    demands: list[Expr] = field(default_factory=list)  # by asserts of helpers with a value
    invented: list[tuple[str, Expr]] = field(default_factory=list)
    heads: dict[tuple[str, tuple[Expr, ...]], Expr] = field(default_factory=dict)
    counts: dict[tuple[Expr, tuple[Expr, ...], int], Expr] = field(default_factory=dict)
    seen: dict[Any, Seen] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)  # fields that may hold one set under two names
    inlined: set[Function] = field(default_factory=set)
    file: str = ""  # the action's: what stands in another one has no branches of its own

    def invent(self, name: str, kind: Key) -> Expr:
        """A further parameter of the action."""
        made = g.variable(f"{name}{len(self.invented) + 1}", kind)
        self.invented.append((made.data, made))
        return made


@dataclass
class Scope:
    """Where an expression is evaluated."""

    function: Function
    state: dict[str, Expr]
    names: dict[str, Value | Whole]
    notes: Notes = field(default_factory=Notes)
    path: Expr = g.TRUE
    guard: Expr = g.TRUE
    binders: tuple[Expr, ...] = ()
    around: Expr = g.TRUE  # the guards that stood before a loop
    reads: list[tuple[str, tuple[Expr, ...], ast.AST]] = field(default_factory=list)
    depth: int = 0
    outer: frozenset[str] = frozenset()  # inside a loop: the names that stood before it

    def refuse(self, at: ast.AST, construct: str, advice: str) -> SpecError:
        """The error to raise about a construct here."""
        return self.function.refuse(at, construct, advice)

    @property
    def context(self) -> Expr:
        """The condition that holds wherever this is evaluated."""
        return g.conj(self.around, self.guard, self.path, *self.notes.demands)

    def everywhere(self, condition: Expr) -> Expr:
        """A condition of this place, for all that it is evaluated for."""
        found = g.implies(self.context, condition)
        for bound in reversed(self.binders):
            found = g.forall(bound, found)
        return found

    def oblige(self, condition: Expr) -> None:
        """Demand a condition without which the text has no meaning."""
        context = self.context
        if condition is g.TRUE or condition is context:
            return
        if not (context.op == "and" and condition in context.args):
            self.notes.defined.append(self.everywhere(condition))

    demand = oblige  # by an `assert` of a helper that returns a value; in an action it guards

    def under(self, condition: Expr) -> Scope:
        """This scope where a further condition holds."""
        return replace(self, path=g.conj(self.path, condition))

    def within(self, bound: dict[str, Value], kept: Expr = g.TRUE) -> Scope:
        """This scope with bound names, for all of which the condition holds."""
        flat = [e for v in bound.values() for e in (v.flat if isinstance(v, Struct) else (v,))]
        free = tuple(e for e in flat if e.op == "var")
        return replace(
            self, names={**self.names, **bound}, binders=(*self.binders, *free),
            path=g.conj(self.path, kept),
        )  # fmt: skip

    # ── Values ──────────────────────────────────────────────────────────────────────────────

    def truth(self, e: ast.expr) -> Expr:
        """An expression that must be true or false."""
        found = self.value(e)
        if not isinstance(found, Expr) or found.kind != BOOL:
            what = f"`{ast.unparse(e)}`, a {said(found.kind)}, as a condition"
            raise self.refuse(e, what, "compare it with something")
        return found

    def scalar(self, e: ast.expr, want: Rich | None = None) -> Expr:
        """An expression whose value is no record, set, map or channel."""
        found = self.value(e, want)
        if isinstance(found, Expr) and is_scalar(found.kind):
            return found
        what = f"`{ast.unparse(e)}`, a {said(found.kind)}, as a value"
        raise self.refuse(e, what, "name an entry or a part of it")

    def value(self, e: ast.expr, want: Rich | None = None) -> Value:
        """The value of an expression; `want` is the type of a `None`, or of an empty set."""
        place = self.place(e)
        if place is not None:
            return self.read(e, place)
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
                return self.joined(
                    [methodcaller("truth", e) for e in values], isinstance(op, ast.And)
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return g.negate(self.truth(operand))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                pairs = zip([left, *comparators], ops, comparators, strict=False)
                return self.joined([methodcaller("compare", *pair) for pair in pairs], True)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choose(self.truth(test), body, orelse, want)
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(e, left, op, right, want)
            case ast.Call(func=ast.Name() | ast.Attribute()):
                return calls.value_of(self, e, want)
            case ast.DictComp(key=key, value=body, generators=turns):
                return quantifiers.table(self, e, key, body, turns, want)
            case ast.SetComp() | ast.Set():
                return sets.set_of(self, e, want)
        advice = "see docs/language.md for what may be written"
        raise self.refuse(e, f"the expression `{ast.unparse(e)}`", advice)

    def constant(self, e: ast.expr, value: Any, want: Rich | None) -> Value:
        """A constant, at its type."""
        if isinstance(value, Enum) and value in list(type(value)):
            return g.const(EnumOf(type(value)), list(type(value)).index(value))
        if isinstance(value, bool):
            return g.boolean(value)
        if isinstance(value, int) and value >= 0:
            return g.const(NAT, value)
        if value is None and isinstance(want, Option | OptionalRecord):
            return rich.absent(want)
        raise self.refuse(e, f"the constant {value!r}", "use bools, naturals and members of Enums")

    def outside(self, at: ast.AST, name: str) -> Any:
        """The meaning of a name outside of the function; KeyError if it has none."""
        found = self.function.lookup(name)
        if name in self.function.outer_names(name):
            seen = Seen(self.function, name, getattr(at, "lineno", self.function.line), found)
            self.notes.seen.setdefault((self.function.python, name), seen)
        return found

    def known(self, at: ast.AST, name: str) -> Any:
        """The meaning of a name outside of the function; None where it has none."""
        try:
            return self.outside(at, name)
        except KeyError:
            return None

    def means(self, e: ast.expr, *words: str) -> bool:
        """Tells whether a name is one of these words of the language, and nobody has taken it."""
        if not isinstance(e, ast.Name) or e.id not in words or e.id in self.names:
            return False
        return self.known(e, e.id) is WORDS[e.id]

    def helper(self, e: ast.expr) -> Function | None:
        """The function of a module that a name stands for, if it does: one to be inlined."""
        found = self.known(e, e.id) if isinstance(e, ast.Name) and e.id not in self.names else None
        if isinstance(found, FunctionType) and found not in WORDS.values():
            return function_of(found, self.function.names)
        return None

    def name(self, e: ast.expr, name: str) -> Value:
        """The value that a name stands for."""
        found = self.names.get(name)
        if isinstance(found, Whole):
            raise self.refuse(e, "a whole state as a value", "name one of its fields")
        if found is not None:
            return found
        try:
            value = self.outside(e, name)
        except KeyError:
            raise self.refuse(e, f"the unknown name `{name}`", "define it first") from None
        if isinstance(value, type):
            raise self.refuse(e, f"the class `{name}` as a value", "name an element or a member")
        return self.constant(e, value, None)

    def attribute(self, e: ast.Attribute) -> Value:
        """A part of a record, or a member of an enum."""
        if isinstance(e.value, ast.Name) and e.value.id not in self.names:
            holder = self.known(e, e.value.id)
            if isinstance(holder, EnumMeta) and e.attr in holder.__members__:
                return self.constant(e, holder[e.attr], None)
        else:
            owner = self.present(self.value(e.value))
            known = owner.kind.parts if isinstance(owner.kind, RecordOf) else ()
            if isinstance(owner, Struct) and e.attr in dict(known):
                return owner.part(e.attr)
        advice = "use fields of the state, parts of records and members of Enums"
        raise self.refuse(e, f"the attribute `{ast.unparse(e)}`", advice)

    def present(self, found: Value) -> Value:
        """The value of an optional one, which is obliged to be there."""
        if isinstance(found, Struct) and isinstance(found.kind, OptionalRecord):
            self.oblige(found.present)
            return found.held
        if isinstance(found, Expr) and isinstance(found.kind, Option):
            self.oblige(g.negate(g.eq(found, g.none(found.kind))))
            return g.the(found)
        return found

    def place(self, e: ast.expr) -> Place | None:
        """Where in the state an expression points, if it does."""
        found = self.rooted(e)
        return found[0] if found else None

    def rooted(self, e: ast.expr) -> tuple[Place, Whole] | None:
        """Where in which state an expression points."""
        match e:
            case ast.Name(id=name) if isinstance(whole := self.names.get(name), Whole):
                return whole.place, whole
            case ast.Attribute(value=value, attr=name) if found := self.rooted(value):
                if isinstance(found[0].kind, RecordOf | MachineOf):
                    return self.field(e, name, found[0]), found[1]
            case ast.Subscript(value=value, slice=index) if found := self.rooted(value):
                if isinstance(found[0].kind, Table):
                    return found[0].entry(self.indices(index, found[0].kind.keys)), found[1]
        return None

    def field(self, at: ast.AST, name: str, owner: Place) -> Place:
        """A field of a state, or a part of a record in it."""
        try:
            return owner.attribute(name)
        except KeyError as error:
            what = f"the unknown field `{name}`"
            raise self.refuse(at, what, f"known: {error.args[0]}") from None

    def fields_of(self, e: ast.expr) -> Fields:
        """The fields of the state that an expression points into."""
        found = self.rooted(e)
        assert found is not None, "asked of places only"
        return self.state if found[1].fields is None else found[1].fields

    def read(self, e: ast.expr, place: Place) -> Value:
        """The value that stands at a place."""
        if isinstance(place.kind, MachineOf):
            raise self.refuse(e, "a whole state as a value", "name one of its fields")
        relational = self.notes.relational
        self.reads += [(name, place.indices, e) for name in place.names(relational)]
        return place.read(self.fields_of(e), relational)

    def indices(self, index: ast.expr, keys: tuple[Key, ...]) -> tuple[Expr, ...]:
        """The indices of a lookup, at the types of the keys."""
        given = index.elts if isinstance(index, ast.Tuple) else [index]
        if len(given) != len(keys):
            what = f"{len(given)} indices `{ast.unparse(index)}`"
            raise self.refuse(index, what, f"write {len(keys)}: {', '.join(map(said, keys))}")
        return tuple(self.index(i, k) for i, k in zip(given, keys, strict=True))

    def index(self, e: ast.expr, kind: Key) -> Expr:
        """An index of a map, which is obliged to be one of its keys."""
        found = self.fit(e, self.value(e, kind), kind)
        assert isinstance(found, Expr), "fitted to a scalar"
        self.oblige(rich.within(kind, found))
        return found

    def lookup(self, e: ast.expr, table: ast.expr, index: ast.expr) -> Value:
        """An entry of a map that a name stands for, or the first message of a channel."""
        place = self.place(table)
        if place is not None and isinstance(place.kind, ChannelOf):
            return channels.entry(self, table, place, index)
        found = self.value(table)
        if isinstance(found, Struct) and isinstance(found.kind, Table):
            at = self.indices(index, found.kind.keys)
            entry = found.each(found.kind.value, lambda flat: g.select(flat, *at))
            return entry.parts[""] if is_scalar(found.kind.value) else entry
        raise self.refuse(e, f"an index into `{ast.unparse(table)}`", "it is no dict")

    # ── Operators ───────────────────────────────────────────────────────────────────────────

    def joined(self, conditions: list[Callable[[Scope], Expr]], every: bool) -> Expr:
        """`and`, `or`, a chain: what stands later is evaluated only where it matters."""
        found: list[Expr] = []
        scope = self
        for condition in conditions:
            found.append(condition(scope))
            scope = scope.under(found[-1] if every else g.negate(found[-1]))
        return g.conj(*found) if every else g.disj(*found)

    def compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
        """One comparison of a chain."""
        match op:
            case ast.Is() | ast.IsNot() if not _is_none(left) and not _is_none(right):
                raise self.refuse(left, "`is` between values", "use == and !=; `is` is for None")
            case ast.Eq() | ast.Is():
                return self.equal(left, right)
            case ast.NotEq() | ast.IsNot():
                return g.negate(self.equal(left, right))
            case ast.In():
                return sets.among(self, left, right)
            case ast.NotIn():
                return g.negate(sets.among(self, left, right))
            case ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE():
                return self.order(left, op, right)
        raise self.refuse(left, f"the comparison {type(op).__name__}", "use ==, <, is None, or in")

    def order(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
        """A comparison of numbers; of sets, whether one is part of the other."""
        if (length := channels.compared(self, left, op, right)) is not None:
            return length
        a, b = self.value(left), self.value(right)
        if isinstance(op, ast.Gt | ast.GtE):
            (left, a), (right, b) = (right, b), (left, a)
        if (
            isinstance(a, Struct)
            and isinstance(a.kind, SetOf)
            and isinstance(op, ast.LtE | ast.GtE)
        ):
            return sets.subset(a, self.fit(right, b, a.kind))
        a, b = self.number(left, a), self.number(right, b)
        return g.lt(a, b) if isinstance(op, ast.Lt | ast.Gt) else g.le(a, b)

    def number(self, e: ast.expr, found: Value) -> Expr:
        """A value that must be a number."""
        found = self.present(found)
        if isinstance(found, Expr) and is_number(found.kind):
            return found
        raise self.refuse(e, f"`{ast.unparse(e)}`, a {said(found.kind)}", "a Nat is wanted here")

    def equal(self, left: ast.expr, right: ast.expr) -> Expr:
        """Equality; a plain value can equal an optional one."""
        if (length := channels.compared(self, left, ast.Eq(), right)) is not None:
            return length
        if _is_none(left):
            left, right = right, left
        a = self.value(left)
        if _is_none(right):
            return self.missing(right, a)
        b = self.value(right, rich_kind(a))
        if isinstance(a, Struct) and isinstance(a.kind, Table):
            what = f"`{ast.unparse(left)}`, a whole map, in a comparison"
            raise self.refuse(left, what, "compare entries: all(… for x in Sort)")
        if is_number(a.kind) and is_number(b.kind):
            return g.eq(self.number(left, a), self.number(right, b))
        if isinstance(b.kind, Option | OptionalRecord):
            return rich.equal(self.fit(left, a, b.kind), b)
        return rich.equal(a, self.fit(right, b, a.kind))

    def missing(self, at: ast.expr, a: Value) -> Expr:
        """The condition that an optional value is absent."""
        if isinstance(a, Struct) and isinstance(a.kind, OptionalRecord):
            return g.negate(a.present)
        if isinstance(a, Expr) and isinstance(a.kind, Option):
            return g.eq(a, g.none(a.kind))
        raise self.refuse(at, f"None compared with a {said(a.kind)}", "it is never None")

    def choose(self, test: Expr, body: ast.expr, orelse: ast.expr, want: Rich | None) -> Value:
        """A conditional expression."""
        yes, no = self.under(test), self.under(g.negate(test))
        a = yes.value(body, want) if want is None else yes.fit(body, yes.value(body, want), want)
        b = no.value(orelse, want if want is not None else rich_kind(a))
        if want is None and isinstance(b.kind, Option) and not isinstance(a.kind, Option):
            a = yes.fit(body, a, b.kind)
        elif not (is_number(a.kind) and is_number(b.kind)):
            b = no.fit(orelse, b, a.kind)
        return rich.choose(test, a, b)

    def arithmetic(
        self, e: ast.expr, left: ast.expr, op: ast.operator, right: ast.expr, want: Rich | None
    ) -> Value:
        """Sums, differences, remainders of numbers; unions, intersections, differences of sets."""
        a = self.value(left, want)
        if isinstance(a, Struct) and isinstance(a.kind, SetOf):
            b = self.fit(right, self.value(right, a.kind), a.kind)
            if type(op) in sets.JOINS:
                return sets.pointwise(a, b, sets.JOINS[type(op)])
        elif isinstance(op, ast.Add):
            return g.plus(self.number(left, a), self.number(right, self.value(right)))
        elif isinstance(op, ast.Sub):
            return g.minus(self.number(left, a), self.number(right, self.value(right)))
        elif isinstance(op, ast.Mod | ast.FloorDiv):
            by = self.divisor(right)
            divided = g.mod if isinstance(op, ast.Mod) else g.div
            return divided(self.number(left, a), by)
        advice = "numbers know + and -, % and //, sets know |, & and -"
        raise self.refuse(e, f"the expression `{ast.unparse(e)}`", advice)

    def divisor(self, e: ast.expr) -> Expr:
        """A natural to divide by, which is obliged not to be 0."""
        found = self.number(e, self.value(e))
        zero = g.eq(found, g.const(NAT, 0))
        if zero is g.TRUE or found.kind == INT:
            what = f"a division by `{ast.unparse(e)}`"
            raise self.refuse(e, what, "divide by a constant above 0, or by a Nat")
        self.oblige(g.negate(zero))
        return g.divisor(found)

    # ── Helpers ─────────────────────────────────────────────────────────────────────────────

    def result(self, statements: list[ast.stmt], kind: Rich) -> Value:
        """The value of the first `return` that is reached."""
        for position, s in enumerate(statements):
            match s:
                case ast.Return(value=ast.expr() as value):
                    sets.check_own(self, value, kind)
                    return self.fit(value, self.value(value, kind), kind)
                case ast.If(test=test, body=body, orelse=orelse):
                    rest = statements[position + 1 :]
                    decided = self.truth(test)
                    yes = replace(self.under(decided), names=dict(self.names))
                    no = replace(self.under(g.negate(decided)), names=dict(self.names))
                    found = yes.result(body + rest, kind)
                    return rich.choose(decided, found, no.result(orelse + rest, kind))
                case ast.Assert(test=test) if __debug__:  # `python -O` leaves it out
                    self.demand(self.truth(test))
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.local(s, name, self.value(value))
                case ast.Expr(value=ast.Constant()):
                    pass
                case ast.Assign(targets=[ast.Tuple()]):
                    what = f"`{ast.unparse(s)}`, several names at once"
                    raise self.refuse(s, what, "write one assignment for each")
                case _:
                    what = "a helper that returns a value and does something else"
                    raise self.refuse(s, what, "split it in two: one changes, one returns")
        raise self.refuse(self.function.tree, "a helper that may not return", "end it by a return")

    def local(self, at: ast.AST, name: str, found: Value) -> Value:
        """The value of a local name, which must mean the same in Python."""
        if isinstance(found, Struct) and not isinstance(found.kind, RecordOf | OptionalRecord):
            what = f"the name `{name}` for a whole {said(found.kind)}"
            raise self.refuse(at, what, "it would change with the field; use the field itself")
        if name in self.outer or isinstance(self.names.get(name), Whole):
            what = f"the assignment to `{name}`, a name from outside of the loop"
            raise self.refuse(at, what, "use a name of its own")
        return found

    # ── Names and types ─────────────────────────────────────────────────────────────────────

    def machine(self, e: ast.expr) -> Whole | None:
        """The state, or the machine in it, that an expression points to."""
        found = self.rooted(e)
        if found is None or not isinstance(found[0].kind, MachineOf):
            return None
        if found[0] == found[1].place:
            return found[1]
        return Whole(found[0], found[0].kind.shape.methods, found[1].fields)

    def method(self, at: ast.AST, owner: ast.expr, name: str) -> Function:
        """A helper of the spec, or of a machine in it."""
        whole = self.machine(owner)
        if whole is None or name not in whole.methods:
            raise self.refuse(at, f"the unknown method `{name}`", "define it in the spec")
        self.notes.inlined.add(whole.methods[name])
        return whole.methods[name]

    def enter(self, call: ast.Call, function: Function) -> Scope:
        """The scope of a helper, its parameters bound to the call's arguments."""
        if self.depth > 20:
            raise self.refuse(call, f"`{function.name}`, which calls itself", "unroll it")
        parameters = function.tree.args.args
        names: dict[str, Value | Whole] = {}
        given = parameters
        if isinstance(call.func, ast.Attribute):
            if not parameters:
                raise function.refuse(function.tree, "a method without `self`", "add it")
            whole = self.machine(call.func.value)
            assert whole is not None, "methods are those of machines"
            names[parameters[0].arg] = whole
            given = parameters[1:]
        if call.keywords or len(given) != len(call.args):
            what = f"{len(call.args)} arguments for `{function.name}`"
            raise self.refuse(call, what, f"give {len(given)}, by position")
        for parameter, argument in zip(given, call.args, strict=True):
            names[parameter.arg] = self.argument(function, parameter, argument)
        return replace(
            self, function=function, names=names, depth=self.depth + 1, reads=[],
            outer=frozenset(),
        )  # fmt: skip

    def argument(self, function: Function, parameter: ast.arg, argument: ast.expr) -> Value | Whole:
        """The value of a helper's parameter."""
        if whole := self.machine(argument):
            return whole
        kind = function.annotation(parameter, parameter.annotation)
        if isinstance(kind, Table | SetOf | ChannelOf):
            if isinstance(argument, ast.Name) and self.is_given(argument.id, kind):
                return self.names[argument.id]
            what = f"the parameter `{parameter.arg}`, a whole {said(kind)}"
            raise function.refuse(parameter, what, "look its entries up in the field itself")
        return self.fit(argument, self.value(argument, kind), kind)

    def is_given(self, name: str, kind: Rich) -> bool:
        """Tells whether a name is an action's parameter of this type: nobody changes it."""
        return isinstance(found := self.names.get(name), Struct) and found.kind == kind

    def fit(self, at: ast.AST, found: Value, kind: Rich | Type) -> Value:
        """The value at a type; a plain value fits where an optional one is wanted."""
        if found.kind == kind:
            return found
        optional = isinstance(found.kind, Option | OptionalRecord)
        if isinstance(kind, Option) and not optional:
            plain = self.fit(at, found, kind.of)
            assert isinstance(plain, Expr), "fitted to a scalar"
            return g.some(plain)
        if isinstance(kind, OptionalRecord) and found.kind == kind.of:
            assert isinstance(found, Struct), "a record is one"
            return found.each(kind, g.some)
        if isinstance(found.kind, Option | OptionalRecord) and (
            found.kind.of == kind or (is_number(found.kind.of) and is_number(kind))
        ):
            return self.fit(at, self.present(found), kind)
        if isinstance(found, Expr) and is_number(found.kind) and is_number(kind):
            return self.bounded(at, found, kind)
        what = f"`{ast.unparse(at)}`, a {said(found.kind)}"
        raise self.refuse(at, what, f"a {said(kind)} is wanted here")

    def bounded(self, at: ast.AST, found: Expr, kind: Rich | Type) -> Expr:
        """A number for a range of numbers; whether it is within is asked where it ends up."""
        top = kind.top if isinstance(kind, Range) else -1
        if found.op == "const" and found.data > top >= 0:
            raise self.refuse(at, f"the number {found.data}", f"at most {top} fits here")
        return found


def rich_kind(value: Value) -> Rich:
    """A value's type, which is no bare map."""
    assert not isinstance(value.kind, MapOf), "maps stand in tables"
    return value.kind


def _is_none(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and e.value is None
