"""
From a function's syntax tree to the graph: what an action requires and what it changes.

A body is executed once, symbolically: fields and names stand for expressions over the state before
the step. `if` merges its branches, a loop over a sort is one simultaneous update, helper methods
are inlined. Whatever has no meaning in every reading is refused with its place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.graph import Expr
from herdspec.language.reading import calls, channels, quantifiers, sets
from herdspec.language.reading.expressions import Notes, Scope, Whole
from herdspec.language.reading.shared import translated
from herdspec.language.reading.source import Function, function_of
from herdspec.language.rich import Fields, Place, Struct, Value
from herdspec.language.surface import LIVE, Expectation, Property
from herdspec.language.types import (
    BOOL,
    ChannelOf,
    MachineOf,
    MapOf,
    Nat,
    Rich,
    SetOf,
    Shape,
    Table,
    is_key,
    is_scalar,
    said,
)

Parameter = tuple[str, Expr]


@dataclass
class Body(Scope):
    """The execution of one function's body; `state` changes as its statements do."""

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
            case ast.AugAssign(target=target, op=op, value=value):
                if place := self.changed(target):
                    self.refuse_shared(target, place)
                self.assign(target, ast.copy_location(ast.BinOp(target, op, value), s))
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(self.truth(test), body, orelse, s.lineno)
            case ast.Match(subject=subject, cases=cases):
                self.value(subject)  # Python looks at it, whichever case is taken
                self.match(subject, cases)
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                self.loop(target, source, body)
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

    def demand(self, condition: Expr) -> None:
        """Take an `assert` of a helper with a value: it guards the action that asks for it."""
        self.notes.demands.append(self.everywhere(condition))

    # ── Calls for their effect ──────────────────────────────────────────────────────────────

    def call_statement(self, call: ast.Call) -> None:
        """A call for its effect: `require`, a change of a set or channel, or a helper method."""
        match call.func:
            case ast.Name() as word if self.means(word, "require"):
                if len(call.args) == 1 and not call.keywords:
                    return self.require(self.truth(call.args[0]))
            case ast.Name() as name if function := self.helper(name):
                return self.inline(call, function)
            case ast.Attribute(value=owner, attr=name) if whole := self.machine(owner):
                if whole.fields is None:
                    return self.inline(call, self.method(call, owner, name))
            case ast.Attribute(value=owner, attr=name) if place := self.changed(owner):
                if self.change(call, owner, place, name):
                    return None
        calls.known(self, call)
        what = f"the call `{ast.unparse(call)}`"
        advice = (
            "call require, a method of the spec, a function of the module, .add, .discard, "
            ".append, .pop(0) or .clear"
        )
        raise self.refuse(call, what, advice)

    def changed(self, e: ast.expr) -> Place | None:
        """The place in the state that is being changed, if an expression points to one."""
        found = self.rooted(e)
        return found[0] if found and found[1].fields is None else None

    def change(self, call: ast.Call, owner: ast.expr, place: Place, name: str) -> bool:
        """A method of a set or channel; False where it has none of that name."""
        self.refuse_shared(owner, place)
        match name, place.kind, call.args:
            case ("add", SetOf() as kind, [element]):
                at = sets.member(self, element, kind)
                self.write(call, replace(place, kind=Table(kind.keys, BOOL)).entry(at), g.TRUE)
            case ("discard", SetOf() as kind, [element]):
                there, at = sets.sought(self, element, kind)
                here = replace(place, kind=Table(kind.keys, BOOL)).entry(at)
                old = g.FALSE if there is g.TRUE else self.read(owner, here)
                assert isinstance(old, Expr), "an entry of a relation"
                self.write(call, here, g.conj(old, g.negate(there)))
            case ("append", ChannelOf() as kind, [message]):
                sent = self.fit(message, self.value(message, kind.item), kind.item)
                channels.append(self, owner, place, sent)
            case ("pop", ChannelOf(), [ast.Constant(value=0)]):
                channels.pop(self, owner, place)
            case ("clear", ChannelOf(), []):
                channels.clear(self, place)
            case ("clear", SetOf() as kind, []):
                place.write(self.state, rich.empty(kind))
            case _:
                return False
        return True

    def inline(self, call: ast.Call, function: Function) -> None:
        """Execute a helper method, or a machine's action, in place."""
        inner = self.enter(call, function)
        assert isinstance(inner, Body), "a body enters bodies"
        inner.reads = self.reads  # shared, as the state is
        inner.run(function.tree.body)
        self.guard = inner.guard

    # ── Assignments ─────────────────────────────────────────────────────────────────────────

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Assign a name, a field or an entry of a field."""
        if isinstance(target, ast.Name):
            found = self.received(value) or self.value(value)
            self.names[target.id] = self.local(target, target.id, found)
            return
        place = self.changed(target)
        if place is None or isinstance(place.kind, MachineOf):
            what = f"the assignment to `{ast.unparse(target)}`"
            raise self.refuse(target, what, "assign a name, self.field or self.field[index]")
        if isinstance(place.kind, ChannelOf):
            if isinstance(target, ast.Subscript) or not self.is_empty(value):
                advice = "use .append, .pop(0) and .clear"
                raise self.refuse(target, f"the assignment to a {said(place.kind)}", advice)
            channels.clear(self, place)
            return
        if isinstance(target, ast.Subscript) and any(map(self.is_empty, _choices(value))):
            what = f"`empty()` for the entry `{ast.unparse(target)}`"
            raise self.refuse(target, what, f"write {ast.unparse(target)}.clear(), or set()")
        read = len(self.reads)
        found = self.received(value) or self.value(value, place.kind)
        self.write(target, place, self.fit(value, found, place.kind))
        if isinstance(target, ast.Subscript) and isinstance(place.kind, SetOf):
            self.note_shared(place, value, [name for name, _, _ in self.reads[read:]])

    def note_shared(self, place: Place, value: ast.expr, read: list[str]) -> None:
        """Note that an entry may be the very set that stands elsewhere: only fields copy."""
        for one in _choices(value):
            fresh = isinstance(one, ast.Call) and self.means(one.func, "set")
            if not fresh and not isinstance(one, ast.BinOp | ast.Set | ast.SetComp):
                self.notes.shared.update(place.names(), read)

    def refuse_shared(self, at: ast.expr, place: Place) -> None:
        """Refuse a change of a set that would change what else Python keeps as the same one."""
        if isinstance(place.kind, SetOf) and not self.notes.shared.isdisjoint(place.names()):
            text = ast.unparse(at)
            what = f"the change of `{text}`, after an entry was assigned a set as it is"
            raise self.refuse(at, what, "assign the entry a set of its own: … | set()")

    def is_empty(self, value: ast.expr) -> bool:
        """Tells whether this is `empty()`."""
        return isinstance(value, ast.Call) and self.means(value.func, "empty")

    def received(self, value: ast.expr) -> Value | None:
        """The message of `self.channel.pop(0)`, if that is what stands there."""
        match value:
            case ast.Call(
                func=ast.Attribute(value=owner, attr="pop"), args=[ast.Constant(value=0)]
            ) if (place := self.changed(owner)) and isinstance(place.kind, ChannelOf):
                return channels.pop(self, owner, place)
        return None

    def write(self, at: ast.AST, place: Place, value: Value) -> None:
        """Put a value somewhere in the state."""
        owner = at.value if isinstance(at, ast.Attribute) else None
        if owner is not None and not self.machine(owner):
            what = f"the assignment to a part, `{ast.unparse(at)}`"
            raise self.refuse(at, what, "records do not change: assign a new one")
        place.write(self.state, value)

    # ── Branches ────────────────────────────────────────────────────────────────────────────

    def branch(
        self, test: Expr, body: list[ast.stmt], orelse: list[ast.stmt], line: int = 0
    ) -> None:
        """Execute both branches, and let each field be what its branch made of it."""
        path, state, names = self.path, self.state, self.names
        before = dict(state)
        self.note_branch(test, body[0].lineno if body else line)
        if orelse:
            self.note_branch(g.negate(test), orelse[0].lineno)
        self.path, self.names = g.conj(path, test), dict(names)
        self.run(body)
        then, then_names = dict(state), self.names
        # The state is changed in place: the caller of an inlined helper holds the same one.
        state.update(before)
        self.path, self.names = g.conj(path, g.negate(test)), dict(names)
        self.run(orelse)
        for name in state:
            state[name] = g.ite(test, then[name], state[name])
        merged: dict[str, Value | Whole] = {}  # what is not the same on both paths has no meaning
        for name in then_names.keys() & self.names.keys():
            a, b = then_names[name], self.names[name]
            if isinstance(a, Whole) or isinstance(b, Whole):
                merged[name] = a
            elif a.kind == b.kind:
                merged[name] = rich.choose(test, a, b)
        self.path, self.names = path, merged

    def note_branch(self, test: Expr, line: int) -> None:
        """Note when a branch is taken, for coverage."""
        if self.function.file != self.notes.file:
            return
        found = g.conj(self.context, test)
        for bound in reversed(self.binders):
            found = g.exists(bound, found)
        self.notes.branches.append((line, found))

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
        tail = [ast.copy_location(ast.Match(subject, rest), first.pattern)] if rest else []
        self.branch(test, first.body, list(tail))

    def matches(self, subject: ast.expr, pattern: ast.pattern) -> Expr:
        """The condition that the subject is one of the pattern's members."""
        match pattern:
            case ast.MatchValue(value=value):
                return self.equal(subject, value)
            case ast.MatchSingleton(value=None):
                return self.equal(subject, ast.Constant(None))
            case ast.MatchSingleton(value=bool() as value):
                return self.equal(subject, ast.Constant(value))
            case ast.MatchOr(patterns=patterns):
                return g.disj(*(self.matches(subject, p) for p in patterns))
        raise self.refuse(pattern, "this pattern", "match members of an Enum")

    # ── Loops ───────────────────────────────────────────────────────────────────────────────

    def loop(self, target: ast.expr, source: ast.expr, body: list[ast.stmt]) -> None:
        """All turns at once: each writes its own entries, and reads what stood before."""
        turns = list(quantifiers.domain(self, target, source))
        names, kept, bound = turns[0]
        for name in names:
            if name in self.names:
                what = f"a loop over the known name `{name}`"
                raise self.refuse(body[0], what, "use another name")
        if len(bound) != 1 or len(turns) != 1:
            advice = "loop over a Sort, an Enum, range(n), or a set of plain values"
            raise self.refuse(body[0], f"a loop over `{ast.unparse(source)}`", advice)
        turn, before = bound[0], dict(self.state)
        outside = (self.guard, self.around, self.path, self.names, self.outer, self.binders)
        reads = self.reads
        self.around, self.guard = g.conj(self.around, self.guard), g.TRUE
        self.path = g.conj(self.path, kept)
        self.outer, self.names = frozenset(self.names), {**self.names, **names}
        self.binders, self.reads = (*self.binders, turn), []
        self.run(body)
        self.refuse_own_source(source, before)
        self.joined_turns(body[0], turn, kept, before)
        found = g.forall(turn, self.guard)
        guard, self.around, self.path, self.names, self.outer, self.binders = outside
        self.guard = g.conj(guard, found)
        reads += self.reads  # in place: the caller of an inlined helper holds the same list
        self.reads = reads

    def refuse_own_source(self, source: ast.expr, before: dict[str, Expr]) -> None:
        """Refuse a loop that changes the set that it runs over: Python raises an error, or not."""
        place = self.changed(source)
        for name in place.names(self.notes.relational) if place else ():
            if self.state[name] is not before[name]:
                text = ast.unparse(source)
                what = f"the change of `{text}`, over which the loop runs"
                raise self.refuse(source, what, f"write {text} = {{x for x in … if …}} beside it")

    def joined_turns(self, at: ast.AST, turn: Expr, kept: Expr, before: dict[str, Expr]) -> None:
        """Each changed field as what its own turn of the loop made of each entry."""
        for name, old in before.items():
            new = self.state[name]
            if new is old:
                continue
            position = _own_entries(new, old, turn)
            if position is None:
                what = f"the loop's assignment to `{name}`"
                said_turn = str(turn.data).partition("#")[0]
                raise self.refuse(at, what, f"assign self.{name}[{said_turn}], nothing else of it")
            for read, indices, where in self.reads:
                own = len(indices) > position and indices[position] is turn
                if read == name and not own:
                    what = f"reading `{read}` of another turn of the loop, which writes it"
                    raise self.refuse(where, what, "keep the old values in a map of their own")
            assert isinstance(new.kind, MapOf), "a loop writes maps"
            keys = tuple(g.fresh("k", kind) for kind in new.kind.keys)
            mine = g.substitute(g.select(new, *keys), {turn: keys[position]})
            taken = g.substitute(kept, {turn: keys[position]})
            self.state[name] = g.lam(keys, g.ite(taken, mine, g.select(old, *keys)))


