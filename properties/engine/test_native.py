"""The engines agree bit by bit: NumPy, native code, and native code with two threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from herdspec import (
    Capacity,
    Nat,
    Sort,
    Spec,
    UpTo,
    UsageError,
    action,
    always,
    each,
    empty,
    initial,
    require,
    specification,
    step,
)
from herdspec.check.exploration.explore import Exploration, Explorer
from herdspec.check.running.run import Machine
from herdspec.engine import native, native_emit, native_runtime, native_threads
from herdspec.engine.columns import Columns, Packing, Words
from herdspec.engine.ground import Ground
from herdspec.engine.native import Native
from herdspec.engine.native_emit import Checks
from herdspec.engine.native_runtime import At, Runtime
from herdspec.engine.native_text import Code, Value
from herdspec.engine.native_threads import Threaded
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Specification, from_source
from herdspec.language.types import NAT
from herdspec.protocols.election.flaws import DRAFTED
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.refinement import REFINEMENT
from properties.language.random_specs import sources
from properties.specs import (
    LOCK_SERVER,
    TWO_PHASE_COMMIT,
    Counter,
    it_can_get_to_three,
    it_can_get_to_zero,
    it_counts_by_one,
    it_gets_to_four,
    it_gets_to_three,
    it_never_counts_to_two,
    never_above_one,
    never_above_three,
)

COUNTER = specification(
    Counter, never_above_three, never_above_one, it_gets_to_three, it_gets_to_four,
    it_can_get_to_three, it_can_get_to_zero, it_counts_by_one, it_never_counts_to_two,
)  # fmt: skip
WAYS: Mapping[str, Mapping[str, Any]] = {
    "numpy": {"engine": "numpy"},
    "one thread": {"engine": "native", "threads": 1},
    "two threads": {"engine": "native", "threads": 2},
}


@pytest.fixture(autouse=True)
def _small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads work together on small spaces too, in many rounds; tables start small."""
    monkeypatch.setattr(native_threads, "ROUND", 24)
    monkeypatch.setattr(native_threads, "LITTLE", 2)
    for module in (native, native_threads):
        monkeypatch.setattr(module, "SMALL_TABLE", 64)


def agree(
    spec: Specification, sizes: Mapping[str, int], faults: int = 0, **how: Any
) -> list[Explorer]:
    """Explore a spec in every way, and compare all that they found."""
    explorers = [Explorer(spec, sizes, faults, **how, **way) for way in WAYS.values()]
    compare(explorers)
    return explorers


def compare(explorers: list[Explorer]) -> None:
    """All that these searches find is the same."""
    found = [ex.run() for ex in explorers]
    first = explorers[0]
    for ex, r in zip(explorers[1:], found[1:], strict=True):
        assert facts(r) == facts(found[0])
        assert np.array_equal(ex.rows, first.rows)
        assert ex.firsts == first.firsts
        assert (ex.edges is None) == (first.edges is None)
        if ex.edges and first.edges:
            for column in ("source", "instance", "target"):
                one, other = getattr(ex.edges, column), getattr(first.edges, column)
                assert np.array_equal(one, other), column


def facts(r: Exploration) -> dict[str, Any]:
    """What an exploration says, stories in words, without who found it and how fast."""
    found = {
        name: value
        for name, value in vars(r).items()
        if name not in ("engine", "threads", "note", "seconds") and not name.startswith("find_")
    }
    for name in ("violations", "witnesses"):
        found[name] = {n: story.lines for n, story in found[name].items()}
    found["deadlock"] = r.deadlock.lines if r.deadlock else None
    return found


# ── Specs of this repository ────────────────────────────────────────────────────────────────


class Node(Sort):
    """Somebody who counts."""


class Ring(Spec):
    """Nodes count, each beyond the others' bound sooner or later, and some are in no map."""

    last: Node | None = None
    counts: dict[Node, Nat] = each(0)
    before: Nat | None = None

    @action
    def up(self, a: Node, b: Node) -> None:
        """{a} counts on from {b}."""
        require(self.last != a)
        self.before = self.counts[a]
        self.counts[a] = self.counts[b] + 1
        self.last = a


