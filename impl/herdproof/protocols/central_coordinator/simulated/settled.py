"""
What must be true once everything has been quiet for long enough: *Settles* and *Complete*.

Every member that lives consumes what its subscription and the assignor's promise give it, ZooKeeper
says the same, every record was finished with and is committed, and nothing changed any more.

Source: PROTOCOLS.md, "The contract", 5 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from herdproof.consuming.assignment import uneven_share
from herdproof.consuming.offsets import NamedPartition
from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
from herdproof.protocols.central_coordinator.simulated.consumer import SimulatedConsumer
from herdproof.protocols.central_coordinator.simulated.contract import Contract, Owned, shown
from herdproof.protocols.sentences import Sentence
from herdproof.simulator.kafka import Log


def settles(
    contract: Contract, brokers: Sequence[SimulatedBroker], quiet_since_ms: float, settle_ms: float
) -> None:
    """One broker coordinates, and no fetcher started or stopped after the time to settle."""
    leading = [broker.name for broker in brokers if broker.leads]
    if len(leading) != 1:
        contract.breaks(Sentence.SETTLES, f"Brokers that coordinate: {leading or 'none'}.")
    changed = contract.last_change_ms - quiet_since_ms
    if changed > settle_ms:
        contract.breaks(
            Sentence.SETTLES,
            f"Fetchers were started or stopped {changed / 1000:.1f} s after everything had become "
            f"quiet.",
        )


def complete(
    contract: Contract, consumers: Sequence[SimulatedConsumer], logs: Mapping[NamedPartition, Log]
) -> None:
    """Every partition of a subscribed topic is consumed by one member, all of it, and shared."""
    members = [consumer for consumer in consumers if consumer.alive and not consumer.leaving]
    for group in sorted({member.group for member in members}):
        inside = [member for member in members if member.group == group]
        topics: dict[str, list[Owned]] = {}
        for partition in sorted(logs, key=str):
            if any(_streams(member, partition.topic) for member in inside):
                owned = (group, partition)
                topics.setdefault(partition.topic, []).append(owned)
                _is_consumed_by_one(contract, owned)
                _is_finished(contract, owned, logs[partition])
        for topic, partitions in topics.items():
            _is_balanced(contract, inside, topic, partitions)


def _streams(member: SimulatedConsumer, topic: str) -> int:
    return member.core.consumption.subscription.streams(topic)


def _is_consumed_by_one(contract: Contract, owned: Owned) -> None:
    consumers = [c for c in contract.consuming.get(owned, []) if c.may_deliver()]
    if len(consumers) != 1:
        names = ", ".join(consumer.name for consumer in consumers) or "nobody"
        contract.breaks(Sentence.COMPLETE, f"{shown(owned)} is consumed by {names}.")
        return
    owner = contract.owners.get(owned)
    generation = contract.generations.get(owned[0], (0, 0))[1]
    if owner is None or (owner.consumer, owner.generation) != (
        consumers[0].consumer_id,
        generation,
    ):
        contract.breaks(
            Sentence.COMPLETE,
            f"{shown(owned)} is consumed by {consumers[0].name} in generation {generation}; its "
            f"owner node says {owner}.",
        )


def _is_finished(contract: Contract, owned: Owned, log: Log) -> None:
    first = contract.unfinished.get(owned)
    if first != log.end:
        contract.breaks(
            Sentence.SETTLES,
            f"{shown(owned)} is finished with up to {first} of {log.end} records.",
        )


def _is_balanced(
    contract: Contract, members: Sequence[SimulatedConsumer], topic: str, owned: Sequence[Owned]
) -> None:
    """Each thread has as many partitions of a topic as any other, or one more or less."""
    threads = {member: _streams(member, topic) for member in members}
    shares = {m: sum(m in contract.consuming.get(one, ()) for one in owned) for m in members}
    member = uneven_share(len(owned), shares, threads)
    if member is not None:
        contract.breaks(
            Sentence.COMPLETE,
            f"{member.name} has {shares[member]} of the {len(owned)} partitions of {topic} for "
            f"{threads[member]} of {sum(threads.values())} threads.",
        )


def committed(contract: Contract, consumers: Sequence[SimulatedConsumer]) -> None:
    """Where offsets are committed by themselves, all that was finished with is committed."""
    automatic = {c.group for c in consumers if c.alive and c.member.auto_commit}
    for owned, first in contract.unfinished.items():
        if owned[0] in automatic and contract.consuming.get(owned):
            stored = contract.stored.get(owned)
            if stored != first:
                contract.breaks(
                    Sentence.SETTLES,
                    f"{shown(owned)} is finished with up to {first}, and {stored} is committed.",
                )
