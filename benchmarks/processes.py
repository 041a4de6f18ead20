"""
The processes that a benchmark starts, what they use, and where they meet: a part of ZooKeeper.

What is imported of ours is so within functions: `environment.enter` comes first.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from herdproof.minder import Minder

COORDINATOR = [sys.executable, "-c", "from herdproof.cli import app; app()", "coordinator"]
LISTENING = "listening "
"""What a coordinator says once it can be consulted, and where."""
START_S = 30.0

BEGUN = time.perf_counter()

Figures = dict[str, Any]


class NoFigures(Exception):
    """Something could not be measured, and why."""


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


def process_of(last_argument: Path) -> Process:
    """The process whose command ends with this file: a server's, with its settings."""
    wanted, found = str(last_argument).encode(), []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it may have just ended
            if command.read_bytes().rstrip(b"\0").endswith(wanted):
                found.append(int(command.parent.name))
    return Process(max(found))


def rates(processes: list[Process], seconds: float) -> list[float]:
    """How much of one core each process takes over the next seconds."""
    since, before = time.monotonic(), [process.cpu_seconds() for process in processes]
    time.sleep(seconds)
    passed = time.monotonic() - since
    used = [process.cpu_seconds() for process in processes]
    return [(end - begin) / passed for begin, end in zip(before, used, strict=True)]


class Coordinator:
    """One of ours, which has begun to start: `zookeeper` is its part of ZooKeeper."""

    def __init__(
        self, minder: Minder, folder: Path, zookeeper: str, broker_id: int = 1,
        session_ms: int = 10_000,
    ) -> None:  # fmt: skip
        self._minder, self._name = minder, str(broker_id)
        settings, self._log = folder / f"{broker_id}.toml", folder / f"{broker_id}.log"
        settings.write_text(
            f"[coordinator]\nleadership_lease_ms = {min(session_ms, 4_000)}\n"
            f"[zookeeper]\nsession_timeout_ms = {session_ms}\n"
        )
        options = {
            "--config": settings, "--zookeeper": zookeeper, "--broker-id": broker_id, "--port": 0,
        }  # fmt: skip
        command = [*COORDINATOR, *(str(word) for option in options.items() for word in option)]
        self.process = Process(minder.start(self._name, command, self._log))

    def address(self) -> str:
        """Where it listens; waits until it can be consulted."""
        deadline = time.monotonic() + START_S
        while not (told := [line for line in self._lines() if line.startswith(LISTENING)]):
            if time.monotonic() > deadline or self._minder.ended(self._name) is not None:
                give_up("\n".join(("the coordinator did not start:", *self._lines())))
            time.sleep(0.02)
        return told[0].removeprefix(LISTENING)

    def leads(self) -> bool:
        """Whether it was elected."""
        return any("coordinator_startup" in line for line in self._lines())

    def kill(self) -> None:
        """End it by `kill -9`; it is gone when this returns."""
        self._minder.signal(self._name, signal.SIGKILL)

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines()


# ── ZooKeeper ───────────────────────────────────────────────────────────────────────────────


def make_part(
    hosts: str, name: str, topic: str, partitions: int, broker: tuple[str, int] | None = None
) -> str:
    """A part of ZooKeeper with a topic and its broker, as Kafka writes them; its address."""
    from herdproof.zookeeper.client import Client
    from herdproof.zookeeper.operations import Create

    nodes = {"": b"", "/brokers": b"", "/brokers/ids": b"", "/brokers/topics": b""}
    with Client(hosts, session_timeout_s=10.0, on_link=ignore, on_watch=ignore) as client:
        for path, data in nodes.items():
            client.perform(Create(f"/{name}{path}", data))
        client.perform(Create(f"/{name}/brokers/topics/{topic}", described(partitions)))
        if broker is not None:
            said = {"version": 1, "host": broker[0], "port": broker[1], "timestamp": "0"}
            data = json.dumps({**said, "jmx_port": -1}).encode()
            client.perform(Create(f"/{name}/brokers/ids/1", data))
    return f"{hosts}/{name}"


def described(partitions: int) -> bytes:
    """What a topic's node says: so many partitions, all on the broker 1."""
    return json.dumps(
        {"version": 1, "partitions": {str(n): [1] for n in range(partitions)}}
    ).encode()


@contextmanager
def minded() -> Iterator[tuple[Minder, Path]]:
    """What starts processes and ends them, and a folder for their files."""
    from herdproof.minder import Minder

    with TemporaryDirectory(prefix="herdproof-benchmark-") as folder:
        minder = Minder()
        try:
            yield minder, Path(folder)
        finally:
            minder.close()


def ignore(*_: object) -> None:
    """Who is told what nobody here wants to know."""


# ── What is said ────────────────────────────────────────────────────────────────────────────


def attempt(measure: Callable[..., Figures], *arguments: object) -> Figures:
    """One measurement; {"failed": why} where it failed, so that the others are not lost."""
    try:
        return measure(*arguments)
    except NoFigures as why:
        tell(f"FAILED: {measure.__name__}: {why}")
        return {"failed": str(why)}


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


def give_up(why: str) -> NoReturn:
    """End with a sentence."""
    raise SystemExit(f"benchmarks/{Path(sys.argv[0]).name}: {why}")


def keep_house() -> None:
    """SystemExit where other processes cannot be looked at; an end by SIGTERM is like any other."""
    if not Path("/proc/self/status").exists():
        give_up("it reads what other processes use from /proc, which only Linux has")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def print_figures(figures: Figures, summary: Iterator[str], as_json: bool) -> None:
    """Print them for machines or for people; SystemExit where a measurement failed."""
    print(json.dumps(figures) if as_json else "\n".join(summary))
    if any(isinstance(found, dict) and "failed" in found for found in figures.values()):
        raise SystemExit(1)
