"""docs/operating.md and its unit file are what they say: given to those who read them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import typer

from herdproof import Consumer
from herdproof.cli import app
from herdproof.consuming.configuration import consumer_arguments

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")
UNIT = DOCS / "herdproof-coordinator.service"


def test_a_consumer_is_made_from_the_page_s_file(tmp_path: Path) -> None:
    """Every key of it is an argument; files of TLS are not there."""
    [text] = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    whole = tomllib.loads(text)
    assert set(whole["tls"]) == {"authority", "certificate", "key"}
    file = tmp_path / "consumer.toml"
    file.write_text(re.sub(r"^\[tls\].*?(?=^\[)", "", text, flags=re.MULTILINE | re.DOTALL))
    arguments = consumer_arguments(file, {})
    arguments["kafka"] = {}

    consumer = Consumer(**arguments)

    assert consumer.group == "payments"


def test_the_unit_runs_a_command_that_there_is() -> None:
    """With options that it has."""
    [line] = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    _, command, *arguments = shlex.split(line)
    known = typer.main.get_group(app).commands[command].params

    options = [word for word in arguments if word.startswith("--")]
    assert set(options) <= {name for each in known for name in each.opts}


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """Each key stands in its section; where there is a systemd, that says so, too."""
    read = ConfigParser(interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(UNIT.read_text())
    assert read.sections() == ["Unit", "Service", "Install"]
    assert read["Service"]["Restart"] == "always"
    if not shutil.which("systemd-analyze"):
        return
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/herdproof", sys.executable))

    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert [line for line in told.stderr.splitlines() if UNIT.name in line] == []
