"""
A generated test of real code: a Hypothesis state machine with a rule for each action of its spec.

`stateful(Spec, Adapter, Client=3)` is a test case that pytest collects. Its runs take the code from
step to step and compare it with the spec after each (`held.py` says what that means): a rule for
each action that is offered to the code, for each disturbance, and one that waits; each takes some
further turns as well (`draws.py`). What is drawn never depends on the code, nor does which rule may
be taken; so code that is not deterministic cannot end in Hypothesis' own complaints.

Hypothesis only generates. A difference is shortened by doing again what led to it with less and
less of it (`shorten.py`), and told as a story in the spec's sentences, with a program to paste.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar
from unittest import TestCase

try:
    from hypothesis import HealthCheck, Phase, Verbosity, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import (
        RuleBasedStateMachine,
        initialize,
        rule,
        run_state_machine_as_test,
    )
except ImportError as error:
    raise ImportError("`stateful` draws by Hypothesis: install `herdproof[testing]`") from error

from herdproof.conformance.adapter import Adapter, AdapterError, method_of
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.holding.seen import NOTHING_SEEN, saw_nothing
from herdproof.conformance.walks.draws import BYTES, Turns
from herdproof.conformance.walks.shorten import SECONDS, shortened
from herdproof.conformance.walks.walk import Size, Walks, gaps
from herdproof.errors import HerdError
from herdspec.language.specification import Specification
from herdspec.language.surface import Spec

RUNS, RULES = 50, 20
"""The number of a test's runs, and of the rules of each: by default, see `stateful`."""
TURNS = st.binary(min_size=4 * BYTES, max_size=16 * BYTES)
"""The turns that a rule takes after its own."""
NUMBERS = st.integers(0, 256**BYTES - 1)


