"""
Flaws of groups that somebody administers: each is the variant with one mistake.

What must come of each is declared, as in the protocol's `flaws.py`.

Source: apache/kafka, `ClassicGroup` (validateDeleteGroup, validateOffsetCommit), KIP-496.
"""

from __future__ import annotations

from functools import partial

from herdspec import action, command, require, weak
from herdspec.protocols.flaws import Failure
from herdspec.protocols.group_protocol.flaws import flaw_of_form
from herdspec.protocols.group_protocol.values import GroupWrite
from herdspec.protocols.group_protocol.variants.administered.properties import ADMINISTERED_HELD
from herdspec.protocols.group_protocol.variants.administered.spec import (
    AdministeredGroup,
    Partition,
)


def in_any_state(self: AdministeredGroup) -> bool:
    """Nobody asks whether the group has members."""
    return True


def is_nobodys(self: AdministeredGroup, p: Partition) -> bool:
    """Nobody asks who is subscribed."""
    return False


@action(fair=weak)
def store_without_members(self: AdministeredGroup) -> None:
    """Members and generation are stored no more; the offsets are."""
    self.stores(GroupWrite.DELETED_GROUP)
    self.bury()


@action(fair=weak)
def store_whoever_deletes(self: AdministeredGroup) -> None:
    """Nothing is stored of the group any more, whatever the epoch."""
    require(self.write == GroupWrite.DELETED_GROUP and not self.done)
    self.done = True
    self.bury()
    for p in Partition:
        self.committed[p] = 0


@action(kind=command, disturbs=True)
def delete_and_remember(self: AdministeredGroup, p: Partition) -> None:
    """The offset of {p} is to be deleted; in memory it stays."""
    self.attends()
    require(self.committed[p] > 0 and all(not self.is_new(q) for q in Partition))
    require(not self.is_subscribed(p))
    self.write = GroupWrite.DELETED_OFFSETS
    self.going[p] = True


CALM = ("lose", "session_time_out", "poll_time_out", "close", "kill", "appear", "doubt")
"""Actions that the flaws' stories do without."""

_flaw = partial(
    flaw_of_form, form="administered", spec=ADMINISTERED_HELD, faults=2, members=1, without=CALM
)

ADMINISTERED_FLAWS = {
    "deleted_with_members": _flaw(
        {
            "only_an_empty_group_is_deleted": Failure(14, "store_deleted_group"),
            "nobody_is_expelled_who_waits": Failure(16, "answer_deleted_group"),
            "offsets_go_back_only_for_nobody": Failure(18, "store_deleted_group"),
            "who_consumes_owns": Failure(20, "store_deleted_group"),
            "settles": Failure(16, "answer_deleted_group"),
        },
        "deleted_with_members",
        may_be_deleted=in_any_state,
    ),
    "commits_from_anywhere": _flaw(
        {
            "only_owners_commit_but_in_an_empty_group": Failure(10, "commit_from_outside"),
            "offsets_go_back_only_for_nobody": Failure(19, "store_offsets"),
        },
        "commits_from_anywhere",
        takes_from_outside=in_any_state,
    ),
    "deleted_while_subscribed": _flaw(
        {"offsets_go_back_only_for_nobody": Failure(18, "store_deleted_offsets")},
        "deleted_while_subscribed",
        is_subscribed=is_nobodys,
    ),
    "offsets_outlive_their_group": _flaw(
        {"nothing_is_left_of_a_deleted_group": Failure(8, "store_deleted_group")},
        "offsets_outlive_their_group",
        store_deleted_group=store_without_members,
    ),
    "deleted_unfenced": _flaw(
        {"what_is_stored_is_of_the_present_epoch": Failure(10, "store_deleted_group")},
        "deleted_unfenced",
        brokers=2,
        faults=3,
        store_deleted_group=store_whoever_deletes,
    ),
    "deleted_offsets_come_back": _flaw(
        {"what_is_deleted_stays_so": Failure(8, "store_deleted_offsets")},
        "deleted_offsets_come_back",
        delete_offsets=delete_and_remember,
    ),
}
"""Flaws that the verified protocol does not have where somebody administers groups."""
