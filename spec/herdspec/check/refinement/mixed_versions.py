"""
A rolling upgrade: members that run the old spec and members that run the new one, in one system.

`together(OLD, NEW, "Client")` writes one more spec, as text in the spec language: the fields of
both, a ghost map `upgraded` of who is new, each action of both as helper methods (`old_grant`,
`new_grant`), and for each action a dispatcher. Its first parameter of the chosen sort is who acts:
an old member does what the old spec says, a new one what the new spec says. `upgrade` makes an old
member a new one; everybody starts as old. An action without such a parameter is of *the rest* of
the system (a server, say), which is upgraded as a whole, if the two specs differ in it.

Because it is text, it is read, checked and run as any other spec is, by every reading.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from types import FunctionType, ModuleType
from typing import Any

from herdspec.check.digest import digest_of
from herdspec.check.exploration.exploration import Story
from herdspec.check.running.run import Step
from herdspec.language.errors import UsageError
from herdspec.language.reading.source import Function, function_of
from herdspec.language.specification import Action, DeclaredProperty, Specification, specification
from herdspec.language.surface import ActionKind, Each, Property, Spec, action, each, require
from herdspec.language.types import EnumOf, MapOf, SortOf, said

WHO, REST = "upgraded", "rest_upgraded"
"""The ghost fields that say who is new, and whether the rest of the system is."""
OLD_PROMISE = "_as_the_old_one_promises"
"""The ending of an old promise's name, where the new spec promises something else by it."""

LANGUAGE = "herdspec.language"
"""Where the functions are defined that every spec is written with."""
NOT_OURS = (LANGUAGE, "builtins", "dataclasses", "enum", "typing")
"""Where the types are defined that no spec's author does."""

NOTHING = object()
"""The initial value of a field that is declared without one: a part."""

_files = count(1)


@dataclass(frozen=True)
class Mixed:
    """
    Two specs in one: `spec` is the system, whose members of `sort` are old or new.

    `promised` says of each of its properties by which of the two it is promised, and as what.
    """

    spec: Specification
    old: Specification
    new: Specification
    sort: str
    promised: Mapping[str, tuple[tuple[Specification, str], ...]]

    def lines(self, story: Story) -> list[str]:
        """A story as numbered sentences that say whether who acts is old or new."""
        said, before = {}, story.initial
        for number, step in enumerate(story.steps, start=1):
            end = f"  [{step.label}]"
            said[f"{number:3}. {step.sentence}{end}"] = (
                f"{number:3}. {self._said(step, before)}{end}"
            )
            before = step.state
        return [said.get(line, line) for line in story.lines]

    def _said(self, step: Step, before: Spec) -> str:
        """A step's sentence, as who takes it has it, and as what that one takes it."""
        who, is_new = self._who(step, before)
        by = [a for a in (self.new if is_new else self.old).actions if a.name == step.action.name]
        if not who or not by:
            return step.sentence
        own = replace(step.action, sentence=by[0].sentence, parameters=by[0].parameters)
        return f"{replace(step, action=own).sentence}  ({who} {'new' if is_new else 'old'})"

    def _who(self, step: Step, before: Spec) -> tuple[str, bool]:
        """Who takes a step, and whether that one is new; parts are nobody's and the same."""
        if "." in step.action.name:
            return "", False
        for (_, parameter), value in zip(step.action.parameters, step.arguments, strict=True):
            if isinstance(parameter.kind, SortOf) and parameter.kind.name == self.sort:
                return f"{value} is", getattr(before, WHO)[value]
        rest = getattr(before, REST, None)
        return ("" if rest is None else "the rest is"), bool(rest)


