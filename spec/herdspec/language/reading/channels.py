"""
Channels: bounded first-in-first-out sequences, in their two forms.

*Cells* (for explore and everything ground): the k-th message from the front stands in cell k.
*Relational* (for proofs): messages are in flight under tags; to append takes a tag that is free, to
receive takes any tag in flight. Order is lost, so this form allows whatever the channel does, and
more: what is proved of it holds of the channel, for safety only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from herdspec.language import graph as g
from herdspec.language import rich
from herdspec.language.graph import Expr
from herdspec.language.rich import TAG, Place, Struct, Value, in_flight, optional
from herdspec.language.types import INT, NAT, ChannelOf, Option, OptionalRecord

if TYPE_CHECKING:
    from herdspec.language.reading.expressions import Scope


def channel_of(place: Place) -> ChannelOf:
    """The type of a channel."""
    assert isinstance(place.kind, ChannelOf), "asked of channels only"
    return place.kind


def cell(place: Place, number: int) -> Place:
    """A cell of a channel, counted from the front."""
    return place.below(str(number), optional(channel_of(place).item))


def sent(place: Place) -> Place:
    """Which tags are in flight."""
    return place.below("sent", in_flight(channel_of(place))[0])


def message(place: Place) -> Place:
    """The message under each tag."""
    return place.below("message", in_flight(channel_of(place))[1])


def is_there(value: Value) -> Expr:
    """The condition that an optional value is present."""
    if isinstance(value, Struct):
        return value.present
    assert isinstance(value.kind, Option), "a cell is optional"
    return g.negate(g.eq(value, g.none(value.kind)))


def cells(scope: Scope, at: ast.expr, place: Place) -> list[Value]:
    """The values of all cells, absent ones too."""
    return [
        scope.read(at, place).below(f".{k}", optional(channel_of(place).item))  # type: ignore[union-attr]
        for k in range(channel_of(place).capacity)
    ]


def append(scope: Scope, at: ast.expr, place: Place, value: Value) -> None:
    """Send: the last message of the channel; one too many is beyond the bound."""
    kind = channel_of(place)
    if scope.notes.relational:
        tag = scope.notes.invent("tag", TAG)
        free = sent(place).entry((tag,))
        scope.notes.guards.append(scope.everywhere(g.negate(_read(scope, at, free))))
        free.write(scope.state, g.TRUE)
        message(place).entry((tag,)).write(scope.state, value)
        return
    found = cells(scope, at, place)
    scope.notes.fits.append(scope.everywhere(g.negate(is_there(found[-1]))))
    held = scope.fit(at, value, optional(kind.item))
    for k, before in enumerate(found):
        here = g.negate(is_there(before))
        if k:
            here = g.conj(here, is_there(found[k - 1]))
        cell(place, k).write(scope.state, rich.choose(here, held, before))


def pop(scope: Scope, at: ast.expr, place: Place) -> Value:
    """Receive: the first message, which leaves the channel."""
    kind = channel_of(place)
    first = head(scope, at, place)
    if scope.notes.relational:
        tag = scope.notes.heads.pop((place.name, place.indices))
        sent(place).entry((tag,)).write(scope.state, g.FALSE)
        return first
    found = cells(scope, at, place)
    for k in range(kind.capacity):
        after = found[k + 1] if k + 1 < kind.capacity else rich.absent(_kind(found[k]))
        cell(place, k).write(scope.state, after)
    return first


def head(scope: Scope, at: ast.expr, place: Place) -> Value:
    """The first message, which is obliged to be there."""
    if not scope.notes.relational:
        return scope.present(cells(scope, at, place)[0])
    scope.oblige(at_least(scope, at, place, 1))
    key = (place.name, place.indices)
    if key not in scope.notes.heads:
        scope.notes.heads[key] = scope.notes.invent("tag", TAG)
    return _under(scope, at, place, scope.notes.heads[key])


def _under(scope: Scope, at: ast.expr, place: Place, tag: Expr) -> Value:
    """The message under a tag, which is guarded to be in flight."""
    there = _read(scope, at, sent(place).entry((tag,)))
    scope.notes.guards.append(scope.everywhere(there))
    return message(place).entry((tag,)).read(scope.fields_of(at), relational=True)


def entry(scope: Scope, at: ast.expr, place: Place, index: ast.expr) -> Value:
    """A message by its position, counted from the front (below 0: from the end), as in Python."""
    match index:
        case ast.Constant(value=0):
            return head(scope, at, place)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(back))) if back > 0:
            number = g.const(INT, -back)
        case _:
            number = scope.number(index, scope.value(index))
    capacity = channel_of(place).capacity
    if number.op == "const" and not -capacity <= number.data < capacity:
        what = f"`{ast.unparse(at)}[{ast.unparse(index)}]`"
        raise scope.refuse(index, what, f"the channel holds {capacity} messages at most")
    if scope.notes.relational:
        return _one_of(scope, at, place, number)
    found = cells(scope, at, place)
    here = [_is_at(scope, at, place, number, k) for k in range(capacity)]
    there = [g.conj(h, is_there(c)) for h, c in zip(here, found, strict=True)]
    scope.oblige(g.disj(*there))
    value = found[-1]
    for h, c in reversed([*zip(here, found, strict=True)][:-1]):
        value = rich.choose(h, c, value)
    return value.held if isinstance(value, Struct) else g.the(value)


def _is_at(scope: Scope, at: ast.expr, place: Place, number: Expr, position: int) -> Expr:
    """The condition that a number stands for this position: from the end, if below 0."""
    here = g.eq(number, g.const(NAT, position))
    if number.kind != INT:
        return here
    return g.disj(here, g.eq(g.plus(number, length(scope, at, place)), g.const(NAT, position)))


def _one_of(scope: Scope, at: ast.expr, place: Place, number: Expr) -> Value:
    """For proofs, that know no order: some message, of so many that the position is there."""
    there = []
    for k in range(channel_of(place).capacity):
        here = g.eq(number, g.const(NAT, k))
        if number.op == "const" and number.data < 0:
            here = g.boolean(k + 1 == -number.data)
        there.append(g.conj(here, at_least(scope, at, place, k + 1)))
    scope.oblige(g.disj(*there))
    return _under(scope, at, place, scope.notes.invent("tag", TAG))


def clear(scope: Scope, place: Place) -> None:
    """All that is in flight is lost."""
    if scope.notes.relational:
        sent(place).write(scope.state, g.lam((g.fresh("t", TAG),), g.FALSE))
        return
    for k in range(channel_of(place).capacity):
        here = cell(place, k)
        assert isinstance(here.kind, Option | OptionalRecord), "cells are optional"
        here.write(scope.state, rich.absent(here.kind))


def messages(
    scope: Scope, at: ast.expr, place: Place
) -> Iterator[tuple[Value, Expr, tuple[Expr, ...]]]:
    """Each message: its value, whether it is there, and the variables that range over them."""
    if scope.notes.relational:
        tag = g.fresh("t", TAG)
        fields = scope.fields_of(at)
        there = sent(place).entry((tag,)).read(fields, relational=True)
        assert isinstance(there, Expr), "a tag is in flight or not"
        yield message(place).entry((tag,)).read(fields, relational=True), there, (tag,)
        return
    for found in cells(scope, at, place):
        held = found.held if isinstance(found, Struct) else g.the(found)
        yield held, is_there(found), ()


def length(scope: Scope, at: ast.expr, place: Place) -> Expr:
    """The number of messages; for proofs only its comparison with a constant is known."""
    if scope.notes.relational:
        what = f"the length of `{ast.unparse(at)}` in this form"
        raise scope.refuse(at, what, "for proofs compare it with a constant: len(…) > 0, <= 1")
    found: Expr = g.const(NAT, channel_of(place).capacity)
    for k, here in reversed(list(enumerate(cells(scope, at, place)))):
        found = g.ite(is_there(here), found, g.const(NAT, k))
    return found


def compared(scope: Scope, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr | None:
    """For proofs: a channel's length compared with a constant; None where it is none of that."""
    match left, right:
        case ast.Call(func=func, args=[e]), ast.Constant(value=int(number)) if scope.means(
            func, "len"
        ):
            place = scope.place(e)
        case _:
            return None
    if place is None or not isinstance(place.kind, ChannelOf) or not scope.notes.relational:
        return None
    match op:
        case ast.Gt():
            return at_least(scope, e, place, number + 1)
        case ast.GtE():
            return at_least(scope, e, place, number)
        case ast.Lt():
            return g.negate(at_least(scope, e, place, number))
        case ast.LtE():
            return g.negate(at_least(scope, e, place, number + 1))
    more = at_least(scope, e, place, number + 1)
    return g.conj(at_least(scope, e, place, number), g.negate(more))


def at_least(scope: Scope, at: ast.expr, place: Place, number: int) -> Expr:
    """The condition that this many tags have a message; the same expression each time."""
    table = scope.fields_of(at)[sent(place).name]
    key = (table, place.indices, number)
    if key not in scope.notes.counts:
        scope.notes.counts[key] = _at_least(scope, at, place, number)
    return scope.notes.counts[key]


def _at_least(scope: Scope, at: ast.expr, place: Place, number: int) -> Expr:
    tags = [g.fresh("t", TAG) for _ in range(number)]
    found = [_read(scope, at, sent(place).entry((tag,))) for tag in tags]
    pairs = [g.negate(g.eq(a, b)) for k, a in enumerate(tags) for b in tags[:k]]
    truth = g.conj(*found, *pairs)
    for tag in tags:
        truth = g.exists(tag, truth)
    return truth


def _read(scope: Scope, at: ast.expr, place: Place) -> Expr:
    found = place.read(scope.fields_of(at), relational=True)
    assert isinstance(found, Expr), "a tag is in flight or not"
    return found


def _kind(value: Value) -> Option | OptionalRecord:
    assert isinstance(value.kind, Option | OptionalRecord), "cells are optional"
    return value.kind
