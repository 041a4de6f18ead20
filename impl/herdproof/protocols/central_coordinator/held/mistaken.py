"""
Adapters of cores with a mistake, and what of their world and their steps is not as without it.

A variant that breaks the assumption `lease` has a world in which leases end as it says. One that
takes its steps otherwise has an adapter that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace

from herdproof.conformance.adapter import Refused, varied
from herdproof.protocols.central_coordinator.coordinator.groups import Phase as CorePhase
from herdproof.protocols.central_coordinator.events import CoordinatorEvent
from herdproof.protocols.central_coordinator.held.adapter import CentralCores
from herdproof.protocols.central_coordinator.held.flawed import (
    CONSUMERS,
    COORDINATORS,
    consumer_with,
    coordinator_with,
)
from herdproof.protocols.central_coordinator.simulated.gated import GatedCentral
from herdproof.protocols.central_coordinator.simulated.gated_processes import GatedTwins
from herdproof.protocols.central_coordinator.simulated.gates import GatedBroker
from herdproof.protocols.central_coordinator.wire.messages import Start
from herdproof.zookeeper.operations import Answer, Check, Multi, Operation
from herdspec.language.specification import Specification
from herdspec.protocols.central_coordinator.properties import HELD
from herdspec.protocols.central_coordinator.spec import Member, Partition, Write
from herdspec.protocols.election.spec import Broker as BrokerOf

# ── Worlds ──────────────────────────────────────────────────────────────────────────────────


class LeasesOfOthers(GatedCentral):
    """A lease that a deposed coordinator keeps alive is taken for over by the next one."""

    def _is_gone(self, m: int) -> bool:
        """True if another coordinator has it in its books, too."""
        return any(self._booked(m, b) for b in range(len(self.brokers))) or super()._is_gone(m)


class LeasesOfFetchers(GatedCentral):
    """Who fetches nothing is taken for gone, though a deposed coordinator may yet start it."""

    def _is_gone(self, m: int) -> bool:
        """True if it fetches nothing, and has no Start to read."""
        connection = self.members[m].connection
        sent = connection.down if connection else ()
        starts = any(isinstance(frame.message, Start) for frame in sent)
        fetches = any(map(self.members[m].is_fetching, self.partitions))
        return not (starts or fetches) or super()._is_gone(m)


class LastFence(GatedCentral):
    """A deposed coordinator can take members in: what consumers do then is their own fence's."""

    def _hear(self, m: int, b: int, kind: type[Any]) -> None:
        """A broker takes the next frame of a member, and does not see which epoch that has seen."""
        connection = self.connection(m)
        if connection is not None and connection.up:
            connection.up[0] = replace(connection.up[0], epoch=0)
        super()._hear(m, b, kind)

    def _perform(self, broker: GatedBroker, operation: Operation) -> Answer:
        """ZooKeeper does what a broker asks; but for its steps, whichever its epoch is."""
        is_step = broker.request is not None and broker.request.ask.operation is operation
        if isinstance(operation, Multi) and not is_step:
            writes = operation.operations
            checks = {Check(write.path, self.epoch) for write in writes if isinstance(write, Check)}
            others = (write for write in writes if not isinstance(write, Check))
            operation = Multi((*checks, *others))
        return super()._perform(broker, operation)


class ReadAgain(GatedCentral):
    """A group that a coordinator has doubts about is read anew at once."""

    def _give(self, b: int, event: CoordinatorEvent) -> None:
        super()._give(b, event)
        group = self.brokers[b].group
        if group is not None and not (group.loaded or group.loading):
            self._read_again(b)


WORLDS: Mapping[str, type[GatedCentral]] = {
    "deposed_goes_on": LeasesOfOthers,
    "stale_commit": LeasesOfFetchers,
    "ignores_epoch": LastFence,
    "owners_written_late": ReadAgain,
    "brought_by_id": GatedTwins,
}
"""By mistake, the world in which it shows."""

# ── Adapters ────────────────────────────────────────────────────────────────────────────────


class PlannedCores(CentralCores):
    """Coordinators whose assignor gives the shares that a story says."""

    chosen: ClassVar = {"serve_owners": ("plan",)}

    def write_owners(  # type: ignore[override]
        self, b: BrokerOf, plan: dict[Partition, Member]
    ) -> None:
        """The barrier is passed; owners are written by this plan."""
        self._write_owners(b, plan)


