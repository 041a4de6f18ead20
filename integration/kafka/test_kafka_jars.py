"""What `herdproof.kafka.jars` promises: Kafka's jars, whole and only once, or what to do."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from herdproof.cli.run import doctor
from herdproof.java import JavaMissing
from herdproof.kafka import jars
from herdproof.kafka.ivy import MIRROR
from herdproof.kafka.jars import KafkaMissing, kafka_folder, kafka_jars, kept_jars, pins

FETCHER = "from herdproof.kafka.jars import kafka_jars; print(len(kafka_jars()))"


class Mirror(ThreadingHTTPServer):
    """A mirror of Maven Central on loopback: the jars that this user has, counted as they go."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Clerk)
        self.jars = {
            f"/{pin.jar.organisation.replace('.', '/')}/{pin.jar.name}/{pin.jar.revision}/"
            f"{pin.jar.file}": jar.read_bytes()
            for pin, jar in zip(pins(), kafka_jars(), strict=True)
        }
        self.given: Counter[str] = Counter()

    @property
    def address(self) -> str:
        """As HERDPROOF_MAVEN wants it."""
        return f"http://127.0.0.1:{self.server_port}"


class _Clerk(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Mirror

    def do_HEAD(self) -> None:
        """Whether a jar is there."""
        self.answer(with_body=False)

    def do_GET(self) -> None:
        """A jar."""
        self.answer(with_body=True)

    def answer(self, with_body: bool) -> None:
        """The jar of this path, or 404."""
        jar = self.server.jars.get(self.path)
        if jar is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(jar)))
        self.end_headers()
        if with_body:
            self.server.given[self.path] += 1
            self.wfile.write(jar)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mirror]:
    """A mirror that is asked from now on, by a user who has fetched nothing yet."""
    with Mirror() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        monkeypatch.setenv(MIRROR, running.address)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def two_jars(monkeypatch: pytest.MonkeyPatch) -> tuple[jars.Pin, ...]:
    """Kafka is two small jars, for tests of what goes wrong with one."""
    two = tuple(pin for pin in jars.pins() if pin.jar.name.startswith("slf4j-"))
    monkeypatch.setattr(jars, "pins", lambda *_: two)
    return two


def what_is_left(folder: Path) -> list[str]:
    """The names of what stands beside the folder of the jars."""
    return sorted(path.name for path in folder.parent.iterdir())


def test_two_who_need_them_at_once_fetch_them_once(mirror: Mirror) -> None:
    """Two processes find a jar cut short: one fetches all jars, the other waits."""
    folder = kafka_folder()
    folder.mkdir(parents=True)
    for path, content in mirror.jars.items():
        (folder / Path(path).name).write_bytes(content)
    assert kept_jars() is not None
    (folder / pins()[0].jar.file).write_bytes(b"cut short")
    assert doctor.kafka().said.startswith("not fetched yet; `herdproof kafka` does so")

    command = [sys.executable, "-c", FETCHER]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=60)[0] for process in both]

    assert told == [f"{len(pins())}\n"] * 2
    assert doctor.kafka().said == f"Kafka 3.9.1, in {folder}"
    assert mirror.given == Counter(list(mirror.jars))
    assert kept_jars() is not None
    assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == {
        pin.sha256 for pin in pins()
    }
    assert what_is_left(folder) == [folder.name, f"{folder.name}.lock"]


def test_a_jar_that_is_not_the_one_we_know_is_refused(
    mirror: Mirror, two_jars: tuple[jars.Pin, ...]
) -> None:
    """A mirror that hands out another jar, of the same size, is named, and nothing is kept."""
    path = next(path for path in mirror.jars if "slf4j-api" in path)
    mirror.jars[path] = mirror.jars[path][:-1] + b"?"

    with pytest.raises(KafkaMissing, match=r"slf4j-api-1\.7\.36\.jar is not the one we know"):
        kafka_jars()

    assert kept_jars() is None
    assert what_is_left(kafka_folder()) == [f"{kafka_folder().name}.lock"]


def test_a_mirror_that_has_not_all_is_named(mirror: Mirror, two_jars: tuple[jars.Pin, ...]) -> None:
    """A jar that the mirror has not is named."""
    del mirror.jars[next(path for path in mirror.jars if "slf4j-api" in path)]

    with pytest.raises(KafkaMissing, match="slf4j-api"):
        kafka_jars()


def test_without_network_one_sentence_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where nothing answers, the error says so at once, with what to do."""
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(KafkaMissing, match=f"refused.*connect to the network.*in {MIRROR}"):
        kafka_jars()


def test_a_missing_java_is_named_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without Java nothing can be fetched either, and one sentence says what to install."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(JavaMissing, match="install Java 17 or newer"):
        kafka_jars()


def test_nobody_waits_for_ever_for_another_who_fetches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While another process holds the lock one waits, but not longer than was said."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kafka_folder()
    folder.parent.mkdir()

    with (folder.parent / f"{folder.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KafkaMissing, match="another process has been fetching"):
            kafka_jars(timeout_s=0.3)
