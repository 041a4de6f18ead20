"""
Records that nobody can judge leave an audit open, also where no gap in numbers tells of them.

The last line of a process has none after it: cut off, or of a version to come, it is in quarantine
alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from herdproof.pipeline.spark.tables import TABLES
from properties.cli.files import run as command_line
from properties.pipeline.pipeline_traces import run_of

HOLDS = 1
"""The seed of a run that holds."""


def cut(last: str) -> str:
    """The line as its writer left it that was killed."""
    return last[:-10]


def of_the_future(last: str) -> str:
    """The line of a version that is not known yet."""
    return last.replace('"schema":2', '"schema":3')


@pytest.mark.parametrize("spoilt", [cut, of_the_future])
def test_a_last_line_that_cannot_be_read_is_unknown(
    tmp_path: Path, spoilt: Callable[[str], str]
) -> None:
    """In the exit code, in JSON and in the last sentence; so says the report of its tables."""
    *lines, last = [line.written() for line in run_of(HOLDS)]
    trace, out = tmp_path / "trace.ndjson", tmp_path / "out"
    trace.write_text("\n".join([*lines, last]))
    whole = command_line("audit", str(trace), "--out", str(out))

    trace.write_text("\n".join([*lines, spoilt(last)]))
    audited = command_line("audit", str(trace), "--out", str(out), "--json", "-")
    reported = command_line("report", str(out), "--json", "-")

    assert (whole.exit_code, audited.exit_code, reported.exit_code) == (0, 3, 3)
    told = json.loads(audited.stdout)
    assert told["exit"] == 3
    assert sum(told["quarantined"].values()) == 1
    assert json.loads(reported.stdout)["worst"] == "unknown"


def test_a_time_beyond_64_bits_is_not_known() -> None:
    """So long before a line of the least time there is, another one may be said to have been."""
    rows = [{"run": "r", "time_ns": at} for at in (-(2**63) - 1, 2**63, 2**63 - 1)]

    times = TABLES["quarantine"].filled(rows)["time_ns"].to_pylist()

    assert times == [None, None, 2**63 - 1]


def test_what_a_directory_holds_besides_is_told(tmp_path: Path) -> None:
    """Links to nothing, hidden traces; and the tables of an audit before are no lines."""
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "a.ndjson").write_text("".join(f"{x.written()}\n" for x in run_of(HOLDS)))
    (traces / "gone.ndjson").symlink_to(tmp_path / "nothing")
    (traces / ".hidden.ndjson").write_text("{}\n")
    (traces / ".hidden").write_text("\n")
    command_line("audit", str(traces), "--out", str(traces / "audited"))

    again = command_line("audit", str(traces), "--out", str(tmp_path / "out"))

    assert again.exit_code == 0, again.output
    told = again.stderr.replace("\n", "")
    for name in ("gone.ndjson", ".hidden.ndjson", "audited (tables of an audit)"):
        assert str(traces / name) in told
    assert told.count("left out") == 3
