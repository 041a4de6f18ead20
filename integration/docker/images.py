"""The images of the integration suite, each built once per content, and whether Docker is used.

An image's tag is a hash of what defines it (Dockerfile, scripts, jars, sources, locked versions),
so an image that exists is the right one. ZooKeeper's jars come from the environment that runs the
tests, Kafka's from this user's cache, whereto they are fetched if need be. The broker's libraries
are what `requirements.lock` names, by hash; pip fetches them outside the image, where its settings
are. Debian's packages come from the base image's own mirror.

`HERDPROOF_DOCKER` says whether Docker is wanted: `required` (its absence is an error), `off`, or
unset (Docker where it can be had, else child processes).
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

from herdproof.errors import HerdError
from herdproof.kafka.jars import KRAFT_VERSION, VERSION, kafka_jars
from herdproof.zookeeper.jars import zookeeper_jars
from integration.docker.base import ensure_base, exists, run
from integration.docker.engine import DockerUnavailableError, Engine, docker, ensure_engine

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LOCK = ROOT / "requirements.lock"
BASE_PYTHON = "3.11"  # what Debian bookworm calls python3
BROKER_LIBRARIES = (
    *("kazoo", "msgspec", "rich", "typer"),
    *("confluent-kafka", "google-re2", "prometheus-client", "pydantic"),
)
"""What `herdproof elect` imports; and what coordinators and consumers do besides."""
ALONE_LIBRARIES = (
    *("kazoo", "msgspec", "rich", "typer"),
    *("crc32c", "kafka-python", "prometheus-client", "pydantic", "scramp"),
)
"""What `herdproof broker` imports by itself."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Where the integration suite runs: the engine, or none, and the line that says so."""

    engine: Engine | None
    line: str


def decide(announce: Callable[[str], None] = print) -> Decision:
    """
    Bring up an engine and the images if they are wanted and can be had.

    `announce` gets a line before anything that takes long. Raises `DockerUnavailableError` only if
    `HERDPROOF_DOCKER=required`.
    """
    wanted = os.environ.get("HERDPROOF_DOCKER", "")
    if wanted not in ("", "off", "required"):
        raise DockerUnavailableError(
            f"HERDPROOF_DOCKER is {wanted!r}: set it to 'required' or 'off', or unset it"
        )
    if wanted == "off":
        return Decision(
            engine=None, line="integration: on child processes (HERDPROOF_DOCKER is off)"
        )
    try:
        engine = prepared_engine(announce)
    except DockerUnavailableError as problem:
        if wanted == "required":
            raise
        why = str(problem).splitlines()[0]
        return Decision(engine=None, line=f"integration: no Docker, on child processes ({why})")
    return Decision(engine=engine, line=f"integration: on Docker (engine {engine.version})")


def prepared_engine(announce: Callable[[str], None]) -> Engine:
    """An engine that answers and has all images."""
    engine = ensure_engine()
    try:
        zookeeper_image(announce)
        broker_image(announce)
        alone_image(announce)
        kafka_image(announce)
        kraft_image(announce)
    except BaseException:
        engine.stop()
        raise
    return engine


def zookeeper_image(announce: Callable[[str], None] = print) -> str:
    """The tag of the image of one ZooKeeper server (zookeeper/run.sh tells its environment)."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder) / "context"
        shutil.copytree(HERE / "zookeeper", context)
        (context / "jars").mkdir()
        for jar in zookeeper_jars():
            shutil.copy(jar, context / "jars")
        return built("herdproof-zookeeper", context, announce)


def kafka_image(announce: Callable[[str], None] = print, version: str = VERSION) -> str:
    """The tag of the image of one Kafka broker (kafka/run.sh tells its environment)."""
    try:
        jars = kafka_jars(announce, version=version)
    except HerdError as missing:
        raise DockerUnavailableError(str(missing)) from missing
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder) / "context"
        shutil.copytree(HERE / "kafka", context)
        (context / "jars").mkdir()
        for jar in jars:
            shutil.copy(jar, context / "jars")
        return built("herdproof-kafka", context, announce)


def kraft_image(announce: Callable[[str], None] = print) -> str:
    """The tag of the image of a Kafka 4, which is told what Kafka's own image is told."""
    return kafka_image(announce, KRAFT_VERSION)


def broker_image(announce: Callable[[str], None] = print) -> str:
    """The tag of the image whose entry point is the `herdproof` command, for what runs on it."""
    return command_image("broker", BROKER_LIBRARIES, announce)


