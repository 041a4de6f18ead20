"""
What is observed, in the suites about it: the contract of group protocols, and a toy.

The toy has what the contract does not use: inner quantifiers, counts, choices, and a step that must
not stand still. Both are at their smallest interesting size; numbers go up to a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import product
from random import Random
from typing import Any

from herdspec import Specification, from_source
from herdspec.check.observation.observed import Observed, Violation
from herdspec.check.observation.watches import JUDGED, Watches, keys_of, watches_of
from herdspec.check.running.run import Machine, machine
from herdspec.language.specification import DeclaredProperty
from herdspec.language.types import Bool, EnumOf, Option, Scalar, SortOf
from herdspec.protocols.contract.properties import CONTRACT
from properties.language.tiny import HEADER

TOY = (
    HEADER
    + '''
    @action
    def toggle(self, a: Node) -> None:
        """{a} goes on, or off."""
        self.on[a] = not self.on[a]

@always
def who_is_on(s: Tiny) -> bool:
    """Somebody is on, or nobody is the one."""
    return s.who is None or any(s.on[a] and s.count[a] >= s.n for a in Node)

@always
def each_on_has_an_off(s: Tiny) -> bool:
    """Whoever is on has somebody who is off; unless the light is green, or all count nothing."""
    return s.light == GO or all(
        not s.on[a] or any(s.off[b] and s.next[b] == a for b in Node) for a in Node
    ) or all(s.count[a] == 0 for a in Node)

@always
def few_are_on(s: Tiny) -> bool:
    """Where all are off, at most as many are on as are counted."""
    return not all(s.off[a] for a in Node) or sum(s.on[a] for a in Node) <= s.n + 1

@always
def the_next_is_on(s: Tiny) -> bool:
    """Whoever has a next one knows that it is on, as the flag says, or counts more."""
    return all(
        s.next[a] is None or s.on[s.next[a]] == s.flag
        or max(s.count[a], s.count[s.next[a]]) > s.n for a in Node
    )

@always
def somebody_on_counts_as_far_as_all(s: Tiny) -> bool:
    """Somebody who is on counts about as far as anybody, or the light is red."""
    return s.light == Light.RED or any(
        s.on[b] and all(s.count[a] <= s.count[b] + s.n for a in Node) for b in Node
    )

@step
def the_light_changes(before: Tiny, after: Tiny) -> bool:
    """The light changes, or the flag does: no step stands still."""
    return after.light != before.light or after.flag != before.flag

@step
def who_was_off_counts(before: Tiny, after: Tiny) -> bool:
    """Whoever was off, and is not the one, counts: no step stands still."""
    return all(before.on[a] or after.count[a] > 0 or after.who == a for a in Node)

@step
def those_who_are_on_reach_the_others(before: Tiny, after: Tiny) -> bool:
    """Whoever is on counts at least as far as all did."""
    return all(before.count[b] <= after.count[a] or not after.on[a] for a in Node for b in Node)

@step
def counts_grow_with_the_number(before: Tiny, after: Tiny) -> bool:
    """What somebody counts falls only where the number grows, and nobody goes on."""
    return all(
        before.count[a] <= after.count[a] or (
            after.n > before.n and not any(after.on[b] and not before.on[b] for b in Node)
        ) for a in Node
    )
'''
)
SIZES: Mapping[str, Mapping[str, int]] = {
    "contract": {"Member": 2, "Partition": 2, "Broker": 2},
    "toy": {"Node": 2, "Other": 1},
}
LARGEST = 3


@cache
def spec_of(name: str) -> Specification:
    """The contract, or the toy."""
    return CONTRACT if name == "contract" else from_source(TOY, "Tiny")


@cache
def judged(name: str) -> tuple[DeclaredProperty, ...]:
    """All that can be seen to be violated, lemmas as well."""
    return tuple(p for p in spec_of(name).properties if p.expectation in JUDGED)


@cache
def initial(name: str) -> dict[str, Any]:
    """All fields, as the spec begins them."""
    return {f.name: f.initial for f in spec_of(name).fields}


@cache
def watches(name: str) -> Watches:
    """Every promise, of a source that fills all fields."""
    return watches_of(spec_of(name), initial(name), judged(name))


@cache
def machine_of(name: str) -> Machine:
    """The spec at its size."""
    return machine(spec_of(name), **SIZES[name])


def observed(name: str) -> Observed:
    """Everything is as it begins, and all elements are there."""
    seen = Observed(watches(name))
    for sort in seen.domains:
        for element in machine_of(name).elements(sort):
            seen.add(sort, element)
    assert stepped(seen) == []
    return seen


Slots = dict[tuple[str, Any], Any]
"""A state: by field and key, its entries."""


def values(name: str, kind: Scalar) -> list[Any]:
    """What an entry may be, numbers up to a bound."""
    match kind:
        case Bool():
            return [False, True]
        case EnumOf(members=members):
            return list(members)
        case SortOf(name=sort):
            return machine_of(name).elements(sort)
        case Option(of=of):
            return [None, *values(name, of)]
    return list(range(LARGEST + 1))


@cache
def domains(name: str) -> dict[tuple[str, Any], list[Any]]:
    """All entries, and what each may be."""
    found = {}
    for f in spec_of(name).fields:
        kinds = keys_of(f)
        each = [machine_of(name).elements(k.name) for k in kinds if isinstance(k, SortOf)]
        scalar = f.kind.value if kinds else f.kind  # type: ignore[union-attr]
        for key in product(*each):
            at = key[0] if len(key) == 1 else key
            found[f.name, at] = values(name, scalar)  # type: ignore[arg-type]
    return found


def random_state(name: str, chance: Random) -> Slots:
    """Any state, whether the spec can get there or not."""
    return {entry: chance.choice(there) for entry, there in domains(name).items()}


def fill(seen: Observed, slots: Slots) -> None:
    """What is known, whatever was before."""
    for (field, key), value in slots.items():
        seen.entries[field][key] = value


def parts(key: Any) -> tuple[Any, ...]:
    """The elements in a key."""
    return key if isinstance(key, tuple) else (key,)


def stepped(seen: Observed) -> list[Violation]:
    """What the step in hand breaks."""
    seen.step()
    return seen.broken()
