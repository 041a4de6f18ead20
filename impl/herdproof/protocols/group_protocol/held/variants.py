"""
Adapters of cores with a mistake, for the variants of the spec that have it, too.

The other variants are of the world, or of time, which cores are not told here; or their stories
take a step in which a client learns, before its SyncGroup is read, of what it will be told then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from herdproof.conformance.adapter import varied
from herdproof.protocols.group_protocol.coordinator.stored import metadata_of
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredClassicGroup,
    StoreGroup,
)
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.held.drafted_client import printed_client
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.simulated.gated_coordinators import GROUP
from herdproof.protocols.group_protocol.steps import Step
from herdspec.language.specification import Specification
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member
from herdspec.protocols.group_protocol.properties import HELD

PRETENDED = 0
"""The number of a write that a core only goes on after as if it were done."""


class ToldUnstored(HeldCoordinators):
    """
    Cores that go on with a generation that is stored later, if at all.

    What they do then waits for its step. What they pretend to have stored is seen as stored until
    the group is loaded, as in the spec's variant.
    """

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """Nothing waits."""
        super().begin(Broker, Member, Partition)
        self._waiting: tuple[list[GroupEffect], int] = ([], 0)
        self._truly_stored = StoredClassicGroup()

    def _perform(self, effects: Iterable[GroupEffect], present: int = 0) -> None:
        todo, group = [*effects], self._group
        at = next((k for k, e in enumerate(todo) if _tells_unstored(e)), len(todo))
        super()._perform(todo[: at + 1], present)
        if at < len(todo):
            assert group is not None
            self._waiting = todo[at + 1 :], present
            self._write = StoreGroup(token=PRETENDED, group=GROUP, metadata=metadata_of(group))
            self._is_done = False

    def _in_memory(self) -> dict[str, Any]:
        """Who is to be answered still waits."""
        answers = [e for e in self._waiting[0] if isinstance(e, GroupAnswer)]
        waiting = {self._callers.get(answer.caller) for answer in answers}
        seen = super()._in_memory()
        return {**seen, "joined": {m: seen["joined"][m] or m in waiting for m in Member}}

    def _done(self) -> None:
        super()._done()
        if self._write is not None and self._write.token != PRETENDED:
            self._truly_stored = self._stored

    def _heard(self) -> None:
        (waiting, present), self._waiting = self._waiting, ([], 0)
        if self._write is None or self._write.token != PRETENDED:
            super()._heard()
            return
        self._write, self._is_done = None, False
        super()._perform(waiting, present)

    def _load_group(self, b: Broker) -> None:
        self._stored, self._waiting = self._truly_stored, ([], 0)
        super()._load_group(b)


def _tells_unstored(effect: GroupEffect) -> bool:
    """Tells whether the core completes a join without storing what comes of it."""
    return isinstance(effect, Step) and effect.action == "complete_join" and not effect.number


SEEN = ("ghost_member", "errors_complete_nothing", "rejoin_flag_lost")
"""The printed client's habits whose stories cores can be taken along."""
CORES: Mapping[str, tuple[type[HeldCoordinators], Mapping[str, Any]]] = {
    "generation_unstored": (ToldUnstored, {"core": FLAWS["generation_unstored"][0]}),
    "commit_by_generation": (HeldCoordinators, {"core": FLAWS["commit_by_generation"][0]}),
    "expels_who_waits": (HeldCoordinators, {"core": FLAWS["expels_who_waits"][0]}),
    **{habit: (HeldClients, {"client": printed_client(habit)}) for habit in SEEN},
}
"""By mistake the adapter of code that has it, and what is otherwise there."""


def cores(switches: frozenset[str], spec: Specification) -> type[HeldCoordinators]:
    """The adapter of cores with this mistake, for the variant of the spec that has it, too."""
    if not switches:
        return HeldCoordinators
    (flaw,) = switches
    adapter, members = CORES[flaw]
    return varied(adapter, HELD, spec, others=spec, switches=switches, **members)
