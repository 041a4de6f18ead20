"""
The jars of a real Kafka: fetched once for this user, checked, and kept.

pip has no package with them, so they come from Maven Central (see `herdproof.kafka.ivy`), exactly
those of the release's lock beside this file. They are kept in `kafka_folder()`. Whoever finds them
missing or incomplete there fetches all of them into a directory beside it, checks every byte, and
renames that; a lock lets one process at a time do so, and the others find the work done.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from herdproof.errors import WorldError
from herdproof.kafka.ivy import MIRROR, Jar, NotFetched, fetch

VERSION = "3.9.1"
"""The last Kafka that works with ZooKeeper, rather than with its own controllers."""
KRAFT_VERSION = "4.3.1"
"""A Kafka that is its own controller."""
CONSUMERS_VERSION = "0.8.2.2"
"""The last Kafka whose high-level consumers know ZooKeeper alone."""
TOOLS_VERSION = f"tools-{VERSION}"
"""Kafka's own tools, beside the jars of its broker."""
LOCKS = {
    VERSION: "jars.lock", KRAFT_VERSION: "kraft.lock", CONSUMERS_VERSION: "consumers.lock",
    TOOLS_VERSION: "tools.lock",
}  # fmt: skip

FETCH_TIMEOUT_S = 600.0
LOOK_EVERY_S = 0.2


class KafkaMissing(WorldError):
    """Kafka's jars are not on this machine, and could not be fetched."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A jar that is needed, its size in bytes, and the SHA-256 that it must have."""

    jar: Jar
    size: int
    sha256: str


@cache
def pins(version: str = VERSION) -> tuple[Pin, ...]:
    """The pins of this release's lock."""
    text = Path(__file__).with_name(LOCKS[version]).read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return tuple(Pin(Jar(*name.split(":")), int(size), sha256) for sha256, size, name in lines)


def kafka_folder(version: str = VERSION) -> Path:
    """Where this user's jars of Kafka are kept: in XDG_CACHE_HOME, or else in ~/.cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "herdproof" / f"kafka-{version}"


def kept_jars(version: str = VERSION) -> tuple[Path, ...] | None:
    """The jars that are kept, or `None` if one is missing or has not its size."""
    folder, needed = kafka_folder(version), pins(version)
    jars = tuple(folder / pin.jar.file for pin in needed)
    try:
        whole = all(jar.stat().st_size == p.size for jar, p in zip(jars, needed, strict=True))
    except OSError:
        return None
    return jars if whole else None


def kafka_jars(
    announce: Callable[[str], None] = lambda _line: None, timeout_s: float = FETCH_TIMEOUT_S,
    version: str = VERSION,
) -> tuple[Path, ...]:  # fmt: skip
    """
    The jars of a Kafka broker, or of another release: those that are kept, or new ones.

    `announce` gets a line before they are fetched. Raises `KafkaMissing` if they cannot be had
    within `timeout_s`, in seconds, and `JavaMissing`, `JavaTooOld` or `JarsMissing` if there is
    nothing to fetch them with.
    """
    if jars := kept_jars(version):
        return jars
    deadline = time.monotonic() + timeout_s
    try:
        with _alone(deadline, version):
            if jars := kept_jars(version):  # somebody else has fetched them meanwhile
                return jars
            megabytes = sum(pin.size for pin in pins(version)) / 1e6
            announce(
                f"fetching Kafka {version} into {kafka_folder(version)} ({megabytes:.0f} MB, once)"
            )
            _fetch_all(deadline, version)
    except (NotFetched, OSError) as problem:
        raise KafkaMissing(
            f"Kafka {version} could not be fetched into {kafka_folder(version)} ({problem}): "
            f"connect to the network, or name a mirror of Maven Central in {MIRROR}, or copy that "
            f"directory from a machine that has it."
        ) from problem
    jars = kept_jars(version)
    assert jars is not None
    return jars


def _fetch_all(deadline: float, version: str) -> None:
    """Fetch all jars, check them, and put them in their place; raises `NotFetched`."""
    folder = kafka_folder(version)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of one who died over it
    try:
        fetch([pin.jar for pin in pins(version)], partial, max(1.0, deadline - time.monotonic()))
        _check(partial, version)
        shutil.rmtree(partial / "ivy")
        shutil.rmtree(folder, ignore_errors=True)  # an incomplete one
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check(folder: Path, version: str) -> None:
    """Raises `NotFetched` unless each jar is, byte for byte, the one that was pinned."""
    for pin in pins(version):
        jar = folder / pin.jar.file
        if not jar.exists():
            raise NotFetched(f"{pin.jar.file} did not come")
        if (came := hashlib.sha256(jar.read_bytes()).hexdigest()) != pin.sha256:
            raise NotFetched(
                f"{pin.jar.file} is not the one we know: its SHA-256 is {came}, not {pin.sha256}"
            )


@contextmanager
def _alone(deadline: float, version: str) -> Iterator[None]:
    """Within this context no other process fetches; raises `NotFetched` if it takes too long."""
    file = kafka_folder(version).with_name(f"{kafka_folder(version).name}.lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as lock:  # closing it, or dying, unlocks it
        while not _locked(lock.fileno()):
            if time.monotonic() > deadline:
                raise NotFetched(f"another process has been fetching it for too long; see {file}")
            time.sleep(LOOK_EVERY_S)
        yield


def _locked(file: int) -> bool:
    """Try to get the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
