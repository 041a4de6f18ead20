"""
A state as far as it was observed, and what can be said of a spec's promises.

Whoever reads what a system has told fills the fields of a spec, step by step; the spec's own
properties judge. An entry that nobody has told is unknown, and what depends on it is open:

- *violated*: whatever the unknown entries were, some instance of the promise fails.
- *unknown*: not violated, but an entry whose change could break it is never told again after a gap,
  or what is told of it then cannot follow from what was known before; or something fails, if what
  was told last by somebody is still so; or nothing of it could be decided.
- *holds*: something of it was decided, and holds; each entry whose change could break it is known
  in the end; and over each gap, what is known after it can follow, by one step of which nothing
  else is known, from what was known before. `open` is how many instances nobody could decide.
- *not observable*: the source does not fill its fields, or nothing of it has happened.
"""

from __future__ import annotations

import builtins
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import product
from math import prod
from types import FunctionType
from typing import Any

from herdspec.check.observation.clauses import Place
from herdspec.check.observation.inconclusive import (
    ANY,
    UNKNOWN,
    Among,
    Doubt,
    Inconclusive,
    LastReported,
    as_told,
    is_lost,
    joined,
    same,
)
from herdspec.check.observation.readings import ANYTHING, Readings
from herdspec.check.observation.watches import JUDGED, SPACE, Watches, keys_of, word
from herdspec.language.specification import DeclaredProperty
from herdspec.language.types import Bool, EnumOf, Range, SortOf, Type

Entry = tuple[str, Any]
"""A field's name, and a key: an element, a tuple of several, or () where the field is no map."""
Instance = tuple[Any, ...]
Hears = Callable[[Collection[tuple[str, Any, Any]], Collection[Entry]], None]
"""Of a step: the entries that it has changed, with what they were, and those now known."""
CODE = frozenset({
    "_watches", "_slow", "_over_gaps", "_on", "_is", "_new_one", "_read", "_readings",
    "_since_known",
})  # fmt: skip
"""Attributes that are not pickled."""


class Ruling(Enum):
    """The ruling on a promise."""

    VIOLATED = "violated"
    UNKNOWN = "unknown"
    HOLDS = "holds"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A promise that was broken by the step before, and the elements for which it was."""

    promise: DeclaredProperty
    of: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The ruling on a promise; of its instances, how many held and how many stayed open."""

    promise: DeclaredProperty
    ruling: Ruling
    held: int = 0
    open: int = 0
    why: str = ""


class Entries(dict[Any, Any]):
    """One field; an entry of which nothing was said is the default."""

    __slots__ = ("default",)

    def __init__(self, default: Any) -> None:
        super().__init__()
        self.default = default

    def __missing__(self, key: Any) -> Any:
        return self.default


