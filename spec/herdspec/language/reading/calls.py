"""Calls in expressions: quantifiers, sizes, records, and helpers that return a value."""

from __future__ import annotations

import ast
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.graph import Expr
from herdspec.language.reading import quantifiers, sets
from herdspec.language.reading.source import Function, function_of
from herdspec.language.rich import Value
from herdspec.language.surface import Property
from herdspec.language.types import RecordOf, Rich, SetOf

if TYPE_CHECKING:
    from herdspec.language.reading.expressions import Scope


def value_of(scope: Scope, e: ast.Call, want: Rich | None = None) -> Value:
    """A quantifier, a size, a record, or a helper that returns a value."""
    match e.func, e.args:
        case ast.Name(id=name), [ast.GeneratorExp(elt=body, generators=loops)] if (
            scope.means(e.func, "all", "any", "sum") and not e.keywords
        ):
            quantifiers.check_order(scope, loops)
            if name == "sum":
                return quantifiers.summed(scope, body, list(loops))
            return quantifiers.quantified(scope, name, body, list(loops))
        case ast.Name(), [of] if scope.means(e.func, "len") and not e.keywords:
            return sets.length(scope, of)
        case ast.Name(id=name), [_, _] if scope.means(e.func, "min", "max") and not e.keywords:
            a, b = (scope.number(x, scope.value(x)) for x in e.args)
            return g.ite(g.le(a, b), a, b) if name == "min" else g.ite(g.le(a, b), b, a)
        case ast.Name(), [] if isinstance(want, SetOf) and scope.means(e.func, "empty", "set"):
            return rich.empty(want)
        case ast.Name(id=name), _ if name not in scope.names:
            if (found := named(scope, e, scope.known(e, name))) is not None:
                return found
        case ast.Attribute(value=owner, attr=name), _ if scope.machine(owner):
            return returned(scope, e, scope.method(e, owner, name))
    known(scope, e)
    what = f"the call `{ast.unparse(e)}`"
    raise scope.refuse(e, what, "call all, any, sum, len, a record, or a helper with a value")


def known(scope: Scope, call: ast.Call) -> None:
    """Refuse a call of what is defined nowhere, or below the spec only."""
    name = call.func.id if isinstance(call.func, ast.Name) else None
    if name and name not in scope.names and scope.known(call, name) is None:
        what = f"the unknown function `{name}`"
        raise scope.refuse(call, what, "define it above the spec")


def named(scope: Scope, e: ast.Call, what: Any) -> Value | None:
    """A call of what a module has under a name: a record, a property, a helper."""
    if isinstance(what, type) and is_dataclass(what):
        return made(scope, e, what)
    if isinstance(what, Property):
        found = returned(scope, e, function_of(what.function, scope.function.names))
        assert isinstance(found, Expr), "a truth value is no record"
        return g.negate(found) if what.negated else found
    helper = scope.helper(e.func)
    return None if helper is None else returned(scope, e, helper)


def made(scope: Scope, e: ast.Call, cls: type[Any]) -> Value:
    """A record, from its parts."""
    kind = scope.function.annotation(e, e.func)
    if not isinstance(kind, RecordOf):
        raise scope.refuse(e, f"the class `{cls.__name__}`", "use a frozen dataclass")
    names = [name for name, _ in kind.parts]
    given = dict(zip(names, e.args, strict=False))
    given.update({k.arg: k.value for k in e.keywords if k.arg})
    if set(given) != set(names) or len(e.args) + len(e.keywords) != len(names):
        what = f"the parts of `{ast.unparse(e)}`"
        raise scope.refuse(e, what, f"give each of {', '.join(names)} once")
    found = {n: scope.fit(given[n], scope.value(given[n], k), k) for n, k in kind.parts}
    return rich.record(kind, found)


def returned(scope: Scope, call: ast.Call, function: Function) -> Value:
    """The value that a helper returns, without any effect."""
    if function.tree.returns is None or ast.unparse(function.tree.returns) == "None":
        what = f"`{ast.unparse(call)}` as a value"
        advice = f"let {function.name} return one, and say its type: -> bool"
        raise scope.refuse(call, what, advice)
    inner = scope.enter(call, function)
    kind = function.annotation(call, function.tree.returns)
    found = inner.result(function.tree.body, kind)
    scope.reads += inner.reads
    return found
