"""
Test cases of what is taken whole: every edge of a graph, and all that a known protocol's spec asks.

Each is a class to be assigned to a name in a test module, as `stateful` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import TestCase, defaultTestLoader

from herdproof.conformance.adapter import Adapter, check_adapter
from herdproof.conformance.graphs.edges import NO_TIME, Coverage, cover
from herdproof.conformance.holding.seen import NOTHING_SEEN
from herdspec.language.specification import Specification, specification
from herdspec.language.surface import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

ELEMENTS, FAULTS, SECONDS = 2, 1, 60.0
"""Elements of a sort, faults of a graph, and seconds for the solver, if nobody says how many."""


def edges(
    spec: type[Spec] | Specification, adapter: type[Adapter], *, faults: int = 0,
    bound: int | None = None, by: str | None = None, seconds: float | None = None, **sizes: int,
) -> type[TestCase]:  # fmt: skip
    """
    A test case that takes every edge of a spec's graph on real code: assign it to a name.

    `edges(Lease, ServedLease, Client=2)`; the arguments are those of `cover`. It fails where code
    and spec differ, where no edge of an action was taken, and where the time was over. What else
    was not taken is printed, with the reason.
    """
    made = spec if isinstance(spec, Specification) else specification(spec)
    check_adapter(made, adapter)
    options: dict[str, Any] = {
        "faults": faults, "bound": bound, "by": by, "seconds": seconds, **sizes
    }  # fmt: skip

    class EveryEdge(TestCase):
        def test_every_edge(self) -> None:
            """Each step leads the code where the spec says, in every state that it rests in."""
            coverage = cover(made, adapter, **options)
            if coverage.mismatch is not None:
                self.fail("\n".join(coverage.mismatch.story.splitlines()))
            print("\n".join(coverage.lines))
            if why := shortfall(coverage):
                self.fail("\n".join([f"Nothing can be said: {why}.", *coverage.lines]))

    EveryEdge.__name__ = EveryEdge.__qualname__ = f"{made.name}EdgesOn{adapter.__name__}"
    return EveryEdge


def shortfall(coverage: Coverage) -> str:
    """Why a graph without a difference is no pass; empty if it is one."""
    if not coverage.covered:
        return "no edge was taken"
    if coverage.saw_nothing:
        return NOTHING_SEEN
    if any(missed.reason == NO_TIME for missed in coverage.missed):
        return NO_TIME
    left = ", ".join(coverage.untaken)
    return f"no edge of {left} was taken" if left else ""


def suite(
    name: str,
    adapter: type[Adapter],
    *,
    faults: int | None = None,
    seconds: float = SECONDS,
    **sizes: int,
) -> type[TestCase]:
    """
    All that the verified spec of a known protocol asks of somebody's implementation of it.

    `suite("election", MyElection)` is a test case: the state machine of `stateful`, every edge, the
    shortest stories, and states from the solver for so many `seconds`, if the adapter has `load`.
    Sizes are 2 elements of a sort where not said. Edges and stories are of a whole graph: where not
    said, at the size and with the `faults` at which the protocol's plan says that this can be
    waited for (2 of each, and 1, if it has none). Raises `UsageError` for a protocol that is not
    known, `AdapterError` for an adapter that does not fit.
    """
    from herdproof.conformance.solver.state_tests import states
    from herdproof.conformance.story_tests import stories
    from herdproof.conformance.walks.stateful import stateful
    from herdspec.check.protocol import protocol

    known = protocol(name)
    spec = known.verified()
    check_adapter(spec, adapter)
    at: dict[str, Any] = dict.fromkeys(spec.sorts, ELEMENTS) | dict(known.sizes or {}) | sizes
    looked = known.held() if known.held is not None else None
    whole = {**at, **(looked.sizes if looked else {}), **sizes}
    whole["faults"] = faults if faults is not None else looked.faults if looked else FAULTS
    tests = {
        "test_step_by_step": _of(stateful(spec, adapter, **at), "runTest"),
        "test_every_edge": _of(edges(spec, adapter, **whole), "test_every_edge"),
    }
    told = stories(spec, adapter, **whole)
    tests |= {test: _of(told, test) for test in defaultTestLoader.getTestCaseNames(told)}
    if hasattr(adapter, "load"):
        picked = states(spec, adapter, faults=whole["faults"], seconds=seconds, **at)
        tests |= {test: _of(picked, test) for test in defaultTestLoader.getTestCaseNames(picked)}
    title = "".join(word.title() for word in name.replace("-", "_").split("_"))
    return type(f"{title}On{adapter.__name__}", (TestCase,), dict(tests))


def _of(case: type[TestCase], method: str) -> Callable[[TestCase], None]:
    """A test of one case as a method of another."""

    def test(_: TestCase) -> None:
        getattr(case(method), method)()

    test.__doc__ = getattr(case, method).__doc__ or case.__doc__
    return test
