"""
Exploring on a real Spark: the local explorer's answers, whatever dies on the way.

The search itself is tested without Spark (`properties/pipeline/test_pipeline_explore.py`); here it
is what Spark adds: workers that compile, files between them, lost tasks and a lost driver.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import STATES
from benchmarks.specs import GENERATIONS, GROUP
from herdproof.cli.specs import find, known
from herdproof.pipeline.exploration.explore import SparkExplorer, explore_on, on_spark
from herdspec.check.exploration.bounds import first_bound
from herdspec.check.exploration.explore import explore
from herdspec.check.protocol import names, protocol
from properties.check.exploration.test_published import ROWS, Published, name_of
from properties.pipeline.test_pipeline_explore import assert_same
from properties.specs import TWO_PHASE_COMMIT

ROOT = Path(__file__).parents[2]
SHIPPED = [*known(), *(f"{of}/{flaw}" for of in names() for flaw in protocol(of).flaws())]
SMALL_ROWS = [row for row in ROWS if row.distinct < 10_000 and row.starts < 64]


# ── The same answers ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_spec_is_explored_alike(spark: Any, name: str) -> None:
    """Each known spec and each flawed one, at its smallest size: the same in every respect."""
    spec = find(name).spec
    sizes, bound = dict.fromkeys(spec.sorts, 1), first_bound(spec, 1)

    ours = explore_on(spark, spec, sizes, faults=1)

    assert_same(ours, explore(spec, sizes, faults=1, bound=bound))


@pytest.mark.parametrize("row", SMALL_ROWS, ids=name_of)
def test_published_specs_are_explored_alike(spark: Any, row: Published) -> None:
    """Specs of others, too, by compiled code: with several starts, and with failures."""
    options: dict[str, Any] = {"faults": 0, "bound": row.bound, "symmetry": False}

    ours = explore_on(spark, row.spec, row.sizes, engine="native", **options)

    assert ours.states == row.distinct
    assert_same(ours, explore(row.spec, row.sizes, **options))


def test_a_failure_is_told_at_the_size_that_it_is_declared_for(spark: Any) -> None:
    """The drafted election at two brokers: the declared failures, symmetry included."""
    subject = find("election-drafted")
    sizes = {"Broker": 2}

    ours = explore_on(spark, subject.spec, sizes, faults=1)

    assert ours.symmetric
    assert set(ours.violations) & set(subject.declared)
    assert_same(ours, explore(subject.spec, sizes, faults=1, bound=first_bound(subject.spec, 1)))


class Collected:
    """Runs tasks on Spark, and weighs what comes back to the driver."""

    def __init__(self, spark: Any) -> None:
        self._run = on_spark(spark)
        self.bytes: list[int] = []
        self.tasks = 0

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Run them."""
        found = self._run(function, tasks)
        self.tasks = max(self.tasks, len(tasks))
        self.bytes.append(len(pickle.dumps(found)))
        return found


def test_nothing_but_counts_comes_back_to_the_driver(spark: Any, tmp_path: Path) -> None:
    """While 296,448 states go from worker to worker, the driver hears some kilobytes a level."""
    run = Collected(spark)
    explorer = SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 7}, 0, symmetry=False)
    explorer.open(tmp_path)

    ours = explorer.explore(run, 2)

    assert ours.states == 296_448
    assert run.tasks > 1
    stored = sum(path.stat().st_size for path in tmp_path.glob("*.bin"))
    assert stored == 296_448 * 16
    assert max(run.bytes) < 16 << 10
    assert sum(run.bytes) < stored / 20
    assert_same(ours, explore(TWO_PHASE_COMMIT, {"Manager": 7}, faults=0, symmetry=False))


# ── What dies on the way ────────────────────────────────────────────────────────────────────

DEADLY = """
import os, signal, sys
from pathlib import Path
from herdproof.pipeline.exploration.explore import SparkExplorer, on_spark
from herdproof.pipeline.spark.session import spark_session
from properties.specs import TWO_PHASE_COMMIT

folder, flags = map(Path, sys.argv[1:])
spark = spark_session("deadly", "local[2, 4]", {"spark.driver.memory": "512m"})
run, job = on_spark(spark), [0]

def dying(function, flag):
    def call(task):
        found = function(task)  # its files are written
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return found
        os.kill(os.getpid(), signal.SIGKILL)
    return call

def deadly(function, tasks):
    job[0] += 1
    if job[0] <= 5:
        function = dying(function, str(flags / f"job-{job[0]}"))
    return run(function, tasks)

def last_words(level, states, waiting):
    if level == 9:
        os.kill(os.getpid(), signal.SIGKILL)

explorer = SparkExplorer(TWO_PHASE_COMMIT, {"Manager": 7}, 0, symmetry=False)
explorer.open(folder)
explorer.explore(deadly, 2, last_words)
"""


def environment() -> dict[str, str]:
    """Where a child finds our packages, as this process does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}


@pytest.mark.timeout(300)  # a second Java is started
def test_workers_and_a_driver_that_are_killed_change_nothing(spark: Any, tmp_path: Path) -> None:
    """
    Workers are killed after their work, before their answers; at last the driver is killed.

    Another Spark goes on after the last level, and all that it finds is what the local explorer
    finds.
    """
    folder, flags = tmp_path / "search", tmp_path / "flags"
    flags.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", DEADLY, str(folder), str(flags)], cwd=ROOT, env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.wait(200) == -signal.SIGKILL
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert len(list(flags.iterdir())) == 5
    assert len(list(folder.glob("level-*.json"))) == 10

    ours = explore_on(
        spark, TWO_PHASE_COMMIT, {"Manager": 7}, faults=0, symmetry=False, resume=folder
    )

    assert_same(ours, explore(TWO_PHASE_COMMIT, {"Manager": 7}, faults=0, symmetry=False))
    levels = [json.loads(path.read_text()) for path in folder.glob("level-*.json")]
    named = {file for level in levels for file in level["files"]}
    assert {path.name for path in folder.glob("*.bin")} == named


# ── Beyond the driver's memory ──────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_space_beyond_the_drivers_memory_is_searched(tmp_path: Path) -> None:
    """12.8 million states of two words are more than 512 MB, which is all that the driver has."""
    options: dict[str, Any] = {"faults": 1, "bound": GENERATIONS, "symmetry": False}
    sizes = {"Member": 4, "Partition": 3}
    assert explore(GROUP, sizes, memory_bytes=512 << 20, **options).truncated

    done = subprocess.run(
        [
            sys.executable, "-m", "herdproof.cli.spec.explore_spark",
            "benchmarks/specs.py:GROUP", "--size", "Member=4", "--size", "Partition=3", "--faults",
            "1", "--no-symmetry", "--bound", str(GENERATIONS), "--may-end", "--spark", "local[2]",
            "--checkpoint", str(tmp_path / "search"), "--json", str(tmp_path / "found.json"),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=850, check=False,
        env={**environment(), "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell"},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["states"] == STATES["group", 4, 3, 1] == 12_759_049
    local = explore(GROUP, sizes, **options)
    assert (found["generated"], found["depth"], found["taken"]) == (
        local.generated, local.depth, local.taken,
    )  # fmt: skip
