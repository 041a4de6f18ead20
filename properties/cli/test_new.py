"""`herdproof new`: what it writes verifies at once, fails as declared, and is never overwritten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from herdproof.cli import app
from properties.cli.files import run_alone

HOLDS, FAILS, NOT_ASKED = 0, 1, 2


def run(*arguments: str | Path) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A new spec."""
    assert run("new", "group_lock", "--directory", tmp_path).exit_code == HOLDS
    return tmp_path / "group_lock.py"


def test_a_new_spec_verifies_at_once(spec: Path) -> None:
    """The new spec is explored and proved, and its draft fails just as it declares."""
    done = run("verify", spec, "--no-cache")

    assert done.exit_code == HOLDS, done.output
    assert "✗ 5 steps (expected)" in done.stdout
    assert "It holds (1 failure as declared)." in done.stdout


def test_the_declared_failure_is_what_keeps_it_green(spec: Path) -> None:
    """Without the declaration, the draft's counterexample is a failure."""
    spec.write_text(spec.read_text().replace("EXPECTED = {", "DECLARED = {"))

    done = run("verify", spec, "--no-cache")

    assert done.exit_code == FAILS
    assert "5. client1 writes, with the number of its lease." in done.stdout


def test_a_mistake_in_the_new_spec_is_found(spec: Path) -> None:
    """Without the comparison at the store, the spec itself fails, in every reading."""
    spec.write_text(spec.read_text().replace("        require(self.accepts(c))\n", ""))

    done = run("verify", f"{spec}:GROUP_LOCK", "--no-cache")

    assert done.exit_code == FAILS
    assert "✗ 5 steps" in done.stdout


def test_the_test_that_comes_with_it_passes(spec: Path) -> None:
    """The new test file passes under pytest, as it stands, in a directory of its own."""
    test = spec.with_name("test_group_lock.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]

    done = subprocess.run([*command, test], cwd=spec.parent, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_the_code_that_comes_with_it_is_held_to_it(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new code does as the new spec says, everywhere; with a mistake it does not."""
    monkeypatch.chdir(spec.parent)
    asked = ["verify", "group_lock.py", "--no-prove", "--no-cache"]
    asked += ["--code", "group_lock_code:GroupLockCode"]
    right = run_alone(*asked)
    code = spec.with_name("group_lock_code.py")
    code.write_text(code.read_text().replace("if number < self.written:", "if number < 0:"))
    wrong = run_alone(*asked)

    assert right.exit_code == HOLDS, right.output
    rows = [line for line in right.stdout.splitlines() if "✔" in line and "the code" in line]
    assert len(rows) == 3  # walks, edges, stories
    assert not any("never" in row or "not " in row for row in rows)
    assert wrong.exit_code == FAILS
    assert "The code did it, though the spec does not allow it" in wrong.stdout


def test_nothing_is_overwritten(spec: Path) -> None:
    """A file that exists is left as it is, whichever of the three it is."""
    before = spec.read_text()
    spec.with_name("test_group_lock.py").unlink()

    first = run("new", "group_lock", "--directory", spec.parent)
    spec.unlink()
    spec.with_name("group_lock_code.py").unlink()
    spec.with_name("test_group_lock.py").write_text("mine")
    second = run("new", "group_lock", "--directory", spec.parent)

    assert (first.exit_code, second.exit_code) == (NOT_ASKED, NOT_ASKED)
    assert f"{spec} exists already" in first.stderr
    assert "test_group_lock.py exists already" in second.stderr
    assert not spec.with_name("group_lock_code.py").exists()
    assert not spec.exists(), "none is written without the others"
    assert "herdspec" in before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("GroupLock", "write lower-case words"),
        ("../lock", "write lower-case words"),
        ("1st", "write lower-case words"),
        ("class", "write lower-case words"),
        ("queue", "means something else"),
        ("sort", "means something else"),
        ("herdspec", "means something else"),
        ("drafted", "means something else"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(name: str, why: str, tmp_path: Path) -> None:
    """A name that is no module's, or that means something else, is refused with what to do."""
    done = run("new", name, "--directory", tmp_path)

    assert done.exit_code == NOT_ASKED
    assert why in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A directory that does not exist is not made."""
    done = run("new", "lease", "--directory", tmp_path / "nowhere")

    assert done.exit_code == NOT_ASKED
    assert "there is no such directory" in done.stderr
