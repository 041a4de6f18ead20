"""
Flaws of fetch positions: each is a client with one mistake.

`late_offsets_used` was our own client's, of cooperative members, before it was done; the start that
is not stored is Kafka's client's, and so is a commit of what was only handed out, where records are
handled by somebody else than who polls. What must come of each is declared, as in the protocol's
`flaws.py`.

Source: apache/kafka, `ConsumerCoordinator`, `SubscriptionState`; KIP-447 (UNSTABLE_OFFSET_COMMIT).
"""

from __future__ import annotations

from functools import partial

from herdspec import Nat, require
from herdspec.protocols.flaws import Failure
from herdspec.protocols.group_protocol.flaws import flaw_of_form
from herdspec.protocols.group_protocol.values import MemberState
from herdspec.protocols.group_protocol.variants.positions.properties import POSITIONS_HELD
from herdspec.protocols.group_protocol.variants.positions.spec import (
    Member,
    OffsetFetch,
    OffsetReset,
    Partition,
    PositionedGroup,
)

# ── The mistakes ────────────────────────────────────────────────────────────────────────────


def wait_on(self: PositionedGroup, m: Member) -> None:
    """Whoever joins again goes on to wait for the offsets that it has asked for."""


def take_any_offsets(self: PositionedGroup, m: Member) -> bool:
    """A client that has not begun takes whatever offsets come."""
    return self.fetches_at[m] > 0 and self.client[m] == MemberState.STABLE and not self.ready[m]


def begin_at_once(self: PositionedGroup, m: Member, p: Partition) -> None:
    """{m} has no offset of {p}, or one that is out of range, and hands out what the reset finds."""
    require(self.ready[m] and self.given[m, p] and self.reset != OffsetReset.NONE)
    require(self.position[m, p] < self.log_start[p])
    if self.position[m, p] > 0 and self.finished[p] > 0:
        self.finished[p] = max(self.finished[p], self.resets_to(p))
    self.position[m, p] = self.resets_to(p)
    self.finished[p] = self.begun(p, self.resets_to(p))


def take_an_error_for_nothing(self: PositionedGroup, m: Member) -> None:
    """{m} is told that its offsets cannot be said yet, and takes that for none that are stored."""
    require(self.fetch[m] == OffsetFetch.ASKED)
    self.fetch[m] = OffsetFetch.TOLD


def what_was_handed_out(self: PositionedGroup, m: Member, p: Partition) -> Nat:
    """An OffsetCommit is of all that was handed out, also of what the application is at."""
    is_at_work = self.consumes(m, p) and self.position[m, p] < self.log_end[p]
    return (self.position[m, p] + (1 if is_at_work else 0)) if self.given[m, p] else 0


# ── What comes of them ──────────────────────────────────────────────────────────────────────


CALM = ("lose_session", "doubt", "lose", "expire", "session_time_out", "poll_time_out", "close")
"""Actions that the flaws' stories do without."""

_flaw = partial(
    flaw_of_form, form="positions", spec=POSITIONS_HELD, faults=1, members=1, without=CALM
)

POSITIONS_FLAWS = {
    "late_offsets_used": _flaw(
        {
            "a_position_is_of_the_present_assignment": Failure(31, "update_fetch_positions"),
            "users_are_told_of_what_is_missing": Failure(31, "update_fetch_positions"),
            "a_start_is_at_the_stored_offset": Failure(63, "update_fetch_positions"),
            "none_invents_no_offset": Failure(63, "update_fetch_positions"),
            "only_what_is_not_stored_is_reset": Failure(53, "resolve_start"),
            "nothing_is_skipped": Failure(60, "deliver"),
            "only_finished_is_committed": Failure(59, "store_offsets"),
            "committed_offsets_never_go_back": Failure(64, "store_offsets"),
        },
        "late_offsets_used",
        members=2,
        stop_fetching=wait_on,
        heeds_offsets=take_any_offsets,
    ),
    "start_unstored": _flaw(
        {
            "a_start_is_stored_before_it_is_handed_out": Failure(21, "resolve_start"),
            "a_start_is_at_the_stored_offset": Failure(21, "resolve_start"),
            "nothing_is_skipped": Failure(46, "resolve_start"),
            "only_finished_is_committed": Failure(50, "store_offsets"),
        },
        "start_unstored",
        faults=2,
        without=(*CALM, "notice_lost"),
        resolve_start=begin_at_once,
    ),
    "error_taken_for_nothing": _flaw(
        {
            "users_are_told_of_what_is_missing": Failure(20, "update_fetch_positions"),
            "only_what_is_not_stored_is_reset": Failure(41, "resolve_start"),
            "nothing_is_skipped": Failure(47, "deliver"),
            "only_finished_is_committed": Failure(46, "store_offsets"),
            "committed_offsets_never_go_back": Failure(51, "store_offsets"),
        },
        "error_taken_for_nothing",
        faults=2,
        lose_offset_fetch=take_an_error_for_nothing,
    ),
    "commits_what_is_at_work": _flaw(
        {
            "only_finished_is_committed": Failure(24, "store_offsets"),
            "what_is_finished_is_committed_before_it_is_given_up": Failure(
                24, "initiate_join_group"
            ),
            "nothing_is_skipped": Failure(38, "update_fetch_positions"),
        },
        "commits_what_is_at_work",
        without=(*CALM, "commit"),
        committable=what_was_handed_out,
    ),
}
"""Flaws that fetch positions take care of."""
