"""
Constructs by which plain Python and the other readings once meant something else.

Each means the same in all of them now, or is refused with its line and what to write instead.
"""

from __future__ import annotations

import pytest

from herdspec import SpecError, from_source
from herdspec.check.proof.prove import prove
from properties.engine.readings import UNDEFINED, by_python, compare_steps, explorer
from properties.language.test_rich_language import HEADER, some_states

ACTION = (
    "    @action\n    def act(self, a: Node, b: Node, k: Kind, i: Few, p: set[Node]) -> None:\n"
)
MORE = '''
    likes: dict[Node, set[Node]] = each(empty())

    def none_of_them(self) -> set[Node]:
        """Nobody."""
        return set()

    def nothing(self) -> set[Node]:
        """Nobody, as nothing can be changed."""
        return empty()

'''
ABOVE = """
from enum import Flag

class Perm(Flag):
    READ = 1
    BOTH = 3

def flip(n: Nat) -> Nat:
    return 3 - n

class Rich(Spec):"""


def hostile(body: str) -> str:
    """The text of a spec whose one action does this."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return HEADER.replace("\nclass Rich(Spec):", ABOVE) + MORE + ACTION + lines


CONSTRUCTS = {
    "an optional number below zero": "self.limit = self.few - i",
    "a record with a number below zero, kept": "self.last = Message(k, a, i - 1)",
    "a record with a number below zero, in a set": "self.sent.add(Message(k, a, i - 1))",
    "a record with a number too large, in a set": "self.sent |= {Message(k, a, i + 1)}",
    "records with numbers below zero": "self.sent = {Message(k, x, i - 1) for x in self.up}",
    "a set compared with none": "self.flag = self.up == empty()",
    "a set joined with none": "self.up = self.up | empty()\nself.down = self.down - empty()",
    "a set of a set's own": "self.likes[a] = self.up | set()\nself.up.add(b)",
    "a shared set, and another changed": "self.likes[a] = self.up\nself.down.add(b)",
    "an entry changed, then shared": "self.likes[a].add(b)\nself.likes[b] = p",
    "an entry of a helper's own": "self.likes[a] = self.none_of_them()\nself.up.clear()",
    "a part looked at by a match": "match self.last.hops:\n    case _:\n        self.n = 0",
}
MAY_BE_UNDEFINED = {*[*CONSTRUCTS][:5], "a part looked at by a match"}


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_construct_means_what_python_means(construct: str) -> None:
    """Plain Python, the columns and the emitted Python take the same steps."""
    spec = from_source(hostile(CONSTRUCTS[construct]), "Rich")
    ex = explorer(spec)
    rows = some_states(ex, 12)

    compare_steps(ex, rows)
    lost = any(UNDEFINED in by_python(ex.machine, row).values() for row in rows)
    assert lost == (construct in MAY_BE_UNDEFINED)


SHARED = "after an entry was assigned a set as it is; assign the entry a set of its own"
REFUSED = {
    "an entry that is another one": ("self.likes[a] = self.likes[b]\nself.likes[a].add(b)", SHARED),
    "an entry that is a field": ("self.likes[a] = self.up\nself.up.add(b)", SHARED),
    "a field joined in place": ("self.likes[a] = self.up\nself.up |= p", SHARED),
    "an entry that was chosen": ("self.likes[a] = p\nself.likes[b].discard(a)", SHARED),
    "an entry that may be a field": (
        "self.likes[a] = self.up if i > 1 else set()\nself.up.add(b)",
        SHARED,
    ),
    "no set, chosen for an entry": (
        "self.likes[a] = empty() if i > 1 else p",
        "write self.likes[a].clear(), or set()",
    ),
    "no set, as a helper's value": ("self.likes[a] = self.nothing()", "write set()"),
    "the least by a key": ("self.n = min(self.n, i, key=flip)", "the call `min"),
    "a match on a message taken": (
        "match self.queue.pop(0):\n    case _:\n        self.n = 0",
        "the call `self.queue.pop(0)`",
    ),
    "a map with one key twice": (
        "self.knows = {(x, x): x == a for x in Node for x in Node}",
        "write {x: value for x in Sort}",
    ),
    "a later loop's name in a condition": (
        "self.flag = any(b != x for x in Node if x != b for b in Node)",
        "`b`, which a later loop of the comprehension binds; use another name",
    ),
    "a later loop's name in its set": (
        "self.up = {x for x in Node for a in self.likes[a]}",
        "`a`, which a later loop of the comprehension binds; use another name",
    ),
    "members that are joined": ("self.flag = Perm.BOTH == Perm.READ", "members of Enums"),
}


@pytest.mark.parametrize("construct", REFUSED)
def test_what_python_means_otherwise_is_refused(construct: str) -> None:
    """What plain Python means otherwise is refused, with what to write instead."""
    body, advice = REFUSED[construct]

    with pytest.raises(SpecError) as caught:
        from_source(hostile(body), "Rich")

    assert advice in str(caught.value)


CLASSES = '''
from __future__ import annotations
from enum import Enum, Flag
from herdspec import *

class Node(Sort):
    """A node."""

Other = Node

class Part(Spec):
    flag: bool = False

    def by(self) -> Nat:
        """One."""
        return 1

    @action
    def go(self, {parameter}: Node) -> None:
        """It goes."""
        require(not self.flag)
        self.flag = True

{more}
class Whole({base}):
{body}
'''
IN_A_CLASS = {
    "a field over an action": ("a", "", "Part", "    go: bool = False", "is a method of its base"),
    "a helper over a field": (
        "a", "", "Part", "    def flag(self) -> bool:\n        return True",
        "is a field of its base",
    ),
    "what selects a part": (
        "at1", "", "Spec", "    parts: dict[Node, Part]",
        "the parameter `at1`, which is what selects a part of the whole; take another name",
    ),
    "a flag": (
        "a", "class Perm(Flag):\n    READ = 1\n", "Spec", "    p: Perm = Perm.READ",
        "a Flag or without members",
    ),
    "an enum of nobody": (
        "a", "class Nobody(Enum):\n    pass\n", "Spec", "    p: dict[Nobody, bool] = each(True)",
        "a Flag or without members",
    ),
    "two sorts of one name": (
        "a", "class Node(Sort):\n    pass\n", "Spec",
        "    a: Other | None = None\n    b: Node | None = None", "two sorts of the name Node",
    ),
    "two sorts of one name, in a text": (
        "a", "class Node(Sort):\n    pass\n", "Spec",
        "    a: Other | None = None\n    @action\n    def go(self) -> None:\n"
        "        require(any(x == self.a for x in Node))\n        self.a = None",
        "two sorts of the name Node",
    ),
    "a method set later": (
        "a", "", "Part",
        "    n: Nat = 0\n\ndef two(self: Whole) -> Nat:\n    return 2\n\nWhole.by = two",
        "`by`, which is another one in the class Whole now; write it in the class",
    ),
}  # fmt: skip


@pytest.mark.parametrize("construct", IN_A_CLASS)
def test_a_class_that_python_means_otherwise_is_refused(construct: str) -> None:
    """Names that stand for two things are refused, and methods that were exchanged."""
    parameter, more, base, body, advice = IN_A_CLASS[construct]
    text = CLASSES.format(parameter=parameter, more=more, base=base, body=body)

    with pytest.raises(SpecError) as caught:
        from_source(text, "Whole")

    assert advice in str(caught.value)
    assert caught.value.file.startswith("<spec ")


def test_a_sort_that_proofs_have_of_their_own_is_refused() -> None:
    """Proofs know messages by tags: a sort of that name would be the same one."""
    text = CLASSES.format(
        parameter="a", more="class Tag(Sort):\n    pass\n", base="Spec",
        body="    q: Annotated[list[Node], Capacity(2)] = empty()\n    on: set[Tag] = empty()",
    ).replace("from enum", "from typing import Annotated\nfrom enum")  # fmt: skip

    with pytest.raises(SpecError, match="the sort Tag beside channels"):
        prove(from_source(text, "Whole"))
