"""
What the language refuses: each with its file, its line, and what to write instead.

Most refusals are shown by a text in which `# here` marks the line.
"""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from herdspec import Spec, SpecError, action, from_source
from properties.language.tiny import HEADER, tiny

IN_A_BODY = {
    "while": ("while self.flag:  # here\n    self.flag = False", "for over a sort"),
    "try": ("try:  # here\n    self.n = 1\nfinally:\n    pass", "for over a sort"),
    "with": ("with self.on:  # here\n    pass", "for over a sort"),
    "import": ("import math  # here", "for over a sort"),
    "raise": ("raise ValueError  # here", "for over a sort"),
    "del": ("del self.on[a]  # here", "for over a sort"),
    "a bare return": ("if self.flag:\n    return  # here", "under an `if`"),
    "return of a value": ("return self.flag  # here", "write assignments"),
    "yield": ("yield self.n  # here", "write assignments"),
    "a nested function": ("def g() -> None:  # here\n    pass", "for over a sort"),
    "a lambda": ("self.flag = (lambda: True)()  # here", "docs/language.md"),
    "a negative number": ("self.n = -1  # here", "docs/language.md"),
    "a sum with a bool": ("self.n = self.n + True  # here", "a Nat is wanted"),
    "a product": ("self.n = self.n * 2  # here", "numbers know + and -"),
    "a string": ("self.flag = self.n == 'one'  # here", "naturals"),
    "a fraction": ("self.n = 0.5  # here", "naturals"),
    "an f-string": ("self.flag = f'{a}' == f'{b}'  # here", "docs/language.md"),
    "a walrus": ("require((x := self.flag))  # here", "docs/language.md"),
    "a list": ("self.on = [True]  # here", "docs/language.md"),
    "a dict": ("self.on = {a: True}  # here", "docs/language.md"),
    "a set comprehension": ("self.flag = {x for x in Node} == {a}  # here", "assign it to a field"),
    "a comprehension with if": ("self.on = {x: f for x in Node if f}  # here", "{x: value"),
    "an unknown name": ("self.n = nothing  # here", "define it first"),
    "an unknown field": ("self.m = 1  # here", "known: flag, n"),
    "an unknown field to read": ("self.flag = self.m  # here", "known: flag, n"),
    "an unknown method": ("self.go(a)  # here", "define it in the spec"),
    "an unknown function": ("self.flag = bool(self.n)  # here", "a helper with a value"),
    "print": ("print(self.n)  # here", "a method of the spec"),
    "a member that is none": ("self.light = Light.PINK  # here", "members of Enums"),
    "the value of a member": (
        "self.flag = self.light.value == 'red'  # here",
        "fields of the state",
    ),
    "an attribute of an element": ("self.n = a.index  # here", "fields of the state"),
    "a method of an element": ("self.flag = a.marked(b)  # here", "a helper with a value"),
    "the whole state": ("x = self  # here", "name one of its fields"),
    "a wrong type": ("self.flag = 1  # here", "a bool is wanted"),
    "a wrong type in an entry": ("self.count[a] = True  # here", "a Nat is wanted"),
    "a wrong index": ("self.flag = self.on[self.n]  # here", "a Node is wanted"),
    "a wrong member": ("self.light = f  # here", "a Light is wanted"),
    "None where it cannot be": ("self.flag = None  # here", "naturals and members"),
    "None compared with a bool": ("require(self.flag is not None)  # here", "never None"),
    "a condition that is no bool": ("require(self.n)  # here", "compare it"),
    "a number as a condition": ("if self.n:  # here\n    self.n = 0", "compare it"),
    "an index into no dict": ("self.n[a] = 1  # here", "assign a name"),
    "an index into no dict, read": ("self.flag = self.n[a] == 1  # here", "no dict"),
    "an order of elements": ("require(a < b)  # here", "a Nat is wanted"),
    "an order of members": ("require(self.light < c)  # here", "a Nat is wanted"),
    "is between values": ("require(a is b)  # here", "use =="),
    "in a sort": ("require(a in Node)  # here", "name an element"),
    "in a map": ("require(a in self.on)  # here", "a tuple of values, or a set"),
    "two assignments at once": ("self.n, self.flag = 1, f  # here", "assign a name"),
    "a chain of assignments": ("self.flag = self.on[a] = f  # here", "write assignments"),
    "a keyword argument": ("self.add(a=a)  # here", "by position"),
    "a keyword of require": ("require(f, self=1)  # here", "call require"),
    "a missing argument": ("self.add()  # here", "give 1"),
    "a loop over a list": ("for x in [1, 2]:  # here\n    self.n = 1", "docs/language.md"),
    "a scalar in a loop over range": (
        "for x in range(2):\n    self.n = 1  # here",
        "assign self.n[x]",
    ),
    "a loop over a map": ("for x in self.on:  # here\n    self.on[x] = f", "loop over a Sort"),
    "a scalar in a loop over an enum": (
        "for x in Light:\n    self.flag = f  # here",
        "assign self.flag[x]",
    ),
    "a loop with else": ("for x in Node:  # here\n    pass\nelse:\n    pass", "for over a sort"),
    "break": ("for x in Node:\n    break  # here", "for over a sort"),
    "a scalar in a loop": (
        "for x in Node:\n    self.flag = self.on[x]  # here",
        "assign self.flag[x]",
    ),
    "another entry in a loop": (
        "for x in Node:\n    self.on[a] = self.off[x]  # here",
        "assign self.on[x]",
    ),
    "a whole map in a loop": (
        "for x in Node:\n    self.on = self.off  # here",
        "assign self.on[x]",
    ),
    "another turn's write": (
        "for x in Node:\n    self.on[x] = f\n    self.off[x] = self.on[a]  # here",
        "of their own",
    ),
    "another turn's write, all": (
        "for x in Node:\n    self.on[x] = all(self.on[y] for y in Node)  # here",
        "of their own",
    ),
    "a name from outside of a loop": (
        "y = False\nfor x in Node:\n    y = self.on[x]  # here\nself.flag = y",
        "a name of its own",
    ),
    "the name of a loop, later": (
        "for x in Node:\n    self.on[x] = f\nself.off[x] = f  # here",
        "define it first",
    ),
    "a loop that hides a name": ("for a in Node:\n    self.on[a] = f  # here", "another name"),
    "a name of one branch": ("if f:\n    x = a\nself.on[x] = f  # here", "define it first"),
    "a name of two types": (
        "x = a\nif f:\n    x = self.who\nself.who = x  # here",
        "define it first",
    ),
    "a name for a whole map": (
        "m = self.on  # here\nself.on[a] = True\nrequire(m[a])",
        "use the field itself",
    ),
    "a comparison of maps": ("require(self.on == self.off)  # here", "compare entries"),
    "a capture": ("match c:\n    case x:  # here\n        self.light = x", "members of an Enum"),
    "a guard of a case": (
        "match c:\n    case Light.RED if f:  # here\n        pass",
        "inside the case",
    ),
    "any over a list": ("require(any([f]))  # here", "a helper with a value"),
    "a loop variable of two": ("require(any(f for x, y in Node))  # here", "use one name"),
}


