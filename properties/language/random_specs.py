"""
Random well-typed specs, as source strings: a table of fragments for Hypothesis.

A fragment is a piece of text with holes: `{b}` is a condition, `{n}` a number, `{c}` a colour,
`{o}` an optional element, `{E}` an element in scope, `{S}` a state. Each has the name of the
construct of docs/language.md that it shows, so that it can be counted how often a construct occurs
(`used`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from herdspec import SpecError, from_source

HEADER = '''
from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from herdspec import *

Few = Annotated[Nat, UpTo(2)]
Byte = Annotated[Nat, UpTo(257)]
Wide = Annotated[Nat, UpTo(65537)]

class T(Sort):
    """An element."""

class Color(Enum):
    RED = "red"
    GREEN = "green"

@dataclass(frozen=True)
class Note:
    color: Color
    who: T

def lit(s: "Random", a: T) -> bool:
    """A function of the module."""
    return s.fm[a] or s.flag

def light(s: "Random", a: T) -> None:
    """A function that changes the state."""
    require(not lit(s, a))
    s.fm[a] = True

class Part(Spec):
    """A part."""
    on: bool = False

    @action
    def switch(self) -> None:
        """It is switched."""
        self.on = not self.on

    def is_on(self) -> bool:
        """Whether it is on."""
        return self.on

'''
MAY_LEAVE = "a number that may leave its range"
FIELDS = {
    "plain": (
        "    flag: bool = False\n    n: Nat = 0\n    color: Color = Color.RED\n"
        "    pick: T | None = None\n    fm: dict[T, bool] = each(False)\n"
        "    cm: dict[T, Color] = each(Color.RED)\n"
    ),
    "numbers": "    nm: dict[T, Nat] = each(0)\n",
    "bounded": "    few: Few = 0\n    at: dict[Few, bool] = each(False)\n",
    "large": "    byte: Byte = 254\n    wide: dict[T, Wide] = each(65534)\n",
    "relations": "    rel: dict[tuple[T, Color], bool] = each(False)\n",
    "pairs": "    pair: dict[tuple[T, T], bool] = each(False)\n",
    "values": "    pm: dict[T, T | None] = each(None)\n",
    "sets": "    up: set[T] = empty()\n    down: set[T] = empty()\n",
    "tuples": "    marks: set[tuple[T, Color]] = empty()\n    notes: set[Note] = empty()\n",
    "records": "    last: Note | None = None\n    hints: dict[Color, Note | None] = each(None)\n",
    "channels": "    queue: Annotated[list[T], Capacity(2)] = empty()\n",
    "inboxes": "    box: dict[T, Annotated[list[Note], Capacity(1)]] = each(empty())\n",
    "parts": "    part: Part\n    parts: dict[T, Part]\n",
}
"""The fields of each feature; a spec has the plain ones and some others."""


@dataclass(frozen=True)
class Fragment:
    """A text with holes, the construct that it shows, the feature it needs, what it reads."""

    shows: str
    text: str
    needs: str = "plain"
    reads: str = ""
    partial: bool = False  # it may be undefined
    deep: bool = False  # it has holes of its own kind


def _f(shows: str, text: str, needs: str = "plain", reads: str = "", **more: bool) -> Fragment:
    deep = bool(re.search(r"{[bnc]", text))
    return Fragment(shows, text, needs, reads, deep=more.pop("deep", deep), **more)


CONDITIONS = [
    _f("bool", "{S}.flag", reads="flag"),
    _f("dict", "{S}.fm[{E}]", reads="fm"),
    _f("not", "(not {b})"),
    _f("and", "({b} and {b})"),
    _f("or", "({b} or {b})"),
    _f("== of bools", "({b} == {b})"),
    _f("conditional expression", "({b} if {b} else {b})"),
    _f("< and <=", "({n} {<} {n})"),
    _f("chained comparison", "({n} <= {n} < {n})"),
    _f("-", "({n} - {n} < {n})"),
    _f("== of members", "({c} == {c})"),
    _f("in a tuple", "({c} in (Color.RED, {c}))"),
    _f("is None", "({o} is None)"),
    _f("is not None", "({o} is not None)"),
    _f("== of elements", "({E} == {E})"),
    _f("== with an optional", "({o} == {E})"),
    _f("all over a sort", "all({b+T} for {x} in T)"),
    _f("any over a sort", "any({b+T} for {x} in T if {b+T})"),
    _f("any over an enum", "any({b+C} for {x} in Color)"),
    _f("all over range", "all({b+N} for {x} in range(3))"),
    _f("a method that returns", "{S}.holds({E})", reads="*"),
    _f("a function of the module", "lit({S}, {E})", reads="fm"),
    _f("an index behind a condition", "({S}.pick is None or {S}.fm[{S}.pick])", reads="fm"),
    _f("an optional as an index", "{S}.fm[{S}.pick]", reads="fm", partial=True),
    _f("a map from numbers", "{S}.at[{i}]", "bounded", "at"),
    _f("a relation", "{S}.rel[{E}, {c}]", "relations", "rel"),
    _f("a relation of one sort", "{S}.pair[{E}, {E}]", "pairs", "pair"),
    _f("in a set", "({E} in {S}.up)", "sets", "up"),
    _f("not in a set", "({E} not in {S}.up)", "sets", "up"),
    _f("<= of sets", "({S}.up <= {S}.down)", "sets", "up"),
    _f("== of sets", "({S}.up == {S}.down)", "sets", "up"),
    _f("any over a set", "any({b+T} for {x} in {S}.up)", "sets", "up"),
    _f("a tuple in a set", "(({E}, {c}) in {S}.marks)", "tuples", "marks"),
    _f("any over tuples", "any(y == {E} and k == {c} for y, k in {S}.marks)", "tuples", "marks"),
    _f("a record in a set", "(Note({c}, {E}) in {S}.notes)", "tuples", "notes"),
    _f("any over records", "any(m.who == {E} for m in {S}.notes)", "tuples", "notes"),
    _f("a part", "({S}.last is not None and {S}.last.color == {c})", "records", "last"),
    _f("== of records", "({S}.last == Note({c}, {E}))", "records", "last"),
    _f("a part that may be absent", "({S}.last.who == {E})", "records", "last", partial=True),
    _f("a dict of records", "({S}.hints[{c}] is None)", "records", "hints"),
    _f("len of a channel", "(len({S}.queue) {<} {k})", "channels", "queue"),
    _f("in a channel", "({E} in {S}.queue)", "channels", "queue"),
    _f("any over a channel", "any(y == {E} for y in {S}.queue)", "channels", "queue"),
    _f("q[0]", "(len({S}.queue) > 0 and {S}.queue[0] == {E})", "channels", "queue"),
    _f("q[i], q[-1]", "({S}.queue[{n} % 2] == {S}.queue[-1])", "channels", "queue", partial=True),
    _f("a field of a part", "{S}.part.on", "parts", "part"),
    _f("a method of a part", "{S}.part.is_on()", "parts", "part"),
    _f("a part for each element", "{S}.parts[{E}].on", "parts", "parts"),
]
NUMBERS = [
    _f("a constant", "{k}"),
    _f("Nat", "{S}.n", reads="n"),
    _f("+ constant", "({n} + {k})"),
    _f("+", "({n} + {n})"),
    _f("%", "({n} % 2)"),
    _f("//", "({n} // 2)"),
    _f("min and max", "{min}({n}, {n})"),
    _f("conditional number", "({n} if {b} else {n})"),
    _f("sum over a sort", "sum(1 for {x} in T if {b+T})"),
    _f("a map of numbers", "{S}.nm[{E}]", "numbers", "nm"),
    _f("a bounded number", "{S}.few", "bounded", "few"),
    _f("len of a set", "len({S}.up)", "sets", "up"),
    _f("a large constant", "{K}", "large"),
    _f("a large number", "{S}.byte", "large", "byte"),
    _f("a map of large numbers", "{S}.wide[{E}]", "large", "wide"),
]
COLOURS = [
    _f("a member", "Color.{RED}"),
    _f("an Enum", "{S}.color", reads="color"),
    _f("a map of members", "{S}.cm[{E}]", reads="cm"),
    _f("conditional member", "({c} if {b} else {c})"),
]
OPTIONALS = [
    _f("an optional element", "{S}.pick", reads="pick"),
    _f("a map of optional elements", "{S}.pm[{E}]", "values", "pm"),
]
STATEMENTS = [
    _f("require", "require({b})"),
    _f("assert", "assert {b}"),
    _f("assignment", "self.flag = {b}"),
    _f("a number assigned", "self.n = {n}"),
    _f("+=", "self.n += 1"),
    _f("-=", "self.n -= 1", partial=True),
    _f("a member assigned", "self.color = {c}"),
    _f("an element assigned", "self.pick = {E}"),
    _f("None assigned", "self.pick = None"),
    _f("an entry assigned", "self.fm[{E}] = {b}"),
    _f("an entry of members", "self.cm[{E}] = {c}"),
    _f("a map as comprehension", "self.fm = {y: {b+y} for y in T}"),
    _f("assert that narrows", "assert self.pick is not None\nself.fm[self.pick] = {b}"),
    _f("if and else", "if {b}:\n    {stmt}\nelse:\n    {stmt}"),
    _f("match", "match {c}:\n    case Color.RED:\n        {stmt}\n    case _:\n        {stmt}"),
    _f("a local name", "z = {E}\nself.fm[z] = {b}"),
    _f("a loop over a sort", "for t in T:\n    require({loop:fm})\n    self.fm[t] = {loop:fm}"),
    _f("a loop with if", "for t in T:\n    if {loop:cm}:\n        self.cm[t] = Color.GREEN"),
    _f("a method that changes", "self.change({E})"),
    _f("a function that changes", "light(self, {E})"),
    _f("an entry of numbers", "self.nm[{E}] = {n}", "numbers"),
    _f("a number kept in range", "self.few = min({n}, 2)", "bounded"),
    _f(MAY_LEAVE, "self.few = {n}", "bounded", partial=True),
    _f("a large number assigned", "self.byte = max(254, min({n}, 257))", "large"),
    _f("a large number that grows", "self.wide[{E}] += {k}", "large", partial=True),
    _f("a large entry", "self.wide[{E}] = max(65534, min({n} + self.byte, 65537))", "large"),
    _f("a loop over range", "for t in range(3):\n    self.at[t] = {loop:at}", "bounded"),
    _f("a relation's entry", "self.rel[{E}, {c}] = {b}", "relations"),
    _f("a loop over an enum",
       "for t in Color:\n    self.rel[{E}, t] = self.flag or t == Color.{RED}", "relations"),
    _f("a relation as comprehension", "self.rel = {(y, k): {b+y} for y in T for k in Color}",
       "relations"),
    _f("loops in loops", "for t in T:\n    for u in T:\n        self.pair[t, u] = {loop:pair}",
       "pairs"),
    _f("a map of values", "self.pm[{E}] = {E}", "values"),
    _f("add", "self.up.add({E})", "sets"),
    _f("discard", "self.up.discard({E})", "sets"),
    _f("clear a set", "self.up.clear()", "sets"),
    _f("empty()", "self.up = empty()", "sets"),
    _f("sets joined", "self.up = self.up {|} self.down", "sets"),
    _f("a set written out", "self.up = self.down | {{E}}", "sets"),
    _f("a set as comprehension", "self.down = {y for y in T if {b+y}}", "sets"),
    _f("a loop over a set", "for t in self.up:\n    self.fm[t] = {loop:fm}", "sets"),
    _f("a set of tuples", "self.marks.add(({E}, {c}))", "tuples"),
    _f("a set of records", "self.notes.add(Note({c}, {E}))", "tuples"),
    _f("a record", "self.last = Note({c}, {E})", "records"),
    _f("a record by keywords", "self.hints[{c}] = Note(who={E}, color={c})", "records"),
    _f("a record copied", "self.last = self.hints[{c}]", "records"),
    _f("a part that may be absent", "self.color = self.last.color", "records", partial=True),
    _f("append", "self.queue.append({E})", "channels"),
    _f("pop", "require(len(self.queue) > 0)\nself.pick = self.queue.pop(0)", "channels"),
    _f("pop of what may be empty", "self.pick = self.queue.pop(0)", "channels", partial=True),
    _f("clear a channel", "self.queue.clear()", "channels"),
    _f("a channel for each element", "self.box[{E}].append(Note({c}, {E}))", "inboxes"),
    _f("a message as a local name",
       "if len(self.box[a]) > 0:\n    m = self.box[a].pop(0)\n    self.color = m.color",
       "inboxes"),
    _f("a joint action", "self.part.switch()", "parts"),
    _f("a field of a part assigned", "self.parts[{E}].on = {b}", "parts"),
]  # fmt: skip
KINDS = {"b": CONDITIONS, "n": NUMBERS, "c": COLOURS, "o": OPTIONALS, "stmt": STATEMENTS}
HOLE = re.compile(r"{(b|n|c|o|E|S|x|i|k|K|<|min|RED|\||stmt|b\+[TCNy]|loop:\w+)}")
OPTIONS = {
    "<": ["<", "<=", ">", ">=", "==", "!="], "min": ["min", "max"], "RED": ["RED", "GREEN"],
    "|": ["|", "&", "-"], "k": ["0", "1", "2"], "i": ["0", "1", "2"],
    "K": ["255", "256", "65535", "65536"],
}  # fmt: skip
AROUND = (
    "several actions", "parameters: a Sort", "parameters: an Enum", "parameters: bool",
    "parameters: a bounded natural", "parameters: a set", "parameters: a dict", "@initial",
    "kind=fault", "kind=command", "fair=weak", "fair=strong", "fair=weak.any", "@always",
    "@never", "@lemma", "@step", "@sometimes", "@recoverable", "@eventually",
    "@eventually_always", "@leads_to",
)  # fmt: skip
NAMES = (*dict.fromkeys(f.shows for kind in KINDS.values() for f in kind), *AROUND)
"""Every construct that a spec may show."""


@dataclass
class Writer:
    """Fills holes; what stands in scope there, and what may be read."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    features: frozenset[str]
    shown: set[str]
    elements: tuple[str, ...] = ()
    bools: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    states: tuple[str, ...] = ("self",)
    written: str = ""
    total: bool = False
    helpers: bool = True
    depth: int = 3
    bound: list[int] = field(default_factory=lambda: [0])

    def among(self, choices: Any) -> Any:
        """One of these."""
        return self.draw(st.sampled_from(list(choices)))

    def write(self, kind: str) -> str:
        """A text of this kind."""
        names = {"b": self.bools, "c": self.colours, "n": self.numbers}.get(kind, ())
        fragments = [f for f in KINDS[kind] if self.allows(f)]
        special = [f for f in fragments if f.needs != "plain"]
        if special and self.draw(st.booleans()):  # what few specs have is shown by these
            fragments, names = special, ()
        chosen = self.among([*fragments, *names])
        return chosen if isinstance(chosen, str) else self.put(chosen)

    def put(self, chosen: Fragment) -> str:
        """A fragment's text."""
        self.shown.add(chosen.shows)
        return self.filled(chosen.text, replace(self, depth=self.depth - chosen.deep))

    def allows(self, f: Fragment) -> bool:
        """Whether a fragment may stand here."""
        return (
            f.needs in self.features
            and bool(self.elements or "{E}" not in f.text)
            and (self.depth > 0 or not f.deep)
            and not (f.partial and self.total)
            and not (self.written and f.reads in (self.written, "*"))
            and (self.helpers or not f.text.endswith(("holds({E})", "change({E})")))
            and (self.helpers or f.shows != "a joint action")
            and not (f.shows == "a message as a local name" and "a" not in self.elements)
        )

    def filled(self, text: str, inner: Writer) -> str:
        """The text with its holes filled."""
        self.bound[0] += 1
        name = f"x{self.bound[0]}"

        def fill(hole: re.Match[str]) -> str:
            return inner.hole(hole.group(1), name)

        return "\n".join(self._indented(line, fill) for line in text.splitlines())

    def _indented(self, line: str, fill: Callable[[re.Match[str]], str]) -> str:
        """A line filled; a statement of several lines stands at the line's own indent."""
        indent = line[: len(line) - len(line.lstrip())]
        return HOLE.sub(fill, line).replace("\n", f"\n{indent}")

    def hole(self, name: str, bound: str) -> str:
        """What a hole is filled with."""
        if name in OPTIONS:
            return str(self.among(OPTIONS[name]))
        if name == "E":
            return str(self.among(self.elements))
        if name == "S":
            return str(self.among(self.states))
        if name == "x":
            return bound
        if name.startswith("loop:"):
            table = name.removeprefix("loop:")
            turn = ("t",) if table not in ("at",) else ()
            return replace(
                self, elements=(*self.elements, *turn), written=table, total=True, helpers=False
            ).write("b")
        if name.startswith("b+"):
            more = {"T": "elements", "C": "colours", "N": "numbers", "y": "elements"}[name[2:]]
            known = (*getattr(self, more), "y" if name == "b+y" else bound)
            return replace(self, total=True, **{more: known}).write("b")  # type: ignore[arg-type]
        return self.write(name)

    def lines(self, statements: int, indent: int = 2) -> list[str]:
        """Some statements, indented."""
        found = []
        for _ in range(statements):
            found += [f"{'    ' * indent}{line}" for line in self.write("stmt").splitlines()]
        return found