@step
def nobody_jumps(before: Ring, after: Ring) -> bool:
    """Nobody's count grows by two."""
    return all(after.counts[n] != before.counts[n] + 2 for n in Node)


@always
def low(s: Ring) -> bool:
    """Every count is low."""
    return all(s.counts[n] < 2 for n in Node)


RING = specification(Ring, nobody_jumps)


class Desk(Spec):
    """Letters wait in an inbox that may overflow, and one looks for a letter that is not there."""

    inbox: Annotated[list[Node], Capacity(2)] = empty()
    boss: Node | None = None
    served: dict[Node, bool] = each(False)
    left: Annotated[Nat, UpTo(1)] = 1

    @initial
    def appoint(self, n: Node) -> None:
        """{n} is the boss."""
        self.boss = n

    @action
    def write(self, n: Node) -> None:
        """{n} writes."""
        require(not self.served[n])
        self.inbox.append(n)

    @action
    def read(self) -> None:
        """The first letter is read, though there may be none."""
        first = self.inbox.pop(0)
        if first == self.boss:
            self.served[first] = True
            self.left = self.left - 1
        else:
            self.served[first] = not self.served[first]


@always
def few_are_served(s: Desk) -> bool:
    """Not everybody is served."""
    return sum(s.served[n] for n in Node) < 3


DESK = specification(Desk, few_are_served)


@pytest.mark.parametrize("symmetry", [None, False], ids=["up to renaming", "each by itself"])
@pytest.mark.parametrize(
    ("spec", "sizes", "how"),
    [
        (COUNTER, {}, {"bound": 5}),
        (COUNTER, {}, {"bound": 2}),
        (LOCK_SERVER, {"Client": 3}, {"faults": 2}),
        (TWO_PHASE_COMMIT, {"Manager": 5}, {}),
        (RING, {"Node": 3}, {"bound": 3}),
        (RING, {"Node": 3}, {"bound": 3, "constraint": low}),
        (DESK, {"Node": 3}, {}),
        (ELECTION, {"Broker": 2}, {"faults": 1}),
        (DRAFTED.spec, {"Broker": 2}, {"faults": 1}),
    ],
    ids=["counter", "bounded counter", "lock server", "two-phase commit", "ring",
         "constrained ring", "desk", "election",
         "drafted"],
)  # fmt: skip
def test_the_engines_agree(
    spec: Specification, sizes: Mapping[str, int], how: dict[str, Any], symmetry: bool | None
) -> None:
    """Counts, numbers of states, edges, first failures and stories are the same in each engine."""
    explorers = agree(spec, sizes, symmetry=symmetry, **how)

    assert [ex.result.engine for ex in explorers] == ["numpy", "native", "native"]
    assert [ex.result.threads for ex in explorers] == [1, 1, 2]


def test_the_engines_agree_on_what_a_refinement_asks() -> None:
    """Obligations before each step, and steps that are looked for, are the same in each engine."""
    spec = replace(REFINEMENT.concrete, properties=tuple(REFINEMENT.seen()))
    explorers = [Explorer(spec, {"Broker": 2}, 1, **way) for way in WAYS.values()]
    for ex in explorers:
        ex.obliges("refines", {a.name: REFINEMENT.formula(a) for a in spec.actions})
        ex.obliges("nobody resigns", {"resign": g.FALSE})
        for a in spec.actions:
            ex.witnesses(a.name, {a.name: REFINEMENT.formula(a)})

    compare(explorers)

    assert all(ex.witnessed == explorers[0].witnessed for ex in explorers)
    assert list(explorers[1].result.violations) == ["nobody resigns"]


