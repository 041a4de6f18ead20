"""
Compares two versions of a spec by their words, and by their verdicts.

Whether an action changed is decided by what it means (the graph), not by how it is written; how it
changed is shown by the lines of the methods that did. Verdicts are compared property by property,
by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import ndiff
from typing import Protocol, TypeVar

from herdspec.check.digest import digest_of
from herdspec.check.verdict import Finding, Mark, Standing, counted
from herdspec.language.specification import Action, DeclaredProperty, Specification
from herdspec.language.surface import ActionKind
from herdspec.language.types import EnumOf, MapOf, Option, Type, said


def changes(old: Specification, new: Specification) -> list[str]:
    """The changes from an old spec to a new one, in the spec's words; details are indented."""
    found = [*_lists("field", old.fields, new.fields), *_fields(old, new)]
    found += _lists("action", old.actions, new.actions)
    found += _lists("@initial method", old.starts, new.starts)
    for name, a, b in _both(old.actions, new.actions):
        if lines := _action(old, new, a, b):
            found += [f"action {name}:", *(f"    {line}" for line in lines)]
    for name, a, b in _both(old.starts, new.starts):
        if lines := _action(old, new, a, b):
            found += [f"initial states, {name}:", *(f"    {line}" for line in lines)]
    found += _helpers(old, new)
    found += _lists("property", old.properties, new.properties)
    for name, c, d in _both(old.properties, new.properties):
        found += [f"property {name} {line}" for line in _promise(c, d)]
    return found


class Named(Protocol):
    """A part of a spec."""

    @property
    def name(self) -> str:
        """Its name."""


_N = TypeVar("_N", bound=Named)


def _both(old: Iterable[_N], new: Iterable[_N]) -> Iterator[tuple[str, _N, _N]]:
    """The things that have one name on both sides, side by side."""
    after = {x.name: x for x in new}
    return ((x.name, x, after[x.name]) for x in old if x.name in after)


def _lists(what: str, old: Iterable[Named], new: Iterable[Named]) -> Iterator[str]:
    """The things that only one side has, a line for each."""
    before, after = [x.name for x in old], [x.name for x in new]
    for verb, names in (
        ("dropped", [n for n in before if n not in after]),
        ("added", [n for n in after if n not in before]),
    ):
        if names:
            yield f"{counted(len(names), what)} {verb}: {', '.join(names)}"


def _fields(old: Specification, new: Specification) -> Iterator[str]:
    for name, a, b in _both(old.fields, new.fields):
        if said(a.kind) != said(b.kind):
            yield f"field {name} is {said(b.kind)}, was {said(a.kind)}"
        elif _differ(a.kind, b.kind):
            yield f"field {name} has the members {_members(b.kind)}, had {_members(a.kind)}"
        elif _differ(a.initial, b.initial):
            yield f"field {name} starts as {b.initial}, not as {a.initial}"


def _members(kind: Type) -> str:
    """The members of the enums in a type."""
    parts = [*kind.keys, kind.value] if isinstance(kind, MapOf) else [kind]
    inner = [part.of if isinstance(part, Option) else part for part in parts]
    return ", ".join(m.name for part in inner if isinstance(part, EnumOf) for m in part.members)


def _differ(old: object, new: object) -> bool:
    return digest_of(old) != digest_of(new)


def _action(old: Specification, new: Specification, a: Action, b: Action) -> list[str]:
    """The differences of two actions of one name."""
    marks = [(x.kind.value, _disturbs(x), fairly(x)) for x in (a, b)]
    found = [f"is {y}, was {x}" for x, y in zip(*marks, strict=True) if x != y]
    takes = [", ".join(f"{n}: {said(p.kind)}" for n, p in x.parameters) for x in (a, b)]
    if takes[0] != takes[1]:
        found.append(f"takes ({takes[1]}), took ({takes[0]})")
    if a.sentence != b.sentence:
        found.append(f'says "{b.sentence}"')
    words = _words(old, new, a.name)
    if not _differ(*([x.guard, x.updates, x.defined, x.fits] for x in (a, b))):
        return [*found, "is written otherwise, and means the same"] if words else found
    through = [n for n in _calls(new, a.name) if n != a.name and _words(old, new, n)]
    if words or not through:
        return [*found, *(words or ["does something else"])]
    return [*found, f"does something else through {', '.join(through)}"]


def _calls(spec: Specification, name: str) -> list[str]:
    """The methods that a method calls, also through others, itself included."""
    found = [name]
    for one in found:
        nodes = ast.walk(spec.methods[one].tree) if one in spec.methods else ()
        called = [n.attr for n in nodes if isinstance(n, ast.Attribute) and n.attr in spec.methods]
        found += [n for n in dict.fromkeys(called) if n not in found]
    return found


def _disturbs(action: Action) -> str:
    return "counted as a fault" if action.disturbs else "not counted as a fault"


