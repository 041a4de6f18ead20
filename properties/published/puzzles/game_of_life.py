"""
Conway's game of life on a square of four by four.

After `specifications/GameOfLife/GameOfLife.tla` of the TLA+ examples (Ryndzionek), at the constant
of `GameOfLife.cfg`: four. Any cells may be alive at first, so that every state is an initial one,
65,536 of them, and has one next state.
"""

from __future__ import annotations

from typing import Annotated

from herdspec import Nat, Spec, UpTo, action, each, initial, sometimes, specification

SIDE = 4
Side = Annotated[Nat, UpTo(3)]


class GameOfLife(Spec):
    """A cell lives on with two or three living neighbours; one with three comes to life."""

    alive: dict[tuple[Side, Side], bool] = each(False)

    @initial
    def start(self, alive: dict[tuple[Side, Side], bool]) -> None:
        """Any cells are alive."""
        self.alive = alive

    def neighbours(self, x: Side, y: Side) -> Nat:
        """How many of the cells around one are alive."""
        return sum(
            1
            for u in range(SIDE)
            for v in range(SIDE)
            if self.alive[u, v]
            and (u != x or v != y)
            and u <= x + 1
            and x <= u + 1
            and v <= y + 1
            and y <= v + 1
        )

    @action
    def live(self) -> None:
        """The next generation."""
        self.alive = {
            (x, y): self.neighbours(x, y) == 3 or (self.alive[x, y] and self.neighbours(x, y) == 2)
            for x in range(SIDE)
            for y in range(SIDE)
        }


@sometimes
def the_four_corners(s: GameOfLife) -> bool:
    """The corners are alive, and nothing else."""
    return all(
        s.alive[x, y] == ((x == 0 or x == SIDE - 1) and (y == 0 or y == SIDE - 1))
        for x in range(SIDE)
        for y in range(SIDE)
    )


GAME_OF_LIFE = specification(GameOfLife, the_four_corners)
