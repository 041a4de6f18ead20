"""Reading a spec's file as a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

MARKS = (
    "always", "never", "lemma", "step", "sometimes", "recoverable", "eventually",
    "eventually_always", "leads_to", "axiom", "constraint",
)  # fmt: skip


@dataclass(frozen=True)
class Action:
    """A method that makes a step: its kind, its fairness, and whether it counts as a fault."""

    name: str
    function: ast.FunctionDef
    kind: str = "protocol"
    fair: str = ""
    disturbs: bool = False


@dataclass(frozen=True)
class SpecClass:
    """A class of states: annotations and defaults of its fields, its actions and its helpers."""

    name: str
    fields: dict[str, tuple[ast.expr, ast.expr | None]]
    actions: dict[str, Action]
    initials: dict[str, Action]
    helpers: dict[str, ast.FunctionDef]
    sentence: str = ""


@dataclass(frozen=True)
class Specification:
    """A spec class and the properties to which it is held, by name and kind."""

    name: str
    spec: SpecClass
    properties: dict[str, str]


@dataclass
class Source:
    """What a file defines."""

    sorts: list[str] = field(default_factory=list)
    enums: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, dict[str, tuple[ast.expr, ast.expr | None]]] = field(default_factory=dict)
    names: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    specs: dict[str, SpecClass] = field(default_factory=dict)
    made: dict[str, Specification] = field(default_factory=dict)

    def specification(self, name: str) -> Specification:
        """What a name stands for: what the file makes, or a class with the properties about it."""
        if name in self.made:
            return self.made[name]
        spec = self.specs[name]
        about = {
            f.name: mark
            for f in self.functions.values()
            if (mark := mark_of(f)) and _subject(f) in ("", name)
        }
        return Specification(name, spec, about)

    def with_called(self, functions: list[ast.FunctionDef]) -> list[ast.FunctionDef]:
        """Functions, and those of the module that they call, directly or not."""
        found = list(functions)
        for function in found:  # it grows meanwhile
            names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
            called = [self.functions[n] for n in sorted(names & self.functions.keys())]
            found += [f for f in called if f not in found]
        return found

    def named(self) -> Iterator[str]:
        """The specs to check: what is made of a class stands for it; parts are no specs."""
        covered = {m.spec.name for m in self.made.values()} | self._parts()
        yield from (name for name in self.specs if name not in covered)
        yield from self.made

    def _parts(self) -> set[str]:
        fields = [a for s in self.specs.values() for a, _ in s.fields.values()]
        used = {n.id for a in fields for n in ast.walk(a) if isinstance(n, ast.Name)}
        return used & self.specs.keys()


def read(path: Path) -> Source:
    """What a file defines."""
    return read_text(path.read_text(encoding="utf-8"))


def read_text(text: str) -> Source:
    """What a text defines."""
    found = Source()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            _class(found, node)
        elif isinstance(node, ast.FunctionDef):
            found.functions[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            _name(found, node.target.id, node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            _name(found, node.targets[0].id, node.value)
    return found


def mark_of(function: ast.FunctionDef) -> str:
    """The decorator that makes a function a property, or nothing."""
    return next((name for name, _ in _decorators(function) if name in MARKS), "")


def _decorators(function: ast.FunctionDef) -> list[tuple[str, dict[str, ast.expr]]]:
    found = []
    for node in function.decorator_list:
        call = node if isinstance(node, ast.Call) else None
        more = {k.arg: k.value for k in call.keywords if k.arg} if call else {}
        name = call.func if call else node
        found.append((name.id if isinstance(name, ast.Name) else ast.unparse(name), more))
    return found


def _subject(function: ast.FunctionDef) -> str:
    """The class that a property's first parameter is annotated with."""
    note = function.args.args[0].annotation
    if note is None:
        return ""
    return str(note.value) if isinstance(note, ast.Constant) else ast.unparse(note)


def _class(found: Source, node: ast.ClassDef) -> None:
    bases = [ast.unparse(base) for base in node.bases]
    if "Sort" in bases:
        found.sorts.append(node.name)
    elif "Enum" in bases:
        members = [s.targets[0] for s in node.body if isinstance(s, ast.Assign)]
        found.enums[node.name] = [m.id for m in members if isinstance(m, ast.Name)]
    elif "Spec" in bases:
        found.specs[node.name] = _spec(node)
    elif any("dataclass" in ast.unparse(d) for d in node.decorator_list):
        found.records[node.name] = _fields(node)


def _fields(node: ast.ClassDef) -> dict[str, tuple[ast.expr, ast.expr | None]]:
    return {
        s.target.id: (s.annotation, s.value)
        for s in node.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    }


def _spec(node: ast.ClassDef) -> SpecClass:
    spec = SpecClass(node.name, _fields(node), {}, {}, {}, ast.get_docstring(node) or "")
    for function in node.body:
        if isinstance(function, ast.FunctionDef):
            _method(spec, function.name, function)
    return spec


def _method(spec: SpecClass, name: str, function: ast.FunctionDef) -> None:
    for decorator, more in _decorators(function):
        given = {key: ast.unparse(value) for key, value in more.items()}
        action = Action(
            name, function, given.get("kind", "protocol"), given.get("fair", ""),
            given.get("disturbs") == "True",
        )  # fmt: skip
        if decorator == "action":
            spec.actions[name] = action
        elif decorator == "initial":
            spec.initials[name] = action
    if not function.decorator_list:
        spec.helpers[name] = function


def _name(found: Source, name: str, value: ast.expr) -> None:
    """A module's constant or alias, or what is made of a class."""
    made = _made(found, value, name)
    if made:
        found.made[name] = made
    else:
        found.names[name] = value


def _made(found: Source, node: ast.expr, name: str) -> Specification | None:
    """What an expression makes of a class, in one step or in several; nothing if it makes none."""
    if isinstance(node, ast.Name):
        return found.made.get(node.id)
    if not isinstance(node, ast.Call):
        return None
    if ast.unparse(node.func) == "specification":
        first, *others = [ast.unparse(a) for a in node.args]
        return Specification(name, found.specs[first], _marks(found, others))
    old = _made(found, node.func.value, name) if isinstance(node.func, ast.Attribute) else None
    return _variant(found, old, name, node) if old else None


def _marks(found: Source, properties: list[str]) -> dict[str, str]:
    return {p: mark_of(found.functions[p]) for p in properties}


def _variant(found: Source, old: Specification, name: str, call: ast.Call) -> Specification:
    """`.replace("Name", action=function)`, `.drop("Name", "action")`, `.with_properties(…)`."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "with_properties":
        more = _marks(found, [ast.unparse(a) for a in call.args])
        return Specification(name, old.spec, old.properties | more)
    spec = replace(
        old.spec, actions=dict(old.spec.actions), helpers=dict(old.spec.helpers),
        initials=dict(old.spec.initials),
    )  # fmt: skip
    for dropped in call.args[1:]:
        assert isinstance(dropped, ast.Constant)
        spec.actions.pop(str(dropped.value), None)
    for keyword in call.keywords:
        assert keyword.arg
        assert isinstance(keyword.value, ast.Name)
        function = found.functions[keyword.value.id]
        kept = old.spec.actions.get(keyword.arg)
        if kept and not function.decorator_list:
            spec.actions[keyword.arg] = replace(kept, function=function)
        elif keyword.arg in spec.helpers:
            spec.helpers[keyword.arg] = function
        else:
            _method(spec, keyword.arg, function)
    return Specification(name, spec, old.properties)
