"""
Adapters of cores with a mistake, for the variants of the spec that have it, too.

The other variants are of the store, of the world, or of time, which cores are not told here; or of
static and cooperative members. Of some the shortest stories have clients do what our client's core
does otherwise, or later: the tests' step constraints (`group_constraints.py`) make variants whose
stories it can be taken along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from herdproof.conformance.adapter import Refused, varied
from herdproof.conformance.beside import beside
from herdproof.protocols.group_protocol.client.core import states
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.stored import metadata_of
from herdproof.protocols.group_protocol.effects import (
    GroupAnswer,
    GroupEffect,
    StoredClassicGroup,
    StoreGroup,
)
from herdproof.protocols.group_protocol.held.adapter import HeldCoordinators, place
from herdproof.protocols.group_protocol.held.administered import ADMINISTERED_CORES
from herdproof.protocols.group_protocol.held.choosing import CHOOSING_CORES
from herdproof.protocols.group_protocol.held.clients import HeldClients
from herdproof.protocols.group_protocol.held.drafted_client import printed_client
from herdproof.protocols.group_protocol.held.flawed import FLAWS
from herdproof.protocols.group_protocol.held.positions import HearsErrorsLater, HeldPositions
from herdproof.protocols.group_protocol.held.positions_flawed import CLIENTS
from herdproof.protocols.group_protocol.held.resubscribing import RESUBSCRIBING_CORES
from herdproof.protocols.group_protocol.simulated.gated_clients import GatedClient
from herdproof.protocols.group_protocol.simulated.gated_coordinators import GROUP, commit_of
from herdproof.protocols.group_protocol.steps import GroupStep
from herdspec.language.specification import Specification
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member
from herdspec.protocols.group_protocol import spec as c
from herdspec.protocols.group_protocol.flaws import FOUND
from herdspec.protocols.group_protocol.properties import HELD
from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS

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
    return isinstance(effect, GroupStep) and effect.action == "complete_join" and not effect.number


@beside(HELD)
class CommitsAtGates(HeldCoordinators):
    """
    Cores whose commits are sent to the store, and answered, when that is their step's turn.

    A core is told that offsets are stored as soon as they are, so that it answers an OffsetFetch
    then; the answers to whoever committed are under way until they are to be heard.
    """

    silent: ClassVar[tuple[str, ...]] = ("complete_join",)
    follows: ClassVar[Mapping[str, Sequence[str]]] = {
        name: steps for name, steps in HeldCoordinators.follows.items() if "flush" not in steps[0]
    }

    def begin(self, Broker: int, Member: int, Partition: int) -> None:  # noqa: N803 - sorts
        """Nothing waits."""
        super().begin(Broker, Member, Partition)
        self._unsent: list[StoreGroup] = []
        self._unheard: list[GroupAnswer] = []

    def _perform(self, effects: Iterable[GroupEffect], present: int = 0) -> None:
        todo = [*effects]
        commits = [each for each in todo if isinstance(each, StoreGroup) and each.offsets]
        for commit in commits:
            self._noted |= {where: commit_of(of) for where, of in commit.offsets.items()}
        self._unsent += commits
        super()._perform([each for each in todo if each not in commits], present)

    def _handle_join_group(self, m: c.Member) -> None:
        self._sends_first()
        super()._handle_join_group(m)

    def _handle_leave_group(self, m: c.Member) -> None:
        self._sends_first()
        super()._handle_leave_group(m)

    def _handle_sync_group(self, m: c.Member) -> None:
        self._sends_first()
        super()._handle_sync_group(m)

    def _expire(self, m: c.Member) -> None:
        self._sends_first()
        super()._expire(m)

    def _sends_first(self) -> None:
        """Changes that wait to be sent come before anything that may lead to another."""
        if self._unsent:
            raise Refused("what was taken is sent first")

    def _flush_offsets(self) -> None:
        if not self._unsent:
            raise Refused("nothing is to be stored")
        self._write, self._is_done = self._unsent.pop(0), False

    def _done(self) -> None:
        super()._done()
        core, write = self._coordinator, self._write
        assert core is not None
        assert write is not None
        if write.metadata is None:
            effects = core.stored(self._now_ms, write.token, True)
            self._unheard = [each for each in effects if isinstance(each, GroupAnswer)]
            super()._perform([each for each in effects if each not in self._unheard])

    def _heard(self) -> None:
        if self._write is None or self._write.metadata is not None:
            super()._heard()
            return
        self._write, self._is_done = None, False
        answers, self._unheard = self._unheard, []
        super()._perform(answers)

    def _unload(self) -> None:
        super()._unload()
        self._unsent, self._unheard = [], []


@beside(FOUND["new_member_expires"].spec)
class ExpiresNewMembers(HeldCoordinators):
    """Cores as they are: a new member waits for no longer than there is time for it."""

    same: ClassVar = {**HeldCoordinators.same, "expire_new_member": "expire"}
    follows: ClassVar[Mapping[str, Sequence[str]]] = {
        **HeldCoordinators.follows, "expire_new_member": ("complete_join",),
    }  # fmt: skip
    reluctant: ClassVar[tuple[str, ...]] = (*HeldCoordinators.reluctant, "expire_new_member")


class WorksOn(HeldClients):
    """
    Clients that may work on with what they have once they have left.

    To the variant it is STABLE then, to the core UNJOINED: a member of nothing, which consumes.
    """

    def _see(self, seen: dict[str, Any], m: c.Member, client: GatedClient) -> None:
        super()._see(seen, m, client)
        owned = client.owned
        has_left = client.state is states.MemberState.UNJOINED
        if has_left and owned and client.core.subscriptions.is_consuming:
            seen["client"][m] = c.MemberState.STABLE
            for p in c.Partition:
                seen["given"][m, p] = place(p) in owned
                if place(p) in owned:
                    seen["position"][m, p] = max(owned[place(p)].position or 0, 0)


SEEN = ("ghost_member", "errors_complete_nothing", "rejoin_flag_lost", "join_future_never_reset",
    "joins_with_partitions",)  # fmt: skip
"""The printed client's habits whose stories cores can be taken along."""
CORES: Mapping[str, tuple[type[HeldCoordinators], Mapping[str, Any]]] = {
    "generation_unstored": (ToldUnstored, {"core": FLAWS["generation_unstored"][0]}),
    "commit_by_generation": (CommitsAtGates, {"core": FLAWS["commit_by_generation"][0]}),
    "new_member_expires": (ExpiresNewMembers, {"core": GroupCoordinator}),
    "expels_who_waits": (HeldCoordinators, {"core": FLAWS["expels_who_waits"][0]}),
    "leave_while_processing": (WorksOn, {"client": printed_client("leave_while_processing")}),
    **{habit: (HeldClients, {"client": printed_client(habit)}) for habit in SEEN},
    **{
        mistake: (
            HearsErrorsLater if mistake == "error_taken_for_nothing" else HeldPositions,
            {"client": client},
        )
        for mistake, client in CLIENTS.items()
    },
}
"""By mistake the adapter of code that has it, and what is otherwise there."""
KNOWN = frozenset({*CORES, *CHOOSING_CORES, *ADMINISTERED_CORES, *RESUBSCRIBING_CORES})
"""The mistakes that there are cores with, those of other forms included."""


def cores(switches: frozenset[str], spec: Specification) -> type[HeldCoordinators]:
    """The adapter of cores with this mistake, for the variant of the spec that has it, too."""
    if not switches:
        return HeldPositions if spec.name == POSITIONS.name else HeldCoordinators
    (flaw,) = switches
    adapter, members = CORES[flaw]
    own = POSITIONS if issubclass(adapter, HeldPositions) else HELD
    return varied(adapter, own, spec, others=spec, switches=switches, **members)
