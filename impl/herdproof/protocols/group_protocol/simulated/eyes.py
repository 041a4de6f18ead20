"""
Whoever watches a simulated run: told what is true, whatever brokers and members believe.

What ZooKeeper keeps is told after each write that is done; what members and their applications do,
as they do it. A member is named by its process, of which none comes again.
"""

from __future__ import annotations

from collections.abc import Mapping

from herdproof.protocols.group_protocol.effects import StoredClassicGroup, TopicPartition


class GroupEyes:
    """Who looks away; who looks on overrides what it wants to see."""

    def partitions(self, topics: Mapping[str, int]) -> None:
        """These topics are there, each with so many partitions."""

    def enters(self, member: str) -> None:
        """A member's process has started."""

    def coordinates(self, broker: str, epoch: int) -> None:
        """A broker coordinates in that epoch, until it does so in a later one."""

    def stored(self, author: str, group: StoredClassicGroup, names: Mapping[str, str]) -> None:
        """Observe what ZooKeeper keeps of the group now, by whom, and whose each member id is."""

    def epoch(self, epoch: int, broker: str) -> None:
        """The present epoch, and who has won it."""

    def named(self, member_id: str, member: str) -> None:
        """A member is told its member id."""

    def fenced(self, member: str) -> None:
        """A static member is told that another process has come under its name."""

    def joins(self, member: str, generation: int, leader: str) -> None:
        """A member is told of its generation, and of the leader's member id."""

    def begins(self, member: str, generation: int, starts: Mapping[TopicPartition, int]) -> None:
        """A member consumes from these offsets on; -1: there is none stored."""

    def stops(self, member: str) -> None:
        """A member consumes nothing any more."""

    def resolves(self, member: str, where: TopicPartition, offset: int) -> None:
        """A partition without a stored offset begins here."""

    def delivers(self, member: str, where: TopicPartition) -> None:
        """The application gets a record."""

    def finishes(self, member: str, where: TopicPartition, offset: int) -> None:
        """The application has finished with a record."""

    def commits(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A member asks for these offsets to be stored."""
