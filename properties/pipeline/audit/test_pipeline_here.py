"""Small sources are audited in this process: with the judge's rows, and without a Spark."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdproof.cli.code import audit as command
from herdproof.errors import NotOurs
from herdproof.pipeline.audit import here, processes
from herdproof.pipeline.audit.here import AuditHere, counts_of, fits_here, records
from herdproof.pipeline.audit.job import RecordsLost
from herdproof.pipeline.audit.judge import judge
from herdproof.pipeline.audit.processes import AuditByProcesses, fits_processes
from herdproof.pipeline.audit.summary import Summary
from herdproof.pipeline.audit.work import protocol_work
from herdproof.pipeline.offsets.judge import judge_records
from herdproof.pipeline.offsets.segments import read_partition
from herdproof.pipeline.offsets.source import file_of, find_segments
from herdproof.pipeline.spark import session, text_files
from herdproof.pipeline.spark.files import MARK
from herdproof.pipeline.spark.sources import NoSource, Sources, Topic, find_sources
from herdproof.pipeline.spark.store import OutputDirectory
from herdproof.pipeline.spark.tables import TABLES
from properties.cli.files import run as command_line
from properties.pipeline.offsets.offset_records import batch, commit, generation, write_segment
from properties.pipeline.pipeline_traces import run_of

SEEDS = (1, 3)
"""The second one has two groups."""
BROKEN = (b"no json", b"\xff\xfe", b"", b'{"protocol":"x"}')

Found = Mapping[str, list[str]]


def texts(seed: int) -> list[str]:
    """A run's lines."""
    return [line.written() for line in run_of(seed)]


def write(file: Path, lines: list[str]) -> Path:
    """A trace."""
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def audit(out: Path, *sources: Path, replay: bool = False) -> Summary:
    """Audit these, here."""
    job = AuditHere(protocol_work(), replay=replay)
    return job.run(find_sources(map(str, sources)), OutputDirectory(None, str(out)))


def tables_in(out: Path) -> Found:
    """What an audit has written: rows as sorted lines of JSON."""
    return {name: canonical(pq.read_table(out / name).to_pylist()) for name in TABLES}


