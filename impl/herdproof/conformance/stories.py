"""
Stories on real code: the steps that a story took in its spec, taken by the code.

Controlled steps are taken in the story's order, each when it is possible; what the code does by
itself is waited for. Code may do that otherwise than the story: then the rest of the story may lead
it elsewhere, or not be possible for it. Neither is a difference, but neither shows that the code
can come where the story ends; so each has a name of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from herdproof.conformance.adapter import Adapter, given
from herdproof.conformance.holding.held import POLL, Case, Differs, Held, TooManyStates
from herdproof.conformance.holding.seen import NOTHING_SEEN
from herdspec.check.running.run import Machine, Step
from herdspec.check.verdict import counted
from herdspec.language.surface import Spec

POLLS = 16
"""The number of looks, within an adapter's patience, if a step has become possible."""


class Outcome(Enum):
    """The outcome of a story on the code."""

    FOLLOWED = "followed"
    """The code took every step, and is where the story ends."""
    UNCLEAR = "unclear"
    """It took every step, and may be there, or elsewhere: it shows too little."""
    ELSEWHERE = "elsewhere"
    """It took every step that a test takes, and is elsewhere: it did by itself what it may."""
    STUCK = "stuck"
    """A step of the story is not possible for it, by what it did before; `why` says which."""
    DIFFERS = "differs"
    """It did what the spec does not allow."""


@dataclass(frozen=True)
class OnTheCode:
    """
    A story taken along on the code, so many `steps` of it, with these `switches` on.

    `difference` tells where it went otherwise than the spec allows; it is empty if it did not.
    """

    steps: int
    switches: frozenset[str]
    difference: tuple[str, ...] = ()
    outcome: Outcome = Outcome.FOLLOWED
    why: str = ""

    @property
    def follows(self) -> bool:
        """Tells whether the code took every step, and arrived where the spec does."""
        return self.outcome is Outcome.FOLLOWED

    @property
    def differs(self) -> bool:
        """Tells whether the code did what the spec does not allow: nothing else is wrong."""
        return self.outcome is Outcome.DIFFERS

    @property
    def line(self) -> str:
        """In one line."""
        on = ", ".join(sorted(self.switches))
        with_ = f" (with the switch {on})" if on else ""
        match self.outcome:
            case Outcome.DIFFERS:
                return f"the code goes elsewhere at step {self.steps}{with_}"
            case Outcome.STUCK:
                return f"the code cannot follow after {counted(self.steps, 'step')}{with_}: " + (
                    self.why
                )
            case Outcome.FOLLOWED:
                return f"the code follows, {self.steps} steps{with_}"
        return f"the code goes along, {self.steps} steps{with_}, {self.why}"


def on_the_code(
    machine: Machine, adapter: type[Adapter], steps: Sequence[Step], initial: Spec | None = None
) -> OnTheCode:
    """
    Take a story along on fresh code; it begins in the `initial` state (None: in the spec's own).

    Raises `AdapterError` for an adapter that does not fit the spec.
    """
    held = Held(machine, adapter)
    follower = Follower(held, machine.initial() if initial is None else initial)
    try:
        with held:
            held.run(lambda: follower.follow(steps))
            return follower.outcome()
    except Differs as differs:
        return follower.told(Outcome.DIFFERS, difference=tuple(str(differs).splitlines()))
    except TooManyStates as error:
        return follower.told(Outcome.UNCLEAR, str(error))


def unlike_initially(machine: Machine, state: Spec) -> dict[str, Any]:
    """In which fields a state is not as it is initially declared."""
    initial = machine.initial()
    pairs = ((name, getattr(state, name), getattr(initial, name)) for name in machine.spec.rich)
    return {name: value for name, value, before in pairs if value != before}


class Follower:
    """Takes a story's steps on code that lives; `why_not` says why it went no further."""

    def __init__(self, held: Held, initial: Spec) -> None:
        self.held = held
        self.state = initial
        """Where the story is."""
        self.taken = 0
        self.why_not = ""

    def told(
        self, outcome: Outcome, why: str = "", difference: tuple[str, ...] = ()
    ) -> OnTheCode:  # fmt: skip
        """The story on the code, told."""
        switches: frozenset[str] = getattr(self.held.adapter, "switches", frozenset())
        return OnTheCode(self.taken, switches, difference, outcome, why)

    def outcome(self) -> OnTheCode:
        """Where the code has come, at the end of the story."""
        if self.why_not:
            return self.told(Outcome.STUCK, self.why_not)
        if self.held.saw_nothing:
            return self.told(Outcome.UNCLEAR, NOTHING_SEEN)
        there = sum(carried.state == self.state for carried in self.held.states)
        if not there:
            return self.told(Outcome.ELSEWHERE, "and ends elsewhere: it did by itself what it may")
        if there < len(self.held.states):
            why = f"and ends in one of {counted(len(self.held.states), 'state')}, nobody sees which"
            return self.told(Outcome.UNCLEAR, why)
        return self.told(Outcome.FOLLOWED)

    def follow(self, steps: Sequence[Step]) -> None:
        """Take these steps, as far as the code can."""
        if not self.is_there and hasattr(self.held.adapter, "start"):
            self.held.start(unlike_initially(self.held.machine, self.state))
        if not self.is_there:
            self.why_not = "it begins in another state"
        for number, step in enumerate(steps, start=1):
            if self.why_not:
                return
            name = step.action.name
            self.state = step.state
            if name in self.held.adapter.silent:
                self._see()
            elif name in self.held.possible.controlled:
                self._offer(number, step)
            else:
                reason = self.held.adapter.absent.get(name, "nobody does it")
                self.why_not = f"step {number}, {step.label}, never happens to it: {reason}"
            self.taken += not self.why_not

    @property
    def is_there(self) -> bool:
        """Tells whether the code may be where the story is."""
        return any(carried.state == self.state for carried in self.held.states)

    def _see(self) -> None:
        """See the code do what it does by itself, unless it has; it may do it later, or not."""
        if not self.is_there:
            self.held.wait()

    def _offer(self, number: int, step: Step) -> None:
        """Take a step when it is possible; wait until it is."""
        held, name = self.held, step.action.name
        wanted = {parameter for parameter, _ in given(step.action, held.adapter)}
        pairs = zip(step.action.parameters, step.arguments, strict=True)
        arguments = tuple(value for (parameter, _), value in pairs if parameter in wanted)
        until = time.monotonic() + held.adapter.patience
        is_last = False
        while True:
            if held.case(name, *arguments) is not Case.NONE and held.offer(name, *arguments):
                return
            if is_last:
                break
            held.wait()
            is_last = time.monotonic() >= until
            if not is_last:
                time.sleep(max(POLL, held.adapter.patience / POLLS))
        self.why_not = f"step {number}, {step.label}, is not possible where it is by then"