def _helpers(old: Specification, new: Specification) -> list[str]:
    """The differences of methods that are no actions."""
    actions = {a.name for spec in (old, new) for a in (*spec.actions, *spec.starts)}
    found = []
    for name in dict.fromkeys([*old.methods, *new.methods]):
        if name not in actions and (words := _words(old, new, name)):
            found += [f"helper {name}:", *(f"    {line}" for line in words)]
    return found


def _words(old: Specification, new: Specification, name: str) -> list[str]:
    """The lines of a method that are other ones, marked as in a patch; none if there are none."""
    before, after = _lines(old, name), _lines(new, name)
    return [line for line in ndiff(before, after) if line[0] in "+-"] if before != after else []


def _lines(spec: Specification, name: str) -> list[str]:
    """A method's text, without its docstring, its decorators and its comments."""
    if name not in spec.methods:
        return []
    tree = deepcopy(spec.methods[name].tree)
    tree.decorator_list, tree.name = [], name
    if tree.args.args:
        tree.args.args[0].annotation = None  # whether `self` says its class says nothing
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass()]
    return ast.unparse(tree).splitlines()


def _promise(old: DeclaredProperty, new: DeclaredProperty) -> Iterator[str]:
    """The differences of two properties of one name."""
    if old.expectation is not new.expectation:
        yield f"is {new.expectation.value}, was {old.expectation.value}"
    if old.sentence != new.sentence:
        yield f'says "{new.sentence}"'
    promised = [(p.formula, p.goal, p.parameters) for p in (old, new)]
    if _differ(*promised):
        yield "promises something else of the state"


def marks(old: Specification, new: Specification) -> Iterator[str]:
    """Which actions that both have are of another kind, cost other faults or are otherwise fair."""
    others = {a.name: a for a in new.actions}
    for a in old.actions:
        if (b := others.get(a.name)) is None:
            continue
        if a.kind is not b.kind:
            yield f"{a.name} is {KINDS[a.kind]} in the old one, {KINDS[b.kind]} in the new one"
        if a.disturbs != b.disturbs:
            which = "old" if a.disturbs else "new"
            yield f"{a.name} counts against the budget of faults in the {which} one alone"
        if a.fair is not b.fair:
            yield f"{a.name} is {fairly(a)} in the old one, {fairly(b)} in the new one"


KINDS = {
    ActionKind.STEP: "a step of the protocol", ActionKind.COMMAND: "a command",
    ActionKind.FAULT: "a fault",
}  # fmt: skip


def fairly(action: Action) -> str:
    """An action's fairness in words."""
    if action.fair is None:
        return "not fair"
    strength = "strongly" if action.fair.is_strong else "weakly"
    return f"{strength} fair{' to any choice' if action.fair.is_of_any else ''}"


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class VerdictChange:
    """The verdicts on one property, before and after; None where there is no such property."""

    row: str
    kind: str
    old: Finding | None
    new: Finding | None

    @property
    def changed(self) -> bool:
        """Tells whether the two verdicts differ, be it only in the length of a counterexample."""
        a, b = ((f.mark, f.found) if f else None for f in (self.old, self.new))
        return a != b or self.is_of_another_kind

    @property
    def standing(self) -> Standing:
        """
        FAILS if the verdict got worse: the property fails now, or what held is promised no more
        (or is another demand under the same name).

        UNKNOWN if nobody knows now. What failed before, and fails now, did not get worse; a lemma
        is no promise, but a means to prove one.
        """
        if self.new is None:
            if self.kind == "lemma":
                return Standing.HOLDS
            return Standing.FAILS if self._held else Standing.HOLDS
        if self.new.mark is Mark.UNKNOWN:
            return Standing.UNKNOWN
        failed = self.old is not None and self.old.mark is Mark.FAILS
        worse = self.new.mark is Mark.FAILS and not failed
        return Standing.FAILS if worse or self.is_of_another_kind else Standing.HOLDS

    @property
    def _held(self) -> bool:
        return self.old is not None and self.old.mark not in (Mark.FAILS, Mark.UNKNOWN)

    @property
    def is_of_another_kind(self) -> bool:
        """Tells whether what held is promised no more: another demand has its name now."""
        kinds = [f.kind.replace("lemma", "always") for f in (self.old, self.new) if f]
        return self._held and len(kinds) == 2 and kinds[0] != kinds[1]


def verdicts(old: Sequence[Finding], new: Sequence[Finding]) -> list[VerdictChange]:
    """The verdicts of two specs side by side, by property and way of looking."""
    before = {(f.row, f.bounds.startswith("any")): f for f in old}
    after = {(f.row, f.bounds.startswith("any")): f for f in new}
    found = []
    for key in dict.fromkeys([*before, *after]):
        a, b = before.get(key), after.get(key)
        kind = next(f.kind for f in (b, a) if f)
        found.append(VerdictChange(key[0], kind, a, b))
    return found