def canonical(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that can be compared."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


# ── The tables ──────────────────────────────────────────────────────────────────────────────


def test_the_tables_are_the_judges_rows_and_nothing_is_lost(tmp_path: Path) -> None:
    """Two runs, three groups, in files of whatever order; what is broken, or twice, is aside."""
    told = [text for seed in SEEDS for text in texts(seed)]
    places = {text: f"{tmp_path}/whole.ndjson:{n}" for n, text in enumerate(told, start=1)}
    write(tmp_path / "whole.ndjson", told)
    of_both = next(text for text in texts(3) if '"group"' not in text)
    again = [text.encode() for text in (told[7], of_both)]
    (tmp_path / "zzz.jsonl").write_bytes(b"\n".join([*BROKEN, *again]))

    summary = audit(tmp_path / "out", tmp_path, replay=True)

    assert summary.records == len(told) + len(BROKEN) + 2
    assert summary.quarantined == {"duplicate": 2, "malformed": 3, "unknown_protocol": 1}
    assert summary.judged == len(told)
    assert (summary.runs, summary.groups) == (2, 3)
    wanted: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    work = protocol_work()
    for seed in SEEDS:
        lines = [work.read(text, places[text]) for text in texts(seed)]
        for group in sorted({line.group for line in lines} - {""}):
            own = [line for line in lines if line.group in ("", group)]
            for name, rows in judge(own[0].protocol, own[0].run, group, own).items():
                wanted[name] += TABLES[name].filled(rows).to_pylist()
    found = tables_in(tmp_path / "out")
    for name in TABLES.keys() - {"quarantine"}:
        assert found[name] == canonical(wanted[name]), name
    aside = sorted(json.loads(row)["place"] for row in found["quarantine"])
    assert aside == [f"{tmp_path}/zzz.jsonl:{n}" for n in range(1, 7)]
    assert json.loads((tmp_path / "out" / MARK).read_text())["records"] == summary.records


def test_the_order_of_lines_and_files_changes_nothing(tmp_path: Path) -> None:
    """As on Spark, where they come as they will."""
    told = texts(3)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write(tmp_path / "a" / "all.ndjson", told)
    Random(1).shuffle(told)
    for number in range(3):
        write(tmp_path / "b" / f"{number}.ndjson", told[number::3])

    one = audit(tmp_path / "one", tmp_path / "a")
    other = audit(tmp_path / "other", tmp_path / "b")

    assert one.verdicts == other.verdicts
    first, second = tables_in(tmp_path / "one"), tables_in(tmp_path / "other")
    for name in TABLES.keys() - {"violations"}:  # which name places
        assert first[name] == second[name], name


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    """Readers need no exception for it; a list's elements have the name that Spark gives them."""
    write(tmp_path / "none.ndjson", [])

    summary = audit(tmp_path / "out", tmp_path / "none.ndjson")

    assert (summary.records, summary.exit) == (0, 3)
    for name, table in TABLES.items():
        assert pq.read_schema(tmp_path / "out" / name / "part-00000.parquet").names == [
            column.name for column in table.columns
        ]


def test_what_a_log_of_kafkas_tells_is_judged_here_too(tmp_path: Path) -> None:
    """Copied segments of two partitions, with a record that is none."""
    pairs = [
        generation("readers", 1, {"m1": [("orders", 0)]}), commit("readers", "orders", 0, 7),
        commit("writers", "orders", 1, 3), commit("readers", "orders", 0, 5), (b"\0\1x", b"y"),
    ]  # fmt: skip
    write_segment(tmp_path / "log", batch(pairs))
    write_segment(tmp_path / "log", batch([commit("others", "orders", 1, 3)]), 1)

    summary = audit(tmp_path / "out", tmp_path / "log")

    assert (summary.records, summary.judged, summary.groups) == (6, 5, 3)
    wanted: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    segments = find_segments([str(tmp_path / "log")]).items()
    read = [r for number, paths in segments for r in read_partition(number, map_files(paths))]
    for group in ("readers", "writers", "others"):
        own = [r for r in read if r.key is not None and group.encode() in r.key]
        for name, rows in judge_records("cluster", group, own).items():
            wanted[name] += TABLES[name].filled(rows).to_pylist()
    found = tables_in(tmp_path / "out")
    for name in TABLES.keys() - {"quarantine"}:
        assert found[name] == canonical(wanted[name]), name
    assert [json.loads(row)["reason"] for row in found["quarantine"]] == ["malformed"]


def map_files(paths: list[str]) -> list[Any]:
    """Segments, to be read when it is their turn."""
    return [file_of(path) for path in paths]


# ── Reading ─────────────────────────────────────────────────────────────────────────────────


def test_lines_are_what_lies_between_line_feeds(tmp_path: Path) -> None:
    """Nothing is decoded; the mark that a file may begin with is of no line."""
    wanted = [b"one\r", b"", b"two\x0b\xff\x00", b"\xef\xbb\xbfthree"]
    told = b"\xef\xbb\xbf" + b"\n".join(wanted)
    (tmp_path / "plain").write_bytes(told)
    (tmp_path / "ended").write_bytes(told + b"\n")
    (tmp_path / "members.gz").write_bytes(gzip.compress(told[:9]) + gzip.compress(told[9:]))

    for name in ("plain", "ended", "members.gz"):
        path = str(tmp_path / name)
        found = list(records(Sources(text=(path,))))
        assert found == [(path, n, line) for n, line in enumerate(wanted, start=1)], name


def test_lines_in_a_column_of_parquet_are_read(tmp_path: Path) -> None:
    """As text or as bytes; a row without a line is a record all the same."""
    for name, kind in (("a.parquet", pa.string()), ("b.parquet", pa.binary())):
        path = str(tmp_path / name)
        pq.write_table(pa.table({"other": [1, 2], "value": pa.array(["x", None], kind)}), path)
        sources = find_sources([path])

        assert fits_here(sources)
        assert list(records(sources)) == [(path, 1, b"x"), (path, 2, None)]


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A file whose writer was killed, or that is not what it begins as."""
    (tmp_path / "cut.ndjson.gz").write_bytes(gzip.compress(b"line\n" * 100)[:-9])
    (tmp_path / "no.ndjson.gz").write_bytes(b"no gzip at all")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and nothing more")

    for name in ("cut.ndjson.gz", "no.ndjson.gz", "cut.parquet"):
        done = command_line("audit", tmp_path / name, "--out", tmp_path / "out")
        assert done.exit_code == 2, name
        assert done.stderr.startswith(f"herdproof: {tmp_path / name} cannot be read: "), name
    assert not (tmp_path / "out").exists()


# ── When ────────────────────────────────────────────────────────────────────────────────────


def test_an_audit_that_judged_nothing_says_so(tmp_path: Path) -> None:
    """It says that there is no record, or that all are in quarantine, and not that none is bad."""
    empty, broken = write(tmp_path / "empty", []), write(tmp_path / "broken", ["no json"])
    other = texts(1)[0].replace("central_coordinator", "lease")
    files = (empty, broken, write(tmp_path / "other", [other]))

    said = [command.conclusion(audit(tmp_path / "out", file)) for file in files]

    assert said[0] == "Unknown: nothing was judged, since there is no record in these sources."
    assert said[1].startswith("Unknown: nothing was judged, since every record is in quarantine")
    assert "conform --spec" not in said[1]
    assert said[2].endswith("are for `herdproof conform --spec FILE.py:SPEC`.")


@pytest.mark.parametrize("option", ["--late", "--refresh", "--at-once", "--until-idle"])
def test_options_of_following_are_refused_without_it(tmp_path: Path, option: str) -> None:
    """They would do nothing, and whoever gave them would not hear of it."""
    file = write(tmp_path / "trace", texts(1)[:3])

    done = command_line("audit", file, option, "3", "--out", tmp_path / "out")

    assert done.exit_code == 2
    assert f"{option} is for --follow" in done.stderr


def test_what_is_large_or_what_spark_alone_reads_is_for_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines and bytes are counted beforehand, packed ones as they are when they are unpacked."""
    trace = str(write(tmp_path / "t.ndjson", ["x" * 9] * 10))
    packed = tmp_path / "p.ndjson.gz"
    packed.write_bytes(gzip.compress(Path(trace).read_bytes()))
    columns = str(tmp_path / "columns.parquet")
    pq.write_table(pa.table({"node": ["n"]}), columns)
    write_segment(tmp_path / "log", batch([commit("g", "t", 0, 1)]))
    log = Sources(segments=(str(tmp_path / "log"),))

    assert all(map(fits_here, (Sources((trace,)), Sources((str(packed),)), log)))
    assert not fits_here(Sources((trace,), topic=Topic("localhost:1", "lines")))
    assert not fits_here(Sources(("s3a://traces/t.ndjson",)))
    assert not fits_here(Sources((f"{trace}.bz2",)))
    assert not fits_here(Sources(parquet=("s3a://traces/t.parquet",)))
    assert not fits_here(Sources(parquet=(columns,)))
    for limit, most in (("LINES_MOST", 9), ("BYTES_MOST", 80)):
        with monkeypatch.context() as changed:
            changed.setattr(here, limit, most)
            assert not fits_here(Sources((trace,))), limit
            assert not fits_here(Sources((str(packed),))), limit
    monkeypatch.setattr(here, "LINES_MOST", 10)
    assert fits_here(Sources((trace,)))
    monkeypatch.setattr(here, "LOG_BYTES_MOST", 10)
    assert not fits_here(log)


class Asked(Exception):
    """Spark was asked."""


@pytest.mark.parametrize(
    ("more", "spark"),
    [
        ((), False),
        (("--no-replay", "--run", "r"), False),
        (("--spark", "local[1]"), True),
        (("--conf", "spark.driver.memory=1g"), True),
        (("--follow",), True),
    ],
)
def test_who_asks_for_spark_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], spark: bool
) -> None:
    """However small the sources are."""

    def started(*_: Any, **__: Any) -> None:
        raise Asked

    monkeypatch.setattr(session, "spark_session", started)
    (tmp_path / "traces").mkdir()
    write(tmp_path / "traces" / "t.ndjson", texts(1))

    done = command_line("audit", tmp_path / "traces", "--out", tmp_path / "out", *more)

    assert isinstance(done.exception, Asked) == spark
    assert (done.exit_code == 0) != spark, done.output
    found = find_sources([str(tmp_path / "traces")])
    assert command.judged_here(found, "here") is AuditHere
    monkeypatch.setattr(here, "LINES_MOST", 0)
    assert command.judged_here(found, "here") is AuditByProcesses
    assert not command.judged_here(find_sources([str(tmp_path / "traces")]), "s3a://there")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not command.judged_here(find_sources([str(tmp_path / "traces")]), "here")


