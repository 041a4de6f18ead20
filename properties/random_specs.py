"""
Random well-typed specs, as source strings: a small grammar for Hypothesis.

One sort, an enum, a field and a map of each type, a helper that returns and one that changes, two
or three actions, and a property of each kind. Now and then a map has elements as values, so that
symmetry cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

HEADER = '''
from enum import Enum
from herdspec import *

class T(Sort):
    """An element."""

class Color(Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"

class Random(Spec):
    """A random spec."""
    flag: bool = False
    n: Nat = 0
    color: Color = Color.RED
    pick: T | None = None
    fm: dict[T, bool] = each(False)
    nm: dict[T, Nat] = each(0)
    cm: dict[T, Color] = each(Color.RED)
'''
SORT_VALUED = "    pm: dict[T, T | None] = each(None)\n"
MAPS = {"bool": "fm", "Nat": "nm", "Color": "cm", "T | None": "pm"}
SCALARS = {"bool": "flag", "Nat": "n", "Color": "color", "T | None": "pick"}


@dataclass(frozen=True)
class Scope:
    """What an expression may name: elements, states, and the maps that only `turn` may index."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    sort_valued: bool
    elements: tuple[str, ...] = ()
    bools: tuple[str, ...] = ()
    colors: tuple[str, ...] = ()
    states: tuple[str, ...] = ("self",)
    turn: str = ""
    written: frozenset[str] = frozenset()
    helper: bool = False
    depth: int = 3

    def pick(self, *choices: Callable[[], str]) -> str:
        """One of these, by chance; nothing deep where it is deep already."""
        found: Callable[[], str] = self.draw(st.sampled_from(choices))
        return found()

    def deeper(self) -> Scope:
        """One level down."""
        return replace(self, depth=self.depth - 1)

    def among(self, names: Sequence[str]) -> str:
        """One of these names."""
        name: str = self.draw(st.sampled_from(list(names)))
        return name

    def of(self, kind: str) -> str:
        """An expression of a type."""
        makers: dict[str, Callable[[], str]] = {
            "bool": self.bool, "Nat": self.nat, "Color": self.color, "T | None": self.optional,
        }  # fmt: skip
        return makers[kind]()

    def reads(self, kind: str) -> list[Callable[[], str]]:
        """Ways to read a field of this type."""
        state = self.among(self.states)
        ways: list[Callable[[], str]] = [lambda: f"{state}.{SCALARS[kind]}"]
        table = MAPS[kind]
        if self.elements and (table != "pm" or self.sort_valued):
            at = self.turn if table in self.written else self.among(self.elements)
            ways.append(lambda: f"{state}.{table}[{at}]")
        return ways

    def bool(self) -> str:
        """A condition."""
        ways = [*self.reads("bool"), *(lambda b=b: b for b in self.bools)]
        if self.depth > 0:
            d = self.deeper()
            ways += [
                lambda: f"(not {d.bool()})",
                lambda: f"({d.bool()} and {d.bool()})",
                lambda: f"({d.bool()} or {d.bool()})",
                lambda: f"({d.bool()} == {d.bool()})",
                lambda: f"({d.bool()} if {d.bool()} else {d.bool()})",
                lambda: f"({d.nat()} {self.among(['<', '<=', '>', '>=', '==', '!='])} {d.nat()})",
                lambda: f"({d.nat()} <= {d.nat()} < {d.nat()})",
                lambda: f"({d.color()} {self.among(['==', '!='])} {d.color()})",
                lambda: f"({d.color()} {self.among(['in', 'not in'])} (Color.RED, {d.color()}))",
                lambda: f"({d.optional()} is {self.among(['', 'not '])}None)",
                self.equal,
                self.quantified,
            ]
            if self.helper and self.elements and len(self.states) == 1:
                ways.append(lambda: f"{self.states[0]}.holds({self.among(self.elements)})")
        return self.pick(*ways)

    def equal(self) -> str:
        """An equality of elements, or with an element that may be absent."""
        if not self.elements:
            return "(self.pick is None)" if "self" in self.states else "True"
        a, b = self.among(self.elements), self.among(self.elements)
        read = self.pick(*self.reads("T | None"))
        return self.pick(
            lambda: f"({a} != {b})", lambda: f"({read} == {a})", lambda: f"({a} == {b})"
        )

    def quantified(self) -> str:
        """`all` or `any` over the sort."""
        x = f"x{self.depth}{len(self.elements)}"
        inner = replace(self.deeper(), elements=(*self.elements, x))
        kept = self.pick(str, lambda: f" if {inner.bool()}")
        return f"{self.among(['all', 'any'])}({inner.bool()} for {x} in T{kept})"

    def nat(self) -> str:
        """A number."""
        ways = [lambda: str(self.draw(st.integers(0, 4))), *self.reads("Nat")]
        if self.depth > 0:
            d = self.deeper()
            ways += [
                lambda: f"({d.nat()} + {self.draw(st.integers(0, 2))})",
                lambda: f"({d.nat()} if {d.bool()} else {d.nat()})",
            ]
        return self.pick(*ways)

    def color(self) -> str:
        """A member of the enum."""
        ways = [*self.reads("Color"), *(lambda c=c: c for c in self.colors)]
        ways.append(lambda: f"Color.{self.among(['RED', 'GREEN', 'BLUE'])}")
        if self.depth > 0:
            d = self.deeper()
            ways.append(lambda: f"({d.color()} if {d.bool()} else {d.color()})")
        return self.pick(*ways)

    def optional(self) -> str:
        """An element that may be absent."""
        return self.pick(*self.reads("T | None"))

    def to_assign(self, kind: str) -> str:
        """A value to assign at this type."""
        if kind != "T | None":
            return self.of(kind)
        plain = [lambda e=e: e for e in self.elements]
        return self.pick(lambda: "None", *plain, self.optional)


