"""The drafts' mistakes, each a switch of the coordinator's core, off by default."""

from __future__ import annotations

FLAWS = frozenset(
    {
        "no_barrier",  # Starts right after the Stops, without waiting for their answers
        "lost_trigger",  # what changes while the flag is set is dropped
        "flag_stuck",  # after the retries are exhausted the flag stays set
        "no_start",  # 3.5 compares the stored owners only, not who has acknowledged its Start
        "stale_offsets",  # the offsets of a Start are read before the Stops are answered
        "deposed_goes_on",  # a deposed coordinator closes nothing, and goes on pinging
        "owners_written_late",  # owners are written after all StartResponses
        "partial_failover",  # a new coordinator does not wait for those who still fetch
        "no_lease",  # what a lost member had is given away at once
        "unfenced",  # writes do not check the epoch
    }
)
"""Known mistakes of `002`, which the checkers must catch; none of them is ever on in production."""


def check_flaws(flaws: frozenset[str]) -> frozenset[str]:
    """The flaws themselves; raises `ValueError` if one of them is not known."""
    unknown = flaws - FLAWS
    if unknown:
        raise ValueError(f"no such flaw: {', '.join(sorted(unknown))}")
    return flaws
