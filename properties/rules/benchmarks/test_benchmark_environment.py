"""Every benchmark runs from a checkout as it is, whatever Python comes first on the PATH."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[3]
EXECUTABLES = sorted(
    path.name
    for path in (ROOT / "benchmarks").iterdir()
    if path.is_file() and not path.suffix and os.access(path, os.X_OK)
)

FILES = [
    path
    for path in sorted((ROOT / "benchmarks").iterdir())
    if path.suffix == ".py" or path.name in EXECUTABLES
]


def bare(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command where `python3` has nothing of the project's, and nothing else is set."""
    path = folder / "bin"
    path.mkdir()
    (path / "python3").symlink_to(Path(sys.base_prefix, "bin", Path(sys.executable).name))
    environment = {"PATH": f"{path}:{os.defpath}", "HOME": str(folder)}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=60, env=environment,
        cwd=folder,
    )  # fmt: skip


def checkout(folder: Path, *benchmarks: str, installed: bool = True) -> Path:
    """A checkout with these benchmarks; if it is installed, into its `.venv`."""
    checkout = folder / "checkout"
    (checkout / "benchmarks").mkdir(parents=True)
    for name in ("environment.py", *benchmarks):
        shutil.copy(ROOT / "benchmarks" / name, checkout / "benchmarks" / name)
    for name in ("spec", "impl", "properties"):
        (checkout / name).symlink_to(ROOT / name)
    if installed:
        (checkout / ".venv").symlink_to(sys.prefix)
    return checkout / "benchmarks"


@pytest.mark.parametrize("name", EXECUTABLES)
def test_a_benchmark_says_what_it_does_without_any_environment(name: str, tmp_path: Path) -> None:
    """`--help` needs nothing but Python; and what else is needed is found in one way."""
    done = bare(tmp_path, ROOT / "benchmarks" / name, "--help")

    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
    assert (ROOT / "benchmarks" / name).read_text("utf-8").count("environment.enter()") == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_a_benchmark_imports_of_ours_is_there(file: Path) -> None:
    """Imports are within functions, so that only a run would miss a name that has moved."""
    wanted = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("herd", "prop"))
        for alias in node.names
    ]

    missing = [f"{module}.{name}" for module, name in wanted if not is_there(module or "", name)]
    assert not missing


def is_there(module: str, name: str) -> bool:
    """Whether a module has this name, or a package this module."""
    try:
        resolve_name(f"{module}.{name}")
    except (ImportError, AttributeError):
        return False
    return True


def test_a_benchmark_finds_the_checkout_s_packages(tmp_path: Path) -> None:
    """A proof is measured though the first Python on the PATH has neither z3 nor herdproof."""
    done = bare(tmp_path, checkout(tmp_path, "prove") / "prove", "--one", "lock_server")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["seconds"] > 0


def test_packages_are_those_of_the_checkout_also_in_processes_below(tmp_path: Path) -> None:
    """Not those of wherever else the environment was installed from."""
    place = checkout(tmp_path)
    script = place / "where"
    script.write_text(
        "#!/usr/bin/env python3\n"
        "import environment, subprocess, sys\n"
        "environment.enter()\n"
        "look = 'import herdspec, herdproof; print(herdspec.__file__, herdproof.__file__)'\n"
        "exec(look)\n"
        "subprocess.run([sys.executable, '-c', look], check=True)\n"
    )
    script.chmod(0o755)

    done = bare(tmp_path, script)

    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(found) == 4
    assert all(file.startswith(str(place.parent)) for file in found)


def test_without_an_environment_a_benchmark_says_what_to_do(tmp_path: Path) -> None:
    """Where nothing is installed, one sentence says how it is."""
    place = checkout(tmp_path, "prove", installed=False)

    done = bare(tmp_path, place / "prove", "--one", "lock_server")

    assert done.returncode == 1
    assert done.stderr == "benchmarks/prove: herdproof is not installed here: run `make` first\n"
