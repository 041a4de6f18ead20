"""
What benchmarks of running servers share: their processes, the load upon them, and what is said.

It needs nothing of the project's, and Linux, whose /proc tells what other processes use.
"""

from __future__ import annotations

import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from herdproof.kafka.embedded import EmbeddedKafka
    from herdproof.supervisor import Supervisor

HERDPROOF = [sys.executable, "-c", "from herdproof.cli import app; app()"]
LISTENING = "listening "
"""What a server of ours says once it can be asked, and where."""
LOAD = Path(__file__).resolve().parent / "rebalance_load.py"
START_S = 30.0
PATIENCE_S = 240.0
"""How long the load waits for anything; whoever waits for the load waits a little longer."""

BEGUN = time.perf_counter()

Figures = dict[str, Any]


class NoFigures(Exception):
    """Something could not be measured, and why."""


class Load:
    """The process of the members, which in its context form their groups at once."""

    def __init__(
        self, protocol: str, addresses: str, *, groups: int, members: int, more: int,
        interval_ms: int, session_ms: int,
    ) -> None:  # fmt: skip
        options = {
            "--groups": groups, "--members": members, "--more": more, "--interval-ms": interval_ms,
            "--session-ms": session_ms, "--patience": PATIENCE_S,
        }  # fmt: skip
        words = [str(word) for option in options.items() for word in option]
        self._command = [sys.executable, str(LOAD), protocol, addresses, *words]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        return self

    @cached_property
    def formed(self) -> Figures:
        """How the groups have formed; waits for that."""
        return self.answer()

    def __exit__(self, *_: object) -> None:
        """Close its stdin, so that the members leave; end it if it takes too long."""
        try:
            self._process.communicate(timeout=START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def ask(self, command: str) -> Figures:
        """Give a command, and wait for its answer."""
        assert self._process.stdin is not None, "it was asked for a pipe"
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Figures:
        """The next line of figures; `NoFigures` where the load says that something failed."""
        stdout = self._process.stdout
        assert stdout is not None, "it was asked for a pipe"
        ready, _, _ = select.select([stdout], [], [], PATIENCE_S + START_S)
        figures: Figures = json.loads(stdout.readline() or "{}") if ready else {}
        if "error" in figures or not figures:
            raise NoFigures(figures.get("error", "the load has ended, or hangs"))
        return figures


class Process:
    """What a running process has used so far."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cpu_seconds(self) -> float:
        """The CPU time of all its threads, those that have ended included."""
        # Linux makes the number of another process's CPU clock so (clock_getcpuclockid).
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident_bytes(self) -> int:
        """Its resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        [kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(kib) * 1024


class Started:
    """A server of ours that has begun to start; what it says goes to a file."""

    def __init__(self, minder: Supervisor, name: str, command: list[str], log: Path) -> None:
        self._minder, self._name, self._log = minder, name, log
        self.process = Process(minder.start(name, command, log))

    def address(self) -> str:
        """Where it listens; waits until it can be asked."""
        deadline = time.monotonic() + START_S
        while not (told := [line for line in self.lines() if line.startswith(LISTENING)]):
            if time.monotonic() > deadline or self._minder.ended(self._name) is not None:
                raise NoFigures("\n".join(("it did not start:", *self.lines())))
            time.sleep(0.02)
        return told[0].removeprefix(LISTENING)

    def kill(self) -> None:
        """End it by `kill -9`; it is gone when this returns."""
        self._minder.signal(self._name, signal.SIGKILL)

    def ask_to_end(self) -> None:
        """End it by SIGTERM; it may live for a while."""
        self._minder.signal(self._name, signal.SIGTERM)

    def pause(self) -> None:
        """Stop it in its tracks (SIGSTOP): its connections stand, and nothing answers."""
        self._minder.signal(self._name, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._minder.signal(self._name, signal.SIGCONT)

    def lines(self) -> list[str]:
        """What it has said so far."""
        return self._log.read_text().splitlines()


class Coordinator(Started):
    """
    One of ours, which has begun to start: `zookeeper` is its part of ZooKeeper.

    Its session there lasts for `session_ms`, or as long as by default.
    """

    def __init__(
        self, minder: Supervisor, folder: Path, zookeeper: str, broker_id: int = 1,
        session_ms: int | None = None,
    ) -> None:  # fmt: skip
        settings = folder / f"{broker_id}.toml"
        settings.write_text(
            ""
            if session_ms is None
            else f"[coordinator]\nleadership_lease_ms = {min(session_ms, 4_000)}\n"
            f"[zookeeper]\nsession_timeout_ms = {session_ms}\n"
        )
        options = {
            "--config": settings, "--zookeeper": zookeeper, "--broker-id": broker_id, "--port": 0,
        }  # fmt: skip
        command = [*HERDPROOF, "coordinator", *(str(w) for o in options.items() for w in o)]
        super().__init__(minder, str(broker_id), command, folder / f"{broker_id}.log")

    def leads(self) -> bool:
        """Whether it was elected."""
        return any("coordinator_startup" in line for line in self.lines())


def broker_process(kafka: EmbeddedKafka) -> Process:
    """Kafka's process: the one whose command names its settings."""
    settings = str(kafka.directory / str(kafka.broker_id) / "server.properties").encode()
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it may have just ended
            if command.read_bytes().rstrip(b"\0").endswith(settings):
                found.append(int(command.parent.name))
    return Process(max(found))


def rates(processes: list[Process], seconds: float) -> list[float]:
    """How much of one core each process takes over the next seconds."""
    since, before = time.monotonic(), [process.cpu_seconds() for process in processes]
    time.sleep(seconds)
    passed = time.monotonic() - since
    used = [process.cpu_seconds() for process in processes]
    return [(end - begin) / passed for begin, end in zip(before, used, strict=True)]


def machine() -> Figures:
    """Where it was measured."""
    return {
        "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "load": os.getloadavg()[0], "system": platform.platform(),
        "python": platform.python_version(),
    }  # fmt: skip


def tell(text: str) -> None:
    """Say on stderr what goes on, after how long."""
    print(f"{time.perf_counter() - BEGUN:5.0f} s: {text}", file=sys.stderr, flush=True)
