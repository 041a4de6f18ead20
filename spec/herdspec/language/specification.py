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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from types import FrameType, FunctionType, ModuleType, new_class
from typing import Any

from herdspec.language import graph as g
from herdspec.language.declared import ANY as ANY
from herdspec.language.declared import Field, declared, defined, flat_fields, place_of
from herdspec.language.errors import SpecError
from herdspec.language.given import misused, said
from herdspec.language.graph import Expr
from herdspec.language.outside import unchanged
from herdspec.language.reading.bodies import READ, check_class, check_module
from herdspec.language.reading.expressions import WORDS
from herdspec.language.reading.source import Function, class_of, function_of
from herdspec.language.reading.translate import Executed, Parameter, evaluate, execute
from herdspec.language.rich import TAG, Place
from herdspec.language.sorts import check_sorts, sorts_in
from herdspec.language.surface import (
    ActionKind,
    ActionMark,
    Expectation,
    Fairness,
    Property,
    Sort,
    Spec,
    sentence,
)
from herdspec.language.types import (
    ChannelOf,
    MachineOf,
    MapOf,
    Option,
    Rich,
    Shape,
    SortOf,
    Table,
    Type,
)


@dataclass(frozen=True)
class Branch:
    """A branch of an action's text: covered by a step before which the formula holds."""

    line: int
    formula: Expr


@dataclass(frozen=True)
class Action:
    """
    One atomic step: over the state before it, when it is possible and what it changes.

    Where the guard holds and `defined` does not, the step has no meaning: a failure in every
    reading. Where the guard holds and `fits` does not, it would overflow a channel: beyond the
    bound. An action of a part is named `part.action`; its first `indices` parameters select it.
    """

    name: str
    kind: ActionKind
    disturbs: bool
    parameters: tuple[Parameter, ...]
    guard: Expr
    updates: Mapping[str, Expr]
    sentence: str
    file: str
    line: int
    fair: Fairness | None = None
    defined: Expr = g.TRUE
    fits: Expr = g.TRUE
    branches: tuple[Branch, ...] = ()
    indices: int = 0


@dataclass(frozen=True)
class DeclaredProperty:
    """
    A property of this spec; a `step` is over `field` (before) and `after` leaves.

    `parameters` are the elements that an `eventually` or `leads_to` holds for each of; the latter
    is `formula` leads to `goal`. What is not `provable` speaks of a channel's order or length.
    """

    name: str
    expectation: Expectation
    formula: Expr
    sentence: str
    lemma: bool
    file: str
    line: int
    python: Property
    parameters: tuple[Parameter, ...] = ()
    goal: Expr | None = None
    provable: bool = True


