"""
Thousands of random walkers through one spec at once: the engine of the *simulate* reading.

A herd is a table of small numbers, one row for each slot and one column for each walker. A round
evaluates the guard of every instance for all walkers (whole rows, by NumPy: `engine/rows.py`), lets
each walker choose one of its possible steps, and takes the steps of all who chose alike together.
Every choice is kept, so that a walk can be told again from its start.

Choices are guided: an action that was rarely taken weighs more, and of two candidates that a walker
draws it takes the one that was seen less often among the same possibilities. All chance comes from
one seed: the same seed walks the same walks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.verdict import ALWAYS_A_STEP
from herdspec.engine.columns import Column, Key, holding
from herdspec.engine.ground import Ground, GroundAction
from herdspec.engine.rows import Evaluated, Picked, Table, emitted
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action

EVERYBODY = slice(None)

REWEIGH = 8
"""After so many rounds the weights follow what was taken since."""
STEEP = 8.0
"""A rare action weighs at most so many times more than it was asked to, a frequent one less."""
IDLE = 3
"""A walk is over after so many steps in a row that changed nothing."""
STILL = 100
"""After so many rounds without any step, walking is given up."""
SEEN_BITS = 20
"""The table that remembers which choices were seen has two to the power of this many entries."""


@dataclass(frozen=True)
class Walk:
    """One walker's way: where it started (see `Herd.starts`), and the instances it took."""

    start: int
    instances: tuple[int, ...]


