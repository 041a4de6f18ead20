"""
Spark's Kafka source: jars that pip does not bring, fetched once for this user and kept.

They are those of `connector.lock` beside this file, with their SHA-256. A cluster that has a
connector of its own is left alone: name its jars in HERDPROOF_SPARK_KAFKA, or leave that empty to
say that Spark has it already (`spark-submit --packages …`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

from herdproof.errors import WorldError
from herdproof.kafka.ivy import MIRROR, Jar, NotFetched, fetch
from herdproof.kafka.jars import Pin

OWN = "HERDPROOF_SPARK_KAFKA"
"""The environment variable with a directory of a connector's jars, to be taken instead."""

FETCH_TIMEOUT_S = 300.0


class ConnectorMissing(WorldError):
    """Spark's Kafka source is not on this machine, and could not be fetched."""


def connector_settings(announce: Callable[[str], None]) -> Mapping[str, str]:
    """The settings with which a session can read Kafka; raises `ConnectorMissing`."""
    own = os.environ.get(OWN)
    if own == "":
        return {}
    jars = sorted(Path(own).glob("*.jar")) if own is not None else connector_jars(announce)
    if not jars:
        raise ConnectorMissing(f"{OWN}={own} holds no jar")
    return {"spark.jars": ",".join(map(str, jars))}


def pins() -> list[Pin]:
    """The pins of `connector.lock`."""
    lock = files("herdproof.pipeline") / "connector.lock"  # in an archive too
    text = lock.read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [Pin(Jar(*name.split(":")), int(size), sha256) for sha256, size, name in lines]


def connector_folder() -> Path:
    """Where this user's jars are kept: in XDG_CACHE_HOME, or else in ~/.cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "herdproof" / f"spark-kafka-{pins()[0].jar.revision}"


def connector_jars(announce: Callable[[str], None]) -> list[Path]:
    """The jars that are kept, or new ones; `announce` gets a line before they are fetched."""
    folder = connector_folder()
    jars = [folder / pin.jar.file for pin in pins()]
    if _whole(folder):
        return jars
    announce(f"fetching Spark's Kafka source into {folder} (once)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        fetch([pin.jar for pin in pins()], partial, FETCH_TIMEOUT_S)
        shutil.rmtree(partial / "ivy")
        if wrong := _wrong(partial):
            raise NotFetched(wrong)
        if not _whole(folder):  # somebody else may have been quicker
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
    except (NotFetched, OSError) as problem:
        if not _whole(folder):
            raise ConnectorMissing(
                f"Spark's Kafka source could not be fetched into {folder} ({problem}): connect to"
                f" the network, name a mirror of Maven Central in {MIRROR}, or a directory with"
                f" its jars in {OWN}"
            ) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return jars


def _whole(folder: Path) -> bool:
    """Tells whether every jar is there and has its size."""
    try:
        return all((folder / pin.jar.file).stat().st_size == pin.size for pin in pins())
    except OSError:
        return False


def _wrong(folder: Path) -> str | None:
    """The fault of the jars that came, in words; None if there is none."""
    for pin in pins():
        jar = folder / pin.jar.file
        if not jar.exists():
            return f"{pin.jar.file} did not come"
        if (came := hashlib.sha256(jar.read_bytes()).hexdigest()) != pin.sha256:
            return f"{pin.jar.file} is not the one we know: its SHA-256 is {came}"
    return None