def _helpers(plain: Writer) -> list[str]:
    one = replace(plain, elements=("a",), depth=2, helpers=False, total=True)
    return [
        "    def holds(self, a: T) -> bool:", f"        if {one.write('b')}:",
        f"            return {one.write('b')}", f"        return {one.write('b')}",
        "    def change(self, a: T) -> None:", *one.lines(2),
    ]  # fmt: skip


PARAMETERS = {
    "a: T": "parameters: a Sort", "b: T": "parameters: a Sort", "f: bool": "parameters: bool",
    "c: Color": "parameters: an Enum", "i: Few": "parameters: a bounded natural",
    "chosen: set[T]": "parameters: a set", "given: dict[T, bool]": "parameters: a dict",
}  # fmt: skip
MARKS = {
    "@action": "several actions", "@action(kind=fault)": "kind=fault",
    "@action(kind=command)": "kind=command", "@action(fair=weak)": "fair=weak",
    "@action(fair=strong)": "fair=strong", "@action(fair=weak.any)": "fair=weak.any",
}  # fmt: skip


SHOWABLE = [("self.flag = ", f) for f in CONDITIONS] + [("self.n = ", f) for f in NUMBERS]
SHOWABLE += [("self.color = ", f) for f in COLOURS] + [("", f) for f in STATEMENTS]


