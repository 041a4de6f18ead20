"""
The spec's environment drives the real cores: Hypothesis picks what goes wrong, step by step.

Every action of the spec that is a fault or a command (all that nobody in the protocol decides) has
a rule here, which makes it happen in the simulated world to the cores that the services run. What
the cores make of it is traced; at the end the world is left in peace, must settle, and the whole
trace is replayed in the spec. A failing example is shrunk by Hypothesis to the fewest steps.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from herdproof.link.central import conform_lines
from herdproof.link.central_runs import Tracers
from herdproof.simulator.central import Run
from herdproof.simulator.chance import Config, Fault, Kind
from herdproof.simulator.contract import Broken
from herdspec.check.conform import Verdict
from herdspec.language.surface import Kind as Of
from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR

BY_THEMSELVES = {"consume", "produce", "commit", "fail_rebalance", "refuse", "lose_answer"}
"""Applications, producers and ZooKeeper do these all the time, or by what the other rules break."""

SETTLES_MS = 25_000

brokers, consumers = st.integers(1, 2), st.integers(1, 3)
short, long = st.integers(50, 900), st.integers(2_500, 9_000)


class Environment(RuleBasedStateMachine):
    """Two brokers, three consumers; `config` may have mistakes."""

    config = Config(brokers=2, consumers=3, faults=0)
    seen: ClassVar[Counter[str]] = Counter()
    """Actions of the spec that any example took."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        """A world begins, and lives for a second."""
        tracers = Tracers()
        tracers.run = self.run = Run(seed, self.config, (), observe=tracers)
        self.tracers = tracers
        self.broken: Broken | None = None
        self.run.begin()
        self._live(1_000)

    def _live(self, ms: float) -> None:
        try:
            if self.broken is None:
                self.run.timeline.run_until(self.run.timeline.now + ms)
        except Broken as broken:
            self.broken = broken

    def _strike(self, kind: Kind, broker: int = 1, consumer: int = 1, for_ms: int = 0) -> None:
        consumer = min(consumer, len(self.run.consumers))
        self.run.strike(Fault(round(self.run.timeline.now), kind, broker, consumer, for_ms))
        self._live(40)

    # ── One rule for each action ────────────────────────────────────────────────────────────

    @rule(ms=st.sampled_from((20, 200, 1_000, 3_000)))
    def wait(self, ms: int) -> None:
        """Whatever is due happens."""
        self._live(ms)

    @rule(broker=brokers)
    def lose_session(self, broker: int) -> None:
        """A broker's session ends; it learns of it, or not for a while."""
        self._strike(Kind.EXPIRE, broker)

    @rule(broker=brokers)
    def doubt(self, broker: int) -> None:
        """A broker's connection to ZooKeeper breaks."""
        self._strike(Kind.CUT_ZOOKEEPER, broker)

    @rule(broker=brokers, ms=short)
    def restart(self, broker: int, ms: int) -> None:
        """A broker is killed."""
        self._strike(Kind.KILL_BROKER, broker, for_ms=ms)

    @rule(consumer=consumers, ms=short)
    def register(self, consumer: int, ms: int) -> None:
        """A consumer is killed, and another one registers under its id."""
        self._strike(Kind.KILL_CONSUMER, consumer=consumer, for_ms=ms)

    @rule(consumer=consumers, ms=long)
    def time_out(self, consumer: int, ms: int) -> None:
        """A consumer is paused until its lease is over."""
        self._strike(Kind.PAUSE_CONSUMER, consumer=consumer, for_ms=ms)

    @rule(consumer=consumers, ms=st.one_of(short, long))
    def cut(self, consumer: int, ms: int) -> None:
        """A consumer's connections break, and one side learns of it later."""
        self._strike(Kind.CUT, consumer=consumer, for_ms=ms)

    @rule(broker=brokers, consumer=consumers, ms=long)
    def fail(self, broker: int, consumer: int, ms: int) -> None:
        """Nothing gets through between a broker and a consumer until it has waited too long."""
        self._strike(Kind.PART, broker, consumer, ms)

    @rule(new=st.booleans())
    def appear(self, new: bool) -> None:
        """A topic appears, or a partition."""
        self._strike(Kind.ADD_TOPIC if new else Kind.ADD_PARTITIONS)

    @rule(broker=brokers, ms=long)
    def pause(self, broker: int, ms: int) -> None:
        """A broker is paused: to the spec, its steps are put off."""
        self._strike(Kind.PAUSE_BROKER, broker, for_ms=ms)

    @rule(consumer=consumers, ms=short)
    def leave(self, consumer: int, ms: int) -> None:
        """A consumer is closed by its user."""
        self._strike(Kind.LEAVE, consumer=consumer, for_ms=ms)

    # ── The end ─────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        """All is well again: the groups settle, and the trace conforms."""
        if not hasattr(self, "run"):
            return
        try:
            if self.broken is None:
                self.run.settle(self.run.timeline.now + SETTLES_MS + 10_000)
        except Broken as broken:
            self.broken = broken
        outcome = conform_lines(self.tracers.lines())
        told = "\n".join(outcome.mismatch.lines) if outcome.mismatch else outcome.reason
        assert outcome.verdict is Verdict.CONFORMS, told
        assert self.broken is None, f"{self.broken.sentence.value}: {self.broken}"
        Environment.seen.update(outcome.covered)
        for action in sorted(outcome.covered):
            event(action)


def drive(examples: int, steps: int, *, shrinks: bool = True, **config: Any) -> None:
    """Run so many examples; raises what an example finds, with the fewest steps if it `shrinks`."""

    class Driven(Environment):
        """The environment of these cores."""

    Driven.config = Config(brokers=2, consumers=3, faults=0, settle_ms=SETTLES_MS, **config)
    run_state_machine_as_test(
        Driven,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None,
            phases=[Phase.generate, *([Phase.shrink] if shrinks else [])],
            suppress_health_check=list(HealthCheck), derandomize=True, database=None,
        ),
    )  # fmt: skip


def test_everything_that_nobody_decides_has_a_rule() -> None:
    """A fault or command that is added to the spec must be made to happen here, too."""
    outside = {a.name for a in CENTRAL_COORDINATOR.actions if a.kind is not Of.STEP}

    assert {name for name in outside - BY_THEMSELVES if not hasattr(Environment, name)} == set()


def test_the_cores_do_what_the_spec_allows() -> None:
    """Whatever happens to them, in whatever order."""
    drive(examples=25, steps=10)

    print(f"actions of the spec, by examples: {Environment.seen.most_common()}")


@pytest.mark.long
def test_the_cores_do_what_the_spec_allows_for_long() -> None:
    """A thousand examples of thirty steps."""
    drive(examples=1_000, steps=30)


@pytest.mark.parametrize("flaw", ["no_barrier", "no_start", "lost_trigger"])
def test_a_mistaken_core_is_found(flaw: str) -> None:
    """By the spec or by the contract, within as many examples."""
    with pytest.raises(AssertionError):
        drive(examples=25, steps=10, shrinks=False, coordinator_flaws=frozenset({flaw}))