class RandomChoices:
    """
    The choices of walkers: first an action, by weights that follow coverage, then its arguments.

    `spans` are the first and the last instance (exclusive) of each action that has any, `disturbs`
    says which of them count against the budget of faults, `asked` their weights. Each walk has its
    own eagerness to disturb (`pace`), so that some spend their budget at once and some keep it.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], disturbs: Sequence[bool],
                 asked: Sequence[float], seed: int) -> None:  # fmt: skip
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.spans = spans
        self.order = [*np.argsort(np.array(disturbs), kind="stable").tolist()]
        self.calm = len(spans) - sum(disturbs)  # so many of the order do not disturb
        self.asked = np.array(asked, np.float64)
        self.taken = np.zeros(len(spans), np.int64)
        self.uncovered = np.zeros(len(spans), bool)  # it has branches that nobody took
        self.weights = np.zeros(len(spans), np.float32)
        self.seen = np.zeros(1 << SEEN_BITS, np.uint32)
        self.salt = self.random.integers(1, 1 << 63, (2, len(spans)), np.uint64) | np.uint64(1)
        widest = max((high - low for low, high in spans), default=1)
        self.counts = np.uint8 if widest < 256 else np.uint16
        self.reweigh()

    def paces(self, walks: int) -> NDArray[np.float32]:
        """The eagerness to disturb of new walks: between a thousandth and all."""
        return np.float32(10) ** self.random.uniform(-3, 0, walks).astype(np.float32)

    def reweigh(self) -> None:
        """Let what was rarely taken weigh more."""
        usual = self.taken.sum() / max(1, len(self.taken))
        rare = np.sqrt((usual + 1) / (self.taken + 1))
        boost = np.clip(rare, 1 / STEEP, STEEP) * np.where(self.uncovered, 2.0, 1.0)
        self.weights[:] = self.asked * boost

    def choose(
        self, enabled: NDArray[np.bool_], pace: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The number of an action for each walker, and which walkers have any to take."""
        if not self.spans:
            nobody = np.zeros(enabled.shape[1], np.int64)
            return nobody, nobody > 0
        many = self._many(enabled)
        upto = self._cumulated(many)
        some = upto[-1] > 0
        mixed = self._mixed(many)
        first, second = self._draw(upto, pace), self._draw(upto, pace)
        one, two = self._entry(mixed, first), self._entry(mixed, second)
        rarer = self.seen[two] < self.seen[one]
        self.seen[np.where(rarer, two, one)[some]] += 1
        return np.where(rarer, second, first), some

    def _many(self, enabled: NDArray[np.bool_]) -> NDArray[Any]:
        """In how many ways each action is possible for each walker."""
        many = np.zeros((len(self.spans), enabled.shape[1]), self.counts)
        for row, (low, high) in zip(many, self.spans, strict=True):
            for k in range(low, high):
                row += enabled[k].view(np.uint8)
        return many

    def _cumulated(self, many: NDArray[Any]) -> NDArray[np.float32]:
        """The weights of the possible actions up to each, those that disturb last."""
        upto = np.empty(many.shape, np.float32)
        for k, action in enumerate(self.order):
            np.multiply(many[action] > 0, self.weights[action], out=upto[k])
            if k:
                upto[k] += upto[k - 1]
        return upto

    def _draw(self, upto: NDArray[np.float32], pace: NDArray[np.float32]) -> NDArray[np.int64]:
        """The first action whose cumulated weight is beyond a random part of the total."""
        total = upto[-1]
        calm = upto[self.calm - 1] if self.calm else np.zeros_like(total)
        part = self.random.random(len(total), np.float32) * (calm + pace * (total - calm))
        part = np.where(part < calm, part, calm + (part - calm) / pace)
        np.minimum(part, np.nextafter(total, np.float32(0)), out=part)  # sums may round up
        passed = np.zeros(len(total), np.uint8 if len(upto) < 256 else np.uint16)
        for row in upto[:-1]:
            np.add(passed, row <= part, out=passed)
        drawn: NDArray[np.int64] = np.array(self.order)[passed]
        return drawn

    def _mixed(self, many: NDArray[Any]) -> NDArray[np.uint64]:
        """A hash of what is possible for each walker: which actions, in how many ways."""
        found = np.zeros(many.shape[1], np.uint64)
        for row, code in zip(many, self.salt[0], strict=True):
            found += row * code
        return found

    def _entry(self, mixed: NDArray[np.uint64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where it stands how often this action was chosen where just the same was possible."""
        mixed = (mixed ^ self.salt[1][chosen]) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - SEEN_BITS)).astype(np.int64)

    def instances(
        self, enabled: NDArray[np.bool_], action: int, picked: Picked
    ) -> NDArray[np.int64]:
        """One of the possible instances of an action for each of these walkers, all alike."""
        low, high = self.spans[action]
        if high - low == 1:
            return np.full(len(picked), low)
        upto = np.cumsum(enabled[low:high, picked], axis=0, dtype=np.int32)
        part = self.random.random(len(picked), np.float32) * upto[-1]
        wanted = np.minimum(part.astype(np.int32), upto[-1] - 1)
        found: NDArray[np.int64] = low + (upto <= wanted).sum(axis=0)
        return found


class Distinct:
    """An estimate of how many different states were seen (HyperLogLog, about 1 % off)."""

    BITS = 14

    def __init__(self, ground: Ground) -> None:
        self.widths = [(slot.values - 1).bit_length() for slot in ground.slots.values()]
        self.words = self._layout()
        random = np.random.Generator(np.random.PCG64(0))
        self.codes = random.integers(0, 1 << 64, (len(self.words), 1 << 8), np.uint64)
        self.registers = np.zeros(1 << self.BITS, np.uint8)

    def _layout(self) -> list[list[tuple[int, int]]]:
        """Which slots share a byte: their numbers and shifts; wide ones have bytes of their own."""
        words: list[list[tuple[int, int]]] = []
        used = 8
        for k, width in enumerate(self.widths):
            if width > 8:
                words += [[(k, -low)] for low in range(0, width, 8)]
                used = 8
                continue
            if used + width > 8:
                words.append([])
                used = 0
            words[-1].append((k, used))
            used += width
        return words

    def mixed(self, table: Table) -> NDArray[np.uint64]:
        """A hash of each walker's state."""
        found = np.zeros(table.shape[1], np.uint64)
        for code, word in zip(self.codes, self.words, strict=True):
            first, low = word[0]
            byte = (table[first] >> -low if low else table[first]).astype(np.uint8)
            for k, shift in word[1:]:
                byte |= table[k].astype(np.uint8) << np.uint8(shift)
            found ^= code[byte]
        return found

    def add(self, mixed: NDArray[np.uint64]) -> None:
        """Count the states with these hashes."""
        rest = mixed & np.uint64((1 << (64 - self.BITS)) - 1)
        _, length = np.frexp(rest.astype(np.float64))
        rank = (64 - self.BITS + 1 - length).astype(np.uint8)
        np.maximum.at(self.registers, (mixed >> np.uint64(64 - self.BITS)).astype(np.int64), rank)

    def estimate(self) -> int:
        """The number of different ones, about."""
        m = len(self.registers)
        raw = 0.7213 / (1 + 1.079 / m) * m * m / np.exp2(-self.registers.astype(np.float64)).sum()
        empty = int((self.registers == 0).sum())
        if raw <= 2.5 * m and empty:
            return round(m * float(np.log(m / empty)))
        return round(float(raw))


@dataclass
class Found:
    """
    The findings of the walkers: for each name, the shortest walk of the first round of it.

    `walks` break what they are named for, those that were `seen` show a `sometimes`.
    """

    walks: dict[str, Walk] = field(default_factory=dict)
    seen: dict[str, Walk] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """Tells whether nobody came upon it yet."""
        return name not in self.walks


@dataclass(frozen=True)
class Watched:
    """
    The formulas looked at on the way: over slots (and `slot after` for steps), by name.

    No walk goes on from a state without the `limit`.
    """

    always: Mapping[str, Expr]
    sometimes: Mapping[str, Expr]
    steps: Mapping[str, Expr]
    limit: Expr = g.TRUE


class Herd:
    """
    Many walkers at once. `round` moves each of them by one step, or back to a start.

    `starts` are the initial states as numbers of the slots; `length` is the longest walk;
    `asked` gives actions another weight than 1. What is found is in `found`.
    """

    DEADLOCK = ALWAYS_A_STEP
    DEFINED = EVERY_VALUE_IS_DEFINED

    def __init__(
        self, ground: Ground, starts: NDArray[np.int64], watched: Watched, *,
        walkers: int, length: int, seed: int, asked: Mapping[str, float],
    ) -> None:  # fmt: skip
        self.ground, self.watched = ground, watched
        self.instances: tuple[GroundAction, ...] = ground.instances
        self.order = {key: k for k, key in enumerate(ground.slots)}
        guards = [i.guard for i in self.instances]
        self.look = self._emitted([*watched.always.values(), watched.limit, *guards])
        self.look_last = self._emitted([*watched.always.values()])
        self.seek = self._emitted([*watched.sometimes.values()])
        self.look_back = self._emitted([*watched.steps.values()])
        self.strides: dict[int, Stride] = {}
        self.covering: dict[int, Evaluated] = {}
        self.actions, spans = _spans(self.instances)
        disturbs = [a.disturbs for a in self.actions]
        weights = [asked.get(a.name, 1.0) for a in self.actions]
        self.chance = RandomChoices(spans, disturbs, weights, seed)
        widest = max((slot.values - 1).bit_length() for slot in ground.slots.values())
        self.starts: Table = starts.T.astype(holding(widest), order="C")
        self.start = self.chance.random.integers(0, self.starts.shape[1], walkers)
        self.now: Table = self.starts[:, self.start]
        self.at = np.zeros(walkers, np.int64)
        self.allowed = np.ones(walkers, bool)  # the limit holds: a walk may go on
        self.pace = self.chance.paces(walkers)
        self.mixed = np.zeros(walkers, np.uint64)
        self.idle = np.zeros(walkers, np.int64)  # so many steps in a row changed nothing
        self.history = np.zeros((length, walkers), np.min_scalar_type(len(self.instances)))
        self.distinct = Distinct(ground)
        self.found = Found()
        self.uncovered = {a.name: {*range(len(a.branches))} for a in self.actions if a.branches}
        self.steps = self.rounds = self.dropped = 0
        self.walks = walkers
        self.still = 0  # so many rounds in a row nobody has taken a step

    @property
    def taken(self) -> dict[str, int]:
        """The number of times that each action was taken."""
        counts = self.chance.taken.tolist()
        return {a.name: n for a, n in zip(self.actions, counts, strict=True)}

    @property
    def is_stuck(self) -> bool:
        """Tells whether nobody has taken a step for many rounds: nobody will."""
        return self.still >= STILL

    # ── One round ───────────────────────────────────────────────────────────────────────────

    def round(self) -> None:
        """Look at every walker's state, and let each take a step."""
        enabled = self._look()
        self._count()
        actions, some = self.chance.choose(enabled, self.pace)
        if not some.all():  # an action of weight 0 is possible all the same
            self._note(self.DEADLOCK, np.flatnonzero(~enabled.any(axis=0) & self.allowed))
        chosen, after, moved = self._take(enabled, actions, some)
        self._look_back(after, moved, chosen)
        self._advance(after, moved, actions, chosen)

    def _look(self) -> NDArray[np.bool_]:
        """Look at every state; says which instances are possible for whom."""
        found = self.look(self.now, None, EVERYBODY)
        self._judge(found, np.arange(len(self.at)))
        limit, *guards = found[len(self.watched.always) :]
        self.allowed[:] = limit
        enabled = np.empty((len(guards), len(self.at)), bool)
        for row, guard in zip(enabled, guards, strict=True):
            row[:] = guard
        enabled &= self.allowed
        left = {n: e for n, e in self.watched.sometimes.items() if n not in self.found.seen}
        if left:
            self._seek(left)
        return enabled

    def _judge(self, found: Sequence[Column], walkers: Picked) -> None:
        """Note which of these walkers break an invariant."""
        for name, holds in zip(self.watched.always, found, strict=False):
            if self.found.wants(name) and not holds.all():
                self._note(name, walkers[~holds])

    def _seek(self, left: Mapping[str, Expr]) -> None:
        """Look for what nobody has seen yet."""
        found = self.seek(self.now, None, EVERYBODY)
        pairs = zip(left, found, strict=True)
        seen = {name: self._shortest(np.flatnonzero(h)) for name, h in pairs if h.any()}
        if seen:
            self.found.seen |= seen
            self.seek = self._emitted([e for name, e in left.items() if name not in seen])

    def _take(
        self, enabled: NDArray[np.bool_], actions: NDArray[np.int64], some: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Table, NDArray[np.bool_]]:
        """Everybody's instance, the table after everybody's step, and who has taken one."""
        chosen = np.zeros(len(actions), np.int64)
        after, moved = self.now.copy(), some.copy()
        for action, alike in _groups(np.flatnonzero(some), actions):
            chosen[alike] = self.chance.instances(enabled, action, alike)
            for number, picked in _groups(alike, chosen):
                possible = self._step(number, picked, after)
                if possible is not None and not possible.all():
                    moved[picked[~possible]] = False
                    self.dropped += int((~possible).sum())
        return chosen, after, moved

    def _step(self, number: int, picked: Picked, after: Table) -> NDArray[np.bool_] | None:
        """Let these walkers take one instance; says for whom it stays within bounds (None: all)."""
        self._cover(number, picked)
        if number not in self.strides:
            self.strides[number] = Stride(self.instances[number], self.ground, self.order)
        stride = self.strides[number]
        found = stride.evaluate(self.now, None, picked) if stride.evaluate else []
        if stride.is_partial and not found[0].all():
            self._note(self.DEFINED, picked[~found[0]], number)
        possible = stride.possible(found, len(picked))
        mine = picked if possible is None else picked[possible]
        for row, constant in stride.fixed:
            after[row, mine] = constant
        for (row, _), value in zip(stride.made, found[stride.conditions :], strict=True):
            after[row, mine] = value if possible is None else value[possible]
        return possible

    def _look_back(self, after: Table, moved: NDArray[np.bool_], chosen: NDArray[np.int64]) -> None:
        """Note which steps break a promise about steps."""
        if not self.watched.steps:
            return
        found = self.look_back(self.now, after, EVERYBODY)
        for name, holds in zip(self.watched.steps, found, strict=True):
            bad = np.flatnonzero(moved & ~holds)
            if len(bad):
                self._note(name, bad, int(chosen[bad[np.argmin(self.at[bad])]]))

    def _count(self) -> None:
        """Count the states, and the steps in a row that changed nothing."""
        mixed = self.distinct.mixed(self.now)
        self.distinct.add(mixed)
        self.idle = np.where(mixed == self.mixed, self.idle + 1, 0)
        self.mixed = mixed

    def _advance(
        self, after: Table, moved: NDArray[np.bool_], actions: NDArray[np.int64],
        chosen: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Write down the choices, and send those back whose walk is over."""
        movers = np.flatnonzero(moved)
        self.history[self.at[movers], movers] = chosen[movers]
        self.at[movers] += 1
        self.steps += len(movers)
        self.still = 0 if len(movers) else self.still + 1
        self.chance.taken += np.bincount(actions[movers], minlength=len(self.actions))
        self.now = after
        over = np.flatnonzero(~moved | (self.at >= len(self.history)) | (self.idle >= IDLE))
        if len(over):
            self._restart(over)
        self.rounds += 1
        if self.rounds % REWEIGH == 0:
            self.chance.reweigh()

    def _restart(self, over: Picked) -> None:
        """Walks at their full length have not been looked at in their last state: look."""
        last = over[self.at[over] >= len(self.history)]
        if len(last):
            self._judge(self.look_last(self.now, None, last), last)
        self.start[over] = self.chance.random.integers(0, self.starts.shape[1], len(over))
        self.now[:, over] = self.starts[:, self.start[over]]
        self.at[over] = self.idle[over] = 0
        self.pace[over] = self.chance.paces(len(over))
        self.walks += len(over)

    # ── What is kept ────────────────────────────────────────────────────────────────────────

    def _note(self, name: str, walkers: Picked, last: int | None = None) -> None:
        """Keep the shortest of these walks, with the step that it was about to take."""
        if len(walkers) and self.found.wants(name):
            self.found.walks[name] = self._shortest(walkers, last)

    def _shortest(self, walkers: Picked, last: int | None = None) -> Walk:
        """The shortest of these walks so far, with a last step, if there is one."""
        w = int(walkers[np.argmin(self.at[walkers])])
        steps = [int(k) for k in self.history[: self.at[w], w]]
        return Walk(int(self.start[w]), tuple(steps if last is None else [*steps, last]))

    def _cover(self, number: int, picked: Picked) -> None:
        """Cross off the branches that these steps cover."""
        instance = self.instances[number]
        left = self.uncovered.get(instance.action.name)
        if left is None:
            return
        if number not in self.covering:
            formulas = [b.formula for b in instance.action.branches]
            lowered = [self.ground.of_instance(formula, instance) for formula in formulas]
            self.covering[number] = self._emitted(lowered)
        taken = self.covering[number](self.now, None, picked)
        left -= {k for k, holds in enumerate(taken) if k in left and holds.any()}
        self.chance.uncovered[self.actions.index(instance.action)] = bool(left)
        if not left:
            del self.uncovered[instance.action.name]

    def _emitted(self, wanted: Sequence[Expr]) -> Evaluated:
        return emitted(wanted, self.order)


class Stride:
    """
    One instance, ready to be taken: the rows that it writes, and what they get.

    `fixed` are rows and constants, `made` rows and the largest numbers that fit (None: all do);
    the function gives `conditions` first: whether the step has a meaning, whether it fits.
    """

    def __init__(self, instance: GroundAction, ground: Ground, order: Mapping[Key, int]) -> None:
        self.is_partial = instance.defined is not g.TRUE
        wanted = [e for e in (instance.defined, instance.fits) if e is not g.TRUE]
        self.conditions = len(wanted)
        self.fixed: list[tuple[int, int]] = []
        self.made: list[tuple[int, int | None]] = []
        self.is_beyond = False
        for key, e in instance.updates.items():
            slot = ground.slots[key]
            if e.op == "const":
                if 0 <= e.data < slot.values:
                    self.fixed.append((order[key], int(e.data)))
                else:
                    self.is_beyond = True
            else:
                self.made.append((order[key], slot.values - 1 if slot.is_bounded else None))
                wanted.append(e)
        self.evaluate = emitted(wanted, order) if wanted else None

    def possible(self, found: Sequence[Column], number: int) -> NDArray[np.bool_] | None:
        """For which of this number of walkers the step is within bounds; None: for all."""
        tests: list[NDArray[np.bool_]] = [*found[: self.conditions]]
        made = zip(self.made, found[self.conditions :], strict=True)
        tests += [value <= most for (_, most), value in made if most is not None]
        if self.is_beyond:
            tests.append(np.zeros(number, bool))
        return np.logical_and.reduce(tests) if tests else None


def _spans(instances: Sequence[GroundAction]) -> tuple[list[Action], list[tuple[int, int]]]:
    """The actions that have instances, and where these stand: all of one action in a row."""
    firsts: dict[str, int] = {}
    for number, instance in enumerate(instances):
        firsts.setdefault(instance.action.name, number)
    lows = list(firsts.values())
    spans = list(zip(lows, [*lows, len(instances)][1:], strict=True))
    return [instances[low].action for low in lows], spans


def _groups(walkers: Picked, chosen: NDArray[np.int64]) -> Iterator[tuple[int, Picked]]:
    """Groups of walkers who chose alike, choice after choice."""
    made = chosen[walkers]
    made = made.astype(np.min_scalar_type(made.max(initial=0)))  # small numbers sort faster
    order = np.argsort(made, kind="stable")
    cuts = np.flatnonzero(np.diff(made[order])) + 1
    for picked in np.split(walkers[order], cuts):
        if len(picked):
            yield int(chosen[picked[0]]), picked