@dataclass(frozen=True)
class Specification:
    """Everything that a reading needs to know of a spec."""

    name: str
    sentence: str
    state: type[Spec]
    fields: tuple[Field, ...]
    actions: tuple[Action, ...]
    properties: tuple[DeclaredProperty, ...]
    shape: Shape = field(repr=False)
    names: Mapping[str, Any] = field(repr=False)
    starts: tuple[Action, ...] = ()
    """Actions that make the initial states of the declared values; none: these are initial."""
    relational: bool = False

    @property
    def methods(self) -> Mapping[str, Function]:
        """Its actions and helpers by name."""
        return self.shape.methods

    @property
    def rich(self) -> Mapping[str, Rich]:
        """Its fields as they were written, by name."""
        return self.shape.rich

    @cached_property
    def leaves(self) -> tuple[Mapping[str, Expr], Mapping[str, Expr]]:
        """Its flat fields as expressions: before a step, and after it."""
        before = {f.name: g.field(f.name, f.kind) for f in self.fields}
        return before, {f.name: g.node("after", f.kind, data=f.name) for f in self.fields}

    @cached_property
    def for_proof(self) -> Specification:
        """This spec with its channels in relational form, as proofs take it."""
        if not _has_channels(self.shape):
            return self
        if TAG.name in self.sorts:
            what = f"the sort {TAG.name} beside channels, whose messages proofs know by it"
            raise SpecError(*place_of(self.state), what, "give it another name")
        made = replace(of_class(self.state, self.names, relational=True), name=self.name)
        return replace(made, properties=tuple(_for_proof(made, p) for p in self.properties))

    @cached_property
    def writers(self) -> Mapping[str, tuple[str, ...]]:
        """Which actions write each flat field: what the parts of a composed spec share."""
        return {
            f.name: tuple(a.name for a in self.actions if f.name in a.updates) for f in self.fields
        }

    @cached_property
    def sorts(self) -> tuple[str, ...]:
        """The names of its sorts: of fields, of parameters, and what else is ranged over."""
        found = [k for f in self.fields for k in _sorts(f.kind)]
        found += [k for a in self.actions for _, p in a.parameters for k in _sorts(p.kind)]
        variables = (x for e in self._formulas() for x in g.leaves(e, "var"))
        found += sorted({k for x in variables for k in _sorts(x.kind)})
        return tuple(dict.fromkeys(found))

    def _formulas(self) -> Iterator[Expr]:
        """Everything that is said of states and steps."""
        for a in self.actions:
            yield from (a.guard, a.defined, *a.updates.values())
        for p in self.properties:
            yield from (e for e in (p.formula, p.goal) if e is not None)

    @cached_property
    def largest_number(self) -> int:
        """The largest number that is written in an action or a property."""
        written = (
            abs(x.data)
            for e in (*self._formulas(), *(e for a in self.starts for e in a.updates.values()))
            for op in ("const", "add")
            for x in g.leaves(e, op)
            if isinstance(x.data, int)
        )
        return max(written, default=0)

    def action(self, name: str) -> Action:
        """The action with this name; KeyError with the known names if there is none."""
        for a in self.actions:
            if a.name == name:
                return a
        known = ", ".join(a.name for a in self.actions)
        raise KeyError(f"{self.name} has no action {name!r}; it has {known}")

    def promise(self, name: str) -> DeclaredProperty:
        """The property with this name."""
        for p in self.properties:
            if p.name == name:
                return p
        known = ", ".join(p.name for p in self.properties)
        raise KeyError(f"{self.name} has no property {name!r}; it has {known}")

    def with_properties(self, *promises: Property) -> Specification:
        """This spec, held to further properties, too."""
        for p in promises:
            if not isinstance(p, Property):
                what = f"{said(p)} as a property of {self.name}"
                raise misused(what, "give functions under @always, @sometimes, …")
        made = (*self.properties, *(_promise(self, p) for p in promises))
        _check_properties(self, made)
        return replace(self, properties=made)

    def replace(self, name: str, **functions: Callable[..., object]) -> Specification:
        """A variant under a new name: these actions or helpers are others."""
        self._check_known(functions, "replace")
        return self._variant(name, functions)

    def add(self, name: str, **functions: Callable[..., object]) -> Specification:
        """A variant under a new name, with further actions or helpers."""
        for function in functions:
            if function in self.methods:
                raise KeyError(f"{self.name} has {function!r} already; replace it")
            if function in self.rich or hasattr(Spec, function):
                raise KeyError(f"{function!r} is no new name: states of {self.name} have it")
        return self._variant(name, functions)

    def drop(self, name: str, *functions: str) -> Specification:
        """A variant under a new name, without these actions."""
        self._check_known(functions, "drop")
        return self._variant(name, dict.fromkeys(functions))

    def with_room(
        self, name: str, capacity: int, **functions: Callable[..., object]
    ) -> Specification:
        """As `replace`, with channels that hold so many items at least (in replays)."""
        self._check_known(functions, "replace")
        return self._variant(name, functions, room=capacity)

    def _check_known(self, functions: Iterable[str], purpose: str) -> None:
        for function in functions:
            if function not in self.methods:
                known = ", ".join(self.methods)
                raise KeyError(f"{self.name} has no {function!r} to {purpose}; it has {known}")

    def _variant(
        self, name: str, functions: Mapping[str, Callable[..., object] | None], room: int = 0
    ) -> Specification:
        """The variant's class runs as Python does; what is another function is read again."""
        for word, function in functions.items():
            if function is not None and not isinstance(function, FunctionType):
                raise misused(f"{word}={said(function)}", "give a plain function")
        body: dict[str, Any] = {"__doc__": self.state.__doc__, "__module__": self.state.__module__}
        body.update(functions, **({"__room__": room} if room else {}))
        variant = new_class(name, (self.state,), {"variant": True}, lambda ns: ns.update(body))
        further = _names_of(functions)
        same = not room and all(n in self.names and self.names[n] is further[n] for n in further)
        made = of_class(variant, {**self.names, **further}, base=self.shape if same else None)
        setattr(variant, "__specification__", made)  # noqa: B010 - a variant is a Spec to types
        return made.with_properties(*(p.python for p in self.properties))


