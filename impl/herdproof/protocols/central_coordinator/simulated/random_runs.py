"""
Draws a run: its shape (who takes part, with which settings) and its faults.

Both are drawn from the seed before the run begins. The faults are a list, so that a failing run can
be tried again with fewer of them; what is left to chance in the run itself (how late each message
is, which record is taken next) comes from generators of their own, one for each concern.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from herdproof.consuming.offsets import OffsetReset
from herdproof.protocols.central_coordinator.judged.world_promises import PROMISED
from herdproof.simulator.network import Lateness


class Kind(Enum):
    """Faults and changes that can come in a run; each says how a story tells it."""

    KILL_BROKER = "{broker} is killed, and started again after {ms} ms"
    CRASH_HOST = "{broker}'s host fails, and is back after {ms} ms"
    PAUSE_BROKER = "{broker} is paused for {ms} ms"
    PART_ZOOKEEPER = "nothing gets through between {broker} and ZooKeeper for {ms} ms"
    CUT_ZOOKEEPER = "{broker}'s connection to ZooKeeper breaks"
    EXPIRE = "{broker}'s ZooKeeper session is ended by the service"
    LOSE_REPLY = "{broker}'s next write is done, and its reply lost"
    LAG = "{broker}'s ZooKeeper server lags for {ms} ms"
    SLOW_ZOOKEEPER = "ZooKeeper is slow for {ms} ms"
    KILL_CONSUMER = "{consumer} is killed, and started again after {ms} ms"
    PAUSE_CONSUMER = "{consumer} is paused for {ms} ms"
    CUT = "{consumer}'s connections break; one side may learn of it {ms} ms later"
    PART = "nothing gets through between {consumer} and {broker} for {ms} ms"
    DRIFT = "the clocks of {broker} and {consumer} drift otherwise"
    ADD_TOPIC = "a topic appears"
    ADD_PARTITIONS = "a topic gets more partitions"
    JOIN = "another consumer joins {consumer}'s group"
    LEAVE = "{consumer} leaves, and comes back after {ms} ms"


ALL = frozenset(Kind)

TROUBLE = ALL - {Kind.ADD_TOPIC, Kind.ADD_PARTITIONS, Kind.JOIN, Kind.LEAVE, Kind.DRIFT}
"""Kinds that are faults, and no changes that users make."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, or changes, at a time (ms), and for how long."""

    at_ms: int
    kind: Kind
    broker: int
    consumer: int
    for_ms: int

    @property
    def identity(self) -> str:
        """Which fault of a plan it is, however long it lasts: one made shorter is the same."""
        return f"{self.at_ms} {self.kind.name} {self.broker} {self.consumer}"

    def __str__(self) -> str:
        told = self.kind.value.format(
            broker=f"broker{self.broker}", consumer=f"c{self.consumer}", ms=f"{self.for_ms:,}"
        )
        return f"{told[0].upper()}{told[1:]}."


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a run; times in true milliseconds."""

    brokers: int = 2
    consumers: int = 3
    duration_ms: int = 60_000
    quiet_ms: int = 25_000
    """The last part, in which nothing goes wrong and nothing is produced."""
    settle_ms: int = 20_000
    """Within so much of the quiet part the group must be stable, and stay so until its end."""
    faults: int = 14
    kinds: frozenset[Kind] = ALL
    drift: float = 0.02
    """Each clock's rate lies within 1 - drift and 1 + drift."""
    ping_interval_ms: int = 1_000
    session_timeout_ms: int = 4_000
    zookeeper_timeouts_ms: tuple[int, ...] = (2_000, 4_000)
    """Each seed takes one of them."""
    topics: tuple[tuple[str, int], ...] = (("logs", 2), ("orders", 3))
    """The topics that are there from the beginning, with their numbers of partitions."""
    coordinator_flaws: frozenset[str] = frozenset()
    """Mistakes of the cores, by the names that `flawed_central` has for them."""
    consumer_flaws: frozenset[str] = frozenset()
    elector_flaws: frozenset[str] = frozenset()
    """By those of `herdproof.protocols.election.held.flawed`."""
    watches: frozenset[str] = frozenset(PROMISED)
    """The promises that a run is held to: fewer, where two mistakes are to be told apart."""
    late_election_ms: int = 250
    """
    Longest delay of what its election tells a coordinator: its threads can be starved.

    ZooKeeper's fence holds however late it is; until it is met, pings keep leases alive of which
    the successor does not know.
    """
    resumes: float = 0.8
    """Share of the consumers that go on without a coordinator, and resume; 0: as verified."""
    brings: float = 0.8
    """Share of those that say where their former registrations stopped; 0: as verified."""
    hides_epochs: bool = False
    """
    Coordinators do not see which epoch a consumer has seen.

    One that does steps down by itself, and its consumers' own fence is never needed.
    """
    checks_lease: bool = True
    """
    A consumer's shell asks its core before it delivers, as `ConsumerCore` says that it owes it.

    Without that, a consumer that has just woken from a pause delivers until its timers have gone
    off: the assumption under which no two members consume one partition in real time is broken.
    """


