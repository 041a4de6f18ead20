"""The meaning of statements, initial states and steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from properties.oracle.expressions import Each, Expressions, Returned, Scope
from properties.oracle.source import Action, Source, SpecClass
from properties.oracle.values import (
    UNSET,
    Impossible,
    Instance,
    NoMeaning,
    Type,
    copied,
    key,
)


@dataclass(frozen=True)
class Choice:
    """An action of the whole, or of a part of it, with its arguments."""

    name: str
    action: Action
    path: tuple[Any, ...]
    arguments: tuple[Any, ...]

    @property
    def elements(self) -> tuple[Any, ...]:
        """The elements whose part takes the step."""
        return tuple(p for p in self.path if not isinstance(p, str))

    @property
    def label(self) -> tuple[str, Any]:
        """What tells it from others."""
        return self.name, tuple(key(a) for a in (*self.elements, *self.arguments))

    @property
    def duty(self) -> tuple[str, Any]:
        """What fairness is about: this choice by itself, or all choices of a part together."""
        return (self.name, self.elements) if self.any_of_them else self.label

    @property
    def any_of_them(self) -> bool:
        """Whether fairness is of the action as a whole."""
        return self.action.fair.endswith(".any")

    @property
    def costs(self) -> int:
        """What it takes from the budget of faults."""
        return int(self.action.kind == "fault" or self.action.disturbs)


class Interpreter(Expressions):
    """Runs statements, and so makes initial states and steps."""

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Run statements in a scope, which they change."""
        for node in body:
            self.rule(node)(node, scope)

    def _expr(self, node: ast.Expr, scope: Scope) -> None:
        value = node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "require":
            self._guard(value.args[0], scope)
        else:
            self.eval(value, scope)

    def _assert(self, node: ast.Assert, scope: Scope) -> None:
        self._guard(node.test, scope)

    def _guard(self, condition: ast.expr, scope: Scope) -> None:
        if not self.eval(condition, scope):
            raise Impossible(ast.unparse(condition))

    def _pass(self, node: ast.Pass, scope: Scope) -> None:
        pass

    def _return(self, node: ast.Return, scope: Scope) -> None:
        raise Returned(self.eval(node.value, scope) if node.value else None)

    def _if(self, node: ast.If, scope: Scope) -> None:
        self.run(node.body if self.eval(node.test, scope) else node.orelse, scope)

    def _for(self, node: ast.For, scope: Scope) -> None:
        for value in self.turns(node.iter, scope):
            bound = self.bind(node.target, value, {})
            self.run(node.body, scope | bound)

    def _match(self, node: ast.Match, scope: Scope) -> None:
        value = self.eval(node.subject, scope)
        for case in node.cases:
            fits = self._fits(case.pattern, value, scope)
            if fits and (case.guard is None or self.eval(case.guard, scope)):
                self.run(case.body, scope)
                return

    def _fits(self, pattern: ast.pattern, value: Any, scope: Scope) -> bool:
        if isinstance(pattern, ast.MatchValue):
            return bool(self.eval(pattern.value, scope) == value)
        if isinstance(pattern, ast.MatchSingleton):
            return value is pattern.value
        if isinstance(pattern, ast.MatchOr):
            return any(self._fits(p, value, scope) for p in pattern.patterns)
        assert isinstance(pattern, ast.MatchAs)
        assert pattern.pattern is None
        return True

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        value = copied(self.eval(node.value, scope))
        for target in node.targets:
            self._put(target, value, scope)

    def _annassign(self, node: ast.AnnAssign, scope: Scope) -> None:
        assert node.value is not None
        self._put(node.target, copied(self.eval(node.value, scope)), scope)

    def _augassign(self, node: ast.AugAssign, scope: Scope) -> None:
        load = ast.parse(ast.unparse(node.target), mode="eval").body
        value = self.eval(ast.BinOp(load, node.op, node.value), scope)
        self._put(node.target, copied(value), scope)

    def _put(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Assign to a name, a field or an entry of a map."""
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Tuple):
            for t, v in zip(target.elts, value, strict=True):
                self._put(t, v, scope)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value, scope)
            assert isinstance(owner, Instance)
            owner.fields[target.attr] = _like(owner.fields[target.attr], value)
        else:
            assert isinstance(target, ast.Subscript)
            owner = self.eval(target.value, scope)
            index = self.eval(target.slice, scope)
            if index not in owner:
                raise NoMeaning(ast.unparse(target))
            owner[index] = _like(owner[index], value)

    # ── Initial states ──────────────────────────────────────────────────────────────────────────

    def declared(self, spec: SpecClass) -> Instance:
        """The state of the declared values."""
        fields = {}
        for name, kind in self.world.fields(spec).items():
            default = spec.fields[name][1]
            fields[name] = self._start(kind, self.eval(default, {}) if default else UNSET)
        return Instance(spec, fields)

    def _start(self, kind: Type, value: Any) -> Any:
        if kind.kind == "part":
            return self.declared(self.source.specs[kind.name])
        if kind.kind == "map":
            inside = value.value if isinstance(value, Each) else value
            return {k: self._start(kind.inner[1], inside) for k in self.world.domain(kind.inner[0])}
        if value is UNSET and kind.kind == "optional":
            return None
        return list(value) if kind.kind == "list" else copied(value)

    def initial_states(self, spec: SpecClass) -> list[Instance]:
        """Every initial state; raises `NoMeaning` where making one looks at what is absent."""
        starts = self._with_parts(self.declared(spec))
        if not spec.initials:
            return starts
        found = []
        for start in starts:
            for action in spec.initials.values():
                for arguments in self._arguments(action):
                    choice = Choice(action.name, action, (), arguments)
                    after = self.after(start, choice)
                    if after is not None:
                        found.append(after)
        return found

    def _with_parts(self, whole: Instance) -> list[Instance]:
        """The state with its parts begun in each way."""
        found = [whole]
        for path, part in parts(self, whole):
            ways = self.initial_states(part.spec) if part.spec.initials else [part]
            found = [_placed(w, path, copied(p)) for w in found for p in ways]
        return found

    # ── Steps ───────────────────────────────────────────────────────────────────────────────────

    def choices(self, spec: SpecClass) -> list[Choice]:
        """Every action with every choice of arguments, of the whole and of its parts."""
        found = [
            Choice(a.name, a, (), arguments)
            for a in spec.actions.values()
            for arguments in self._arguments(a)
        ]
        joint = _called(spec, self.source)
        for path, part in parts(self, self.declared(spec)):
            for inner in self.choices(part.spec):
                name = f"{path[0]}.{inner.name}"
                if name not in joint:
                    whole = (*path, *inner.path)
                    found.append(Choice(name, inner.action, whole, inner.arguments))
        return found

    def _arguments(self, action: Action) -> Iterator[tuple[Any, ...]]:
        notes = [a.annotation for a in action.function.args.args[1:]]
        yield from product(*(self.world.domain(self.world.type(n)) for n in notes if n))

    def after(self, before: Instance, choice: Choice) -> Instance | None:
        """The state after a step, nothing if it is not possible; may raise `NoMeaning`."""
        state: Instance = copied(before)
        owner = state
        at = iter(choice.path)
        for name in at:
            inside = owner.fields[name]
            owner = inside[next(at)] if isinstance(inside, dict) else inside
        try:
            self.call(choice.action.function, [owner, *map(copied, choice.arguments)], {})
        except Impossible:
            return None
        for name, kind in self.world.fields(state.spec).items():
            self.world.check(kind, state.fields[name])
        return state


def parts(interpreter: Interpreter, whole: Instance) -> list[tuple[tuple[Any, ...], Instance]]:
    """The parts of a state, each with its path: a field, and an element where it is a map."""
    found: list[tuple[tuple[Any, ...], Instance]] = []
    for name, kind in interpreter.world.fields(whole.spec).items():
        value = whole.fields[name]
        if kind.kind == "part":
            found.append(((name,), value))
        elif kind.kind == "map" and kind.inner[1].kind == "part":
            found += [((name, k), v) for k, v in value.items()]
    return found


def _placed(whole: Instance, path: tuple[Any, ...], part: Instance) -> Instance:
    state: Instance = copied(whole)
    if len(path) == 1:
        state.fields[path[0]] = part
    else:
        state.fields[path[0]][path[1]] = part
    return state


def _called(spec: SpecClass, source: Source) -> set[str]:
    """The actions of parts that an action of the whole calls, itself or by functions."""
    actions = [a.function for a in spec.actions.values()]
    found = set()
    for function in source.with_called([*actions, *spec.helpers.values()]):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value).split("[")[0]
                found.add(f"{owner.partition('.')[2]}.{node.func.attr}")
    return found


def _like(old: Any, value: Any) -> Any:
    """A value for where an old one stands: `empty()` of a channel, `each(…)` of a map."""
    if isinstance(value, Each):
        return {k: copied(value.value) for k in old}
    if isinstance(old, list) and isinstance(value, set):
        assert not value
        return []
    return value