class InStep(RuleBasedStateMachine):
    """A spec and real code, step by step; `machine_of` adds the rules."""

    walks: ClassVar[Walks]
    first: ClassVar[list[tuple[Held, HerdError | Differs]]]
    """The first difference, or whatever else ended the test, and what it was seen with."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: Turns | None = None

    def _begin(self, numbers: Sequence[int], mix: int) -> None:
        """The code, made at some sizes, and which actions are usual in this run."""
        if self.first:
            raise self.first[0][1]  # Hypothesis does it again; once was enough
        turns = self.walks.at(numbers)
        self._held(turns.held, turns.held.__enter__)
        turns.mix(mix)
        self.turns = turns

    def _take(self, first: Callable[[Turns], object], then: bytes) -> None:
        """A rule: its own turn, and those that follow."""
        assert self.turns is not None, "`begin` comes first"
        held = self.turns.held
        self._held(held, partial(held.run, partial(_both, self.turns, first, then)))

    def _held(self, held: Held, body: Callable[[], object]) -> None:
        try:
            body()
        except (HerdError, Differs) as found:
            self.first.append((held, found))
            raise

    def teardown(self) -> None:
        """End the code, whatever happened."""
        turns, self.turns = self.turns, None
        if turns is not None and not self.first:
            self._held(turns.held, turns.held.end)
        elif turns is not None:
            turns.held.__exit__(Differs)


def _both(turns: Turns, first: Callable[[Turns], object], then: bytes) -> None:
    first(turns)
    turns.by(then)


def machine_of(walks: Walks) -> type[InStep]:
    """A state machine with a rule for each action, each disturbance, and to wait."""
    sizes = st.tuples(*(st.integers(0, len(c) - 1) for c in walks.choices.values()))
    rules: dict[str, Any] = {"begin": initialize(numbers=sizes, mix=NUMBERS)(_beginning())}
    turns = walks.at([0] * len(walks.choices))
    for name in turns.all:
        rules[f"take_{method_of(name)}"] = _rule(partial(_action, name))
    for name in turns.disturbances:
        rules[f"disturb_{name}"] = _rule(partial(_disturbance, name))
    if turns.waits:
        rules["wait"] = _rule(_waiting)
    name = f"{walks.spec.name}HeldBy{walks.adapter.__name__}"
    return type(name, (InStep,), {"walks": walks, "first": [], **rules})


def _beginning() -> Callable[..., None]:
    def begin(self: InStep, numbers: tuple[int, ...], mix: int) -> None:
        self._begin(numbers, mix)

    return begin


def _rule(own: Callable[[Turns, int], object]) -> Any:
    """A rule that takes a turn of its own, by a number, and then some others."""

    def take(self: InStep, number: int, then: bytes) -> None:
        self._take(lambda turns: own(turns, number), then)

    return rule(number=NUMBERS, then=TURNS)(take)


def _action(name: str, turns: Turns, number: int) -> None:
    turns.offer([name], number)


def _disturbance(name: str, turns: Turns, _number: int) -> None:
    turns.held.disturb(name)


def _waiting(turns: Turns, _number: int) -> None:
    turns.held.wait()


def stateful(
    spec: type[Spec] | Specification, adapter: type[Adapter], **sizes: Size
) -> type[TestCase]:
    """
    A test case that holds real code to its spec: assign it to a name in a test module.

    A size is a number of elements, or some to draw from: `Broker=(3, 5)`, `Client=range(2, 6)`.
    Hypothesis' settings are those of the class, as always: `LeaseHeld.settings =
    settings(max_examples=500, stateful_step_count=50)`; by default 50 runs of 20 rules, each of 5
    to 17 turns. `shorten` (seconds) bounds how long a story is shortened, `gaps()` says what a pass
    does not show (pytest's summary has it). Raises `AdapterError` for an adapter that does not fit.
    """
    walks_ = Walks(spec, adapter, sizes)
    machine = machine_of(walks_)

    class HeldCase(machine.TestCase):  # type: ignore[name-defined, misc]
        """The test case."""

        settings = settings(max_examples=RUNS, stateful_step_count=RULES)
        walks = walks_
        shorten = SECONDS

        @classmethod
        def gaps(cls) -> list[str]:
            """The things that a pass does not show: a sentence each."""
            return gaps(walks_.spec, walks_.adapter, walks_.report)

        def runTest(self) -> None:  # noqa: N802 - unittest's name
            __tracebackhide__ = True
            run(machine, type(self).settings, shorten=self.shorten)

        runTest.is_hypothesis_test = True  # type: ignore[attr-defined]

    HeldCase.__name__ = HeldCase.__qualname__ = machine.__name__
    HeldCase.__doc__ = f"{adapter.__name__} is held to {walks_.spec.name}, step by step."
    found: type[TestCase] = HeldCase
    return found


def run(machine: type[InStep], chosen: settings, *, shorten: float = SECONDS) -> None:
    """
    Run a machine; raises `Differs` with the shortest story, or what else ended it.

    How slow it is never fails it.
    """
    __tracebackhide__ = True
    machine.first = []
    quiet = settings(
        chosen,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=quiet)
    except Exception:  # Hypothesis may call it flaky: what was seen first is the story
        if not machine.first:
            raise
    if machine.first:
        held, error = machine.first[0]
        if isinstance(error, Differs):
            error = shortened(held, error, seconds=shorten)
        raise error.with_traceback(None) from error.__cause__
    _look_what_is_missing(machine.walks)


def _look_what_is_missing(walks: Walks) -> None:
    """Fail if a pass shows nothing, or if most runs left something behind."""
    report = walks.report
    name = walks.adapter.__name__
    if not report.steps:
        raise AdapterError(f"{name} took no step of {walks.spec.name}: nothing was shown")
    if saw_nothing(walks.spec.rich, report.unseen):
        raise AdapterError(
            f"{name}.observe shows no field of {walks.spec.name}: {NOTHING_SEEN}, so nothing was"
            f" compared; return some of {', '.join(walks.spec.rich)}"
        )
    often = [what for what, times in report.left.items() if 2 * times > report.runs > 1]
    if often:  # a library's own threads and files are opened in one run, and stay
        raise AdapterError(
            f"{name}.end leaves behind {', '.join(often)}: close what `begin` opened"
        )
