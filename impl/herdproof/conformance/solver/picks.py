"""
States from z3: each satisfies what was proved and one case of an action, at a given size.

Asked again and again for a state, z3 answers with nearly the same one. So each time some entries
are pinned to random values and some conditions to random signs; where that cannot be, pins are
given up one by one, until it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import z3

from herdproof.conformance.solver.alike import Alike
from herdproof.conformance.solver.cases import GuardCase, conditions, looked_at
from herdspec.check.proof.counterexample import Entry, Model, Reader
from herdspec.check.proof.small import Small
from herdspec.check.proof.universe import entries, expand
from herdspec.check.running.run import Machine
from herdspec.engine.ground import LARGEST, Number
from herdspec.engine.smt import Emitter
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.rich import optional, parts
from herdspec.language.surface import Spec
from herdspec.language.types import (
    Bool,
    ChannelOf,
    EnumOf,
    MachineOf,
    MapOf,
    Nat,
    Option,
    OptionalRecord,
    Range,
    Rich,
    SortOf,
    Table,
    Type,
)

RESOURCES = 3_000_000
"""z3's resource limit for each question."""
PINNED, SIGNED, LOOKED_AT = 8, 6, 4
"""Entries and conditions that are pinned at first, and how many of what an action looks at."""
EDGES = (9, 10, 99, 100, 127, 128, 255, 256, 32_767, 32_768, 65_535, 65_536)
"""Numbers at which code that keeps a number as text, or in too few bits, goes wrong."""
NEAR = 2
"""The distance from an edge within which numbers are drawn."""


Given = tuple[str, Type, dict[tuple[int, ...], int]]
"""An argument as numbers: its parameter's name, type, and entries."""


@dataclass(frozen=True)
class Picked:
    """A state, the arguments of the action that is asked about, and a key for all such alike."""

    case: GuardCase
    state: Spec
    arguments: tuple[Any, ...]
    key: tuple[Any, ...]
    alone: tuple[Any, ...]
    """The key of the state without the arguments."""
    numbers: tuple[int, ...]
    """The state as z3 has it, slot by slot (`Machine.numbers`)."""


@dataclass
class _Asked:
    """A case as z3 knows it: a name for it, and what may be pinned."""

    name: Any
    signs: list[Any]
    looked_at: list[tuple[Type, Any]]


class NoAnswer(Exception):
    """z3 gave a question up."""


