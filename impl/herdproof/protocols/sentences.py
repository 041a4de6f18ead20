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
