"""The audit job on a real Spark: nothing is lost, and it says what the pure judge says."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.errors import NotOurs
from herdproof.pipeline.audit.audit import FEW_BYTES, Audit
from herdproof.pipeline.audit.here import AuditHere, fits_here
from herdproof.pipeline.audit.job import RecordsLost, check_counts
from herdproof.pipeline.audit.protocols import read_line
from herdproof.pipeline.audit.summary import Summary
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.spark import text_files
from herdproof.pipeline.spark.files import MARK
from herdproof.pipeline.spark.packets import Packet
from herdproof.pipeline.spark.sources import (
    ALWAYS_WHOLE,
    NoSource,
    Topic,
    check_topic,
    find_sources,
    records,
)
from herdproof.pipeline.spark.store import OutputDirectory
from herdproof.pipeline.spark.tables import TABLES
from herdproof.ports import free_ports
from integration.pipeline.pipeline_traces import judged_alone, run_lines, tables_in, write_by_node
from properties.pipeline.offsets.offset_records import batch, commit, generation, write_segment

SEEDS = (1, 3)
"""The second one has two groups."""

ELECTION = (
    '{"schema":1,"protocol":"election","run":"vote","node":"b1","sequence":1,'
    '"time_ns":1790000000001000000,"since_ns":1790000000001000000,"action":"start","session":0,'
    '"answered":null,"asked":null,"state":{"link":"lost","stands":false,"leads":false,"token":0,'
    '"call":"none","due":false}}'
)


def audit(spark: Any, out: Path, *sources: Path | str, replay: bool = True) -> Summary:
    """Audit these."""
    job = Audit(spark, protocol_work(), replay=replay)
    return job.run(find_sources(map(str, sources)), OutputDirectory(spark, str(out)))


@pytest.mark.timeout(300)
def test_an_audit_says_what_the_judge_says_and_keeps_every_record(
    spark: Any, tmp_path: Path
) -> None:
    """Two runs, an election, and records that are none: each is judged, or told in quarantine."""
    traces = tmp_path / "traces"
    for seed in SEEDS:
        files = write_by_node(traces, seed)
    twice = files["c1"].read_text().splitlines()[5]
    with gzip.open(traces / "broken [1].ndjson.gz", "wb") as broken:
        broken.write(b"no json\n" + twice.encode() + b"\n\xff\xfe\n\n" + b'{"protocol":"x"}\n')
        broken.write(twice.encode()[:40])  # its writer was killed
    (traces / "votes.jsonl").write_text(f"{ELECTION}\n")
    (traces / "server.log").write_text("nothing of ours\n")
    out = tmp_path / "out"

    summary = audit(spark, out, traces)

    assert summary.records == sum(len(run_lines(seed)) for seed in SEEDS) + 6 + 1
    assert summary.quarantined == {"duplicate": 1, "malformed": 4, "unknown_protocol": 1}
    assert summary.judged == summary.records - 6
    assert (summary.runs, summary.groups) == (3, 4)
    found, wanted = tables_in(out), judged_alone(SEEDS)
    for name in wanted.keys() - {"quarantine"}:
        own = [row for row in found[name] if '"run": "vote"' not in row]
        # Places are the files' lines here, and nothing there: only violations have them.
        assert own == wanted[name], name
    aside = [json.loads(row) for row in found["quarantine"]]
    places = {row["place"].removeprefix(f"{traces}/broken [1].ndjson.gz:") for row in aside}
    # Of two that are the same, the one whose place comes first is judged: it is line 2 there.
    assert places == {"1", "3", "4", "5", "6", str(files["c1"]) + ":6"}
    assert Counter(row["reason"] for row in aside) == summary.quarantined
    assert summary.verdicts["exclusive"] == {"holds": 3}
    told = json.loads((out / MARK).read_text())
    assert told["records"] == summary.records


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("few_bytes", "is_local"), [(0, False), (FEW_BYTES, True)], ids=["by Spark", "by Python"]
)
def test_an_audit_in_this_process_says_what_spark_says(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_bytes: int, *, is_local: bool
) -> None:
    """
    Row by row, in tables of the same schema, of all that may be judged in either.

    Spark reads text and writes tables itself; or the workers read, and the driver writes.
    """
    monkeypatch.setattr(Audit, "is_local", is_local)
    traces = tmp_path / "traces"
    for seed in SEEDS:
        files = write_by_node(traces, seed)
    lines = [line.encode() for line in files["c1"].read_text().splitlines()]
    of_both = next(line.encode() for line in run_lines(3) if '"group"' not in line)
    with gzip.open(traces / "odd {1}.ndjson.gz", "wb") as odd:
        odd.write(b"\xef\xbb\xbfno json\r\n" + lines[5] + b"\n\xff\xfe\n\n" + lines[0][:40])
    marked = b"\xef\xbb\xbf" + ELECTION.encode() + b"\r\n" + of_both
    (traces / "marked.jsonl").write_bytes(marked)
    values = spark.createDataFrame([(lines[7].decode(),), (None,)], "value string")
    values.coalesce(1).write.parquet(str(traces / "values.parquet"))
    pairs = [generation("g", 1, {"m": [("t", 0)]}), commit("g", "t", 0, 7), commit("g", "t", 0, 5)]
    write_segment(tmp_path / "log", batch([*pairs, (b"\0\1x", b"y")]))
    sources = find_sources([str(traces), str(tmp_path / "log")])
    assert fits_here(sources)

    job = Audit(spark, protocol_work(), few_bytes=few_bytes)
    there = job.run(sources, OutputDirectory(spark, str(tmp_path / "there")))
    here = AuditHere(protocol_work()).run(sources, OutputDirectory(None, str(tmp_path / "here")))

    assert replace(here, seconds={}) == replace(there, seconds={})
    assert here.seconds.keys() == there.seconds.keys()
    assert here.quarantined == {"duplicate": 3, "malformed": 6}
    assert here.violations > 0
    found, wanted = tables_in(tmp_path / "here"), tables_in(tmp_path / "there")
    for name in TABLES:
        assert found[name] == wanted[name], name
        own, his = (spark.read.parquet(str(tmp_path / out / name)) for out in ("here", "there"))
        assert own.schema == his.schema, name


@pytest.mark.timeout(300)
def test_lines_in_parquet_are_read_like_lines_in_files(spark: Any, tmp_path: Path) -> None:
    """Either a column `value` with the line, or a column for each of its fields."""
    write_by_node(tmp_path / "traces", 2)
    lines = spark.read.text(str(tmp_path / "traces"))
    lines.write.parquet(str(tmp_path / "values.parquet"))
    spark.read.json(lines.rdd.map(lambda row: row[0])).write.parquet(str(tmp_path / "columns"))
    wanted = sorted(run_lines(2))

    for folder in ("values.parquet", "columns"):
        raw, bases, count = records(spark, find_sources([str(tmp_path / folder)]))
        read = Audit(spark, protocol_work()).packets(raw, bases).where("kind = 'lines'")
        told = [Packet(*row).records() for row in read.collect()]
        rows = {(source, *record) for source, records in told for record in records}

        assert count == len(wanted)

        assert sorted(read_line(raw.decode(), "").written() for _, _, raw in rows) == wanted
        assert all(source.startswith(f"{tmp_path}/{folder}/part-") for source, _, _ in rows)
        assert {position for _, position, _ in rows} >= {1, 2, 3}


def test_tables_take_the_former_ones_place_all_at_once(spark: Any, tmp_path: Path) -> None:
    """Until the swap readers find the former tables, and then only the new ones."""
    store = OutputDirectory(spark, str(tmp_path / "out"))
    for number in (1, 2):
        store.check()
        spark.range(number).coalesce(1).write.parquet(store.fresh("figures"))
        found = sorted((tmp_path / "out").glob("figures/*.parquet"))
        assert len(found) == number - 1
        store.swap({"records": number})
        assert pq.read_table(tmp_path / "out" / "figures").num_rows == number
        assert json.loads((tmp_path / "out" / MARK).read_text()) == {"records": number}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.timeout(300)
def test_a_large_file_is_read_in_parts_and_its_lines_keep_their_numbers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is split, by Spark and for its workers; `place` still names the line."""
    lines = list(run_lines(1))
    many = ALWAYS_WHOLE * 3 // sum(len(line) + 1 for line in lines) + 1
    whole = lines * many
    for number in range(100, len(whole), 1000):
        whole[number] = f"broken {number + 1}"
    file = tmp_path / "large.ndjson"
    file.write_text("\n".join(whole))

    raw, bases, count = records(spark, find_sources([str(file)]))
    monkeypatch.setattr(text_files, "PART_BYTES", ALWAYS_WHOLE)
    parts, counted = text_files.parts_of([str(file)])
    job = Audit(spark, protocol_work())

    assert bases, "it was not split at all"
    assert len(parts) > 2
    assert (count, counted) == (len(whole), len(whole))
    for packets in (job.packets(raw, bases), job.packets_of_parts(parts)):
        rows = packets.where("kind = 'malformed'").collect()
        bad = [record for row in rows for record in Packet(*row).bad()]
        assert len(bad) == len(range(100, len(whole), 1000))
        assert all(raw == f"broken {position}".encode() for _, position, raw, _, _ in bad)


