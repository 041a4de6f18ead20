"""
The group coordinator with sessions as they are in Kafka's coordinator in Java.

That one, the default since Kafka 4.0, answers a SyncGroup in a Stable group and lets the member's
session go on as it was; the older one, in Scala, begins a new session there, and so does ours.
JoinGroup's answers to who has only missed one renew nothing in any of the three: what does so in
all of them is a heartbeat.

Source: apache/kafka, `GroupMetadataManager.classicGroupSyncToClassicGroup`, and `doSyncGroup` of
the coordinator in Scala.
"""

from __future__ import annotations

from typing import ClassVar

from herdproof.protocols.group_protocol.coordinator.coordinator import GroupCoordinator
from herdproof.protocols.group_protocol.coordinator.groups import ClassicGroup
from herdproof.protocols.group_protocol.coordinator.memberships import Memberships


class JavaMemberships(Memberships):
    """A SyncGroup in a Stable group is answered, and is no sign of life."""

    def _asks_in_stable(self, group: ClassicGroup, member_id: str) -> None:
        del group, member_id


class JavaCoordinator(GroupCoordinator):
    """A coordinator that counts sessions as Kafka's does in Java."""

    memberships_class: ClassVar[type[Memberships]] = JavaMemberships
