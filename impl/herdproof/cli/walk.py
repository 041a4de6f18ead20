"""A path through a spec that somebody takes by hand: where it is, what is possible, what breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from herdproof.cli.render import spoken
from herdspec.language.errors import UsageError
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdspec.check.run import Machine, Step
    from herdspec.language.surface import Spec

VERSION = 1
"""Of the file that a path is saved to."""
MOST_STARTS = 50
"""So many initial states can be chosen from."""


@dataclass
class Walk:
    """
    A path through a spec, in its plain Python, within the budget of faults.

    `starts` are the initial states; where there are several, `start` is None until one is chosen.
    """

    name: str
    machine: Machine
    starts: list[Spec]
    start: Spec | None = None
    path: list[Step] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, machine: Machine) -> Walk:
        """A walk at its beginning; raises `UsageError` where a spec has no initial state."""
        starts = list(islice(machine.starts(), MOST_STARTS + 1))
        if not starts:
            raise UsageError(f"{name} has no initial state at this size: nothing to walk")
        return cls(name, machine, starts)

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
        """How much of the budget is spent."""
        return sum(step.action.disturbs for step in self.path)

    @property
    def budget(self) -> int:
        """How many faults may happen."""
        return self.machine.ground.faults

    def steps(self) -> list[Step]:
        """What is possible here, in the order in which the checkers try it."""
        left = self.faults < self.budget
        return [s for s in self.machine.steps(self.state) if left or not s.action.disturbs]

    def undefined(self) -> Iterator[tuple[str, str]]:
        """The steps that are possible here, but have no meaning: the call, and why."""
        from herdspec.check.run import Step
        from herdspec.language.surface import Undefined

        for action, arguments in self.machine.choices:
            try:
                self.machine.take(self.state, action.name, arguments)
            except Undefined as error:
                yield Step(action, arguments, self.state).label, str(error)

    def is_beyond(self, state: Spec) -> bool:
        """Whether a number or a channel of a state is beyond the bound, so that it is dropped."""
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

    def json(self) -> dict[str, Any]:
        """The path as plain JSON; its steps are written as those of a story file."""
        from herdspec.check.replay import taken

        ground = self.machine.ground
        return {
            "version": VERSION, "spec": self.name, "sizes": dict(ground.sizes),
            "faults": self.budget, "bound": ground.bound,
            "start": dict(self.told_start()), "steps": [
                {**asdict(taken(s)), "sentence": s.sentence} for s in self.path
            ],
        }  # fmt: skip

    def told_start(self) -> Iterator[tuple[str, Any]]:
        """The entries by which the initial state differs from the first one."""
        from herdspec.check.graph_export import plain

        for entry, value in different(self.starts[0], self.initial):
            yield entry, plain(value)


def different(first: Spec, state: Spec) -> Iterator[tuple[str, Any]]:
    """The entries of a state that differ from the first one's."""
    from herdspec.check.run import difference

    for entry, (_, value) in difference(first, state).items():
        yield entry, value
