"""The contract's sentences, and what shows each of the group protocol."""

from __future__ import annotations

from herdspec.check.sentences import Column, Sentence, ShownBy, shown
from herdspec.protocols.contract.sentences import (
    BEGINS,
    COMPLETE,
    EXCLUSIVE,
    FENCED,
    HANDOVER,
    MONOTONE,
    NOTHING_SKIPPED,
    ONE_COORDINATOR,
    SENTENCES,
    SETTLES,
    WRITES,
)

SAID_BY = {
    EXCLUSIVE: ("exclusive", "who_consumes_owns"),
    FENCED: ("exclusive_fenced",),
    HANDOVER: ("what_was_taken_is_stored_at_the_handover",),
    WRITES: ("only_the_present_epoch_writes", "what_is_stored_is_of_the_present_epoch"),
    MONOTONE: (
        "generations_never_go_back", "what_is_handed_out_is_stored", "one_leader",
        "epochs_never_go_back", "committed_offsets_never_go_back",
    ),
    NOTHING_SKIPPED: ("only_finished_is_committed", "nobody_is_past_the_unfinished"),
    BEGINS: ("a_start_is_at_the_stored_offset",),
    COMPLETE: ("complete",),
    ONE_COORDINATOR: ("one_coordinator",),
    SETTLES: ("settles",),
}  # fmt: skip
"""Which of its own properties say a sentence."""
ASSUMED = "evicted_has_stopped"
UNDER_IT = (EXCLUSIVE, SETTLES)
"""Sentences that are shown under the assumption alone."""


def shown_of_verified(sentence: Sentence) -> ShownBy:
    """The rows that show a sentence of the verified protocol; without the assumption if they do."""
    names, broken = SAID_BY[sentence], "evicted_goes_on"
    if sentence not in UNDER_IT:
        return shown("without_stopping", *names)
    without = [(broken, name) for name in names] if sentence is EXCLUSIVE else []
    return shown("verified", *names, assuming=ASSUMED, without=without)


COLUMNS = (
    Column("C drafted", {s: shown("drafted", *SAID_BY[s]) for s in SENTENCES}),
    Column("C verified", {s: shown_of_verified(s) for s in SENTENCES}),
)
