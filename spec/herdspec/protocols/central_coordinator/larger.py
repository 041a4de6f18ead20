"""Mistakes in the central coordinator that a larger size notices: where, and by which promise."""

from __future__ import annotations

from collections.abc import Mapping

Size = tuple[int, int, int, int]
"""Members, partitions, brokers, faults."""
LARGER: Mapping[str, tuple[Size, str]] = {
    (
        "lease_is_over: `all(x.kind != Kind.START for x in self.down[m])` becomes `any(x.kind != "
        "Kind.START for x in self.down[m])`"
    ): (
        (2, 1, 1, 1), "settles",
    ),
    "register: drop `self.orphan[p]`": (
        (2, 1, 1, 1), "settles",
    ),
    "on_lost_connection: skip `self.let_go(m)`": (
        (2, 1, 1, 1), "settles",
    ),
    "on_lost_connection: remove its fairness": (
        (2, 1, 1, 1), "settles",
    ),
    "flush_offsets: remove its fairness": (
        (2, 1, 1, 1), "settles",
    ),
    "serve_offsets: remove its fairness": (
        (2, 1, 1, 1), "settles",
    ),
    "all_stopped: drop `self.books[m] != b`": (
        (2, 1, 1, 1), "settles",
    ),
    "is_free: drop `self.lease_is_over(owner)`": (
        (2, 1, 1, 1), "settles",
    ),
    "send_stop: skip `self.acked[m] = 0`": (
        (1, 1, 1, 2), "settles",
    ),
    "lease_is_over: drop `not self.link[m]`": (
        (2, 1, 2, 1), "exclusive",
    ),
    (
        "write_owners: `all(self.noted[b, p] <= self.committed[p] for p in Partition)` becomes "
        "`any(self.noted[b, p] <= self.committed[p] for p in Partition)`"
    ): (
        (1, 2, 1, 2), "a_start_is_at_the_stored_offset",
    ),
    (
        "write_owners: `all(self.is_free(p, b) for p in Partition)` becomes "
        "`any(self.is_free(p, b) for p in Partition)`"
    ): (
        (2, 2, 1, 1), "exclusive",
    ),
    (
        "write_owners: `all(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in "
        "Partition)` becomes `any(not self.wanted(p, b) or self.serves(plan[p], p, b) for p in "
        "Partition)`"
    ): (
        (2, 2, 1, 1), "complete",
    ),
    (
        "lease_is_over: `all(not self.fetching[m, p] for p in Partition)` becomes `any(not "
        "self.fetching[m, p] for p in Partition)`"
    ): (
        (2, 2, 1, 1), "exclusive",
    ),
    "lease_is_over: negate `not self.link[m]`": (
        (2, 1, 2, 1), "exclusive",
    ),
}  # fmt: skip
"""Where each of these is missed, and by which promise."""


def larger(size: Size, promise: str) -> str:
    """The reason of who is noticed at another size only."""
    members, partitions, brokers, faults = size
    return (
        f"{promise} fails with {members} members, {partitions} partitions, {brokers} brokers and "
        f"{faults} faults"
    )
