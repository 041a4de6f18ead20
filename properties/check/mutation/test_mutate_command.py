"""`herdproof mutate`: exit codes, what is told and written, reasons, processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from herdproof.cli import app

GATE = '''
"""A gate of one's own."""
from herdspec import *

class Gate(Spec):
    """A gate that opens."""
    open: bool = False
    seen: bool = False

    @action
    def lift(self) -> None:
        """It opens."""
        require(not self.open)
        self.open = True

    @action
    def drop(self) -> None:
        """It closes."""
        require(self.open)
        self.open = False
        self.seen = True

@sometimes
def it_is_open(s: Gate) -> bool:
    """It is open."""
    return s.open

@recoverable
def it_can_close(s: Gate) -> bool:
    """It can close."""
    return not s.open

@step
def only_an_open_gate_is_seen_to_close(before: Gate, after: Gate) -> bool:
    """Only an open gate is seen to close."""
    return before.seen == after.seen or before.open
'''
REASON = '\nSURVIVORS = {"drop: skip `self.seen = True`": "only people read it"}\n'


@pytest.fixture
def command_line(tmp_path: Path) -> Any:
    """Runs `herdproof mutate` on the text of a spec."""

    def run(text: str, *options: str) -> Any:
        file = tmp_path / "gate.py"
        file.write_text(text)
        return CliRunner().invoke(app, ["mutate", f"{file}:Gate", "--processes", "1", *options])

    return run


def test_the_command_fails_on_a_hole(command_line: Any, tmp_path: Path) -> None:
    """`herdproof mutate` ends with 1 at a hole: where, what differs and what is missing."""
    report = tmp_path / "report.json"
    done = command_line(GATE, "--json", str(report))
    assert done.exit_code == 1, done.output
    assert "gate.py:21: drop: skip `self.seen = True`" in done.output
    assert "after lift(): drop() leads to seen: False instead of True" in done.output
    assert "those that read seen: only an open gate is seen to close" in done.output
    found = json.loads(report.read_text())
    assert [s["id"] for s in found["survivors"]] == ["drop: skip `self.seen = True`"]
    assert found["exit"] == 1


def test_the_command_takes_reasons(command_line: Any, tmp_path: Path) -> None:
    """With a reason in the module, or in a file, it ends with 0; a stale one is named."""
    assert command_line(GATE + REASON).exit_code == 0
    file = tmp_path / "why.toml"
    file.write_text('"drop: skip `self.seen = True`" = "only people read it"\n')
    assert command_line(GATE, "--reasons", str(file)).exit_code == 0
    file.write_text('"drop: skip `self.open = False`" = "why not"\n')
    done = command_line(GATE + REASON, "--reasons", str(file))
    assert done.exit_code == 1
    assert "Stale reasons" in done.output


def test_the_command_judges_in_two_processes(tmp_path: Path) -> None:
    """Two processes read the user's file again, each for itself."""
    file = tmp_path / "gate.py"
    file.write_text(GATE + REASON)
    done = CliRunner().invoke(app, ["mutate", f"{file}:Gate", "--processes", "2"])
    assert done.exit_code == 0, done.output


def test_the_command_refuses_reasons_that_are_none(command_line: Any, tmp_path: Path) -> None:
    """A file of reasons that is missing, broken or without words is a usage error."""
    file = tmp_path / "why.toml"
    done = command_line(GATE, "--reasons", str(file))
    assert done.exit_code == 2
    assert "why.toml cannot be read: No such file or directory" in done.output.replace("\n", "")
    for text in ("no toml", '"a" = 3\n', '"a" = ""\n'):
        file.write_text(text)
        assert command_line(GATE, "--reasons", str(file)).exit_code == 2