def alone_image(announce: Callable[[str], None] = print) -> str:
    """The tag of the image of a broker for tests (alone/run.sh tells its environment)."""
    return command_image("alone", ALONE_LIBRARIES, announce)


def users_image(announce: Callable[[str], None] = print) -> str:
    """The tag of the image that docs/operating.md has users build, from this checkout's wheel."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder) / "context"
        context.mkdir()
        shutil.copy(ROOT / "docs" / "herdproof.Dockerfile", context / "Dockerfile")
        (context / "requirements.txt").write_text(locked(libraries(*BROKER_LIBRARIES)))
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(context), at=ROOT)
        # pip has its settings here, and the image has none: so all that it needs is laid there.
        options = ("--build-arg", "PIP_NO_INDEX=1")
        return built("herdproof-users", context, announce, complete=fetch_wheels, options=options)


def command_image(name: str, imported: Sequence[str], announce: Callable[[str], None]) -> str:
    """The tag of an image with this project's packages, and the libraries that are imported."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder) / "context"
        shutil.copytree(HERE / name, context)
        (context / "requirements.txt").write_text(locked(libraries(*imported)))
        for package in ("herdproof", "herdspec"):
            shutil.copytree(
                package_folder(package),
                context / "project" / package,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        declare_entry_points(context / "project")
        return built(f"herdproof-{name}", context, announce, complete=install_libraries)


def built(
    name: str,
    context: Path,
    announce: Callable[[str], None],
    complete: Callable[[Path], None] | None = None,
    options: Sequence[str] = (),
) -> str:
    """The image that this build context defines: the one that is there, or a new one.

    `complete` adds to the context what follows from it and is slow to get; `options` are those of
    `docker build`.
    """
    tag = f"{name}:{fingerprint(context)}"
    if not exists(tag):
        ensure_base(announce)
        announce(f"building the Docker image {tag}")
        if complete is not None:
            complete(context)
        docker("build", *options, "--tag", tag, str(context))
    return tag


def fingerprint(folder: Path) -> str:
    """Twelve hex digits that depend on the path and the content of every file in `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [
        f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in files
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def libraries(*names: str) -> set[str]:
    """These distributions and, transitively, what they require on the image's Python."""
    python = {"python_version": BASE_PYTHON, "python_full_version": f"{BASE_PYTHON}.0", "extra": ""}
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            needs = map(Requirement, requirements_of(name))
            waiting += [n.name for n in needs if n.marker is None or n.marker.evaluate(python)]
    return found


def requirements_of(name: str) -> list[str]:
    """What the installed distribution of this name says that it requires."""
    try:
        return requires(name) or []
    except PackageNotFoundError:
        raise DockerUnavailableError(
            f"{name}, which the broker's image needs, is not installed: run 'make test', which "
            "installs it"
        ) from None


def locked(names: set[str]) -> str:
    """The entries of the lock for these distributions, hashes and all."""
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return "".join(entry for entry in entries if entry.partition("==")[0] in names)


def install_libraries(context: Path) -> None:
    """Put the libraries that the image's Python needs into `context`, whatever Python runs here."""
    get_libraries("install", context, "--no-compile", f"--target={context / 'libraries'}")


def fetch_wheels(context: Path) -> None:
    """Put the wheels of these libraries into `context`."""
    get_libraries("download", context, f"--dest={context}")


def get_libraries(command: str, context: Path, *where: str) -> None:
    """Have pip get what `context` requires, for the image's Python."""
    machine = docker("info", "--format", "{{.Architecture}}")
    platforms = [
        f"--platform={tag}_{machine}"
        for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    ]
    run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", command, "--quiet"),
        *("--require-hashes", f"--requirement={context / 'requirements.txt'}"),
        *("--no-deps", "--only-binary=:all:", f"--python-version={BASE_PYTHON}", *platforms),
        *where,
    )


def declare_entry_points(folder: Path) -> None:
    """Say beside the packages what an installation says of them: who is found by entry points."""
    installed = importlib.metadata.distribution("herdproof")
    told = folder / f"herdproof-{installed.version}.dist-info"
    told.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (told / name).write_text(installed.read_text(name) or "")


def package_folder(name: str) -> Path:
    """The folder of an importable package of this project."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise DockerUnavailableError(f"{name} cannot be imported: run 'make test' to install it")
    return Path(spec.origin).parent


if __name__ == "__main__":
    prepared_engine(print)
    images = (zookeeper_image, broker_image, alone_image, kafka_image, kraft_image)
    print(*(image() for image in images), sep="\n")