class Observed:
    """The fields of a spec, as they are filled; each `step` is held against the promises."""

    def __init__(self, watches: Watches) -> None:
        self.entries = {name: Entries(value) for name, value in watches.initial.items()}
        """By field, what is known now. To be read; `set` and the others write."""
        self.domains: dict[str, dict[Any, None]] = {sort: {} for sort in watches.sorts}
        """By sort, the elements that were seen."""
        self._widths = {name: len(keys_of(watches.fields[name])) for name in self.entries}
        self._before: dict[str, dict[Any, Any]] = {name: {} for name in self.entries}
        """By field, what the step in hand has changed, as it was."""
        self._last: dict[str, dict[Any, Any]] = {name: {} for name in self.entries}
        """By field, what is lost (or was, and is not bridged), as it was known last."""
        self._changed: list[tuple[str, Any, Any]] = []
        """Fields and keys of these entries, and what they were."""
        self._new: list[tuple[str, Any]] = []
        self._refined: dict[Entry, None] = {}
        self._found_again: dict[Entry, None] = {}
        self._supposed: list[tuple[str, Any, Any]] = []
        self._blind: Counter[tuple[str, Any]] = Counter()
        self._unsure: dict[tuple[str, Any], None] = {}
        """Elements of whose entries in a field even those are unknown that are not there yet."""
        self._gone: set[str] = set()
        """Fields of whose entries some left with their element before they were told again."""
        self._gaps: list[tuple[int, frozenset[str], bool]] = []
        self._violations: list[Violation] = []
        many = len(watches.clauses)
        self._broken = [0] * many
        self._held = [0] * many
        self._open = [0] * many
        self._doubted = [0] * many
        self._unbridged = [0] * many
        self._pending: dict[tuple[int, Instance], set[Entry]] = {}
        """Instances whose gap is not bridged yet, and the entries whose last values they need."""
        self.left: list[tuple[str, Any, LastReported]] = []
        """Entries of whose tellers nobody is heard any more, for whoever forgets them in time."""
        self.hears: Hears | None = None
        """Is told of each step that changes something, and of what has become known with it."""
        self.bind(watches)

    def bind(self, watches: Watches) -> None:
        """Take the emitted code, anew where this comes from a pickle: code is in none."""
        self._watches = watches
        space = self._space(self._before)
        self._on, self._is, self._new_one = (
            {name: FunctionType(code, space) for name, code in some.items()}
            for some in (watches.on, watches.of_state, watches.on_new)
        )
        self._slow = Readings(watches.slow, space)
        self._readings: dict[int, tuple[Callable[..., Any], ...]] = {}
        """Of a clause, what looks at one instance: as told, and in three values."""
        self._over_gaps: dict[int, Readings] = {}
        """Of a clause, the same over a gap."""
        self._read: dict[tuple[int, Place], tuple[int | Collection[Any], ...]] = {}
        """By clause and place: for each bound a part of the key, or what it ranges over."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in CODE}

    @cached_property
    def _since_known(self) -> Readings:
        """Values of which it is known that none has changed since what is lost was known last."""
        return Readings(self._watches.slow, self._space({
            name: ChainMap(self._last[name], before) for name, before in self._before.items()
        }))  # fmt: skip

    def _space(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The names that emitted functions know of this state."""
        space = {**SPACE, **self._watches.constants, "__builtins__": builtins}
        space |= {f"s_{word(name)}": entries for name, entries in self.entries.items()}
        space |= {f"o_{word(name)}": entries for name, entries in before.items()}
        space |= {f"d_{sort}": elements for sort, elements in self.domains.items()}
        return space | {"held": self._held, "found": self._found, "doubt": self._look}

    # ── What is told ────────────────────────────────────────────────────────────────────────

    def get(self, field: str, key: Any = ()) -> Any:
        """An entry as it is known now."""
        return self.entries[field][key]

    def add(self, sort: str, element: Any) -> None:
        """An element is there."""
        there = self.domains[sort]
        if element not in there:
            there[element] = None
            for field, of in self._unsure:
                self.forget_all(field, of, among=element)
            if sort in self._new_one:
                self._new.append((sort, element))

    def drop(self, sort: str, element: Any) -> None:
        """An element is no more, nobody speaks of it, and nothing more will be said of it."""
        for name, kinds, at in self._watches.keyed_by(sort):
            entries, last = self.entries[name], self._last[name]
            for key in self._keys_of(kinds, at, element):
                if is_lost(entries.pop(key, entries.default)):
                    self._gone.add(name)
                last.pop(key, None)
        del self.domains[sort][element]

    def set(self, field: str, key: Any, value: Any) -> None:
        """
        In the step in hand, an entry is made this; where it is told while blind, it is unknown.

        To be made something that nobody knows is a change: it need not be what it was.
        """
        if self._blind and self._is_blind(field, key):
            value = UNKNOWN
        entries = self.entries[field]
        old = entries[key]
        try:
            if old == value:
                return
        except Doubt:
            self._set_doubtful(field, key, old, value)
            return
        before = self._before[field]
        if key not in before:
            before[key] = old
            self._changed.append((field, key, old))
        entries[key] = value

    def _set_doubtful(self, field: str, key: Any, old: Any, value: Any) -> None:
        before = self._before[field]
        if key not in before:
            before[key] = old
            self._changed.append((field, key, old))
        self.entries[field][key] = value
        self._note(field, key, old, value)

    def refine(self, field: str, key: Any, value: Any) -> None:
        """An entry is this already: no step, but it is known (again)."""
        entries = self.entries[field]
        old = entries[key]
        is_same = value is UNKNOWN if old is UNKNOWN else same(old, value)
        if is_same or (self._blind and self._is_blind(field, key)):
            return
        entries[key] = value
        if field in self._is:
            self._refined[field, key] = None
        if old is UNKNOWN and key not in self._last[field] and not self._pending:
            return  # nobody knows what it was
        if type(old) is LastReported and is_lost(old.value):
            old = old.value
        if not is_lost(old) and not same(as_told(old), value):
            self._last[field].setdefault(key, as_told(old))  # something was not told
            old = UNKNOWN
        self._note(field, key, old, value)

    def amend(self, field: str, key: Any, value: Any) -> None:
        """An entry is this, and has been all along: no step, and nothing was missed."""
        if not (self._blind and self._is_blind(field, key)):
            self.entries[field][key] = value
            if field in self._is:
                self._refined[field, key] = None

    def set_all(self, field: str, value: Any) -> None:
        """In the step in hand, all entries of a field become this, those not told of as well."""
        for key, old in [*self.entries[field].items()]:
            if old is not value:
                self.set(field, key, value)
        if (field, ANY) not in self._blind:
            self.entries[field].default = value

    def widen(self, field: str, key: Any, value: Any) -> None:
        """An entry may be this by now, or what it was: no step yet."""
        old = self.entries[field][key]
        new = joined([old, value])
        if not same(old, new):
            self.entries[field][key] = new
            self._note(field, key, old, new)

    def suppose(self, field: str, key: Any, value: Any) -> None:
        """An entry is this in the step in hand: of what it may be, what explains the step."""
        self._supposed.append((field, key, self.entries[field][key]))
        self.entries[field][key] = value

    def forget(self, field: str, key: Any) -> None:
        """Forget an entry: nobody knows from now on what it is."""
        old = self.entries[field][key]
        if old is not UNKNOWN:
            self.entries[field][key] = UNKNOWN
            self._note(field, key, old, UNKNOWN)

    def forget_all(self, field: str, element: Any = ANY, *, among: Any = ANY) -> None:
        """Forget a field's entries (of an element, or of two): nobody knows them from now on."""
        for key in [k for k in self._keys(field, element) if among is ANY or among in k]:
            self.forget(field, key)
        if element is ANY:
            self.entries[field].default = UNKNOWN
        elif self._widths[field] > 1:
            self._unsure[field, element] = None

    def blind(self, field: str, element: Any = ANY) -> None:
        """From now on, what is told of a field (or of an element in it) need not be so."""
        self.forget_all(field, element)
        self._blind[field, element] += 1

    def sees(self, field: str, element: Any = ANY) -> None:
        """The reverse of `blind`: what is told from now on is so."""
        self._blind[field, element] -= 1
        self._blind += Counter()  # nothing but what is blind

    def leave(self, field: str, key: Any) -> None:
        """Who told this entry is not heard any more."""
        old = self.entries[field][key]
        if old is not UNKNOWN and type(old) is not LastReported:
            left = self.entries[field][key] = LastReported(old)
            self.left.append((field, key, left))

    def leave_all(self, field: str) -> None:
        """Who told the entries of a field is not heard any more."""
        entries = self.entries[field]
        for key in entries:
            self.leave(field, key)
        if not isinstance(entries.default, Inconclusive):
            entries.default = LastReported(entries.default)

    def gap(self, lines: int, fields: Collection[str], *, told: bool = False) -> None:
        """Note lines that are missing and could have told of these fields; others may `told` it."""
        self._gaps.append((lines, frozenset(fields), told))

    def _is_blind(self, field: str, key: Any) -> bool:
        first = key[0] if self._widths[field] > 1 else key
        return (field, ANY) in self._blind or (field, first) in self._blind

    def _note(self, field: str, key: Any, old: Any, new: Any) -> None:
        """An entry was lost, or is found again."""
        if type(old) is LastReported and is_lost(old.value):
            old = old.value
        if is_lost(new):
            if not is_lost(old):
                self._last[field].setdefault(key, as_told(old))
            self._found_again.pop((field, key), None)
        elif is_lost(old):
            last = self._last[field]
            if (
                self._pending
                or key in self._before[field]
                or (key in last and not same(last[key], as_told(new)))
            ):
                self._found_again[field, key] = None
            else:  # it is what it was, or nobody knows what that was
                last.pop(key, None)

    def _keys(self, field: str, element: Any = ANY) -> Iterable[Any]:
        """The keys of a field's entries: those whose first part is this."""
        return self._keys_of(keys_of(self._watches.fields[field]), 0, element)

    def _keys_of(self, kinds: tuple[Type, ...], at: int, element: Any) -> Iterable[Any]:
        each = [
            (element,) if n == at and element is not ANY else self._elements(kind)
            for n, kind in enumerate(kinds)
        ]
        return [*each[0]] if len(each) == 1 else product(*each)

    def _elements(self, kind: Type) -> Collection[Any]:
        match kind:
            case SortOf(name=name):
                return self.domains[name]
            case Bool():
                return (False, True)
            case Range(top=top):
                return range(top + 1)
            case EnumOf(members=members):
                return members
        raise TypeError(kind)

    # ── What comes of it ────────────────────────────────────────────────────────────────────

    def step(self) -> bool:
        """The step in hand is over: it is held against the promises. Whether any was broken."""
        changed = self._changed
        if self.hears is not None and (changed or self._refined):
            self.hears(changed, self._refined)
        if changed:
            on = self._on
            for field, key, old in changed:
                if field in on:
                    on[field](key, old)
        if self._new:
            for sort, element in self._new:
                self._new_one[sort](element)
            self._new.clear()
        if self._refined:
            for field, key in self._refined:
                self._is[field](key)
            self._refined.clear()
        if self._found_again:
            self._bridge()
        if changed:
            for field, _, _ in changed:
                self._before[field].clear()
            changed.clear()
        while self._supposed:
            field, key, value = self._supposed.pop()
            self.entries[field][key] = value
        return bool(self._violations)

    def broken(self) -> list[Violation]:
        """The violations by the steps since this was asked last."""
        found, self._violations = self._violations, []
        return found

    def status(self, promise: DeclaredProperty) -> bool | None:
        """Judge a promise by the step in hand, all instances looked at; None: open."""
        certain = True
        for number in self._of_promise(promise):
            each = [self._elements(b.kind) for b in self._watches.clauses[number].bounds]
            for instance in product(*each):
                if not self._slow[f"may_{number}"](*instance):
                    return False
                certain = certain and self._slow[f"sure_{number}"](*instance)
        return certain or None

    def _of_promise(self, promise: DeclaredProperty) -> list[int]:
        return [n for n, c in enumerate(self._watches.clauses) if c.promise is promise]

    def _found(self, number: int, instance: Instance) -> None:
        """A clause is broken."""
        clause = self._watches.clauses[number]
        self._broken[number] += 1
        of: dict[str, Any] = {}
        for bound, element in zip(clause.bounds, instance, strict=True):
            name = str(bound.data).partition("#")[0]
            while name in of:  # two that the text calls the same
                name += "'"
            of[name] = element
        self._violations.append(Violation(promise=clause.promise, of=of))

    def _look(self, block: int, key: Any) -> None:
        """A clause meets something that is not known: look at its instances one by one."""
        number, place = self._watches.blocks[block]
        if number not in self._readings:
            self._readings[number] = tuple(
                self._slow[f"{reading}_{number}"] for reading in ("plain", "may", "sure", "told")
            )
        for instance in self._instances(number, place, key):
            self._judge(number, instance)

    def _judge(self, number: int, instance: Instance) -> None:
        plain, may, sure, told = self._readings[number]
        if plain(*instance):
            self._held[number] += 1
        elif not may(*instance):
            self._found(number, instance)
        elif sure(*instance):
            self._held[number] += 1
        else:
            self._open[number] += 1
            self._doubted[number] += not told(*instance)

    def _instances(self, number: int, place: Place, key: Any) -> Iterator[Instance]:
        """The instances of a clause that read an entry at such a place."""
        parts = key if len(place) > 1 or key == () else (key,)
        read = self._read.get((number, place))
        if read is None:
            bounds = self._watches.clauses[number].bounds
            read = self._read[number, place] = tuple(
                place.index(b) if b in place else self._elements(b.kind) for b in bounds
            )
        return product(*((parts[x],) if isinstance(x, int) else x for x in read))

    # ── Gaps ────────────────────────────────────────────────────────────────────────────────

    def _bridge(self) -> None:
        """Judge what is known again: could it have come, in one step, from what was known last?"""
        for field, key in self._found_again:
            for number, instance in self._steps_of(field, key):
                self._bridged(number, instance, (field, key))
        needed = {entry for entries in self._pending.values() for entry in entries}
        for field, key in self._found_again.keys() - needed:
            self._last[field].pop(key, None)
        self._found_again.clear()

    def _steps_of(self, field: str, key: Any) -> Iterator[tuple[int, Instance]]:
        """The instances of clauses about steps that an entry can break."""
        for number, place in self._watches.steps[field]:
            for instance in self._instances(number, place, key):
                yield number, instance

    def _unsettled(self) -> frozenset[int]:
        """Clauses that need not hold of the step to what an entry may be in the end."""
        found: dict[int, None] = {}
        for field, entries in self.entries.items():
            for key, value in entries.items():
                if type(value) not in (Among, LastReported):
                    continue
                few = as_told(value)
                for one in few.values if type(few) is Among else ():
                    entries[key] = one
                    for number, instance in self._steps_of(field, key):
                        if not self._since_known[f"sure_{number}"](*instance):
                            found[number] = None
                    entries[key] = value
        return frozenset(found)

    def _bridged(self, number: int, instance: Instance, entry: Entry) -> None:
        name = (number, instance)
        over_gaps = self._can_follow(number)
        if self._waits(number, instance) and over_gaps[f"told_{number}"](*instance):
            self._pending.setdefault(name, set()).add(entry)
            return
        self._unbridged[number] += not over_gaps[f"told_{number}"](*instance)
        self._pending.pop(name, None)

    def _can_follow(self, number: int) -> Readings:
        """A clause over a gap: what it reads of the state before a step may have been anything."""
        if number not in self._over_gaps:
            watched = self._watches.clauses[number].watched
            self._over_gaps[number] = Readings(self._watches.slow, self._space({
                name: ChainMap(self._last[name], before) if name in watched else ANYTHING
                for name, before in self._before.items()
            }))  # fmt: skip
        return self._over_gaps[number]

    def _at(self, field: str, place: Place, of: Mapping[Any, Any]) -> Iterable[Any]:
        """The keys of the entries at a place that an instance reads."""
        if all(part in of for part in place):
            key = tuple(of[part] for part in place)
            return [key[0] if len(key) == 1 else key]
        return self._keys(field)

    def _waits(self, number: int, instance: Instance) -> bool:
        """Tells whether something that may break an instance is not known again."""
        clause = self._watches.clauses[number]
        of = dict(zip(clause.bounds, instance, strict=True))
        return any(
            is_lost(self.entries[field][key])
            for field, places in clause.watched.items()
            for place in places
            for key in self._at(field, place, of)
        )

    # ── Judgements ──────────────────────────────────────────────────────────────────────────

    def judgements(self) -> list[Judgement]:
        """The judgements on the promises that can be seen to be violated."""
        open_ends = self._unsettled() | {number for number, _ in self._pending}
        lost = frozenset(field for field in self.entries if self._is_lost(field))
        chosen = [p for p in self._watches.promises if p.expectation in JUDGED]
        return [self._of(promise, lost, open_ends) for promise in chosen]

    def _of(
        self, promise: DeclaredProperty, lost: frozenset[str], open_ends: frozenset[int]
    ) -> Judgement:
        if missing := self._watches.missing(promise):
            why = f"{', '.join(missing)}: not in this source"
            return Judgement(promise=promise, ruling=Ruling.NOT_OBSERVABLE, why=why)
        own = self._of_promise(promise)
        held, opened = sum(self._held[n] for n in own), sum(self._open[n] for n in own)
        ruling, why = self._ruling(promise, own, lost, open_ends)
        return Judgement(promise=promise, ruling=ruling, held=held, open=opened, why=why)

    def _ruling(
        self,
        promise: DeclaredProperty,
        own: list[int],
        all_lost: frozenset[str],
        open_ends: frozenset[int],
    ) -> tuple[Ruling, str]:
        needs = self._watches.needs[promise.name]
        if any(self._broken[n] for n in own):
            return Ruling.VIOLATED, ""
        watched = {field for n in own for field in self._watches.clauses[n].watched}
        lost = sorted(watched & all_lost)
        if lost:
            return Ruling.UNKNOWN, f"{', '.join(lost)}: some of it was not told, to the end"
        if any(self._unbridged[n] or n in open_ends for n in own):
            return Ruling.UNKNOWN, "what is known after a gap need not follow from what was before"
        if any(self._doubted[n] for n in own):
            return Ruling.UNKNOWN, "it fails, if what was told last by somebody was still so"
        if not any(self._held[n] for n in own):
            if any(self._open[n] for n in own):
                return Ruling.UNKNOWN, "whatever has happened of it is open"
            return Ruling.NOT_OBSERVABLE, "nothing of it has happened"
        return Ruling.HOLDS, self._missing(needs)

    def _missing(self, needs: frozenset[str]) -> str:
        """The words for what is missing, though the promise holds."""
        gaps = [(lines, told) for lines, fields, told in self._gaps if fields & needs]
        every, told = sum(n for n, _ in gaps), sum(n for n, told in gaps if told)
        missing = "1 line is missing" if every == 1 else f"{every} lines are missing"
        if told == every:
            return f"{missing}, of which others tell" if every else ""
        but_for = f" but for {told} of which others tell," if told else ""
        return f"{missing};{but_for} before and after that it holds"

    def _is_lost(self, field: str) -> bool:
        """Tells whether there is an entry that was never told, or not since it was lost."""
        entries = self.entries[field]
        if field in self._gone:
            return True
        for value in entries.values():
            if value is UNKNOWN:
                return True
        kinds = keys_of(self._watches.fields[field])
        all_entries = prod(len(self._elements(kind)) for kind in kinds)
        return entries.default is UNKNOWN and len(entries) < all_entries
