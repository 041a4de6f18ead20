"""
A consumer's part in its group, whatever the protocol: how it is found, asked for, and run.

A protocol whose consumers can be started enters its `Joining` under its name among the entry points
of `GROUP`. (Its spec is entered elsewhere: what runs in production loads none.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import entry_points
from typing import Any, Protocol, TextIO, TypeAlias, cast

from herdproof.consuming.addresses import BadArgument as BadArgument
from herdproof.consuming.addresses import host_ports as host_ports
from herdproof.consuming.events import Resolved
from herdproof.consuming.fetching.fetchers import Fetchers
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.offsets import NamedPartition, Offset, OffsetReset, number_of
from herdproof.consuming.subscription import Subscription
from herdproof.errors import HerdError, PeerError, WorldError
from herdproof.record import TopicPartition
from herdproof.troubles import Troubles

MAX_POLL_INTERVAL_S = 300.0
"""Kafka's own default."""

GROUP = "herdproof.consumers"
"""The group of entry points in which protocols' consumers are found."""


class AllKnownBrokersNotAvailable(WorldError):
    """No known broker could be consulted, and the consumer is set to give up then."""


class RegistrationRefused(PeerError):
    """This consumer was refused, for a reason that no other attempt can change."""


class SessionFailed(HerdError):
    """The consumer failed, by a mistake of Herdproof's own: its log has the rest."""


Observe: TypeAlias = Callable[[Any, Any, Sequence[Any]], None]
"""Told after every event: the core as it is now, the event, and what it led to."""


def ignore_event(core: object, event: object, effects: Sequence[object]) -> None:
    """Who observes a session that nobody observes."""


def by_number(partition: NamedPartition) -> TopicPartition:
    """A partition of the wire as applications call it."""
    return TopicPartition(partition.topic, number_of(partition.partition))


@dataclass(frozen=True, kw_only=True)
class ConsumerArguments:
    """Arguments of a consumer; `options` are its protocol's own."""

    group: str
    consumer_id: str | None
    auto_offset_reset: OffsetReset | None
    """None: without an offset, it is an error."""
    auto_commit: bool
    session_timeout_s: float | None
    listens: bool
    trace: TextIO | None
    run: str | None
    bootstrap: tuple[tuple[str, int], ...] = ()
    """Where Kafka's brokers listen."""
    kafka: Mapping[str, Any] = field(default_factory=dict)
    """The settings of its fetchers' client, librdkafka, as they were given."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reset(self) -> OffsetReset:
        """Where to begin without an offset; `BadArgument` for nowhere, in most protocols."""
        if self.auto_offset_reset is None:
            raise BadArgument(
                "auto_offset_reset is 'none': it must be one of 'smallest' and 'largest' (also "
                "'earliest' and 'latest') in this protocol"
            )
        return self.auto_offset_reset

    def options_for(self, protocol: str, **defaults: Any) -> dict[str, Any]:
        """The protocol's options, each with its default; `BadArgument` for one that it has not."""
        for name in self.options:
            if name not in defaults:
                known = ", ".join(sorted(defaults))
                raise BadArgument(f"{name} is no argument of {protocol}, which has {known}")
        return {**defaults, **self.options}


def poll_interval_of(options: Mapping[str, Any]) -> float | None:
    """Longest wait of records for an application (None: for ever), or `BadArgument`."""
    found = options["max_poll_interval_s"]
    if found is not None and not 0 < found < float("inf"):
        raise BadArgument(f"max_poll_interval_s is {found}: it must be above 0, or None for ever")
    return None if found is None else float(found)


class GroupMembership(Protocol):
    """A member's core, carried by a thread; `fetchers` are made by whoever makes it."""

    fetchers: Fetchers | None
    troubles: Troubles

    def start(self) -> None:
        """Take part from now on."""

    def post(self, event: Resolved) -> None:
        """Tell the core, from any thread; after the end, nobody."""

    def fail(self, error: HerdError) -> None:
        """End it with this error, which the application gets."""

    def commit(self, offsets: tuple[Offset, ...] | None, generation: int | None) -> Future[Any]:
        """Commit these offsets of a generation, or all that is consumed; what comes of it."""

    def why_not(self, outcome: Enum | None) -> tuple[Enum, str] | None:
        """Why a commit was not stored of which this came (None: no answer); None if it was."""

    def is_own_thread(self) -> bool:
        """True in the thread that carries the core, in which nobody may wait for it."""

    @property
    def stale(self) -> Enum:
        """The outcome of a commit of a partition that is not this consumer's."""

    def close(self, timeout_s: float) -> None:
        """Leave the group, with a last commit; after `timeout_s` seconds just end."""

    def partitions(self) -> tuple[NamedPartition, ...]:
        """The partitions that are consumed here, in order."""

    def name_of(self, topic: str, number: int) -> str | None:
        """The text of a partition by its number; None if it is not consumed here."""

    def stream_count(self) -> int:
        """The number of streams, and so of queues, that the subscription has."""


class JoiningConsumer(Protocol):
    """Who may join a group, and has not yet."""

    consumer_id: str
    max_poll_interval_s: float | None
    """Longest wait of records for the application; None: its own core sees to that."""

    def begin(
        self, subscription: Subscription, streams: Streams, listener: ListenerThread | None,
        observe: Observe,
    ) -> GroupMembership:  # fmt: skip
        """A membership, to be started; `InvalidSubscription` where the protocol has none such."""


Joining: TypeAlias = Callable[[ConsumerArguments], JoiningConsumer]
"""Raises `BadArgument`, or the protocol's own errors, for what can be known at once."""


def joining(protocol: str) -> Joining:
    """The way to join a group of this protocol; `BadArgument` where nobody can."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if protocol not in found:
        known = ", ".join(map(repr, sorted(found))) or "none, since Herdproof is not installed here"
        raise BadArgument(f"protocol is {protocol!r}: what is known is {known}")
    return cast(Joining, found[protocol].load())


def both(first: Observe, second: Observe) -> Observe:
    """Who tells two observers."""

    def observe(core: Any, event: Any, effects: Sequence[Any]) -> None:
        first(core, event, effects)
        second(core, event, effects)

    return observe
