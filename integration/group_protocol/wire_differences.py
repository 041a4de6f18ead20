"""
Where our coordinator answers otherwise than Kafka's on purpose: the table that docs/broker.md has.

Whatever differs between the two, and is none of these, is a mistake. Each says by which Kafkas it
was seen, and whether what follows upon it can still be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import (
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

Told = dict[str, Any]
OLD, NEW = "3.9.1", "4.3.1"
SERVER_ERROR, UNKNOWN_MEMBER, REBALANCE_IN_PROGRESS, FENCED_INSTANCE = -1, 25, 27, 82
GROUP_MAX_SIZE, ILLEGAL_GENERATION = 81, 22


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What was not the same: the answers to one deed, or the groups after it."""

    request: Any
    ours: Told | None
    theirs: Told | None
    kafka: str
    """Which Kafka it is."""
    where: str = "answer"
    has_waited: bool = False
    """Ours did not answer at once."""
    is_repeated: bool = False
    """The same member has asked the same again since."""
    beside: tuple[int, ...] = ()
    """The errors of all that ours answered at the same time."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference that is meant: the situation, what Kafka answers, what ours does, and why."""

    name: str
    kafka: str
    ours: str
    why: str
    is_it: Callable[[Mismatch], bool]
    seen: tuple[str, ...] = (OLD, NEW)
    goes_apart: bool = False
    """What follows cannot be compared."""


def explanation(mismatch: Mismatch) -> Difference | None:
    """The known difference that this one is, if any."""
    return next(
        (each for each in DIFFERENCES if mismatch.kafka in each.seen and each.is_it(mismatch)), None
    )


def is_superseded(mismatch: Mismatch) -> bool:
    """A join or a sync that Kafka forgets, since the same member has asked again."""
    return (
        isinstance(mismatch.request, JoinGroupRequest | SyncGroupRequest)
        and mismatch.theirs is None
        and mismatch.is_repeated
        and errors(mismatch) == (REBALANCE_IN_PROGRESS, None)
    )


def is_sync_of_one_who_goes(mismatch: Mismatch) -> bool:
    """A sync that Kafka forgets with its member."""
    return (
        isinstance(mismatch.request, SyncGroupRequest)
        and mismatch.theirs is None
        and mismatch.has_waited
        and errors(mismatch) in ((UNKNOWN_MEMBER, None), (FENCED_INSTANCE, None))
    )


def is_static_by_a_dynamic_id(mismatch: Mismatch) -> bool:
    """Kafka fails at a static member that comes with an id that was given to a dynamic one."""
    return (
        isinstance(mismatch.request, JoinGroupRequest)
        and errors(mismatch) in ((UNKNOWN_MEMBER, SERVER_ERROR), (FENCED_INSTANCE, SERVER_ERROR))
    )  # fmt: skip


def are_assignments_told(mismatch: Mismatch) -> bool:
    """A group that is not stable, described with the assignments that its members have still."""
    ours, theirs = (
        json.loads(json.dumps(told), object_hook=without_assignment)
        for told in (mismatch.ours, mismatch.theirs)
    )
    return bool(ours == theirs)


def without_assignment(told: Told) -> Told:
    """A member of a group that is not stable, without what it is assigned."""
    if told.get("group_state") not in (None, "Stable"):
        for member in told.get("members", ()):
            member["member_assignment"] = ""
    return told


def is_waited_for_though_refused(mismatch: Mismatch) -> bool:
    """A full group refuses one of its members, all others have joined, and 4.3 goes on waiting."""
    return (
        isinstance(mismatch.request, JoinGroupRequest)
        and mismatch.has_waited
        and errors(mismatch) == (0, None)
        and GROUP_MAX_SIZE in mismatch.beside
    )


def is_a_commit_for_another(mismatch: Mismatch) -> bool:
    """A member commits for a partition that another one owns."""
    if not isinstance(mismatch.request, OffsetCommitRequest):
        return False
    found = [
        {
            part["error_code"]
            for topic in (told or {"topics": []})["topics"]
            for part in topic["partitions"]
        }
        for told in (mismatch.ours, mismatch.theirs)
    ]
    return found == [{ILLEGAL_GENERATION}, {0}]


