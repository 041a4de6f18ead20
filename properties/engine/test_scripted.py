"""
The compiled reading of one state at a time: it is the plain Python, and read like it.

That each emitted operator means what it does in the other readings, `readings.compare_steps` checks
wherever they are compared; here it is made wrong, and noticed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from herdproof.conformance.traces import compiled as of_traces
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.traced import Traced, traced
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines
from herdspec.check.conformance.conform import Outcome, Verdict
from herdspec.check.conformance.follow import PlainSteps
from herdspec.check.exploration.explore import Explorer
from herdspec.check.running.generated import GeneratedSpec
from herdspec.check.running.run import Machine
from herdspec.engine import python_emit as emitter
from herdspec.engine.ground import Ground
from herdspec.engine.python_emit import Overflows, Scripts
from herdspec.engine.renaming import AffineIndex, Element, Names
from herdspec.language.graph import Expr
from herdspec.language.specification import from_source
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR
from properties.engine import readings
from properties.engine.test_emitters import BODIES, COLUMNS, COUNTING, explored
from properties.language.test_rich_language import HEADER, some_states

SIZES = {"Broker": 2, "Member": 2, "Partition": 2}
SEEDS = (3, 5)
ACTION = "    @action\n    def act(self, a: Node, b: Node) -> None:\n"


@pytest.mark.parametrize("operator", COLUMNS)
def test_an_operator_of_the_emitted_python_made_wrong_is_noticed(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Emitted code in which one operator means something else disagrees with the columns."""
    ex, rows = explored((*BODIES, *COUNTING))
    right = emitter._Code._text

    def wrong(self: Any, e: Expr) -> str:
        text = right(self, e)
        if e.op != operator:
            return text
        return f"({text} + 1)" if e.op in ("add", "plus", "minus", "count") else f"(not {text})"

    readings.compare_steps(ex, rows)
    monkeypatch.setattr(emitter._Code, "_text", wrong)
    monkeypatch.delitem(readings.SCRIPTS, ex)
    with pytest.raises((AssertionError, IndexError, KeyError)):
        readings.compare_steps(ex, rows)


def test_a_state_is_read_by_the_names_of_the_spec() -> None:
    """Every field of any state is the same to whoever reads it, whichever reading has it."""
    spec = from_source(HEADER + ACTION + "        self.n = 1", "Rich")
    sizes = dict.fromkeys(spec.sorts, 2)
    machine, compiled = Machine(Ground(spec, sizes, bound=3, faults=1)), GeneratedSpec(spec, sizes)
    for numbers in some_states(readings.explorer(spec), 40):
        state = machine.state(numbers)
        seen = compiled._seen(compiled._scripts.apart(numbers))
        for name, value in state.__dict__.items():
            found = getattr(seen, name)
            assert (dict(found) if isinstance(value, dict) else found) == value, name
        assert compiled.plain(seen) == state


def test_a_helper_of_the_spec_can_be_called_and_nothing_written() -> None:
    """Who reads a state may call the spec's helpers; a view is no state to be changed."""
    compiled = GeneratedSpec(CENTRAL_COORDINATOR, SIZES)
    b, m, p = (compiled.machine.elements(sort)[0] for sort in SIZES)
    state = compiled.initial({("committed", p): 7})
    elected = compiled.take(compiled.take(state, "elect", (b,)), "coordinator_startup", (b,))
    joined = compiled.take(elected, "register", (m, b, {p}))
    accepted = compiled.take(joined, "handle_register", (m, b))
    with sizes_of_sorts(SIZES):
        assert not joined.has_members(b)
        assert accepted.has_members(b)
    assert (state.committed[p], accepted.election.leads[b], accepted.seat) == (7, True, b)
    assert compiled.take(accepted, "elect", (b,)) is None
    with pytest.raises(AttributeError, match="read only"):
        accepted.seat = None


def test_a_channel_that_is_too_full_is_said() -> None:
    """What lies beyond a channel's capacity is not guessed."""
    spec = from_source(HEADER + ACTION + "        " + BODIES[-1], "Rich")
    compiled = GeneratedSpec(spec, dict.fromkeys(spec.sorts, 2))
    one, two = compiled.machine.elements("Node")
    state = compiled.initial({})
    while len(state.inbox[one]) < 2:
        state = compiled.take(state, "act", (one, two))

    with pytest.raises(Overflows):
        compiled.take(state, "act", (one, two))