def together(old: Specification, new: Specification, sort: str) -> Mixed:
    """
    The system in which members of `sort` are old or new; `UsageError` where that has no meaning.

    Both must have the sort, and fields of one name must be of one type; of an enum the new spec may
    have more members. A field that only one has starts as it starts there.
    """
    for spec in (old, new):
        if sort not in spec.sorts:
            known = ", ".join(spec.sorts) or "none"
            raise UsageError(f"{spec.name} has no sort {sort!r} to upgrade; its sorts: {known}")
        taken = {f.name for f in spec.fields} | set(spec.methods)
        if clash := taken & {WHO, REST, "upgrade", "upgrade_the_rest"}:
            raise UsageError(f"{spec.name} has {', '.join(clash)} itself: rename it, to mix it")
    _check_fields(old, new)
    return _Writer(old, new, sort).mixed()


def _check_fields(old: Specification, new: Specification) -> None:
    """Fields of one name must mean the same to both."""
    others = {f.name: f for f in new.fields}
    for f in old.fields:
        if f.name in others and not _fits(f.kind, others[f.name].kind):
            before, after = (_in_full(x.kind) for x in (f, others[f.name]))
            what = f"the field {f.name} is {before} in {old.name}, {after} in {new.name}"
            raise UsageError(f"{what}: old and new members cannot share it; give it another name")


def _fits(old: Any, new: Any) -> bool:
    """Tells whether what an old member writes is a value for a new one."""
    before, after = _enum(old), _enum(new)
    names = [{m.name for m in e} if e else set() for e in (before, after)]
    return said(old) == said(new) and names[0] <= names[1]


def _enum(kind: Any) -> type[Enum] | None:
    """The enum that a flat type holds, if any."""
    inner = kind.value if isinstance(kind, MapOf) else kind
    inner = getattr(inner, "of", inner)
    return inner.cls if isinstance(inner, EnumOf) else None


def _in_full(kind: Any) -> str:
    enum = _enum(kind)
    return said(kind) + (f" of {', '.join(m.name for m in enum)}" if enum else "")


# ── Writing the text ────────────────────────────────────────────────────────────────────────


@dataclass
class _World:
    """The names that the text sees, and what was written of helper functions so far."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    helpers: dict[tuple[str, FunctionType], str] = field(default_factory=dict)
    """Under which name which side's function was written."""

    def brings(self, side: _Side, name: str, value: Any) -> str:
        """The name under which the text sees what this side calls `name`."""
        if value in side.states:
            return self.name
        if isinstance(value, FunctionType) and not value.__module__.startswith(LANGUAGE):
            return side.helper(value)
        own = _is_ours(value)
        named = value.__name__ if own else name
        named = named if own or isinstance(value, type | FunctionType) else f"{side.prefix}_{name}"
        self.values[named] = self.shared(value, named)
        if own and self.values[named] is not value:
            _check_alike(named, value, self.values[named])
        return named

    def shared(self, value: Any, name: str = "") -> Any:
        """The value as the new spec has it: its enums and sorts are everybody's."""
        if isinstance(value, Each):
            return Each(self.shared(value.value))
        if isinstance(value, Enum):
            there = self.values.get(type(value).__name__, type(value))
            return there[value.name]
        return self.values.get(name, value) if _is_ours(value) else value


def _members(enum: Any) -> set[str]:
    return {member.name for member in enum}


def _is_ours(value: Any) -> bool:
    """Tells whether it is a type of a spec's author, which old and new may both have."""
    return isinstance(value, type) and not value.__module__.startswith(NOT_OURS)


def _check_alike(name: str, old: type[Any], new: type[Any]) -> None:
    """Check that new members understand what old ones make of a type; parts must be the same."""
    if issubclass(old, Enum) and (gone := sorted(_members(old) - _members(new))):
        what = f"the old {name} has members that the new one lacks: {', '.join(gone)}"
        raise UsageError(f"{what}; keep them until every member is upgraded")
    if issubclass(old, Spec) and digest_of(*_parts(old)) != digest_of(*_parts(new)):
        what = f"the part {name} is another one in the new spec"
        raise UsageError(f"{what}; parts are shared: mix the versions of {name} by itself")


