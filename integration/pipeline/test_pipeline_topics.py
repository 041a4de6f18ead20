"""Topics of a real Kafka, audited from the command line: one of traces, and its own of groups."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.pipeline.offsets import TOPIC
from herdproof.servers import eventually
from integration.pipeline.group_clients import settings
from integration.pipeline.pipeline_traces import judged_alone, run_lines, tables_in

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SEED = 3
"""A run of two groups."""


def audited(
    kafka: EmbeddedKafka, topic: str, out: Path
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What `herdproof audit` of a topic says: to whoever reads it, and as JSON."""
    told = out.with_suffix(".json")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "herdproof.cli.code.audit"),
            *("--bootstrap-servers", kafka.bootstrap, "--topic", topic, "--out", str(out)),
            *("--spark", "local[2]", "--conf", "spark.driver.memory=768m"),
            *("--conf", "spark.sql.shuffle.partitions=3", "--json", str(told)),
        ],
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert told.exists(), done.stderr
    return done, json.loads(told.read_text())


def test_traces_in_a_topic_are_audited(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Every line is judged as if it came from a file; what is no line leaves the whole open."""
    kafka.create_topic("audited", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    lines = run_lines(SEED)
    for number, line in enumerate([*lines, "no line"]):
        producer.produce("audited", line, partition=number % 2)
    assert producer.flush(30) == 0

    done, told = audited(kafka, "audited", tmp_path / "out")

    assert done.returncode == told["exit"] == 3, done.stderr
    count = len(lines)
    said = f"{count + 1:,} records = {count:,} judged + 1 in quarantine (1 malformed)"
    assert said in done.stdout
    assert "1 run, 2 groups" in done.stdout
    assert told["verdicts"]["exclusive"] == told["verdicts"]["conforms"] == {"holds": 2}
    found, wanted = tables_in(tmp_path / "out"), judged_alone([SEED])
    for name in wanted.keys() - {"quarantine"}:
        assert found[name] == wanted[name], name
    (aside,) = map(json.loads, found["quarantine"])
    assert aside["place"] == f"audited-{count % 2}@{count // 2}"


def test_the_live_log_of_groups_is_audited(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A real consumer's generation and its commits; nothing is violated, and nothing is shown."""
    kafka.create_topic("consumed", partitions=2)
    patient = {"session.timeout.ms": 6000}  # this broker takes no shorter one
    consumer = Consumer(settings(kafka, "audited", "a", **patient))
    consumer.subscribe(["consumed"])
    assert eventually(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), 30)
    offsets = [TopicPartition("consumed", number, 7 + number) for number in range(2)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()

    done, told = audited(kafka, TOPIC, tmp_path / "out")

    assert done.returncode == told["exit"] == 3, done.stderr
    assert "nothing is violated that these sources show" in done.stdout
    assert told["quarantined"] == {}
    assert told["judged"] == told["records"] > 0
    rows = {
        name: [row for row in map(json.loads, some) if row.get("group") == "audited"]
        for name, some in tables_in(tmp_path / "out").items()
    }
    stored = {(row["partition"], row["offset"], row["outcome"]) for row in rows["commits"]}
    assert stored == {("0", 7, "stored"), ("1", 8, "stored")}
    assert len(rows["generations"]) >= 1
    assert {row["verdict"] for row in rows["verdicts"]} == {"not observable"}
    assert {row["run"] for row in rows["verdicts"]} == {"cluster"}
