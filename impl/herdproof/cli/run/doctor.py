"""`herdproof doctor`: what is installed, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from herdproof.errors import HerdError
from herdproof.java import OLDEST_JAVA, find_java
from herdproof.report.render import Output
from herdproof.zookeeper.jars import zookeeper_jars

OLDEST_PYTHON = (3, 11)
DOCKER_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Finding:
    """One line: what was looked for, whether it is there, and its version or what to do."""

    name: str
    there: bool
    said: str
    needed: bool = True


def doctor(
    json_lines: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each.")
    ] = False,
) -> None:
    """Say what is installed and what is missing. It exits 0 if `make verify` can run."""
    import json

    out = Output()
    findings = [examine() for examine in EXAMINATIONS]
    for f in findings:
        if json_lines:
            print(json.dumps(f.__dict__, ensure_ascii=False))
            continue
        mark, colour = ("✔", "green") if f.there else ("✗", "red") if f.needed else ("–", "yellow")
        out.line(f"{mark} {f.name}: {f.said}", style=colour if not f.there else None)
    raise typer.Exit(0 if all(f.there for f in findings if f.needed) else 1)


def python() -> Finding:
    """The Python that runs this."""
    version = ".".join(map(str, sys.version_info[:3]))
    there = sys.version_info[:2] >= OLDEST_PYTHON
    wanted = ".".join(map(str, OLDEST_PYTHON))
    said = version if there else f"{version} is too old: install Python {wanted} or newer"
    return Finding("Python", there, said)


def java() -> Finding:
    """A Java that ZooKeeper runs on."""
    try:
        found = find_java()
    except HerdError as error:
        return Finding(f"Java ≥ {OLDEST_JAVA}", False, str(error))
    return Finding(f"Java ≥ {OLDEST_JAVA}", True, f"{found.version}, {found.path}")


def jars() -> Finding:
    """The jars of a ZooKeeper server."""
    try:
        found = zookeeper_jars()
    except HerdError as error:
        return Finding("ZooKeeper's jars", False, str(error))
    named = [re.fullmatch(r"zookeeper-(\d.*)", jar.stem) for jar in found]
    version = next((name[1] for name in named if name), "?")
    return Finding("ZooKeeper's jars", True, f"ZooKeeper {version}, in {found[0].parent}")


def kafka() -> Finding:
    """The jars of a Kafka broker: fetched when they are first needed."""
    from herdproof.kafka.jars import VERSION, kafka_folder, kept_jars

    if kept_jars() is None:
        said = f"not fetched yet; `herdproof kafka` does so, once, into {kafka_folder()}"
        return Finding("Kafka's jars", False, said, needed=False)
    return Finding("Kafka's jars", True, f"Kafka {VERSION}, in {kafka_folder()}", needed=False)


def library(distribution: str, purpose: str, needed: bool = True) -> Callable[[], Finding]:
    """A library of Python's, by the name that pip knows it by."""

    def examine() -> Finding:
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            said = f"missing, {purpose}: run `pip install {distribution}`"
            return Finding(distribution, False, said, needed)
        return Finding(distribution, True, version, needed)

    return examine


def docker() -> Finding:
    """A Docker engine: nice to have, `make verify` does without."""
    without = "`make test` then runs the services as child processes"
    if shutil.which("docker") is None:
        return Finding("Docker engine", False, f"no docker command; {without}", needed=False)
    ask = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        asked = subprocess.run(ask, capture_output=True, text=True, timeout=DOCKER_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Docker engine", False, f"{error}; {without}", needed=False)
    if asked.returncode:
        said = f"none answers (start it, or let this user use it); {without}"
        return Finding("Docker engine", False, said, needed=False)
    return Finding("Docker engine", True, asked.stdout.strip(), needed=False)


def loopback() -> Finding:
    """The finding on whether a server can listen on this machine's loopback."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            probe.listen(1)
            port = probe.getsockname()[1]
    except OSError as error:
        said = f"nothing can listen on 127.0.0.1 ({error}): allow it, ZooKeeper is run there"
        return Finding("loopback port", False, said)
    return Finding("loopback port", True, f"127.0.0.1:{port} is free")


def temporary() -> Finding:
    """The finding on whether ZooKeeper's data have a place."""
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"herdproof")
            file.flush()
            folder = Path(file.name).parent
    except OSError as error:
        said = f"cannot be written to ({error}): free some space, or set TMPDIR"
        return Finding("temporary directory", False, said)
    return Finding("temporary directory", True, str(folder))


EXAMINATIONS: tuple[Callable[[], Finding], ...] = (
    python,
    java,
    jars,
    kafka,
    library("kazoo", "talks to ZooKeeper"),
    library("confluent-kafka", "reads Kafka's records", needed=False),
    library("numpy", "explores"),
    library("z3-solver", "proves"),
    library("scipy", "finds what need never come"),
    library("llvmlite", "explores large spaces", needed=False),
    library("cvc5", "proves again (`--recheck`)", needed=False),
    library("jinja2", "writes the page of `verify --html`", needed=False),
    library("watchfiles", "notices that a file is saved (`--watch`)", needed=False),
    loopback,
    temporary,
    docker,
)
"""Examinations, in their order."""