def test_a_directory_with_something_else_is_not_overwritten(spark: Any, tmp_path: Path) -> None:
    """Only what an audit wrote, or nothing, may be where the tables are to go."""
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")

    for out in (tmp_path, tmp_path / "file"):
        with pytest.raises(NotOurs):
            OutputDirectory(spark, str(out)).check()

    OutputDirectory(spark, str(tmp_path / "new")).check()
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_tables_of_an_audit_that_was_killed_while_it_swapped_come_back(
    spark: Any, tmp_path: Path
) -> None:
    """Between the two renames only the former tables exist, beside."""
    former = tmp_path / "out.old-12345678"
    former.mkdir()
    (former / MARK).write_text("{}")

    OutputDirectory(spark, str(tmp_path / "out")).check()

    assert (tmp_path / "out" / MARK).read_text() == "{}"


def test_a_record_that_is_lost_ends_the_audit() -> None:
    """Input = judged + quarantined: the job itself asserts it."""
    summary = Summary("", 10, 10, {}, 1, 1, {}, [], 0, [])
    row = {
        "protocol": "p", "run": "r", "lines": 10, "set_aside": 0, "shared": 2,
        "least_shared": 2, "most_shared": 2, "groups": 2,
    }  # fmt: skip
    check_counts(summary, [row])

    for wrong in ({"lines": 9}, {"least_shared": 0}):
        with pytest.raises(RecordsLost):
            check_counts(summary, [{**row, **wrong}])


