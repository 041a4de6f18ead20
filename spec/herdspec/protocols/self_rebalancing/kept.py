"""The contract's sentences, and what shows each of the self-rebalancing consumers."""

from __future__ import annotations

from herdspec.check.sentences import NO_MEANING, Column, Discharge, Sentence, ShownBy, shown
from herdspec.protocols.contract import sentences as owed

SAID_BY = {
    owed.EXCLUSIVE: ("exclusive", "who_fetches_owns"),
    owed.FENCED: ("exclusive_fenced", "who_owns_is_not_deleted_by_others"),
    owed.HANDOVER: ("what_is_finished_is_stored_at_a_release",),
    owed.MONOTONE: ("committed_offsets_never_go_back", "versions_never_go_back"),
    owed.NOTHING_SKIPPED: ("only_finished_is_committed", "nobody_is_past_the_unfinished"),
    owed.BEGINS: ("a_start_is_at_the_stored_offset",),
    owed.COMPLETE: ("complete",),
    owed.SETTLES: ("settles",),
}
"""Which of its own properties say a sentence; the others are a coordinator's."""
ASSUMED = "session_lease"
UNDER_IT = (owed.EXCLUSIVE, owed.COMPLETE, owed.SETTLES)
"""Sentences that are shown under the assumption alone."""


def shown_of(subject: str, sentence: Sentence) -> ShownBy:
    """The rows that show a sentence of one subject of the report."""
    if sentence in (owed.WRITES, owed.ONE_COORDINATOR):
        return NO_MEANING
    return shown(subject, *SAID_BY[sentence])


def shown_of_corrected(sentence: Sentence) -> ShownBy:
    """The rows that show a sentence of the corrected consumers; without lease where they can."""
    if sentence not in UNDER_IT:
        return shown_of("without_lease", sentence)
    names, broken = SAID_BY[sentence], "split_brain"
    without = [(broken, name) for name in names] if sentence is owed.EXCLUSIVE else []
    return shown("verified", *names, assuming=ASSUMED, without=without)


COLUMNS = (
    Column("A drafted", {s: shown_of("drafted", s) for s in owed.SENTENCES}),
    Column("A corrected", {s: shown_of_corrected(s) for s in owed.SENTENCES}),
)
DISCHARGES = (
    Discharge(
        ASSUMED,
        ("timed", "refines UnderSessionLease"),
        "clocks drift by less than the bound and are never set; what ZooKeeper counts of a sync"
        " that it answers begins at most a bounded time before the sync was sent; who is over its"
        " lease by its own clock delivers nothing",
    ),
)
"""Discharges of the assumption: the rows that it follows from, and what is assumed instead."""
