"""
A trace's file, which is no reason for what is traced to fail: a full disk, a deleted file.

A line that cannot be written is left out whole; its number is missing, which readers notice. It is
logged once, and again when lines are written again.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""The period in which it is seen whether the file still stands."""


class TraceFile(io.TextIOBase):
    """Appends lines to a file, each in one write; raises `OSError` only where it is opened."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._looked_s = clock()
        self._left_out = 0
        self._lock = threading.Lock()
        self._file = opened(path)

    def write(self, text: str) -> int:
        """Append this, or nothing of it."""
        with self._lock:
            try:
                self._look()
                append(self._file, text.encode())
            except OSError as problem:
                self._leave_out(problem)
            else:
                self._go_on()
        return len(text)

    def close(self) -> None:
        """Write no more."""
        if not self.closed:
            self._file.close()
        super().close()

    def _look(self) -> None:
        """Begin a new file where somebody has deleted this one."""
        now = self._clock()
        if now - self._looked_s < LOOK_S and not self._left_out:
            return
        self._looked_s = now
        if os.fstat(self._file.fileno()).st_nlink:
            return
        new = opened(self._path)
        self._file.close()
        self._file = new
        log.warning(
            "The trace %s was deleted, and what it told is lost: it is begun anew.", self._path
        )

    def _leave_out(self, problem: OSError) -> None:
        if not self._left_out:
            log.error(
                "The trace %s cannot be written (%s): its lines are left out until it can.",
                self._path, problem.strerror or problem,
            )  # fmt: skip
        self._left_out += 1

    def _go_on(self) -> None:
        if self._left_out:
            log.warning(
                "The trace %s is written again; %d lines were left out.", self._path, self._left_out
            )
            self._left_out = 0


def opened(path: Path) -> io.FileIO:
    """The file, to append to; a last line that was cut off is ended first."""
    file = io.FileIO(path, "a")
    try:
        if os.fstat(file.fileno()).st_size:
            with path.open("rb") as present:
                present.seek(-1, io.SEEK_END)
                if present.read(1) != b"\n":
                    append(file, b"\n")
    except BaseException:
        file.close()
        raise
    return file


def append(file: io.FileIO, data: bytes) -> None:
    """Append all of this or, raising `OSError`, nothing."""
    written = file.write(data)
    if written == len(data):
        return
    end = os.fstat(file.fileno()).st_size - (written or 0)
    try:
        rest = data[written or 0 :]
        if file.write(rest) != len(rest):
            raise OSError("only a part of a line could be written")
    except OSError:
        os.ftruncate(file.fileno(), end)
        raise
