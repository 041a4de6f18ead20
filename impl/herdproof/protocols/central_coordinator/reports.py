"""The vocabulary of `Report`: what a coordinator tells its operators, in logs and metrics."""

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
    """Topics are read, and the names of groups. Details: epoch, topics, groups, ms."""
    STEPPED_DOWN = "stepped_down"
    """Every channel was closed and all state cleared. Details: epoch, why."""
    CHANNEL_REFUSED = "channel_refused"
    """One connection too many. Details: channel."""
    PEER_AT_FAULT = "peer_at_fault"
    """A peer sent what the protocol forbids, and its channel was closed. Details: channel, why."""
    REGISTRATION_REFUSED = "registration_refused"
    """Details: consumer, error, why."""
    MEMBER_JOINED = "member_joined"
    """Details: consumer, member, members."""
    MEMBER_RESUMED = "member_resumed"
    """One whose connection was lost goes on as before. Details: consumer, member, members."""
    MEMBER_LOST = "member_lost"
    """Details: consumer, member, why, members, lease_ms (how long its lease may still run)."""
    LEASE_OVER = "lease_over"
    """A lost member's partitions may be given away. Details: consumer, member."""
    PING_RETRIED = "ping_retried"
    """Details: consumer, member, num_retries."""
    TOPICS_CHANGED = "topics_changed"
    """Details: topic, partitions (0: it is gone), groups (that may be affected)."""
    BAD_TOPIC = "bad_topic"
    """A topic's node cannot be understood and is left as it was. Details: topic."""
    REBALANCE_STARTED = "rebalance_started"
    """The Stops are sent. Details: why (a `Necessity`), members, waited_ms."""
    REBALANCE_UNNECESSARY = "rebalance_unnecessary"
    """Nothing has changed (3.5). Details: members, generation."""
    OWNERS_WRITTEN = "owners_written"
    """Details: generation, partitions, parts, ms (since the Stops)."""
    REBALANCE_DONE = "rebalance_done"
    """
    Every Start is acknowledged. Details: generation, members, partitions, ms (since the Stops),
    whole_ms (since it was asked for).
    """
    REBALANCE_WAITS = "rebalance_waits"
    """
    Partitions have no reader, and it cannot go on. Details: why, who (a registration, or a
    consumer), left_ms (of its lease), partitions.
    """
    UNREAD = "unread"
    """Some partitions had no reader for a time, for one cause. Details: why, ms."""
    READ_AGAIN = "read_again"
    """
    Every partition has a reader again. Details: ms, partitions, of (which), causes (how long
    each).
    """
    REBALANCE_FAILED = "rebalance_failed"
    """Details: why, failures (in a row), again_in_ms."""
    REBALANCE_EXHAUSTED = "ConsumerRebalanceFailedException"
    """More failures in a row than `max_rebalance_retries`; it goes on. Details: why, failures."""
    OFFSETS_STORED = "offsets_stored"
    """Details: offsets, ms (since they were handed to ZooKeeper)."""
    COMMIT_REFUSED = "commit_refused"
    """Details: consumer, error, generation."""
    ZOOKEEPER_TROUBLE = "zookeeper_trouble"
    """An operation got no answer, or one that was not expected. Details: task, why."""
    PARTITIONS_UNREAD = "partitions_unread"
    """Some are given to nobody, as no Start could say them all. Details: partitions, why."""
    GROUP_EMPTY = "group_empty"
    """Its last consumer is gone for good; the group is forgotten. Details: generation."""
    GROUP_EXPIRED = "group_expired"
    """Empty for `group_retention_ms`; what was stored of it is deleted. Details: generation."""


LEVELS: Mapping[str, int] = {
    What.PING_RETRIED: logging.DEBUG,
    What.OFFSETS_STORED: logging.DEBUG,
    What.UNREAD: logging.DEBUG,
    What.REBALANCE_UNNECESSARY: logging.DEBUG,
    What.STEPPED_DOWN: logging.WARNING,
    What.CHANNEL_REFUSED: logging.WARNING,
    What.PEER_AT_FAULT: logging.WARNING,
    What.REGISTRATION_REFUSED: logging.WARNING,
    What.BAD_TOPIC: logging.WARNING,
    What.REBALANCE_FAILED: logging.WARNING,
    What.COMMIT_REFUSED: logging.WARNING,
    What.ZOOKEEPER_TROUBLE: logging.WARNING,
    What.PARTITIONS_UNREAD: logging.ERROR,
    What.REBALANCE_EXHAUSTED: logging.ERROR,
}
"""Gravity of what the core reports; INFO where it is not said."""

SENTENCES: Mapping[str, str] = {
    What.COORDINATOR_STARTUP: "elected: it leads in epoch {epoch}, and reads what is stored",
    What.COORDINATOR_READY: "it coordinates, and finds {topics:topic} and {groups:group}",
    What.STEPPED_DOWN: "it leads no more: {why}",
    What.CHANNEL_REFUSED: "a connection was refused: there are too many",
    What.PEER_AT_FAULT: "a connection is closed, whose peer does what the protocol forbids: {why}",
    What.REGISTRATION_REFUSED: "consumer {consumer} was refused in group {group}: {why}",
    What.MEMBER_JOINED: "consumer {consumer} has joined group {group}, of {members:member} now",
    What.MEMBER_RESUMED: "consumer {consumer} of group {group} goes on over another connection, of"
    " {members:member} now",
    What.MEMBER_LOST: "consumer {consumer} has left group {group}: {why}",
    What.LEASE_OVER: "the lease of consumer {consumer} in group {group} is over",
    What.PING_RETRIED: "consumer {consumer} in group {group} has not answered a ping",
    What.TOPICS_CHANGED: "topic {topic} has {partitions:partition} now",
    What.BAD_TOPIC: "the node of topic {topic} cannot be understood: it stays as it was known",
    What.REBALANCE_STARTED: "group {group} is rebalanced: {why}",
    What.REBALANCE_UNNECESSARY: "group {group} need not be rebalanced",
    What.OWNERS_WRITTEN: "the owners of group {group} are written, of {partitions:partition}",
    What.REBALANCE_DONE: "group {group} is rebalanced, of {members:member}, {whole_ms} ms after"
    " that was asked for",
    What.REBALANCE_WAITS: "group {group} waits for {why}; without a reader: {partitions:partition}",
    What.UNREAD: "partitions of group {group} had no reader for {ms} ms: {why}",
    What.READ_AGAIN: "group {group} is read again: {partitions:partition} had no reader for {ms}"
    " ms ({causes}): {of}",
    What.REBALANCE_FAILED: "a rebalance of group {group} failed: {why}; again in {again_in_ms} ms",
    What.REBALANCE_EXHAUSTED: "group {group} cannot be rebalanced, {failures} times: {why}",
    What.OFFSETS_STORED: "stored: {offsets:offset} of group {group}",
    What.COMMIT_REFUSED: "a commit of consumer {consumer} in group {group} was refused: {error}",
    What.ZOOKEEPER_TROUBLE: "ZooKeeper did not answer ({task}): {why}",
    What.PARTITIONS_UNREAD: "of group {group} nobody has {partitions:partition}: {why}",
    What.GROUP_EMPTY: "group {group} has no members any more",
    What.GROUP_EXPIRED: "group {group} was empty for too long: what was stored of it is deleted",
}
"""Sentences of the log, with the details of a report."""

VOCABULARY = Vocabulary(SENTENCES, LEVELS)