class DeposedCores(PlannedCores):
    """Coordinators that go on as such when their election has told them that they lead no more."""

    def _leads(self, b: BrokerOf) -> bool:
        """True unless it was told otherwise, heeded or not."""
        return self.world.brokers[b.index].leads


class LateCores(CentralCores):
    """Coordinators that write their owners once everybody has started."""

    silent = (*CentralCores.silent, "decide_owners")
    reluctant = (*CentralCores.reluctant, "decide_owners", "finish_rebalance")
    follows: ClassVar = {
        **CentralCores.follows,
        "answered": (*CentralCores.follows["answered"], "finish_rebalance"),
    }
    """Who hears that its owners are written has finished."""

    def decide_owners(self, b: BrokerOf, plan: dict[Partition, Member]) -> None:
        """The barrier is passed, and Starts are due, by this plan."""
        self._check_phase(b, CorePhase.STOPPING)
        if self._has_unwritten(b):
            raise Refused("offsets are written before")
        self.world.pass_barrier(b.index, self._of_those_wanted(b, plan))
        self._check_phase(b, CorePhase.STARTING)

    def write_owners(self, b: BrokerOf) -> dict[Partition, Member]:
        """Everybody has started; returns who is to own what, somebody where that is nobody."""
        broker = self.world.brokers[b.index]
        self._check_phase(b, CorePhase.STARTING)
        if broker.request is not None:
            raise Refused("offsets are being written")
        self.world.pass_barrier(b.index)
        if broker.request is None:
            raise Refused("somebody has not started")
        heirs = self._heirs(broker.request.step)
        return {p: heirs.get(p.index, Member(0)) for p in Partition}

    def finish_rebalance(self, b: BrokerOf) -> None:
        """It is finished by the answer to the write."""
        del b
        raise Refused("its owners are not written")

    def _check_phase(self, b: BrokerOf, phase: CorePhase) -> None:
        group = self.world.brokers[b.index].group
        if group is None or not group.members or group.phase is not phase:
            raise Refused("the rebalance is not so far")

    def _decided(self, b: BrokerOf) -> dict[Partition, Member]:
        """Whom a coordinator has started, or is about to."""
        group = self.world.brokers[b.index].group
        owners = group.owners.items() if group and group.phase is CorePhase.STARTING else ()
        return {
            Partition(int(topic.removeprefix("t"))): Member(
                self.world.registered[owner.registration][0]
            )
            for (topic, _), owner in owners
        }

    def _see_write(self, look: dict[str, Any], b: BrokerOf) -> None:
        """See whom it has decided on, too, until that is written."""
        super()._see_write(look, b)
        request = self.world.brokers[b.index].request
        heirs = self._decided(b)
        if request is not None and look["write"][b] is Write.REFUSED:
            heirs = {Partition(p): m for p, m in self._heirs(request.step).items()}
            look["assigned"] |= {(b, p): p in heirs for p in Partition}
        look["heir"] |= {(m, p): b for p, m in heirs.items()}


ADAPTERS: Mapping[str, type[CentralCores]] = {
    "lost_trigger": CentralCores,
    "deposed_goes_on": DeposedCores,
    "owners_written_late": LateCores,
}
"""By mistake, the adapter of cores that take their steps otherwise, or keep to their own plan."""


def cores(switches: frozenset[str] = frozenset(), spec: Specification = HELD) -> type[CentralCores]:
    """The adapter of cores with these mistakes, for a variant of the spec that has them, too."""
    if not switches:
        return CentralCores
    adapter = _one(ADAPTERS, switches, PlannedCores)
    return varied(adapter, HELD, spec, **mistaken(switches))


def mistaken(switches: frozenset[str]) -> dict[str, Any]:
    """Members of an adapter whose cores have these mistakes."""
    of: type[GatedCentral] = _one(WORLDS, switches, GatedCentral)
    world = partial(
        of,
        coordinator=coordinator_with(switches.intersection(COORDINATORS)),
        consumer=consumer_with(switches.intersection(CONSUMERS)),
    )
    return {"world_of": staticmethod(world), "switches": switches}


def _one(known: Mapping[str, type[Any]], switches: Iterable[str], usual: type[Any]) -> type[Any]:
    """The class of the one mistake that has its own; of several, of the first by name."""
    return next((known[name] for name in sorted(switches) if name in known), usual)
