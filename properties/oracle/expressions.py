"""The meaning of expressions: a walk over the tree, with the values of the names in scope."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from properties.oracle.values import (
    Element,
    Instance,
    Member,
    NoMeaning,
    Record,
    World,
    copied,
)

Scope = dict[str, Any]

ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Mod: lambda a, b: a % b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitAnd: lambda a, b: a & b,
}
ORDER: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


class Returned(Exception):
    """A function's value, on its way out."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Group:
    """A sort, an enum or a record class as a value: what a name of a class stands for."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name


class Method:
    """A method of a spec with the instance that it belongs to."""

    def __init__(self, owner: Instance, name: str) -> None:
        self.owner = owner
        self.name = name


class Expressions:
    """Evaluates expressions in a world; statements are a subclass's."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.source = world.source
        self._rules: dict[type, Callable[..., Any]] = {}
        self._globals: Scope = {}

    def rule(self, node: ast.AST) -> Callable[..., Any]:
        """The method that gives a node its meaning, named after the node's class."""
        kind = type(node)
        if kind not in self._rules:
            self._rules[kind] = getattr(self, f"_{kind.__name__.lower()}")
        return self._rules[kind]

    def eval(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression; raises `NoMeaning` where it has none."""
        return self.rule(node)(node, scope)

    def _constant(self, node: ast.Constant, _: Scope) -> Any:
        return node.value

    def _name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope:
            return scope[node.id]
        if node.id not in self._globals:
            self._globals[node.id] = self._global(node.id)
        return self._globals[node.id]

    def _global(self, name: str) -> Any:
        """What a name means in the whole module."""
        source = self.source
        for kind, group in (
            ("sort", source.sorts), ("enum", source.enums), ("record", source.records),
            ("function", source.functions),
        ):  # fmt: skip
            if name in group:
                return Group(kind, name)
        if name in source.names:
            return self.eval(source.names[name], {})
        return Group("builtin", name)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        base = self.eval(node.value, scope)
        if base is None:
            raise NoMeaning(ast.unparse(node))
        if isinstance(base, Instance):
            if node.attr in base.fields:
                return base.fields[node.attr]
            return Method(base, node.attr)
        if isinstance(base, Record):
            names = list(self.source.records[base.kind])
            return base.parts[names.index(node.attr)]
        if isinstance(base, Group) and base.kind == "enum":
            return Member(base.name, node.attr)
        return (base, node.attr)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base = self.eval(node.value, scope)
        index = self.eval(node.slice, scope)
        try:
            return base[index]
        except (KeyError, IndexError, TypeError) as error:
            raise NoMeaning(ast.unparse(node)) from error

    def _tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return tuple(self.eval(e, scope) for e in node.elts)

    def _set(self, node: ast.Set, scope: Scope) -> Any:
        return {self._present(self.eval(e, scope)) for e in node.elts}

    def _present(self, value: Any) -> Any:
        if value is None:
            raise NoMeaning("an absent element of a set")
        return value

    def _ifexp(self, node: ast.IfExp, scope: Scope) -> Any:
        return self.eval(node.body if self.eval(node.test, scope) else node.orelse, scope)

    def _boolop(self, node: ast.BoolOp, scope: Scope) -> Any:
        if isinstance(node.op, ast.And):
            return all(self.eval(v, scope) for v in node.values)
        return any(self.eval(v, scope) for v in node.values)

    def _unaryop(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.eval(node.operand, scope)
        return not value if isinstance(node.op, ast.Not) else -value

    def _binop(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = self.eval(node.left, scope), self.eval(node.right, scope)
        if left is None or right is None:
            raise NoMeaning(ast.unparse(node))
        try:
            return ARITHMETIC[type(node.op)](left, right)
        except ZeroDivisionError as error:
            raise NoMeaning(ast.unparse(node)) from error

    def _compare(self, node: ast.Compare, scope: Scope) -> bool:
        left = self.eval(node.left, scope)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node, scope)
            if not self._related(op, left, right):
                return False
            left = right
        return True

    def _related(self, op: ast.cmpop, left: Any, right: Any) -> bool:
        if isinstance(op, ast.Eq | ast.Is):
            return bool(left == right)
        if isinstance(op, ast.NotEq | ast.IsNot):
            return bool(left != right)
        if isinstance(op, ast.In):
            return left in right
        if isinstance(op, ast.NotIn):
            return left not in right
        if left is None or right is None:
            raise NoMeaning("an absent value is compared")
        return ORDER[type(op)](left, right)

    # ── Quantifiers and comprehensions ──────────────────────────────────────────────────────────

    def turns(self, node: ast.expr, scope: Scope) -> list[Any]:
        """What a loop or a quantifier goes through."""
        value = self.eval(node, scope)
        if isinstance(value, Group) and value.kind == "sort":
            return [Element(value.name, k) for k in range(self.world.sizes[value.name])]
        if isinstance(value, Group):
            return [Member(value.name, m) for m in self.source.enums[value.name]]
        if value is None:
            raise NoMeaning("an absent value has no elements")
        return list(value)

    def bind(self, target: ast.expr, value: Any, scope: Scope) -> Scope:
        """The scope with a name, or some names, bound."""
        if isinstance(target, ast.Tuple):
            for t, v in zip(target.elts, value, strict=True):
                scope = self.bind(t, v, scope)
            return scope
        assert isinstance(target, ast.Name)
        return {**scope, target.id: value}

    def scopes(self, generators: list[ast.comprehension], scope: Scope) -> Iterator[Scope]:
        """The scope of each turn of a comprehension."""
        if not generators:
            yield scope
            return
        first, *others = generators
        for value in self.turns(first.iter, scope):
            inner = self.bind(first.target, value, scope)
            if all(self.eval(test, inner) for test in first.ifs):
                yield from self.scopes(others, inner)

    def _generatorexp(self, node: ast.GeneratorExp, scope: Scope) -> list[Any]:
        return [self.eval(node.elt, inner) for inner in self.scopes(node.generators, scope)]

    def _setcomp(self, node: ast.SetComp, scope: Scope) -> set[Any]:
        turns = self.scopes(node.generators, scope)
        return {self._present(self.eval(node.elt, inner)) for inner in turns}

    def _dictcomp(self, node: ast.DictComp, scope: Scope) -> dict[Any, Any]:
        turns = self.scopes(node.generators, scope)
        return {self.eval(node.key, inner): self.eval(node.value, inner) for inner in turns}

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        called = self.eval(node.func, scope)
        given = [self.eval(a, scope) for a in node.args]
        named = {k.arg: self.eval(k.value, scope) for k in node.keywords if k.arg}
        if isinstance(called, Method):
            return self.method(called, given, named)
        if isinstance(called, tuple):
            return self._of_container(called[0], called[1], given)
        assert isinstance(called, Group), ast.unparse(node)
        if called.kind == "record":
            return self._record(called.name, given, named)
        if called.kind == "function":
            return self.call(self.source.functions[called.name], given, named)
        return self._builtin(called.name, given)

    def method(self, method: Method, given: list[Any], named: Scope) -> Any:
        """A method's value, or what a joint action does to a part."""
        spec = method.owner.spec
        known = {**spec.helpers} | {a.name: a.function for a in spec.actions.values()}
        return self.call(known[method.name], [method.owner, *given], named)

    def call(self, function: ast.FunctionDef, given: list[Any], named: Scope) -> Any:
        """The value of a function for these arguments."""
        parameters = [a.arg for a in function.args.args]
        scope = dict(zip(parameters, given, strict=False)) | named
        defaults = function.args.defaults
        for name, default in zip(parameters[len(parameters) - len(defaults) :], defaults,
                                 strict=True):  # fmt: skip
            scope.setdefault(name, self.eval(default, {}) if name not in scope else None)
        try:
            self.run(function.body, scope)
        except Returned as returned:
            return returned.value
        return None

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Statements are a subclass's."""
        raise NotImplementedError

    def _record(self, name: str, given: list[Any], named: Scope) -> Record:
        fields = self.source.records[name]
        values = dict(zip(fields, given, strict=False)) | named
        for field, (_, default) in fields.items():
            if field not in values and default is not None:
                values[field] = self.eval(default, {})
        record = Record(name, tuple(values[f] for f in fields))
        for (note, _), value in zip(fields.values(), record.parts, strict=True):
            kind = self.world.type(note)
            if value is None and kind.kind != "optional":
                raise NoMeaning(f"{name} is made of an absent value")
        return record

    def _builtin(self, name: str, given: list[Any]) -> Any:
        match name:
            case "all":
                return all(given[0])
            case "any":
                return any(given[0])
            case "sum":
                return sum(given[0])
            case "len":
                return len(given[0])
            case "min":
                return min(given)
            case "max":
                return max(given)
            case "range":
                return range(*given)
            case "empty":
                return set()
            case "each":
                return Each(given[0])
        raise AssertionError(f"{name} is not known")

    def _of_container(self, owner: Any, name: str, given: list[Any]) -> Any:
        """What is done to a set or a channel in place."""
        if name != "discard" and any(value is None for value in given):
            raise NoMeaning(f"an absent value is given to .{name}")
        match name:
            case "pop":
                if not owner:
                    raise NoMeaning("an empty channel is read")
                return owner.pop(given[0])
            case "add" | "discard" | "append" | "clear":
                getattr(owner, name)(*given)
                return None
        raise AssertionError(f".{name} is not known")


class Each:
    """The value of every key of a map: `each(value)`."""

    def __init__(self, value: Any) -> None:
        self.value = copied(value)
