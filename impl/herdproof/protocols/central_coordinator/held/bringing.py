"""
Cores held to the variant of the spec whose members say where former registrations have stopped.

What cannot be seen, beside what cannot be of the others: `known_over`, and of `over` the generation
in which that was said, or that it was said of a registration that has no name; `left` of whom no
process remembers.
"""

from __future__ import annotations

from typing import Any, ClassVar

from herdproof.conformance.adapter import forwards, varied
from herdproof.conformance.holding.held import Held
from herdproof.protocols.central_coordinator.held.adapter import CentralCores, numbers
from herdproof.protocols.central_coordinator.held.mistaken import mistaken
from herdproof.protocols.central_coordinator.simulated.gated_processes import GatedProcesses
from herdspec.language.specification import Specification
from herdspec.language.surface import sizes_of_sorts
from herdspec.protocols.central_coordinator.spec import Member, Partition
from herdspec.protocols.central_coordinator.variants.bringing_properties import BRINGING_HELD
from herdspec.protocols.election.spec import Broker


@forwards(BRINGING_HELD)
class BringingCores(CentralCores):
    """Coordinators that take what is brought, and consumers that bring it."""

    follows: ClassVar = {
        **CentralCores.follows,
        "handle_register": (*CentralCores.follows["handle_register"], "handle_closed"),
    }
    """Whoever is in the books, and is said to have stopped, is struck from them at once."""
    reluctant = (*CentralCores.reluctant, "register", "register_again")
    world_of = GatedProcesses
    world: GatedProcesses

    def observe(self) -> dict[str, Any]:
        """Look at what is said of former registrations, too, and at where those have stopped."""
        look = super().observe()
        for n in Member:
            self._see_former(look, n)
        return look

    def _see_former(self, look: dict[str, Any], n: Member) -> None:
        names, members = self.world.names_of(n.index), self.world.members
        for m in Member:
            registers = self.world.registers(m.index)
            if not registers or (names and not set(names) & {*(registers[0].former or ())}):
                look["over"][m, n] = 0
        for left in (left for x in members for left in x.core.former._left.values()):
            if left.registration in names:
                for p, offset in numbers(left.offsets).items():
                    look["left"][n, Partition(p)] = offset


def bringing_cores(switches: frozenset[str], spec: Specification) -> type[CentralCores]:
    """The adapter of cores with these mistakes, for a variant of this variant, or for itself."""
    if not switches:
        return BringingCores
    return varied(BringingCores, BRINGING_HELD, spec, **mistaken(switches))


def somebody_is_back(held: Held) -> None:
    """Walks begin here: who had finished a record that nobody knows of registers, and brings it."""
    with sizes_of_sorts(held.machine.sizes):
        b, m, p = Broker(0), Member(0), Partition(0)
        begun: list[Any] = [
            ("elect", b), ("coordinator_startup", b), ("register", m, b, {p}),
            ("handle_register", m, b),
        ]  # fmt: skip
        lost: list[Any] = [
            ("produce", p), ("consume", m, p), ("cut", m), ("handle_closed", m, b),
            ("on_lost_connection", m), ("register_again", Member(1), b, {p}, {m}),
        ]  # fmt: skip
        for name, *arguments in begun:
            held.offer(name, *arguments)
        for kind in ("stop", "start"):
            held.wait()
            held.offer(f"handle_{kind}", m)
            held.offer(f"handle_{kind}_response", m, b)
        held.wait()
        for name, *arguments in lost:
            held.offer(name, *arguments)
