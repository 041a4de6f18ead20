"""The names that what is promised had before, for those who know these; kept for one release."""

from __future__ import annotations

OLD_NAMES = {
    "EXCLUSIVE": ("exclusive",),
    "FENCED_COMMIT": (
        "exclusive_fenced", "what_is_said_is_of_the_present_generation", "stored_as_taken",
        "what_was_taken_is_stored_at_the_handover",
    ),
    "FENCED_WRITE": ("only_the_present_epoch_writes",),
    "FENCED_COMMAND": ("members_follow_no_older_epoch",),
    "COMMANDS_NOBODY": ("who_does_not_lead_commands_nobody",),
    "WRITTEN_FIRST": ("who_consumes_owns", "a_start_says_what_is_stored"),
    "MONOTONE": (
        "epochs_never_go_back", "generations_never_go_back", "committed_offsets_never_go_back",
        "owners_change_with_the_generation", "a_start_says_what_is_stored",
    ),
    "NOTHING_SKIPPED": (
        "who_begins_does_so_at_the_stored_offset", "nobody_is_past_the_unfinished",
    ),
    "ONLY_FINISHED": ("only_finished_is_committed",),
    "STORED_FIRST": ("a_resolved_start_is_stored_first",),
    "COMPLETE": ("complete", "shares_are_even"),
    "ONE_COORDINATOR": ("one_coordinator", "an_epoch_is_won_by_one"),
    "SETTLES": ("settles",),
}  # fmt: skip
"""
By the name that it had, the properties that say a sentence: the contract's, a protocol's own.

`shares_are_even` is the assignor's promise (`herdproof.consuming.assignment`), and no state's.
"""
