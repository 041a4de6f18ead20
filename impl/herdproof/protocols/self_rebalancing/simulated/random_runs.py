"""Draws a run from its seed: who takes part, with which settings, and what goes wrong when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from herdproof.protocols.self_rebalancing.registries.registrations import (
    ConsumerRegistration,
    SubscriptionPattern,
)
from herdproof.protocols.self_rebalancing.settings import ConnectorSettings


class TroubleKind(Enum):
    """Mishap, or change, in a run; each says how a story tells it."""

    KILL = "{member} is killed, and started again after {ms} ms"
    PAUSE = "{member} is paused for {ms} ms"
    PART = "nothing gets through between {member} and ZooKeeper for {ms} ms"
    CUT = "{member}'s connection to ZooKeeper breaks"
    LOSE_REPLY = "{member}'s next transaction is done, and its reply lost"
    LAG = "{member}'s ZooKeeper server lags for {ms} ms"
    SLOW = "ZooKeeper is slow for {ms} ms"
    EXPIRE = "{member}'s session is ended by the service, whatever its lease"
    DRIFT = "{member}'s clock drifts otherwise"
    ADD_TOPIC = "a topic appears"
    ADD_PARTITIONS = "a topic gets more partitions"
    JOIN = "another member joins"
    LEAVE = "{member} leaves, and comes back after {ms} ms"


KEEPING_LEASES = frozenset(TroubleKind) - {TroubleKind.EXPIRE}
"""The kinds of trouble where a session lasts for its time-out: `session_lease`."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that goes wrong, or changes, at a time (ms), and for how long."""

    at_ms: int
    kind: TroubleKind
    member: int
    for_ms: int

    def __str__(self) -> str:
        told = self.kind.value.format(member=f"c{self.member}", ms=f"{self.for_ms:,}")
        return f"{told[0].upper()}{told[1:]}."


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """The configuration of a run; times in true milliseconds."""

    members: int = 3
    duration_ms: int = 60_000
    quiet_ms: int = 25_000
    """The last part, in which nothing goes wrong and nothing is produced."""
    troubles: int = 14
    kinds: frozenset[TroubleKind] = KEEPING_LEASES
    drift: float = 0.02
    """Each clock's rate lies within 1 - drift and 1 + drift."""
    timeouts_ms: tuple[int, ...] = (2_000, 4_000)
    """Of sessions with ZooKeeper; each seed takes one."""
    topics: tuple[tuple[str, int], ...] = (("logs", 2), ("orders", 3))
    """The topics that are there from the beginning, with their numbers of partitions."""
    checks_lease: bool = True


STATIC, WHITE, BLACK = SubscriptionPattern
SUBSCRIPTIONS = (
    ConsumerRegistration((("orders", 1),), STATIC),
    ConsumerRegistration((("logs", 1), ("orders", 2)), STATIC),
    ConsumerRegistration((("logs", 1),), STATIC),
    ConsumerRegistration((("[lo].*", 1),), WHITE),
    ConsumerRegistration((("pay.*", 2),), BLACK),
)
"""Subscriptions to draw from."""


def draw_members(config: WorldConfig, seed: int) -> list[ConsumerRegistration]:
    """The wishes of the members with whom a run begins; in half of the runs all want the same."""
    chance = Random(f"{seed}/members")
    alike = chance.choice(SUBSCRIPTIONS) if chance.random() < 0.5 else None
    return [alike or chance.choice(SUBSCRIPTIONS) for _ in range(config.members)]


def draw_connector_settings(chance: Random, timeout_ms: int) -> ConnectorSettings:
    """A member's settings."""
    return ConnectorSettings(
        zookeeper_session_timeout_ms=timeout_ms,
        rebalance_max_retries=chance.choice((0, 1, 4)),
        rebalance_backoff_ms=chance.choice((100, 500, 2_000)),
        auto_commit_interval_ms=chance.choice((200, 1_000, 10_000)),
        listens=chance.random() < 0.3,
    )


def draw_troubles(config: WorldConfig, seed: int) -> tuple[Trouble, ...]:
    """The troubles of a run, in order of time; all are over when the quiet part begins."""
    chance = Random(f"{seed}/troubles")
    kinds = sorted(config.kinds, key=list(TroubleKind).index)
    end = config.duration_ms - config.quiet_ms
    drawn = []
    for _ in range(config.troubles if kinds else 0):
        at_ms = chance.randrange(1_000, end - 1_500)
        longest = chance.choice((1_000, 4_000, 8_000, 12_000))
        drawn.append(
            Trouble(
                at_ms, chance.choice(kinds), chance.randrange(config.members) + 1,
                min(chance.randrange(50, longest), end - at_ms),
            )
        )  # fmt: skip
    return tuple(sorted(drawn, key=lambda trouble: trouble.at_ms))
