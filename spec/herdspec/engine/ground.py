"""
Lowering: a spec for given sort sizes, over numbered slots instead of maps and quantifiers.

Every entry of the state becomes a *slot* that holds a small number (see `encode`), every choice of
parameters an *instance* of its action: a guard and the new value of each slot that it changes.
Emitters (`columns.py`) need to know nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from herdspec.language import graph as g
from herdspec.language.errors import UsageError
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, Promise, Specification, encode
from herdspec.language.surface import Kind
from herdspec.language.types import BOOL, NAT, Bool, EnumOf, MapOf, Nat, Option, Scalar, SortOf

LARGEST = 256
"""How many values a slot can have: a column of values holds bytes."""
FAULTS = "faults taken"
"""The name of the hidden slot that counts what disturbs, against the budget."""


@dataclass(frozen=True)
class Slot:
    """One small number of the state: `values` of them, 0-based; `index` within a map."""

    field: str
    index: int | None
    kind: Scalar
    values: int
    initial: int

    @property
    def is_bounded(self) -> bool:
        """Whether a step may lead beyond its values: naturals are bounded here only."""
        kind = self.kind.of if isinstance(self.kind, Option) else self.kind
        return isinstance(kind, Nat)

    @property
    def expr(self) -> Expr:
        """The leaf that reads it."""
        kind = BOOL if isinstance(self.kind, Bool) else NAT
        return g.node("slot", kind, data=(self.field, self.index))


@dataclass(frozen=True)
class Instance:
    """An action with its parameters chosen."""

    action: Action
    arguments: tuple[int, ...]
    guard: Expr
    updates: Mapping[tuple[str, int | None], Expr]

    @property
    def by_protocol(self) -> bool:
        """Whether the protocol takes this step by itself."""
        return self.action.kind is Kind.STEP


@dataclass(frozen=True)
class Ground:
    """A spec lowered for `sizes` of its sorts, naturals up to `bound`, and `faults` at most."""

    spec: Specification
    sizes: Mapping[str, int]
    bound: int
    faults: int
    memo: dict[Any, Expr] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in self.spec.sorts:
            if self.sizes.get(name, 0) < 1:
                raise UsageError(f"{self.spec.name} needs a size for its sort {name}: at least 1")
        for slot in self.slots.values():
            if not slot.initial < slot.values <= LARGEST:
                what = f"{slot.field} starts with {slot.initial} and has {slot.values} values"
                raise UsageError(f"{what}: bound it by at least its start, by less than {LARGEST}")

    @cached_property
    def slots(self) -> dict[tuple[str, int | None], Slot]:
        """All slots by field and index, the hidden one last."""
        found: dict[tuple[str, int | None], Slot] = {}
        for f in self.spec.fields:
            scalar = f.kind.value if isinstance(f.kind, MapOf) else f.kind
            keys = range(self.sizes[f.kind.key.name]) if isinstance(f.kind, MapOf) else (None,)
            for k in keys:
                start = encode(scalar, f.initial)
                found[f.name, k] = Slot(f.name, k, scalar, self.values(scalar), start)
        found[FAULTS, None] = Slot(FAULTS, None, NAT, self.faults + 1, 0)
        return found

    def values(self, kind: Scalar) -> int:
        """How many values a type has here."""
        match kind:
            case Bool():
                return 2
            case Nat():
                return self.bound + 1
            case EnumOf(members=members):
                return len(members)
            case SortOf(name=name):
                return self.sizes[name]
            case Option(of=of):
                return 1 + self.values(of)

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """Every action with every choice of parameters whose guard is not plainly false."""
        found = (self.instance(a, args) for a in self.spec.actions for args in self.choices(a))
        return tuple(i for i in found if i.guard is not g.FALSE)

    def choices(self, action: Action) -> list[tuple[int, ...]]:
        """The choices of an action's parameters, in order."""
        ranges = [range(self.values(p.kind)) for _, p in action.parameters]  # type: ignore[arg-type]
        return list(product(*ranges))

    def instance(self, action: Action, arguments: tuple[int, ...]) -> Instance:
        """One action for one choice."""
        env = _environment(action, arguments)
        guard = self.lower(action.guard, env)
        updates: dict[tuple[str, int | None], Expr] = {}
        for name, new in action.updates.items():
            for key, slot in self.slots.items():
                if slot.field == name:
                    made = self.lower(self._entry(new, slot), env)
                    if made is not slot.expr:
                        updates[key] = made
        if action.disturbs:
            taken = self.slots[FAULTS, None].expr
            guard = g.conj(guard, g.le(taken, g.const(NAT, self.faults - 1)))
            if self.faults == 0:
                guard = g.FALSE
            updates[FAULTS, None] = g.add(taken, 1)
        return Instance(action, arguments, guard, updates)

    def _entry(self, new: Expr, slot: Slot) -> Expr:
        if slot.index is None:
            return new
        assert isinstance(new.kind, MapOf), "only a map's slots have an index"
        return g.select(new, g.const(new.kind.key, slot.index))

    def property(self, promise: Promise) -> Expr:
        """A property's formula over slots (and, for a step, over `after` leaves of slots)."""
        return self.lower(promise.formula, {})

    def after(self, formula: Expr, instance: Instance) -> Expr:
        """A step property for one instance, over the slots before it."""
        leaves = g.leaves(formula, "slot after")
        new = {x: instance.updates.get(x.data, self.slots[x.data].expr) for x in leaves}
        return g.substitute(formula, new)

    def of_instance(self, formula: Expr, instance: Instance) -> Expr:
        """A formula over fields and an action's parameters, for one instance."""
        return self.lower(formula, _environment(instance.action, instance.arguments))

    # ── Expressions ─────────────────────────────────────────────────────────────────────────

    def lower(self, e: Expr, env: Mapping[Expr, Expr]) -> Expr:
        """An expression over slots; `env` says which number each variable stands for."""
        key = (e, tuple(env.items()))
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._lower(e, env)
        return found

    def _lower(self, e: Expr, env: Mapping[Expr, Expr]) -> Expr:
        match e.op:
            case "const":
                return e if e.kind == BOOL else g.const(NAT, 0 if e.data is None else e.data)
            case "var":
                return env[e]
            case "field" | "after":
                return self._leaf(e, None)
            case "select":
                return self._entries(e, env)
            case "some":
                return self._plus_one(self.lower(e.args[0], env))
            case "all" | "any":
                bound, body = e.args
                join = g.conj if e.op == "all" else g.disj
                numbers = range(self.values(bound.kind))  # type: ignore[arg-type]
                return join(*(self.lower(body, {**env, bound: g.const(NAT, n)}) for n in numbers))
        return g.rebuild(e, tuple(self.lower(a, env) for a in e.args))

    def _leaf(self, e: Expr, index: int | None) -> Expr:
        slot = self.slots[e.data, index]
        if e.op == "field":
            return slot.expr
        return g.node("slot after", slot.expr.kind, data=(e.data, index))

    def _entries(self, e: Expr, env: Mapping[Expr, Expr]) -> Expr:
        table, at = e.args[0], self.lower(e.args[1], env)
        if at.op == "const":
            return self._leaf(table, at.data)
        assert isinstance(table.kind, MapOf), "only maps are looked up"
        found = self._leaf(table, 0)
        for k in range(1, self.sizes[table.kind.key.name]):
            found = g.ite(g.eq(at, g.const(NAT, k)), self._leaf(table, k), found)
        return found

    def _plus_one(self, e: Expr) -> Expr:
        if e.kind == BOOL:
            return g.ite(e, g.const(NAT, 2), g.const(NAT, 1))
        return g.add(e, 1)


def _environment(action: Action, arguments: tuple[int, ...]) -> dict[Expr, Expr]:
    """The numbers that an action's parameters stand for."""
    return {
        p: g.boolean(bool(n)) if p.kind == BOOL else g.const(NAT, n)
        for (_, p), n in zip(action.parameters, arguments, strict=True)
    }
