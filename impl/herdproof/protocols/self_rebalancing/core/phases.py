"""The phases of a member's rebalance, and which may follow which: core, page and tests read it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class RebalancePhase(Enum):
    """The phase of a member: the step that is under way."""

    RESTING = "resting"
    """No attempt is under way; fetchers run, if it has partitions."""
    COMMITTING = "committing"
    """(1) Fetchers are closed; offsets are being submitted."""
    RELEASING = "releasing"
    """(2)"""
    TOPICS = "topics"
    """(3) The partitions of the subscribed topics are being read."""
    IDS = "ids"
    """(3) So is who is in the group."""
    CLAIMING = "claiming"
    """(4)"""
    OFFSETS = "offsets"
    """(4) Everything is claimed, and its offsets are being read."""
    BACKING_OFF = "backing off"
    """An attempt has failed."""


Transitions = Mapping[RebalancePhase, frozenset[RebalancePhase]]

NEXT: Transitions = {
    RebalancePhase.RESTING: frozenset({RebalancePhase.COMMITTING}),
    RebalancePhase.COMMITTING: frozenset(
        {RebalancePhase.RELEASING, RebalancePhase.COMMITTING, RebalancePhase.RESTING}
    ),
    RebalancePhase.RELEASING: frozenset(
        {RebalancePhase.TOPICS, RebalancePhase.COMMITTING, RebalancePhase.RESTING}
    ),
    RebalancePhase.TOPICS: frozenset(
        {RebalancePhase.IDS, RebalancePhase.COMMITTING, RebalancePhase.RESTING}
    ),
    RebalancePhase.IDS: frozenset(
        {
            RebalancePhase.CLAIMING,
            RebalancePhase.BACKING_OFF,
            RebalancePhase.COMMITTING,
            RebalancePhase.RESTING,
        }
    ),
    RebalancePhase.CLAIMING: frozenset(
        {
            RebalancePhase.OFFSETS,
            RebalancePhase.BACKING_OFF,
            RebalancePhase.COMMITTING,
            RebalancePhase.RESTING,
        }
    ),
    RebalancePhase.OFFSETS: frozenset(
        {RebalancePhase.RESTING, RebalancePhase.BACKING_OFF, RebalancePhase.COMMITTING}
    ),
    RebalancePhase.BACKING_OFF: frozenset({RebalancePhase.COMMITTING, RebalancePhase.RESTING}),
}
"""
The phases that may follow each.

A new session begins with the first step, whatever was under way; after a connection that was lost
for a while the attempt is given up, and another one begins from rest.
"""
