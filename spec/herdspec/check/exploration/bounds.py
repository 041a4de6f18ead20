"""
Bounds of a search: how far the bound of naturals is raised by itself, and what was left out.

Where nobody says how large a natural may be, a search begins with a small bound and doubles it
until no successor is left out: most specs' numbers are bounded by their guards and faults. What
is left out in the end is a `Cut`, which names the field, its bound and the line that ran into it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from herdspec.check.exploration.numpy_engine import CHUNK, truths
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.engine.ground import FAULTS, Ground, GroundAction, SlotKey
from herdspec.engine.starts import Start
from herdspec.language import graph as g
from herdspec.language.errors import NothingWithin
from herdspec.language.graph import Expr
from herdspec.language.reading.source import Function
from herdspec.language.rich import joined
from herdspec.language.specification import Action, Specification
from herdspec.language.types import ChannelOf, MachineOf, MapOf, Nat, Option, Shape, Table, Type

TIMES = 4
"""The number of times that the bound of naturals is doubled at most."""
PATIENCE_SECONDS = 20.0
"""The seconds for which doubling may go on, from the beginning of the first search."""
MOST_STATES = 1 << 21
"""In so many states it is looked for what was cut."""

_Found = TypeVar("_Found")


def first_bound(spec: Specification, faults: int) -> int:
    """The bound of naturals that a search begins with: above the faults, and no start beyond it."""
    starts = [f.initial for f in spec.fields if _counts(f.kind) and isinstance(f.initial, int)]
    return max(faults + 1, *starts, 1)


def _counts(kind: Type) -> bool:
    """Tells whether entries of this type are naturals."""
    while isinstance(kind, MapOf | Option):
        kind = kind.value if isinstance(kind, MapOf) else kind.of
    return isinstance(kind, Nat)


def raised(
    first: int,
    attempt: Callable[[int, float | None], _Found | None],
    is_cut: Callable[[_Found], bool],
    times: int = TIMES,
) -> tuple[_Found, tuple[int, ...]]:
    """
    The result of the first bound at which nothing is cut, or of the largest that was finished.

    `attempt` searches within a bound, in so many seconds (None: however long it takes), and gives
    None where they were not enough. The bound is doubled at most so many `times`. Also returns the
    bounds that were finished, in order. Raises `NothingWithin` if no bound has an initial state.
    """
    begun, found = perf_counter(), None
    tried: list[int] = []
    for bound in (first << k for k in range(times + 1)):
        left = PATIENCE_SECONDS - (perf_counter() - begun)
        if found is not None and (left <= 0 or not is_cut(found)):
            break
        try:
            better = attempt(bound, None if found is None else left)
        except NothingWithin:
            if bound == first << times:
                raise
            continue
        if better is None:
            break
        found = better
        tried.append(bound)
    assert found is not None, "a search without a limit of time comes to an end"
    return found, tuple(tried)


@dataclass(frozen=True)
class Cut:
    """
    Successors that a search left out: the first one of its field, in the order of the search.

    `field` would have been above `limit` (or, of a channel, held more messages than that) after
    `action`; `file` and `line` are where the action writes it.
    """

    field: str
    limit: int
    is_channel: bool
    action: str
    file: str
    line: int

    @property
    def said(self) -> str:
        """The bound in few words."""
        unit = "message" if self.limit == 1 else "messages"
        return (
            f"{self.limit} {unit} in {self.field}"
            if self.is_channel
            else f"{self.field} up to {self.limit}"
        )

    @property
    def sentence(self) -> str:
        """The sentence that says what was cut, where, and what to do."""
        place = f"{self.action} ({Path(self.file).name}:{self.line})"
        if self.is_channel:
            held = f"{place} sends to {self.field}, which holds its {self.limit} already"
            return f"{held}: raise its Capacity, or say that it is meant, with --within"
        above = f"{place} takes {self.field} above {self.limit}"
        larger = f"--bound {2 * self.limit}"
        return f"{above}: raise it with {larger}, or say that it is meant, with --within"


def beyond(cuts: list[Cut], bound: int) -> str:
    """The bounds that were run into, in few words; where nobody knows, that of naturals."""
    return " and ".join(cut.said for cut in cuts) or f"naturals up to {bound}"


def cuts_of(packing: Packing, rows: Words, limit: Expr = g.TRUE) -> list[Cut]:
    """The cuts of the steps from these states (but those without the `limit`), by field."""
    ways = list(overflows(packing.ground))
    found: dict[str, Cut] = {}
    for low in range(0, min(len(rows), MOST_STATES), CHUNK):
        columns = Columns(packing, rows[low : low + CHUNK])
        allowed = truths(columns, limit)
        for way in ways:
            if way.field not in found and (allowed & _happens(way, columns)).any():
                found[way.field] = cut_by(packing.ground, way)
    return list(found.values())


def cut_by_start(ground: Ground, start: Start) -> Cut:
    """The cut of a start, if some choice of its parameters leaves a bound."""
    assert start.action is not None, "what is declared is within the bounds"
    fields = [k[0] for k in start.updates if ground.slots[k].is_bounded]
    field = fields[0] if fields else next(iter(dict(_channels(ground.spec.shape))))
    place = _place_of_write(ground.spec, start.action, field)
    return Cut(field, ground.bound, not fields, start.action.name, *place)


def cut_by(ground: Ground, way: Overflow) -> Cut:
    """The cut of a step, if it leaves its bound in this way."""
    action = way.instance.action
    place = _place_of_write(ground.spec, action, way.field)
    return Cut(way.field, way.limit, way.key is None, action.name, *place)


@dataclass(frozen=True)
class Overflow:
    """A way to leave a bound: `new` is none of the slot's values, or a channel is `full`."""

    instance: GroundAction
    field: str
    limit: int
    key: SlotKey | None = None
    new: Expr = g.FALSE
    full: Expr = g.FALSE
    values: int = 0

    @property
    def possible(self) -> Expr:
        """The condition that the step can be taken, bound or no bound."""
        return g.conj(self.instance.guard, self.instance.defined)


