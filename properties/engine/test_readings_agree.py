"""
The readings agree: the plain Python, the columns and z3 mean the same by one spec.

They are compared on arbitrary well-typed states, not only on reachable ones, for the specs of this
repository and for random ones, which are written as source strings by a small grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from herdspec import Spec, Specification, from_source, specification
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.exploration.explore import Explorer
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.running.run import Step
from herdspec.engine.columns import Columns
from herdspec.engine.smt import Emitter
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.surface import Expectation, Undefined, sizes_of_sorts
from herdspec.language.types import BOOL, ChannelOf, Table
from herdspec.protocols.election.contract import CONTRACT
from herdspec.protocols.election.flaws import DRAFTED, FLAWS
from herdspec.protocols.election.properties import ELECTION
from properties.engine.readings import (
    FAULTS,
    Numbers,
    compare_properties,
    compare_steps,
    compare_with_z3,
    explorer,
    states,
)
from properties.language.random_specs import sources
from properties.specs import (
    LOCK_SERVER,
    TWO_PHASE_COMMIT,
    Counter,
    it_counts_by_one,
    never_above_one,
    never_above_three,
)

COUNTER = specification(Counter, never_above_three, never_above_one, it_counts_by_one)
SPECS = {
    "election": ELECTION,
    "contract": CONTRACT,
    "counter": COUNTER,
    "lock server": LOCK_SERVER,
    "two-phase commit": TWO_PHASE_COMMIT,
    "drafted": DRAFTED.spec,
    **{name: flaw.spec for name, flaw in FLAWS.items()},
}


@cache
def explorer_of(spec: str) -> Explorer:
    """The columns of one of `SPECS` at two elements, made once."""
    return explorer(SPECS[spec])


# ── The specs of this repository ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=8)
@given(data=st.data())
def test_python_and_columns_agree_on_arbitrary_states(spec: str, data: st.DataObject) -> None:
    """From any well-typed state, the plain Python and the columns take the same steps."""
    ex = explorer_of(spec)
    rows = data.draw(st.lists(states(ex.ground), min_size=1, max_size=20))

    compare_steps(ex, rows)
    compare_properties(ex, rows)


@pytest.mark.parametrize("spec", ["election", "contract", "lock server", "two-phase commit"])
@settings(max_examples=10)
@given(data=st.data())
def test_python_and_z3_agree_on_arbitrary_states(spec: str, data: st.DataObject) -> None:
    """Of any well-typed state, z3's formulas say what the plain Python says."""
    ex = explorer_of(spec)

    compare_with_z3(ex, data.draw(states(ex.ground)))


@cache
def explored(spec: str) -> Explorer:
    """One of `SPECS`, explored."""
    ex = explorer(SPECS[spec], symmetry=None)
    ex.run()
    return ex


@settings(max_examples=20)
@given(data=st.data())
def test_readings_agree_on_reachable_states(data: st.DataObject) -> None:
    """From reachable states of the election, where more is possible, the readings agree too."""
    ex = explored("election")
    numbers = st.integers(0, len(ex.rows) - 1)
    rows = [ex.packing.unpack(ex.rows[k]) for k in data.draw(st.lists(numbers, min_size=5))]

    compare_steps(ex, rows)
    compare_properties(ex, rows)
    compare_with_z3(ex, rows[0])


# ── Random specs ────────────────────────────────────────────────────────────────────────────


def read(text: str) -> Specification:
    """The spec in a text; the grammar writes none that the language refuses."""
    return from_source(text, "Random")


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=60, suppress_health_check=QUIET)
@given(text=sources(), data=st.data())
def test_readings_agree_on_random_specs(text: str, data: st.DataObject) -> None:
    """From any state of a random spec, Python, columns and z3 agree on steps and properties."""
    ex = explorer(read(text))
    rows = data.draw(st.lists(states(ex.ground), min_size=1, max_size=6))

    compare_steps(ex, rows)
    compare_properties(ex, rows)
    if not counts(ex.ground.spec):
        compare_with_z3(ex, rows[0])


