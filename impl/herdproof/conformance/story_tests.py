"""
Stories as generated tests: the shortest one to each action, each `sometimes`, each side of a guard.

A side of a guard is one of its conditions: where it alone forbids the action, the code must refuse
it (of actions that are `offered`); and where one of several alternatives alone allows the action,
the code must take it. The spec is explored once, when the first of these tests runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from unittest import SkipTest, TestCase

import numpy as np

from herdproof.conformance.adapter import Adapter, AdapterError, check_adapter
from herdproof.conformance.graphs.graph import Graph, explored
from herdproof.conformance.holding.deeds import Case
from herdproof.conformance.holding.held import Differs, Held
from herdproof.conformance.stories import Follower
from herdspec.check.exploration.exploration import Story
from herdspec.check.exploration.numpy_engine import CHUNK, truths
from herdspec.check.running.wording import text
from herdspec.engine.columns import Columns
from herdspec.language import graph as g
from herdspec.language.graph import Expr
from herdspec.language.specification import Action, Specification, specification
from herdspec.language.surface import Expectation, Spec


@dataclass(frozen=True)
class Goal:
    """The goal of a story: a name, a sentence, and how the story is found."""

    name: str
    sentence: str
    run: Callable[[ShortestStories], None]


class ShortestStories:
    """A spec's shortest stories at a size, taken along on code."""

    def __init__(
        self, spec: Specification, adapter: type[Adapter], sizes: Mapping[str, int], faults: int,
        bound: int | None,
    ) -> None:  # fmt: skip
        self.spec, self.adapter, self.sizes = spec, adapter, dict(sizes)
        self.faults, self.bound = faults, bound

    @cached_property
    def graph(self) -> Graph:
        """The spec's graph, each state by itself."""
        explorer = explored(
            self.spec, self.sizes, faults=self.faults, bound=self.bound, symmetry=False
        )
        return Graph(explorer, self.adapter)

    # ── Stories ─────────────────────────────────────────────────────────────────────────────

    def take(self, story: Story, then: Callable[[Held], None] | None = None) -> None:
        """
        Take a story on fresh code to its end, and do something there; raises `Differs`.

        `SkipTest` where the code goes along to another end, or cannot: that shows nothing.
        """
        held = Held(self.graph.machine, self.adapter)
        follower = Follower(held, story.initial)

        def body() -> None:
            follower.follow(story.steps)
            came = follower.outcome()
            if not came.follows:
                raise SkipTest(came.line)
            if then is not None:
                then(held)

        with held:
            held.run(body)

    def to_action(self, name: str) -> None:
        """The shortest story that ends with an action."""
        found = self.graph.shortest(name)
        if found is None:
            raise SkipTest(f"{name} is never possible at this size")
        self.take(self.graph.explorer.story(*found))

    def to_sometimes(self, name: str) -> None:
        """The shortest story to where a property holds that does so sometimes."""
        story = self.graph.explorer.result.witnesses.get(name)
        if story is None:
            raise SkipTest(f"{name} holds nowhere at this size")
        self.take(story)

    def refuses(self, action: Action, parts: list[Expr], part: Expr) -> None:
        """The shortest story to where a condition alone forbids an action, which is offered."""
        formula = g.conj(*(p for p in parts if p is not part), g.negate(part))
        state, instance = self._first(action, formula, allowed=False)
        graph = self.graph
        given = graph.given[instance]
        assert given is not None, "only actions with a method are offered"

        def offer(held: Held) -> None:
            if held.case(action.name, *given) is not Case.NONE:
                raise SkipTest("the code may have gone on, to where it is allowed")
            held.offer(action.name, *given)

        self.take(graph.explorer.story(state), offer)

    def allows(self, action: Action, part: Expr, alternative: Expr) -> None:
        """The shortest story that ends with an action, allowed by one alternative alone."""
        others = [g.negate(e) for e in part.args if e is not alternative]
        formula = g.conj(action.guard, alternative, *others)
        state, instance = self._first(action, formula, allowed=True)
        self.take(self.graph.explorer.story(state, instance))

    def _first(self, action: Action, formula: Expr, *, allowed: bool) -> tuple[int, int]:
        """The first state in which a formula of an action holds, and for which instance."""
        graph = self.graph
        explorer = graph.explorer
        numbers = [k for k, (a, _) in enumerate(graph.instances) if a.name == action.name]
        for low in range(0, graph.states, CHUNK):
            columns = Columns(explorer.packing, explorer.rows[low : low + CHUNK])
            found = []
            for k in numbers:
                lowered = explorer.ground.of_instance(formula, explorer.ground.instances[k])
                found += [(low + int(s), k) for s in np.flatnonzero(truths(columns, lowered))]
            for state, k in sorted(found):
                whole = graph.instances[k][1]
                with graph.possible.sized():
                    takes = graph.possible.takes(graph.plain(state), action, whole)
                if takes is allowed and (not allowed or self._leaves(state, k)):
                    return state, k
        raise SkipTest("there is no such state at this size")

    def _leaves(self, state: int, instance: int) -> bool:
        return any(e.instance == instance for e in self.graph.leaving(state))


