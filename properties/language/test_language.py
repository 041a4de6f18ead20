"""
The language: what each construct means, in every reading.

A construct is shown by an action of a tiny spec: the plain Python, the columns and z3 take the same
steps from many states. What is refused stands in `test_refusals`.
"""

from __future__ import annotations

import random
from enum import Enum

import pytest

from herdspec import (
    Nat,
    Sort,
    Spec,
    SpecError,
    Specification,
    action,
    always,
    command,
    each,
    fault,
    from_source,
    require,
    specification,
    step,
)
from herdspec.check.exploration.explore import explore
from herdspec.check.running.run import Machine
from herdspec.engine.ground import Ground
from herdspec.language.surface import ActionKind
from properties.engine.readings import (
    Numbers,
    compare_properties,
    compare_steps,
    compare_with_z3,
    explorer,
)
from properties.language.tiny import tiny
from properties.specs import Client

# ── What each construct means ───────────────────────────────────────────────────────────────

CONSTRUCTS = {
    "require": "require(self.on[a])",
    "a guard after a write": "self.flag = True\nrequire(self.on[a])\nself.n = 1",
    "assert as a guard": "assert self.who is not None\nself.flag = True",
    "docstring and pass": "'''It acts.'''\npass",
    "scalars": "self.flag = f\nself.n = 3\nself.light = c\nself.who = a",
    "None": "self.who = None\nself.next[a] = None",
    "entries": "self.on[a] = True\nself.count[b] = self.count[a] + 1\nself.next[a] = b",
    "two entries that may be one": (
        "self.count[a] = 1\nself.count[b] = 2\nself.on[a] = self.count[a] == 2"
    ),
    "read after write": "self.n = 1\nself.flag = self.n == 1",
    "add": "self.n = self.n + 2\nself.n += 1\nself.count[a] += 1",
    "if, elif, else": (
        "if self.flag:\n    self.n = 1\nelif f:\n    self.n = 2\nelse:\n    self.n = 3"
    ),
    "require under if": "if self.flag:\n    require(self.on[a])\n    self.n = 1",
    "conditional expression": "self.n = 1 if self.flag else self.n\nself.who = a if f else None",
    "None or an element": "self.who = None if f else a\nself.next[a] = self.who if f else b",
    "and, or, not": "require(self.flag and not self.on[a] or f)\nself.n = 1",
    "comparisons": "self.flag = 1 <= self.n < 3 and self.n != 2 or self.count[a] > 1 >= self.n",
    "equalities": (
        "self.flag = (self.on[a] == f) and self.light != c and (a == b or self.who != a)"
    ),
    "optional against optional": "self.flag = self.who == self.next[a]",
    "is None": "self.flag = self.who is None or self.next[a] is not None",
    "== None": "self.flag = self.who == None or None != self.next[a]",
    "optional values of every type": (
        "self.sure = f if self.on[a] else None\nself.hint = c\nself.last[a] = self.n + 1\n"
        "self.last[b] = None if self.sure == f else self.last[b]\n"
        "self.flag = self.hint == GO or self.last[a] == 2 or self.sure is None"
    ),
    "two sorts": (
        "for o in Other:\n    self.seen[o] = not self.seen[o] and f\n"
        "self.flag = any(self.seen[o] and self.on[x] for o in Other for x in Node)"
    ),
    "in": "self.flag = self.light in (Light.RED, GO) and self.n not in (0, LIMIT)",
    "in, with None": "self.flag = self.who in (a, None)",
    "global constants": "require(self.n < LIMIT)\nself.light = GO",
    "all and any": (
        "self.flag = all(self.on[x] for x in Node) or any(self.off[x] for x in Node if x != a)"
    ),
    "nested quantifiers": "self.flag = all(any(self.next[x] == y for y in Node) for x in Node)",
    "two generators": (
        "self.flag = any(self.on[x] and self.off[y] for x in Node for y in Node if x != y)"
    ),
    "a loop": "for x in Node:\n    self.on[x] = self.off[x] and x != a",
    "a loop reads what stood before": (
        "for x in Node:\n    self.on[x] = not self.on[x] and self.off[a]"
    ),
    "a loop with if and require": (
        "for x in Node:\n    require(self.n < 3 or self.on[x])\n    if self.off[x]:\n"
        "        self.off[x] = False\n        self.count[x] = self.n"
    ),
    "a loop under if": (
        "if f:\n    for x in Node:\n        require(not self.on[x])\n        self.on[x] = f"
    ),
    "a local name in a loop": "for x in Node:\n    y = self.on[x]\n    self.off[x] = y",
    "comprehension": "self.on = {x: self.off[x] and x != a for x in Node}",
    "comprehension of absences": "self.next = {x: a if self.on[x] else None for x in Node}",
    "a whole map": "self.off = self.on\nself.off[a] = True\nself.flag = self.on[a]",
    "one of two maps": "self.off = self.on if f else self.off\nself.on[b] = f",
    "match": (
        "match c:\n    case Light.RED:\n        self.n = 1\n"
        "    case Light.GREEN | Light.BLUE:\n        self.light = c\n"
    ),
    "match with a default": (
        "match self.light:\n    case Light.RED:\n        self.n = 1\n    case _:\n"
        "        self.n = 2"
    ),
    "match on what it changes": (
        "match self.light:\n    case Light.RED:\n        self.light = GO\n"
        "    case Light.GREEN:\n        self.light = Light.RED"
    ),
    "local names": (
        "x = a if f else b\nself.on[x] = True\nn: Nat = self.n\nself.n = 0\nself.count[a] = n"
    ),
    "a local name of both branches": "if f:\n    x = a\nelse:\n    x = b\nself.on[x] = True",
    "a helper that returns": "self.flag = self.marked(a)\nrequire(self.marked(b) or f)",
    "a helper that changes": "self.add(a)\nself.add(b)",
    "a helper under if": "if self.flag:\n    self.add(a)",
    "a helper in a loop": "for x in Node:\n    self.add(x)",
    "a helper that loops": "self.sum()\nself.on[a] = True",
}


