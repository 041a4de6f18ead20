"""`herdproof demo` says in a sentence what it cannot work with, before it starts anything."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.cli.run.demo import command
from herdproof.java import JavaMissing
from herdproof.ports import LOOPBACK

NOTHING_TO_START = "herdproof.cli.run.demo.command.check_services"


def refused(*arguments: str) -> str:
    """What is said of these, with exit code 2."""
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 2, result.output
    return result.stderr


def test_a_directory_that_exists_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory, or a file where one would have to be."""
    monkeypatch.setattr(NOTHING_TO_START, lambda: None)
    (tmp_path / "file").touch()

    assert "exists already; name a directory that does not" in refused("--out", str(tmp_path))
    assert "cannot be made" in refused("--out", str(tmp_path / "file" / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_port_in_use_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page cannot be there; no directory is made for a run that does not come."""
    monkeypatch.setattr(NOTHING_TO_START, lambda: None)
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused("--port", port, "--out", str(tmp_path / "out"))

    assert f"Port {port} on {LOOPBACK} is in use" in said
    assert not (tmp_path / "out").exists()


def test_a_missing_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a directory is made, or a page promised."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "No Java was found" in refused("--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(JavaMissing):
        command.check_services()


@pytest.mark.parametrize(
    "arguments", [("--seconds", "3"), ("--consumers", "0"), ("--partitions", "99")]
)
def test_a_size_that_shows_nothing_is_refused(arguments: tuple[str, str]) -> None:
    """Too short for one episode, nobody to read, or more than a chart can show."""
    assert "Invalid value" in refused(*arguments)
