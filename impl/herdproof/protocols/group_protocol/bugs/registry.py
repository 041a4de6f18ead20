"""Kafka's historical bugs by their numbers: those that are here, and why others cannot be."""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.errors import CallerError
from herdproof.protocols.group_protocol.bugs import offsets, rebalances, sessions, statics
from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator

BUGS: Mapping[str, type[GroupCoordinator]] = {
    "KAFKA-2557": rebalances.Kafka2557,
    "KAFKA-7196": sessions.Kafka7196,
    "KAFKA-7610": sessions.Kafka7610,
    "KAFKA-8069": offsets.Kafka8069,
    "KAFKA-8220": statics.Kafka8220,
    "KAFKA-8500": statics.Kafka8500,
    "KAFKA-8653": rebalances.Kafka8653,
    "KAFKA-8715": statics.Kafka8715,
    "KAFKA-9232": sessions.Kafka9232,
    "KAFKA-9801": statics.Kafka9801,
    "KAFKA-10284": statics.Kafka10284,
    "KAFKA-12890": rebalances.Kafka12890,
    "KAFKA-13636": offsets.Kafka13636,
    "KAFKA-14009": statics.Kafka14009,
    "KAFKA-14201": offsets.Kafka14201,
}
"""Coordinators with one bug each, whose docstrings say what comes of it."""

ELSEWHERE: Mapping[str, str] = {
    "KAFKA-1740": "the merge of offset manager and coordinator: a change, not a bug of its own",
    "KAFKA-2877": "how clients take a time-out of SyncGroup",
    "KAFKA-4362": "of partitions of __consumer_offsets that move: groups are not partitioned here",
    "KAFKA-5247": "of commits in transactions, which are not offered",
    "KAFKA-5600": "of reading __consumer_offsets batch by batch, which is not read here",
    "KAFKA-8487": "how clients take the error of a commit",
    "KAFKA-9844": "a race of two threads for the last place in a group: the core has no threads",
    "KAFKA-10614": "of loads and unloads that overtake each other: a late load is dropped by its "
    "epoch before the core hears of it",
}
"""Bugs that a coordinator as this one cannot have, and why."""


class NoSuchBug(CallerError):
    """A bug that is not here; the sentence says which are, or why not."""


def bug_named(name: str) -> type[GroupCoordinator]:
    """A coordinator that has this bug; raises `NoSuchBug`."""
    if name in ELSEWHERE:
        raise NoSuchBug(f"the bug {name} cannot be had here: it is {ELSEWHERE[name]}")
    if name not in BUGS:
        raise NoSuchBug(f"there is no bug {name!r}: one of {', '.join(BUGS)}")
    return BUGS[name]