def _choices(value: ast.expr) -> list[ast.expr]:
    """The expressions that a conditional one chooses from."""
    if isinstance(value, ast.IfExp):
        return [*_choices(value.body), *_choices(value.orelse)]
    return [value]


def _own_entries(new: Expr, old: Expr, turn: Expr) -> int | None:
    """At which key a turn of a loop writes only its own entries, if it does."""
    if not isinstance(new.kind, MapOf):
        return None
    for position, kind in enumerate(new.kind.keys):
        if kind == turn.kind:
            keys = tuple(g.fresh("k", k) for k in new.kind.keys)
            other = {g.eq(keys[position], turn): g.FALSE}
            if g.substitute(g.select(new, *keys), other) is g.select(old, *keys):
                return position
    return None


@dataclass(frozen=True)
class Executed:
    """The meaning of an action's text."""

    parameters: tuple[Parameter, ...]
    guard: Expr
    updates: dict[str, Expr]
    defined: Expr
    fits: Expr
    branches: tuple[tuple[int, Expr], ...]


def execute(
    function: Function, shape: Shape, fields: Fields, *, place: Place | None = None,
    given: tuple[Parameter, ...] = (), relational: bool = False,
) -> Executed:  # fmt: skip
    """
    An action's parameters, its guard, and what becomes of the fields that it changes.

    `place` is where its machine stands (by default, it is the whole), `given` what selects it.
    """
    here = place or Place("", (), MachineOf(shape))
    notes = Notes(relational, file=function.file)
    return translated(
        shape, (function.python, here.name), notes,
        lambda: _executed(function, here, given, shape, fields, notes),
    )  # fmt: skip


