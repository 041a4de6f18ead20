"""The jobs on a real standalone Spark of two workers: shipped as a zip, the same tables."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import herdproof.pipeline.audit
from herdproof.pipeline.audit import Audit
from herdproof.pipeline.audit_work import protocol_work
from herdproof.pipeline.session import packed
from herdproof.pipeline.sources import find_sources
from herdproof.pipeline.store import Store
from herdproof.ports import LOOPBACK
from integration.pipeline_traces import run_lines, tables_in, write_by_node
from integration.spark_cluster import SPARK_HOME, SparkCluster, bare_environment, bare_python

SEEDS = (1, 3)
PATIENCE_S = 300.0


@pytest.mark.long  # a minute and more: three JVMs on two cores
@pytest.mark.timeout(500)
def test_a_cluster_writes_the_tables_that_this_machine_writes(spark: Any, tmp_path: Path) -> None:
    """Neither its driver nor its workers have Herdproof but from the zip that is shipped."""
    for seed in SEEDS:
        write_by_node(tmp_path / "traces", seed)
    archive, python = packed(tmp_path), bare_python(tmp_path)
    job = tmp_path / "audit.py"
    job.write_text(Path(herdproof.pipeline.audit.__file__).read_text())
    missing = subprocess.run(
        [python, "-c", "import herdproof"], env=bare_environment(), capture_output=True, text=True
    )

    with SparkCluster(tmp_path / "cluster") as cluster:
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
        worked = [cluster.said(name).count("Asked to launch executor") for name in WORKERS]

    assert "No module named 'herdproof'" in missing.stderr
    count = sum(len(run_lines(seed)) for seed in SEEDS)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert f"{count:,} records = {count:,} judged + 0 in quarantine" in done.stdout
    assert all(worked), worked
    Audit(spark, protocol_work()).run(
        find_sources([str(tmp_path / "traces")]), Store(spark, str(tmp_path / "local"))
    )
    found, wanted = tables_in(tmp_path / "out"), tables_in(tmp_path / "local")
    for name in wanted:
        assert found[name] == wanted[name], name


WORKERS = ("worker1", "worker2")