def some_states(ground: Ground, number: int) -> list[Numbers]:
    """So many well-typed states by chance, always the same."""
    chance = random.Random(0)
    slots = list(ground.slots.values())
    return [tuple(chance.randrange(slot.values) for slot in slots) for _ in range(number)]


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_construct_means_the_same_in_every_reading(construct: str) -> None:
    """Each construct of the subset means the same in Python, in columns and in z3."""
    ex = explorer(from_source(tiny(CONSTRUCTS[construct]), "Tiny"))
    rows = some_states(ex.ground, 60)

    compare_steps(ex, rows)
    for row in rows[:2]:
        compare_with_z3(ex, row)


PROPERTIES = '''
@always
def a_node_is_on(s: Tiny) -> bool:
    """A node is on."""
    return any(s.on[x] and marked_too(s, x) for x in Node)

def marked_too(s: Tiny, x: Node) -> bool:
    """A helper beside the spec calls one of the spec."""
    twice = s.marked(x) and s.n < LIMIT
    return twice or s.light == GO

@step
def what_is_on_stays(before: Tiny, after: Tiny) -> bool:
    """What is on stays on, and what is marked stays marked."""
    return all((not before.on[x] or after.on[x]) and (not before.marked(x) or after.marked(x))
               for x in Node)

@sometimes
def all_is_off(s: Tiny) -> bool:
    """All is off."""
    if s.flag:
        return all(s.off[x] for x in Node)
    else:
        return s.who is None
'''


def test_properties_mean_the_same_in_every_reading() -> None:
    """Properties, with helpers of the spec and beside it, are as true in columns as in Python."""
    text = tiny("self.on[a] = f\nself.n += 1\nself.who = b") + PROPERTIES
    ex = explorer(from_source(text, "Tiny"))
    rows = some_states(ex.ground, 40)

    assert len(ex.ground.spec.properties) == 3
    compare_properties(ex, rows)
    for row in rows[:10]:
        compare_with_z3(ex, row)


# ── Where names come from ───────────────────────────────────────────────────────────────────

LIMIT = 9


class Node(Sort):
    """A node that the local one of a test hides."""


