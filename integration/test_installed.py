"""A wheel, built from a source distribution, in an environment that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REQUIRED = ("typer", "pydantic", "kazoo", "confluent-kafka", "z3-solver")
"""Some of what the commands need."""
CANNOT_START = 2


def run(*command: object, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """What a command said, with nothing of this checkout to be imported."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command], cwd=folder, text=True, capture_output=True, check=False,
        env={**environment, **({"PYTHONPATH": path} if path else {}), "COLUMNS": "200"},
        timeout=100,
    )  # fmt: skip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment into which our wheel was installed, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    done = run(*build, "-t", "sdist", folder=ROOT)
    assert done.returncode == 0, done.stderr
    [source] = folder.glob("*.tar.gz")
    shutil.unpack_archive(source, folder)
    done = run(*build, "-t", "wheel", folder=Path(str(source).removesuffix(".tar.gz")))
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "fresh", with_pip=False)
    python = folder / "fresh" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    done = run(*pip, "install", "-q", "--no-deps", "--no-index", wheel, folder=folder)
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