def is_rebalanced_for_nobody(mismatch: Mismatch) -> bool:
    """Somebody leaves who has a member id, and has not joined with it."""
    return isinstance(mismatch.request, LeaveGroupRequest) and (
        is_of_group(mismatch, ("PreparingRebalance", "CompletingRebalance"))
        or is_of_group(mismatch, ("PreparingRebalance", "Stable"))
    )


def is_of_group(mismatch: Mismatch, states: tuple[str, str]) -> bool:
    """Whether the groups are in these states, ours and Kafka's."""
    if mismatch.where != "group" or not mismatch.ours or not mismatch.theirs:
        return False
    return (mismatch.ours["group_state"], mismatch.theirs["group_state"]) == states


def is_another_leader(mismatch: Mismatch) -> bool:
    """Another member leads."""
    return differs_in(mismatch, "leader", "members", "skip_assignment")


def differs_in(mismatch: Mismatch, *fields: str) -> bool:
    """Whether two answers to a join differ in the first of these fields, and in no others."""
    ours, theirs = mismatch.ours, mismatch.theirs
    if not isinstance(mismatch.request, JoinGroupRequest) or not ours or not theirs:
        return False
    differing = {name for name in ours if ours[name] != theirs.get(name)}
    return fields[0] in differing and differing <= set(fields)


def errors(mismatch: Mismatch) -> tuple[int | None, int | None]:
    """The errors of both answers."""
    ours, theirs = mismatch.ours or {}, mismatch.theirs or {}
    return ours.get("error_code"), theirs.get("error_code")


DIFFERENCES = (
    Difference(
        name="a member joins, or syncs, again while it waits",
        kafka="never answers the request before",
        ours="answers that one with REBALANCE_IN_PROGRESS",
        why="every request has an answer, and nothing is kept for one that has none",
        is_it=is_superseded,
    ),
    Difference(
        name="a member goes that waits for its assignment",
        kafka="never answers its SyncGroup",
        ours="answers UNKNOWN_MEMBER_ID",
        why="every request has an answer, and nothing is kept for one that has none",
        is_it=is_sync_of_one_who_goes,
    ),
    Difference(
        name="a static member joins by an id that was given to a dynamic one",
        kafka="UNKNOWN_SERVER_ERROR: an exception inside",
        ours="UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another one has its instance id",
        why="the client knows what to do about it",
        is_it=is_static_by_a_dynamic_id,
    ),
    Difference(
        name="a group that is not stable is described",
        kafka="3.9 leaves out what its members are assigned",
        ours="tells it, as 4.3 does",
        why="they have it still",
        is_it=are_assignments_told,
        seen=(OLD,),
    ),
    Difference(
        name="somebody leaves who was given a member id, and has not joined with it",
        kafka="4.3 has all members join anew, 3.9 does not",
        ours="has all members join anew, as 4.3 does",
        why="what newer Kafkas do is what newer clients are tried against",
        is_it=is_rebalanced_for_nobody,
        seen=(OLD,),
        goes_apart=True,
    ),
    Difference(
        name="a group that is too large refuses one of its members, and all others have joined",
        kafka="4.3 goes on waiting for the one that it refused, 3.9 does not",
        ours="the next generation begins at once, as by 3.9",
        why="whoever waits would wait for nobody, up to the rebalance timeout",
        is_it=is_waited_for_though_refused,
        seen=(NEW,),
        goes_apart=True,
    ),
    Difference(
        name="a member commits for a partition that another one owns",
        kafka="stores it: only member and generation are looked at",
        ours='ILLEGAL_GENERATION (with `commits = "as_kafka"`, as Kafka)',
        why="nobody overwrites the offset of a partition that was another's all the time",
        is_it=is_a_commit_for_another,
    ),
    Difference(
        name="the leader has gone, and several members could lead",
        kafka="any of them",
        ours="the one that has been there longest",
        why="the same run tells the same story",
        is_it=is_another_leader,
        goes_apart=True,
    ),
)


def table() -> str:
    """The table of docs/broker.md."""
    lines = ["| situation | Kafka | here | why |", "|---|---|---|---|"]
    lines += [f"| {each.name} | {each.kafka} | {each.ours} | {each.why} |" for each in DIFFERENCES]
    return "\n".join(lines)