WATCHED = """
import sys
from herdproof.cli import app
try:
    app()
finally:
    print([name for name in ("pyspark", "py4j") if name in sys.modules])
"""


def test_pyspark_is_not_even_imported(tmp_path: Path) -> None:
    """Nor is a Java looked for."""
    trace = write(tmp_path / "t.ndjson", texts(1))
    asked = ["audit", str(trace), "--out", str(tmp_path / "out")]

    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *asked], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "[]"
    assert f"tables: {tmp_path / 'out'}" in done.stdout


# ── Where ───────────────────────────────────────────────────────────────────────────────────


def test_tables_take_the_former_ones_place_and_nothing_elses(tmp_path: Path) -> None:
    """What an audit wrote is replaced, at once; what it did not write is refused."""
    out = tmp_path / "out"
    for seed in SEEDS:
        audit(out, write(tmp_path / f"{seed}.ndjson", texts(seed)))
        (name,) = {row["run"] for row in pq.read_table(out / "verdicts").to_pylist()}
        assert name == str(seed)
    assert {path.name for path in tmp_path.iterdir()} == {"1.ndjson", "3.ndjson", "out"}

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("mine")
    for place in (tmp_path / "mine", tmp_path / "1.ndjson"):
        with pytest.raises(NotOurs):
            audit(place, tmp_path / "3.ndjson")
    assert (tmp_path / "mine" / "precious.txt").read_text() == "mine"