def refused(text: str, name: str = "Tiny") -> SpecError:
    """The error that this text of a spec gives, at the line that it marks with `# here`."""
    with pytest.raises(SpecError) as caught:
        from_source(text, name)
    error = caught.value
    marked = [k for k, line in enumerate(text.splitlines(), 1) if line.endswith("# here")]
    assert [error.line] == marked, error
    assert error.file.startswith("<spec ")
    assert str(error) == f"{error.file}:{error.line}: {error.construct}; {error.advice}"
    return error


@pytest.mark.parametrize("construct", IN_A_BODY)
def test_a_construct_without_meaning_is_refused_at_its_line(construct: str) -> None:
    """What has no meaning in every reading is refused, with its line and what to write instead."""
    body, advice = IN_A_BODY[construct]

    assert advice in str(refused(tiny(body)))


IN_A_CLASS = {
    "a statement": ("    LIMIT = 3  # here", "fields with a type"),
    "a loop": ("    for x in (1, 2):  # here\n        pass", "fields with a type"),
    "a class": ("    class Inner:  # here\n        pass", "fields with a type"),
    "an async method": (
        "    async def go(self) -> None:  # here\n        pass",
        "fields with a type",
    ),
    "a field without value": ("    late: bool  # here", "give it one"),
    "an unknown type": ("    s: str = 'a'  # here", "use bool, Nat"),
    "an undefined type": ("    s: Stranger = None  # here", "use bool, Nat"),
    "half a type": ("    s: dict[Node] = each(0)  # here", "use bool, Nat"),
    "a map from a natural": ("    m: dict[Nat, bool] = each(False)  # here", "bounded number"),
    "a map of maps": (
        "    m: dict[Node, dict[Node, bool]] = each(False)  # here",
        "dict[tuple[A, B]",
    ),
    "a list": ("    m: list[bool] = each(False)  # here", "use bool, Nat"),
    "a start of another type": ("    m: bool = 1  # here", "start with a constant"),
    "a negative start": ("    m: Nat = -1  # here", "start with 0, 1, 2, …"),
    "a start that is an element": ("    m: Node = Node(0)  # here", "start with a constant"),
    "one value for a map": ("    m: dict[Node, bool] = False  # here", "each(value)"),
    "each for a scalar": ("    m: bool = each(False)  # here", "the value itself"),
    "a constructor": ("    def __init__(self) -> None:  # here\n        pass", "take another"),
    "a reserved name": ("    copy: bool = False  # here", "take another"),
    "a property": (
        "    @property\n    def m(self) -> bool:  # here\n        return True",
        "@action",
    ),
    "a parameter without a type": (
        "    @action\n    def go(self, x) -> None:  # here\n        pass",
        "annotate",
    ),
    "a number as a parameter": (
        "    @action\n    def go(self, x: Nat) -> None:  # here\n        pass",
        "a bounded number",
    ),
    "a parameter with a default": (
        "    @action\n    def go(self, x: bool = True) -> None:  # here\n        pass",
        "plain ones",
    ),
    "any number of parameters": (
        "    @action\n    def go(self, *x: bool) -> None:  # here\n        pass",
        "plain ones",
    ),
    "an action without self": (
        "    @action\n    def go() -> None:  # here\n        pass",
        "a method",
    ),
    "a docstring about nobody": (
        "    @action\n    def go(self) -> None:  # here\n        '''{x} goes.'''",
        "name parameters only in {} (it has none)",
    ),
    "a docstring about somebody else": (
        "    @action\n    def go(self, a: Node, b: Node) -> None:  # here\n        '''{x} goes.'''",
        "name parameters only in {} (a, b)",
    ),
    "a helper that calls itself": (
        "    def again(self, a: Node) -> None:\n        self.again(a)  # here\n"
        "    @action\n    def go(self, a: Node) -> None:\n        self.again(a)",
        "unroll it",
    ),
    "a helper with several names at once": (
        "    def both(self) -> bool:\n        one, two = self.n, self.n  # here\n"
        "        return one == two\n"
        "    @action\n    def go(self) -> None:\n        require(self.both())",
        "one assignment for each",
    ),
    "a helper that returns and changes": (
        "    def both(self) -> bool:\n        self.n = 1  # here\n        return True\n"
        "    @action\n    def go(self) -> None:\n        require(self.both())",
        "split it",
    ),
    "a helper that may not return": (
        "    def half(self) -> bool:  # here\n        if self.flag:\n"
        "            return True\n    @action\n    def go(self) -> None:\n"
        "        require(self.half())",
        "end it by a return",
    ),
    "a helper of a whole map": (
        "    def has(self, m: dict[Node, bool], a: Node) -> bool:  # here\n"
        "        return m[a]\n    @action\n    def go(self, a: Node) -> None:\n"
        "        require(self.has(self.on, a))",
        "in the field",
    ),
    "a helper that reads another turn's write": (
        "    def none(self) -> None:\n        for y in Node:\n"
        "            require(not self.on[y])  # here\n    @action\n"
        "    def go(self) -> None:\n        for x in Node:\n            self.none()\n"
        "            self.on[x] = True",
        "of their own",
    ),
}


