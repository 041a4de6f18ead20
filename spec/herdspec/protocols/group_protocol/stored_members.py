"""
The contract of a group whose members are stored: a coordinator counts them when it begins.

It is a variant of the contract of every group protocol: what differs is that the members whom the
coordinator counts are stored, and found by its successor. All the sentences stay, but those of what
a coordinator knows once its group is stable (`SHOWN_BY_THE_PROTOCOL`): they are asked of a protocol
whose coordinator does not ask its members whether they have begun.

Source: PROTOCOLS.md, "The contract: what a group coordination protocol owes its users".

Assumed: nothing.
Not modelled: as in the contract.
"""

from __future__ import annotations

from herdspec import each, require, specification
from herdspec.language.surface import action, weak
from herdspec.protocols.contract.properties import (
    CONTRACT,
    finish_unheard,
    nobody_is_heard,
    nobody_is_waited_for,
)
from herdspec.protocols.contract.spec import GroupContract
from herdspec.protocols.election.spec import Broker
from herdspec.protocols.group import Member


class StoredMembers(GroupContract):
    """A coordinator hands partitions over, and stores its members, and how far they are."""

    stored: dict[Member, bool] = each(False)  # a coordinator that begins will count it

    @action
    def store_members(self, b: Broker) -> None:
        """{b} stores whom it counts."""
        require(self.coordinates(b))
        for m in Member:
            self.stored[m] = self.live[m]

    @action(fair=weak)
    def take_over(self, b: Broker) -> None:
        """{b} begins, and counts whoever is stored."""
        require(self.coordinates(b) and all(not self.live[m] for m in Member))
        for m in Member:
            self.live[m] = self.stored[m]


SHOWN_BY_THE_PROTOCOL = frozenset({"complete", "settles", "a_group_with_members_is_stable"})
"""What is asked of the protocol itself."""
STORED_MEMBERS = specification(
    StoredMembers,
    *(p.python for p in CONTRACT.properties if p.name not in SHOWN_BY_THE_PROTOCOL),
)
"""The strict form: every consumer is seen."""
STORED_MEMBERS_FENCED = STORED_MEMBERS.replace(
    "FencedStoredMembers", makes_way=nobody_is_waited_for, consumes_on=nobody_is_heard
).add("FencedStoredMembers", finish_unheard=finish_unheard)
"""The fenced form: only who consumes in the present generation is seen."""
