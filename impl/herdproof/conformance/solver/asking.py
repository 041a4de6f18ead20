"""Asks code in a given state for one step: does it differ from the spec, there or after it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herdproof.conformance.adapter import CannotLoad, method_of
from herdproof.conformance.holding.deeds import Deed
from herdproof.conformance.holding.held import Differs, Hangs, Held, Raises
from herdproof.conformance.holding.seen import Look
from herdproof.conformance.solver.cases import GuardCase
from herdspec.check.running.run import Machine
from herdspec.language.specification import Action, DeclaredProperty
from herdspec.language.surface import Spec, Undefined

IN_THE_SPEC = " in the spec, "
"""The words that stand in each line about an entry that differs."""


class ReportedDifference:
    """A difference of code, told: its lines, and its kind."""

    def __init__(self, error: Differs) -> None:
        self.hangs = isinstance(error, Hangs)
        self.deeds: tuple[Deed, ...] = error.deeds
        self.lines = tuple(str(error).partition("\n\n")[0].splitlines()[1:])
        fields = {x.strip().partition(":")[0] for x in self.lines if IN_THE_SPEC in x}
        names = sorted({x.partition("[")[0] for x in fields})
        self.kind = (type(error).__name__, error.why.partition(":")[0], *names)


class Asker:
    """Asks code that is held to its spec; all states are such as the `promises` allow."""

    def __init__(self, held: Held, promises: Sequence[DeclaredProperty]) -> None:
        self.held = held
        self.promises = promises
        self.initial = held.machine.initial()

    def stands(
        self, state: Spec, case: GuardCase, arguments: tuple[Any, ...], at: Machine | None = None
    ) -> bool:
        """Tells whether the plain Python says of a state and an action's case what z3 says."""
        run = at or self.held.machine
        try:
            taken = run.take(state, case.action.name, arguments) is not None
        except Undefined:
            return False
        return taken is case.allowed and all(run.holds(p, state) for p in self.promises)

    def ask(
        self, look: Look, action: Action, arguments: Sequence[Any], at: Held | None = None
    ) -> ReportedDifference | None:
        """
        Ask what the code does otherwise in a state (given as `Held.put` takes it), if anything.

        Raises `CannotLoad` or `LoadedOtherwise`. `at`: held at another size.
        """
        held = at or self.held
        try:
            held.begin()
            try:
                held.put(look)
            except Raises as error:
                raise CannotLoad(error.why) from error
            self.step(held, action, arguments)
        except Differs as error:  # it hangs, too, or does not always begin alike
            return ReportedDifference(error)
        finally:
            held.end()
        return None

    def step(self, held: Held, action: Action, arguments: Sequence[Any]) -> bool:
        """Offer the step, and tell whether it was taken; or wait for it. Raises `Differs`."""
        if not hasattr(held.adapter, method_of(action.name)):
            held.wait()
            return True
        chosen = held.adapter.chosen.get(action.name, ())
        names = [name for name, _ in action.parameters]
        given = zip(names, arguments, strict=True)
        return held.offer(action.name, *(a for name, a in given if name not in chosen))
