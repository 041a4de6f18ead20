"""A wheel, built from a source distribution, in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from properties.rules.test_tutorial import blocks, changed

ROOT = Path(__file__).parents[2]
REQUIRED = ("typer", "pydantic", "kazoo", "confluent-kafka", "z3-solver")
"""Some of what the commands need."""
CANNOT_START = 2
LEFT_OUT = ("PYTHONPATH", "PYTEST_ADDOPTS", "VIRTUAL_ENV")
UNREACHABLE = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ProxyError")
"""What pip says where there is no index to install from."""
INSTALL_S = 1_500
NOT_BY_PIP = {"Kafka's jars", "Docker engine"}
"""What `herdproof doctor` looks for, commands can do without, and pip does not bring."""


def run(
    *command: object, folder: Path, path: str = "", timeout_s: float = 100
) -> subprocess.CompletedProcess[str]:
    """What a command said, with nothing of this checkout to be imported."""
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return subprocess.run(
        [str(word) for word in command], cwd=folder, text=True, capture_output=True, check=False,
        env={**environment, **({"PYTHONPATH": path} if path else {}), "COLUMNS": "200"},
        timeout=timeout_s,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built from a source distribution."""
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    done = run(*build, "-t", "sdist", folder=ROOT)
    assert done.returncode == 0, done.stderr
    [source] = folder.glob("*.tar.gz")
    shutil.unpack_archive(source, folder)
    done = run(*build, "-t", "wheel", folder=Path(str(source).removesuffix(".tar.gz")))
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


def fresh(folder: Path) -> tuple[Path, tuple[object, ...]]:
    """The Python of an environment that has nothing at all, and how pip installs into it."""
    venv.create(folder / "fresh", with_pip=False)
    python = folder / "fresh" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    return python, (*pip, "install", "-q")


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment into which our wheel was installed, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    python, install = fresh(folder)
    done = run(*install, "--no-deps", "--no-index", wheel, folder=folder)
    assert done.returncode == 0, done.stderr
    return python


def test_doctor_says_what_is_missing(python: Path) -> None:
    """Each library by its name, and what to run; no traceback, whatever is asked."""
    for command in ((python.parent / "herdproof", "doctor"), (python, "-m", "herdproof", "--help")):
        told = run(*command, folder=python.parent)

        assert told.returncode == CANNOT_START
        assert [name for name in REQUIRED if f"✗ {name}: missing" not in told.stderr] == []
        assert "-m pip install herdproof" in told.stderr
        assert "Traceback" not in told.stderr
        assert "hypothesis" not in told.stderr, "it is for tests alone"


def test_with_its_libraries_it_runs_without_a_checkout(python: Path) -> None:
    """The wheel has all that commands and specs are made of."""
    [libraries] = [path for path in sys.path if path.endswith("site-packages")][:1]
    shown = run(python, "-m", "herdproof", "doctor", "--json", folder=python.parent, path=libraries)
    assert '"name": "z3-solver", "there": true' in shown.stdout, shown.stderr
    where = "import herdproof, herdspec; print(herdproof.__file__, herdspec.__file__)"
    imported = run(python, "-c", where, folder=python.parent, path=libraries)
    assert imported.stdout.count("fresh/lib") == 2, imported.stderr

    explored = run(
        python, "-m", "herdproof", "explore", "election", "--size", "Broker=2",
        folder=python.parent, path=libraries,
    )  # fmt: skip

    assert explored.returncode == 0, explored.stdout + explored.stderr


# ── With the dependencies that it declares ──────────────────────────────────────────────────

TEST_OF_A_USER = """
def test_a_broker_is_there(herdproof_broker):
    herdproof_broker.create_topic("orders", partitions=2)
    assert len(herdproof_broker.produce("orders", "one", "two")) == 2
"""


def installed(install: tuple[object, ...], what: str, folder: Path) -> None:
    """Have pip install this with all that it requires; skips where pip reaches no index."""
    done = run(*install, what, folder=folder, timeout_s=INSTALL_S)
    if done.returncode and any(problem in done.stderr for problem in UNREACHABLE):
        pytest.skip(f"pip reaches no index: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def save_lease(folder: Path) -> None:
    """The tutorial's spec, as it is at the tutorial's end."""
    file = folder / "lease.py"
    for block in blocks(ROOT / "docs" / "tutorial.md"):
        if block.file != file.name:
            continue
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if block.deed == "save":
            text = block.text
        elif block.deed == "add":
            text = f"{text}\n\n{block.text}"
        else:
            text = changed(text, block.text)
        file.write_text(text, encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(2 * INSTALL_S)
def test_what_it_declares_suffices(wheel: Path, tmp_path: Path) -> None:
    """By pip alone: the version, the doctor, the tutorial's spec, and with its extra the tests."""
    python, install = fresh(tmp_path)
    herdproof = python.parent / "herdproof"
    installed(install, str(wheel), tmp_path)
    save_lease(tmp_path)

    said = run(herdproof, "--version", folder=tmp_path)
    assert said.stdout == f"herdproof {wheel.name.split('-')[1]}\n", said.stderr
    doctor = run(herdproof, "doctor", "--json", folder=tmp_path)
    looked_at = [json.loads(line) for line in doctor.stdout.splitlines()]
    assert {each["name"] for each in looked_at if not each["there"]} <= NOT_BY_PIP, doctor.stdout
    assert doctor.returncode == 0, doctor.stdout
    verified = run(herdproof, "verify", "lease.py", folder=tmp_path, timeout_s=300)
    assert (verified.returncode, verified.stdout.splitlines()[-1]) == (0, "lease.py: It holds.")

    installed(install, f"{wheel}[testing]", tmp_path)
    (tmp_path / "test_user.py").write_text(TEST_OF_A_USER, encoding="utf-8")
    tested = run(python, "-m", "pytest", "-q", "test_user.py", folder=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "1 passed" in tested.stdout