def _executed(
    function: Function, here: Place, given: tuple[Parameter, ...], shape: Shape, fields: Fields,
    notes: Notes,
) -> Executed:  # fmt: skip
    if not function.tree.args.args:
        raise function.refuse(function.tree, "an action without `self`", "write a method")
    owner, *others = function.tree.args.args
    parameters = [*given, *(_parameter(function, p) for p in others)]
    values = {p.arg: _given(function, p) for p in others}
    for p in others:
        if p.arg in dict(given):
            what = f"the parameter `{p.arg}`, which is what selects a part of the whole"
            raise function.refuse(p, what, "take another name")
    names: dict[str, Value | Whole] = {owner.arg: Whole(here, _methods(here, shape)), **values}
    body = Body(function, dict(fields), names, notes)
    body.run(function.tree.body)
    updates = {name: new for name, new in body.state.items() if new is not fields[name]}
    guard = g.conj(*notes.guards, *notes.demands, body.guard)
    kept = g.conj(*(rich.within(fields[name].kind, new) for name, new in updates.items()))
    defined = g.conj(*notes.defined, g.implies(guard, kept))
    # What has no meaning counts as possible: the step is then found to be undefined.
    guard = g.disj(guard, g.negate(defined))
    return Executed(
        (*parameters, *notes.invented), guard, updates, defined, g.conj(*notes.fits),
        tuple(notes.branches),
    )  # fmt: skip


