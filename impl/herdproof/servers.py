"""
The base of all embedded services: other people's servers, run as child processes.

A directory for their data and logs, signals (a crash, a pause), a wait until they serve, and an end
that comes even if their owner dies by `kill -9` (see `herdproof.supervisor`).
"""

from __future__ import annotations

import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from herdproof.errors import WorldError
from herdproof.supervisor import Supervisor

LOOK_EVERY_S = 0.02


class ServerFailed(WorldError):
    """A server ended, or did not become ready in time; the message ends with its last log lines."""


class Embedded(ABC):
    """The base of what runs from `start` to `stop`, or within a `with`."""

    @abstractmethod
    def start(self) -> Self:
        """Begin, and wait until it serves."""

    @abstractmethod
    def stop(self) -> None:
        """End it, and leave nothing behind."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class Servers:
    """
    Running servers, each known by a name, with a home `directory/name` for its data and its log.

    `kind` is what an error calls one of them: "ZooKeeper server". `directory` is kept; without
    one, they get a temporary directory, which goes when they are closed, or when their owner dies.
    """

    def __init__(self, kind: str, directory: Path | None = None) -> None:
        self._kind = kind
        if directory is None:
            service = kind.partition(" ")[0].lower()
            self.directory = Path(tempfile.mkdtemp(prefix=f"herdproof-{service}-"))
        else:
            directory.mkdir(parents=True, exist_ok=True)
            self.directory = directory.resolve()
        self._minder = Supervisor(remove=self.directory if directory is None else None)
        self._paused: set[str] = set()

    def close(self) -> None:
        """Kill all servers and remove the temporary directory."""
        self._minder.close()

    def home(self, name: str) -> Path:
        """A server's directory, which stands when this returns."""
        home = self.directory / name
        home.mkdir(exist_ok=True)
        return home

    def launch(self, name: str, command: Sequence[str]) -> None:
        """Start a server's process; what it prints is appended to `server.log` in its home."""
        self._minder.start(name, command, self.home(name) / "server.log")

    def kill(self, name: str) -> None:
        """End a server at once (SIGKILL), as a crash would; it is gone when this returns."""
        self._minder.signal(name, signal.SIGKILL)
        self._paused.discard(name)

    def ask_to_end(self, name: str) -> None:
        """Let a server end by itself (SIGTERM), as an operator would."""
        self._minder.signal(name, signal.SIGTERM)

    def pause(self, name: str) -> None:
        """Stop a server in its tracks (SIGSTOP): its connections stay, nothing answers."""
        self._minder.signal(name, signal.SIGSTOP)
        self._paused.add(name)

    def resume(self, name: str) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._minder.signal(name, signal.SIGCONT)
        self._paused.discard(name)

    def alive(self, name: str) -> bool:
        """Tells whether the server's process runs (or is paused)."""
        return self._minder.ended(name) is None

    def paused(self, name: str) -> bool:
        """Tells whether the server is paused."""
        return name in self._paused

    def await_ready(
        self, names: Sequence[str], ready: Callable[[str], bool], timeout_s: float
    ) -> None:
        """Wait until each of these is ready; raises `ServerFailed`, at once if one has ended."""

        def all_ready() -> bool:
            dead = next((name for name in names if not self.alive(name)), None)
            if dead is not None:
                raise ServerFailed(f"{self._kind} {dead} ended at once:{self._last_lines(dead)}")
            return all(ready(name) for name in names)

        if not eventually(all_ready, timeout_s):
            silent = next((name for name in names if not ready(name)), names[0])
            raise ServerFailed(
                f"{self._kind} {silent} did not serve within {timeout_s:g} s "
                f"(a loaded machine may need a larger timeout_s):{self._last_lines(silent)}"
            )

    def _last_lines(self, name: str) -> str:
        """The end of a server's log, on lines of its own, without Java's lists of callers."""
        log = self.directory / name / "server.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("at ")]
        return "".join(f"\n  {line}" for line in lines[-8:] or ["(its log is empty)"])


def eventually(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Ask every 20 ms until it holds; `False` if it did not in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True
