"""What `herdproof.zookeeper.embedded` promises: a quick, obedient, mortal ZooKeeper."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from herdproof.errors import HerdError
from herdproof.java import JarsMissing, JavaMissing, JavaTooOld
from herdproof.ports import PortInUse
from herdproof.servers import ServerFailed
from herdproof.supervisor import Supervisor
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdproof.zookeeper.operations import (
    Changed,
    Create,
    Created,
    Data,
    Exists,
    Found,
    Get,
    Link,
    Set,
    Sync,
    Synced,
)
from integration.clients import connected, eventually

pytestmark = pytest.mark.real

OWNER = """
import signal
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
zookeeper = EmbeddedZooKeeper().start()
zookeeper.pause(0)
print(zookeeper.hosts, zookeeper.directory, flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def ensemble() -> Iterator[EmbeddedZooKeeper]:
    """Three servers; each test leaves all of them running."""
    with EmbeddedZooKeeper(3, isolatable=True) as servers:
        yield servers


def test_it_is_ready_in_seconds(report: Callable[[str], None]) -> None:
    """When it has started, it serves; when it has stopped, its data and its port are gone."""
    began = time.monotonic()
    with EmbeddedZooKeeper() as server:
        report(f"embedded ZooKeeper: one server ready after {time.monotonic() - began:.2f} s")
        with connected(server.hosts) as client:
            assert client.perform(Create("/a")) == Created("/a")
        assert server.leader() == 0

    assert not server.directory.exists()
    assert not _listens(server.hosts)


def test_a_named_directory_keeps_its_data(tmp_path: Path) -> None:
    """With a directory of its own, it finds its nodes again."""
    with EmbeddedZooKeeper(directory=tmp_path) as server, connected(server.hosts) as client:
        client.perform(Create("/a", b"kept"))

    with EmbeddedZooKeeper(directory=tmp_path) as server, connected(server.hosts) as client:
        kept = client.perform(Get("/a"))

    assert isinstance(kept, Data)
    assert kept.data == b"kept"


def test_an_ensemble_outlives_its_leader(
    ensemble: EmbeddedZooKeeper, report: Callable[[str], None]
) -> None:
    """When the leader is killed, another server leads, sessions go on, and it may return."""
    leader = ensemble.leader()
    with connected(ensemble.hosts) as client:
        session = client.session
        client.perform(Create("/outlives", ephemeral=True))

        began = time.monotonic()
        ensemble.kill(leader)
        assert ensemble.leader() != leader
        report(f"embedded ZooKeeper: another of three led after {time.monotonic() - began:.2f} s")

        eventually(lambda: isinstance(client.perform(Exists("/outlives")), Found))
        assert client.session == session
        ensemble.restart(leader)
    assert sorted(str(ensemble.mode(server)) for server in range(3)) == [
        "follower",
        "follower",
        "leader",
    ]


def test_a_paused_server_answers_nobody_until_it_is_resumed(ensemble: EmbeddedZooKeeper) -> None:
    """A paused follower's clients lose their connection; resumed, it serves as before."""
    leader = ensemble.leader()
    follower = next(server for server in range(3) if server != leader)
    with connected(ensemble.server_hosts[follower], session_timeout_s=1.5) as client:
        ensemble.pause(follower)
        client.await_link(Link.SUSPENDED)
        assert ensemble.alive(follower)

        ensemble.resume(follower)

        client.await_link(Link.CONNECTED)
    eventually(lambda: ensemble.mode(follower) == "follower")


def test_a_follower_that_is_held_back_serves_stale_reads(ensemble: EmbeddedZooKeeper) -> None:
    """A lagging server answers with what it knows; a sync waits until it has caught up."""
    leader = ensemble.leader()
    follower = next(server for server in range(3) if server != leader)
    with (
        connected(ensemble.server_hosts[leader]) as writer,
        connected(ensemble.server_hosts[follower]) as reader,
    ):
        writer.perform(Create("/lag", b"old"))
        reader.perform(Sync())
        old = reader.perform(Get("/lag"))
        ensemble.hold_back(follower)

        assert isinstance(writer.perform(Set("/lag", b"new")), Changed)

        assert reader.perform(Get("/lag")) == old
        reader.ask(Sync(), Get("/lag"))
        assert reader.diary.answers == []
        ensemble.let_go(follower)
        eventually(lambda: len(reader.diary.answers) == 2)
        synced, new = reader.diary.answers
        assert synced == Synced()
        assert isinstance(new, Data)
        assert new.data == b"new"


def test_only_a_follower_of_an_isolatable_ensemble_can_be_held_back(
    ensemble: EmbeddedZooKeeper,
) -> None:
    """Holding back the leader, or a server without a proxy, is refused with what to do."""
    with pytest.raises(HerdError, match="only a follower"):
        ensemble.hold_back(ensemble.leader())
    with pytest.raises(HerdError, match="isolatable=True"):
        EmbeddedZooKeeper(3).hold_back(0)


def test_it_dies_with_an_owner_that_is_killed() -> None:
    """An owner that is killed takes its server along, even a paused one, and its data."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        hosts, directory = owner.stdout.readline().split()
        assert _listens(hosts)

        owner.kill()

    eventually(lambda: not Path(directory).exists())
    assert not _listens(hosts)


@pytest.mark.skipif(sys.platform != "linux", reason="a signal that only Linux has")
def test_children_die_with_a_minder_that_is_killed(tmp_path: Path) -> None:
    """A minder that is killed, which nobody should do, leaves no child behind either."""
    minder = Supervisor()
    child = minder.start("sleeper", ["sleep", "1000"], tmp_path / "log")
    assert Path(f"/proc/{child}").exists()

    minder._process.kill()

    minder.close()
    eventually(lambda: not _is_running(child))


def test_a_server_can_be_killed_and_restarted_on_its_data() -> None:
    """A killed server loses nothing that it confirmed; its clients come back with their session."""
    with EmbeddedZooKeeper() as server, connected(server.hosts, 40.0) as client:
        client.perform(Create("/a", ephemeral=True))
        session = client.session

        server.kill(0)
        client.await_link(Link.SUSPENDED)
        server.restart(0)

        client.await_link(Link.CONNECTED)
        found = client.perform(Exists("/a"))
        assert isinstance(found, Found)
        assert found.stat is not None
        assert found.stat.ephemeral_owner == client.session == session


def test_a_port_in_use_is_named() -> None:
    """A port that somebody else listens on is named, with how to find out who."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"Port {port} on 127.0.0.1 is in use .*choose another"):
            EmbeddedZooKeeper(port=port).start()


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java, one sentence says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissing, match="install Java 17 or newer"):
        EmbeddedZooKeeper().start()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="correct JAVA_HOME"):
        EmbeddedZooKeeper().start()


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a Java that is too old, one sentence says which is needed."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaTooOld, match="is Java 8: install Java 17 or newer"):
        EmbeddedZooKeeper().start()


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyspark, whose jars it needs, one sentence says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(JarsMissing, match="pip install pyspark"):
        EmbeddedZooKeeper().start()


def test_a_server_that_does_not_come_up_shows_its_last_words() -> None:
    """A server that ends at once leaves its last log lines in the error, and nothing else."""
    server = EmbeddedZooKeeper(heap_mb=1)

    with pytest.raises(ServerFailed, match=r"(?s)server 0 ended at once:.*heap"):
        server.start()

    assert not server.directory.exists()
    with pytest.raises(HerdError, match="not running"):
        server.kill(0)


def test_a_child_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """The minder reports a program that is not there, and goes on."""
    minder = Supervisor()
    with pytest.raises(OSError, match="no-such-program"):
        minder.start("a", ["no-such-program"], tmp_path / "log")
    minder.start("b", ["sleep", "1000"], tmp_path / "log")
    assert minder.ended("b") is None
    minder.signal("b", signal.SIGKILL)
    assert minder.ended("b") == -signal.SIGKILL
    minder.close()


def _listens(hosts: str) -> bool:
    """Whether somebody accepts connections there."""
    host, port = hosts.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _is_running(process: int) -> bool:
    """Whether a process runs (a dead one that nobody has collected does not)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
