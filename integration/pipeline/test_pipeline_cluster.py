"""The jobs on a real standalone Spark of two workers: shipped as a zip, the same tables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import herdproof.cli.code.audit
from benchmarks.specs import GROUP
from herdproof.pipeline.audit.audit import Audit
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.campaign.campaign import run_here
from herdproof.pipeline.campaign.work import Plan
from herdproof.pipeline.spark.session import packed
from herdproof.pipeline.spark.sources import find_sources
from herdproof.pipeline.spark.store import OutputDirectory
from herdproof.ports import LOOPBACK
from herdspec.check.exploration.explore import explore
from integration.pipeline.pipeline_traces import run_lines, tables_in, write_by_node
from integration.pipeline.spark_cluster import (
    SPARK_HOME,
    SparkCluster,
    bare_environment,
    bare_python,
)
from integration.pipeline.test_pipeline_campaign import rows_of

# A minute and more: three JVMs on two cores.
pytestmark = [pytest.mark.long, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[2]
SEEDS = (1, 3)
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers for all of these tests."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def executors(cluster: SparkCluster) -> list[int]:
    """How many executors each worker has started so far."""
    return [cluster.said(name).count("Asked to launch executor") for name in WORKERS]


def test_a_cluster_writes_the_tables_that_this_machine_writes(
    spark: Any, cluster: SparkCluster, tmp_path: Path
) -> None:
    """Neither its driver nor its workers have Herdproof but from the zip that is shipped."""
    for seed in SEEDS:
        write_by_node(tmp_path / "traces", seed)
    archive, python = packed(tmp_path), bare_python(tmp_path)
    job = tmp_path / "audit.py"
    job.write_text(Path(herdproof.cli.code.audit.__file__).read_text())
    missing = subprocess.run(
        [python, "-c", "import herdproof"], env=bare_environment(), capture_output=True, text=True
    )

    before = executors(cluster)
    done = subprocess.run(
        [
            *(SPARK_HOME / "bin" / "spark-submit", "--master", cluster.address),
            *("--driver-memory", "512m", "--conf", "spark.executor.memory=512m"),
            *("--conf", f"spark.driver.host={LOOPBACK}", "--conf", "spark.ui.enabled=false"),
            *("--conf", f"spark.driver.bindAddress={LOOPBACK}"),
            *("--conf", "spark.sql.shuffle.partitions=3", "--py-files", archive, job),
            *(tmp_path / "traces", "--out", tmp_path / "out"),
        ],
        env=bare_environment(PYSPARK_PYTHON=str(python)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    worked = executors(cluster)

    assert "No module named 'herdproof'" in missing.stderr
    count = sum(len(run_lines(seed)) for seed in SEEDS)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert f"{count:,} records = {count:,} judged + 0 in quarantine" in done.stdout
    assert all(now > then for now, then in zip(worked, before, strict=True)), worked
    Audit(spark, protocol_work()).run(
        find_sources([str(tmp_path / "traces")]), OutputDirectory(spark, str(tmp_path / "local"))
    )
    found, wanted = tables_in(tmp_path / "out"), tables_in(tmp_path / "local")
    for name in wanted:
        assert found[name] == wanted[name], name


def on_cluster(
    cluster: SparkCluster, folder: Path, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    """A command as it is given where Herdproof is installed; workers have it from its zip alone."""
    before = executors(cluster)
    settings = {
        "spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": "512m", "spark.ui.enabled": "false",
    }  # fmt: skip
    submit = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from herdproof.cli import app; app()"),
            *map(str, arguments), "--spark", cluster.address,
        ],
        env=bare_environment(
            PYSPARK_PYTHON=str(bare_python(folder)), PYSPARK_DRIVER_PYTHON=sys.executable,
            PYSPARK_SUBMIT_ARGS=f"--driver-memory 512m {submit} pyspark-shell",
        ),
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    worked = executors(cluster)
    assert all(now > then for now, then in zip(worked, before, strict=True)), (
        worked, done.stdout + done.stderr[-4000:],
    )  # fmt: skip
    return done


def test_a_cluster_explores_what_this_machine_explores(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """The same states, steps and depth, each action taken as often."""
    options: dict[str, Any] = {"faults": 1, "bound": 2, "symmetry": False}
    sizes = {"Member": 3, "Partition": 2}

    done = on_cluster(
        cluster, tmp_path, "explore", "benchmarks/specs.py:GROUP", "--size", "Member=3",
        "--size", "Partition=2", "--faults", "1", "--bound", "2", "--no-symmetry", "--may-end",
        "--checkpoint", tmp_path / "levels", "--json", tmp_path / "found.json",
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    found, local = (
        json.loads((tmp_path / "found.json").read_text()),
        explore(GROUP, sizes, **options),
    )
    assert (found["states"], found["generated"], found["depth"], found["taken"]) == (
        local.states, local.generated, local.depth, local.taken,
    )  # fmt: skip
    assert local.states > 10_000


def test_a_cluster_s_campaign_is_that_of_this_machine(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """The same runs, broken by the same seeds: every row of every table."""
    plan = Plan("central_coordinator", 2, 0, ("alone/calm", "alone/mixed"), "no_barrier")

    done = on_cluster(
        cluster, tmp_path, "campaign", plan.protocol, "--runs", "2", "--flaw", plan.flaw,
        *(word for mix in plan.mixes for word in ("--mix", mix)), "--out", tmp_path / "out",
    )  # fmt: skip

    summary = run_here(plan, tmp_path / "here")
    assert summary.outcomes["broken"]
    assert done.returncode == 1, done.stdout + done.stderr[-4000:]
    assert "broke a promise" in done.stdout
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "here")


WORKERS = ("worker1", "worker2")