def _action(
    plain: Writer, name: str, mark: str, shown: tuple[str, Fragment] | None = None
) -> list[str]:
    few = st.sets(st.sampled_from(sorted(PARAMETERS)), max_size=3)
    parameters = sorted({*plain.draw(few), *(["a: T"] if shown else [])})
    plain.shown |= {PARAMETERS[p] for p in parameters}
    bools = [p[0] for p in parameters if p.endswith(": bool")]
    elements = tuple(p[0] for p in parameters if p.endswith(": T"))
    if "given: dict[T, bool]" in parameters:
        bools += [f"given[{e}]" for e in elements]
    if "chosen: set[T]" in parameters:
        bools += [f"({e} in chosen)" for e in elements]
    inside = replace(
        plain, elements=elements, bools=tuple(bools),
        colours=("c",) if "c: Color" in parameters else (),
        numbers=("i",) if "i: Few" in parameters else (),
    )  # fmt: skip
    first = f"{shown[0]}{inside.put(shown[1])}".splitlines() if shown else []
    return [
        f"    {mark}", f"    def {name}({', '.join(['self', *parameters])}) -> None:",
        '        """A step."""', *(f"        {line}" for line in first),
        *inside.lines(plain.draw(st.integers(1, 4))),
    ]  # fmt: skip


