"""The vocabulary of `Report`: what a self-rebalancing consumer tells its operators."""

from __future__ import annotations

from enum import StrEnum


class What(StrEnum):
    """The name of a report; each has the detail `why`, a sentence."""

    REGISTERED = "registered"
    """The node below `ids` stands."""
    NOT_REGISTERED = "not_registered"
    """It cannot be created at present; it is tried again."""
    LEASE_OVER = "lease_over"
    """ZooKeeper was silent for too long: nothing is delivered until it is heard again."""
    SESSION_LOST = "session_lost"
    """The session is over, and the partitions may be others' already."""
    ATTEMPT_FAILED = "attempt_failed"
    """A rebalance failed; there is another attempt after the back-off."""
    REBALANCE_FAILED = "ConsumerRebalanceFailedException"
    """As many attempts in a row failed as there are retries; there are more."""
    COMMIT_REFUSED = "commit_refused"
    """An offset was not stored, since the partition is another's, or its offset was changed."""
    BAD_OFFSET = "bad_offset"
    """A stored offset cannot be read: the partition is not consumed until it is mended."""
    BAD_REGISTRATION = "bad_registration"
    """A member's registration cannot be read: nobody can plan, and nothing is consumed here."""
    BAD_TOPIC = "bad_topic"
    """A topic's node cannot be read: nothing is consumed here until it is mended."""
