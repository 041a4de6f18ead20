"""
Candidates for lemmas, from a template and from the spec's own words.

The atoms are what guards, promises and assignments of the spec compare or look up (`holds[c]`,
`phase[m] == ABORTED`); a candidate is a disjunction of up to three of them, negated or not, for all
elements or for every two different ones. Kept is what is true in every state that was reached at a
small size; dropped is what is true of *any* state, and what a shorter candidate says already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from herdspec.check.proof.universe import domain
from herdspec.check.running.wording import text
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.engine.ground import Ground
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Specification
from herdspec.language.types import BOOL, NAT, EnumOf, MapOf, SortOf, is_number

LONGEST_ATOM = 9
"""Atoms with more nodes than this are not used: what they say is seldom a lemma's part."""
MOST_LITERALS = 160
"""With more literals than this over one choice of variables, the longest atoms are left out."""

Bits = NDArray[np.uint8]
"""Packed: in which (state, choice of elements) each literal is false; one row a literal."""


@dataclass(frozen=True)
class Candidate:
    """For all elements (of one sort: different ones): one of these literals is true."""

    variables: tuple[Expr, ...]
    literals: tuple[Expr, ...]
    different: bool = True

    @cached_property
    def formula(self) -> Expr:
        """The candidate as a closed formula."""
        body = g.disj(*self._equal, *self.literals)
        for v in reversed(self.variables):
            body = g.forall(v, body)
        return body

    @property
    def _equal(self) -> list[Expr]:
        pairs = combinations(self.variables, 2) if self.different else ()
        return [g.eq(a, b) for a, b in pairs if a.kind == b.kind]

    @property
    def text(self) -> str:
        """The candidate as Python, over a state named `s`."""
        refused = [e.args[0] for e in self.literals if e.op == "not"]
        allowed = [text(e) for e in self.literals if e.op != "not"]
        if len(refused) == 1 and not allowed:
            words = text(g.negate(refused[0]))
        elif refused:
            together = " and ".join(map(text, refused))
            words = " or ".join([f"not ({together})" if len(refused) > 1 else
                                 text(g.negate(refused[0])), *allowed])  # fmt: skip
        else:
            words = " or ".join(allowed)
        words = words.replace("self.", "s.")
        if not self.variables:
            return words
        loops = " ".join(f"for {text(v)} in {v.kind.name}" for v in self.variables)  # type: ignore[union-attr]
        if self._equal:
            x, y = map(text, self.variables)
            loops += f" if {x} != {y}"
        return f"all({words} {loops})"

    @property
    def weight(self) -> tuple[int, int, int, str]:
        """The simpler, the less."""
        said = self.text
        return len(self.literals), len(self.variables), len(said), said