def _has_channels(shape: Shape) -> bool:
    def has(kind: Rich) -> bool:
        match kind:
            case ChannelOf():
                return True
            case Table(value=value):
                return has(value)
            case MachineOf(shape=inner):
                return _has_channels(inner)
        return False

    return any(map(has, shape.rich.values()))


def specification(spec: type[Spec], *promises: Property) -> Specification:
    """The specification of a class, held to these properties."""
    made = getattr(spec, "__specification__", None)
    if not isinstance(made, Specification):
        raise misused(f"specification({said(spec)})", "give it a class that derives from Spec")
    return made.with_properties(*promises)


def of_class(
    cls: type[Spec], names: Mapping[str, Any], relational: bool = False, base: Shape | None = None
) -> Specification:
    """
    Read a class: its fields, its actions, its helpers, and what its parts do by themselves.

    Of a `base` with the same fields and names, what it has read holds here wherever it can.
    """
    python = _functions(cls)
    known = {f.python: f for f in base.methods.values()} if base else {}
    methods = {name: known.get(f) or function_of(f, names) for name, f in python.items()}
    READ.update(python.values())
    found = declared(cls, names)
    rich = {name: kind for name, (kind, _, _) in found.items()}
    replaced = frozenset(base.methods.values() if base else ()) - frozenset(methods.values())
    inherited = base.translations if base else {}
    shape = Shape(cls.__name__, rich, methods, cls, inherited=inherited, replaced=replaced)
    fields = tuple(flat_fields(found, relational))
    check_sorts([f.kind for f in fields], methods.values(), place_of(cls))
    reader = _Reader(shape, {f.name: g.field(f.name, f.kind) for f in fields}, relational)
    own = [reader.action(n, methods[n], m) for n in python if (m := _mark(cls, n))]
    marks = {n: m for n in python if (m := _mark(cls, n))}
    actions = tuple(a for a in own if not marks[a.name].starts)
    starts = tuple(a for a in own if marks[a.name].starts)
    return Specification(
        cls.__name__, sentence(cls), cls, fields, (*actions, *reader.of_parts()), (), shape, names,
        starts, relational,
    )  # fmt: skip


def define(cls: type[Spec], frame: FrameType) -> Specification:
    """The specification of the class whose statement this frame executes."""
    file, statement = class_of(cls.__name__, frame)
    cls.__statement__ = statement
    _check_bases(cls, file, statement)
    check_class(file, cls.__name__, statement.body)
    for s in statement.body:
        _check_statement(cls, file, s)
    return of_class(cls, dict(frame.f_locals))


def _check_bases(cls: type[Spec], file: str, statement: ast.ClassDef) -> None:
    """Refuse bases that are no specs: their bodies were never checked, though Python runs them."""
    for base, written in zip(cls.__bases__, statement.bases, strict=False):
        if base is not object and not issubclass(base, Spec):
            what = f"the base `{base.__name__}` of the class {cls.__name__}, which is no spec"
            advice = "write its fields and methods in a class that derives from Spec"
            raise SpecError(file, written.lineno, what, advice)


