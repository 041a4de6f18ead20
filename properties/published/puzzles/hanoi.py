"""
The towers of Hanoi: a published model that fails, because its failure is the solution.

After `specifications/tower_of_hanoi/Hanoi.tla` of the TLA+ examples (Niederbühl, Kuppe), at the
constants of `Model_1`: five disks, three pegs. The manifest declares a "safety failure": the
invariant that the puzzle is not solved is violated after 31 moves; the model's output file counts
243 states, 913 generated, depth 32. There, a disk can move "onto a tower without smaller disks, or
onto an empty tower", and TLC takes an empty tower by either half of that; hence two actions here.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from herdspec import Nat, Spec, UpTo, action, always, each, require, specification

DISKS = 5
Disk = Annotated[Nat, UpTo(4)]
"""A disk; the lesser, the smaller."""


class Peg(Enum):
    """Where a disk may lie."""

    LEFT = "left"
    MIDDLE = "middle"
    RIGHT = "right"


class Hanoi(Spec):
    """Disks move between pegs, never onto a smaller one."""

    peg: dict[Disk, Peg] = each(Peg.LEFT)

    def is_free(self, disk: Disk, peg: Peg) -> bool:
        """No smaller disk is on the peg."""
        return all(smaller >= disk or self.peg[smaller] != peg for smaller in range(DISKS))

    @action
    def move(self, disk: Disk, to: Peg) -> None:
        """Disk {disk} moves to the peg {to}, where no smaller one is."""
        require(self.peg[disk] != to)
        require(self.is_free(disk, self.peg[disk]) and self.is_free(disk, to))
        self.peg[disk] = to

    @action
    def move_to_the_ground(self, disk: Disk, to: Peg) -> None:
        """Disk {disk} moves to the peg {to}, where none is."""
        require(self.peg[disk] != to)
        require(self.is_free(disk, self.peg[disk]))
        require(all(self.peg[other] != to for other in range(DISKS)))
        self.peg[disk] = to


@always
def not_solved(s: Hanoi) -> bool:
    """Not all disks are on the right peg (they can be)."""
    return any(s.peg[disk] != Peg.RIGHT for disk in range(DISKS))


HANOI = specification(Hanoi, not_solved)
