"""Commands of `herdproof` that run beside a test, in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

COMMAND = [sys.executable, "-c", "from herdproof.cli import app; app()"]
PATIENCE_S = 30.0


class Command:
    """
    A running command, whose lines are read as they come; it is killed at the latest at the end.

    What it complains of goes to the file `complaints`.
    """

    def __init__(self, complaints: Path, *arguments: str) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        with complaints.open("w") as told:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=told, text=True
            )
        self._complaints = complaints
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def complaints(self) -> str:
        """What it has complained of so far."""
        return self._complaints.read_text()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def await_lines(self, count: int) -> list[str]:
        """Wait until it has printed so many lines; all that it has printed."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.lines) >= count, PATIENCE_S)
            assert came, f"{self.lines[-3:]} are the last of {len(self.lines)}; {self.complaints}"
            return list(self.lines)

    def await_line(self, text: str, patience_s: float = PATIENCE_S) -> str:
        """Wait until it has printed a line with this in it; that line."""

        def found() -> list[str]:
            return [line for line in self.lines if text in line]

        with self._changed:
            came = self._changed.wait_for(found, patience_s)
            assert came, f"no {text!r} in {self.lines[-3:]}; {self.complaints}"
            return found()[0]

    def await_complaint(self, text: str) -> None:
        """Wait until it has said this on stderr."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.complaints:
            assert time.monotonic() < deadline, f"no {text!r} in {self.complaints}"
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and wait for the end; its exit code."""
        self.send(number)
        code = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end; its exit code."""
        code = self._process.wait(patience_s)
        self._reader.join(PATIENCE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                with self._changed:
                    self.lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
