"""The benchmark of failover: what counts as time without a reader."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import failover_group, failover_kafka
from benchmarks.failover_group import longest

ROOT = Path(__file__).parents[3]


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

    names = set(re.findall(r"'(\w+)'", refused.stderr.partition("choose from")[2]))
    kafkas = {name for name in names if name.startswith("kafka_")}
    ours = {"clean_stop", "kill_9", "leader_paused", "zookeeper_silent", "zookeeper_down"}
    assert names - kafkas == ours
    assert all(callable(getattr(failover_group, name)) for name in ours)
    assert kafkas == {
        f"kafka_{times}{way}" for times in ("", "equal_") for way in ("clean_stop", "kill_9")
    }


@pytest.mark.parametrize("coordinator", failover_kafka.BROKERS)
def test_what_is_the_coordinators_doing_is_apart_from_what_a_broker_holds(coordinator: int) -> None:
    """Four partitions know nothing of the broker that ends; it leads one, and follows in one."""
    placed = failover_kafka.placing(coordinator)

    assert len(placed) == failover_group.PARTITIONS
    assert all(coordinator not in placed[partition] for partition in failover_kafka.APART)
    assert {placed[partition][0] for partition in failover_kafka.APART} == {
        broker for broker in failover_kafka.BROKERS if broker != coordinator
    }
    assert placed[failover_kafka.LED][0] == coordinator
    assert placed[failover_kafka.FOLLOWED].index(coordinator) == 1


def test_equal_time_outs_are_those_of_our_side() -> None:
    """Whatever they are by default, and those of `--quick`."""
    assert failover_kafka.ours(None) == failover_kafka.Times(6_000, 10_000, 2_000)
    assert failover_kafka.ours(2_000) == failover_kafka.Times(2_000, 2_000, 600)