def complaint(*arguments: str | Path, **environment: str) -> str:
    """What `herdproof audit` says, and nothing else, when it cannot begin."""
    done = CliRunner(env=environment).invoke(app, ["audit", *map(str, arguments)])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return done.stderr.strip()


def test_what_cannot_be_audited_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A wrong path, no traces, no master, no broker, no Java."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "trace.ndjson").write_text(f"{ELECTION}\n")
    trace, (port,) = tmp_path / "trace.ndjson", free_ports(1)

    assert complaint(tmp_path / "none").endswith(f"there is no file or directory {tmp_path}/none")
    assert "nothing to audit in" in complaint(tmp_path / "empty")
    assert "name a SOURCE" in complaint()
    assert "no file matches" in complaint(tmp_path / "*.xyz")
    assert "--follow takes one directory" in complaint("--follow", trace, trace)
    assert f"no Spark master answers at spark://127.0.0.1:{port}" in complaint(
        trace, "--spark", f"spark://127.0.0.1:{port}"
    )
    assert "--conf x: say it as" in complaint(trace, "--conf", "x")
    assert "say local[*]" in complaint(trace, "--spark", "mesos://x")
    without = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    assert "No Java was found" in complaint(trace, "--spark", "local[1]", **without)


COMMAND = [sys.executable, "-c", "from herdproof.cli import app; app()", "audit"]


def test_what_spark_says_aside_is_in_a_file_that_is_named(tmp_path: Path) -> None:
    """Its warnings, and what its Java adds to a failure; not on the error stream."""
    cut = tmp_path / "cut.ndjson.gz"
    cut.write_bytes(gzip.compress(ELECTION.encode() * 1000)[:-9])  # its writer was killed
    asked = [*COMMAND, str(cut), "--out", str(tmp_path / "out"), "--spark", "local[1]"]

    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)

    *_, last = done.stderr.splitlines()
    file = Path(last.removeprefix("What Spark said aside is in "))
    try:
        assert done.returncode != 0
        assert " WARN " not in done.stderr
        assert " WARN " in file.read_text()
    finally:
        file.unlink(missing_ok=True)


def test_a_broker_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """Spark itself would wait for minutes."""
    (port,) = free_ports(1)

    with pytest.raises(NoSource, match=f"no Kafka broker answers at 127.0.0.1:{port} within 1 s"):
        check_topic(Topic(f"127.0.0.1:{port}", "lines"), timeout_s=1.0)
