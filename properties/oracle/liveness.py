"""Fair behaviours: whether one stays for ever within a set of states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from properties.oracle.graph import Graph
from properties.oracle.steps import Choice

Label = tuple[str, Any]


def components(inside: set[int], graph: Graph) -> list[set[int]]:
    """The strongly connected components of the graph within a set of states (Kosaraju's)."""
    after, before = successors(graph), predecessors(graph, inside)
    left = set(inside)
    found = []
    for number in reversed(finished(inside, after)):
        if number in left:
            found.append(spread({number}, left, before))
            left -= found[-1]
    return found


def finished(inside: set[int], near: dict[int, set[int]]) -> list[int]:
    """The states in the order in which a depth-first walk leaves them."""
    seen: set[int] = set()
    order: list[int] = []
    for start in inside:
        stack = [(start, False)]
        while stack:
            number, leaves = stack.pop()
            if leaves:
                order.append(number)
            elif number not in seen:
                seen.add(number)
                stack.append((number, True))
                stack += [
                    (k, False) for k in near.get(number, set()) if k in inside and k not in seen
                ]
    return order


def successors(graph: Graph) -> dict[int, set[int]]:
    """The states after each state."""
    return {k: {e.target for e in edges} for k, edges in graph.edges.items()}


def predecessors(graph: Graph, inside: Iterable[int]) -> dict[int, set[int]]:
    """The states before each state, among these."""
    before: dict[int, set[int]] = {}
    for k in inside:
        for edge in graph.edges.get(k, []):
            before.setdefault(edge.target, set()).add(k)
    return before


def spread(starts: set[int], inside: set[int], near: dict[int, set[int]]) -> set[int]:
    """What can be reached from some states within a set."""
    seen, stack = set(starts), list(starts)
    while stack:
        for k in near.get(stack.pop(), set()):
            if k in inside and k not in seen:
                seen.add(k)
                stack.append(k)
    return seen


def can_stay(inside: set[int], graph: Graph, through: set[int] | None = None) -> bool:
    """
    Whether a fair behaviour may stay for ever within these states, `through` some again and again.

    A behaviour may stop, so a component of one state without a step is a candidate as well. What
    is weakly fair and always possible in a component must be taken in it; what is strongly fair
    and possible somewhere in it must be taken in it, or those states must be avoided.
    """
    stack = components(inside & graph.edges.keys(), graph)
    while stack:
        component = stack.pop()
        if through is not None and not component & through:
            continue
        taken = {
            e.choice.duty
            for k in component
            for e in graph.edges[k]
            if e.target in component and counts(graph, k, e.choice)
        }
        weak = [marked(graph, k, ("weak", "strong")) for k in component]
        if set.intersection(*weak) - taken:
            continue
        unserved = {k for k in component if marked(graph, k, ("strong",)) - taken}
        if not unserved:
            return True
        stack += components(component - unserved, graph)
    return False


def marked(graph: Graph, number: int, marks: tuple[str, ...]) -> set[Label]:
    """The duties that are possible in a state and bear one of these marks of fairness."""
    return {
        c.duty
        for c in graph.possible[number]
        if c.action.fair.removesuffix(".any") in marks and counts(graph, number, c)
    }


def counts(graph: Graph, number: int, choice: Choice) -> bool:
    """Whether a choice counts as possible: one of any choice only where it changes something."""
    return not (choice.any_of_them and choice.label in graph.idle[number])
