"""
kafka-python's own integration tests, as its source distribution ships them, run as they are.

pip fetches that of the version that we have locked, and takes no other bytes than requirements.lock
has the SHA-256 of; it is kept beside the jars of Kafka. The tests' own fixtures know a Kafka that
somebody else has started, by `KAFKA_URI`; what they miss for it, and is not shipped, stands in
below. Nothing of theirs is in this repository.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from herdproof.errors import WorldError
from herdproof.kafka.jars import kafka_folder

LOCK = Path(__file__).parents[2] / "requirements.lock"
NAME = "kafka-python"
FETCH_TIMEOUT_S = 120.0
TEST_TIMEOUT_S = 60
OUT_OF_TIME = "from pytest-timeout"
TESTS = "test"
"""Their folder, in the distribution."""
STAND_INS = {
    "__init__.py": "",
    "service.py": (
        "class SpawnedService:\n    pass\n\n\n"
        "class ExternalService:\n    def __init__(self, host, port):\n        pass\n"
    ),
}
"""What the tests import and the distribution leaves out: how a server is started, or is not."""


class TestsMissing(WorldError):
    """The tests could not be fetched, or are not the ones we know."""

    __test__ = False


@dataclass(frozen=True)
class Pinned:
    """What the lock says of kafka-python: a version, and the SHA-256 of each of its files."""

    requirement: str
    version: str
    hashes: frozenset[str]

    @property
    def file(self) -> str:
        """The name of its source distribution."""
        return f"{NAME.replace('-', '_')}-{self.version}.tar.gz"


def pinned(lock: str) -> Pinned:
    """What this text of a lock says of it."""
    found = re.search(rf"^({NAME}==(\S+)(?: \\\n +--hash=\S+)+)", lock, re.MULTILINE)
    assert found is not None, f"the lock does not name {NAME}"
    return Pinned(found[1] + "\n", found[2], frozenset(re.findall(r"sha256:(\w+)", found[1])))


def source(pin: Pinned, folder: Path | None = None) -> Path:
    """
    The source distribution: the one that is kept, or a new one.

    Raises `TestsMissing` where it is not there and cannot be fetched, or has other bytes.
    """
    kept = folder or kafka_folder().parent
    file = kept / pin.file
    if not file.exists():
        _fetch(pin, kept)
    if (came := hashlib.sha256(file.read_bytes()).hexdigest()) not in pin.hashes:
        raise TestsMissing(f"{file} is not the one we know: its SHA-256 is {came}; remove it")
    return file


def _fetch(pin: Pinned, kept: Path) -> None:
    """Let pip download it, which checks it by the hashes that stand in the requirement."""
    kept.mkdir(parents=True, exist_ok=True)
    asked = kept / f"{NAME}.{os.getpid()}.txt"
    asked.write_text(pin.requirement)
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--no-binary", NAME, "--requirement", str(asked), "--dest", str(kept)),
            ],
            capture_output=True, text=True, timeout=FETCH_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as expired:
        raise TestsMissing(f"pip was not done within {FETCH_TIMEOUT_S:g} s") from expired
    finally:
        asked.unlink()
    if done.returncode:
        raise TestsMissing(
            f"pip could not fetch {NAME} {pin.version}: {done.stderr.strip()[-500:]}"
        )


def unpacked(into: Path) -> Path:
    """The tests of the version that is installed, with what they miss, in a folder of their own."""
    pin = pinned(LOCK.read_text(encoding="utf-8"))
    assert pin.version == version(NAME), "the environment is not the one of requirements.lock"
    with tarfile.open(source(pin)) as archive:
        archive.extractall(into, filter="data")
    (folder,) = into.iterdir()
    for name, text in STAND_INS.items():
        assert not (folder / TESTS / name).exists(), f"{name} is shipped now"
        (folder / TESTS / name).write_text(text)
    return folder


def outcomes(
    folder: Path, bootstrap: str, speaks: str, *chosen: str, again: Callable[[str], None]
) -> dict[str, str]:
    """
    Run these tests against the broker there; of each by name, "passed" or what it said.

    Those of consumers wait without end for partitions, and kafka-python 3.0.12 may never get them:
    a topic that it is given while it asks for metadata is not asked for (a TODO in its
    `set_topics`), and a group whose leader does not know the topic's partitions assigns none. So a
    test that ran out of time is run once more, after `again` was told what its first run said.

    `speaks`: the version of Kafka for which kafka-python takes a broker of what it announces.
    """
    found = _outcomes(folder, bootstrap, speaks, *chosen)
    late = {name: said for name, said in found.items() if OUT_OF_TIME in said}
    for name, said in late.items():
        again(f"kafka-python's {name} was run again: {said}")
    return found | (_outcomes(folder, bootstrap, speaks, *chosen, only=late) if late else {})


def _outcomes(
    folder: Path, bootstrap: str, speaks: str, *chosen: str, only: Iterable[str] = ()
) -> dict[str, str]:
    """Run the chosen ones, or of them `only` these; of each by name what came of it."""
    report = folder / "report.xml"
    told = {"KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_VERSION": speaks, "KAFKA_ROOT": str(folder)}
    (folder / "pytest.ini").write_text("[pytest]\nlog_level = INFO\njunit_logging = log\n")
    command = [
        *(sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), "--quiet"),
        *("-p", "no:cacheprovider", "-p", "no:herdproof.testing", f"--timeout={TEST_TIMEOUT_S}"),
        *(f"--junit-xml={report}", "-k", " or ".join(only)),
        *(f"{TESTS}/integration/{each}" for each in chosen),
    ]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **told}, capture_output=True, text=True
    )
    assert report.exists(), done.stdout + done.stderr
    return {
        case.attrib["name"]: next(
            (_told(each, case) for each in case if not each.tag.startswith("system-")), "passed"
        )
        for case in ElementTree.parse(report).iter("testcase")
    }


def _told(problem: ElementTree.Element, case: ElementTree.Element) -> str:
    """How a test ended that did not pass, and the last of what was logged."""
    logged = (case.findtext("system-out") or "")[-3000:]
    return f"{problem.tag}: {problem.attrib['message']}\n{(problem.text or '')[-3000:]}{logged}"
