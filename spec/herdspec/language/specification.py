"""
A spec as its readings see it: fields, actions and properties as expressions, with their sentences.

A `Specification` comes from a class (`Election.__specification__`, or `specification(Election)`),
or from a source string (`from_source`). It is a value: variants are made from it by replacing,
adding or dropping actions by name, and properties are attached to it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from types import FrameType, FunctionType, ModuleType, new_class
from typing import Any

from herdspec.language import graph as g
from herdspec.language.errors import SpecError
from herdspec.language.graph import Expr
from herdspec.language.source import Function, class_of, function_of, read_type
from herdspec.language.surface import (
    ActionMark,
    Each,
    Expectation,
    Kind,
    Property,
    Sort,
    Spec,
    sentence,
)
from herdspec.language.translate import Parameter, evaluate, execute
from herdspec.language.types import Bool, EnumOf, MapOf, Nat, Option, SortOf, Type


@dataclass(frozen=True)
class Field:
    """A part of the state, with the value it starts with (for a map: of each element)."""

    name: str
    kind: Type
    initial: Any


@dataclass(frozen=True)
class Action:
    """One atomic step: over the state before it, when it is possible and what it changes."""

    name: str
    kind: Kind
    disturbs: bool
    parameters: tuple[Parameter, ...]
    guard: Expr
    updates: Mapping[str, Expr]
    sentence: str
    file: str
    line: int


@dataclass(frozen=True)
class Promise:
    """A property of this spec; a `step` is over `field` (before) and `after` leaves."""

    name: str
    expectation: Expectation
    formula: Expr
    sentence: str
    lemma: bool
    file: str
    line: int
    python: Property


@dataclass(frozen=True)
class Specification:
    """Everything that a reading needs to know of a spec."""

    name: str
    sentence: str
    state: type[Spec]
    fields: tuple[Field, ...]
    actions: tuple[Action, ...]
    properties: tuple[Promise, ...]
    methods: Mapping[str, Function] = field(repr=False)
    names: Mapping[str, Any] = field(repr=False)

    @cached_property
    def sorts(self) -> tuple[str, ...]:
        """The names of its sorts: of fields, of parameters, and what else is ranged over."""
        found = [k for f in self.fields for k in _sorts(f.kind)]
        found += [k for a in self.actions for _, p in a.parameters for k in _sorts(p.kind)]
        formulas = [e for a in self.actions for e in (a.guard, *a.updates.values())]
        formulas += [p.formula for p in self.properties]
        found += sorted({k for e in formulas for x in g.leaves(e, "var") for k in _sorts(x.kind)})
        return tuple(dict.fromkeys(found))

    def action(self, name: str) -> Action:
        """The action with this name; KeyError with the known names if there is none."""
        for a in self.actions:
            if a.name == name:
                return a
        known = ", ".join(a.name for a in self.actions)
        raise KeyError(f"{self.name} has no action {name!r}; it has {known}")

    def promise(self, name: str) -> Promise:
        """The property with this name."""
        for p in self.properties:
            if p.name == name:
                return p
        known = ", ".join(p.name for p in self.properties)
        raise KeyError(f"{self.name} has no property {name!r}; it has {known}")

    def with_properties(self, *promises: Property) -> Specification:
        """The same spec, held to these properties too."""
        return replace(self, properties=(*self.properties, *(_promise(self, p) for p in promises)))

    def replace(self, name: str, **functions: Callable[..., object]) -> Specification:
        """A variant under a new name: these actions or helpers are others."""
        self._check_known(functions, "replace")
        return self._variant(name, functions)

    def add(self, name: str, **functions: Callable[..., object]) -> Specification:
        """A variant under a new name, with further actions or helpers."""
        for function in functions:
            if function in self.methods:
                raise KeyError(f"{self.name} has {function!r} already; replace it")
        return self._variant(name, functions)

    def drop(self, name: str, *functions: str) -> Specification:
        """A variant under a new name, without these actions."""
        self._check_known(functions, "drop")
        return self._variant(name, dict.fromkeys(functions))

    def _check_known(self, functions: Iterable[str], purpose: str) -> None:
        for function in functions:
            if function not in self.methods:
                known = ", ".join(self.methods)
                raise KeyError(f"{self.name} has no {function!r} to {purpose}; it has {known}")

    def _variant(
        self, name: str, functions: Mapping[str, Callable[..., object] | None]
    ) -> Specification:
        """The variant's class runs as Python does; its graph is read again from the functions."""
        body: dict[str, Any] = {"__doc__": self.state.__doc__, "__module__": self.state.__module__}
        body.update(functions)
        variant = new_class(name, (self.state,), {"variant": True}, lambda ns: ns.update(body))
        made = of_class(variant, {**self.names, **_names_of(functions)})
        return made.with_properties(*(p.python for p in self.properties))