def _methods(place: Place, shape: Shape) -> Mapping[str, Function]:
    return place.kind.shape.methods if isinstance(place.kind, MachineOf) else shape.methods


def _parameter(function: Function, parameter: ast.arg) -> Parameter:
    """A parameter of an action: a value of a finite type, or a map to such values."""
    kind = function.annotation(parameter, parameter.annotation)
    if is_key(kind):
        return parameter.arg, g.variable(parameter.arg, kind)
    if isinstance(kind, SetOf) and kind.record is None:
        return parameter.arg, g.node("var", MapOf(kind.keys, BOOL), data=parameter.arg)
    if isinstance(kind, Table) and is_scalar(kind.value) and not isinstance(kind.value, Nat):
        return parameter.arg, g.node("var", MapOf(kind.keys, kind.value), data=parameter.arg)
    what = f"the parameter `{parameter.arg}`, a {said(kind)}"
    advice = "choose from a Sort, an Enum, bool, a bounded number, or a map or set of these"
    raise function.refuse(parameter, what, advice)


def _given(function: Function, parameter: ast.arg) -> Value:
    _, leaf = _parameter(function, parameter)
    kind = function.annotation(parameter, parameter.annotation)
    return Struct(kind, {"": leaf}) if isinstance(kind, SetOf | Table) else leaf


