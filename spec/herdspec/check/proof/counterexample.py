"""
Counterexamples to induction, in the spec's words.

A `Model` is what z3 found and over which elements; the `Reader` reads it back: as text for people,
and as the numbers of a ground spec's slots, so that every other reading can look at the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import z3

from herdspec.check.proof.universe import Elements, domain, entries, expand, named
from herdspec.check.running.run import said
from herdspec.engine.order import numerals
from herdspec.engine.smt import Emitter
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Specification
from herdspec.language.types import Bool, EnumOf, MapOf, Option, SortOf, Type

Entry = tuple[str, tuple[int, ...]]
"""A field, and the position of an entry in the domains of its keys (`()`: the field itself)."""


@dataclass(frozen=True)
class Counterexample:
    """Two states of a small model, and the arguments of the step between them."""

    sizes: Mapping[str, int]
    arguments: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    numbers: Mapping[Entry, int] = field(default_factory=dict, repr=False)
    """The state before the step, encoded as slots are (`herdspec.language.values.encode`)."""
    excluded_by: tuple[str, ...] = ()
    """Sentences of the spec's own words that are false before the step, and true elsewhere."""
    seen: int = 0
    """In how many states of a small size each of `excluded_by` was seen to be true."""

    @property
    def lines(self) -> list[str]:
        """The state before the step, what the step changes, and what would exclude it."""
        sizes = ", ".join(f"{n} {name.lower()}s" for name, n in self.sizes.items())
        given = ", ".join(f"{k} = {v}" for k, v in self.arguments.items())
        lines = [f"a state with {sizes or 'no elements'}" + (f", {given}" if given else "")]
        lines += [f"    {entry} = {value}" for entry, value in self.before.items()]
        changed = {k: v for k, v in self.after.items() if self.before.get(k) != v}
        lines += ["the step changes"] if changed else []
        lines += [f"    {k}: {self.before.get(k)} → {v}" for k, v in changed.items()]
        if self.excluded_by:
            where = f"true in {self.seen:,} reached states of a small size"
            lines += [f"a lemma would exclude the state before, such as ({where})"]
            lines += [f"    {text}" for text in self.excluded_by]
        return lines


@dataclass
class Model:
    """A z3 model and the elements of its sorts."""

    z3: z3.ModelRef
    elements: Elements

    @staticmethod
    def of(model: z3.ModelRef, spec: Specification, emit: Emitter) -> Model:
        """A model that z3 found with a universe of its own making."""
        elements = {}
        for name in spec.sorts:
            kind = SortOf(name)
            sort = emit.sort(kind)
            universe = model.get_universe(sort) or [z3.Const("any", sort)]  # sorts are never empty
            # Fresh ones: the elements of the small models are other terms.
            elements[kind] = [g.fresh(f"{name.lower()}{k + 1}", kind) for k in range(len(universe))]
            emit.memo.update(zip(elements[kind], universe, strict=True))
        return Model(model, elements)


class Reader:
    """Reads a model in the spec's words."""

    def __init__(self, emit: Emitter, model: Model) -> None:
        self.emit = emit
        self.model = model
        self.numerals = numerals(emit, model.z3)
        self.positions = {
            str(model.z3.eval(emit.formula(e), model_completion=True)): k
            for elements in model.elements.values()
            for k, e in enumerate(elements)
        }
        self.sizes = {kind.name: len(found) for kind, found in model.elements.items()}

    def number(self, e: Expr) -> int:
        """A value as a slot holds it."""
        return self.read(e.kind, self.emit.formula(expand(e, self.model.elements)))

    def read(self, kind: Type, term: Any) -> int:
        """A term's value as a slot holds it."""
        return self._number(kind, self.model.z3.eval(term, model_completion=True))

    def _number(self, kind: Type, value: Any) -> int:
        match kind:
            case Bool():
                return int(z3.is_true(value))
            case EnumOf():
                self.emit.sort(kind)
                return next(k for k, v in enumerate(self.emit.values[kind]) if v.eq(value))
            case SortOf():
                return self.positions[str(value)]
            case Option(of=of):
                return 1 + self._number(of, value.arg(0)) if value.num_args() else 0
        return self.numerals(value)

    def said(self, kind: Type, number: int) -> str:
        """A slot's number as text."""
        match kind:
            case Bool():
                return said(bool(number))
            case EnumOf(members=members):
                return said(members[number])
            case SortOf():
                return named(self.model.elements[kind][number])
            case Option(of=of):
                return self.said(of, number - 1) if number else said(None)
        return str(number)

    def value(self, e: Expr) -> str:
        """A value as text."""
        return self.said(e.kind, self.number(e))

    def numbers(self, fields: Mapping[str, Expr]) -> dict[Entry, int]:
        """Every entry of a state as a number."""
        return {
            (name, at): self.number(entry)
            for name, new in fields.items()
            for at, entry in entries(new, self.model.elements)
        }

    def state(self, kinds: Mapping[str, Type], numbers: Mapping[Entry, int]) -> dict[str, str]:
        """Every entry of a state, or of parameters, as text."""
        found = {}
        for (name, at), number in numbers.items():
            kind = kinds[name]
            if isinstance(kind, MapOf):
                keys = zip(kind.keys, at, strict=True)
                inner = ", ".join(named(domain(key, self.model.elements)[k]) for key, k in keys)
                found[f"{name}[{inner}]"] = self.said(kind.value, number)
            else:
                found[name] = self.said(kind, number)
        return found


def read(
    spec: Specification, emit: Emitter, model: Model, updates: Mapping[str, Expr],
    parameters: tuple[tuple[str, Expr], ...], before: Mapping[str, Expr],
) -> Counterexample:  # fmt: skip
    """The counterexample that a model is: the state `before`, and what `updates` make of it."""
    reader = Reader(emit, model)
    numbers = reader.numbers(before)
    chosen = reader.numbers(dict(parameters))
    kinds = {name: p.kind for name, p in parameters}
    given = reader.state(kinds, chosen)
    made = reader.numbers({name: updates.get(name, e) for name, e in before.items()})
    fields = {f.name: f.kind for f in spec.fields}
    return Counterexample(
        reader.sizes, given, reader.state(fields, numbers), reader.state(fields, made), numbers
    )
