"""
A member's registration: which topics it wants, with how many threads of each.

It is read by every member of the group, by Kafka 0.8's as well as by ours, since each plans for
all. So it is written to the byte as 0.8 writes it, and one that cannot be read is no detail: who
plans without it plans something else than those who can read it. `BadRegistration` says what is
wrong; nobody here plans around it.

Source: Kafka 0.8.2, `TopicCount.constructTopicCount` and `registerConsumerInZK`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from herdproof.consuming.subscription import (
    MAX_STREAMS,
    InvalidSubscription,
    Named,
    Subscription,
    Wildcard,
    named,
)
from herdproof.errors import PeerError
from herdproof.protocols.self_rebalancing.registries.filters import TopicFilter, cleaned

VERSION = 1
LONGEST = 2**20
"""The most bytes of a registration: more than a node of ZooKeeper holds by default."""


class SubscriptionPattern(Enum):
    """The form in which a registration names its topics."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


class BadRegistration(PeerError):
    """A node below `ids` that is no registration, or not one that every member reads alike."""


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """
    The wishes of a member; `subscription` has topics, or the one regex, with numbers of threads.

    Raises `InvalidSubscription` where the regex is none that all members read alike.
    """

    subscription: tuple[tuple[str, int], ...]
    pattern: SubscriptionPattern = SubscriptionPattern.STATIC
    timestamp_ms: int = 0
    filter: TopicFilter | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        wildcard = None
        if self.is_wildcard:
            excluding = self.pattern is SubscriptionPattern.BLACK_LIST
            wildcard = TopicFilter(self.subscription[0][0], excluding)
        object.__setattr__(self, "filter", wildcard)

    @property
    def is_wildcard(self) -> bool:
        """Tells whether it takes in all topics that a filter allows; without a regex, none."""
        return self.pattern is not SubscriptionPattern.STATIC and bool(self.subscription)

    def threads(self, topic: str) -> int:
        """The number of threads that it has for this topic; 0 if it does not want it."""
        if self.filter is not None:
            return self.subscription[0][1] if self.filter.is_topic_allowed(topic) else 0
        return dict(self.subscription).get(topic, 0)

    def topics_of(self, existing: Iterable[str]) -> tuple[str, ...]:
        """The topics that it wants, in order: those that it names, or of these the allowed ones."""
        if self.filter is None:
            return tuple(sorted(topic for topic, _ in self.subscription))
        return tuple(sorted(filter(self.filter.is_topic_allowed, existing)))


def registration_of(subscription: Subscription, timestamp_ms: int) -> ConsumerRegistration:
    """The registration of a member that wants this; raises `InvalidSubscription`."""
    match subscription:
        case Named(topics):
            return ConsumerRegistration(topics, SubscriptionPattern.STATIC, timestamp_ms)
        case Wildcard(regex, count, excluding):
            lists = SubscriptionPattern.BLACK_LIST if excluding else SubscriptionPattern.WHITE_LIST
            return ConsumerRegistration(((cleaned(regex), count),), lists, timestamp_ms)


def encoded(registration: ConsumerRegistration) -> bytes:
    r"""
    The node's data, as 0.8 writes it.

    >>> encoded(ConsumerRegistration((("orders", 2),), SubscriptionPattern.STATIC, 1416000000000))
    b'{"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1416000000000"}'
    """
    subscription = ",".join(
        f"{_text(name)}:{threads}" for name, threads in registration.subscription
    )
    return (
        f'{{"version":{VERSION},"subscription":{{{subscription}}},'
        f'"pattern":"{registration.pattern.value}","timestamp":"{registration.timestamp_ms}"}}'
    ).encode()


def _text(text: str) -> str:
    """A text in JSON, with 0.8's escapes: "/" is one of them."""
    return json.dumps(text, ensure_ascii=False).replace("/", "\\/")


def parsed(data: bytes) -> ConsumerRegistration:
    """The registration that a node's data is; `BadRegistration` says why it is none."""
    if len(data) > LONGEST:
        raise BadRegistration(f"it has {len(data):,} bytes, more than {LONGEST:,}")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise BadRegistration(f"it is no JSON: {str(problem)[:120]}") from None
    if not isinstance(found, dict):
        raise BadRegistration("it is no JSON object")
    version = found.get("version")
    if type(version) is not int or version != VERSION:
        raise BadRegistration(f"its version is {_shown(version)}, not {VERSION}")
    subscription = _subscription(found.get("subscription"))
    pattern = _pattern(found.get("pattern"))
    if pattern is not SubscriptionPattern.STATIC and len(subscription) > 1:
        raise BadRegistration(f"its {pattern.value} has {len(subscription)} regexes, not one")
    try:
        if pattern is SubscriptionPattern.STATIC and subscription:
            named(dict(subscription))
        return ConsumerRegistration(subscription, pattern, _timestamp(found.get("timestamp")))
    except InvalidSubscription as problem:
        raise BadRegistration(str(problem)) from None


def _subscription(said: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(said, Mapping):
        raise BadRegistration(f"its subscription is {_shown(said)}, no map of topics to threads")
    for name, threads in said.items():
        if type(threads) is not int or not 1 <= threads <= MAX_STREAMS:
            raise BadRegistration(
                f"it has {_shown(threads)} threads for {_shown(name)}, not 1 to {MAX_STREAMS}"
            )
    return tuple(sorted(said.items()))


def _pattern(said: object) -> SubscriptionPattern:
    try:
        return SubscriptionPattern(said)
    except ValueError:
        known = ", ".join(pattern.value for pattern in SubscriptionPattern)
        raise BadRegistration(f"its pattern is {_shown(said)}, none of {known}") from None


def _timestamp(said: object) -> int:
    """When it was written, which nobody relies on: 0.8 writes a text, others may write a number."""
    text = str(said)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _shown(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 60 else f"{text[:57]}..."
