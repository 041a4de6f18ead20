"""
Steps by drawn numbers: what is done next to code that is held to its spec.

The numbers are drawn without a look at the code, and the spec says which steps they mean where it
may be. So code that is not deterministic cannot make a driver's draws differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from herdproof.conformance.holding.closure import Carried
from herdproof.conformance.holding.held import Held
from herdproof.conformance.holding.possible import turned
from herdspec.language.surface import ActionKind, Undefined, sizes_of_sorts

SHARES = 32
"""Of so many turns, three offer what is forbidden, three are anything, one disturbs, some wait."""
FORBIDDEN, ANYTHING, DISTURBED, WAITED = (
    range(3), range(3, 6), range(6, 7), range(7, 12),
)  # fmt: skip
USUAL = {ActionKind.STEP: 0.9, ActionKind.COMMAND: 0.3, ActionKind.FAULT: 0.1}
"""With which probability an action is one of a run's usual ones: no two runs are alike."""
BYTES = 3
"""The number of drawn bytes that make a turn."""


class Turns:
    """Takes turns on a `Held`, by numbers; within it, the code lives."""

    def __init__(self, held: Held) -> None:
        self.held = held
        possible, adapter = held.possible, held.adapter
        self.all = [*possible.controlled]
        self.usual = self.all
        self.forbidden = [name for name in self.all if name in adapter.offered]
        self.disturbances = [*adapter.disturbed]
        self.waits = bool(adapter.silent)

    def mix(self, number: int) -> None:
        """
        Choose, by a number, which actions are usual in a run: the others are rare.

        Runs that leave much out come further than those that do a little of everything.
        """
        random, actions = Random(number), self.held.possible.actions
        self.usual = [n for n in self.all if random.random() < USUAL[actions[n].kind]]

    def by(self, drawn: bytes) -> None:
        """A turn for each few of these bytes."""
        for at in range(0, len(drawn) - BYTES + 1, BYTES):
            self.take(int.from_bytes(drawn[at : at + BYTES], "big"))

    def take(self, number: int) -> None:
        """One turn: a step that is possible, most often; or one that is forbidden, or none."""
        number, share = divmod(number, SHARES)
        if share in DISTURBED and self.disturbances:
            self.held.disturb(self.disturbances[number % len(self.disturbances)])
        elif share in WAITED and self.waits:
            self.held.wait()
        elif share not in FORBIDDEN or not self.offer(self.forbidden, number, possible=False):
            usual = self.all if share in ANYTHING else self.usual
            if not self.offer(usual, number) and not self.offer(self.all, number) and self.waits:
                self.held.wait()

    def offer(self, names: Sequence[str], number: int, *, possible: bool = True) -> bool:
        """
        Offer the first of these actions that is possible (or is forbidden) where we may be.

        It returns whether there was any.
        """
        held = self.held
        carried: Carried = held.states[number % len(held.states)]
        rest = number // max(1, len(names))
        with sizes_of_sorts(held.machine.sizes):
            for name in turned(names, number):
                try:
                    arguments = held.possible.pick(carried.state, name, rest, possible=possible)
                except Undefined as error:
                    raise held.meaningless(error, carried) from error
                if arguments is not None:
                    break
            else:
                return False
        held.offer(name, *arguments)
        return True