def test_tables_of_an_audit_that_was_killed_while_it_swapped_come_back(tmp_path: Path) -> None:
    """Between the two renames only the former tables exist, beside."""
    (tmp_path / "out.old-12345678").mkdir()
    (tmp_path / "out.old-12345678" / MARK).write_text("{}")

    OutputDirectory(None, str(tmp_path / "out")).check()

    assert (tmp_path / "out" / MARK).read_text() == "{}"


@pytest.mark.parametrize("cut", [KeyboardInterrupt, RecordsLost, OSError(28, "No space left")])
def test_an_audit_that_is_cut_short_leaves_the_former_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: Any
) -> None:
    """And nothing beside them; Ctrl-C ends with 130, all else in a sentence with 2."""
    trace = write(tmp_path / "t.ndjson", texts(1))
    audit(tmp_path / "out", trace)
    before = (tmp_path / "out" / MARK).read_bytes()

    def ends(_: pa.Table, where: str) -> None:
        Path(where).write_bytes(b"begun")
        raise cut

    monkeypatch.setattr(pq, "write_table", ends)
    done = command_line("audit", trace, "--out", tmp_path / "out")

    assert done.exit_code == (130 if cut is KeyboardInterrupt else 2)
    assert (tmp_path / "out" / MARK).read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"t.ndjson", "out"}


