"""
The LLVM emitter: ground expressions, and the successors of one packed state.

The values of a state's slots are numbers (`i64`) and truths (`i1`), taken out of its words where
they are wanted. A successor is made from the words before it: what the step changes is masked out
and put in, constants at once. Nothing branches inside an expression; an instance whose successor
takes more than a few instructions is jumped over where it is not possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from herdspec.engine.columns import BitField, Key, Packing
from herdspec.engine.ground import GroundAction
from herdspec.engine.native_text import Code, Value
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.types import BOOL

FEW = 3
"""The most changed words, or values that are no constants, that are computed without asking."""
WORD = (1 << 64) - 1


class Unsupported(Exception):
    """An expression that this emitter cannot write; NumPy does it then, and says why."""


class Values:
    """The values of ground expressions in the state whose words these are."""

    def __init__(self, code: Code, packing: Packing, words: list[Value]) -> None:
        self.code = code
        self.packing = packing
        self.words = words
        self._memo: list[dict[Expr, Value]] = [{}]

    @contextmanager
    def inner(self) -> Iterator[None]:
        """Forget afterwards what is computed inside: it may have been jumped over."""
        self._memo.append({})
        yield
        self._memo.pop()

    def of(self, e: Expr) -> Value:
        """The expression's value; equal ones are computed once."""
        for memo in self._memo:
            if e in memo:
                return memo[e]
        operator = OPERATORS.get(e.op)
        if operator is None:
            raise Unsupported(f"the native engine has no operator {e.op!r}")
        found = self._memo[-1][e] = operator(self, e)
        return found

    def read(self, key: Key) -> Value:
        """A slot's number."""
        if key not in self.packing.one_hot:
            return self.bits(self.packing.places[key])
        found: Value = "0"
        for k, place in enumerate(self.packing.one_hot[key], start=self.packing.first[key]):
            bit = self.code.op("mul", self.bits(place), k)
            found = self.code.op("or", found, bit)
        return found

    def masked(self, place: BitField) -> Value:
        """A word with nothing in it but what lies in a place, which stays there."""
        mask = ((1 << place.width) - 1) << place.shift
        return self.code.op("and", self.words[place.word], signed(mask))

    def bits(self, place: BitField) -> Value:
        """The number that lies in a place."""
        shifted = self.code.op("lshr", self.words[place.word], place.shift) if place.width else "0"
        return self.code.op("and", shifted, (1 << place.width) - 1)

    def joined(self, operator: str, parts: list[Expr]) -> Value:
        """Truths joined pairwise, so that none waits for a long chain."""
        values = [self.of(part) for part in parts]
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            made = [self.code.op(operator, a, b, "i1") for a, b in pairs]
            values = made + values[len(values) // 2 * 2 :]
        return values[0]


# ── Operators ───────────────────────────────────────────────────────────────────────────────


def _slot(v: Values, e: Expr) -> Value:
    if e.kind == BOOL:
        return v.code.op("icmp ne", v.masked(v.packing.places[e.data]), 0)
    return v.read(e.data)


def _const(_: Values, e: Expr) -> Value:
    return str(e.data).lower() if isinstance(e.data, bool) else str(int(e.data))


def _not(v: Values, e: Expr) -> Value:
    return v.code.op("xor", v.of(e.args[0]), "true", "i1")


def _and(v: Values, e: Expr) -> Value:
    return v.joined("and", factored(e, "or", g.conj, g.disj))


def _or(v: Values, e: Expr) -> Value:
    return v.joined("or", factored(e, "and", g.disj, g.conj))


def _ite(v: Values, e: Expr) -> Value:
    test, a, b = map(v.of, e.args)
    return v.code.choose(test, a, b, "i1" if e.kind == BOOL else "i64")


def _eq(v: Values, e: Expr) -> Value:
    for leaf, other in (e.args, e.args[::-1]):
        if leaf.op == "slot" and other.op == "const":
            return _is_number(v, leaf.data, int(other.data))
    a, b = map(v.of, e.args)
    return v.code.op("icmp eq", a, b, "i1" if e.args[0].kind == BOOL else "i64")


def _is_number(v: Values, key: Key, number: int) -> Value:
    """The condition that a slot holds this number; nothing needs to be shifted for that."""
    if key not in v.packing.one_hot:
        place = v.packing.places[key]
        if number >> place.width:
            return "false"
        return v.code.op("icmp eq", v.masked(place), signed(number << place.shift))
    places = v.packing.one_hot[key]  # one bit for each element, none where there is none
    at = number - v.packing.first[key]
    if 0 <= at < len(places):
        return v.code.op("icmp ne", v.masked(places[at]), 0)
    if number != 0:
        return "false"
    found = v.masked(places[0])
    for place in places[1:]:
        found = v.code.op("or", found, v.masked(place))
    return v.code.op("icmp eq", found, 0)


def _le(v: Values, e: Expr) -> Value:
    a, b = map(v.of, e.args)
    return v.code.op("icmp sle", a, b)


def _add(v: Values, e: Expr) -> Value:
    return v.code.op("add", v.of(e.args[0]), e.data)


def _plus(v: Values, e: Expr) -> Value:
    a, b = map(v.of, e.args)
    return v.code.op("add", a, b)


def _minus(v: Values, e: Expr) -> Value:
    a, b = map(v.of, e.args)
    return v.code.op("sub", a, b)


def _mod(v: Values, e: Expr) -> Value:
    a, b = map(v.of, e.args)
    rest = v.code.op("srem", a, b)  # below 0 where a is: Python's is not
    below = v.code.op("icmp slt", rest, 0)
    return v.code.choose(below, v.code.op("add", rest, b), rest)


def _div(v: Values, e: Expr) -> Value:
    a, b = map(v.of, e.args)
    below = v.code.op("icmp slt", v.code.op("srem", a, b), 0)
    return v.code.op("sub", v.code.op("sdiv", a, b), v.code.wide(below))


def _count(v: Values, e: Expr) -> Value:
    found: Value = "0"
    for part in e.args:
        found = v.code.op("add", found, v.code.wide(v.of(part)))
    return found


OPERATORS: dict[str, Callable[[Values, Expr], Value]] = {
    "slot": _slot, "const": _const, "not": _not, "and": _and, "or": _or, "ite": _ite,
    "eq": _eq, "le": _le, "add": _add, "plus": _plus, "minus": _minus,
    "mod": _mod, "div": _div, "count": _count,
}  # fmt: skip
"""Emitters of instructions, by operator."""


def factored(
    e: Expr, inner: str, outer_join: Callable[..., Expr], inner_join: Callable[..., Expr]
) -> list[Expr]:
    """
    The parts of a disjunction of conjunctions, with what several of them share taken out.

    `a b + a c + d` becomes `a (b + c) + d`: "for all pairs" then takes a linear number of steps.
    """
    parts = list(e.args)
    found: list[Expr] = []
    while True:
        counts = Counter(x for part in parts if part.op == inner for x in part.args)
        shared, times = max(counts.items(), key=lambda c: c[1], default=(g.TRUE, 0))
        if times < 2:
            return found + parts
        with_it = [p for p in parts if p.op == inner and shared in p.args]
        rest = (inner_join(*(x for x in p.args if x is not shared)) for p in with_it)
        found.append(inner_join(shared, outer_join(*rest)))
        parts = [p for p in parts if p not in with_it]


# ── What is looked for ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Checks:
    """
    The conditions that a search looks for, by name; the first state of each is noted.

    `states`: a formula that holds of a state (what breaks a promise, or witnesses a possibility).
    `steps`: for each instance by its number, formulas over the state before its step.
    `limit`: where it fails, a state is looked at, but not gone on from.
    """

    states: Mapping[str, Expr] = field(default_factory=dict)
    steps: Mapping[int, Mapping[str, Expr]] = field(default_factory=dict)
    undefined: Mapping[int, Expr] = field(default_factory=dict)
    fits: Mapping[int, Expr] = field(default_factory=dict)
    limit: Expr = g.TRUE

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order; the two last are of what every spec is held to."""
        found = dict.fromkeys(self.states)
        found.update(dict.fromkeys(name for of in self.steps.values() for name in of))
        return (*found, UNDEFINED, DEADLOCK)


DEADLOCK = "deadlock"
"""The name of a state without a next step."""
UNDEFINED = "undefined"
"""The name of a state in which a step is possible that has no meaning there."""


# ── One state's successors ──────────────────────────────────────────────────────────────────


class Expansion:
    """
    Emits what is done with one state: which steps are possible, where they lead, what is found.

    `put(words, instance, live)` emits the taking of one successor, `live` saying whether it is one;
    it increases the variable `entries` by as many.
    """

    def __init__(
        self, values: Values, checks: Checks, entries: Value,
        put: Callable[[list[Value], int, Value], None],
    ) -> None:  # fmt: skip
        self.values = values
        self.code = values.code
        self.checks = checks
        self.entries = entries
        self.put = put
        self.bit = {name: k for k, name in enumerate(checks.names)}
        groups = -(-len(self.bit) // 64)
        self.hits = [self.code.variable(0) for _ in range(groups)]
        self.dropped = self.code.variable(0)
        self.lost = self.code.variable(0)

    def emit(self) -> None:
        """Everything about the state."""
        for name, formula in self.checks.states.items():
            self.hit(name, self.values.of(formula))
        with self.code.when(self.values.of(self.checks.limit)), self.values.inner():
            before = self.code.get(self.entries)
            for number, instance in enumerate(self.values.packing.ground.instances):
                self.instance(number, instance)
            made = self.code.op("sub", self.code.get(self.entries), before)
            for others in (self.dropped, self.lost):
                made = self.code.op("or", made, self.code.get(others))
            self.hit(DEADLOCK, self.code.op("icmp eq", made, 0))

    def hit(self, name: str, truth: Value) -> None:
        """Note that something looked for is here, where the truth holds."""
        if truth == "false":
            return
        group, bit = divmod(self.bit[name], 64)
        found = self.code.choose(truth, (1 << bit) - (bit == 63) * (1 << 64), 0)
        self.set_or(self.hits[group], found)

    def set_or(self, variable: Value, value: Value) -> None:
        """Add bits to a variable."""
        self.code.set(variable, self.code.op("or", self.code.get(variable), value))

    def instance(self, number: int, instance: GroundAction) -> None:
        """One action with its parameters chosen."""
        possible = self.values.of(instance.guard)
        if self.is_light(number, instance):
            self.take(number, instance, possible)
            return
        with self.code.when(possible), self.values.inner():
            self.take(number, instance, "true")

    def is_light(self, number: int, instance: GroundAction) -> bool:
        """Tells whether it costs less to take the step in vain than to ask if it is possible."""
        packing = self.values.packing
        varied = sum(e.op != "const" for e in instance.updates.values())
        plain = number not in self.checks.steps and number not in self.checks.undefined
        return plain and packing.words + varied <= FEW

    def take(self, number: int, instance: GroundAction, possible: Value) -> None:
        """The step of an instance, where it is possible."""
        code = self.code
        if number in self.checks.undefined:
            lost = self.values.of(self.checks.undefined[number])
            lost = code.op("and", possible, lost, "i1")
            self.hit(UNDEFINED, lost)
            code.increase(self.lost, code.wide(lost))
            defined = code.op("xor", lost, "true", "i1")
            possible = code.op("and", possible, defined, "i1")
        within = self.within(number, instance)
        live = possible if within == "true" else code.op("and", possible, within, "i1")
        if within != "true":
            beyond = code.op("xor", live, possible, "i1")
            code.increase(self.dropped, code.wide(beyond))
        for name, formula in self.checks.steps.get(number, {}).items():
            self.hit(name, code.op("and", live, self.values.of(formula), "i1"))
        self.put(self.successor(instance), number, live)

    def within(self, number: int, instance: GroundAction) -> Value:
        """The condition that naturals stay within bounds, and channels within their capacity."""
        slots = self.values.packing.ground.slots
        parts = [self.checks.fits[number]] if number in self.checks.fits else []
        for key, new in instance.updates.items():
            if slots[key].is_bounded:
                parts.append(g.le(new, g.const(new.kind, slots[key].values - 1)))
        return self.values.of(g.conj(*parts))

    def successor(self, instance: GroundAction) -> list[Value]:
        """The words after the step."""
        change = SlotUpdates(self.values)
        for key, new in instance.updates.items():
            change.write(key, new)
        return change.words()


class SlotUpdates:
    """New values for some slots, gathered word by word."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.code = values.code
        count = len(values.words)
        self._kept = [WORD] * count
        self._plain = [0] * count
        self._made: list[list[Value]] = [[] for _ in range(count)]

    def write(self, key: Key, new: Expr) -> None:
        """A slot's new value."""
        packing = self.values.packing
        if key not in packing.one_hot:
            self._set(packing.places[key], new)
            return
        for k, place in enumerate(packing.one_hot[key], start=packing.first[key]):
            self._set(place, g.eq(new, g.const(new.kind, k)))

    def _set(self, place: BitField, new: Expr) -> None:
        self._kept[place.word] &= WORD ^ ((1 << place.width) - 1) << place.shift
        if new.op == "const":
            self._plain[place.word] |= int(new.data) << place.shift & WORD
        elif place.width:
            value = self.values.of(new)
            number = self.code.wide(value) if new.kind == BOOL else value
            self._made[place.word].append(self.code.op("shl", number, place.shift))

    def words(self) -> list[Value]:
        """The words with all changes made."""
        found = []
        for old, kept, plain, made in zip(
            self.values.words, self._kept, self._plain, self._made, strict=True
        ):
            word = old if kept == WORD else self.code.op("and", old, signed(kept))
            for part in [*made, *([signed(plain)] if plain else [])]:
                word = self.code.op("or", word, part)
            found.append(word)
        return found


def signed(word: int) -> Value:
    """A word's bits as LLVM reads a number."""
    return str(word - (1 << 64) if word >> 63 else word)