def _properties(plain: Writer) -> list[str]:
    lines = []
    kinds = plain.draw(st.sets(st.sampled_from([n for n in AROUND if n.startswith("@")])))
    for mark in sorted({"@always", "@sometimes", "@step", *kinds} - {"@initial"}):
        plain.shown.add(mark)
        states = ("before", "after") if mark == "@step" else ("s",)
        here = replace(plain, states=states, helpers=mark != "@step")
        parameters = ", ".join(f"{s}: Random" for s in states)
        name = f"p_{mark[1:]}"
        if mark in ("@eventually", "@eventually_always", "@leads_to"):
            here, parameters = replace(here, elements=("a",)), f"{parameters}, a: T"
        body = here.write("b")
        if mark == "@leads_to":
            body, kind = f"{body}, {here.write('b')}", "tuple[bool, bool]"
        else:
            kind = "bool"
        lines += [mark, f"def {name}({parameters}) -> {kind}:", f"    return {body}"]
    return lines


@st.composite
def sources(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """The text of a well-typed spec; its first line names the constructs that it shows."""
    optional = [f for f in FIELDS if f != "plain"]
    others = draw(st.lists(st.sampled_from(optional), min_size=2, max_size=3, unique=True))
    # Left to chance alone, few specs would show what stands late in the tables.
    shown = SHOWABLE[draw(st.integers(0, 1 << 20)) % len(SHOWABLE)]
    plain = Writer(draw, frozenset({"plain", *others, shown[1].needs}), set())
    lines = ["class Random(Spec):", '    """A random spec."""']
    lines += [FIELDS[f] for f in FIELDS if f in plain.features]
    lines += _helpers(plain)
    if draw(st.integers(0, 4)) == 0:
        plain.shown.add("@initial")
        lines += _action(replace(plain, total=True), "start", "@initial")
    for k in range(draw(st.integers(2, 3))):
        mark = draw(st.sampled_from(sorted(MARKS)))
        plain.shown.add(MARKS[mark])
        lines += _action(plain, f"act{k}", mark, None if k else shown)
    lines += _properties(plain)
    text = f"# shows: {'; '.join(sorted(plain.shown))}{HEADER}" + "\n".join(lines) + "\n"
    assume(MAY_LEAVE not in plain.shown or not must_leave(text))
    return text


def must_leave(text: str) -> bool:
    """Whether a number leaves its range at once, as in `self.few = 1 + 2`: that is refused."""
    try:
        from_source(text, "Random")
    except SpecError as error:
        return "fits here" in str(error)
    return False


def used(text: str) -> list[str]:
    """The constructs that a spec shows."""
    return text.splitlines()[0].removeprefix("# shows: ").split("; ")
