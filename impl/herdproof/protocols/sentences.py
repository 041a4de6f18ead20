"""What a group coordination protocol owes its users, by the names under which it is judged."""

from __future__ import annotations

from enum import Enum


class Sentence(Enum):
    """What is promised."""

    EXCLUSIVE = "At no time do two members of a group consume the same partition."
    FENCED_COMMIT = (
        "An offset commit is accepted only from the partition's owner in the current generation."
    )
    FENCED_WRITE = "A write is accepted only from the coordinator of the current epoch."
    FENCED_COMMAND = "A command is accepted only from the coordinator of the latest epoch seen."
    COMMANDS_NOBODY = "Who knows that it coordinates no more has closed every channel."
    WRITTEN_FIRST = "The fenced write of the owners precedes the Start that relies on it."
    MONOTONE = "Generations, epochs and committed offsets never go back."
    NOTHING_SKIPPED = "A new owner starts at or before the first offset not yet processed."
    ONLY_FINISHED = "An offset is committed only for what the application has finished with."
    STORED_FIRST = "A start that was resolved by reset is stored before the first delivery."
    COMPLETE = (
        "Every partition of a subscribed topic is assigned to exactly one live member once the "
        "group is stable; threads are balanced as the assignor promises."
    )
    ONE_COORDINATOR = "There is at most one coordinator per epoch."
    SETTLES = (
        "If members, topics and brokers stop changing, the group becomes stable and stays so; no "
        "change is forgotten."
    )


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
By a sentence's name here, the properties that say it: the contract's and the protocols' own.

`shares_are_even` is the assignor's promise (`herdproof.consuming.assignment`), and no state's.
"""
