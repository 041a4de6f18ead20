"""
The clocks of nodes, as far as causes show how they stand to each other.

Who hears a message hears it after it was sent: so its receiver's clock is ahead of its sender's by
no more than lies between the times of the two lines. Such bounds, in both directions and over
third nodes, say how far apart any two clocks can be; times are compared within that alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from herdproof.conformance.traces.ordering import Links, Node

Leads = Mapping[tuple[Node, Node], int]
"""By sender and receiver, by how much the clock of the second can be ahead at most."""

Setting = Mapping[Node, int]
"""By how much each node's clock is ahead of one that all are compared with."""

REFERENCES = 8
"""The number of nodes compared with all others: those that are bound to most others first."""

UNBOUND_NS = 10**18
"""Nothing says how far a clock can be ahead: some thirty years."""


def leads(
    lines: Iterable[Any], links: Links[Any], counts: Callable[[Hashable], bool]
) -> dict[tuple[Node, Node], int]:
    """
    Bounds of what clocks are ahead of each other, as lines show, each node's in their order.

    Of what is said, that counts which `counts` says to be the same wherever it is said; what two
    nodes say shows nothing, and of what one says twice the first counts.
    """
    said: dict[Hashable, tuple[Node, int] | None] = {}
    heard: list[tuple[Node, int, Hashable]] = []
    for line in lines:
        needs, says = links(line) or ((), ())
        node = (line.role, line.node)
        for thing in filter(counts, says):
            first = said.setdefault(thing, (node, line.time_ns))
            if first is not None and first[0] != node:
                said[thing] = None
        heard += [(node, line.time_ns, thing) for thing in filter(counts, needs)]
    found: dict[tuple[Node, Node], int] = {}
    for node, time_ns, thing in heard:
        first = said.get(thing)
        if first is not None and first[0] != node:
            pair = first[0], node
            found[pair] = min(time_ns - first[1], found.get(pair, UNBOUND_NS))
    return found


def settings(known: Leads) -> list[Setting]:
    """
    Settings of the clocks that these bounds allow: one in the middle, then extreme ones.

    Of any two of the nodes that are compared with all others, one is as far ahead of the other as
    it can be in one of them. None at all, where the bounds contradict each other: then a clock was
    set while it ran, or stood still.
    """
    bound = Counter(node for pair in known for node in pair)
    nodes = sorted(bound, key=lambda node: (-bound[node], node))
    extremes: list[tuple[dict[Node, int], dict[Node, int]]] = []
    for node in nodes[:REFERENCES]:
        most, least = _greatest(known, nodes, node), _least(known, nodes, node)
        if most is None or least is None:
            return []
        extremes.append((least, most))
    if not extremes:
        return []
    middle = {n: _between(extremes[0][0][n], extremes[0][1][n]) for n in nodes}
    return [
        middle,
        *({n: at if abs(at) < UNBOUND_NS // 2 else middle[n] for n, at in each.items()}
          for pair in extremes for each in pair),
    ]  # fmt: skip


REMEMBERED = 512
"""The number of the last things that were said, and heard, that are known."""


class Early:
    """Notices, of lines that come in whatever order, when one hears what is said later."""

    def __init__(self, links: Links[Any], counts: Callable[[Hashable], bool]) -> None:
        self._links = links
        self._counts = counts
        self._said: dict[Hashable, int] = {}
        self._heard: dict[Hashable, int] = {}

    def __call__(self, line: Any) -> bool:
        """The next line that came; whether clocks contradict what it says or has heard."""
        needs, says = self._links(line) or ((), ())
        is_early = False
        for thing in filter(self._counts, needs):
            self._heard[thing] = min(line.time_ns, self._heard.get(thing, line.time_ns))
            is_early = is_early or self._said.get(thing, line.time_ns) > line.time_ns
        for thing in filter(self._counts, says):
            if thing not in self._said:
                self._said[thing] = line.time_ns
                is_early = is_early or self._heard.get(thing, line.time_ns) < line.time_ns
        for known in (self._said, self._heard):
            if len(known) > REMEMBERED:
                del known[next(iter(known))]
        return is_early


def _greatest(known: Leads, nodes: Sequence[Node], reference: Node) -> dict[Node, int] | None:
    """The most that each clock is ahead of the reference; None for bounds that contradict."""
    found = dict.fromkeys(nodes, UNBOUND_NS)
    found[reference] = 0
    for _ in range(len(nodes) + 1):
        is_changed = False
        for (sender, receiver), lead in known.items():
            if found[sender] + lead < found[receiver]:
                found[receiver] = found[sender] + lead
                is_changed = True
        if not is_changed:
            return found
    return None


def _least(known: Leads, nodes: Sequence[Node], reference: Node) -> dict[Node, int] | None:
    """The least that each clock is ahead of the reference."""
    turned = {(receiver, sender): lead for (sender, receiver), lead in known.items()}
    found = _greatest(turned, nodes, reference)
    return None if found is None else {node: -ahead for node, ahead in found.items()}


def _between(least: int, most: int) -> int:
    """The middle; where one side is open, as near to no difference as the other one allows."""
    if most - least < UNBOUND_NS // 2:
        return (least + most) // 2
    return max(least, min(0, most))