def counts(spec: Specification) -> bool:
    """Whether a spec speaks of numbers of elements, which proofs do not know."""
    formulas = [e for a in spec.actions for e in (a.guard, a.defined, *a.updates.values())]
    return any(g.leaves(e, "number") for e in [*formulas, *(p.formula for p in spec.properties)])


class Channel(list[Any]):
    """A channel of a state while an action runs; it knows the most that it ever held."""

    most = 0

    def append(self, item: Any) -> None:
        """Send."""
        super().append(item)
        self.most = max(self.most, len(self))


CAP = 300
"""How many states a random spec may have to be explored by the plain Python too."""


@dataclass
class ByHand:
    """A search by the plain Python alone: every state, and the depth of every first failure."""

    states: int = 1
    generated: int = 0
    dropped: int = 0
    depth: int = 0
    stuck: bool = False

    def __init__(self, ex: Explorer) -> None:
        self.machine, self.spec = ex.machine, ex.ground.spec
        self.slots = ex.ground.slots.values()
        self.failures: dict[str, int] = {}
        starts = [self.machine.numbers(state) for state in self.machine.starts()]
        self.seen = {row for row in starts if not any(self.beyond(row))}
        self.dropped = sum(any(self.beyond(row)) for row in starts)
        level = list(self.seen)
        while level and len(self.seen) < CAP:
            level = self.expand(level)
            self.depth += bool(level)
        self.states = len(self.seen)
        self.cut = bool(level)

    def beyond(self, row: Numbers) -> list[bool]:
        """Of each number of a state, whether it is beyond its bound."""
        return [n >= slot.values for n, slot in zip(row, self.slots, strict=True)]

    def overflows(self, state: Spec, action: str, arguments: tuple[Any, ...]) -> bool:
        """Whether a step sends more than a channel holds, though it may then receive again."""
        after, channels = state.copy(), []
        for name, kind in self.spec.rich.items():
            value = after.__dict__[name]
            if isinstance(kind, ChannelOf):
                channels.append((kind, Channel(value)))
                after.__dict__[name] = channels[-1][1]
            elif isinstance(kind, Table) and isinstance(kind.value, ChannelOf):
                for key in value:
                    channels.append((kind.value, Channel(value[key])))
                    value[key] = channels[-1][1]
        with sizes_of_sorts(self.machine.sizes):
            self.machine.method(after, action, arguments)
        return any(channel.most > kind.capacity for kind, channel in channels)

    def expand(self, level: list[Numbers]) -> list[Numbers]:
        """The next level."""
        found: dict[Numbers, None] = {}
        for row in level:
            self.look(row)
            for made in self.steps(row):
                self.generated += 1
                if made not in self.seen:
                    found[made] = None
        self.seen |= found.keys()
        return list(found)

    def look(self, row: Numbers) -> None:
        """Note which properties fail here, or are witnessed here."""
        for p in self.spec.properties:
            if p.expectation in (Expectation.ALWAYS, Expectation.SOMETIMES):
                holds = self.machine.holds(p, self.machine.state(row))
                if holds == (p.expectation is Expectation.SOMETIMES):
                    self.failures.setdefault(p.name, self.depth)

    def steps(self, row: Numbers) -> list[Numbers]:
        """The successors within the bounds; what is beyond the bound of naturals is counted."""
        state, found, stuck = self.machine.state(row), [], True
        for action, arguments in self.machine.choices:
            if action.disturbs and row[-1] == FAULTS:
                continue
            try:
                after = self.machine.take(state, action.name, arguments)
            except Undefined:
                self.failures.setdefault(EVERY_VALUE_IS_DEFINED, self.depth + 1)
                stuck = False
                continue
            if after is None:
                continue
            step = Step(action, arguments, after)
            made = self.machine.numbers(step.state, row[-1] + step.action.disturbs)
            beyond = self.beyond(made)
            if beyond[-1]:
                continue
            stuck = False
            if any(beyond) or self.overflows(state, action.name, arguments):
                self.dropped += 1
            else:
                found.append(made)
                self.promised(state, step.state)
        self.stuck |= stuck
        return found

    def promised(self, before: Spec, after: Spec) -> None:
        """Note which promises about steps this one breaks."""
        for p in self.spec.properties:
            if p.expectation is Expectation.STEP and not self.machine.holds(p, before, after):
                self.failures.setdefault(p.name, self.depth + 1)