class Picker:
    """
    Picks states of a machine's spec that satisfy these formulas, over its elements.

    `within` is one more, which `is_possible` leaves out.
    """

    def __init__(
        self, machine: Machine, formulas: Sequence[Expr], chance: Random, within: Expr = g.TRUE
    ) -> None:
        self.machine = machine
        self.spec = machine.spec
        self.chance = chance
        self.emit = Emitter(self.spec)
        small = Small(self.spec, self.emit, formulas, RESOURCES)
        universe = small.at(tuple(machine.sizes[name] for name in self.spec.sorts))
        self.small, self.elements, self.solver = small, universe.elements, universe.solver
        self.alike = Alike(self.spec, machine.sizes)
        fields = [(f.name, g.field(f.name, f.kind)) for f in self.spec.fields]
        self._entries: dict[Entry, Expr] = {
            (name, at): entry for name, e in fields for at, entry in entries(e, self.elements)
        }
        self._terms = [(e.kind, self.emit.formula(e)) for e in self._entries.values()]
        self.solver.add(*self._sized(), *self._shaped())
        self._within = self._named(within)
        self._asked: dict[GuardCase, _Asked] = {}

    def pick(self, case: GuardCase) -> Picked | None:
        """
        A state in which the case is given; None if there is none at this size.

        Raises `NoAnswer` where z3 gives up.
        """
        asked = self._asked.get(case)
        if asked is None:
            asked = self._asked[case] = self._ask(case)
        pins = self._pins(asked)
        while True:
            answer = self.solver.check(asked.name, self._within, *pins)
            if answer == z3.sat:
                return self._read(case, self.solver.model())
            if not pins:
                if answer == z3.unsat:
                    return None
                raise NoAnswer
            if answer == z3.unsat:
                core = {e.get_id() for e in self.solver.unsat_core()}
                blamed = [k for k, pin in enumerate(pins) if pin.get_id() in core]
                if not blamed:
                    return None
                del pins[blamed[-1]]
            else:
                del pins[len(pins) // 2 :]

    def is_possible(self, case: GuardCase) -> bool:
        """Tells whether some state has the case, `within` or not; true where z3 gives up."""
        return bool(self.solver.check(self._asked[case].name) != z3.unsat)

    # ── What z3 is asked ────────────────────────────────────────────────────────────────────

    def _ask(self, case: GuardCase) -> _Asked:
        """Name a case's formula, and find what it and the step tell apart."""
        name = self._named(case.formula)
        asked = [expand(case.formula, self.elements)]
        if case.allowed:
            for new in case.action.updates.values():
                asked += [expand(made, self.elements) for _, made in entries(new, self.elements)]
        signs = [self.emit.formula(e) for e in conditions(asked)]
        given = [p for _, p in case.action.parameters]
        seen = [*looked_at(asked), *(e for p in given for _, e in entries(p, self.elements))]
        return _Asked(name, signs, [(e.kind, self.emit.formula(e)) for e in seen])

    def _named(self, formula: Expr) -> Any:
        """A name that, assumed, says that a formula holds."""
        name = z3.FreshConst(z3.BoolSort(self.emit.context), "named")
        whole = expand(formula, self.elements)
        self.solver.add(z3.Implies(name, self.emit.formula(whole)))
        return name

    def _pins(self, asked: _Asked) -> list[Any]:
        """Random values for some entries, and random signs for some conditions."""
        chance, pins = self.chance, []
        near = chance.choice(EDGES) if chance.random() < 0.5 else 0
        signs = chance.sample(asked.signs, min(SIGNED, len(asked.signs)))
        pins += [s if chance.random() < 0.5 else z3.Not(s) for s in signs]
        terms = chance.sample(asked.looked_at, min(LOOKED_AT, len(asked.looked_at)))
        terms += chance.sample(self._terms, min(PINNED, len(self._terms)))
        pins += [term == self._value(kind, near) for kind, term in terms]
        chance.shuffle(pins)
        return pins

    def _value(self, kind: Type, near: int) -> Any:
        """A random value; numbers are small, or near one that is not."""
        chance = self.chance
        match kind:
            case Bool():
                return z3.BoolVal(chance.random() < 0.5, self.emit.context)
            case EnumOf(members=members):
                return self.emit.formula(g.const(kind, chance.randrange(len(members))))
            case SortOf():
                return self.emit.formula(chance.choice(self.elements[kind]))
            case Option(of=of):
                sort = self.emit.sort(kind)
                if chance.random() < 0.5:
                    return sort.constructor(0)()
                return sort.constructor(1)(self._value(of, near))
            case Range(top=top) if top >= 0:
                return self.emit.number(chance.choice((0, top, chance.randint(0, top))))
        close = near and chance.random() < 0.7
        number = near + chance.randint(-NEAR, NEAR) if close else chance.randint(0, NEAR + 1)
        return self.emit.number(max(number, 0))

    def _sized(self) -> list[Any]:
        """The facts that no natural is larger than the plain Python of a machine takes."""
        found = []
        for kind, term in self._terms:
            guards = []
            while isinstance(kind, Option):
                sort = self.emit.sort(kind)
                guards.append(sort.recognizer(0)(term))
                term, kind = sort.accessor(1, 0)(term), kind.of
            if isinstance(kind, Nat):
                found.append(z3.Or(*guards, term < LARGEST))
        return found

    def _shaped(self) -> list[Any]:
        """The facts that a record's parts are all there or none; channels fill from the first."""
        found, names = [], iter(f.name for f in self.spec.fields)
        before: str | None = None
        for group in groups(self.spec.rich):
            named = [next(names) for _ in range(group.parts)]
            first = named[0]
            for (name, at), entry in self._entries.items():
                if name == first and group.parts > 1:
                    others = [self._entries[other, at] for other in named[1:]]
                    found += [self._absent(entry) == self._absent(e) for e in others]
                if name == first and group.follows:
                    assert before is not None, "a cell follows another"
                    there = z3.Not(self._absent(entry))
                    found.append(z3.Implies(there, z3.Not(self._absent(self._entries[before, at]))))
            before = first
        return found

    def _absent(self, e: Expr) -> Any:
        return self.emit.sort(e.kind).recognizer(0)(self.emit.formula(e))

    # ── What z3 answers ─────────────────────────────────────────────────────────────────────

    def _read(self, case: GuardCase, model: z3.ModelRef) -> Picked:
        reader = Reader(self.emit, Model(model, self.elements))
        read = [reader.read(kind, term) for kind, term in self._terms]
        numbers = dict(zip(self._entries, read, strict=True))
        given = [
            (name, p.kind, {at: reader.number(e) for at, e in entries(p, self.elements)})
            for name, p in case.action.parameters
        ]
        chosen: tuple[Number, ...] = tuple(
            tuple(by.values()) if isinstance(kind, MapOf) else by[()] for _, kind, by in given
        )
        state = self.machine.state((*numbers.values(), 0))
        arguments = self.machine.arguments(case.action, chosen)
        return self._keyed(case, state, arguments, numbers, given)

    def known(self, case: GuardCase, state: Spec, arguments: tuple[Any, ...]) -> Picked:
        """A state that was not picked but come to, with arguments that give this case."""
        numbers = dict(zip(self._entries, self.machine.numbers(state), strict=False))
        chosen = self.machine.arguments_numbers(case.action, arguments)
        given = []
        for (name, p), number in zip(case.action.parameters, chosen, strict=True):
            digits = number if isinstance(number, tuple) else (number,)
            at = (index for index, _ in entries(p, self.elements))
            given.append((name, p.kind, dict(zip(at, digits, strict=True))))
        return self._keyed(case, state, arguments, numbers, given)

    def _keyed(
        self, case: GuardCase, state: Spec, arguments: tuple[Any, ...],
        numbers: Mapping[Entry, int], given: Sequence[Given],
    ) -> Picked:  # fmt: skip
        """The state with its keys; `numbers` and `given` are its own and its arguments'."""
        key, alone = self.alike.key(numbers, given), self.alike.key(numbers)
        return Picked(case, state, arguments, tuple(key), tuple(alone), (*numbers.values(), 0))


@dataclass(frozen=True)
class FieldGroup:
    """Flat fields, one after the other, that are there together, or not at all."""

    parts: int
    follows: bool = False
    """True if they are there only if the group before is: a cell of a channel."""


def groups(rich: Mapping[str, Rich]) -> Iterator[FieldGroup]:
    """A spec's flat fields, in order, by what is there together."""
    for kind in rich.values():
        inner = kind.value if isinstance(kind, Table) else kind
        match inner:
            case MachineOf(shape=shape):
                yield from groups(shape.rich)
            case OptionalRecord():
                yield FieldGroup(sum(1 for _ in parts(inner)))
            case ChannelOf(item=item, capacity=capacity):
                width = sum(1 for _ in parts(optional(item)))
                yield from (FieldGroup(width, follows=cell > 0) for cell in range(capacity))
            case _:
                yield from (FieldGroup(1) for _ in parts(kind))
