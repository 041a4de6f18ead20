"""The streaming audit: killed in the middle and resumed, late lines, lines from a real Kafka."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.pipeline.audit.audit import Audit
from herdproof.pipeline.audit.stream import Follow, OtherStream
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.spark.sources import find_sources, followed_sources
from herdproof.pipeline.spark.store import OutputDirectory
from integration.pipeline.pipeline_traces import (
    SECOND,
    Tables,
    run_lines,
    tables_in,
    write_in_slices,
)

SEEDS = (1, 3)
PATIENCE_S = 400.0
LATE_S = 3.0

COMMAND = [
    *(sys.executable, "-m", "herdproof.cli.code.audit"),
    *("--follow", "--until-idle", "0", "--late", str(LATE_S)),
    *("--spark", "local[2]", "--conf", "spark.driver.memory=768m"),
    *("--conf", "spark.sql.shuffle.partitions=3"),
]


def batch_tables(spark: Any, out: Path, *sources: Path) -> Tables:
    """What one batch audit says of these."""
    job = Audit(spark, protocol_work())
    job.run(find_sources(map(str, sources)), OutputDirectory(spark, str(out)))
    return tables_in(out)


def killed_when(rows: Path, parts: int, command: list[str | Path]) -> None:
    """Run a stream, and kill it and its Spark (SIGKILL) when it is in the middle of a part."""
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True, text=True,
    ) as stream:  # fmt: skip
        deadline = time.monotonic() + PATIENCE_S
        while not (rows / f"batch={parts}").exists():
            assert stream.poll() is None, stream.stderr and stream.stderr.read()
            assert time.monotonic() < deadline, "no part was ever written"
            time.sleep(0.01)
        os.killpg(stream.pid, signal.SIGKILL)


@pytest.mark.timeout(900)
def test_a_stream_that_is_killed_and_resumed_says_what_one_batch_says(
    spark: Any, tmp_path: Path
) -> None:
    """Killed while it writes a part: the part is made again, nothing is there twice."""
    lines = [line for seed in SEEDS for line in run_lines(seed)]
    files = write_in_slices(tmp_path / "slices", lines, 6)
    rows = tmp_path / "out.stream" / "rows"
    command: list[str | Path] = [
        *COMMAND,
        tmp_path / "slices",
        "--out",
        tmp_path / "out",
        "--at-once",
        "1",
    ]

    killed_when(rows, 2, command)
    commits = {path.name for path in (tmp_path / "out.stream/checkpoint/commits").glob("[0-9]*")}
    resumed = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert commits < {str(number) for number in range(len(files))}, "it was not in the middle"
    assert not (tmp_path / "out").exists() or resumed.returncode == 0, resumed.stderr
    assert f"{len(lines):,} records = {len(lines):,} judged" in resumed.stdout, resumed.stderr
    wanted = batch_tables(spark, tmp_path / "batch", tmp_path / "slices")
    found = tables_in(tmp_path / "out")
    for name in wanted:
        assert uncounted(found[name]) == uncounted(wanted[name]), name


def uncounted(rows: list[str]) -> list[str]:
    """Rows without `checked`: a stream hears later of a partition, and decides fewer instances."""
    return sorted(re.sub(r'"checked": \d+', "", row) for row in rows)


@pytest.mark.timeout(300)
def test_a_late_line_is_told_and_leaves_open_what_it_is_about(spark: Any, tmp_path: Path) -> None:
    """Spark would drop it without a word; here it goes to quarantine, and is missing."""
    ordered = list(run_lines(4))
    late = next(
        n for n, line in enumerate(ordered)
        if '"action":"handle_start"' in line and '"partitions":[]' not in line
    )  # fmt: skip
    lines = ordered[:late] + ordered[late + 1 :]
    folder = tmp_path / "slices"
    *_, last = write_in_slices(folder, lines, 2)
    last.write_text(last.read_text() + ordered[late] + "\n" + ordered[late] + "\n")

    def follow(late_s: float, out: str) -> Any:
        job = Follow(
            spark, protocol_work(), followed_sources([str(folder)], None), str(tmp_path / out),
            lambda _words, _fraction: None, replay=False, late_ns=int(late_s * SECOND), at_once=1,
        )  # fmt: skip
        return job.run(until_idle=0, refresh_s=60)

    summary = follow(0.5, "out")

    assert summary.records == len(ordered) + 1
    assert summary.quarantined == {"late": 2}
    assert summary.judged == summary.records - 2
    assert summary.verdicts["complete"] == {"unknown": 1}
    (one, _) = (json.loads(row) for row in tables_in(tmp_path / "out")["quarantine"])
    assert one["place"] == f"{last}:{len(last.read_text().splitlines()) - 1}"
    assert one["time_ns"] == json.loads(ordered[late])["time_ns"]
    known = [json.loads(row)["known"] for row in tables_in(tmp_path / "out")["ownership"]]
    assert False in known
    with pytest.raises(OtherStream, match="other late_ns"):
        follow(1.0, "out")


@pytest.mark.long
@pytest.mark.real
@pytest.mark.timeout(600)
def test_lines_in_a_topic_are_followed_and_audited(
    spark: Any, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """A topic of two partitions: streamed in two runs, and as one batch; places are offsets."""
    kafka.create_topic("traces", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    lines = list(run_lines(3))
    half = len(lines) // 2
    source: list[str | Path] = ["--bootstrap-servers", kafka.bootstrap, "--topic", "traces"]
    follow = [*COMMAND, *source, "--out", tmp_path / "out", "--at-once", "200"]

    for number, line in enumerate(lines[:half]):
        producer.produce("traces", line, partition=number % 2)
    producer.produce("traces", None, key=b"erased", partition=0)
    producer.flush()
    first = subprocess.run(list(map(str, follow)), capture_output=True, text=True, timeout=300)
    for number, line in enumerate(lines[half:]):
        producer.produce("traces", line, partition=number % 2)
    producer.flush()
    second = subprocess.run(list(map(str, follow)), capture_output=True, text=True, timeout=300)
    batch = [
        *COMMAND[:3], *COMMAND[7:], *source, "--out", tmp_path / "batch",
    ]  # fmt: skip
    third = subprocess.run(list(map(str, batch)), capture_output=True, text=True, timeout=300)

    assert f"{half + 1:,} records" in first.stdout, first.stderr
    for done in (second, third):
        told = f"{len(lines) + 1:,} records = {len(lines):,} judged + 1 in quarantine (1 malformed)"
        assert told in done.stdout, done.stderr
    found, wanted = tables_in(tmp_path / "out"), tables_in(tmp_path / "batch")
    for name in wanted:
        assert found[name] == wanted[name], name
    assert json.loads(found["quarantine"][0])["place"] == f"traces-0@{(half + 1) // 2}"
