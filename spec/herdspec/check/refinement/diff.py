"""
Two specs side by side: the shortest behaviour that one of them allows and the other does not.

Both take the same steps (action and arguments), breadth first over the pairs of their states. They
*part* where a step is possible in one alone, or where it has another effect on what both have: the
fields of one name and one type. A step of an action that only one of them has, and that changes
nothing of what both have, is taken by that one alone. Where they part the pair goes no further, so
the first parting of each kind is a shortest one; it is replayed in the plain Python of both.

The sizes, the bound of naturals and the budget of faults are those of an exploration. Each of the
two has a budget of its own: a step that the one's still allows, and the other's does not, parts
them, too. "They allow the same" means within all that, and only if every pair was looked at, every
field compared, and each action of the same kind and as fair in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.explore import Explorer
from herdspec.check.exploration.numpy_engine import truths
from herdspec.check.refinement.changes import marks
from herdspec.check.refinement.sides import Label, Side, shared
from herdspec.check.running.refusal import entry_name
from herdspec.check.running.run import Step, told
from herdspec.check.running.starts import initially
from herdspec.check.verdict import counted
from herdspec.engine.columns import Columns, Words
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec

CHUNK = 1 << 13
"""Pairs that are expanded at one time."""
PAIRS = 1_000_000
"""Pairs of states that are looked at, where nobody says how many."""


class Parts(Enum):
    """The ways in which two specs part."""

    START = "start"
    """The two specs start differently."""
    OLD_ALONE = "only the old one allows it"
    NEW_ALONE = "only the new one allows it"
    EFFECT = "the step has another effect"
    BUDGET = "only one's budget of faults allows it"


SOUGHT = {Parts.OLD_ALONE, Parts.NEW_ALONE, Parts.EFFECT}
"""The partings that are looked for in the pairs."""


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
    The result of a comparison.

    `pairs` of states were looked at, up to `depth` steps; `truncated` says that there are more, be
    it that there is no kind of parting left to be found. `alone` are actions that only one has, of
    which steps were taken that change nothing of what both have; `shared` are the fields that were
    compared, `apart` those that both have, but with types that do not compare. `marks` say which
    actions are of another kind, or otherwise fair; `meaningless` are actions that have no meaning
    in one where the other refuses them. Pairs that the constraints of both exclude were not gone
    on from (`constrained`). `within` says that the bounds are meant.
    """

    partings: dict[Parts, Parting] = field(default_factory=dict)
    pairs: int = 0
    depth: int = 0
    dropped: int = 0
    constrained: int = 0
    within: bool = False
    truncated: bool = False
    alone: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    meaningless: tuple[str, ...] = ()

    @property
    def exhausted(self) -> bool:
        """Tells whether every pair was looked at."""
        return not self.truncated and (self.within or not self.dropped)

    @property
    def decided(self) -> bool:
        """Tells whether it is known if they part: a parting was found, or nothing was left out."""
        whole = self.exhausted and not self.apart and bool(self.shared)
        return bool(self.partings) or whole

    @property
    def same(self) -> bool:
        """Tells whether they allow the same behaviour, of the fields that both have."""
        differ = self.partings or self.marks or self.meaningless
        return self.decided and not differ

    @property
    def line(self) -> str:
        """The extent of the search, in one line."""
        looked = f"{counted(self.pairs, 'pair')} of states, {counted(self.depth, 'step')} deep"
        if self.truncated and set(self.partings) >= SOUGHT:
            return f"{looked}, until each way to part was found"
        if self.truncated:
            return f"{looked}, cut short at the limit of pairs"
        if self.dropped:
            beyond = counted(self.dropped, "successor")
            return f"{looked}, {beyond} beyond a bound (naturals, a channel) left out"
        if self.partings:
            return f"{looked}: all there are up to where they part"
        if self.constrained:
            return f"{looked}: all there are within the constraints of both"
        return f"{looked}: all there are"