OVERFLOWS_ON_THE_WAY = """
from typing import Annotated
from herdspec import *

class Random(Spec):
    \"\"\"Sends twice and receives once, in one step: a queue of two is too small for that.\"\"\"

    queue: Annotated[list[bool], Capacity(2)] = empty()

    @action
    def send(self) -> None:
        \"\"\"One is sent.\"\"\"
        require(len(self.queue) < 2)
        self.queue.append(True)

    @action
    def turn(self) -> None:
        \"\"\"Two are sent, one is received.\"\"\"
        self.queue.append(True)
        self.queue.append(False)
        self.queue.pop(0)
"""


@settings(max_examples=60, suppress_health_check=QUIET)
@given(text=sources())
@example(text=OVERFLOWS_ON_THE_WAY)
def test_exploration_agrees_with_a_search_by_hand(text: str) -> None:
    """Of a random spec, exploration finds what a search by the plain Python finds."""
    ex = explorer(read(text))
    hand = ByHand(ex)
    if hand.cut or not hand.states:  # too large; or nothing begins, which is refused
        return
    plain, found = ex.run(), explorer(ex.ground.spec, symmetry=None).run()

    assert (plain.states, plain.generated, plain.dropped, plain.depth) == (
        hand.states, hand.generated, hand.dropped, hand.depth
    )  # fmt: skip
    assert (found.orbits, found.depth) == (hand.states, hand.depth)
    for r in (plain, found):
        stories = {**r.violations, **r.witnesses}
        stories.pop("p_recoverable", None)  # the search by hand walks no graph
        assert {name: len(story.steps) for name, story in stories.items()} == hand.failures
        assert (r.deadlock is not None) == hand.stuck


@settings(max_examples=25, suppress_health_check=QUIET)
@given(text=sources())
def test_what_is_proved_of_a_random_spec_is_never_broken(text: str) -> None:
    """What induction proves of a random spec is broken in no state that exploration reaches."""
    ex = explorer(read(text), symmetry=None)
    if counts(ex.ground.spec):
        return
    ex.memory_bytes = 1 << 22
    if not [*ex.machine.starts()]:
        return  # nothing begins, which is refused
    broken = ex.run().violations

    if counts(ex.ground.spec):
        return  # proofs refuse it
    proof = prove(ex.ground.spec, resources=1_000_000)
    proved = {name for name in proof.promises if proof.of(name) is SolverAnswer.PROVED}
    # A hypothesis that fails makes the others' proofs say nothing.
    always = [p.name for p in ex.ground.spec.properties if p.expectation is Expectation.ALWAYS]
    if proved.issuperset(always):
        assert not proved & broken.keys()


# ── Show that it can fail ───────────────────────────────────────────────────────────────────


def test_a_wrong_comparison_in_the_columns_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that take "at most" for "less than" are caught by a comparison with Python."""
    right = Columns._compute

    def wrong(self: Columns, e: Expr) -> Any:
        different = e.op != "le" or self.of(e.args[0]) != self.of(e.args[1])
        return right(self, e) & different if e.kind == BOOL else right(self, e)

    monkeypatch.setattr(Columns, "_compute", wrong)

    with pytest.raises(AssertionError, match="never_above_three"):
        compare_properties(explorer(COUNTER), [(3, 0)])


def test_a_wrong_comparison_in_z3_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formulas that take "at most" for "less than" are caught by a comparison with Python."""
    right = Emitter._formula

    def wrong(self: Emitter, e: Expr) -> Any:
        if e.op == "le":
            return self.formula(e.args[0]) < self.formula(e.args[1])
        return right(self, e)

    monkeypatch.setattr(Emitter, "_formula", wrong)

    with pytest.raises(AssertionError, match=r"never_above_three.*Counter\(n=3\)"):
        compare_with_z3(explorer(COUNTER), (3, 0))
