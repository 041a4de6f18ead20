"""
Functions of the module in actions, messages by their position, remainders and quotients.

Each construct stands in an action of the rich spec, and must mean the same in plain Python, in
columns, in the emitted Python and in z3, from arbitrary well-typed states.
"""

from __future__ import annotations

import pytest

from herdspec import SpecError, from_source
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.prove import prove
from herdspec.check.simulation.search import search
from properties.engine.readings import (
    UNDEFINED,
    by_python,
    compare_properties,
    compare_steps,
    compare_with_z3,
    explorer,
)
from properties.language.test_rich_language import some_states

HEADER = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from herdspec import *

LIMIT = 2

class Node(Sort):
    """A node."""

Few = Annotated[Nat, UpTo(3)]

@dataclass(frozen=True)
class Message:
    sender: Node
    hops: Few

class Post(Spec):
    """Queues, and what is taken from them."""
    flag: bool = False
    n: Nat = 0
    few: Few = 3
    who: Node | None = None
    up: set[Node] = empty()
    slot: dict[Few, bool] = each(False)
    kept: dict[Node, Message | None] = each(None)
    queue: Annotated[list[Node], Capacity(2)] = empty()
    inbox: dict[Node, Annotated[list[Message], Capacity(2)]] = each(empty())

    def twice(self, a: Node) -> bool:
        """A method that calls functions."""
        return is_up(self, a) and not at_most(self.n, 0)

    @action
    def act(self, a: Node, i: Few) -> None:
        """Something happens."""
{}

def is_up(s: Post, x: Node) -> bool:
    """Whether a node is up, and something is queued."""
    if len(s.queue) == 0:
        return False
    return x in s.up

def at_most(n: Nat, most: Nat) -> bool:
    """Whether a number is small."""
    return n <= min(most, LIMIT)

def letter(x: Node, i: Few) -> Message:
    """A message."""
    return Message(x, i)

def take_up(s: Post, x: Node) -> None:
    """A node comes up, if it is not up."""
    require(x not in s.up)
    s.up.add(x)
    if s.flag:
        bump(s, LIMIT)

def bump(s: Post, most: Nat) -> None:
    """Count, up to a bound."""
    require(s.n < most)
    s.n += 1

'''
CONSTRUCTS = {
    "a function with a value": "require(is_up(self, a))\nself.flag = at_most(self.n, i)",
    "a function in a method": "self.flag = self.twice(a)",
    "a function that makes a record": (
        "self.kept[a] = letter(a, i)\nself.queue.append(letter(a, 0).sender)"
    ),
    "a function that changes": "take_up(self, a)",
    "a function that changes, in a branch": (
        "if self.flag:\n    bump(self, 3)\nelse:\n    self.n = 0"
    ),
    "a function in a loop": (
        "for x in Node:\n    self.kept[x] = letter(a, i) if is_up(self, x) else None"
    ),
    "a function in a quantifier": "require(any(is_up(self, x) and x != a for x in Node))",
    "the second message": "require(len(self.queue) > 1)\nself.who = self.queue[1]",
    "the second message, if any": "self.who = self.queue[1] if len(self.queue) > 1 else None",
    "the second message, blindly": "self.who = self.queue[1]",
    "the last message": "require(len(self.queue) > 0)\nself.who = self.queue[-1]",
    "the last but one": "self.flag = len(self.queue) == 2 and self.queue[-2] == a",
    "a message by a number": "require(i < len(self.queue))\nself.who = self.queue[i]",
    "a message by a number, blindly": "self.who = self.queue[self.n]",
    "a message by a difference": "self.who = self.queue[self.few - i]",
    "a message from the end": (
        "require(len(self.queue) > 0)\nself.who = self.queue[len(self.queue) - 1]"
    ),
    "a part of a message": (
        "require(len(self.inbox[a]) > i)\nself.few = self.inbox[a][i].hops\n"
        "self.kept[a] = self.inbox[a][-1]"
    ),
    "a message of each": (
        "for x in Node:\n    require(len(self.inbox[x]) > 1)\n"
        "    self.kept[x] = self.inbox[x][1]"
    ),
    "a message received of each": (
        "for x in Node:\n    require(len(self.inbox[x]) > 0)\n    m = self.inbox[x].pop(0)\n"
        "    self.kept[x] = m"
    ),
    "in and not in a channel": (
        "require(a in self.queue and not all(x in self.queue for x in Node))\n"
        "self.flag = Message(a, i) not in self.inbox[a]"
    ),
    "a remainder": "self.n = (self.n + i) % 3\nself.few = self.n % 4",
    "a remainder below zero": "self.few = (self.few - i) % 3\nself.flag = (i - 3) % 2 == 1",
    "a quotient": "self.n = (self.few + i) // 2\nself.flag = (i - 3) // 2 < 0 - 1",
    "a remainder in a guard": "require(self.n % 2 == 0)\nself.n += 1",
    "a remainder as an index": "self.slot[(i + 1) % 4] = True\nself.flag = self.slot[i % 2]",
    "a remainder by a number": "require(i > 0)\nself.n = self.n % i + self.few // i",
    "a remainder by what may be zero": "self.n = self.few % i",
    "a quotient by what may be zero": "self.flag = self.n // self.few == 1",
    "a remainder in place": "self.n %= 2\nself.few //= 2",
}  # fmt: skip
MAY_BE_UNDEFINED = {
    "the second message, blindly", "a message by a number, blindly", "a message by a difference",
    "a remainder by what may be zero", "a quotient by what may be zero",
}  # fmt: skip


def post(body: str, more: str = "") -> str:
    """The spec with an action of this body, and what stands below it."""
    # Its functions stand below the class: they are there by the time that they are called.
    head, functions = HEADER.split("{}\n")
    classes = head.index("class Post")
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"{head[:classes]}{functions}{head[classes:]}{lines}\n{more}"


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_construct_means_the_same_in_every_reading(construct: str) -> None:
    """Functions, positions and remainders mean the same in Python, columns, scripts and z3."""
    ex = explorer(from_source(post(CONSTRUCTS[construct]), "Post"))
    rows = some_states(ex, 40)

    compare_steps(ex, rows)
    compare_with_z3(ex, rows[0])
    lost = any(UNDEFINED in by_python(ex.machine, row).values() for row in rows)
    assert lost == (construct in MAY_BE_UNDEFINED)


PROPERTIES = '''
@always
def few_are_up(s: Post) -> bool:
    """Whoever is queued last is up, or the number is even."""
    return len(s.queue) == 0 or s.queue[-1] in s.up or s.n % 2 == 0

