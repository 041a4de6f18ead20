"""The vocabulary of `Report`: what a group coordinator tells its operators, in logs and metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

from herdproof.shells.reports import Vocabulary


class What(StrEnum):
    """The name of a report; each says which details it has (times in milliseconds)."""

    __hash__ = str.__hash__  # an enumeration's own is Python, and each report is counted

    COORDINATOR_STARTUP = "coordinator_startup"
    """Elected. Details: epoch."""
    COORDINATOR_READY = "coordinator_ready"
    """All groups are read. Details: epoch, groups, members, ms."""
    TOO_MANY_GROUPS = "too_many_groups"
    """More groups are stored than may be begun. Details: groups, max_groups."""
    STEPPED_DOWN = "stepped_down"
    """All state was cleared. Details: epoch, waited (requests that were told to ask another)."""
    STORE_FENCED = "store_fenced"
    """A change was refused, since another coordinator was elected. Details: epoch."""
    STORE_DOUBTFUL = "store_doubtful"
    """Nobody can tell whether a change was stored. Details: epoch."""
    STORE_NOT_READ = "store_not_read"
    """The groups could not be read. Details: epoch."""
    NOT_STORED = "not_stored"
    """A change of a group cannot be stored, and was not. Details: change."""
    MEMBER_JOINED = "member_joined"
    """Details: member, client, host, members."""
    MEMBER_REPLACED = "member_replaced"
    """A static member goes on under a new member id. Details: instance, member, former."""
    MEMBER_LEFT = "member_left"
    """Details: member, members."""
    MEMBER_EXPIRED = "member_expired"
    """Details: member, why, members."""
    MEMBER_FENCED = "member_fenced"
    """Somebody came with the member id that a static member once had. Details: member, request."""
    JOIN_REFUSED = "join_refused"
    """Details: member, client, host, error."""
    REQUEST_REFUSED = "request_refused"
    """Somebody is no member, or behind: it is to join anew. Details: request, member, error."""
    COMMIT_REFUSED = "commit_refused"
    """Details: member, error, generation, partitions."""
    REBALANCE_STARTED = "rebalance_started"
    """All members are to join anew. Details: why, members."""
    GENERATION_BEGUN = "generation_begun"
    """
    It is stored, and all who joined are told. Details: generation, members, protocol, leader, ms
    (since the rebalance was begun).
    """
    GENERATION_ASSIGNED = "generation_assigned"
    """
    The leader's assignments are stored, and told. Details: generation, members, ms (since the
    rebalance was begun).
    """
    GROUP_EMPTY = "group_empty"
    """Its last member is gone; its offsets remain. Details: generation."""
    GROUP_DELETED = "group_deleted"
    """Somebody asked for that. Details: offsets."""
    GROUP_EXPIRED = "group_expired"
    """Nobody used it, and its offsets were kept long enough. Details: offsets."""
    OFFSETS_EXPIRED = "offsets_expired"
    """Details: offsets (how many)."""
    OFFSETS_DELETED = "offsets_deleted"
    """Somebody asked for that. Details: offsets (how many)."""


LEVELS: Mapping[str, int] = {
    What.TOO_MANY_GROUPS: logging.WARNING,
    What.STEPPED_DOWN: logging.WARNING,
    What.STORE_FENCED: logging.WARNING,
    What.STORE_DOUBTFUL: logging.WARNING,
    What.STORE_NOT_READ: logging.WARNING,
    What.NOT_STORED: logging.WARNING,
    What.MEMBER_FENCED: logging.WARNING,
    What.JOIN_REFUSED: logging.WARNING,
    What.COMMIT_REFUSED: logging.WARNING,
}
"""Gravity of what the core reports; INFO where it is not said."""

SENTENCES: Mapping[str, str] = {
    What.COORDINATOR_STARTUP: "elected: it leads in epoch {epoch}, and reads what is stored",
    What.COORDINATOR_READY: "it coordinates, and has read {groups:group} of {members:member} in"
    " {ms} ms",
    What.TOO_MANY_GROUPS: "it finds {groups:group} stored, and max_groups is {max_groups}: all are"
    " coordinated, and no other is begun until there are fewer",
    What.STEPPED_DOWN: "it leads no more in epoch {epoch}: {waited} requests that waited are to ask"
    " another",
    What.STORE_FENCED: "nothing is stored for epoch {epoch} any more: another broker was elected",
    What.STORE_DOUBTFUL: "nobody can tell whether a change was stored in epoch {epoch}: it steps"
    " down, and what is stored is read anew",
    What.STORE_NOT_READ: "the groups could not be read in epoch {epoch}: it steps down",
    What.NOT_STORED: "{change} of group {group} cannot be stored: it is undone",
    What.MEMBER_JOINED: "{member} ({host}) has joined group {group}, of {members:member} now",
    What.MEMBER_REPLACED: "{instance} of group {group} has come back as {member}: who comes as"
    " {former} is fenced",
    What.MEMBER_LEFT: "{member} has left group {group}, of {members:member} now",
    What.MEMBER_EXPIRED: "{member} is no member of group {group} any more: {why}",
    What.MEMBER_FENCED: "{member} of group {group} is fenced ({request}): another one has its"
    " instance id",
    What.JOIN_REFUSED: "a join of {client} ({host}) to group {group} was refused: {error}",
    What.REQUEST_REFUSED: "{request} of {member} in group {group} was refused: {error}",
    What.COMMIT_REFUSED: "a commit of {member} in group {group} was refused, for"
    " {partitions:partition}: {error}",
    What.REBALANCE_STARTED: "group {group} is rebalanced, of {members:member}: {why}",
    What.GENERATION_BEGUN: "generation {generation} of group {group} has begun, of"
    " {members:member}, {ms} ms after they were to join",
    What.GENERATION_ASSIGNED: "generation {generation} of group {group} has its assignments, of"
    " {members:member}, {ms} ms after they were to join",
    What.GROUP_EMPTY: "group {group} has no members any more",
    What.GROUP_DELETED: "group {group} is deleted, with {offsets:offset}",
    What.GROUP_EXPIRED: "group {group} was not used for too long: it is deleted, with"
    " {offsets:offset}",
    What.OFFSETS_EXPIRED: "deleted, since not used for too long: {offsets:offset} of group {group}",
    What.OFFSETS_DELETED: "deleted: {offsets:offset} of group {group}",
}
"""Sentences of the log, with the details of a report."""

VOCABULARY = Vocabulary(SENTENCES, LEVELS)
