"""A path through a spec that somebody takes by hand: where it is, what is possible, what breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdproof.report.render import spoken
from herdspec.language.errors import UsageError
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdspec.check.running.replay import StoryFile
    from herdspec.check.running.run import Machine, Step
    from herdspec.language.surface import Spec

MOST_STARTS = 50
"""The most initial states that can be chosen from."""


@dataclass
class SpecPath:
    """
    A path through a spec, in its plain Python, within the budget of faults.

    `spec` is how to find the spec. `starts` are the initial states; where there are several,
    `start` is None until one is chosen.
    """

    spec: str
    machine: Machine
    starts: list[Spec]
    start: Spec | None = None
    path: list[Step] = field(default_factory=list)

    @classmethod
    def of(cls, spec: str, name: str, machine: Machine) -> SpecPath:
        """A walk at its beginning; raises `UsageError` where a spec has no initial state."""
        starts = list(islice(machine.starts(), MOST_STARTS + 1))
        if not starts:
            raise UsageError(f"{name} has no initial state at this size: nothing to walk")
        return cls(spec, machine, starts)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Go back to the beginning: the initial state, or the choice of one."""
        self.path.clear()
        self.start = self.starts[0] if len(self.starts) == 1 else None

    @property
    def initial(self) -> Spec:
        """Where the walk began (the first initial state, until one is chosen)."""
        return self.start or self.starts[0]

    @property
    def state(self) -> Spec:
        """Where the walk is."""
        return self.path[-1].state if self.path else self.initial

    @property
    def faults(self) -> int:
        """The part of the budget that is spent."""
        return sum(step.action.disturbs for step in self.path)

    @property
    def budget(self) -> int:
        """The number of faults that may happen."""
        return self.machine.ground.faults

    def steps(self) -> list[Step]:
        """The steps that are possible here, in the order in which the checkers try them."""
        left = self.faults < self.budget
        return [s for s in self.machine.steps(self.state) if left or not s.action.disturbs]

    def undefined(self) -> Iterator[tuple[str, str]]:
        """The steps that are possible here, but have no meaning: the call, and why."""
        from herdspec.check.running.undefined import undefined_step
        from herdspec.language.surface import Undefined

        for action, arguments in self.machine.choices:
            try:
                self.machine.take(self.state, action.name, arguments)
            except Undefined:
                step = undefined_step(self.machine, self.state, action, arguments)
                yield step.label, step.undefined

    def is_beyond(self, state: Spec) -> bool:
        """Tells whether a number or a channel of a state is beyond the bound: it is dropped."""
        from herdspec.engine.ground import FAULTS

        slots = [slot for slot in self.machine.ground.slots.values() if slot.field != FAULTS]
        numbers = self.machine.numbers(state)
        return any(n >= slot.values for n, slot in zip(numbers, slots, strict=False))

    def broken(self) -> Iterator[str]:
        """The promises that this state, or the step to it, breaks."""
        machine, before = self.machine, self.path[-2].state if len(self.path) > 1 else None
        for p in machine.spec.properties:
            if p.expectation is Expectation.ALWAYS and not machine.holds(p, self.state):
                yield f"{spoken(p.name)}: {p.sentence}"
            if p.expectation is Expectation.STEP and self.path:
                came_from = before or self.initial
                if not machine.holds(p, came_from, self.state):
                    yield f"{spoken(p.name)}: {p.sentence}"

    @property
    def initially(self) -> str:
        """The initial state that was chosen, where there is a choice."""
        from herdspec.check.running.starts import initially

        return initially(self.machine, self.initial)

    def story(self, folder: Path) -> StoryFile:
        """
        The path as a story file in this folder.

        It is a story of the first promise that it breaks; one of none expects to be possible.
        """
        from herdproof.cli.code.stories import relative
        from herdspec.check.running.replay import Expect, story_file

        name = next(self.broken_along_it(), "")
        made = story_file(relative(self.spec, folder), self.machine, name, self.initial, self.path)
        return made if name else made.expecting(Expect.HOLDS)

    def broken_along_it(self) -> Iterator[str]:
        """The names of the promises that some state or step of the path breaks."""
        from herdspec.check.running.judge import PathProperty, judge

        for p in self.machine.spec.properties:
            judged = p.expectation in (Expectation.ALWAYS, Expectation.STEP)
            if judged and judge(PathProperty(self.machine, p.name), self.initial, self.path)[0]:
                yield p.name


def different(first: Spec, state: Spec) -> Iterator[tuple[str, Any]]:
    """The entries of a state that differ from the first one's."""
    from herdspec.check.running.run import difference

    for entry, (_, value) in difference(first, state).items():
        yield entry, value
