"""
The gated world of system B, put into a state of the spec: of a coordinator that has just begun.

What is stored is anything; members are gone, wait with a Register, or were just taken into the
books. What comes later (Stops, Starts, consumers that fetch) is made by steps alone: a core that is
in the middle of a rebalance has more inside than the spec's state tells.
"""

from __future__ import annotations

from herdproof.protocols.central_coordinator.coordinator.groups import Owner
from herdproof.protocols.central_coordinator.coordinator.members.recovery import (
    owner_data,
    point_data,
)
from herdproof.protocols.central_coordinator.simulated.gated import GatedCentral
from herdproof.protocols.central_coordinator.simulated.gates import GROUP, topic_of
from herdproof.zookeeper.operations import Set
from herdspec.language.surface import always
from herdspec.protocols.central_coordinator.spec import Asked, Kind, Phase, Write
from herdspec.protocols.central_coordinator.state import CoordinatedGroup
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member, Partition

LEASE_MS = 10_000
"""The lease of whoever owns what is stored."""


def only_reads(s: CoordinatedGroup, b: Broker) -> bool:
    """A broker does not coordinate; or it does, in the present epoch, and has read what is."""
    return (
        s.write[b] == Write.NONE
        and all(s.noted[b, p] == 0 and s.sent[b, p] == 0 for p in Partition)
        and all(not s.assigned[b, p] for p in Partition)
        and all(s.heir[m, p] is None for m in Member for p in Partition)
        and all(s.knows[b, p] == (s.election.leads[b] and s.exists[p]) for p in Partition)
        and s.election.elected == s.seat
        and s.election.token[b] <= s.election.epoch
        and (s.election.won[b] == 0 or s.seat == b)
        and (s.seat != b or s.election.won[b] == s.election.epoch)
        and (s.seat != b or s.election.epoch > 0)
        and (not s.election.leads[b] or (s.seat == b and s.election.token[b] == s.election.epoch))
    )


def is_queued(s: CoordinatedGroup, b: Broker) -> bool:
    """Its group was queued when it began, and whoever was taken into the books marked it."""
    return s.phase[b] == (Phase.QUEUED if s.election.leads[b] else Phase.IDLE) and (
        s.dirty[b] == any(s.books[m] == b for m in Member)
    )


def is_there(s: CoordinatedGroup, p: Partition) -> bool:
    """True if what is stored is of a partition that exists; of an owner who lives on it is old."""
    owner = s.owner[p]
    return (
        s.committed[p] <= s.finished[p] <= s.end[p]
        and (s.exists[p] or (s.end[p] == 0 and owner is None))
        and (owner is not None or not s.orphan[p])
        and (owner is None or s.generation > 0)
        and (owner is None or s.via[owner] is None or s.orphan[p])
    )


def has_not_begun(s: CoordinatedGroup, m: Member) -> bool:
    """Nothing was asked of a member, and it fetches nothing."""
    return (
        s.link[m] == (s.via[m] is not None)
        and len(s.down[m]) == 0
        and len(s.up[m]) <= 1
        and (len(s.up[m]) == 0) == (s.via[m] is None or s.books[m] is not None)
        and all(x.kind == Kind.REGISTER and x.generation == 0 for x in s.up[m])
        and all(s.books[m] != b or s.term[m] == s.election.token[b] for b in Broker)
        and (s.books[m] is not None or s.term[m] == 0)
        and s.asked[m] == Asked.NONE
        and not s.stopped[m]
        and s.acked[m] == 0
        and s.at[m] == 0
        and s.barred[m] == 0
        and (s.books[m] is None or s.books[m] == s.via[m])
        and all(not s.fetching[m, p] and s.position[m, p] == 0 for p in Partition)
        and all(not s.given[m, p] and s.begin[m, p] == 0 for p in Partition)
        and s.seen[m] <= s.election.epoch
        and all(len(s.committing[m, p]) == 0 and s.reported[m, p] == 0 for p in Partition)
    )


@always
def a_coordinator_has_just_begun(s: CoordinatedGroup) -> bool:
    """Whoever coordinates has just read what is stored, and has asked nobody for anything."""
    return (
        all(only_reads(s, b) and is_queued(s, b) for b in Broker)
        and all(has_not_begun(s, m) for m in Member)
        and all(is_there(s, p) for p in Partition)
    )


def load(world: GatedCentral, state: CoordinatedGroup) -> None:
    """Put a world that has just begun, with the state's partitions, into a state."""
    _store(world, state)
    election = state.election
    for b in Broker:
        broker = world.brokers[b.index]
        broker.won, broker.token = election.won[b], election.token[b]
    for b in Broker:
        if election.leads[b]:
            world.coordinator_startup(b.index)
    for m, broker_of in state.via.items():
        world.members[m.index].core.consumption.epoch = state.seen[m]
        if broker_of is not None:
            wanted = [p.index for p in Partition if state.interest[m, p]]
            world.register(m.index, broker_of.index, wanted)
    for m, booked in state.books.items():
        if booked is not None:
            world.handle_register(m.index, booked.index)


def _store(world: GatedCentral, state: CoordinatedGroup) -> None:
    """Store what ZooKeeper knows, and what only the properties look at."""
    world.seat = None if state.seat is None else state.seat.index
    service = world.zookeeper.snapshot()
    epoch = service.nodes[world.paths.election.epoch]._replace(version=state.election.epoch)
    nodes = {**service.nodes, world.paths.election.epoch: epoch}
    world.zookeeper.restore(service._replace(nodes=nodes))
    world.epoch = state.election.epoch
    elected = state.election.elected
    world.elected = None if elected is None else elected.index
    world.operate(Set(world.paths.group(GROUP), point_data(state.generation, 1, 1, LEASE_MS)))
    for p in Partition:
        world.ends[p.index], world.finished[p.index] = state.end[p], state.finished[p]
        if state.exists[p]:
            path = world.paths.offset(GROUP, topic_of(p.index), "0")
            world.operate(Set(path, str(state.committed[p]).encode()))
        owner = state.owner[p]
        if owner is not None:
            life = -1 if state.orphan[p] else 0
            world.registered[f"former-{owner.index}-{life}"] = owner.index, life
            data = owner_data(Owner(f"c{owner.index}", f"former-{owner.index}-{life}"), 1)
            world.make(world.paths.owner(GROUP, topic_of(p.index), "0"), data)
