"""The benchmark of failover: what counts as time without a reader."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import failover_group
from benchmarks.failover_group import longest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("delivered", "seconds"),
    [
        ([], 10.0),
        ([1.0, 2.0, 9.0], 7.0),
        ([4.0], 6.0),
        ([-5.0, 0.5, 9.5, 12.0], 9.0),
    ],
)
def test_the_longest_time_between_deliveries_counts_from_the_moment_on(
    delivered: list[float], seconds: float
) -> None:
    """The beginning and the end of what is looked at are deliveries, too."""
    assert longest(delivered, 0.0, 10.0) == seconds


def test_it_says_what_it_measures() -> None:
    """Whoever asks is told, without anything being started."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "failover"), "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--quick" in done.stdout


def test_what_it_can_break_is_there() -> None:
    """Each name that may be given is that of a way to break the cluster."""
    refused = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "failover"), "--only", "nothing"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    names = re.findall(r"'(\w+)'", refused.stderr.partition("choose from")[2])
    assert {"clean_stop", "kill_9", "leader_paused", "zookeeper_silent", "zookeeper_down"} == set(
        names
    )
    assert all(callable(getattr(failover_group, name)) for name in names)
