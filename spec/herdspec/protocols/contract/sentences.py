"""
The contract's sentences, as the table at the end of `verify` has them: one row each.

Every promise of the contract is in one of them. Which rows of its own report show a sentence is
each protocol's to say.
"""

from __future__ import annotations

from herdspec.check.sentences import Sentence

EXCLUSIVE = Sentence("1", "exclusive", ("exclusive", "who_consumes_owns"))
FENCED = Sentence(
    "1, 2", "fenced",
    ("exclusive_fenced", "what_is_said_is_of_the_present_generation", "stored_as_taken"),
)  # fmt: skip
HANDOVER = Sentence("2", "stored at the handover", ("what_was_taken_is_stored_at_the_handover",))
WRITES = Sentence("2", "the coordinator's writes", ("only_the_present_epoch_writes",))
MONOTONE = Sentence(
    "3", "monotone",
    (
        "epochs_never_go_back", "generations_never_go_back", "members_follow_no_older_epoch",
        "committed_offsets_never_go_back", "owners_change_with_the_generation",
    ),
)  # fmt: skip
NOTHING_SKIPPED = Sentence(
    "4", "nothing skipped", ("only_finished_is_committed", "nobody_is_past_the_unfinished")
)
BEGINS = Sentence(
    "4", "begins where it is stored",
    ("who_begins_does_so_at_the_stored_offset", "a_resolved_start_is_stored_first"),
)  # fmt: skip
COMPLETE = Sentence("5", "complete", ("complete",))
ONE_COORDINATOR = Sentence("6", "one coordinator", ("one_coordinator", "an_epoch_is_won_by_one"))
SETTLES = Sentence("7", "settles", ("settles",))

SENTENCES = (
    EXCLUSIVE, FENCED, HANDOVER, WRITES, MONOTONE, NOTHING_SKIPPED, BEGINS, COMPLETE,
    ONE_COORDINATOR, SETTLES,
)  # fmt: skip
"""In the order of the contract."""
