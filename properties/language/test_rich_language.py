"""
The rich part of the language: records, sets, relations, channels, bounded numbers, sums.

Each construct stands in an action of a tiny spec, and must mean the same in plain Python, in
columns and in z3, from arbitrary well-typed states; also where it has no meaning (undefined).
"""

from __future__ import annotations

import random

import pytest

from herdspec.check.exploration.explore import Explorer, explore
from herdspec.language.errors import SpecError
from herdspec.language.specification import from_source
from properties.engine.readings import (
    UNDEFINED,
    Numbers,
    by_python,
    compare_properties,
    compare_steps,
    compare_with_z3,
    explorer,
)

HEADER = '''
from __future__ import annotations
from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from herdspec import *

LIMIT = 2

class Node(Sort):
    """A node."""

class Kind(Enum):
    PING = "ping"
    PONG = "pong"

Few = Annotated[Nat, UpTo(3)]

@dataclass(frozen=True)
class Message:
    kind: Kind
    sender: Node
    hops: Few = 0

@dataclass(frozen=True)
class Letter:
    message: Message
    urgent: bool
    reply: Node | None

class Rich(Spec):
    """A spec with every kind of field."""
    flag: bool = False
    n: Nat = 0
    few: Few = 3
    who: Node | None = None
    limit: Few | None = None
    kind: Kind = Kind.PING
    wish: Kind | None = None
    last: Message | None = None
    kept: dict[Node, Message | None] = each(None)
    letter: Letter | None = None
    knows: dict[tuple[Node, Node], bool] = each(False)
    seen: dict[tuple[Kind, Few], Nat] = each(0)
    by_flag: dict[bool, Few] = each(0)
    up: set[Node] = empty()
    down: set[Node] = empty()
    pairs: set[tuple[Node, Kind]] = empty()
    sent: set[Message] = empty()
    queue: Annotated[list[Node], Capacity(2)] = empty()
    inbox: dict[Node, Annotated[list[Message], Capacity(2)]] = each(empty())

    def first_sender(self, a: Node) -> Node | None:
        """Who sent what stands first."""
        return self.inbox[a][0].sender if len(self.inbox[a]) > 0 else None

    def known(self, a: Node) -> bool:
        """Whether the one who is there knows a node."""
        assert self.who is not None
        return self.knows[self.who, a]

    def note(self, m: Message) -> None:
        """Keep a message."""
        self.last = m

'''
ACTION = "    @action\n    def act(self, a: Node, b: Node, k: Kind, i: Few) -> None:\n"