def test_a_record_that_is_lost_ends_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was counted before is counted again where it comes out."""
    trace = write(tmp_path / "t.ndjson", texts(1))
    whole = records

    def without_one(sources: Sources, left: list[int] = [1, 0]) -> Iterator[Any]:  # noqa: B006
        found = list(whole(sources))
        yield from found[left.pop() :]

    monkeypatch.setattr(here, "records", without_one)

    with pytest.raises(RecordsLost, match="records went in"):
        audit(tmp_path / "out", trace)
    assert not (tmp_path / "out").exists()


def test_what_was_counted_is_summed_up_by_run() -> None:
    """Lines of no group once; groups of no run are what nobody could read."""
    zero = {"protocol": "p", "run": "r", "shared": 2, "set_aside": 0, "seconds": 0.5}
    rows = [
        {**zero, "group": "b", "lines": 3, "set_aside": 1}, {**zero, "group": None, "lines": 2},
        {**zero, "group": "a", "lines": 4, "shared": 1},
        {**zero, "protocol": None, "run": None, "group": None, "lines": 5, "set_aside": 5},
    ]  # fmt: skip

    nobodys, run = counts_of(rows)

    assert (nobodys["protocol"], nobodys["lines"], nobodys["least_shared"]) == (None, 5, None)
    assert run == {
        "protocol": "p", "run": "r", "lines": 9, "set_aside": 1, "shared": 2, "least_shared": 1,
        "most_shared": 2, "groups": 2,
    }  # fmt: skip


# ── What Spark says aside ───────────────────────────────────────────────────────────────────


class Begun:
    """A session that does nothing."""

    def stop(self) -> None:
        """End it."""


@pytest.mark.parametrize(("fails", "said"), [(True, b"why"), (True, b""), (False, b"noise")])
def test_what_spark_says_aside_is_kept_and_told_where_a_job_fails(
    monkeypatch: pytest.MonkeyPatch, fails: bool, said: bytes
) -> None:
    """A file that nobody needs is deleted."""
    files = []

    def begun(_name: str, _master: Any, _settings: Any, aside: Any) -> Begun:
        aside.write(said)
        aside.flush()
        files.append(Path(aside.name))
        return Begun()

    monkeypatch.setattr(session, "spark_session", begun)
    notes: list[str] = []
    try:
        with session.spark_job("test"):
            if fails:
                raise NoSource("nothing")
    except NoSource as problem:
        notes = getattr(problem, "__notes__", [])

    (file,) = files
    kept = fails and bool(said)
    assert file.exists() == kept
    assert notes == ([f"What Spark said aside is in {file}"] if kept else [])
    file.unlink(missing_ok=True)


def test_the_file_is_named_behind_the_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the error stream, as all that is said of what fails."""

    def ends(*_: Any, **__: Any) -> None:
        problem = NoSource("nothing came")
        problem.add_note("What Spark said aside is in a file")
        raise problem

    monkeypatch.setattr(session, "spark_session", ends)
    trace = write(tmp_path / "t.ndjson", texts(1))

    done = command_line("audit", trace, "--out", tmp_path / "out", "--spark", "local[1]")

    assert done.exit_code == 2
    assert done.stderr == "herdproof: nothing came\nWhat Spark said aside is in a file\n"


# ── By several processes ────────────────────────────────────────────────────────────────────


def test_processes_write_the_tables_that_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files in several parts, in which something is broken, twice, and missing."""
    monkeypatch.setattr(text_files, "PART_BYTES", 20_000)
    told = [text for seed in SEEDS for text in texts(seed)]
    again = [text.encode() for text in (told[7], told[-1])]
    traces = tmp_path / "traces"
    traces.mkdir()
    write(traces / "most.ndjson", told[:100] + told[101:])
    (traces / "zzz.jsonl").write_bytes(b"\n".join([*BROKEN, *again]))
    sources = find_sources([str(traces)])
    assert fits_processes(sources)

    alone = audit(tmp_path / "alone", traces, replay=True)
    job = AuditByProcesses(protocol_work(), processes=2)
    together = job.run(sources, OutputDirectory(None, str(tmp_path / "together")))

    assert tables_in(tmp_path / "together") == tables_in(tmp_path / "alone")
    assert {**together.as_json(), "seconds": {}} == {**alone.as_json(), "seconds": {}}
    assert together.records == len(told) + len(BROKEN) + 1


def test_what_fails_in_a_process_fails_the_audit(tmp_path: Path) -> None:
    """The same error, and no tables."""
    write(tmp_path / "t.ndjson", texts(3))
    work = replace(protocol_work(), judge=broken_judge)
    job = AuditByProcesses(work, processes=2)

    with pytest.raises(ArithmeticError, match="a judge that fails"):
        job.run(
            find_sources([str(tmp_path / "t.ndjson")]), OutputDirectory(None, str(tmp_path / "out"))
        )

    assert not (tmp_path / "out" / MARK).exists()


def broken_judge(*_: Any, **__: Any) -> Any:
    """A judge that does not."""
    raise ArithmeticError("a judge that fails")


def test_text_files_of_this_machine_are_for_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed files, Parquet, topics and logs are not, nor is more than is held in memory."""
    trace = str(write(tmp_path / "t.ndjson", texts(3)))

    assert fits_processes(Sources((trace,)))
    assert not fits_processes(Sources((f"{trace}.gz",)))
    assert not fits_processes(Sources((f"{trace}.bz2",)))
    assert not fits_processes(Sources(("s3a://traces/t.ndjson",)))
    assert not fits_processes(Sources((trace,), parquet=("t.parquet",)))
    assert not fits_processes(Sources((trace,), topic=Topic("localhost:1", "lines")))
    assert not fits_processes(Sources((trace,), segments=(str(tmp_path),)))
    monkeypatch.setattr(processes, "BYTES_MOST", 1000)
    assert not fits_processes(Sources((trace,)))