def _check_statement(cls: type[Spec], file: str, s: ast.stmt) -> None:
    """Refuse statements of a class body that no reading understands."""

    def refuse(what: str, advice: str) -> SpecError:
        return SpecError(file, s.lineno, f"{what} in the class {cls.__name__}", advice)

    name = ""
    match s:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return
        case ast.AnnAssign(target=ast.Name(id=name)):
            pass
        case ast.FunctionDef(name=name):
            if not isinstance(vars(cls).get(name), FunctionType):
                advice = "write plain methods; the one decorator is @action"
                raise refuse(f"the decorated method `{name}`", advice)
        case _:
            advice = "write fields with a type and an initial value, and methods"
            raise refuse(f"`{ast.unparse(s).splitlines()[0]}`", advice)
    for base in cls.__mro__[1:]:
        is_field, is_method = name in vars(base).get("__annotations__", {}), vars(base).get(name)
        other = is_field if isinstance(s, ast.FunctionDef) else isinstance(is_method, FunctionType)
        if other and base is not Spec:
            what = f"the name `{name}`, which is a {'field' if is_field else 'method'} of its base,"
            raise refuse(what, "take another")
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
    check_module(module)
    unchanged(found.__specification__.shape)
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


@dataclass
class _Reader:
    """Reads actions off the methods of one spec, and of its parts."""

    shape: Shape
    leaves: dict[str, Expr]
    relational: bool

    def action(self, name: str, function: Function, mark: ActionMark) -> Action:
        """An action of the spec itself."""
        return self._made(name, function, mark, self._execute(function))

    def _execute(self, function: Function, **where: Any) -> Executed:
        return execute(function, self.shape, self.leaves, relational=self.relational, **where)

    def _made(
        self, name: str, function: Function, mark: ActionMark, e: Executed, indices: int = 0
    ) -> Action:
        known = [n for n, _ in e.parameters]
        try:
            function.sentence.format(**dict.fromkeys(known, ""))
        except (LookupError, ValueError) as error:
            of = f"the docstring of `{function.name}`"
            named = error.args[0] if isinstance(error, KeyError) else None
            what = f"{of}: {error}" if named is None else f"`{{{named}}}` in {of}, no parameter"
            advice = f"name parameters only in {{}} ({', '.join(known) or 'it has none'})"
            raise function.refuse(function.tree, what, advice) from None
        return Action(
            name, mark.kind, mark.disturbs, e.parameters, e.guard, e.updates,
            function.sentence, function.file, function.line, mark.fair, e.defined, e.fits,
            tuple(Branch(line, formula) for line, formula in e.branches), indices,
        )  # fmt: skip

    def of_parts(self) -> Iterator[Action]:
        """The actions that the parts take by themselves: those that no joint action calls."""
        yield from self._of_parts_in(Place("", (), MachineOf(self.shape)), ())

    def _of_parts_in(self, whole: Place, given: tuple[Parameter, ...]) -> Iterator[Action]:
        assert isinstance(whole.kind, MachineOf), "only machines have parts"
        joint: set[tuple[str, str]] | None = None
        for name in whole.kind.shape.rich:
            place, indices = whole.attribute(name), given
            if isinstance(place.kind, Table):
                keys = enumerate(place.kind.keys, start=len(given) + 1)
                more = [(f"at{k}", g.variable(f"at{k}", key)) for k, key in keys]
                place, indices = place.entry(tuple(e for _, e in more)), (*given, *more)
            if isinstance(place.kind, MachineOf):
                joint = _called(whole.kind.shape) if joint is None else joint
                yield from self._of_part(place, place.kind.shape, indices, name, joint)
                yield from self._of_parts_in(place, indices)

    def _of_part(
        self, place: Place, shape: Shape, given: tuple[Parameter, ...], name: str,
        joint: set[tuple[str, str]],
    ) -> Iterator[Action]:  # fmt: skip
        for method, function in shape.methods.items():
            mark = _mark(shape.state, method)
            if mark and not mark.starts and (name, method) not in joint:
                e = self._execute(function, place=place, given=given)
                yield self._made(f"{place.name}.{method}", function, mark, e, len(given))


