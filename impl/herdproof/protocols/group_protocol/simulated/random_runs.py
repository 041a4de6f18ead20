"""Draws a run from its seed: with which settings it is, and what goes wrong when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from herdproof.protocols.group_protocol.settings import GroupSettings


class Mishap(Enum):
    """Mishap, or change, in a run; each says how a story tells it."""

    KILL_BROKER = "{broker} is killed, and started again after {ms} ms"
    PAUSE_BROKER = "{broker} is paused for {ms} ms"
    PART_BROKER = "nothing gets through between {broker} and ZooKeeper for {ms} ms"
    CUT_BROKER = "{broker}'s connection to ZooKeeper breaks"
    LOSE_REPLY = "{broker}'s next transaction is done, and its reply lost"
    EXPIRE = "{broker}'s session is ended by the service"
    LAG = "{broker}'s ZooKeeper server lags for {ms} ms"
    SLOW = "ZooKeeper is slow for {ms} ms"
    DRIFT = "{broker}'s clock drifts otherwise"
    KILL = "{member} is killed, and started again after {ms} ms"
    PAUSE = "{member} is paused for {ms} ms"
    PART = "nothing gets through between {member} and {broker} for {ms} ms"
    LEAVE = "{member} leaves, and comes back after {ms} ms"
    JOIN = "another member joins"
    START_TWICE = "{member} is started once more under its name, if it has one"
    ADD_PARTITIONS = "a topic gets another partition"


OF_ANYBODY = tuple(kind for kind in Mishap if kind is not Mishap.START_TWICE)
"""The mishaps that can happen to members without a name of their own."""


@dataclass(frozen=True, slots=True)
class GroupTrouble:
    """One thing that goes wrong, or changes, at a time (ms), to whom, and for how long."""

    at_ms: int
    kind: Mishap
    broker: int
    member: int
    for_ms: int

    def __str__(self) -> str:
        told = self.kind.value.format(
            broker=f"broker{self.broker}", member=f"c{self.member}", ms=f"{self.for_ms:,}"
        )
        return f"{told[0].upper()}{told[1:]}."


@dataclass(frozen=True, kw_only=True)
class GroupRunConfig:
    """Settings of a run; times in true milliseconds."""

    brokers: int = 2
    members: int = 3
    statics: int = 0
    """The number of static members, under a name (`group.instance.id`) in each life."""
    assignor: str = "range"
    """The assignor of each member."""
    duration_ms: int = 80_000
    quiet_ms: int = 35_000
    """The last part, in which nothing goes wrong and nothing is produced."""
    troubles: int = 24
    kinds: tuple[Mishap, ...] = OF_ANYBODY
    drift: float = 0.02
    """Each clock's rate lies within 1 - drift and 1 + drift."""
    zookeeper_timeout_ms: int = 3_000
    session_timeout_ms: int = 6_000
    rebalance_timeout_ms: int = 10_000
    new_member_join_timeout_ms: int = 300_000
    retention_check_ms: int = 600_000
    """Time between two looks of the coordinator for offsets that nobody needs any more."""
    join_version: int | None = None
    """The version in which members send JoinGroup, if not their own: 0 has no rebalance timeout."""
    commits_as_kafka: bool = False
    late: float = 0.03
    """Share of records on which an application is at work for longer, up to more than it may be."""


def draw_group_settings(config: GroupRunConfig, seed: int) -> GroupSettings:
    """The coordinators' settings."""
    chance = Random(f"{seed}/settings")
    return GroupSettings(
        group_initial_rebalance_delay_ms=chance.choice((0, 300, 3_000)),
        group_new_member_join_timeout_ms=config.new_member_join_timeout_ms,
        offsets_retention_check_interval_ms=config.retention_check_ms,
        commits="as_kafka" if config.commits_as_kafka else "owner",
    )


def draw_group_troubles(config: GroupRunConfig, seed: int) -> tuple[GroupTrouble, ...]:
    """The troubles of a run, in order of time; all are over when the quiet part begins."""
    chance = Random(f"{seed}/troubles")
    end = config.duration_ms - config.quiet_ms
    drawn = []
    for _ in range(config.troubles if config.kinds else 0):
        at_ms = chance.randrange(1_000, end - 1_500)
        longest = chance.choice((1_000, 4_000, 8_000, 14_000))
        trouble = GroupTrouble(
            at_ms,
            chance.choice(config.kinds),
            chance.randrange(config.brokers) + 1,
            chance.randrange(config.members) + 1,
            min(chance.randrange(50, longest), end - at_ms),
        )
        drawn.append(trouble)
    return tuple(sorted(drawn, key=lambda trouble: trouble.at_ms))