def read_off(
    python: Callable[..., object],
    kind: Rich,
    shape: Shape,
    fields: Fields,
    names: Mapping[str, Any],
) -> tuple[dict[str, Expr], Expr]:
    """A function of a state (and of elements, for a map or set): flat, and when it is defined."""
    function = function_of(python, names)
    owner, *elements = function.tree.args.args
    keys = kind.keys if isinstance(kind, Table | SetOf) else ()
    if len(elements) != len(keys):
        advice = f"take the state, and {len(keys)} elements"
        raise function.refuse(function.tree, "its parameters", advice)
    bounds = tuple(g.fresh(e.arg, k) for e, k in zip(elements, keys, strict=True))
    known: dict[str, Value | Whole] = {
        owner.arg: Whole(Place("", (), MachineOf(shape)), shape.methods, fields)
    }
    known.update({e.arg: b for e, b in zip(elements, bounds, strict=True)})
    wanted = kind.value if isinstance(kind, Table) else BOOL if keys else kind
    notes = Notes()
    found = Scope(function, dict(fields), known, notes).result(function.tree.body, wanted)
    flat = {"": found} if isinstance(found, Expr) else found.parts
    defined = g.conj(*notes.defined)
    for bound in reversed(bounds):
        defined = g.forall(bound, defined)
    return {n: g.lam(bounds, e) if bounds else e for n, e in flat.items()}, defined


@dataclass(frozen=True)
class Evaluated:
    """The meaning of a property's text; `goal` is the second condition of `leads_to`."""

    function: Function
    parameters: tuple[Parameter, ...]
    formula: Expr
    goal: Expr | None
    provable: bool


def evaluate(
    promise: Property, shape: Shape, states: tuple[Fields, ...], names: Mapping[str, Any],
    relational: bool = False,
) -> Evaluated:  # fmt: skip
    """A property over one state, or over two for a step."""
    notes = Notes(relational)
    return translated(
        shape, (promise.function, promise.expectation, promise.negated), notes,
        lambda: _evaluated(promise, shape, states, names, notes),
    )  # fmt: skip


def _evaluated(
    promise: Property, shape: Shape, states: tuple[Fields, ...], names: Mapping[str, Any],
    notes: Notes,
) -> Evaluated:  # fmt: skip
    function = function_of(promise.function, names)
    parameters = function.tree.args.args
    lively = promise.expectation in LIVE
    if len(parameters) < len(states) or (len(parameters) > len(states) and not lively):
        what = f"a property of {len(parameters)} states"
        raise function.refuse(
            function.tree, what, f"{promise.expectation.value} takes {len(states)}"
        )
    here = Place("", (), MachineOf(shape))
    known: dict[str, Value | Whole] = {
        p.arg: Whole(here, shape.methods, state)
        for p, state in zip(parameters, states, strict=False)
    }
    chosen = tuple(_element(function, p) for p in parameters[len(states) :])
    known.update(dict(chosen))
    scope = Scope(function, dict(states[0]), known, notes)
    goal = None
    if promise.expectation is Expectation.LEADS_TO:
        formula, goal = _pair(scope, function)
    else:
        found = scope.result(function.tree.body, BOOL)
        assert isinstance(found, Expr), "a truth value"
        formula = g.negate(found) if promise.negated else found
    # What has no meaning does not hold; where both of a pair are asked, the goal is then due.
    defined = g.conj(*notes.defined)
    if goal is None:
        formula = g.conj(defined, formula)
    else:
        formula, goal = g.implies(defined, formula), g.conj(defined, goal)
    return Evaluated(function, chosen, formula, goal, not notes.invented)


def _element(function: Function, parameter: ast.arg) -> Parameter:
    kind = function.annotation(parameter, parameter.annotation)
    if not is_key(kind):
        what = f"the parameter `{parameter.arg}`, a {said(kind)}"
        raise function.refuse(parameter, what, "range over a Sort, an Enum or bool")
    return parameter.arg, g.variable(parameter.arg, kind)


def _pair(scope: Scope, function: Function) -> tuple[Expr, Expr]:
    """The two conditions that `leads_to` returns."""
    statements = function.tree.body
    last = statements[-1]
    for s in statements[:-1]:
        if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
            raise scope.refuse(s, "a statement before the return", "use helpers instead")
    match last:
        case ast.Return(value=ast.Tuple(elts=[first, second])):
            return scope.truth(first), scope.truth(second)
    raise scope.refuse(last, "the end of a leads_to", "write return premise, goal")
