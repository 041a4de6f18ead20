"""The contract's sentences, and what shows each of the group protocol."""

from __future__ import annotations

from herdspec.check.sentences import Column, Sentence, ShownBy, shown
from herdspec.protocols.contract import sentences as owed

SAID_BY = {
    owed.EXCLUSIVE: ("exclusive", "who_consumes_owns"),
    owed.FENCED: ("exclusive_fenced",),
    owed.HANDOVER: ("what_was_taken_is_stored_at_the_handover",),
    owed.WRITES: ("only_the_present_epoch_writes", "what_is_stored_is_of_the_present_epoch"),
    owed.MONOTONE: (
        "generations_never_go_back", "what_is_handed_out_is_stored", "one_leader",
        "epochs_never_go_back", "committed_offsets_never_go_back",
    ),
    owed.NOTHING_SKIPPED: ("only_finished_is_committed", "nobody_is_past_the_unfinished"),
    owed.BEGINS: ("a_start_is_at_the_stored_offset",),
    owed.COMPLETE: ("complete",),
    owed.ONE_COORDINATOR: ("one_coordinator",),
    owed.SETTLES: ("settles",),
}  # fmt: skip
"""Which of its own properties say a sentence."""
ASSUMED = "evicted_has_stopped"
UNDER_IT = (owed.EXCLUSIVE, owed.SETTLES)
"""Sentences that are shown under the assumption alone."""


def shown_of_verified(sentence: Sentence) -> ShownBy:
    """The rows that show a sentence of the verified protocol; without the assumption if they do."""
    names, broken = SAID_BY[sentence], "evicted_goes_on"
    if sentence not in UNDER_IT:
        return shown("without_stopping", *names)
    without = [(broken, name) for name in names] if sentence is owed.EXCLUSIVE else []
    return shown("verified", *names, assuming=ASSUMED, without=without)


COLUMNS = (
    Column("C drafted", {s: shown("drafted", *SAID_BY[s]) for s in owed.SENTENCES}),
    Column("C verified", {s: shown_of_verified(s) for s in owed.SENTENCES}),
)
