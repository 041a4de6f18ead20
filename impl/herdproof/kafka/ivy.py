"""
Fetching jars with Ivy, which pip installed with pyspark.

Ivy asks Maven Central, or the mirror of it whose address is in HERDPROOF_MAVEN; a proxy is told to
it as to any Java (`JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…`). It is told each jar by its revision and
follows no dependency: reading the descriptors of 60 modules takes four times as long as the jars.

Source: the Ivy 2.5 reference (standalone, ivysettings.xml, the ibiblio resolver).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

from herdproof.errors import WorldError
from herdproof.java import find_java, pyspark_jars

MIRROR = "HERDPROOF_MAVEN"
"""The environment variable with the address of a mirror of Maven Central."""


class NotFetched(WorldError):
    """Jars could not be fetched, or what came is not what was asked for."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar of a Maven repository."""

    organisation: str
    name: str
    revision: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.revision}.jar"


def fetch(jars: Sequence[Jar], into: Path, timeout_s: float) -> None:
    """
    Fetch these jars into a directory, with Ivy's own files below its `ivy`.

    Raises `JavaMissing`, `JavaTooOld`, `JarsMissing`, and `NotFetched` with Ivy's last words.
    """
    java, (ivy, *_) = find_java(), pyspark_jars((r"ivy-\d.*",), "Ivy")
    own = into / "ivy"
    own.mkdir(parents=True, exist_ok=True)
    settings, module = own / "settings.xml", own / "module.xml"
    _settings(own / "cache").write(settings)
    _module(jars).write(module)
    command = [
        *(java.path, f"-Divy.default.ivy.user.dir={own}", "-jar", str(ivy)),
        *("-settings", str(settings), "-ivy", str(module)),
        *("-retrieve", f"{into}/[artifact]-[revision].[ext]"),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as expired:
        raise NotFetched(f"Ivy was not done within {timeout_s:g} s") from expired
    if done.returncode:
        raise NotFetched(_why(done.stdout))


def _settings(cache: Path) -> ElementTree[Element]:
    """Where Ivy looks, and where it keeps what it found: nowhere but here."""
    root = Element("ivysettings")
    SubElement(root, "settings", defaultResolver="central")
    SubElement(root, "caches", defaultCacheDir=str(cache))
    central = SubElement(SubElement(root, "resolvers"), "ibiblio", name="central")
    # Checksums are in our own lock, and stronger than those beside the jars.
    central.attrib.update(m2compatible="true", usepoms="false", checksums="")
    if mirror := os.environ.get(MIRROR):
        central.set("root", mirror)
    return ElementTree(root)


def _module(jars: Sequence[Jar]) -> ElementTree[Element]:
    """A module of ours that depends on these jars, and on nothing that they depend on."""
    root = Element("ivy-module", version="2.0")
    SubElement(root, "info", organisation="herdproof", module="jars")
    dependencies = SubElement(root, "dependencies")
    for jar in jars:
        one = SubElement(dependencies, "dependency", transitive="false", conf="default")
        one.attrib.update(org=jar.organisation, name=jar.name, rev=jar.revision)
    return ElementTree(root)


def _why(said: str) -> str:
    """The line of Ivy's that tells most, or its last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "not found" in line]
    return (telling or lines or ["Ivy said nothing"])[-1]
