"""The benchmark beside Stateright: its counts, its specs, and what it says where it cannot run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.specs import GROUP
from herdspec.check.exploration.explore import explore

ROOT = Path(__file__).parents[3]


def test_a_measured_run_has_the_published_count() -> None:
    """Two-phase commit with five managers has 8,832 states, and its figures have a meaning."""
    figures = measure.measured("two_phase_commit", [5], symmetry=False)

    assert (figures["states"], figures["generated"]) == (8_832, 58_145)
    assert figures["seconds"] > 0


def test_a_measured_run_with_another_count_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the states are not as many as they are known to be, nothing is measured."""
    monkeypatch.setitem(measure.STATES, ("two_phase_commit", 3), 287)

    with pytest.raises(RuntimeError, match=r"288 states instead of 287"):
        measure.measured("two_phase_commit", [3], symmetry=False)


def test_the_group_of_the_benchmark_is_two_words_long_and_keeps_its_promises() -> None:
    """The benchmark's group moves, keeps its promises, and does not fit into one word."""
    found = explore(GROUP, {"Member": 2, "Partition": 2}, faults=1, bound=2, symmetry=False)

    assert found.complete
    assert not found.violations
    assert not found.missing
    assert all(found.taken.values())


def test_the_benchmark_says_what_it_does() -> None:
    """`benchmarks/explore --help` runs, and names its options."""
    command = [sys.executable, str(ROOT / "benchmarks" / "explore"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, shlex.join(command)
    assert all(option in done.stdout for option in ("--quick", "--json", "--plot", "--build"))


def test_without_cargo_the_benchmark_says_what_is_missing(tmp_path: Path) -> None:
    """Where the peer cannot be built, the benchmark ends with a sentence that says why."""
    command = [sys.executable, str(ROOT / "benchmarks" / "explore"), "--build"]
    nowhere = {**os.environ, "PATH": str(tmp_path)}

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=nowhere)

    assert done.returncode == 1
    assert done.stderr.startswith("benchmarks/explore: cargo is missing")
