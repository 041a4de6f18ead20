"""
Stories on real code: the steps that a story took in its spec, taken by the code.

Controlled steps are taken in the story's order, each when it is possible; what the code does by
itself is waited for. Code may do that otherwise than the story: then the rest of the story may lead
it elsewhere, or not be possible for it. Neither is a difference, but neither shows that the code
can come where the story ends; so each has a name of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Any

from herdproof.conformance.adapter import Adapter, given
from herdproof.conformance.holding.deeds import Case
from herdproof.conformance.holding.held import POLL, Carried, Differs, Held, TooManyStates
from herdproof.conformance.holding.seen import NOTHING_SEEN
from herdspec.check.running.run import Machine, Step
from herdspec.check.verdict import counted
from herdspec.language.surface import Spec

POLLS = 16
"""The number of looks, within an adapter's patience, if a step has become possible."""


class Outcome(Enum):
    """The outcome of a story on the code."""

    FOLLOWED = "followed"
    """The code took every step, and came to where the story ends."""
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
        told = tuple(str(differs).splitlines())
        return follower.told(Outcome.DIFFERS, follower.refused, difference=told)
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
        self._rest: deque[tuple[int, Step]] = deque()
        """The steps that are still to be taken, with their numbers."""
        self._refused: dict[int, str] = {}
        """Steps that the code has refused, though the spec allowed them, by their numbers."""

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
        there = sum(map(self._was_there, self.held.states))
        if not there:
            why = "and ends elsewhere: it did by itself what it may"
            return self.told(Outcome.ELSEWHERE, f"{why}{self.refused and f'; {self.refused}'}")
        if there < len(self.held.states):
            why = f"and ends in one of {counted(len(self.held.states), 'state')}, nobody sees which"
            return self.told(Outcome.UNCLEAR, why)
        return self.told(Outcome.FOLLOWED)

    def _was_there(self, at: Carried) -> bool:
        """
        Tells whether the code is where the story is.

        One that is pumped, and is asked for what it does by itself, is at rest between calls: what
        it did so since was within the step by which it has come there.
        """
        is_asked = self.held.adapter.pumped and self._asks_for_its_own
        may_go_on = is_asked and self.held.deeds[-1].kind == "offer"
        before: Carried | None = at
        while before is not None and before.state != self.state:
            went_on = may_go_on and before.by_itself and before.deed == at.deed
            before = before.before if went_on else None
        return before is not None

    @property
    def refused(self) -> str:
        """The first step that the code refused, and did not take in its turn, in a sentence."""
        first = min(self._refused, default=0)
        name = f"step {first}, {self._refused[first]}," if first else ""
        return name and f"it refused {name} which the spec allows"

    def follow(self, steps: Sequence[Step]) -> None:
        """Take these steps, as far as the code can."""
        if not self.is_there and hasattr(self.held.adapter, "start"):
            self.held.start(unlike_initially(self.held.machine, self.state))
        if not self.is_there:
            self.why_not = "it begins in another state"
        self._rest = deque(enumerate(steps, start=1))
        while self._rest and not self.why_not:
            number, step = self._rest.popleft()
            self._go(number, step)
            self.taken += not self.why_not
        is_done = self.why_not or any(map(self._was_there, self.held.states))
        if self._asks_for_its_own and not is_done:
            self.held.wait()

    def _go(self, number: int, step: Step) -> None:
        """Go on by one step of the story."""
        name, before = step.action.name, self.state
        self.state = step.state
        if name in self.held.adapter.silent:
            self._see(number, before, step)
        elif self._is_offered(step):
            self._offer(number, step)
        else:
            reason = self.held.adapter.absent.get(name, "nobody does it")
            self.why_not = f"step {number}, {step.label}, never happens to it: {reason}"

    @property
    def is_there(self) -> bool:
        """Tells whether the code may be where the story is."""
        return self._may_be_in(self.state)

    def _may_be_in(self, state: Spec) -> bool:
        return any(carried.state == state for carried in self.held.states)

    def _is_offered(self, step: Step) -> bool:
        return step.action.name in self.held.possible.controlled

    @property
    def _asks_for_its_own(self) -> bool:
        """True if the adapter has methods for what the code does by itself."""
        adapter = self.held.adapter
        return any(name in self.held.possible.controlled for name in adapter.silent)

    def _see(self, number: int, before: Spec, step: Step) -> None:
        """
        See the code do what it does by itself, unless it has; it may do it later, or not.

        Where the adapter has a method for that, the code is asked to do this step alone: it would
        do all that it can while one waits, and the story may have it do less.
        """
        if self.is_there and not self._may_be_in(before):
            return
        if not self._is_offered(step):
            if not self.is_there:
                self.held.wait()
        else:
            self._takes(number, step)

    def _takes(self, number: int, step: Step) -> bool:
        """Tells whether the code takes a step now, of which the spec says that it may."""
        name, wanted = step.action.name, {p for p, _ in given(step.action, self.held.adapter)}
        pairs = zip(step.action.parameters, step.arguments, strict=True)
        arguments = tuple(value for (parameter, _), value in pairs if parameter in wanted)
        if self.held.case(name, *arguments) is Case.NONE:
            return False
        is_taken = self.held.offer(name, *arguments)
        if not is_taken:
            self._refused[number] = step.label
        return is_taken

    def _takes_after_its_own(self, number: int, step: Step) -> bool:
        """
        Take a step that the code puts off, after what it does by itself next in the story.

        Only steps for which the adapter has a method; those that are not possible stay.
        """
        silent = self.held.adapter.silent
        for entry in takewhile(lambda entry: entry[1].action.name in silent, [*self._rest]):
            if self._is_offered(entry[1]) and self._takes(*entry):
                self._rest.remove(entry)
                self.taken += 1
                if self._takes(number, step):
                    self._refused.pop(number, None)
                    return True
        return False

    def _offer(self, number: int, step: Step) -> None:
        """Take a step when it is possible; wait until it is."""
        held = self.held
        if self._takes(number, step) or self._takes_after_its_own(number, step):
            return
        until = time.monotonic() + held.adapter.patience
        is_last = False
        while not is_last:
            held.wait()
            is_last = time.monotonic() >= until
            if self._takes(number, step):
                return
            if not is_last:
                time.sleep(max(POLL, held.adapter.patience / POLLS))
        self.why_not = f"step {number}, {step.label}, is not possible where it is by then"