def test_an_engine_may_be_changed_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that goes over to native code half-way finds what either finds alone."""
    monkeypatch.setattr("herdspec.check.exploration.explore.LARGE", 100)

    changing = Explorer(ELECTION, {"Broker": 2}, 1)
    compare([Explorer(ELECTION, {"Broker": 2}, 1, engine="numpy"), changing])

    assert changing.result.engine == "native"


def test_small_spaces_are_searched_without_compiling() -> None:
    """A small space is searched with NumPy, and the result says so."""
    ex = Explorer(LOCK_SERVER, {"Client": 2}, 1)

    assert ex.run().engine == "numpy"
    assert not ex.result.note


@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_store_ends_a_search_within_a_level(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no further state fits, a search is truncated, and can be gone on with later."""
    right = Native._reserve

    def little(self: Native, budget: int) -> None:
        right(self, budget)
        self.capacity = 20_000

    whole = Explorer(TWO_PHASE_COMMIT, {"Manager": 6}, 0, symmetry=False)
    told = whole.run()
    way: dict[str, Any] = {"symmetry": False, "engine": "native", "threads": threads}
    with monkeypatch.context() as patch:
        patch.setattr(Native, "_reserve", little)
        small = Explorer(TWO_PHASE_COMMIT, {"Manager": 6}, 0, **way)
        part = small.run(save=tmp_path / "rest")

    assert part.truncated
    assert 0 < part.states < 20_000
    assert np.array_equal(small.rows, whole.rows[: part.states])
    rest = Explorer(TWO_PHASE_COMMIT, {"Manager": 6}, 0, **way)
    assert facts(rest.run(resume=tmp_path / "rest")) == facts(told)
    assert np.array_equal(rest.rows, whole.rows)


def test_more_is_looked_for_than_fits_a_word() -> None:
    """With more than 64 properties, each is noted as by columns."""
    promises = [
        f"@sometimes\ndef at_{k}(s: Count) -> bool:\n    return s.n == {k}\n" for k in range(70)
    ]
    text = (
        "from herdspec import *\n"
        "class Count(Spec):\n"
        "    n: Nat = 0\n"
        "    @action\n"
        "    def up(self) -> None:\n"
        "        require(self.n < 80)\n"
        "        self.n = self.n + 1\n" + "".join(promises)
    )
    explorers = agree(from_source(text, "Count"), {}, bound=100)

    assert explorers[1].firsts["at_69"] == 69