def test_sorts_and_enums_may_be_local() -> None:
    """A spec in a function uses the sorts, enums, constants and helpers of that function."""

    class Node(Sort):
        """A local sort, which hides the module's."""

    class Light(Enum):
        """A local enum."""

        RED = 1
        GREEN = 2

    LIMIT = 1  # noqa: N806 (it hides the module's constant)

    def is_low(s: Street, x: Node) -> bool:
        """A local helper."""
        return s.count[x] < LIMIT

    class Street(Spec):
        """A street with lights."""

        light: Light = Light.RED
        count: dict[Node, Nat] = each(0)

        @action
        def go(self, x: Node) -> None:
            """{x} goes."""
            require(is_low(self, x))
            self.count[x] += 1
            self.light = Light.GREEN

    @always
    def no_node_goes_twice(s: Street) -> bool:
        """No node goes twice."""
        return all(s.count[x] <= LIMIT for x in Node)

    found = explore(specification(Street, no_node_goes_twice), {"Node": 2}, faults=0, bound=3)

    assert (found.orbits, found.dropped) == (4, 0)
    assert not found.violations
    compare_steps(explorer(found.spec), some_states(explorer(found.spec).ground, 30))


def test_a_property_sees_the_names_of_its_own_module() -> None:
    """A constant in a property is that of the property's module, not of the spec's."""
    spec = from_source(tiny("self.n += 1"), "Tiny")

    @always
    def it_is_low(s: Spec) -> bool:
        """LIMIT is 2 in the text, and 9 here."""
        return s.n <= LIMIT  # type: ignore[attr-defined, no-any-return]

    found = explore(
        spec.with_properties(it_is_low), dict.fromkeys(spec.sorts, 1), faults=0, bound=5
    )

    assert not found.violations


def test_a_sort_may_be_known_by_another_name() -> None:
    """A sort that was imported under another name is still found."""
    text = '''
from herdspec import *
from properties.specs import Client as Customer

class Shop(Spec):
    """A shop."""
    open: dict[Customer, bool] = each(False)

    @action
    def enter(self, c: Customer) -> None:
        """{c} enters."""
        self.open[c] = True
'''
    found = explore(from_source(text, "Shop"), {"Client": 2}, faults=0)

    assert found.orbits == 4


def test_a_sort_that_no_field_has_needs_a_size_too() -> None:
    """A sort that only a property ranges over is one of the spec's sorts."""

    @always
    def there_are_two(s: Pair) -> bool:
        """There are two nodes at least."""
        return any(a != b for a in Client for b in Client)

    spec = specification(Pair, there_are_two)

    assert spec.sorts == ("Node", "Client")
    assert not explore(spec, {"Node": 1, "Client": 2}, faults=0).violations
    assert explore(spec, {"Node": 1, "Client": 1}, faults=0).violations


# ── Values ──────────────────────────────────────────────────────────────────────────────────


class Pair(Spec):
    """Two maps."""

    a: dict[Node, bool] = each(False)
    b: dict[Node, bool] = each(False)

    @action
    def share(self, x: Node) -> None:
        """{x} is copied, then changed."""
        self.b = self.a
        self.b[x] = True

    @action
    def write_and_fail(self, x: Node) -> None:
        """It writes, and then cannot be."""
        self.a[x] = True
        require(not self.a[x])


def machine(spec: type[Spec], **sizes: int) -> Machine:
    """A spec's plain Python at these sizes."""
    return Machine(Ground(specification(spec), sizes, 3, 1))


def test_assignment_copies() -> None:
    """`self.b = self.a` shares nothing: what is written to one is not in the other."""
    run = machine(Pair, Node=2)

    after = run.take(run.initial(), "share", (Node(0),))

    assert after is not None
    assert vars(after)["a"] == {Node(0): False, Node(1): False}
    assert vars(after)["b"] == {Node(0): True, Node(1): False}


def test_a_guard_after_a_write_discards_the_write() -> None:
    """An action whose guard fails after a write changes nothing."""
    run = machine(Pair, Node=2)
    before = run.initial()

    assert run.take(before, "write_and_fail", (Node(0),)) is None
    assert before == run.initial()


# ── Variants ────────────────────────────────────────────────────────────────────────────────


class Door(Spec):
    """A door."""

    open: bool = False

    @action(kind=command)
    def push(self) -> None:
        """It is pushed."""
        require(self.may_open())
        self.open = True

    @action(kind=fault)
    def slam(self) -> None:
        """It slams."""
        require(self.open)
        self.open = False

    def may_open(self) -> bool:
        """Whether it may open."""
        return not self.open


