"""A trace's file in trouble: what is traced goes on, and its operator hears of it once."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.traces import file
from herdproof.conformance.traces.file import LOOK_S, TraceFile
from herdproof.conformance.traces.tracer import Tracer, open_trace

FULL = Path("/dev/full")

needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full on this system")


class Clocked:
    """A trace's file, and the time, which is the test's."""

    def __init__(self, path: Path) -> None:
        self.now = 100.0
        self.path = path
        self.trace = TraceFile(path, lambda: self.now)

    def write(self, text: str) -> str:
        """Write a line a while later; all that stands then."""
        self.now += 2 * LOOK_S
        self.trace.write(f"{text}\n")
        return self.path.read_text() if self.path.exists() else ""


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, without tracebacks: there is none."""
    assert not any(record.exc_info for record in caplog.records)
    return [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


@needs_full
def test_a_full_disk_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever traces goes on, however many lines are left out."""
    with Tracer("Lease", "server", TraceFile(FULL)) as tracer:  # type: ignore[arg-type]
        for _ in range(100):
            tracer.step("grant")

    [line] = said(caplog)
    assert "/dev/full cannot be written (No space left on device)" in line


def test_lines_that_can_be_written_again_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was left out is counted; no line stands there by half."""
    clocked = Clocked(tmp_path / "trace")
    clocked.write("first")

    def full(_file: io.FileIO, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file, "append", full)
        assert clocked.write("second") == clocked.write("third") == "first\n"

    assert clocked.write("fourth") == "first\nfourth\n"
    assert [line.partition(" cannot")[0].partition(" is written")[2] for line in said(caplog)] == [
        "", " again; 2 lines were left out.",
    ]  # fmt: skip


def test_a_deleted_trace_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is noticed, and said; what comes then is written."""
    clocked = Clocked(tmp_path / "trace")
    clocked.write("first")
    clocked.path.unlink()

    assert clocked.write("second") == "second\n"
    assert clocked.write("third") == "second\nthird\n"
    [line] = said(caplog)
    assert "trace was deleted, and what it told is lost" in line


def test_a_trace_whose_folder_is_deleted_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be begun there; once the folder stands again, the trace goes on."""
    folder = tmp_path / "folder"
    folder.mkdir()
    clocked = Clocked(folder / "trace")
    clocked.path.unlink()
    folder.rmdir()
    assert clocked.write("first") == clocked.write("second") == ""

    folder.mkdir()

    assert clocked.write("third") == "third\n"
    assert [line.split(":")[0].rpartition("/")[2] for line in said(caplog)] == [
        "trace cannot be written (No such file or directory)",
        "trace was deleted, and what it told is lost",
        "trace is written again; 2 lines were left out.",
    ]  # fmt: skip


class Narrow(io.FileIO):
    """A file on a disk that has room for so many bytes."""

    room = 8

    def write(self, data: Any, /) -> int:
        """Write what there is room for."""
        if not self.room:
            raise OSError(28, "No space left on device")
        part = bytes(data)[: self.room]
        self.room -= len(part)
        return super().write(part)


def test_a_line_for_which_there_is_no_room_leaves_nothing(tmp_path: Path) -> None:
    """What was written of it is taken back: no reader finds half a line amid a trace."""
    path = tmp_path / "trace"
    with Narrow(path, "a") as narrow:
        file.append(narrow, b"first\n")
        with pytest.raises(OSError, match="No space left"):
            file.append(narrow, b"second\n")

    assert path.read_bytes() == b"first\n"


def test_a_trace_is_opened_or_refused(tmp_path: Path) -> None:
    """A line that was cut off is ended; and where nothing can be written, that is said at once."""
    path = tmp_path / "trace"
    path.write_bytes(b"whole\ncut")
    with open_trace(path) as stream:
        stream.write("next\n")
    assert path.read_text() == "whole\ncut\nnext\n"
    assert stream.closed

    with pytest.raises(OSError, match=os.strerror(2)):
        open_trace(tmp_path / "nowhere" / "trace")