# ── Renaming ────────────────────────────────────────────────────────────────────────────────

RENAMED = {
    "two of a sort": ("a: Node, b: Node", "self.knows[a, b] = a == b or self.knows[b, a]"),
    "an optional one": ("a: Node, b: Node", "self.who = a if self.who == b else self.who"),
    "an element read": ("a: Node", "require(self.who is not None)\nself.knows[self.who, a] = True"),
    "a record": ("a: Node, k: Kind", "self.kept[a] = Message(k, a, 0)"),
    "a set": ("a: Node, x: set[Node]", "require(a in x)\nself.up = x - self.down"),
    "a map to numbers": ("x: dict[Node, Few]", "self.up = {y for y in Node if x[y] > self.few}"),
    "a map to elements": (
        "x: dict[Node, Node], a: Node",
        "require(self.knows[x[a], a])\nself.who = x[a]\n"
        "self.up = {y for y in Node if self.knows[x[y], y] or x[y] == a}",
    ),
    "a map to optional elements": (
        "x: dict[Node, Node | None], a: Node",
        "require(x[a] is not None)\nself.knows[x[a], a] = not self.knows[a, x[a]]\n"
        "self.up = {y for y in Node if x[y] == self.who or x[y] is None}\nself.who = x[x[a]]",
    ),
    "a map of a map": ("x: dict[Node, Node], a: Node", "self.who = x[x[a]]"),
    "a written entry of a map": (
        "x: dict[Node, Node], a: Node", "self.knows[x[a], a] = not self.knows[a, x[a]]"
    ),
}  # fmt: skip


@cache
def three(construct: str) -> tuple[Explorer, list[readings.Numbers]]:
    """A spec with this action, at three elements of its sort, and some of its states."""
    parameters, body = RENAMED[construct]
    text = f"    @action\n    def act(self, {parameters}) -> None:\n"
    text += "".join(f"        {line}\n" for line in body.splitlines())
    spec = from_source(HEADER + text, "Rich")
    ex = Explorer(spec, {"Node": 3}, readings.FAULTS, symmetry=False)
    return ex, some_states(ex, 6)


@pytest.mark.parametrize("construct", RENAMED)
def test_a_step_is_the_same_for_other_elements(construct: str) -> None:
    """What was emitted for some arguments, its elements exchanged, is the step for others."""
    readings.compare_steps(*three(construct))


