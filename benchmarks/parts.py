"""
What benchmarks start and look at beside servers: a part of ZooKeeper, processes by their command.

What is imported of ours is so within functions: `environment.enter` comes first.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NoReturn

from benchmarks.processes import HERDPROOF, Figures, NoFigures, Process, Started, tell

if TYPE_CHECKING:
    from herdproof.supervisor import Supervisor


def process_of(last_argument: Path) -> Process:
    """The process whose command ends with this file: a server's, with its settings."""
    wanted, found = str(last_argument).encode(), []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it may have just ended
            if command.read_bytes().rstrip(b"\0").endswith(wanted):
                found.append(int(command.parent.name))
    return Process(max(found))


def coordinator(minder: Supervisor, folder: Path, zookeeper: str) -> Started:
    """A coordinator of ours, which has begun to start beside the broker of a part of ZooKeeper."""
    options = ["--zookeeper", zookeeper, "--broker-id", "1", "--port", "0"]
    command = [*HERDPROOF, "coordinator", *options]
    return Started(minder, "coordinator", command, folder / "coordinator.log")


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
def minded() -> Iterator[tuple[Supervisor, Path]]:
    """What starts processes and ends them, and a folder for their files."""
    from herdproof.supervisor import Supervisor

    with TemporaryDirectory(prefix="herdproof-benchmark-") as folder:
        minder = Supervisor()
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