def _happens(way: Overflow, columns: Columns) -> NDArray[np.bool_]:
    """In which states the step is possible and left out."""
    possible = truths(columns, way.possible)
    if way.key is None:
        return possible & truths(columns, way.full)
    above: NDArray[np.bool_] = columns.of(way.new) >= way.values
    return possible & above


def overflows(ground: Ground) -> Iterator[Overflow]:
    """Every way in which some step may leave a bound."""
    channels = dict(_channels(ground.spec.shape))
    for instance in ground.instances:
        for key, new in instance.updates.items():
            slot = ground.slots[key]
            if slot.is_bounded and slot.field != FAULTS:
                yield Overflow(instance, slot.field, ground.bound, key, new, values=slot.values)
        parts = instance.fits.args if instance.fits.op == "and" else (instance.fits,)
        for part in parts:
            for name in _overfilled(instance, part, list(channels)):
                yield Overflow(instance, name, channels[name], full=g.negate(part))


def _overfilled(instance: GroundAction, part: Expr, channels: list[str]) -> list[str]:
    """
    The channels that a step may overfill where a part of what `fits` does not hold.

    It need not read the channel: what is sent second in one step overfills it whatever it holds.
    """
    if part is g.TRUE:
        return []
    written = _among(channels, (key[0] for key in instance.updates))
    read = _among(channels, (leaf.data[0] for leaf in g.leaves(part, "slot")))
    return [c for c in read if c in written] or written or read or channels


def _among(channels: list[str], fields: Iterable[str]) -> list[str]:
    """The channels whose flat parts are among these fields."""
    flat = set(fields)
    return [c for c in channels if any(f.startswith(f"{c}.") for f in flat)]


def _channels(shape: Shape, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The flat names of all channels, with how many messages each holds."""
    for name, kind in shape.rich.items():
        inner = kind.value if isinstance(kind, Table) else kind
        if isinstance(inner, ChannelOf):
            yield joined(prefix, name), inner.capacity
        elif isinstance(inner, MachineOf):
            yield from _channels(inner.shape, joined(prefix, name))


def _place_of_write(spec: Specification, action: Action, field: str) -> tuple[str, int]:
    """The file and the line where an action (or a helper of it) writes a field."""
    names = set(field.split("."))
    todo, seen = [action.name.rpartition(".")[2]], set[str]()
    methods = _methods(spec, action)
    while todo:
        function = methods.get(todo.pop(0))
        if function is None or function.name in seen:
            continue
        seen.add(function.name)
        for node in ast.walk(function.tree):
            written = (a for target in _written(node) for a in ast.walk(target))
            if any(isinstance(a, ast.Attribute) and a.attr in names for a in written):
                return function.file, getattr(node, "lineno", function.line)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                todo.append(node.func.attr)
    return action.file, action.line


def _methods(spec: Specification, action: Action) -> dict[str, Function]:
    """The functions that an action may call, and itself: of its part's spec, or of the whole."""
    shape = spec.shape
    for part in action.name.split(".")[:-1]:
        kind = shape.rich[part]
        inner = kind.value if isinstance(kind, Table) else kind
        assert isinstance(inner, MachineOf), "a part of a path is a machine"
        shape = inner.shape
    return dict(shape.methods)


def _written(node: ast.AST) -> list[ast.expr]:
    """The places that a statement assigns to, or sends to."""
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AugAssign(target=target):
            return [target]
        case ast.Call(func=ast.Attribute(value=owner, attr="append")):
            return [owner]
    return []