@dataclass
class Writer:
    """Writes the body of an action, line by line."""

    scope: Scope
    lines: list[str]
    indent: int
    loops: bool = True
    effects: bool = False

    def say(self, line: str) -> None:
        """One more line."""
        self.lines.append("    " * self.indent + line)

    def inner(self, scope: Scope, statements: int, loops: bool = False) -> None:
        """A block below."""
        Writer(scope, self.lines, self.indent + 1, loops, False).block(statements)

    def block(self, statements: int) -> None:
        """So many statements."""
        self.say('"""A block."""')
        for _ in range(statements):
            ways = [
                self.require,
                self.assign,
                self.assign,
                self.assign_entry,
                self.branch,
                self.table,
            ]
            ways += [self.loop] if self.loops else []
            ways += [self.call] if self.effects else []
            self.scope.draw(st.sampled_from(ways))()

    def require(self) -> None:
        """A guard."""
        self.say(f"{self.scope.among(['require(', 'assert ('])}{self.scope.bool()})")

    def assign(self) -> None:
        """A field gets a value."""
        kind = self.scope.among(list(SCALARS))
        self.say(f"self.{SCALARS[kind]} = {self.scope.to_assign(kind)}")

    def assign_entry(self) -> None:
        """An entry of a map gets a value."""
        kinds = [k for k in MAPS if k != "T | None" or self.scope.sort_valued]
        kind = self.scope.among(kinds)
        if self.scope.elements:
            at = self.scope.among(self.scope.elements)
            self.say(f"self.{MAPS[kind]}[{at}] = {self.scope.to_assign(kind)}")

    def table(self) -> None:
        """A whole map gets values."""
        kinds = [k for k in MAPS if k != "T | None" or self.scope.sort_valued]
        kind = self.scope.among(kinds)
        inner = replace(self.scope, elements=(*self.scope.elements, "y"))
        self.say(f"self.{MAPS[kind]} = {{y: {inner.to_assign(kind)} for y in T}}")

    def branch(self) -> None:
        """An `if`, or a `match`."""
        inner = self.scope.deeper()
        if self.scope.draw(st.booleans()):
            self.say(f"if {self.scope.bool()}:")
            self.inner(inner, 2)
            self.say("else:")
            self.inner(inner, 1)
        else:
            self.say(f"match {self.scope.color()}:")
            self.indent += 1
            for case in ("Color.RED", "Color.GREEN | Color.BLUE"):
                self.say(f"case {case}:")
                self.inner(inner, 1)
            self.indent -= 1

    def loop(self) -> None:
        """A loop over the sort, each turn of which writes entries of its own."""
        kinds = self.scope.draw(st.sets(st.sampled_from(["bool", "Nat", "Color"]), min_size=1))
        written = frozenset(MAPS[k] for k in kinds)
        scope = replace(
            self.scope.deeper(), elements=(*self.scope.elements, "t"), turn="t", written=written,
            helper=False,
        )  # fmt: skip
        self.say("for t in T:")
        self.indent += 1
        if scope.draw(st.booleans()):
            self.say(f"require({scope.bool()})")
        self.say(f"if {scope.bool()}:")
        for kind in sorted(kinds):
            self.say(f"    self.{MAPS[kind]}[t] = {scope.to_assign(kind)}")
        self.indent -= 1

    def call(self) -> None:
        """A helper is called for its effect."""
        if self.scope.elements:
            self.say(f"self.change({self.scope.among(self.scope.elements)})")


@st.composite
def sources(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """The text of a well-typed spec."""
    sort_valued: bool = draw(st.booleans())
    plain = Scope(draw, sort_valued)
    lines = [HEADER + (SORT_VALUED if sort_valued else "")]
    one = replace(plain, elements=("a",), depth=2)
    lines += [
        "    def holds(self, a: T) -> bool:",
        f"        if {one.bool()}:",
        f"            return {one.bool()}",
        f"        return {one.bool()}",
        "    def change(self, a: T) -> None:",
    ]
    Writer(one, lines, 2).block(2)
    for k in range(draw(st.integers(2, 3))):
        parameters: set[str] = draw(
            st.sets(st.sampled_from(["a: T", "b: T", "f: bool", "c: Color"]))
        )
        names = sorted(parameters)
        scope = replace(
            plain, helper=True,
            elements=tuple(n[0] for n in names if n.endswith("T")),
            bools=tuple(n[0] for n in names if n.endswith("bool")),
            colors=tuple(n[0] for n in names if n.endswith("Color")),
        )  # fmt: skip
        kind = draw(st.sampled_from(["@action", "@action(kind=fault)"]))
        lines += [f"    {kind}", f"    def act{k}({', '.join(['self', *names])}) -> None:"]
        Writer(scope, lines, 2, effects=True).block(draw(st.integers(1, 4)))
    for word in ("always", "sometimes"):
        body = replace(plain, states=("s",), helper=True).bool()
        lines += [f"@{word}", f"def p_{word}(s: Random) -> bool:", f"    return {body}"]
    body = replace(plain, states=("before", "after")).bool()
    lines += ["@step", "def p_step(before: Random, after: Random) -> bool:", f"    return {body}"]
    return "\n".join(lines) + "\n"