@step
def it_stays_open(before: Door, after: Door) -> bool:
    """Once open, it stays open."""
    return not before.open or after.open


DOOR = specification(Door, it_stays_open)


def nothing(self: Door) -> None:
    """Nothing happens."""


def never(self: Door) -> bool:
    """It may not."""
    return False


def close(self: Door) -> None:
    """It is closed."""
    self.open = False


@action
def pull(self: Door) -> None:
    """It is pulled."""
    self.open = False


def test_a_replaced_action_keeps_its_kind() -> None:
    """A replacement is a fault where what it replaces is one; another replacement is not."""
    wind = DOOR.replace("Wind", slam=nothing)
    both = wind.replace("Both", push=nothing)

    assert wind.action("slam").kind is ActionKind.FAULT
    assert wind.action("slam").disturbs
    assert wind.action("slam").sentence == "Nothing happens."
    assert (both.action("push").kind, both.action("push").disturbs) == (ActionKind.COMMAND, False)
    assert not hasattr(nothing, "__herdspec_action__")


def test_a_replaced_helper_changes_the_actions_that_call_it() -> None:
    """A helper can be replaced, for Python and for the columns alike."""
    spec = DOOR.replace("Locked", may_open=never)

    assert explore(spec, {}, faults=1).states == 1
    assert spec.action("push").guard is not DOOR.action("push").guard
    compare_steps(explorer(spec), some_states(explorer(spec).ground, 4))


def test_a_dropped_action_is_gone_and_may_come_back() -> None:
    """A dropped action is in no reading; properties stay, and are held against the variant."""
    calm = DOOR.drop("Calm", "slam")
    again = calm.add("Again", slam=pull)

    assert [a.name for a in calm.actions] == ["push"]
    assert not explore(calm, {}, faults=1).violations
    assert again.action("slam").kind is ActionKind.STEP
    assert list(explore(again, {}, faults=1).violations) == ["it_stays_open"]
    assert (DOOR.name, calm.name, again.name) == ("Door", "Calm", "Again")


def test_an_unmarked_function_is_added_as_a_helper() -> None:
    """What is added without a mark is a helper."""
    assert [a.name for a in DOOR.add("More", close=close).actions] == ["push", "slam"]


@pytest.mark.parametrize(
    ("variant", "told"),
    [
        (lambda: DOOR.replace("X", pull=close), "has no 'pull' to replace; it has push, slam"),
        (lambda: DOOR.drop("X", "pull"), "has no 'pull' to drop; it has push, slam"),
        (lambda: DOOR.add("X", push=close), "has 'push' already; replace it"),
        (lambda: DOOR.action("pull"), "has no action 'pull'; it has push, slam"),
        (lambda: DOOR.promise("safe"), "has no property 'safe'; it has it_stays_open"),
    ],
)
def test_unknown_names_are_refused(variant: object, told: str) -> None:
    """A name that a spec does not have is refused with those that it has."""
    assert callable(variant)
    with pytest.raises(KeyError, match=told):
        variant()


def test_a_replacement_must_be_a_plain_function() -> None:
    """A lambda has no source that could be read; the error says so with its place."""
    with pytest.raises(SpecError, match=f"{__file__}:.*no plain `def`") as caught:
        DOOR.replace("X", slam=lambda _: None)

    assert caught.value.advice == "write a function, without decorators"


# ── Sentences ───────────────────────────────────────────────────────────────────────────────


def test_docstrings_are_the_sentences_of_stories() -> None:
    """An action's docstring, its parameters filled in, is what a step says."""
    run = machine(Pair, Node=2)

    steps = list(run.steps(run.initial()))

    assert [s.sentence for s in steps] == [
        "node1 is copied, then changed.", "node2 is copied, then changed."
    ]  # fmt: skip
    assert [s.label for s in steps] == ["share(node1)", "share(node2)"]


def test_a_sentence_is_the_first_paragraph() -> None:
    """Of a longer docstring, the first paragraph is the sentence, on one line."""
    spec: Specification = from_source(
        tiny('"""{a} acts\nat once.\n\nNobody knows why.\n"""\nself.flag = f'), "Tiny"
    )

    assert spec.action("act").sentence == "{a} acts at once."
    assert spec.sentence == "A tiny spec."
