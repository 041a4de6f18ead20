"""
The contract of a group whose members are stored: a coordinator counts them when it begins.

It is a variant of the contract of every group protocol. What differs, in writing:

- The members whom the coordinator counts are stored, and found by its successor.
- A coordinator does not ask its members whether they have stopped or begun, nor how far they are:
  the actions by which it hears of that are not there (`UNASKED`), and what it knows once its group
  is stable is asked of the protocol itself (`SHOWN_BY_THE_PROTOCOL`).
- Partitions are heard of all at once, and who hands over does so to whoever is right.

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
"""Names of the properties that are asked of the protocol itself."""
UNASKED = ("dismiss", "stop", "acknowledge", "settle", "reopen", "answer", "accept")
"""By what a coordinator hears of what its members do."""
STORED_MEMBERS = specification(
    StoredMembers,
    *(p.python for p in CONTRACT.properties if p.name not in SHOWN_BY_THE_PROTOCOL),
).drop("StoredMembers", *UNASKED, "learn", "hand_over_late")
"""The strict form: every consumer is seen."""
STORED_MEMBERS_FENCED = STORED_MEMBERS.replace(
    "FencedStoredMembers", makes_way=nobody_is_waited_for, consumes_on=nobody_is_heard
).add("FencedStoredMembers", finish_unheard=finish_unheard)
"""The fenced form: only who consumes in the present generation is seen."""