@pytest.mark.parametrize("construct", IN_A_CLASS)
def test_a_class_that_is_no_spec_is_refused_at_its_line(construct: str) -> None:
    """What no spec's class may hold is refused, with its line and what to write instead."""
    body, advice = IN_A_CLASS[construct]

    assert advice in str(refused(HEADER + body + "\n"))


BESIDE = {
    "a property of too many states": (
        "@always\ndef p(a: Tiny, b: Tiny) -> bool:  # here\n    return True",
        "always takes 1",
    ),
    "a step of one state": (
        "@step\ndef p(s: Tiny) -> bool:  # here\n    return True",
        "step takes 2",
    ),
    "a property that is no bool": (
        "@always\ndef p(s: Tiny) -> bool:\n    return s.n  # here",
        "a bool",
    ),
    "a property that changes": (
        "@always\ndef p(s: Tiny) -> bool:\n    s.n = 1  # here\n    return True",
        "split it",
    ),
    "a name that is defined nowhere": (
        "@always\ndef p(s: Tiny) -> bool:\n    return s.n < MOST  # here",
        "define it first",
    ),
    "what is no Python": ("def p(:  # here", "write valid Python"),
}


@pytest.mark.parametrize("construct", BESIDE)
def test_a_property_without_meaning_is_refused_at_its_line(construct: str) -> None:
    """A property that has no meaning in every reading is refused, with its line and advice."""
    text, advice = BESIDE[construct]

    assert advice in str(refused(HEADER + text + "\n"))


def test_a_class_in_a_file_is_refused_with_that_file_and_line() -> None:
    """The error about a class in a file names this file and the line in it."""
    with pytest.raises(SpecError) as caught:

        class Slow(Spec):
            """It waits."""

            flag: bool = False

            @action
            def wait(self) -> None:
                """It waits."""
                while self.flag:  # the line of the test below
                    self.flag = False

    lines, first = inspect.getsourcelines(test_a_class_in_a_file_is_refused_with_that_file_and_line)
    expected = next(k for k, line in enumerate(lines, first) if "# the line of" in line)
    assert (caught.value.file, caught.value.line) == (__file__, expected)


def test_an_assert_that_python_would_drop_is_refused() -> None:
    """Under `python -O` an `assert` is no guard in the plain Python, so it is none at all."""
    text = tiny("assert self.flag")
    in_helper = tiny("require(self.marked(a))").replace(
        "        if self.on[a]", "        assert self.flag\n        if self.on[a]"
    )

    assert "the statement `assert self.flag`; write assignments, require" in optimised(text)
    assert "does something else; split it in two" in optimised(in_helper)


def optimised(text: str) -> str:
    """What `python -O` says of the text of a spec."""
    program = f"from herdspec import from_source\nfrom_source({text!r}, 'Tiny')"
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)
    return done.stderr


def test_a_source_without_the_class_is_refused() -> None:
    """A text that lacks the class is refused with what to do."""
    with pytest.raises(SpecError, match="no class `Huge` derived from Spec; name the spec's class"):
        from_source(HEADER, "Huge")