def _parts(part: type[Spec]) -> tuple[Any, ...]:
    made: Specification = part.__specification__
    return made.fields, made.actions, made.starts


@dataclass
class _Side:
    """One of the two specs, read as text; `prefix` is what its methods' names begin with."""

    spec: Specification
    prefix: str
    world: _World

    @property
    def states(self) -> list[type[Any]]:
        """The classes that annotations may call its state."""
        bases = self.spec.state.__mro__
        return list(bases[: bases.index(Spec)])

    def method(self, name: str) -> ast.FunctionDef:
        """A method under its new name."""
        return self.written(self.spec.methods[name], f"{self.prefix}_{name}")

    def helper(self, python: FunctionType) -> str:
        """A function of the module under its new name; it is written once."""
        named = self.world.helpers.get((self.prefix, python))
        if named is not None:
            return named
        name = plain = f"{self.prefix}_{python.__name__}"
        others = count(2)
        while name in self.world.functions:  # an action of a variant, and the one that it calls
            name = f"{plain}_{next(others)}"
        self.world.helpers[self.prefix, python] = name
        found = function_of(python, self.spec.names)
        self.world.functions[name] = found.tree  # known, should it call itself
        self.world.functions[name] = self.written(found, name)
        return name

    def promise(self, promise: DeclaredProperty, name: str) -> Property:
        """A property, to be made of the function that is written under this name."""
        python = promise.python
        found = function_of(python.function, self.spec.names)
        self.world.functions[name] = self.written(found, name)
        return python

    def written(self, function: Function, name: str) -> ast.FunctionDef:
        """A function's tree, undecorated, that calls the others by their new names."""
        tree = deepcopy(function.tree)
        tree.decorator_list, tree.name = [], name
        bound = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | {
            n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        made: ast.FunctionDef = _Renamer(self, function.lookup, bound).visit(tree)
        return made

    def fields(self) -> Iterator[tuple[str, str, Any]]:
        """Its fields: name, annotation as text, initial value."""
        for base in reversed(self.states):
            known = {**vars(sys.modules[base.__module__]), **self.spec.names}
            statement = vars(base).get("__statement__")  # variants have none, nor fields of theirs
            for s in statement.body if statement else ():
                if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name):
                    tree = _Renamer(self, known.__getitem__, set()).visit(unquoted(s.annotation))
                    name = s.target.id
                    yield name, ast.unparse(tree), getattr(self.spec.state, name, NOTHING)

    def mark(self, name: str) -> Any:
        """The mark that the decorator of an action leaves."""
        for base in self.spec.state.__mro__:
            mark = getattr(vars(base).get(name), "__herdspec_action__", None)
            if mark is not None:
                return mark
        raise AssertionError(f"{name} is an action, and so was decorated")