@always
def second(s: Post) -> bool:
    """It looks at what may not be there."""
    return s.queue[1] not in s.up

@sometimes
def called(s: Post) -> bool:
    """A function that calls a function, and one of a value."""
    return any(is_up(s, x) and at_most(s.n // 2, s.few % 2) for x in Node)

@always
def divided(s: Post) -> bool:
    """What 0 divides has no meaning, and does not hold."""
    return s.n % s.few < 3 and letter(s.queue[s.n % 2], s.few).hops == s.few

@step
def grows(before: Post, after: Post) -> bool:
    """What is queued stays so, and counts go on one by one."""
    return all(x in after.queue for x in before.queue) and (after.n - before.n) % 2 <= 1
'''


def test_properties_mean_the_same_in_every_reading() -> None:
    """In properties, too: functions, positions and remainders, also where they have no meaning."""
    ex = explorer(from_source(post("self.queue.append(a)", PROPERTIES), "Post"))
    rows = some_states(ex, 80)

    compare_properties(ex, rows)
    compare_with_z3(ex, rows[0])


TURNS = """
require(len(self.queue) < 2 and self.n % 3 != 1)
self.queue.append(a)
self.few = (self.few + self.n + i) % 4
self.n = (self.n + 3) % 4
self.flag = self.queue[-1] == a and self.queue[0] in self.up
"""
TAKEN = """
    @action
    def take(self, i: Few) -> None:
        '''One of the queue comes up.'''
        require(i < len(self.queue))
        self.who = self.queue[i]
        self.n = self.n // 2
        take_up(self, self.queue[-1])
        self.queue.pop(0)

""".replace("'''", '"""')


def test_the_engines_explore_the_same() -> None:
    """NumPy, native code and z3's bits find the same states and the same first failures."""
    spec = from_source(post(TURNS, TAKEN + PROPERTIES), "Post")
    ways = [explore(spec, {"Node": 2}, faults=0, bound=3, engine=e) for e in ("numpy", "native")]

    one, other = [(w.states, w.generated, w.dropped, w.depth, dict(w.taken)) for w in ways]
    assert one == other
    assert ways[0].states > 40
    first = {name: len(story.steps) for name, story in ways[0].violations.items()}
    found = search(spec, {"Node": 2}, faults=0, bound=3, depth=max(first.values()))
    told = {name: len(story.steps) for name, story in found.violations.items()}
    assert told == {name: steps for name, steps in first.items() if name in found.promises}
    assert {"second", "divided"} <= told.keys()


def test_remainders_are_proved() -> None:
    """A number that goes up by two stays even, for any number of steps."""
    even = "@always\ndef even(s: Post) -> bool:\n    return s.n % 2 == 0 and s.n // 2 <= s.n\n"
    spec = from_source(post("self.n += 2", even), "Post")

    assert prove(spec).proved


ORDERLESS = """
@always
def sound(s: Post) -> bool:
    '''Nobody is known who was never sent.'''
    return s.who is None or s.flag
""".replace("'''", '"""')


@pytest.mark.parametrize(
    ("body", "proved"),
    [
        ("require(len(self.queue) > 1 and self.flag)\nself.who = self.queue[1]", True),
        ("require(len(self.queue) > 0 and self.flag)\nself.who = self.queue[-1]", True),
        ("require(len(self.queue) > 0)\nself.who = self.queue[-1]", False),
        ("require(self.flag)\nself.who = self.queue[-1]", False),
        ("require(len(self.queue) > 0 and self.flag)\nself.who = self.queue[1]", False),
        ("require(self.flag)\nself.who = self.queue.pop(0)", False),
        ("require(len(self.queue) > 0 and self.flag)\nself.who = self.queue.pop(0)", True),
        ("require(len(self.queue) > i and i < 2 and self.flag)\nself.who = self.queue[i]", None),
    ],
)
def test_proofs_take_any_message_for_one_at_a_position(body: str, proved: bool | None) -> None:
    """A proof knows no order: what it shows holds of any message; that one is there is asked."""
    spec = from_source(post(body, ORDERLESS), "Post")

    if proved is None:
        with pytest.raises(SpecError, match="compare it with a constant"):
            prove(spec)
    else:
        assert prove(spec).proved == proved


REFUSED = {
    "a function without a value, as one": ("self.flag = bump(self, 2)", "let bump return one"),
    "a function with a value, as a statement": ("is_up(self, a)", "write assignments"),
    "a function that is nowhere": ("later(self)", "define it above the spec"),
    "a value that is nowhere": ("self.flag = later(self)", "define it above the spec"),
    "too few arguments": ("bump(self)", "give 2, by position"),
    "a position that is never there": ("self.who = self.queue[2]", "holds 2 messages at most"),
    "a position before the first": ("self.who = self.queue[-3]", "holds 2 messages at most"),
    "a position that is no number": ("self.who = self.queue[self.flag]", "a Nat is wanted"),
    "a message assigned": ("self.queue[1] = a", "assign a name"),
    "a part of the channel": ("self.who = self.queue[0:1]", "docs/language.md"),
    "a division by zero": ("self.n = self.n % 0", "a constant above 0"),
    "a division by a difference": ("self.n = self.n // (self.n - 1)", "a constant above 0"),
    "a quotient that is none": ("self.n = self.n / 2", "% and //"),
}


@pytest.mark.parametrize("construct", REFUSED)
def test_a_construct_without_meaning_is_refused(construct: str) -> None:
    """What a function, a position or a division cannot be is refused, with what to write."""
    body, advice = REFUSED[construct]

    with pytest.raises(SpecError) as caught:
        from_source(post(body), "Post")

    assert advice in str(caught.value)


def test_a_name_that_the_module_has_taken_is_the_module_s() -> None:
    """A module's own `max` is what Python calls, so it is what every analysis takes."""
    own = "def max(a: Nat, b: Nat) -> Nat:\n    return a\n\n"
    text = post("self.n = max(self.n, i)").replace("class Post", f"{own}class Post")

    ex = explorer(from_source(text, "Post"))

    compare_steps(ex, some_states(ex, 20))


def test_a_part_is_not_moved_by_itself_that_a_function_moves() -> None:
    """An action of a part that a function calls is joint, and is no step of its own."""
    text = post("require(self.n < i)").replace(
        "class Post(Spec):",
        "class Bell(Spec):\n    rung: bool = False\n\n    @action\n    def ring(self) -> None:\n"
        "        require(not self.rung)\n        self.rung = True\n\n"
        "def ring_it(s: Post) -> None:\n    s.bell.ring()\n\nclass Post(Spec):",
    )
    text = text.replace("    flag: bool", "    bell: Bell\n    flag: bool")

    alone = from_source(text, "Post")
    joint = from_source(text.replace("require(self.n < i)", "ring_it(self)"), "Post")

    assert [a.name for a in alone.actions] == ["act", "bell.ring"]
    assert [a.name for a in joint.actions] == ["act"]
