"""The contract's sentences, and what shows each of the central coordinator."""

from __future__ import annotations

from herdspec.check.sentences import Column, Discharge, Sentence, ShownBy, shown
from herdspec.protocols.contract import sentences as owed

SAID_BY = {
    owed.EXCLUSIVE: ("exclusive",),
    owed.FENCED: ("exclusive_fenced",),
    owed.HANDOVER: (),
    owed.WRITES: ("only_the_present_epoch_writes", "what_is_stored_is_of_the_present_epoch"),
    owed.MONOTONE: (
        "epochs_never_go_back", "generations_never_go_back", "members_follow_no_older_epoch",
        "committed_offsets_never_go_back",
    ),
    owed.NOTHING_SKIPPED: ("only_finished_is_committed", "nobody_is_past_the_unfinished"),
    owed.BEGINS: ("a_start_is_at_the_stored_offset",),
    owed.COMPLETE: ("complete",),
    owed.ONE_COORDINATOR: ("one_coordinator",),
    owed.SETTLES: ("settles",),
}  # fmt: skip
"""Which of its own properties say a sentence; of the handover the contract alone does."""
ASSUMED = "lease"
UNDER_IT = (owed.EXCLUSIVE, owed.HANDOVER, owed.BEGINS, owed.SETTLES)
"""Sentences that are shown under the assumption alone."""


def shown_of_verified(sentence: Sentence) -> ShownBy:
    """The rows that show a sentence of the verified coordinator; without `lease` where they can."""
    if sentence not in UNDER_IT:
        return shown("without_lease", *SAID_BY[sentence])
    if sentence is owed.HANDOVER:
        proved = [("contract", name) for name in sentence.properties]
        return ShownBy((*proved, ("verified", "refines GroupContract")), ASSUMED)
    names, broken = SAID_BY[sentence], "no_lease"
    without = [(broken, name) for name in names] if sentence is owed.EXCLUSIVE else []
    return shown("verified", *names, assuming=ASSUMED, without=without)


COLUMNS = (
    Column("B drafted", {s: shown("drafted", *SAID_BY[s]) for s in owed.SENTENCES}),
    Column("B verified", {s: shown_of_verified(s) for s in owed.SENTENCES}),
)
DISCHARGES = (
    Discharge(
        ASSUMED,
        ("timed", "whose_lease_is_over_has_stopped"),
        "clocks drift by less than the bound and are never set; a coordinator waits from the last"
        " request that it sent, or from its election; who is over its lease by its own clock"
        " delivers nothing and takes no request",
    ),
)
"""Discharges of the assumption: the rows that it follows from, and what is assumed instead."""
