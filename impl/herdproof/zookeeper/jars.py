"""
The jars of a real ZooKeeper, which pip installed with pyspark.

Only the jars that a server loads are put on its class path: with all of pyspark's, the JVM takes
several times as long to start.
"""

from __future__ import annotations

from pathlib import Path

from herdproof.java import pyspark_jars

NEEDED_JARS = (
    r"zookeeper-\d.*",
    r"zookeeper-jute-.*",
    r"jackson-(annotations|core|databind)-\d.*",
    r"log4j-(api|core)-\d.*",
    r"log4j-slf4j2-impl-.*",
    r"metrics-core-.*",
    r"slf4j-api-.*",
    r"snappy-java-.*",
)
"""The jars that a server of ZooKeeper 3.9 loads (as `java -verbose:class` lists them)."""


def zookeeper_jars() -> tuple[Path, ...]:
    """The jars of a ZooKeeper server, from the installed pyspark; raises `JarsMissing`."""
    return pyspark_jars(NEEDED_JARS, "ZooKeeper")