CONSTRUCTS = {
    "a relation": "self.knows[a, b] = not self.knows[b, a]",
    "a relation in a loop": "for x in Node:\n    self.knows[x, a] = not self.knows[x, a]",
    "loops in loops": (
        "for x in Node:\n    for y in Node:\n        self.knows[x, y] = self.knows[x, y] and x != y"
    ),
    "a relation as comprehension": (
        "self.knows = {(x, y): x == a or y in self.up for x in Node for y in Node}"
    ),
    "keys of enums and numbers": (
        "require(self.seen[k, i] < 2)\nself.seen[k, i] += 1\nself.by_flag[self.flag] = i"
    ),
    "a bounded number": "self.few -= 1",
    "a bounded number in range": "require(self.few > 0)\nself.few = self.few - 1",
    "a number that leaves its range": "self.few = i + 1",
    "a sum and a difference": "require(self.n + self.few >= i)\nself.n = self.n + self.few - i",
    "a difference in a comparison": "require(self.few - i < 2)\nself.flag = True",
    "min and max": "self.few = min(self.few, i)\nself.n = max(self.few, 1)",
    "an index out of range": "self.flag = self.seen[k, self.n + 1] > 0",
    "a record": "self.last = Message(k, a, i)",
    "a record by keywords": "self.kept[a] = Message(kind=k, hops=i, sender=b)",
    "a record in a record": "self.letter = Letter(Message(k, a, i), urgent=True, reply=self.who)",
    "a part": (
        "assert self.last is not None\nself.flag = self.last.sender == a\n"
        "self.few = self.last.hops"
    ),
    "a part that is absent": "self.flag = self.last.kind == k",
    "a part behind a condition": "self.flag = self.last is not None and self.last.kind == k",
    "a part of a part": (
        "require(self.letter is not None and self.letter.message.kind == k)\n"
        "self.who = self.letter.reply"
    ),
    "a record as a local name": "m = Message(k, a, i)\nself.note(m)\nself.kept[m.sender] = m",
    "a copied record": "self.kept[a] = self.kept[b]",
    "equal records": "self.flag = self.kept[a] == self.kept[b] or self.last == Message(k, a, i)",
    "a record that is chosen": "self.last = self.kept[a] if self.flag else None",
    "a chain that ends before what is absent": "self.flag = i < 2 <= i < self.limit",
    "a chain with what is absent": "self.flag = 0 < self.few <= self.limit",
    "a set of what equals a number": (
        "self.up = {x for x in Node for y in range(2) if y == self.n and self.knows[x, a]}"
    ),
    "a set of what equals a number of a larger range": (
        "self.down = {x for y in range(2) for x in Node if self.few == y}"
    ),
    "an absent index": "self.flag = self.knows[self.who, a]",
    "an index that is there": "assert self.who is not None\nself.flag = self.knows[self.who, a]",
    "an assert of a helper with a value": (
        "if self.flag:\n    self.flag = self.known(a)\n    self.knows[self.who, b] = False"
    ),
    "an assert of a helper in a loop": (
        "for x in self.down:\n    self.kept[x] = self.last if self.known(x) else None"
    ),
    "an absent value assigned": "self.few = self.last.hops if self.flag else 0",
    "an absent index before a guard": "self.knows[self.who, a] = True\nrequire(self.flag)",
    "an absent index, and a map made anew": (
        "self.knows[self.who, a] = True\n"
        "self.knows = {(x, y): False for x in Node for y in Node}"
    ),
    "an absent member before a guard": "self.up.add(self.who)\nassert self.flag",
    "an absent number": "self.few = self.limit",
    "an absent number before a guard": "self.few = self.limit\nrequire(self.flag)",
    "an absent kind": "self.kind = self.wish\nrequire(self.kind == k)",
    "a range left before a guard": "self.few -= 1\nrequire(self.flag)",
    "a set": "require(a not in self.up)\nself.up.add(a)\nself.down.discard(a)",
    "a set cleared": "self.up.clear()\nself.down = empty()",
    "sets joined": "self.up = self.up | self.down\nself.down = self.down & {a, b}",
    "sets taken away": "self.up -= {a}\nself.down = self.up - self.down",
    "a set as comprehension": "self.up = {x for x in Node if self.knows[a, x]}",
    "a set of what is mapped": "self.pairs = {(x, k) for x in self.up}",
    "subset": "self.flag = self.up <= self.down",
    "equal sets": "self.flag = self.up == self.down",
    "a set of tuples": "require((a, k) not in self.pairs)\nself.pairs.add((a, k))",
    "a set of records": (
        "self.sent.add(Message(k, a, i))\nself.flag = Message(k, b, 0) in self.sent"
    ),
    "sizes": "require(len(self.up) < 2)\nself.n = len(self.sent)",
    "a sum over a sort": "self.n = sum(1 for x in Node if x in self.up or self.knows[x, a])",
    "a sum of conditions": "self.n = sum(x in self.up for x in Node)",
    "quantifiers over sets": (
        "self.flag = all(self.knows[a, x] for x in self.up) and any(m.kind == k for m in "
        "self.sent)"
    ),
    "quantifiers over pairs": "self.flag = any(j == k and x != a for x, j in self.pairs)",
    "quantifiers over enums and ranges": (
        "self.flag = any(self.seen[j, h] > 0 for j in Kind for h in range(4))"
    ),
    "a loop over a set": "for x in self.up:\n    self.knows[x, a] = True",
    "a loop over an enum": "for j in Kind:\n    self.seen[j, i] = 0",
    "send": "self.queue.append(a)",
    "send to one": "self.inbox[a].append(Message(k, b, i))",
    "send to all": "for x in Node:\n    self.inbox[x].append(Message(k, a, i))",
    "send twice": "self.queue.append(a)\nself.queue.append(b)",
    "receive": "require(len(self.inbox[a]) > 0)\nm = self.inbox[a].pop(0)\nself.last = m",
    "receive into a field": "require(len(self.queue) > 0)\nself.who = self.queue.pop(0)",
    "receive nothing": "self.who = self.queue.pop(0)",
    "the first message": (
        "require(len(self.inbox[a]) > 0 and self.inbox[a][0].kind == k)\n"
        "self.inbox[a].pop(0)"
    ),
    "the first message by a helper": "self.who = self.first_sender(a)",
    "lengths": "self.n = len(self.queue)\nself.flag = len(self.inbox[a]) == 1",
    "a channel cleared": "self.queue = empty()\nself.inbox[a].clear()",
    "in a channel": "self.flag = a in self.queue or any(m.sender == b for m in self.inbox[a])",
    "match on what is absent": (
        "match self.flag:\n    case True:\n        self.who = a\n    case False:\n"
        "        self.who = None"
    ),
}  # fmt: skip
UNPROVABLE = {"sizes", "a sum over a sort", "a sum of conditions"}
MAY_BE_UNDEFINED = {
    "a bounded number", "a number that leaves its range", "an index out of range",
    "a chain with what is absent", "a part that is absent", "an absent index",
    "an absent value assigned", "receive nothing",
    "an absent index before a guard", "an absent index, and a map made anew",
    "an absent member before a guard", "an absent number", "an absent number before a guard",
    "an absent kind", "a range left before a guard",
}  # fmt: skip