@pytest.mark.long
@pytest.mark.parametrize(
    ("managers", "states", "generated"), [(8, 1_745_408, 18_507_778), (9, 10_340_352, 123_558_402)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_large_spaces_have_the_states_that_other_checkers_count(
    managers: int, states: int, generated: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two-phase commit with eight and nine managers has as many states as elsewhere."""
    monkeypatch.undo()
    ex = Explorer(TWO_PHASE_COMMIT, {"Manager": managers}, 0, symmetry=False, threads=threads)

    found = ex.run()

    assert (found.states, found.generated + 1) == (states, generated)
    assert found.complete
    assert found.engine == "native"


# ── Random specs ────────────────────────────────────────────────────────────────────────────


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(text=sources(), symmetry=st.sampled_from([None, False]))
def test_the_engines_agree_on_random_specs(text: str, symmetry: bool | None) -> None:
    """Of a random spec, each engine finds the same."""
    spec = from_source(text, "Random")
    ground = Ground(spec, {"T": 2}, 1, 0)
    assume(any(True for _ in Machine(ground).starts()))
    agree(spec, {"T": 2}, faults=0, bound=1, symmetry=symmetry)


# ── Where there is no native engine ─────────────────────────────────────────────────────────


def without_llvm(packing: Packing) -> str:
    """As if llvmlite were missing."""
    assert packing.words
    return "llvmlite is not installed"


def test_a_missing_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where native code cannot be had, a large space is searched with NumPy, and says why."""
    monkeypatch.setattr("herdspec.check.exploration.explore.LARGE", 10)
    monkeypatch.setattr("herdspec.check.exploration.explore.why_not", without_llvm)

    found = Explorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0, symmetry=False).run()

    assert (found.engine, found.states) == ("numpy", 288)
    assert found.note == "searched with NumPy: llvmlite is not installed"


def test_an_expression_that_cannot_be_compiled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator without native code sends a search back to NumPy, with its name."""
    monkeypatch.setattr("herdspec.check.exploration.explore.LARGE", 10)
    monkeypatch.delitem(native_emit.OPERATORS, "eq")

    found = Explorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0, symmetry=False).run()

    assert (found.engine, found.states) == ("numpy", 288)
    assert "no operator 'eq'" in found.note


def test_native_code_that_is_asked_for_and_cannot_be_had_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever asks for native code gets it, or an error that says why not."""
    monkeypatch.setattr("herdspec.check.exploration.explore.why_not", without_llvm)

    with pytest.raises(UsageError, match="llvmlite is not installed"):
        Explorer(TWO_PHASE_COMMIT, {"Manager": 3}, 0, engine="native").run()


def test_an_unknown_engine_is_refused() -> None:
    """An engine that does not exist is refused with those that do."""
    with pytest.raises(UsageError, match="choose one of auto, numpy, native"):
        Explorer(LOCK_SERVER, {"Client": 2}, 0, engine="jit")


def test_more_threads_than_are_written_for_are_refused() -> None:
    """Three threads cannot be had."""
    with pytest.raises(UsageError, match="choose 1 or 2"):
        Explorer(LOCK_SERVER, {"Client": 2}, 0, threads=3)


# ── Every operator ──────────────────────────────────────────────────────────────────────────


def slots() -> tuple[Packing, list[Expr], list[Expr]]:
    """A packing with symmetry, and its leaves: numbers and truths."""
    ground = Ground(LOCK_AND_COUNTS, {"Node": 3}, 3, 0)
    leaves = [slot.expr for slot in ground.slots.values() if slot.values > 1]
    numbers = [e for e in leaves if e.kind != g.TRUE.kind]
    return Packing(ground), numbers, [e for e in leaves if e.kind == g.TRUE.kind]


class Lots(Spec):
    """A bit of everything: truths, numbers, and names of elements."""

    flag: bool = False
    other: bool = False
    n: Nat = 0
    m: Nat = 2
    who: Node | None = None
    marked: dict[Node, bool] = each(False)

    @action
    def mark(self, a: Node) -> None:
        """{a} is marked."""
        self.marked[a] = True


LOCK_AND_COUNTS = specification(Lots)


def formulas() -> Iterator[tuple[str, Expr]]:
    """For each operator, formulas that have it."""
    _, numbers, truths = slots()
    n, m, who = numbers[:3]
    a, b, c = truths[:3]
    two = g.const(NAT, 2)
    yield "slot", a
    yield "slot", g.le(n, m)
    yield "slot", g.eq(who, two)
    yield "slot", g.le(who, two)
    yield "const", g.le(n, two)
    yield "not", g.negate(a)
    yield "and", g.conj(a, b, c)
    yield "or", g.disj(a, b, c)
    yield "or", g.disj(g.conj(a, b), g.conj(a, c), g.conj(b, c))
    yield "ite", g.node("ite", a.kind, (a, b, c))
    yield "ite", g.le(g.node("ite", NAT, (a, n, m)), two)
    yield "eq", g.eq(n, m)
    yield "eq", g.eq(a, b)
    yield "eq", g.eq(n, two)
    yield "le", g.le(n, m)
    yield "add", g.le(g.add(n, 1), m)
    yield "add", g.le(g.add(n, -1), g.add(m, -2))
    yield "plus", g.le(g.plus(n, m), two)
    yield "minus", g.le(g.minus(n, m), g.const(NAT, 0))
    yield "mod", g.eq(g.mod(g.plus(n, m), two), g.const(NAT, 1))
    yield "mod", g.eq(g.mod(g.minus(n, m), g.const(NAT, 3)), two)
    yield "mod", g.eq(g.mod(n, g.divisor(m)), g.const(NAT, 1))
    yield "div", g.le(g.div(g.plus(n, m), two), g.const(NAT, 1))
    yield "div", g.le(g.div(g.minus(n, m), two), g.const(NAT, -1))
    yield "div", g.le(g.div(n, g.divisor(m)), g.const(NAT, 1))
    yield "count", g.le(g.count([a, b, c]), g.const(NAT, 1))


def natively(packing: Packing, formula: Expr, rows: Words) -> list[bool]:
    """A formula's truth in each of these states, by native code."""
    engine = Native(packing, Checks({"it": formula}), 0)
    engine.load(rows, np.zeros(len(rows), np.uint32), np.zeros(len(rows), np.uint16))
    wanted, expand = engine.context.array(At.WANTED), engine._calls["expand"]
    found = []
    for number in range(len(rows)):
        wanted[:] = 1
        expand(engine.context.address, number, number + 1)
        found.append(not wanted[0])
    return found


def arbitrary_rows(packing: Packing) -> Words:
    """A hundred states by chance, the same in every run."""
    chance = np.random.default_rng(7)
    kinds = packing.ground.slots.values()
    states = [[int(chance.integers(slot.values)) for slot in kinds] for _ in range(100)]
    return np.concatenate([packing.pack(numbers) for numbers in states])


def differ(formula: Expr) -> bool:
    """Whether native code and columns differ on a formula, in some state."""
    packing = slots()[0]
    rows = arbitrary_rows(packing)
    by_columns: list[bool] = np.broadcast_to(Columns(packing, rows).of(formula), len(rows)).tolist()
    return natively(packing, formula, rows) != by_columns


@pytest.mark.parametrize(("operator", "formula"), list(formulas()))
def test_native_code_and_columns_agree_on_every_operator(operator: str, formula: Expr) -> None:
    """A formula with this operator is as true in native code as in columns, in any state."""
    assert operator in native_emit.OPERATORS
    assert not differ(formula)


def test_every_operator_has_its_formula() -> None:
    """No operator of native code is left out of the comparison."""
    assert {operator for operator, _ in formulas()} == set(native_emit.OPERATORS)


Operator = Callable[[native_emit.Values, Expr], Value]


def wrong(operator: str) -> Operator:
    """The operator, written a little wrong."""
    right = native_emit.OPERATORS[operator]

    def flipped(v: native_emit.Values, e: Expr) -> Value:
        made = right(v, e)
        if e.kind == g.TRUE.kind:
            return v.code.op("xor", made, "true", "i1")
        return v.code.op("add", made, 1)

    others = {"and": "or", "or": "and", "plus": "minus", "minus": "plus"}
    if operator in others:
        return native_emit.OPERATORS[others[operator]]
    if operator == "le":
        return lambda v, e: v.code.op("icmp slt", v.of(e.args[0]), v.of(e.args[1]))
    if operator == "ite":
        kind = {True: "i1", False: "i64"}
        return lambda v, e: v.code.choose(
            v.of(e.args[0]), v.of(e.args[2]), v.of(e.args[1]), kind[e.kind == g.TRUE.kind]
        )
    return flipped


@pytest.mark.parametrize("operator", sorted(native_emit.OPERATORS))
def test_an_operator_that_is_written_wrong_is_caught(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operator of native code, written a little wrong, is caught by the comparison."""
    with monkeypatch.context() as patch:
        patch.setitem(native_emit.OPERATORS, operator, wrong(operator))
        caught = [differ(formula) for name, formula in formulas() if name == operator]

    assert any(caught)


# ── What surrounds the spec ─────────────────────────────────────────────────────────────────


def test_rows_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that are all the same cost time, and lose no state."""

    def constant(self: Runtime, code: Code, words: list[Value]) -> Value:
        assert self.words == len(words)
        return code.op("and", words[0], 0)

    monkeypatch.setattr(Runtime, "hashed", constant)
    for symmetry in (None, False):
        agree(TWO_PHASE_COMMIT, {"Manager": 3}, symmetry=symmetry)


@pytest.mark.parametrize("size", range(1, 12))
def test_the_sorting_network_sorts(size: int) -> None:
    """A network that sorts every row of zeros and ones sorts every row (Knuth's principle)."""
    steps = list(native_runtime.network(size))
    for number in range(1 << size):
        row = [number >> k & 1 for k in range(size)]
        for a, b in steps:
            row[a], row[b] = min(row[a], row[b]), max(row[a], row[b])
        assert row == sorted(row)


def test_a_wrong_order_of_threads_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that do not follow the ranks of both threads are noticed."""
    right = Threaded._consume

    def backwards(self: Threaded, k: int) -> None:
        self.workers.reverse()
        try:
            right(self, 1 - k)
        finally:
            self.workers.reverse()

    monkeypatch.setattr(Threaded, "_together", Threaded._one_by_one)
    monkeypatch.setattr(Threaded, "_consume", backwards)

    with pytest.raises(AssertionError):
        agree(TWO_PHASE_COMMIT, {"Manager": 3}, symmetry=False)