def specification(spec: type[Spec], *promises: Property) -> Specification:
    """The specification of a class, held to these properties."""
    made: Specification = spec.__specification__
    return made.with_properties(*promises)


def of_class(cls: type[Spec], names: Mapping[str, Any]) -> Specification:
    """Read a class: its fields, its actions, its helpers."""
    python = _functions(cls)
    methods = {name: function_of(f, names) for name, f in python.items()}
    fields = _fields(cls, names)
    leaves = {f.name: g.field(f.name, f.kind) for f in fields}
    marks = {name: _mark(cls, name) for name in python}
    actions = tuple(
        _action(name, methods[name], mark, methods, leaves) for name, mark in marks.items() if mark
    )
    return Specification(cls.__name__, sentence(cls), cls, fields, actions, (), methods, names)


def define(cls: type[Spec], frame: FrameType) -> Specification:
    """The specification of the class whose statement this frame executes."""
    file, statement = class_of(cls.__name__, frame)
    cls.__statement__ = statement
    for s in statement.body:
        _check_statement(cls, file, s)
    return of_class(cls, dict(frame.f_locals))


def _check_statement(cls: type[Spec], file: str, s: ast.stmt) -> None:
    """Refuse statements of a class body that no reading understands."""

    def refuse(what: str, advice: str) -> SpecError:
        return SpecError(file, s.lineno, f"{what} in the class {cls.__name__}", advice)

    name = ""
    match s:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return
        case ast.AnnAssign(target=ast.Name(id=name)):
            if s.value is None:
                raise refuse(f"the field `{name}` without initial value", "give it one")
        case ast.FunctionDef(name=name):
            if not isinstance(vars(cls).get(name), FunctionType):
                advice = "write plain methods; the one decorator is @action"
                raise refuse(f"the decorated method `{name}`", advice)
        case _:
            advice = "write fields with a type and an initial value, and methods"
            raise refuse(f"`{ast.unparse(s).splitlines()[0]}`", advice)
    if hasattr(Spec, name):
        raise refuse(f"the name `{name}`", "take another: states have this one already")


_sources = count(1)


def from_source(text: str, name: str) -> Specification:
    """
    The specification of the class `name` in a source string.

    Raises `SpecError` with the line in the string. The text is executed: it is code, trust it so.
    """
    file = f"<spec {next(_sources)}>"
    module = ModuleType(file)
    module.__file__ = file
    sys.modules[file] = module
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        code = compile(text, file, "exec")
    except SyntaxError as error:
        raise SpecError(file, error.lineno or 1, error.msg, "write valid Python") from None
    exec(code, module.__dict__)
    found = module.__dict__.get(name)
    if not (isinstance(found, type) and issubclass(found, Spec)):
        raise SpecError(file, 1, f"no class `{name}` derived from Spec", "name the spec's class")
    promises = [p for p in module.__dict__.values() if isinstance(p, Property)]
    return specification(found, *promises)


