"""
What a spec's properties say of an observed state, where much of it is unknown.

The oracle is plain Python: a promise is held against every completion of what is known, in states
of the spec itself.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from herdspec.check.observation.clauses import clauses_of
from herdspec.check.observation.inconclusive import (
    UNKNOWN,
    Among,
    Doubt,
    LastReported,
    among,
    between,
    chosen,
    may_be_at_most,
    may_differ,
    may_equal,
    may_exceed,
    same,
    truth,
)
from herdspec.check.observation.observed import Observed
from herdspec.check.observation.watches import watches_of
from herdspec.language.specification import DeclaredProperty
from herdspec.language.surface import Expectation, Spec
from properties.check.observation.observations import (
    SIZES,
    Slots,
    domains,
    fill,
    judged,
    machine_of,
    observed,
    parts,
    random_state,
    spec_of,
    stepped,
)

CASES = [(name, p) for name in SIZES for p in judged(name)]
of_each_promise = pytest.mark.parametrize(
    ("name", "promise"), CASES, ids=[f"{name}-{p.name}" for name, p in CASES]
)

# ── The oracle ──────────────────────────────────────────────────────────────────────────────


def state(name: str, slots: Slots) -> Spec:
    """The spec's own state."""
    made = machine_of(name).initial()
    for (field, key), value in slots.items():
        if key == ():
            setattr(made, field, value)
        else:
            getattr(made, field)[key] = value
    return made


def holds(name: str, promise: DeclaredProperty, before: Slots, after: Slots) -> bool:
    """What plain Python says of a step, or of the state after it."""
    both = (before, after) if promise.expectation is Expectation.STEP else (after,)
    return machine_of(name).holds(promise, *(state(name, s) for s in both))


def completions(name: str, known: Slots, changed: Slots) -> Iterator[tuple[Slots, Slots]]:
    """Every step that it may have been: `changed` are the entries before it, as far as known."""
    there = domains(name)
    doubtful: list[tuple[Slots, tuple[str, Any]]] = [
        (slots, entry) for slots in (known, changed) for entry in slots
        if not is_plain(slots[entry])
    ]  # fmt: skip
    ranges = [
        slots[entry].values if type(slots[entry]) is Among else there[entry]
        for slots, entry in doubtful
    ]
    for choice in product(*ranges):
        after, before = dict(known), dict(changed)
        for (slots, entry), value in zip(doubtful, choice, strict=True):
            (after if slots is known else before)[entry] = value
        yield {**after, **before}, after


def is_plain(value: Any) -> bool:
    """Whether it is a value of the spec."""
    return value is not UNKNOWN and type(value) not in (Among, LastReported)


def clouded(name: str, entry: tuple[str, Any], value: Any, chance: Random) -> Any:
    """A value of which less is known; what is told last may be something else by now."""
    match chance.randrange(3):
        case 0:
            return UNKNOWN
        case 1:
            return among([value, chance.choice(domains(name)[entry])])
    return LastReported(chance.choice(domains(name)[entry]))


# ── Three values ────────────────────────────────────────────────────────────────────────────


def test_whoever_asks_for_what_is_not_known_is_told_so() -> None:
    """A value that is not known is not taken for one: not compared, not tested, no key of a map."""
    doubtful: list[Any] = [UNKNOWN, among([1, 2]), LastReported(1)]
    questions: list[Callable[[Any], object]] = [
        lambda v: v == 1, lambda v: v != 1, lambda v: v != v, lambda v: v >= 2, lambda v: v < 2,
        bool, hash, lambda v: hash((v, 1)), lambda v: v + 1, lambda v: 1 - v,
    ]  # fmt: skip
    for value, question in product(doubtful, questions):
        with pytest.raises(Doubt):
            question(value)


def test_there_is_one_unknown_and_copies_are_the_same() -> None:
    """What is sent to another process means the same there."""
    assert pickle.loads(pickle.dumps(UNKNOWN)) is UNKNOWN
    assert copy.deepcopy(UNKNOWN) is UNKNOWN
    for value in (among([1, 2]), LastReported(3), 4, None):
        assert same(pickle.loads(pickle.dumps(value)), value)
    assert not same(among([1, 2]), among([1, 3]))
    assert not same(LastReported(1), 1)
    assert repr(among(["b", "a"])) == "Among('a', 'b')"
    assert among([7]) == 7


def test_what_may_be_said_of_values_that_are_not_known() -> None:
    """Two that are among the same few may differ; a number may be all between its bounds."""
    few = among([1, 2])
    assert may_equal(few, few)
    assert may_differ(few, few)
    assert not may_differ(1, 1)
    assert may_differ(1, UNKNOWN)
    assert may_be_at_most(few, 1)
    assert not may_be_at_most(few, 0)
    assert may_exceed(few, 1)
    assert not may_exceed(few, 2)
    assert same(between(1, 3), among([1, 2, 3]))
    assert between(2, 2) == 2
    assert truth(True, True) is UNKNOWN
    assert truth(True, False) is True
    assert truth(False, True) is False
    assert same(chosen(True, True, 1, few), few)
    assert chosen(True, False, 1, 2) == 1