class _Renamer(ast.NodeTransformer):
    """Gives names the ones that the text sees them by."""

    def __init__(self, side: _Side, lookup: Any, bound: set[str]) -> None:
        self.side, self.lookup, self.bound = side, lookup, bound

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A method of the state is called by its new name."""
        match node.func:
            case ast.Attribute(value=ast.Name(), attr=name) if name in self.side.spec.methods:
                node.func.attr = f"{self.side.prefix}_{name}"
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name from outside of the function."""
        if node.id not in self.bound:
            try:
                value = self.lookup(node.id)
            except KeyError:
                return node
            if value is not vars(builtins).get(node.id):
                node.id = self.side.world.brings(self.side, node.id, value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A quoted annotation is read."""
        node.annotation = unquoted(node.annotation) if node.annotation else None
        return self.generic_visit(node)


def unquoted(annotation: ast.expr) -> ast.expr:
    """An annotation's expression, be it quoted or not; a copy."""
    match annotation:
        case ast.Constant(value=str(text)):
            return ast.parse(text, mode="eval").body
    return deepcopy(annotation)


@dataclass
class _Writer:
    """Writes the spec of the mixed system, and reads it."""

    old: Specification
    new: Specification
    sort: str

    def __post_init__(self) -> None:
        self.world = _World(f"Mixed{self.new.name}")
        self.sides = _Side(self.new, "new", self.world), _Side(self.old, "old", self.world)
        self.world.values |= {
            "Spec": Spec, "require": require, "each": each,
            "a_command": action(kind=ActionKind.COMMAND),
        }  # fmt: skip
        self.world.values |= {
            cls.__name__: cls for f in self.new.fields for cls in _types_of(f.kind) if cls
        }
        self.mixes_the_rest = False

    def mixed(self) -> Mixed:
        """The spec, and whose its promises are."""
        new, old = self.sides
        fields = list(self._fields())
        methods = [side.method(name) for side in self.sides for name in side.spec.methods]
        dispatchers = list(self._dispatchers())
        promises = list(self._promises(new, old))
        text = self._text(fields, methods, dispatchers)
        module = self._executed(text)
        properties = [
            replace(made, function=vars(module)[name]) for name, made, _ in promises
        ]  # fmt: skip
        spec = specification(vars(module)[self.world.name], *properties)
        return Mixed(spec, self.old, self.new, self.sort, {n: of for n, _, of in promises})

    def _fields(self) -> Iterator[str]:
        """The fields of both; what both have starts as in the old one."""
        new, old = self.sides
        known = {name: (text, value) for name, text, value in new.fields()}
        before = {name: (text, value) for name, text, value in old.fields()}
        for name in dict.fromkeys([*known, *before]):
            text = known.get(name, before.get(name, ("", None)))[0]
            value = before.get(name, known.get(name, ("", None)))[1]
            if value is not NOTHING:
                self.world.values[f"start_of_{name}"] = self.world.shared(value)
                text += f" = start_of_{name}"
            yield f"{name}: {text}"

    def _dispatchers(self) -> Iterator[str]:
        """One action for each of the two specs', the old one's starts, and the upgrades."""
        for start in self.old.starts:
            call = f"self.old_{start.name}({', '.join(n for n, _ in start.parameters)})"
            yield self._action(1, start, start.name, [call])
        # What a part does by itself, it does here, too: it is a field of both.
        before, after = (
            {a.name: a for a in s.actions if a.name in s.methods} for s in (self.old, self.new)
        )
        for name in dict.fromkeys([*after, *before]):
            a, b = before.get(name), after.get(name)
            if a and b and self._signature(1, a) == self._signature(0, b):
                yield self._both(a, b)
                continue
            if b:
                yield self._by_one(0, b, name)
            if a:
                yield self._by_one(1, a, f"{name}_as_old" if b else name)
        yield (
            f"@a_command\ndef upgrade(self, member: {self.sort}) -> None:\n"
            '    """{member} is upgraded."""\n'
            f"    require(not self.{WHO}[member])\n    self.{WHO}[member] = True\n"
        )
        if self.mixes_the_rest:
            yield (
                '@a_command\ndef upgrade_the_rest(self) -> None:\n    """The rest is upgraded."""\n'
                f"    require(not self.{REST})\n    self.{REST} = True\n"
            )

    def _signature(self, which: int, action: Action) -> tuple[Any, ...]:
        types = [said(p.kind) for _, p in action.parameters]
        return types, digest_of(self.sides[which].mark(action.name))

    def _both(self, old: Action, new: Action) -> str:
        """An action that both have: who acts decides, if there is a difference."""
        call = f"({', '.join(n for n, _ in new.parameters)})"
        same = digest_of(*_meaning(old)) == digest_of(*_meaning(new))
        if same and [n for n, _ in old.parameters] == [n for n, _ in new.parameters]:
            return self._action(0, new, new.name, [f"self.new_{new.name}{call}"])
        lines = [
            f"if {self._is_new(new)}:", f"    self.new_{new.name}{call}",
            "else:", f"    self.old_{old.name}{call}",
        ]  # fmt: skip
        return self._action(0, new, new.name, lines)

    def _by_one(self, which: int, action: Action, name: str) -> str:
        """An action that only the one or only the other has, or has so."""
        call = f"({', '.join(n for n, _ in action.parameters)})"
        test = self._is_new(action) if which == 0 else f"not {self._is_new(action)}"
        lines = [f"require({test})", f"self.{self.sides[which].prefix}_{action.name}{call}"]
        return self._action(which, action, name, lines)

    def _is_new(self, action: Action) -> str:
        """The condition that who acts is new."""
        for name, parameter in action.parameters:
            if isinstance(parameter.kind, SortOf) and parameter.kind.name == self.sort:
                return f"self.{WHO}[{name}]"
        self.mixes_the_rest = True
        return f"self.{REST}"

    def _action(self, which: int, action: Action, name: str, lines: list[str]) -> str:
        """The text of an action that is one of the two specs' in its name, mark and sentence."""
        side = self.sides[which]
        mark = f"mark_of_{name}"
        self.world.values[mark] = _marker(side.mark(action.name))
        tree = side.written(side.spec.methods[action.name], name)
        body = ast.parse("\n".join([repr(action.sentence), *lines])).body
        tree.body, tree.decorator_list = body, [ast.Name(mark)]
        return ast.unparse(ast.fix_missing_locations(tree))

    def _promises(self, new: _Side, old: _Side) -> Iterator[tuple[str, Property, Any]]:
        """The promises of both, each with its name and whose it is."""
        before = {p.name: p for p in old.spec.properties}
        for p in new.spec.properties:
            mine = before.get(p.name)
            owners: tuple[tuple[Specification, str], ...] = ((new.spec, p.name),)
            if mine and digest_of(*_promised(mine)) == digest_of(*_promised(p)):
                del before[p.name]
                owners = ((old.spec, p.name), *owners)
            yield p.name, new.promise(p, p.name), owners
        theirs = {p.name for p in new.spec.properties}
        for p in before.values():
            name = p.name + OLD_PROMISE if p.name in theirs else p.name
            yield name, old.promise(p, name), ((old.spec, p.name),)

    def _text(self, fields: list[str], methods: list[ast.FunctionDef], actions: list[str]) -> str:
        """The whole module."""
        fields.append(f"{WHO}: dict[{self.sort}, bool] = each(False)")
        if self.mixes_the_rest:
            fields.append(f"{REST}: bool = False")
        sentence = f"{self.new.sentence} Some {self.sort.lower()}s are old, some are new."
        parts = [repr(sentence), *fields, *map(ast.unparse, methods), *actions]
        body = "\n".join(f"    {line}" for part in parts for line in part.splitlines())
        helpers = [ast.unparse(tree) for tree in self.world.functions.values()]
        head = "from __future__ import annotations"
        return "\n\n".join([head, *helpers, f"class {self.world.name}(Spec):\n{body}"]) + "\n"

    def _executed(self, text: str) -> ModuleType:
        """The module that a text makes, with a source that can be looked up."""
        file = f"<together {next(_files)}>"
        module = ModuleType(file)
        module.__dict__.update(self.world.values, __file__=file)
        sys.modules[file] = module
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), module.__dict__)
        return module


def _meaning(action: Action) -> tuple[Any, ...]:
    return action.guard, action.updates, action.defined, action.fits


def _promised(promise: DeclaredProperty) -> tuple[Any, ...]:
    return promise.expectation, promise.formula, promise.goal, promise.parameters


def _types_of(kind: Any) -> Iterator[type[Any] | None]:
    """The enums and sorts that a flat type names."""
    parts = [kind.value, *kind.keys] if isinstance(kind, MapOf) else [kind]
    for part in parts:
        yield getattr(getattr(part, "of", part), "cls", None)


def _marker(mark: Any) -> Any:
    """A decorator that marks a function as another one is marked."""

    def note(function: Any) -> Any:
        function.__herdspec_action__ = mark
        return function

    return note