def compare(
    old: Specification, new: Specification, sizes: Mapping[str, int], *, faults: int,
    bound: int | None = None, pairs: int = PAIRS, within: bool = False,
) -> Compared:  # fmt: skip
    """
    Where two specs part, at these sizes of all their sorts.

    The search ends when each kind of parting was found, when all pairs were seen, or after `pairs`.
    `within` says that the bounds are meant, and nothing is asked of what lies beyond them.
    """
    names: dict[Any, int] = {}
    a, b = (
        Side(
            Explorer(s, {n: sizes[n] for n in s.sorts}, faults, bound=bound, symmetry=False), names
        )
        for s in (old, new)
    )
    return Beside(a, b, pairs, Compared(within=within)).run()


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
    meaningless: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.width = self.old.explorer.packing.words
        self.keys, self.result.apart = shared(self.old, self.new)
        self.result.shared = tuple(dict.fromkeys(key[0] for key in self.keys))
        old, new = (side.explorer.ground.spec for side in (self.old, self.new))
        self.result.marks = tuple(marks(old, new))
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
        self.result.meaningless = tuple(sorted(self.meaningless))
        return self.result

    @property
    def full(self) -> bool:
        """Tells whether as many pairs were seen as may be."""
        return len(self.parents) >= self.limit

    def begin(self) -> Words:
        """The pairs of initial states that are alike; one that has none like it is a parting."""
        pairs, lonely = [], None
        for side in (self.old, self.new):
            self.result.dropped += len(side.every_start) - len(side.starts)
            if not side.starts:
                name = side.explorer.ground.spec.name
                raise UsageError(f"{name} has no initial state within these bounds")
        news = [(n, self._shared(self.new, n)) for n in self.new.starts]
        matched: set[int] = set()
        for o in self.old.starts:
            mine = self._shared(self.old, o)
            alike = [k for k, (_, other) in enumerate(news) if other == mine]
            matched.update(alike)
            pairs += [np.hstack([self.old.pack(o), self.new.pack(news[k][0])]) for k in alike]
            lonely = lonely or (None if alike else (o, self._start(mine, news[0][1])))
        for k, (n, other) in enumerate(news):
            if k not in matched and lonely is None:
                lonely = (n, self._start(self._shared(self.old, self.old.starts[0]), other))
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
            columns = self._columns(level[low : low + CHUNK])
            allowed = self._allowed(columns)
            self.result.constrained += int(len(allowed) - allowed.sum())
            for label in self.labels:
                for source, made in self.successors(columns, allowed, label, first + low):
                    found.append(self.add(made, source + first + low, label))
        return np.concatenate(found)

    def _allowed(self, columns: tuple[Columns, Columns]) -> NDArray[np.bool_]:
        """The pairs that the constraint of one of the two lets go on."""
        sides = zip((self.old, self.new), columns, strict=True)
        old, new = (truths(cols, side.explorer.limit) for side, cols in sides)
        return old | new

    def _columns(self, rows: Words) -> tuple[Columns, Columns]:
        halves = (
            np.ascontiguousarray(rows[:, : self.width]),
            np.ascontiguousarray(rows[:, self.width :]),
        )
        old, new = self.old.explorer.packing, self.new.explorer.packing
        return Columns(old, halves[0]), Columns(new, halves[1])

    def successors(
        self, columns: tuple[Columns, Columns], allowed: NDArray[np.bool_], label: Label, first: int
    ) -> Iterator[tuple[NDArray[Any], Words]]:
        """Where a label leads both from the pairs that are allowed to go on; partings are noted."""
        if label[:2] in self.old.signatures and label[:2] in self.new.signatures:
            yield self._together(columns, allowed, label, first)
        elif label in self.old.instances:
            yield self._by_one(columns, allowed, label, first, 0)
        else:
            yield self._by_one(columns, allowed, label, first, 1)

    def _both(
        self, columns: tuple[Columns, Columns], allowed: NDArray[np.bool_], label: Label, first: int
    ) -> NDArray[np.int64]:
        """The pairs from which both take the step; where one alone does, they part."""
        can, may, tried = [], [], []
        for side, cols in zip((self.old, self.new), columns, strict=True):
            instance = side.instances.get(label)
            never = np.zeros(len(cols.rows), bool)
            can.append(side.possible(cols, instance) & allowed if instance else never)
            may.append(side.affordable(cols, instance) if instance else never)
            tried.append(side.guarded(cols, instance) & allowed if instance else never)
        self.note(Parts.OLD_ALONE, can[0] & may[0] & ~can[1], label, first)
        self.note(Parts.NEW_ALONE, can[1] & may[1] & ~can[0], label, first)
        both = can[0] & can[1]
        self.note(Parts.BUDGET, both & may[0] & ~may[1], label, first)
        self.note(Parts.BUDGET, both & may[1] & ~may[0], label, first, which=1)
        for one, other in ((0, 1), (1, 0)):
            if (tried[one] & may[one] & ~can[one] & ~tried[other]).any():
                self.meaningless.add(label[0])
        return np.flatnonzero(both & may[0] & may[1])

    def _together(
        self, columns: tuple[Columns, Columns], allowed: NDArray[np.bool_], label: Label, first: int
    ) -> tuple[NDArray[Any], Words]:
        """Both take the step, or they part."""
        made = []
        source = self._both(columns, allowed, label, first)
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
        self, columns: tuple[Columns, Columns], allowed: NDArray[np.bool_], label: Label,
        first: int, which: int,
    ) -> tuple[NDArray[Any], Words]:  # fmt: skip
        """One takes a step that the other does not know; it shows if it changes what both have."""
        side, cols = (self.old, self.new)[which], columns[which]
        instance = side.instances[label]
        can = side.possible(cols, instance) & side.affordable(cols, instance)
        source = np.flatnonzero(can & allowed)
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

    def note(
        self, kind: Parts, where: NDArray[np.bool_], label: Label, first: int, which: int = 0
    ) -> None:
        """Note the first parting of a kind; `which` allows it, where the kind does not say so."""
        if kind not in self.result.partings and where.any():
            pair = first + int(np.argmax(where))
            which = 1 if kind is Parts.NEW_ALONE else which
            self.result.partings[kind] = self.parting(kind, pair, label, which)

    def parting(self, kind: Parts, pair: int, label: Label, which: int) -> Parting:
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
        allows, other = ((self.old, self.new), (self.new, self.old))[which]
        last = allows.step(at[which], label)
        why = self._why(kind, other, at[1 - which], label, last)
        initial = (old, new)[which]
        begun = initially(allows.explorer.machine, initial)
        return Parting(kind, initial, [*steps[which], last], why, begun)

    def _begun(self, row: NDArray[np.uint64]) -> tuple[Spec, Spec]:
        """The initial states of a pair of rows."""
        for o in self.old.starts:
            for n in self.new.starts:
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
        if label not in other.calls:
            return (f"the {name} one has no such choice: a type has other members there",)
        if kind is Parts.BUDGET:
            left = f"its budget of {counted(other.explorer.ground.faults, 'fault')} is used up"
            free = "" if last.action.disturbs else f", and {label[0]} counts against it there"
            return (f"the {name} one refuses it: {left}{free}",)
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
                x, y = self.old.said(key, a), self.new.said(key, b)
                name = entry_name(self.old.explorer.machine, key)
                yield f"{name} {verb} {x} in the old one, {y} in the new one"
