"""A node's children in order, however many there are."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from herdproof.zookeeper import kazoo_frames
from herdproof.zookeeper.kazoo_frames import SORTED_AT_ONCE, in_order


@pytest.mark.parametrize("number", [0, 1, SORTED_AT_ONCE, 3 * SORTED_AT_ONCE + 7])
def test_names_are_in_order_and_no_sort_is_a_long_step(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for more than a portion: a sort holds the interpreter's lock to its end."""
    sizes: list[int] = []

    def counted(names: Iterable[str]) -> list[str]:
        portion = list(names)
        sizes.append(len(portion))
        portion.sort()
        return portion

    monkeypatch.setattr(kazoo_frames, "sorted", counted, raising=False)
    names = [f"group-{n}" for n in range(number)]
    shuffled = Random(1).sample(names, number)

    found = in_order(shuffled)

    names.sort()
    assert found == tuple(names)
    assert sum(sizes) == number
    assert max(sizes, default=0) <= SORTED_AT_ONCE