def merged(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates, where what holds of two different elements and of one is said at once."""
    kept = {(c.variables, frozenset(c.literals)): c for c in candidates}
    for (variables, literals), c in list(kept.items()):
        if len(c.variables) == 2 and c._equal:
            x, y = variables
            same = frozenset(g.substitute(e, {y: x}) for e in literals)
            if kept.pop(((x,), same), None):
                kept[variables, literals] = Candidate(variables, c.literals, different=False)
    return sorted(kept.values(), key=lambda c: c.weight)


# ── Atoms ───────────────────────────────────────────────────────────────────────────────────


def atoms_of(spec: Specification) -> list[Expr]:
    """The atoms of a spec: what it compares, looks up and assigns; shortest first."""
    found: dict[Expr, None] = {}
    for e in formulas_of(spec):
        found.update(dict.fromkeys(_atoms(e)))
    fields = {f.name: g.field(f.name, f.kind) for f in spec.fields}
    for action in spec.actions:
        for name, new in action.updates.items():
            found.update(dict.fromkeys(_assigned(fields[name], new)))
    for atom in list(found):
        found.update(dict.fromkeys(_compared(atom)))
    plain = [a for a in found if a.op != "const" and len(_nodes(a)) <= LONGEST_ATOM]
    return sorted(plain, key=lambda a: (len(_nodes(a)), text(a)))


def formulas_of(spec: Specification) -> Iterator[Expr]:
    """The guards and properties of a spec."""
    yield from (a.guard for a in spec.actions)
    yield from (p.formula for p in spec.properties)


def _nodes(e: Expr) -> set[Expr]:
    seen: set[Expr] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            todo.extend(x.args)
    return seen


def _atoms(e: Expr) -> Iterator[Expr]:
    """The comparisons and lookups in a formula that speak of one state."""
    iff = e.op == "eq" and e.args[0].kind == BOOL
    if e.op in ("field", "select", "eq", "le") and e.kind == BOOL and not iff:
        speaks = any(x.op == "field" for x in _nodes(e))
        if speaks and not any(x.op in ("after", "ite", "all", "any", "number") for x in _nodes(e)):
            yield e
        return
    for x in e.args:
        yield from _atoms(x)


def _compared(atom: Expr) -> Iterator[Expr]:
    """Of two numbers that are compared in one way: the other ways."""
    if atom.op in ("eq", "le") and all(map(is_number, (x.kind for x in atom.args))):
        a, b = atom.args
        yield from (e for e in (g.le(a, b), g.le(b, a)) if e.op == "le")


def _assigned(entry: Expr, new: Expr) -> Iterator[Expr]:
    """Atoms: an entry is what an action assigns to it, if that is a constant or an element."""
    match new.op:
        case "store":
            yield from _assigned(g.select(entry, *new.args[1:-1]), new.args[-1])
            yield from _assigned(entry, new.args[0])
        case "lam":
            yield from _assigned(g.select(entry, *new.args[:-1]), new.args[-1])
        case "ite":
            yield from _assigned(entry, new.args[1])
            yield from _assigned(entry, new.args[2])
        case "const" | "some" | "field" | "select" | "var" if not isinstance(entry.kind, MapOf):
            made = g.eq(entry, new)
            atom = made.args[0] if made.op == "not" else made
            if atom.op != "const" and atom.kind == BOOL:
                yield atom


# ── Literals over chosen variables ──────────────────────────────────────────────────────────


def templates(spec: Specification) -> Iterator[tuple[Expr, ...]]:
    """No variable, one, two of one sort, or of two sorts."""
    sorts = [SortOf(name) for name in spec.sorts]
    yield ()
    for k in sorts:
        yield (g.variable("x", k),)
    for k in sorts:
        yield (g.variable("x", k), g.variable("y", k))
    for a, b in combinations(sorts, 2):
        yield (g.variable("x", a), g.variable("y", b))


def instances(atom: Expr, variables: Sequence[Expr]) -> Iterator[Expr]:
    """An atom over these variables, in every way; what is no element takes every value."""
    holes = sorted(g.leaves(atom, "var"), key=lambda v: v.key)
    choices = []
    for hole in holes:
        if isinstance(hole.kind, SortOf):
            choices.append([v for v in variables if v.kind == hole.kind])
        elif hole.kind == BOOL or isinstance(hole.kind, EnumOf):
            choices.append(domain(hole.kind, {}))
        else:
            return
    for chosen in product(*choices):
        made = g.substitute(atom, dict(zip(holes, chosen, strict=True)))
        if made.op != "const":
            yield made.args[0] if made.op == "not" else made


@dataclass(frozen=True)
class Pool:
    """The literals over one choice of variables; each atom, then its negation."""

    variables: tuple[Expr, ...]
    literals: tuple[Expr, ...]

    @staticmethod
    def of(atoms: Iterable[Expr], variables: tuple[Expr, ...]) -> Pool:
        """The pool of these atoms over these variables."""
        found: dict[Expr, None] = {}
        for atom in atoms:
            found.update(dict.fromkeys(instances(atom, variables)))
        kept = list(found)[: MOST_LITERALS // 2]
        return Pool(variables, tuple(x for a in kept for x in (a, g.negate(a))))

    def choices(self, sizes: Mapping[str, int]) -> list[dict[Expr, Expr]]:
        """Every choice of different elements for the variables, as numbers."""
        names = [v.kind.name for v in self.variables]  # type: ignore[union-attr]
        if len(set(names)) == 1:
            chosen: Iterable[tuple[int, ...]] = permutations(range(sizes[names[0]]), len(names))
        else:
            chosen = product(*(range(sizes[name]) for name in names))
        return [
            {v: g.const(NAT, k) for v, k in zip(self.variables, of, strict=True)} for of in chosen
        ]

    def false_in(self, packing: Packing, rows: Words) -> Bits:
        """Where each literal is false."""
        ground, columns = packing.ground, Columns(packing, rows)
        choices = self.choices(ground.sizes)
        found = []
        for atom in self.literals[::2]:
            truths = [np.broadcast_to(columns.of(ground.lower(atom, env)), len(rows))
                      for env in choices] or [np.zeros(0, bool)]  # fmt: skip
            truth = np.concatenate(truths).astype(bool)
            found += [np.packbits(~truth), np.packbits(truth)]
        return np.array(found, np.uint8) if found else np.zeros((0, 0), np.uint8)

    @cached_property
    def uses(self) -> list[frozenset[Expr]]:
        """Which of the variables each literal names."""
        mine = set(self.variables)
        return [frozenset(g.leaves(e, "var") & mine) for e in self.literals]

    @cached_property
    def swapped(self) -> list[int]:
        """Each literal's twin, if the two variables (of one sort) change places."""
        same = len({v.kind for v in self.variables}) < len(self.variables)
        if not same:
            return list(range(len(self.literals)))
        by = dict(zip(self.variables, self.variables[::-1], strict=True))
        number = {e: k for k, e in enumerate(self.literals)}
        return [number.get(g.substitute(e, by), k) for k, e in enumerate(self.literals)]

    def clauses(
        self, false: Bits, ever: Bits, width: int, given_up: Collection[Candidate] = ()
    ) -> list[Candidate]:
        """
        The candidates of up to so many literals that are nowhere false, and are not trivial.

        `false`: where the literals are false among reached states; `ever`: among any states. What
        was `given_up` may have longer clauses, which a true clause has not: they say less.
        """
        found = Clauses(self, false, ever)
        found.give_up(given_up)
        found.singles()
        found.pairs()
        if width > 2:
            found.triples()
        everywhere = frozenset(self.variables)
        kept: dict[tuple[int, ...], None] = {}
        for clause in found.kept:
            if frozenset().union(*(self.uses[k] for k in clause)) == everywhere:
                other = tuple(sorted(self.swapped[k] for k in clause))
                kept[min(clause, other)] = None
        return [Candidate(self.variables, tuple(self.literals[k] for k in c)) for c in kept]


class Clauses:
    """The search for true clauses: a clause that contains a true one is not looked at."""

    def __init__(self, pool: Pool, false: Bits, ever: Bits) -> None:
        self.pool = pool
        self.given_up: set[tuple[int, ...]] = set()
        self.number = len(pool.literals)
        self.false = false
        self.ever = ever
        self.holds: NDArray[np.bool_] = ~np.any(false, axis=1) if self.number else np.zeros(0, bool)
        self.pair_holds = np.zeros((self.number, self.number), bool)
        self.kept: list[tuple[int, ...]] = []

    def give_up(self, candidates: Collection[Candidate]) -> None:
        """These are true where we look, and yet no lemmas: longer clauses are looked at."""
        number = {e: k for k, e in enumerate(self.pool.literals)}
        for c in candidates:
            if c.variables == self.pool.variables:
                clause = [number[e] for e in c.literals]
                self.given_up.add(tuple(sorted(clause)))
                self.given_up.add(tuple(sorted(self.pool.swapped[k] for k in clause)))
        for of in self.given_up:
            if len(of) == 1:
                self.holds[of[0]] = False

    def singles(self) -> None:
        """Literals that are true everywhere."""
        for k in np.flatnonzero(self.holds):
            if self.ever[k].any():
                self.kept.append((int(k),))

    def pairs(self) -> None:
        """Two literals, of which one is always true."""
        for a in range(self.number):
            self.pair_holds[a] = self.holds | self.holds[a] | ~(self.false & self.false[a]).any(1)
            self.pair_holds[a, a] = self.holds[a]
        for of in self.given_up:
            if len(of) == 2:
                self.pair_holds[of[0], of[1]] = self.pair_holds[of[1], of[0]] = False
        for a, b in zip(*np.nonzero(np.triu(self.pair_holds, 1)), strict=True):
            free = not (self.holds[a] or self.holds[b]) and b != a ^ 1
            if free and (self.ever[a] & self.ever[b]).any():
                self.kept.append((int(a), int(b)))

    def triples(self) -> None:
        """Three literals, of which one is always true."""
        for a in range(self.number):
            for b in range(a + 1, self.number):
                if self.pair_holds[a, b]:
                    continue
                rest = np.arange(b + 1, self.number)
                rest = rest[~self.pair_holds[a, rest] & ~self.pair_holds[b, rest]]
                both = self.false[a] & self.false[b]
                rest = rest[~(self.false[rest] & both).any(axis=1)]
                some = self.ever[a] & self.ever[b]
                rest = rest[(self.ever[rest] & some).any(axis=1)]
                self.kept += [(a, b, int(c)) for c in rest]


def any_states(ground: Ground, packing: Packing, number: int = 2048) -> Words:
    """States that are well typed and nothing else, always the same ones."""
    chance = np.random.default_rng(0)
    rows = np.zeros((number, packing.words), np.uint64)
    for key, slot in ground.slots.items():
        packing.write(rows, key, chance.integers(0, slot.values, number))
    return rows


__all__ = ["Bits", "Candidate", "Pool", "any_states", "atoms_of", "merged", "templates"]
