"""
Finds what may keep z3 from an answer: cycles of alternating quantifiers, maps from numbers.

"For every member there is a partition" makes, where it is assumed, a function from members to
partitions; a field `dict[Partition, Member]` is one back. Terms then grow without end, and the
formulas are outside of the fragment that z3 decides (effectively propositional logic, with
stratified functions). Such proofs may succeed all the same; there is no promise that they end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation
from herdspec.language.types import MapOf, Option, SortOf, Type, is_number

NUMBER = "Nat"
Arrow = tuple[str, str, str]
"""From a sort, to a sort, and whose doing it is."""


def warnings_of(
    spec: Specification, promises: Sequence[DeclaredProperty], *, order: bool = False
) -> tuple[str, ...]:
    """The warnings of one proof, as sentences; none where z3 decides every obligation."""
    found = []
    arrows = list(arrows_of(spec, promises, order))
    cycle = cycle_of(arrows)
    if cycle:
        by = sorted({name for a, b, name in arrows if (a, b) in set(pairwise(cycle))})
        found.append(
            f"functions and quantifiers run in a cycle, {' → '.join(cycle)} "
            f"(by {', '.join(by)}): z3 may give up where it would decide without"
        )
    for f in spec.fields:
        if isinstance(f.kind, MapOf) and any(map(is_number, f.kind.keys)):
            found.append(f"{f.name} is a map from numbers: z3 may give up on what is said of all")
    return tuple(found)


def cycle_of(arrows: Iterable[Arrow]) -> list[str]:
    """A cycle of sorts, its first repeated at the end; empty if there is none."""
    before: dict[str, set[str]] = {}
    for a, b, _ in arrows:
        before.setdefault(b, set()).add(a)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def arrows_of(
    spec: Specification, promises: Sequence[DeclaredProperty], order: bool
) -> Iterator[Arrow]:
    """The functions between sorts: fields, and what quantifiers in hypotheses and goals become."""
    for f in spec.fields:
        if isinstance(f.kind, MapOf) and (to := sort_of(f.kind.value)):
            yield from ((name, to, f.name) for k in f.kind.keys if (name := sort_of(k)))
    for p in promises:
        assumed = (True, False) if p.expectation is Expectation.ALWAYS else (False,)
        for positive in assumed:
            yield from ((a, b, p.name) for a, b in alternations(p.formula, positive))
    for action in spec.actions:
        yield from ((a, b, action.name) for a, b in alternations(action.guard, True))
    if order:
        formulas = [(p.name, p.formula) for p in promises]
        yield from ((NUMBER, NUMBER, name) for name, e in formulas if _adds_under_quantifier(e))


def sort_of(kind: Type) -> str | None:
    """The sort of a value, if it is, or may be, an element of one."""
    while isinstance(kind, Option):
        kind = kind.of
    return kind.name if isinstance(kind, SortOf) else None


def alternations(e: Expr, positive: bool) -> set[tuple[str, str]]:
    """Each sort that is ranged over by an "every", with each by a "some" within that."""
    found: set[tuple[str, str]] = set()

    def walk(x: Expr, sign: bool, every: tuple[Expr, ...]) -> None:
        if x.op in ("all", "any") and isinstance(x.args[0].kind, SortOf):
            bound, body = x.args
            if (x.op == "all") == sign:
                walk(body, sign, (*every, bound))
            else:
                seen = [v for v in every if v in g.leaves(body, "var")]
                found.update((v.kind.name, bound.kind.name) for v in seen)  # type: ignore[union-attr]
                walk(body, sign, every)
        elif x.op == "not":
            walk(x.args[0], not sign, every)
        elif x.op in ("eq", "ite"):
            for part in x.args:
                walk(part, True, every)
                walk(part, False, every)
        else:
            for part in x.args:
                walk(part, sign, every)

    walk(e, positive, ())
    return found


def _adds_under_quantifier(e: Expr) -> bool:
    bound = {q.args[0] for op in ("all", "any") for q in g.leaves(e, op)}
    return any(bound & g.leaves(s, "var") for s in g.leaves(e, "add"))
