"""Figures that are measured of a group, by name, with their units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Figure(NamedTuple):
    """A figure: its unit, whether it is of each occurrence, what it says."""

    unit: str
    each: bool
    says: str


FIGURES: Mapping[str, Figure] = {
    "rebalance_latency_s": Figure(
        "s", True, "from a rebalance's beginning until every member had started"
    ),
    "partition_downtime_s": Figure(
        "s", True, "for how long nobody had a partition between two who had it"
    ),
    "zombie_s": Figure(
        "s", True, "for how long a member could deliver after it was counted as gone"
    ),
    "redelivered": Figure(
        "records", True, "what a consumer begins with though it was finished, as far as is told"
    ),
    "commit_regression": Figure(
        "records", True, "by how much a commit, or what was stored, lay behind what is stored"
    ),
    "rebalances": Figure("count", False, "how many rebalances began"),
    "rebalances_failed": Figure("count", False, "how many of them failed"),
    "members_joined": Figure("count", False, "how many members were accepted"),
    "members_left": Figure("count", False, "how many were counted as gone"),
    "churn": Figure("1/min", False, "members that came or went, per minute"),
    "zombies": Figure("count", False, "consumers that could deliver after they were counted out"),
    "commits_refused": Figure("count", False, "how many offsets of commits were refused"),
    "commit_regressions": Figure("count", False, "how often a commit lay behind what is stored"),
    "redelivered_total": Figure(
        "records",
        False,
        "the sum of `redelivered`: so many at least; null for none, since nobody tells what was"
        " delivered after the last offset that was told",
    ),
    "partition_downtime_total_s": Figure("s", False, "the sum of `partition_downtime_s`"),
}
"""By name."""
