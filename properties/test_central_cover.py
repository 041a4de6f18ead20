"""How many edges of the spec's explored graph the real cores take; what is taken is reported."""

from __future__ import annotations

from functools import cache

import pytest

from herdproof.link.central_cover import Cover, Graph, cover

FAULTS, BOUND = 2, 5


@cache
def graph() -> Graph:
    """One broker, one member, one partition, two faults: 40,521 edges."""
    return Graph(FAULTS, BOUND)


def told(found: Cover) -> str:
    """What was covered, action by action."""
    actions = (f"{name} {taken}/{count}" for name, (taken, count) in found.by_action.items())
    return "\n".join([str(found), ", ".join(actions), f"by runs: {found.curve[::50]}"])


def test_runs_take_edges_of_the_graph() -> None:
    """Some hundreds in a few seconds, more the longer it goes on, each by the spec's own name."""
    found = cover(graph(), range(60))

    print(told(found))
    assert len(found.taken) > 100
    assert found.curve[-1] > found.curve[20] > 0
    assert found.taken <= graph().edges
    assert sum(count for _, count in found.by_action.values()) == len(graph().edges)


@pytest.mark.long
def test_many_runs_take_edges_of_the_graph() -> None:
    """The figure of the closing note."""
    print(told(cover(graph(), range(5_000))))
