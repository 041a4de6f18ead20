"""
Whoever watches a simulated run: told what is true, whatever the members believe.

What ZooKeeper keeps is told after each change; what a member's fetchers and application do, as they
do it. Each is named by its name in the run, which no other life of it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from herdproof.consuming.assignment import Partition
from herdproof.consuming.offsets import Offset
from herdproof.protocols.self_rebalancing.registries.registrations import ConsumerRegistration
from herdproof.simulator.tree import Nodes


class Eyes:
    """Who looks away; who looks on overrides what it wants to see."""

    def partitions(self, topics: Mapping[str, int]) -> None:
        """These topics are there, each with so many partitions."""

    def enters(self, member: str, wants: ConsumerRegistration) -> None:
        """A member's process has started."""

    def dies(self, member: str) -> None:
        """It is no more."""

    def nodes(self, nodes: Nodes, sessions: Mapping[int, str]) -> None:
        """See what ZooKeeper keeps now, and whose each session is."""

    def claims(self, member: str, tokens: Mapping[Partition, int]) -> None:
        """See what a member knows to have claimed, and under which tokens."""

    def begins(self, member: str, starts: Sequence[Offset]) -> None:
        """Fetchers run, from these offsets on."""

    def stops(self, member: str) -> None:
        """Nothing of before is handed out any more: fetchers are closed, or the lease is over."""

    def resolves(self, member: str, partition: Partition, offset: int) -> None:
        """A partition without a stored offset begins here."""

    def delivers(self, member: str, partition: Partition, offset: int) -> None:
        """The application gets a record."""

    def finishes(self, member: str, partition: Partition, offset: int) -> None:
        """The application has finished with it."""

    def stores(self, member: str, partition: Partition, offset: int) -> None:
        """A member is about to have this offset stored."""

    def settled(self) -> None:
        """Nothing goes wrong any more, and everything has had its time."""
