"""The command line on a real ZooKeeper: electors, their traces, their end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from herdproof.cli.run.kafka import topic_of
from herdproof.conformance.traces.replay import conform_files
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.protocols.election.real.runs import DISTURBANCES, run
from herdproof.protocols.election.traces.trace_map import TRACES
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdspec.check.conformance.conform import Verdict
from herdspec.language.errors import UsageError
from herdspec.protocols.election.flaws import AT_ONCE

COMMAND = [sys.executable, "-c", "from herdproof.cli import app; app()"]

SUPERVISORS_PATIENCE_S = 20.0
"""The `TimeoutStopSec` of the unit file in docs, after which systemd kills."""

pytestmark = pytest.mark.real


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until it is told to end; it is killed if it has not ended by then."""
    whole = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(
        whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a command prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Send a signal; the exit code, and what was still printed."""
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def completed(*arguments: str | Path) -> tuple[int, str]:
    """A command's exit code and what it printed."""
    whole = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_brokers_elect_resign_and_conform(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """One leads and resigns on Ctrl-C, one follows; their traces conform, a changed one not."""
    root = f"/cli-{os.getpid()}"
    paths = ("--leader-path", f"{root}/leader", "--epoch-path", f"{root}/epoch")
    common = ("elect", "--zookeeper", zookeeper.hosts, *paths)
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"

    with started(*common, "--broker", "a", "--trace", first) as a:
        assert line_of(a) == "elected epoch=1"
        with started(*common, "--broker", "b", "--trace", second, "--json") as b:
            assert ended(a, signal.SIGINT) == (130, "deposed epoch=1\n", "")
            assert json.loads(line_of(b)) == {"broker": "b", "event": "elected", "epoch": 2}
            code, told, complaints = ended(b, signal.SIGTERM)
    assert (code, json.loads(told)["event"], complaints) == (0, "deposed", "")

    assert completed("conform", first, second)[0] == 0
    second.write_text(re.sub(r'"token":2', '"token":3', second.read_text(), count=1))
    code, told = completed("conform", first, second, "--complete")
    assert code == 1
    assert "handle_create(b)" in told
    code, told = completed("conform", first, second)
    assert code == 3  # a's last lines may be missing, as far as anybody knows
    assert "Unknown: of a, what came after its last line." in told


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_zookeeper_ends_quietly(number: signal.Signals, code: int) -> None:
    """`herdproof zookeeper` prints its address, and on a signal it is gone without a word."""
    with started("zookeeper") as command:
        host, _, port = line_of(command).partition(":")
        with socket.create_connection((host, int(port)), timeout=5):
            pass

        assert ended(command, number)[:2] == (code, "")

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.parametrize("service", [("coordinator",), ("broker", "--topic", "orders:1")])
def test_a_service_that_reaches_no_zookeeper_ends_at_once(service: tuple[str, ...]) -> None:
    """Its supervisor's SIGTERM is not kept waiting until it has given ZooKeeper up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        command = (*service, "--zookeeper", hosts, "--broker-id", "1", "--port", "0")
        with started(*command) as running:
            silent.accept()[0].close()  # it has begun to connect
            begun = time.monotonic()

            code = ended(running, signal.SIGTERM)[0]

    assert code == 0
    assert time.monotonic() - begun < SUPERVISORS_PATIENCE_S


def test_a_kafka_has_the_topics_that_were_asked_for() -> None:
    """`herdproof kafka` prints both addresses, has its topics, and is gone after a signal."""
    with started("kafka", "--topic", "orders:3") as command:
        names, addresses = zip(*(line_of(command).split("=") for _ in range(2)), strict=True)
        assert names == ("kafka", "zookeeper")
        assert Topics(addresses[0]).partitions() == {"orders": 3}

        assert ended(command, signal.SIGTERM)[:2] == (0, "")

    for host, _, port in (address.partition(":") for address in addresses):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.long
def test_a_kafka_that_is_kept_is_there_again(tmp_path: Path) -> None:
    """`--keep`: killed amid its work, and started there anew, it has the same place and records."""
    asked = ("kafka", "--keep", tmp_path / "kept", "--topic", "orders:2")
    with started(*asked) as command:
        first = [line_of(command) for _ in range(2)]
        topics = Topics(first[0].partition("=")[2])
        written = topics.produce("orders", [TopicRecord(b"%d" % n, None, n % 2) for n in range(50)])
        ended(command, signal.SIGKILL)
    with started(*asked, "--topic", "more:1") as command:
        assert [line_of(command) for _ in range(2)] == first
        assert sorted(each.value for each in topics.read("orders")) == sorted(
            each.value for each in written
        )
        assert topics.partitions() == {"orders": 2, "more": 1}
        assert ended(command, signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("topic", ["orders", "orders:", ":3", "orders:0", "orders:x"])
def test_a_topic_that_cannot_be_is_refused(topic: str) -> None:
    """A topic without a name or a number of partitions is refused before anything starts."""
    with pytest.raises(UsageError, match="write NAME:PARTITIONS"):
        topic_of(topic)


def test_disturbed_brokers_conform(tmp_path: Path) -> None:
    """What `verify` runs: leaders are disturbed in every way, and the traces conform."""
    told: list[int] = []

    runs = run(tmp_path, 2 * len(DISTURBANCES), told.append)
    outcome = conform_files(runs.traces, TRACES, failing=AT_ONCE)

    assert told == [1, 2, 3, 4, 5, 6]
    assert runs.epochs == sorted(runs.epochs)
    assert outcome.verdict is Verdict.CONFORMS, outcome.mismatch
    assert outcome.matched == outcome.lines
    assert {"expire", "cut", "write", "handle_new_session"} <= outcome.covered
