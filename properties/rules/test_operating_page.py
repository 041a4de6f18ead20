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
from integration.docker.images import BROKER_LIBRARIES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")
UNIT = DOCS / "herdproof-coordinator.service"
DOCKERFILE = (DOCS / "herdproof.Dockerfile").read_text(encoding="utf-8")


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


def test_what_is_told_by_the_environment_is_an_option() -> None:
    """Of the image's own settings, and of those on the page: each is an option of its command."""
    commands = typer.main.get_group(app).commands
    for text in (DOCKERFILE, PAGE):
        said = re.findall(r"HERDPROOF_(COORDINATOR|CONSUME)_([A-Z]+(?:_[A-Z]+)*)", text)
        assert said
        for command, option in said:
            known = {name for each in commands[command.lower()].params for name in each.opts}
            assert f"--{option.lower().replace('_', '-')}" in known


def test_the_image_has_what_the_suites_own_has() -> None:
    """The libraries that a coordinator and a consumer import are told once, and compared here."""
    [imported] = re.findall(r'^ARG IMPORTED="(.*)"$', DOCKERFILE, re.MULTILINE)

    assert set(imported.split()) == set(BROKER_LIBRARIES)


def test_the_image_looks_at_its_own_metrics_port() -> None:
    """Both commands serve there by default, and the port is open."""
    [looked_at] = re.findall(r"http://127\.0\.0\.1:(\d+)/healthz", DOCKERFILE)

    served = re.findall(r"HERDPROOF_(\w+)_METRICS_PORT=(\d+)", DOCKERFILE)
    assert dict(served) == {"COORDINATOR": looked_at, "CONSUME": looked_at}
    [opened] = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    assert looked_at in opened.split()


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