@of_each_promise
def test_a_verdict_holds_of_every_completion(name: str, promise: DeclaredProperty) -> None:
    """Violated: no completion explains it. Certain: every one does. All known: as Python says."""
    chance = Random(f"{name} {promise.name}")
    met: dict[Any, int] = {True: 0, False: 0, None: 0}
    needless = 0
    read = [e for e in domains(name) if any(e[0] == x for x in fields_of(promise))]
    for turn in range(250):
        seen, known = observed(name), random_state(name, chance)
        changed = {
            e: chance.choice(domains(name)[e]) for e in chance.sample(read, min(3, len(read)))
        }
        if turn % 8:
            for entry in chance.sample(read, min(chance.randint(1, 3), len(read))):
                slots = changed if entry in changed and chance.random() < 0.3 else known
                slots[entry] = clouded(name, entry, slots[entry], chance)
        fill(seen, {**known, **changed})
        for field, key in changed:
            seen.set(field, key, UNKNOWN)
            seen.entries[field][key] = known[field, key]
        status = seen.status(promise)
        met[status] += 1
        every = [holds(name, promise, *step) for step in completions(name, known, changed)]
        if status is False:
            assert not any(every)
        elif turn % 8 == 0:
            assert [status] == every
        elif status:
            told = {e: v.value if type(v) is LastReported else v for e, v in known.items()}
            was = {e: v.value if type(v) is LastReported else v for e, v in changed.items()}
            assert all(holds(name, promise, *step) for step in completions(name, told, was))
        else:
            needless += len({*every}) == 1 and not any(
                type(v) is LastReported for v in known.values()
            )
    assert 2 * needless <= met[None]
    assert met[True]
    assert met[None]
    assert met[False]


def fields_of(promise: DeclaredProperty) -> frozenset[str]:
    """The fields that a promise's clauses read."""
    return frozenset(field for clause in clauses_of(promise) for field in clause.read)


# ── What a step can break ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SIZES)
def test_what_a_change_cannot_break_need_not_be_looked_at(name: str, seed: int) -> None:
    """To look at what a step has changed finds what to look at all instances finds."""
    chance = Random(f"{name} {seed}")
    seen, there = observed(name), domains(name)
    fill(seen, random_state(name, chance))
    failing = broken_instances(seen)
    for turn in range(300):
        for entry in chance.sample(list(there), chance.choice([1, 1, 1, 2, 4])):
            value = chance.choice(there[entry])
            match chance.randrange(12) if turn % 3 == 0 else 11:
                case 0 | 1:
                    seen.forget(*entry)
                case 2:
                    seen.widen(*entry, value)
                case 3:
                    seen.leave(*entry)
                case 4:
                    seen.set(*entry, clouded(name, entry, value, chance))
                case 5 | 6:
                    seen.refine(*entry, value)
                case _:
                    seen.set(*entry, value)
        fails = {p for p in judged(name) if seen.status(p) is False}
        steps = {p for p in fails if p.expectation is Expectation.STEP}
        concerned = {p for p in steps if is_concerned(seen, p)}
        before, failing = failing, broken_instances(seen)
        found = {(v.promise, *v.of.values()) for v in stepped(seen)}
        assert {promise for promise, *_ in found} <= fails
        assert failing - before <= found
        assert concerned <= {promise for promise, *_ in found}


def broken_instances(seen: Observed) -> set[tuple[Any, ...]]:
    """The promises about states that must fail, and for whom."""
    return {
        (clause.promise, *instance)
        for number, clause in enumerate(seen._watches.clauses)
        if not clause.is_step
        for instance in product(*(seen._elements(b.kind) for b in clause.bounds))
        if not seen._slow[f"may_{number}"](*instance)
    }


def is_concerned(seen: Observed, promise: DeclaredProperty) -> bool:
    """Whether an instance that reads what the step has changed must fail."""
    return any(
        not seen._slow[f"may_{number}"](*instance)
        for number in seen._of_promise(promise)
        for field, key, _ in seen._changed
        for place in seen._watches.clauses[number].read.get(field, ())
        for instance in seen._instances(number, place, key)
    )


@pytest.mark.parametrize("name", SIZES)
def test_a_new_element_is_looked_at(name: str) -> None:
    """Whatever its entries begin with, an element that comes later is held against promises."""
    chance, found = Random(name), set()
    states = [p for p in judged(name) if p.expectation is Expectation.ALWAYS]
    for _ in range(150):
        begins = random_state(name, chance)
        first = {field: value for (field, _), value in begins.items()}
        unknown = {field: UNKNOWN for field in first if chance.random() < 0.2}
        seen = Observed(watches_of(spec_of(name), first | unknown, judged(name)))
        *others, (sort, new) = elements(name, chance)
        for other in others:
            seen.add(*other)
        known = random_state(name, chance)
        fill(seen, {e: v for e, v in known.items() if new != e[1] and new not in parts(e[1])})
        stepped(seen)
        failing = {p for p in states if seen.status(p) is False}
        seen.add(sort, new)
        breaks = {p for p in states if seen.status(p) is False} - failing
        broken = {v.promise for v in stepped(seen)}
        assert breaks <= broken <= {*states}
        found |= breaks
    assert found


def elements(name: str, chance: Random) -> list[tuple[str, Any]]:
    """All elements, in any order."""
    sorts = spec_of(name).sorts
    found = [(sort, e) for sort in sorts for e in machine_of(name).elements(sort)]
    chance.shuffle(found)
    return found