@dataclass(frozen=True, slots=True)
class DrawnMember:
    """A consumer as it was drawn: what it subscribes to and how it is set."""

    group: str
    consumer_id: str
    subscription: str
    auto_commit: bool
    reset: OffsetReset


SUBSCRIPTIONS = (
    '{"orders": 1}',
    '{"orders": 1, "logs": 1}',
    '{"orders": 2, "logs": 1}',
    '{"logs": 1}',
    "*1*[lo].*",
    "*2*.*",
)
"""Subscriptions to draw from, as the wire's `topic_count` has them."""


def draw_members(config: Config, seed: int) -> list[DrawnMember]:
    """Whom a run begins with: mostly one group, now and then a second one of one member."""
    chance = Random(f"{seed}/members")
    auto_commit = chance.random() < 0.85
    reset = OffsetReset.SMALLEST if chance.random() < 0.7 else OffsetReset.LARGEST
    alike = chance.choice(SUBSCRIPTIONS) if chance.random() < 0.5 else None
    apart = config.consumers > 2 and chance.random() < 0.2
    return [
        DrawnMember(
            group="g2" if apart and number == config.consumers - 1 else "g1",
            consumer_id=f"c{number + 1}",
            subscription=alike or chance.choice(SUBSCRIPTIONS),
            auto_commit=auto_commit,
            reset=reset,
        )
        for number in range(config.consumers)
    ]


def draw_member(chance: Random, number: int, like: DrawnMember) -> DrawnMember:
    """One who joins later, in the group of another; now and then under the other's id, too."""
    subscription = chance.choice((like.subscription, *SUBSCRIPTIONS))
    twin = chance.random() < 0.2
    consumer_id = like.consumer_id if twin else f"c{number}"
    return replace(like, consumer_id=consumer_id, subscription=subscription)


def draw_lateness(seed: int) -> Lateness:
    """The lateness of a run's messages."""
    return Random(f"{seed}/lateness").choice((Lateness(), Lateness(), Lateness(0.1, 2_500.0)))


def draw_faults(config: Config, seed: int) -> tuple[Fault, ...]:
    """The faults of a run, in order of time; all of them are over when the quiet part begins."""
    chance = Random(f"{seed}/faults")
    kinds = sorted(config.kinds, key=list(Kind).index)
    end = config.duration_ms - config.quiet_ms
    faults = [draw_fault(chance, config, kinds, end) for _ in range(config.faults if kinds else 0)]
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def draw_fault(chance: Random, config: Config, kinds: list[Kind], end_ms: int) -> Fault:
    """One fault; what lasts is short, about as long as a session, or much longer."""
    at_ms = chance.randrange(1_000, end_ms - 1_500)
    about = config.session_timeout_ms
    longest = chance.choice((about // 4, about, about * 2, about * 3))
    return Fault(
        at_ms=at_ms,
        kind=chance.choice(kinds),
        broker=chance.randrange(config.brokers) + 1,
        consumer=chance.randrange(config.consumers) + 1,
        for_ms=min(chance.randrange(50, longest), end_ms - at_ms),
    )