def rich(body: str) -> str:
    """The spec with an action of this body."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return HEADER + ACTION + lines


def some_states(ex: Explorer, number: int) -> list[Numbers]:
    """So many well-typed states by chance, always the same."""
    chance, slots = random.Random(0), list(ex.ground.slots.values())
    drawn = [tuple(chance.randrange(s.values) for s in slots) for _ in range(number)]
    # Of a channel with gaps, and of a half record, only what makes sense is left.
    return [ex.machine.numbers(ex.machine.state(row), row[-1]) for row in drawn]


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_rich_construct_means_the_same_in_every_reading(construct: str) -> None:
    """Records, sets, relations and channels mean the same in Python, in columns and in z3."""
    ex = explorer(from_source(rich(CONSTRUCTS[construct]), "Rich"))
    rows = some_states(ex, 20)

    compare_steps(ex, rows)
    if construct not in UNPROVABLE:
        compare_with_z3(ex, rows[0])
    lost = any(UNDEFINED in by_python(ex.machine, row).values() for row in rows)
    assert lost == (construct in MAY_BE_UNDEFINED)


PROPERTIES = '''
@always
def up_and_down(s: Rich) -> bool:
    """Nobody is up and down."""
    return all(x not in s.down for x in s.up) and len(s.up) + len(s.down) <= 3

@never
def early(s: Rich) -> bool:
    """Never a far message in an inbox."""
    return any(m.hops > 2 or m.kind == Kind.PONG for x in Node for m in s.inbox[x])

@always
def first(s: Rich) -> bool:
    """It looks at what may not be there."""
    return s.last.kind == Kind.PING

@step
def grows(before: Rich, after: Rich) -> bool:
    """What is known stays known."""
    return all(after.knows[x, y] for x in Node for y in Node if before.knows[x, y])
'''


def test_rich_properties_mean_the_same_in_every_reading() -> None:
    """Properties over rich fields are as true in columns as in Python; undefined ones are false."""
    ex = explorer(from_source(rich("self.knows[a, b] = self.flag") + PROPERTIES, "Rich"))

    compare_properties(ex, some_states(ex, 60))


REFUSED = {
    "a part assigned": ("assert self.last is not None\nself.last.kind = k", "assign a"),
    "a part of a kept record": ("self.letter.urgent = True", "assign a"),
    "a channel's entry emptied": ("self.inbox[a] = empty()", "use .append"),
    "a channel assigned": ("self.queue = [a]", "use .append"),
    "a third message of two": ("self.flag = self.queue[2] == a", "holds 2 messages at most"),
    "a name for a set": ("x = self.up", "use the field itself"),
    "a record half made": ("self.last = Message(k, a)", "give each of kind, sender, hops once"),
    "an unknown part": ("self.last = Message(k, a, size=i)", "give each of kind"),
    "a number too large": ("self.few = 4", "at most 3 fits"),
    "a set of the wrong elements": ("self.up.add(k)", "a Node is wanted"),
    "one index of two": ("self.knows[a] = True", "write 2: Node, Node"),
    "a set as a condition": ("require(self.up)", "compare it"),
    "an attribute of a field": ("self.up.size = 1", "assign a name"),
    "a method of a set": ("self.up.update(self.down)", ".add"),
    "a loop that changes the set it runs over": (
        "for x in self.up: self.up.discard(x)",
        "write self.up = {x for x in … if …}",
    ),
    "a tuple in two names": ("self.flag = any(x == a for x in self.pairs)", "write 2 names"),
    "a sum of numbers": ("self.n = sum(self.by_flag[x] for x in (True, False))", "language.md"),
    "a record compared with None in part": ("require(self.last is a)", "use =="),
}


@pytest.mark.parametrize("construct", REFUSED)
def test_a_rich_construct_without_meaning_is_refused(construct: str) -> None:
    """What sets, records and channels cannot do is refused at its line, with what to write."""
    body, advice = REFUSED[construct]
    text = rich(body)

    with pytest.raises(SpecError) as caught:
        from_source(text, "Rich")

    assert advice in str(caught.value)
    assert caught.value.line == len(text.splitlines())


def test_states_come_back_from_their_numbers() -> None:
    """A state's numbers make an equal state again, which shares nothing with it."""
    ex = explorer(from_source(rich("pass"), "Rich"))
    for row in some_states(ex, 50):
        state = ex.machine.state(row)
        again = ex.machine.state(ex.machine.numbers(state))
        twin = state.copy()
        twin.inbox[next(iter(twin.inbox))].append("changed")  # type: ignore[attr-defined]
        twin.up.add("changed")  # type: ignore[attr-defined]

        assert state == again != twin


def test_an_overflow_is_beyond_the_bound_and_counted() -> None:
    """A message too many is no step that is lost silently: the successor is dropped and counted."""
    spec = from_source(rich("require(a == b)\nself.queue.append(a)"), "Rich")

    found = explore(spec, {"Node": 1}, faults=0)

    assert (found.states, found.dropped > 0, found.complete) == (3, True, False)
    assert found.deadlock is None
