"""
Lamport's bakery with registers that are not atomic: whoever enters takes a ticket.

After `specifications/Bakery-Boulangerie/MCBakery.tla` of the TLA+ examples (Lamport, Merz), at the
constants of `MCBakery.cfg`: two processes, numbers up to 2. The model begins in every state that
satisfies the inductive invariant, 655,200 of 1,679,616 that are well typed, and reaches no other.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from herdspec import (
    Nat,
    Spec,
    UpTo,
    action,
    always,
    each,
    initial,
    require,
    specification,
)

PROCESSES = 2
Process = Annotated[Nat, UpTo(1)]
Number = Annotated[Nat, UpTo(2)]


class At(Enum):
    """Where a process is."""

    NCS = "ncs"
    E1 = "e1"
    E2 = "e2"
    E3 = "e3"
    E4 = "e4"
    W1 = "w1"
    W2 = "w2"
    CS = "cs"
    EXIT = "exit"


class Bakery(Spec):
    """A process waits for all whose number is smaller."""

    num: dict[Process, Number] = each(0)
    flag: dict[Process, bool] = each(False)
    unchecked: dict[tuple[Process, Process], bool] = each(False)  # (i, j): i has yet to look at j
    most: dict[Process, Number] = each(0)
    nxt: dict[Process, Process] = each(0)
    pc: dict[Process, At] = each(At.NCS)

    @initial
    def start(
        self,
        num: dict[Process, Number],
        flag: dict[Process, bool],
        unchecked: dict[tuple[Process, Process], bool],
        most: dict[Process, Number],
        nxt: dict[Process, Process],
        pc: dict[Process, At],
    ) -> None:
        """Anything may be so that satisfies the invariant."""
        self.num = num
        self.flag = flag
        self.unchecked = unchecked
        self.most = most
        self.nxt = nxt
        self.pc = pc
        require(all(self.is_in_order(i) for i in range(PROCESSES)))

    def is_less(self, i: Process, j: Process) -> bool:
        """Whether `i` goes first, by its number, and then by its name."""
        return self.num[i] < self.num[j] or (self.num[i] == self.num[j] and i < j)

    def before(self, i: Process, j: Process) -> bool:
        """Whether `i` has a number, and `j` has a larger one, or will choose one."""
        return self.num[i] > 0 and (
            self.pc[j] in (At.NCS, At.E1, At.EXIT)
            or (self.pc[j] == At.E2 and (self.unchecked[j, i] or self.most[j] >= self.num[i]))
            or (self.pc[j] == At.E3 and self.most[j] >= self.num[i])
            or (
                self.pc[j] in (At.E4, At.W1, At.W2)
                and self.is_less(i, j)
                and (self.pc[j] == At.E4 or self.unchecked[j, i])
            )
        )

    def is_in_order(self, i: Process) -> bool:
        """The inductive invariant, of one process."""
        return (
            (self.pc[i] not in (At.E4, At.W1, At.W2, At.CS) or self.num[i] != 0)
            and (self.pc[i] not in (At.E2, At.E3) or self.flag[i])
            and (self.pc[i] != At.W2 or self.nxt[i] != i)
            and (self.pc[i] not in (At.W1, At.W2) or self.has_passed(i))
            and (self.pc[i] != At.W2 or self.is_waited_for(i, self.nxt[i]))
            and (self.pc[i] != At.CS or all(j == i or self.before(i, j) for j in range(PROCESSES)))
        )

    def has_passed(self, i: Process) -> bool:
        """Whether `i` goes before all that it has looked at."""
        return not self.unchecked[i, i] and all(
            j == i or self.unchecked[i, j] or self.before(i, j) for j in range(PROCESSES)
        )

    def is_waited_for(self, i: Process, j: Process) -> bool:
        """Whether `j` will choose a larger number than `i` has, if it is choosing."""
        chooses = (self.pc[j] == At.E2 and not self.unchecked[j, i]) or self.pc[j] == At.E3
        return not chooses or self.most[j] >= self.num[i]

    @action
    def leave(self, i: Process) -> None:
        """{i} wants to enter."""
        require(self.pc[i] == At.NCS)
        self.pc[i] = At.E1

    @action
    def waver(self, i: Process) -> None:
        """{i} writes its flag: who reads it meanwhile reads either value."""
        require(self.pc[i] in (At.E1, At.E4))
        self.flag[i] = not self.flag[i]

    @action
    def choose(self, i: Process) -> None:
        """{i} says that it is choosing."""
        require(self.pc[i] == At.E1)
        self.flag[i] = True
        for j in range(PROCESSES):
            self.unchecked[i, j] = j != i
        self.most[i] = 0
        self.pc[i] = At.E2

    @action
    def look(self, i: Process, j: Process) -> None:
        """{i} looks at the number of {j}."""
        require(self.pc[i] == At.E2 and self.unchecked[i, j])
        self.unchecked[i, j] = False
        self.most[i] = max(self.most[i], self.num[j])

    @action
    def has_looked(self, i: Process) -> None:
        """{i} has looked at all numbers."""
        require(self.pc[i] == At.E2 and not any(self.unchecked[i, j] for j in range(PROCESSES)))
        self.pc[i] = At.E3

    @action
    def scribble(self, i: Process, k: Number) -> None:
        """{i} writes its number: who reads it meanwhile reads any, {k}."""
        require(self.pc[i] in (At.E3, At.EXIT))
        self.num[i] = k

    @action
    def take(self, i: Process, k: Number) -> None:
        """{i} takes the number {k}."""
        require(self.pc[i] == At.E3 and k > self.most[i])
        self.num[i] = k
        self.pc[i] = At.E4

    @action
    def has_chosen(self, i: Process) -> None:
        """{i} has chosen."""
        require(self.pc[i] == At.E4)
        self.flag[i] = False
        for j in range(PROCESSES):
            self.unchecked[i, j] = j != i
        self.pc[i] = At.W1

    @action
    def wait_for(self, i: Process, j: Process) -> None:
        """{i} waits for {j}, which is not choosing."""
        require(self.pc[i] == At.W1 and self.unchecked[i, j] and not self.flag[j])
        self.nxt[i] = j
        self.pc[i] = At.W2

    @action
    def enter(self, i: Process) -> None:
        """{i} enters."""
        require(self.pc[i] == At.W1 and not any(self.unchecked[i, j] for j in range(PROCESSES)))
        self.pc[i] = At.CS

    @action
    def go_before(self, i: Process) -> None:
        """{i} goes before the one that it waited for."""
        require(self.pc[i] == At.W2)
        require(self.num[self.nxt[i]] == 0 or self.is_less(i, self.nxt[i]))
        self.unchecked[i, self.nxt[i]] = False
        self.pc[i] = At.W1

    @action
    def go_out(self, i: Process) -> None:
        """{i} goes out."""
        require(self.pc[i] == At.CS)
        self.pc[i] = At.EXIT

    @action
    def rest(self, i: Process) -> None:
        """{i} gives its number back."""
        require(self.pc[i] == At.EXIT)
        self.num[i] = 0
        self.pc[i] = At.NCS


@always
def never_two_inside(s: Bakery) -> bool:
    """No two are in the critical section."""
    return all(
        i == j or s.pc[i] != At.CS or s.pc[j] != At.CS
        for i in range(PROCESSES)
        for j in range(PROCESSES)
    )


@always
def all_is_in_order(s: Bakery) -> bool:
    """The invariant is inductive."""
    return all(s.is_in_order(i) for i in range(PROCESSES))


BAKERY = specification(Bakery, never_two_inside, all_is_in_order)
