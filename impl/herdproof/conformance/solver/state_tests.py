"""Makes the test of states from the solver that pytest collects."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from herdproof.conformance.adapter import Adapter, check_adapter, check_load
from herdproof.conformance.solver.solved import solved
from herdspec.language.specification import Specification, specification
from herdspec.language.surface import Spec


def states(
    spec: type[Spec] | Specification, adapter: type[Adapter], **wishes: Any
) -> type[TestCase]:
    """
    A test for pytest or unittest: assign it to a name of a module.

    `wishes` are the arguments of `solved`: sizes, and others. The test fails for a difference, for
    an open question, and where nothing was seen of a case of which the adapter does not say (by
    `loadable`) that it cannot be loaded; the report is its message.
    """
    made = spec if isinstance(spec, Specification) else specification(spec)
    check_adapter(made, adapter)
    check_load(adapter)

    class StatesFromTheSolver(TestCase):
        def test_states_from_the_solver(self) -> None:
            """The code does as the spec does, in every state that was picked."""
            found = solved(made, adapter, **wishes)
            if found.standing != "agrees":
                self.fail("\n".join(found.lines))

    StatesFromTheSolver.__qualname__ = StatesFromTheSolver.__name__ = f"{adapter.__name__}States"
    return StatesFromTheSolver
