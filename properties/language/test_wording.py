"""Guards as text: what is printed of a guard is what was evaluated, over rich fields too."""

from __future__ import annotations

import numpy as np
import pytest

from herdspec.check.running.wording import conjuncts, guard
from herdspec.engine.columns import Columns
from herdspec.language.specification import from_source
from herdspec.language.surface import sizes_of_sorts
from properties.engine.readings import explorer
from properties.language.test_rich_language import HEADER, some_states

GUARDS = {
    "a relation": "self.knows[a, b] or self.flag",
    "a part": "self.last is not None and self.last.sender == a",
    "a record": "self.kept[a] == self.kept[b]",
    "a set": "a in self.up and b not in self.down",
    "a subset": "self.up <= self.down",
    "a name twice": "any(x != a and any(x == b for x in self.up) for x in self.down)",
    "a channel": "len(self.inbox[a]) > 0 and self.inbox[a][0].sender == b",
    "numbers": "self.n + self.few < 3 and self.n - self.few < 2",
    "a sum": "sum(self.knows[x, y] for x in Node for y in Node) < 3",
    "keys that are no elements": "all(self.seen[k, i] < 3 for k in Kind for i in range(4))",
    "a set of records": (
        "any(m.sender == a and m.hops == 3 for m in self.sent if m.kind == Kind.PONG)"
    ),
}


@pytest.mark.parametrize("shown", GUARDS)
def test_the_text_of_a_guard_says_what_the_guard_says(shown: str) -> None:
    """The text of a guard over rich fields, evaluated, agrees with the columns; so do its parts."""
    action = "    @action\n    def act(self, a: Node, b: Node) -> None:\n"
    action += f"        require({GUARDS[shown]})\n"
    ex = explorer(from_source(HEADER + action, "Rich"))
    rows = some_states(ex, 40)
    columns = Columns(ex.packing, np.concatenate([ex.packing.pack(row) for row in rows]))
    act = ex.ground.spec.actions[0]
    whole, parts = guard(act, ex.machine), conjuncts(act, ex.machine)
    seen = set()

    for instance in ex.ground.instances:
        arguments = ex.machine.arguments(act, instance.arguments)
        for row, expected in zip(rows, columns.of(instance.guard), strict=True):
            state = ex.machine.state(row)
            with sizes_of_sorts(ex.machine.sizes):
                assert bool(whole(state, *arguments)) == expected, state
                assert all(part.holds(state, *arguments) for part in parts) == expected
            seen.add(bool(expected))

    assert seen == {True, False}, "some states allow it, and some do not"