@pytest.mark.parametrize(
    ("kind", "construct"),
    [
        (Element, "an optional one"),
        (AffineIndex, "two of a sort"),
        (AffineIndex, "a map to elements"),
        (AffineIndex, "a map to optional elements"),
    ],
)
def test_elements_that_are_not_exchanged_are_noticed(
    kind: type[Element | AffineIndex], construct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is taken for other elements as it was emitted disagrees with the columns."""
    ex, rows = three(construct)
    right = kind.named

    def unmoved(self: Any, names: Names) -> int:
        return right(self, {name: range(len(of)) for name, of in names.items()})

    monkeypatch.setattr(kind, "named", unmoved)
    monkeypatch.delitem(readings.SCRIPTS, ex, raising=False)
    with pytest.raises(AssertionError):
        readings.compare_steps(ex, rows)
    del readings.SCRIPTS[ex]


@pytest.mark.parametrize(
    ("construct", "emitted"),
    [
        ("two of a sort", 2), ("a set", 6), ("a map to elements", 1),
        ("a map to optional elements", 6),
    ],
)  # fmt: skip
def test_steps_that_differ_by_renaming_are_emitted_once(construct: str, emitted: int) -> None:
    """One of two that are the same or not; of a set with an element; of a map: what has none."""
    ex, _ = three(construct)
    scripts = Scripts(ex.ground)
    (action,) = ex.ground.spec.actions

    steps = [scripts.step(action.name, chosen) for chosen in ex.ground.choices(action)]

    assert len({step.__code__.co_code for step in steps}) <= emitted < len(steps)
    assert scripts.emitted == emitted


# ── Traces ──────────────────────────────────────────────────────────────────────────────────


@cache
def run(seed: int, flaw: str = "") -> Traced:
    """A simulated run, of a mistaken coordinator maybe."""
    return traced(seed, Config(coordinator_flaws=frozenset({flaw} - {""})))


def compiled_and_plain(made: Traced, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, Outcome]:
    """Its replay by both readings; compiled from the first line on."""
    monkeypatch.setattr(of_traces, "WORTH_IT", 0)
    monkeypatch.setattr(of_traces, "COMPILER", of_traces.Compiler())
    compiled = conform_lines(made.lines)
    assert of_traces.COMPILER.steps
    return compiled, conform_lines(made.lines, plain=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_trace_is_replayed_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same verdict, by the same steps."""
    compiled, plain = compiled_and_plain(run(seed), monkeypatch)

    assert compiled.verdict is Verdict.CONFORMS
    assert facts(compiled) == facts(plain)


def test_few_lines_go_along_what_is_compiled_for_more_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of sorts that may have more elements alone, and until a size is worth it by itself."""
    monkeypatch.setattr(of_traces, "WORTH_IT", 10)
    monkeypatch.setattr(of_traces, "WORTH_ITS_OWN", 100)
    compiler, spare = of_traces.Compiler(), {"Member", "Partition"}
    few = {**SIZES, "Member": 1}

    assert isinstance(compiler.of(CENTRAL_COORDINATOR, few, spare, 9), PlainSteps)
    larger = compiler.of(CENTRAL_COORDINATOR, SIZES, spare, 10)
    assert isinstance(larger, GeneratedSpec)
    assert compiler.of(CENTRAL_COORDINATOR, few, spare, 9) is larger
    fewer_brokers = {**SIZES, "Broker": 1}
    assert isinstance(compiler.of(CENTRAL_COORDINATOR, fewer_brokers, spare, 9), PlainSteps)
    own = compiler.of(CENTRAL_COORDINATOR, few, spare, 100)
    assert own is not larger
    assert own.machine.sizes == few


def test_what_waits_is_compiled_for_the_largest_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that are too few for their sizes alone share one that all of them fit in."""
    monkeypatch.setattr(of_traces, "WORTH_IT", 10)
    compiler, spare = of_traces.Compiler(), {"Member", "Partition"}
    few, many = {**SIZES, "Member": 1, "Partition": 3}, {**SIZES, "Member": 3, "Partition": 1}

    assert isinstance(compiler.of(CENTRAL_COORDINATOR, many, spare, 5), PlainSteps)
    fewer_brokers = {**SIZES, "Broker": 1}
    assert isinstance(compiler.of(CENTRAL_COORDINATOR, fewer_brokers, spare, 9), PlainSteps)
    both = compiler.of(CENTRAL_COORDINATOR, few, spare, 5)

    assert both.machine.sizes == {**SIZES, "Member": 3, "Partition": 3}
    assert compiler.of(CENTRAL_COORDINATOR, many, spare, 1) is both


def test_a_trace_that_differs_is_told_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line, and the condition of the spec's source that does not hold."""
    found = (compiled_and_plain(run(seed, "no_barrier"), monkeypatch) for seed in range(40))
    compiled, plain = next(both for both in found if both[1].verdict is Verdict.DIFFERS)

    assert facts(compiled)[:-1] == facts(plain)[:-1]
    assert compiled.mismatch is not None
    assert plain.mismatch is not None
    assert compiled.mismatch.where == plain.mismatch.where
    # What was tried may name more partitions than there are: sizes are rounded up.
    assert compiled.mismatch.differences[1:] == plain.mismatch.differences[1:]
    assert any("require(" in text for text in compiled.mismatch.lines)


def facts(outcome: Outcome) -> tuple[Any, ...]:
    """All but the time it took."""
    return (
        outcome.verdict, outcome.matched, outcome.named, outcome.inferred, outcome.largest,
        outcome.steps, outcome.mismatch,
    )  # fmt: skip