def _called(shape: Shape) -> set[tuple[str, str]]:
    """Which methods of which parts the spec's own actions and helpers call: part, method."""
    found = set()
    for called in (e for f in _running(shape) for e in _called_in(f.tree)):
        if isinstance(called, ast.Attribute):
            owner = called.value
            owner = owner.value if isinstance(owner, ast.Subscript) else owner
            if isinstance(owner, ast.Attribute):
                found.add((owner.attr, called.attr))
    return found


@lru_cache(maxsize=4096)
def _called_in(tree: ast.FunctionDef) -> tuple[ast.expr, ...]:
    """The callees in a function's body: a spec and its variants share most of their texts."""
    nodes = (n for s in tree.body for n in ast.walk(s))
    return tuple(n.func for n in nodes if isinstance(n, ast.Call))


def _running(shape: Shape) -> Iterator[Function]:
    """The texts that a spec's own steps run through: its methods, and the functions they call."""
    marks = {name: _mark(shape.state, name) for name in shape.methods}
    todo = [f for name, f in shape.methods.items() if not ((m := marks[name]) and m.starts)]
    seen = set(filter(callable, WORDS.values()))
    while todo:
        function = todo.pop()
        yield function
        for called in _called_in(function.tree):
            if isinstance(called, ast.Name):
                helper = function.outer_names(called.id).get(called.id)
                if isinstance(helper, FunctionType) and helper not in seen:
                    seen.add(helper)
                    todo.append(function_of(helper, function.names))


def _check_properties(spec: Specification, promises: tuple[DeclaredProperty, ...]) -> None:
    """Refuse two of one name, and axioms about what actions change."""
    named: dict[str, DeclaredProperty] = {}
    for p in promises:
        first = named.setdefault(p.name, p)
        if first is not p:
            what = f"the property `{p.name}` of {spec.name} for the second time"
            raise SpecError(
                p.file, p.line, f"{what}: the first is in {first.file}:{first.line}",
                "give each its own name, and each once",
            )  # fmt: skip
        if p.expectation is Expectation.AXIOM:
            _check_axiom(spec, p)


def _check_axiom(spec: Specification, p: DeclaredProperty) -> None:
    for leaf in g.leaves(p.formula, "field"):
        if writers := spec.writers[leaf.data]:
            what = f"the axiom `{p.name}` about {leaf.data}, which {writers[0]} changes"
            at = f"({writers[0]}: line {spec.action(writers[0]).line})"
            advice = "an axiom is about fields that no action changes; promise it with @always"
            raise SpecError(p.file, p.line, f"{what} {at}", advice)


def _promise(spec: Specification, promise: Property) -> DeclaredProperty:
    states = spec.leaves if promise.expectation is Expectation.STEP else spec.leaves[:1]
    e = evaluate(promise, spec.shape, states, spec.names, spec.relational)
    kinds = [f.kind for f in spec.fields]
    check_sorts(kinds, [e.function], (e.function.file, e.function.line))
    return DeclaredProperty(
        promise.name, promise.expectation, e.formula, promise.sentence, promise.lemma,
        e.function.file, e.function.line, promise, e.parameters, e.goal, e.provable,
    )  # fmt: skip


def _for_proof(relational: Specification, promise: DeclaredProperty) -> DeclaredProperty:
    """A property over relational channels; what cannot be said of these is not provable."""
    try:
        return _promise(relational, promise.python)
    except SpecError:
        if promise.expectation is Expectation.AXIOM:
            raise
        return replace(promise, formula=g.TRUE, goal=None, provable=False)


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
        case Option(of=of):
            return _sorts(of)
        case MapOf(keys=keys, value=value):
            return [n for k in (*keys, value) for n in _sorts(k)]
    return []


def sort_classes(spec: Specification) -> dict[str, type[Sort]]:
    """The classes behind a spec's sorts; those of its types need no name where it was defined."""
    module = vars(sys.modules[defined(spec.state).__module__])
    # Not of parameters: equal expressions of all specs are one, and know the first one's class.
    kinds = [f.kind for f in spec.fields]
    known = {**module, **spec.names, **{k.name: k.cls for k in sorts_in(kinds) if k.cls}}
    return {name: known[name] for name in spec.sorts}
