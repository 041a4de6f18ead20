"""
`serverCluster` and `curCoordinator`: the brokers that a consumer knows, and who coordinates.

Source: `000` (Consumer.onStartup, step 2) and `002` (consumerStartup).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from herdproof.protocols.central_coordinator.wire.messages import NO_COORDINATOR, BrokerInfo


class Address(NamedTuple):
    """Where a broker listens for consumers of system B (not for Kafka's own clients)."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class ServerCluster:
    """
    The known brokers, taken in turns from `start_index` on.

    What an answer lists takes the place of what was known. Those given at first come after it
    (*ours*): should the whole cluster move meanwhile, they are how it can still be found.
    """

    def __init__(self, brokers: Sequence[Address], start_index: int = 0) -> None:
        if not brokers:
            raise ValueError("a consumer must be given at least one broker")
        self.initial = tuple(brokers)
        self.known = self.initial
        self.cur_coordinator = NO_COORDINATOR
        self._by_id: dict[int, Address] = {}
        self._next = start_index % len(self.known)

    def next(self) -> Address:
        """The broker whose turn it is."""
        broker = self.known[self._next % len(self.known)]
        self._next = (self._next + 1) % len(self.known)
        return broker

    def next_but(self, other: Address) -> Address | None:
        """The broker whose turn it is among all others; None if there are none."""
        for _ in self.known:
            if (broker := self.next()) != other:
                return broker
        return None

    def go_on_after(self, broker: Address) -> None:
        """Take the turns from the one behind this broker on."""
        if broker in self.known:
            self._next = self.known.index(broker) + 1

    def take_over(self, coordinator: int, brokers: Sequence[BrokerInfo]) -> None:
        """Know what an answer tells; one that lists nobody changes no address."""
        self.cur_coordinator = coordinator
        if not brokers:
            return
        self._by_id = addresses_by_id(brokers)
        listed = tuple(dict.fromkeys(self._by_id.values()))
        self.known = listed + tuple(broker for broker in self.initial if broker not in listed)

    def coordinator(self) -> Address | None:
        """Where the current coordinator listens; None if nobody coordinates, or nobody listed."""
        return self._by_id.get(self.cur_coordinator)


def addresses_by_id(brokers: Sequence[BrokerInfo]) -> dict[int, Address]:
    """Where brokers listen that an answer lists."""
    return {broker.id: Address(broker.host, broker.port) for broker in brokers}
