"""Finds what real services need on this machine: a Java, and the jars installed with pyspark."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from herdproof.errors import WorldError

OLDEST_JAVA = 17
"""The oldest Java that pyspark 4 and its jars run on."""

QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.net.preferIPv4Stack=true",
)
"""Flags of a JVM that starts quickly and shares the machine with others; IPv4 as ours does."""


class JavaMissing(WorldError):
    """There is no Java on this machine, or it cannot be run."""


class JavaTooOld(WorldError):
    """The Java that was found is older than `OLDEST_JAVA`."""


class JarsMissing(WorldError):
    """pyspark, or one of the jars that it brings, is not installed."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can be run; `version` is its major number, 17 for instance."""

    path: str
    version: int


def find_java() -> Java:
    """
    The Java of JAVA_HOME, or else the first on PATH.

    Raises `JavaMissing` or `JavaTooOld`.
    """
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None:
        raise JavaMissing(
            f"No Java was found (JAVA_HOME is not set, and PATH has no java): install Java "
            f"{OLDEST_JAVA} or newer, for instance with `apt install openjdk-17-jre-headless`."
        )
    java = Java(path, _version_of(path))
    if java.version < OLDEST_JAVA:
        raise JavaTooOld(
            f"{path} is Java {java.version}: install Java {OLDEST_JAVA} or newer, "
            f"or point JAVA_HOME at one."
        )
    return java


@cache
def _version_of(path: str) -> int:
    """The major version that a java says it has; raises `JavaMissing` if it says none."""
    try:
        asked = subprocess.run([path, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise JavaMissing(
            f"{path} cannot be run ({problem}): correct JAVA_HOME or PATH."
        ) from problem
    told = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    if told is None:
        raise JavaMissing(f"{path} does not tell its version as a Java does: correct JAVA_HOME.")
    return int(told[1])


def pyspark_jars(needed: tuple[str, ...], holding: str) -> tuple[Path, ...]:
    """
    The jars of the installed pyspark whose names, without `.jar`, match these patterns.

    Raises `JarsMissing`, which says that they hold `holding`, unless each pattern has one.
    """
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise JarsMissing(
            f"pyspark, whose jars hold {holding}, is not installed: run `pip install pyspark`."
        )
    folder = Path(spark.origin).parent / "jars"
    jars = sorted(folder.glob("*.jar"))
    for pattern in needed:
        if not any(re.fullmatch(pattern, jar.stem) for jar in jars):
            raise JarsMissing(
                f"{folder} has no jar like {pattern}: reinstall pyspark 4 with "
                f"`pip install --force-reinstall pyspark`."
            )
    return tuple(jar for jar in jars if any(re.fullmatch(n, jar.stem) for n in needed))