def _functions(cls: type[Spec]) -> dict[str, FunctionType]:
    """The functions of a class and its bases below `Spec`; a dropped one is `None` there."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(Spec)]):
        found.update({n: f for n, f in vars(base).items() if n in found or _is_method(f)})
    return {name: f for name, f in found.items() if f is not None}


def _is_method(f: Any) -> bool:
    return isinstance(f, FunctionType) and not f.__name__.startswith("__")


def _fields(cls: type[Spec], names: Mapping[str, Any]) -> tuple[Field, ...]:
    file = inspect.getsourcefile(_defined(cls)) or "<unknown>"
    fields = []
    for base in reversed(cls.__mro__[: cls.__mro__.index(Spec)]):
        for name, hint in vars(base).get("__annotations__", {}).items():
            kind = _field_type(base, name, hint, names, file)
            place = (file, _line_of_field(base, name))
            fields.append(Field(name, kind, _initial(name, kind, vars(base)[name], place)))
    return tuple(fields)


def _defined(cls: type[Spec]) -> type[Spec]:
    """The class that a class statement made: variants have none of their own."""
    return cls.__mro__[cls.__mro__.index(Spec) - 1]


def _field_type(cls: type[Spec], name: str, hint: Any, names: Mapping[str, Any], file: str) -> Type:
    line = _line_of_field(cls, name)

    def refuse(what: str) -> SpecError:
        advice = "use bool, Nat, an Enum, a Sort, Optional of these, or dict from a Sort"
        return SpecError(file, line, f"the field `{name}`: {what}", advice)

    if isinstance(hint, str):
        module = vars(sys.modules[cls.__module__])
        try:
            hint = eval(hint, {**module, **names})
        except Exception as error:
            raise refuse(str(error)) from None
    return read_type(hint, refuse)


def _line_of_field(cls: type[Spec], name: str) -> int:
    statement: ast.ClassDef = cls.__statement__
    for s in statement.body:
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.target.id == name:
            return s.lineno
    return statement.lineno


def _initial(name: str, kind: Type, value: Any, place: tuple[str, int]) -> Any:
    """The encoded start value, checked against the type."""
    scalar = kind.value if isinstance(kind, MapOf) else kind
    if isinstance(kind, MapOf) != isinstance(value, Each):
        advice = "write each(value) for a dict, the value itself for anything else"
        raise SpecError(*place, f"the initial value of `{name}`", advice)
    plain = value.value if isinstance(value, Each) else value
    match scalar:
        case Bool() if isinstance(plain, bool):
            return plain
        case Nat() if isinstance(plain, int) and not isinstance(plain, bool) and plain >= 0:
            return plain
        case EnumOf(cls=cls) if isinstance(plain, cls):
            return plain
        case Option() if plain is None:
            return None
    advice = "start with a constant; elements of a sort can be chosen by a first action only"
    raise SpecError(*place, f"the initial value {plain!r} of `{name}`", advice)


def _action(
    name: str, function: Function, mark: ActionMark, methods: Mapping[str, Function],
    leaves: dict[str, Expr],
) -> Action:  # fmt: skip
    parameters, guard, updates = execute(function, methods, leaves)
    try:
        function.sentence.format(**{name: "" for name, _ in parameters})
    except (LookupError, ValueError) as error:
        what = f"the docstring of `{name}`: {error!r}"
        raise function.refuse(function.tree, what, "name parameters only in {}") from None
    return Action(
        name, mark.kind, mark.disturbs, parameters, guard, updates,
        function.sentence, function.file, function.line,
    )  # fmt: skip


def _promise(spec: Specification, promise: Property) -> Promise:
    before = {f.name: g.field(f.name, f.kind) for f in spec.fields}
    after = {f.name: g.node("after", f.kind, data=f.name) for f in spec.fields}
    states = (before, after) if promise.expectation is Expectation.STEP else (before,)
    function, formula = evaluate(promise, spec.methods, states, spec.names)
    return Promise(
        promise.name, promise.expectation, formula, promise.sentence, promise.lemma,
        function.file, function.line, promise,
    )  # fmt: skip


def _mark(cls: type[Spec], name: str) -> ActionMark | None:
    """A replacement is the kind of action that it replaces, unless it says otherwise."""
    for base in cls.__mro__:
        if name in vars(base):
            mark: ActionMark | None = getattr(vars(base)[name], "__herdspec_action__", None)
            if mark or vars(base)[name] is None:
                return mark
    return None


def _names_of(functions: Mapping[str, Callable[..., object] | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for function in functions.values():
        if function is not None:
            found.update(inspect.getclosurevars(function).nonlocals)
    return found


def _sorts(kind: Type) -> list[str]:
    match kind:
        case SortOf(name=name):
            return [name]
        case Option(of=SortOf(name=name)):
            return [name]
        case MapOf(key=key, value=value):
            return [key.name, *_sorts(value)]
    return []


def encode(kind: Type, value: Any) -> int:
    """
    A plain value as a number: 0/1, a natural, an enum's position, a sort's index.

    Optional values are one more than what they hold, 0 is absence.
    """
    match kind:
        case Option(of=of):
            return 0 if value is None else 1 + encode(of, value)
        case EnumOf(members=members):
            return members.index(value)
        case SortOf() if isinstance(value, Sort):
            return value.index
    return int(value)


def decode(kind: Type, number: int, sorts: Mapping[str, type[Sort]]) -> Any:
    """The plain value that a number stands for; the reverse of `encode`."""
    match kind:
        case Option(of=of):
            return None if number == 0 else decode(of, number - 1, sorts)
        case EnumOf(members=members):
            return members[number]
        case SortOf(name=name):
            return sorts[name](number)
        case Bool():
            return bool(number)
    return int(number)


def sort_classes(spec: Specification) -> dict[str, type[Sort]]:
    """The classes behind a spec's sorts; those of its fields need no name where it was defined."""
    module = vars(sys.modules[_defined(spec.state).__module__])
    keys = [f.kind.key for f in spec.fields if isinstance(f.kind, MapOf)]
    known = {**module, **spec.names, **{key.name: key.cls for key in keys if key.cls}}
    return {name: known[name] for name in spec.sorts}