# ── What is to be shown ─────────────────────────────────────────────────────────────────────


def goals(spec: Specification, adapter: type[Adapter]) -> Iterator[Goal]:
    """All that the tests are to show, in the spec's order."""
    for action in spec.actions:
        name = action.name
        if name not in adapter.absent:
            yield Goal(
                f"action_{name}", action.sentence, partial(ShortestStories.to_action, name=name)
            )
    for p in spec.properties:
        if p.expectation is Expectation.SOMETIMES:
            run = partial(ShortestStories.to_sometimes, name=p.name)
            yield Goal(f"sometimes_{p.name}", p.sentence, run)
    for action in spec.actions:
        if action.name not in adapter.absent:
            yield from sides(action, is_offered=action.name in adapter.offered)


def sides(action: Action, *, is_offered: bool) -> Iterator[Goal]:
    """The sides of an action's guard."""
    parts = [*action.guard.args] if action.guard.op == "and" else [action.guard]
    for number, part in enumerate(parts, start=1):
        said = text(part).replace("self.", "")
        if part.op == "const":
            continue
        if is_offered:
            yield Goal(
                f"refused_{action.name}_{number}",
                f"{action.name} is refused where only this does not hold: {said}",
                partial(ShortestStories.refuses, action=action, parts=parts, part=part),
            )
        for k, alternative in enumerate(part.args if part.op == "or" else (), start=1):
            yield Goal(
                f"allowed_{action.name}_{number}_{k}",
                f"{action.name} is taken where of {said} only {text(alternative)} holds",
                partial(ShortestStories.allows, action=action, part=part, alternative=alternative),
            )


def stories(
    spec: type[Spec] | Specification, adapter: type[Adapter], *, faults: int = 0,
    bound: int | None = None, **sizes: int,
) -> type[TestCase]:  # fmt: skip
    """
    A test case with a test for each story: assign it to a name in a test module.

    The tests are called after what they show: `test_action_write`, `test_sometimes_…`,
    `test_refused_write_2`, `test_allowed_…`; their docstrings say it. One is skipped, and says why,
    where there is no such story at this size, or the code does not come to its end. `faults` is the
    budget of actions that disturb, `bound` the largest natural. Raises `AdapterError` for an
    adapter that does not fit its spec.
    """
    made = spec if isinstance(spec, Specification) else specification(spec)
    check_adapter(made, adapter)
    told = ShortestStories(made, adapter, sizes, faults, bound)
    members: dict[str, Any] = {
        f"test_{re.sub(r'[^0-9A-Za-z]+', '_', goal.name)}": _test(goal, told)
        for goal in goals(made, adapter)
    }
    if not members:
        raise AdapterError(f"{made.name} has no action that {adapter.__name__} does")
    members["__doc__"] = f"{adapter.__name__} follows the shortest stories of {made.name}."
    return type(f"{made.name}Stories", (TestCase,), members)


def _test(goal: Goal, told: ShortestStories) -> Callable[[TestCase], None]:
    def test(self: TestCase) -> None:  # noqa: ARG001 - unittest's
        __tracebackhide__ = True
        try:
            goal.run(told)
        except Differs as differs:
            raise differs.with_traceback(None) from differs.__cause__

    test.__doc__ = goal.sentence
    return test
