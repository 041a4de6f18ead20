"""
Two specs side by side: the shortest behaviour that one of them allows and the other does not.

Both take the same steps (action and arguments), breadth first over the pairs of their states. They
*part* where a step is possible in one alone, or where it has another effect on what both have: the
fields of one name and one type. A step of an action that only one of them has, and that changes
nothing of what both have, is taken by that one alone. Where they part the pair goes no further, so
the first parting of each kind is a shortest one; it is replayed in the plain Python of both.

The sizes, the bound of naturals and the budget of faults are those of an exploration; "they never
part" means within them, and only if every pair was looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.explore import Explorer
from herdspec.check.refusal import entry_name, refusal
from herdspec.check.run import Step, said, told
from herdspec.check.starts import initially
from herdspec.check.verdict import counted
from herdspec.engine.columns import Columns, Words
from herdspec.engine.ground import FAULTS, Instance, Number
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec
from herdspec.language.types import EnumOf
from herdspec.language.types import said as type_said
from herdspec.language.values import decode

CHUNK = 1 << 13
"""Pairs that are expanded at one time."""
PAIRS = 1_000_000
"""Pairs of states that are looked at, where nobody says how many."""

Label = tuple[str, tuple[str, ...], tuple[Number, ...]]
"""An action, the types of its parameters, and its arguments as numbers."""


class Parts(Enum):
    """How two specs part."""

    START = "start"
    """They start differently."""
    OLD_ALONE = "only the old one allows it"
    NEW_ALONE = "only the new one allows it"
    EFFECT = "the step has another effect"


SOUGHT = {Parts.OLD_ALONE, Parts.NEW_ALONE, Parts.EFFECT}
"""What is looked for in the pairs."""


@dataclass(frozen=True)
class Parting:
    """
    Where two specs part: the steps that both take, the one that tells them apart, and why.

    `steps` and `initial` are of the spec that allows the last step; of the old one if both do.
    """

    kind: Parts
    initial: Spec
    steps: list[Step]
    why: tuple[str, ...]
    initially: str = ""

    @property
    def lines(self) -> list[str]:
        """The story, as numbered sentences, and why they part."""
        steps = told(self.steps, self.initial, self.initially)
        return [*steps, *(f"       {line}" for line in self.why)]


@dataclass
class Compared:
    """
    What came of a comparison.

    `pairs` of states were looked at, up to `depth` steps; `truncated` says that there are more, be
    it that there is no kind of parting left to be found. `alone` are actions that only one has, of
    which steps were taken that change nothing of what both have; `apart` are fields that both have,
    but with types that do not compare.
    """

    partings: dict[Parts, Parting] = field(default_factory=dict)
    pairs: int = 0
    depth: int = 0
    dropped: int = 0
    truncated: bool = False
    alone: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @property
    def exhausted(self) -> bool:
        """Whether every pair was looked at."""
        return not self.truncated and not self.dropped

    @property
    def line(self) -> str:
        """How far was looked, in one line."""
        looked = f"{counted(self.pairs, 'pair')} of states, {counted(self.depth, 'step')} deep"
        if self.truncated and set(self.partings) >= SOUGHT:
            return f"{looked}, until each way to part was found"
        if self.truncated:
            return f"{looked}, cut short at the limit of pairs"
        if self.dropped:
            beyond = counted(self.dropped, "successor")
            return f"{looked}, {beyond} beyond the bound of naturals left out"
        return f"{looked}: all there are"


def compare(
    old: Specification, new: Specification, sizes: Mapping[str, int], *, faults: int,
    bound: int | None = None, pairs: int = PAIRS,
) -> Compared:  # fmt: skip
    """
    Where two specs part, at these sizes of all their sorts.

    The search ends when each kind of parting was found, when all pairs were seen, or after `pairs`.
    """
    a, b = (
        Side(Explorer(s, {n: sizes[n] for n in s.sorts}, faults, bound=bound, symmetry=False))
        for s in (old, new)
    )
    return Beside(a, b, pairs).run()


@dataclass(frozen=True)
class Side:
    """One of the two, lowered."""

    explorer: Explorer

    @cached_property
    def instances(self) -> dict[Label, Instance]:
        """Every choice of every action that is not plainly impossible, by label."""
        ground = self.explorer.ground
        every = [ground.instance(a, n) for a in ground.spec.actions for n in ground.choices(a)]
        return {label_of(i): i for i in every if self._guard(i) is not g.FALSE}

    @cached_property
    def signatures(self) -> set[tuple[str, tuple[str, ...]]]:
        """Its actions with the types of their parameters."""
        return {(a.name, _types(a)) for a in self.explorer.ground.spec.actions}

    @cached_property
    def taken(self) -> Any:
        """The key of the slot that counts what disturbs."""
        return next(key for key in self.explorer.ground.slots if key[0] == FAULTS)

    def starts(self) -> list[Spec]:
        """All initial states."""
        return list(self.explorer.machine.starts())

    def pack(self, state: Spec) -> Words:
        """A state of the plain Python as a row."""
        return self.explorer.packing.pack(self.explorer.machine.numbers(state))

    def read(self, rows: Words, keys: list[Any]) -> NDArray[Any]:
        """These slots of rows, as columns."""
        read = [self.explorer.packing.read(rows, key) for key in keys]
        return np.stack(read, axis=1) if read else np.zeros((len(rows), 0), np.int64)

    def possible(self, columns: Columns, instance: Instance) -> NDArray[np.bool_]:
        """Where the guard holds, whatever the budget of faults says."""
        found = np.asarray(columns.of(self._guard(instance)), bool)
        found = found & np.asarray(columns.of(instance.defined), bool)
        return np.broadcast_to(found, (len(columns.rows),))

    def _guard(self, instance: Instance) -> Expr:
        return self.explorer.ground.of_instance(instance.action.guard, instance)

    def affordable(self, columns: Columns, instance: Instance) -> NDArray[np.bool_]:
        """Where the budget of faults allows the step."""
        taken = self.explorer.packing.read(columns.rows, self.taken)
        within: NDArray[np.bool_] = taken + instance.action.disturbs <= self.explorer.ground.faults
        return within

    def step(self, state: Spec, label: Label) -> Step:
        """The step by a label, which must be possible, in plain Python."""
        machine = self.explorer.machine
        action = machine.spec.action(label[0])
        arguments = machine.arguments(action, label[2])
        after = machine.take(state, action.name, arguments)
        assert after is not None, f"run and columns disagree: {label} is not possible in Python"
        return Step(action, arguments, after)

    def refuses(self, state: Spec, label: Label) -> tuple[str, ...]:
        """Why a step is not possible."""
        machine = self.explorer.machine
        action = machine.spec.action(label[0])
        return refusal(machine, state, action, machine.arguments(action, label[2])).lines


def label_of(instance: Instance) -> Label:
    """What an instance is called on both sides."""
    return (instance.action.name, _types(instance.action), instance.arguments)


def _types(action: Any) -> tuple[str, ...]:
    return tuple(type_said(p.kind) for _, p in action.parameters)


# ── The search ──────────────────────────────────────────────────────────────────────────────


@dataclass
class Beside:
    """
    The search over pairs of states; the two rows of a pair stand side by side.

    `parents` has for each pair the one that it was reached from, and by which label.
    """

    old: Side
    new: Side
    limit: int
    result: Compared = field(default_factory=Compared)
    parents: list[tuple[int, Label | None]] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.width = self.old.explorer.packing.words
        self.keys, self.result.apart = shared(self.old, self.new)
        both = {**self.old.instances, **self.new.instances}
        self.labels = list(both)
        self.first: Words = np.zeros((0, self._width()), np.uint64)

    def run(self) -> Compared:
        """Search to the end, or as far as may be."""
        level = self.first = self.begin()
        while len(level) and not self.full and not set(self.result.partings) >= SOUGHT:
            level = self.level(level, len(self.parents) - len(level))
            self.result.depth += bool(len(level))
        self.result.truncated = bool(len(level))
        self.result.pairs = len(self.parents)
        self.result.alone = tuple(sorted(self.alone))
        return self.result

    @property
    def full(self) -> bool:
        """Whether as many pairs were seen as may be."""
        return len(self.parents) >= self.limit

    def begin(self) -> Words:
        """The pairs of initial states that are alike; one that has none like it is a parting."""
        pairs, lonely = [], None
        news = [(n, self._shared(self.new, n)) for n in self.new.starts()]
        matched: set[int] = set()
        for o in self.old.starts():
            mine = self._shared(self.old, o)
            alike = [k for k, (_, other) in enumerate(news) if other == mine]
            matched.update(alike)
            pairs += [np.hstack([self.old.pack(o), self.new.pack(news[k][0])]) for k in alike]
            lonely = lonely or (None if alike else (o, self._start(mine, news[0][1])))
        for k, (n, other) in enumerate(news):
            if k not in matched and lonely is None:
                lonely = (n, self._start(self._shared(self.old, self.old.starts()[0]), other))
        if lonely is not None:
            self.result.partings[Parts.START] = Parting(Parts.START, lonely[0], [], lonely[1])
        rows = np.concatenate([self.first, *pairs])
        return self.add(rows, np.full(len(rows), -1, np.int64), None)

    def _shared(self, side: Side, state: Spec) -> tuple[int, ...]:
        return tuple(side.read(side.pack(state), self.keys)[0].tolist())

    def _start(self, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self._unlike(np.array(old), np.array(new), "starts as"))

    def add(self, rows: Words, parents: NDArray[np.int64], label: Label | None) -> Words:
        """Number the pairs that are new; those."""
        fresh = []
        for k, row in enumerate(rows):
            key = row.tobytes()
            if key not in self.seen:
                self.seen.add(key)
                fresh.append(k)
                self.parents.append((int(parents[k]), label))
        return rows[fresh]

    def level(self, level: Words, first: int) -> Words:
        """Expand one level, by label and by chunk; the pairs that are new."""
        found = [level[:0]]
        for low in range(0, len(level), CHUNK):
            if self.full:
                found.append(level[low:])  # what was not expanded is left over, and so counted
                break
            rows = level[low : low + CHUNK]
            columns = self._columns(rows)
            for label in self.labels:
                for source, made in self.successors(columns, label, first + low):
                    found.append(self.add(made, source + first + low, label))
        return np.concatenate(found)

    def _columns(self, rows: Words) -> tuple[Columns, Columns]:
        halves = (
            np.ascontiguousarray(rows[:, : self.width]),
            np.ascontiguousarray(rows[:, self.width :]),
        )
        old, new = self.old.explorer.packing, self.new.explorer.packing
        return Columns(old, halves[0]), Columns(new, halves[1])

    def successors(
        self, columns: tuple[Columns, Columns], label: Label, first: int
    ) -> Iterator[tuple[NDArray[Any], Words]]:
        """Where a label leads both; partings are noted."""
        if label[:2] in self.old.signatures and label[:2] in self.new.signatures:
            yield self._together(columns, label, first)
        elif label in self.old.instances:
            yield self._by_one(columns, label, first, 0)
        else:
            yield self._by_one(columns, label, first, 1)

    def _together(
        self, columns: tuple[Columns, Columns], label: Label, first: int
    ) -> tuple[NDArray[Any], Words]:
        """Both take the step, or they part."""
        can, may, made = [], [], []
        for side, cols in zip((self.old, self.new), columns, strict=True):
            instance = side.instances.get(label)
            never = np.zeros(len(cols.rows), bool)
            can.append(side.possible(cols, instance) if instance else never)
            may.append(side.affordable(cols, instance) if instance else never)
        self.note(Parts.OLD_ALONE, can[0] & may[0] & ~can[1], label, first)
        self.note(Parts.NEW_ALONE, can[1] & may[1] & ~can[0], label, first)
        source = np.flatnonzero(can[0] & can[1] & may[0] & may[1])
        if not len(source):
            return source, np.zeros((0, self._width()), np.uint64)
        kept = source
        for side, cols in zip((self.old, self.new), columns, strict=True):
            got, rows = side.explorer.apply(cols, side.instances[label], source)
            self.result.dropped += len(source) - len(got)
            made.append((got, rows))
            kept = np.intersect1d(kept, got)
        old, new = (rows[np.isin(got, kept)] for got, rows in made)
        differ = (self.old.read(old, self.keys) != self.new.read(new, self.keys)).any(axis=1)
        where = np.zeros(len(columns[0].rows), bool)
        where[kept[differ]] = True
        self.note(Parts.EFFECT, where, label, first)
        return kept[~differ], np.hstack([old[~differ], new[~differ]])

    def _width(self) -> int:
        return self.width + self.new.explorer.packing.words

    def _by_one(
        self, columns: tuple[Columns, Columns], label: Label, first: int, which: int
    ) -> tuple[NDArray[Any], Words]:
        """One takes a step that the other does not know; it shows if it changes what both have."""
        side, cols = (self.old, self.new)[which], columns[which]
        instance = side.instances[label]
        source = np.flatnonzero(side.possible(cols, instance) & side.affordable(cols, instance))
        kept, made = side.explorer.apply(cols, instance, source)
        self.result.dropped += len(source) - len(kept)
        shows = (side.read(cols.rows[kept], self.keys) != side.read(made, self.keys)).any(axis=1)
        where = np.zeros(len(cols.rows), bool)
        where[kept[shows]] = True
        self.note(Parts.NEW_ALONE if which else Parts.OLD_ALONE, where, label, first)
        if not shows.all():
            self.alone.add(label[0])
        halves = [columns[0].rows[kept[~shows]], columns[1].rows[kept[~shows]]]
        halves[which] = made[~shows]
        return kept[~shows], np.hstack(halves)

    # ── Where they part ─────────────────────────────────────────────────────────────────────

    def note(self, kind: Parts, where: NDArray[np.bool_], label: Label, first: int) -> None:
        """Note the first parting of a kind."""
        if kind not in self.result.partings and where.any():
            pair = first + int(np.argmax(where))
            self.result.partings[kind] = self.parting(kind, pair, label)

    def parting(self, kind: Parts, pair: int, label: Label) -> Parting:
        """Replay the way to a pair, and the step that tells the two apart."""
        labels: list[Label] = []
        while (found := self.parents[pair])[1] is not None:
            labels.insert(0, found[1])
            pair = found[0]
        old, new = self._begun(self.first[pair])
        at = [old, new]
        steps: tuple[list[Step], list[Step]] = ([], [])
        for one in labels:
            for k, side in enumerate((self.old, self.new)):
                if one[:2] in side.signatures:
                    steps[k].append(side.step(at[k], one))
                    at[k] = steps[k][-1].state
        which = 1 if kind is Parts.NEW_ALONE else 0
        allows, other = ((self.old, self.new), (self.new, self.old))[which]
        last = allows.step(at[which], label)
        why = self._why(kind, other, at[1 - which], label, last)
        initial = (old, new)[which]
        begun = initially(allows.explorer.machine, initial)
        return Parting(kind, initial, [*steps[which], last], why, begun)

    def _begun(self, row: NDArray[np.uint64]) -> tuple[Spec, Spec]:
        """The initial states of a pair of rows."""
        for o in self.old.starts():
            for n in self.new.starts():
                if np.array_equal(np.hstack([self.old.pack(o), self.new.pack(n)])[0], row):
                    return o, n
        raise AssertionError("a path begins with initial states")

    def _why(
        self, kind: Parts, other: Side, state: Spec, label: Label, last: Step
    ) -> tuple[str, ...]:
        name = "new" if other is self.new else "old"
        if label[:2] not in other.signatures:
            known = any(label[0] == action for action, _ in other.signatures)
            what = f"no such {label[0]}: it takes other arguments" if known else f"no {label[0]}"
            return (f"the {name} one has {what}",)
        if kind is not Parts.EFFECT:
            first, *rest = other.refuses(state, label)
            return (f"the {name} one refuses it: {first}", *rest)
        theirs = other.step(state, label).state
        a = self.old.read(self.old.pack(last.state), self.keys)[0]
        b = self.new.read(self.new.pack(theirs), self.keys)[0]
        return tuple(self._unlike(a, b, "becomes"))

    def _unlike(self, old: NDArray[Any], new: NDArray[Any], verb: str) -> Iterator[str]:
        """The entries that differ, with both values."""
        for key, a, b in zip(self.keys, old.tolist(), new.tolist(), strict=True):
            if a != b:
                x, y = (
                    said(decode(s.explorer.ground.slots[key].kind, n, s.explorer.machine.sorts))
                    for s, n in ((self.old, a), (self.new, b))
                )
                name = entry_name(self.old.explorer.machine, key)
                yield f"{name} {verb} {x} in the old one, {y} in the new one"


def shared(old: Side, new: Side) -> tuple[list[Any], tuple[str, ...]]:
    """The slots that both have and that compare; and the fields that both have and that do not."""
    slots, others = old.explorer.ground.slots, new.explorer.ground.slots
    names = {key[0] for key in slots} & {key[0] for key in others} - {FAULTS}
    apart = {name for name in names if not _alike(name, old, new)}
    keys = [key for key in slots if key in others and key[0] in names - apart]
    return keys, tuple(sorted(apart))


def _alike(name: str, old: Side, new: Side) -> bool:
    """Whether a field's values are the same numbers on both sides."""
    kinds = [
        next(slot.kind for key, slot in s.explorer.ground.slots.items() if key[0] == name)
        for s in (old, new)
    ]
    places = [{key for key in s.explorer.ground.slots if key[0] == name} for s in (old, new)]
    return places[0] == places[1] and _values(kinds[0]) == _values(kinds[1])


def _values(kind: Any) -> Any:
    """A type, with the members of an enum by name: the two specs may stand in two files."""
    inner = getattr(kind, "of", kind)
    members = [m.name for m in inner.members] if isinstance(inner, EnumOf) else []
    return type_said(kind), members
