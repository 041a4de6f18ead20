"""What all commands share: the version, short help, options from the environment, and their end."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from herdproof import __main__, cli
from herdproof.cli import app
from herdproof.cli.run.serving import service
from herdproof.cli.withdrawn import WITHDRAWN
from herdproof.errors import Signalled


def test_the_version_is_said() -> None:
    """In one line, that of the distribution."""
    told = CliRunner().invoke(app, ["--version"])

    assert (told.exit_code, told.output) == (0, f"herdproof {version('herdproof')}\n")


@pytest.mark.parametrize(
    "arguments", [["-h"], ["consume", "-h"], ["groups", "-h"], ["groups", "reset-offsets", "-h"]]
)
def test_help_has_a_short_name_too(arguments: list[str]) -> None:
    """And says nothing of the environment at each option."""
    told = CliRunner().invoke(app, arguments)

    assert told.exit_code == 0
    assert "Usage:" in told.output
    assert "env var" not in told.output


def test_an_option_may_stand_in_the_environment() -> None:
    """The command line goes before it."""
    given = {"HERDPROOF_EXPLORE_FAULTS": "-1"}
    told = CliRunner().invoke(app, ["explore", "election"], env=given)

    assert told.exit_code == 2
    assert "--faults" in told.output


def test_a_withdrawn_name_warns_once_and_is_understood() -> None:
    """With what to say instead; a name that another command has is none of its business."""
    given = ["--brokers", "127.0.0.1:1", "--brokers=127.0.0.1:2", "--bootstrap", "127.0.0.1:1"]
    told = CliRunner().invoke(app, ["consume", "g", "no topic", *given, "--", "--kafka"])

    assert told.stderr.splitlines()[:2] == [
        "herdproof consume: --brokers is withdrawn, and unknown from 0.3 on: say --coordinators",
        "herdproof consume: --bootstrap is withdrawn, and unknown from 0.3 on: say "
        "--bootstrap-servers",
    ]
    assert "cannot be a topic's name" in told.stderr
    assert told.stderr.count("withdrawn") == 2


def test_each_withdrawn_name_is_an_option_beside_the_one_to_use() -> None:
    """Else the warning would name what is not there, or come before an error."""
    commands = typer.main.get_group(app).commands
    for name, withdrawn in WITHDRAWN.items():
        each = [commands[name], *getattr(commands[name], "commands", {}).values()]
        names = [set(option.opts) for command in each for option in command.params]
        for former, now in withdrawn.items():
            assert any({former, now} <= opts for opts in names), (name, former)


def test_the_changelog_has_each_withdrawn_name() -> None:
    """Under its heading, with what to use instead."""
    changes = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changes.partition("### Withdrawn\n")[2].partition("\n### ")[0]
    for command, withdrawn in WITHDRAWN.items():
        for former, now in withdrawn.items():
            row = next(line for line in section.splitlines() if f"`{former}`" in line)
            assert f"`{command}`" in row
            assert f"`{now}`" in row


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (Signalled(128 + signal.SIGTERM), None), (typer.Exit(128 + signal.SIGTERM), None),
        (Signalled(128 + signal.SIGINT), 130), (typer.Exit(2), 2),
    ],
)  # fmt: skip
def test_a_service_ends_well_by_sigterm_alone(end: BaseException, code: int | None) -> None:
    """Whoever told it to end learns of no failure."""

    @service
    def serve() -> None:
        raise end

    if code is None:
        serve()
    else:
        with pytest.raises(type(end)):
            serve()


def test_a_mistake_of_our_own_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not said that something fails, which Python's own exit code would say."""

    def broken() -> None:
        raise KeyError("C")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as end:
        __main__.main()

    assert end.value.code == 3
    told = capsys.readouterr().err
    assert "KeyError: 'C'" in told
    assert told.endswith("a mistake of its own, and nothing is known of what was asked\n")


def test_an_end_of_input_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Click would end with 1 and `Aborted!`, as if something had failed."""

    def read(*_: object) -> None:
        raise EOFError

    monkeypatch.setattr("herdproof.cli.specs.read", read)
    told = CliRunner().invoke(app, ["explore", "election"])

    assert isinstance(told.exception, RuntimeError)
    assert "Aborted" not in told.output


def test_who_reads_no_further_learns_of_no_failure() -> None:
    """The exit code is that of the signal, as other commands have it; nothing is told of it."""
    command = [sys.executable, "-m", "herdproof", "explore", "election", "--size", "Broker=1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        told = running.stderr.read()

    assert (running.returncode, told) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_file_that_cannot_be_written_is_no_failure(option: str, tmp_path: Path) -> None:
    """A full disk is said in one sentence."""
    CliRunner().invoke(app, ["new", "lock", "--directory", str(tmp_path)])
    spec = f"{tmp_path / 'lock.py'}:LOCK"
    told = CliRunner().invoke(
        app, ["verify", spec, "--no-prove", "--no-cache", option, "/dev/full"]
    )

    assert told.exit_code == 2
    assert told.stderr.endswith(f"{option} /dev/full cannot be written: No space left on device\n")


@pytest.mark.parametrize("option", ["--json", "--junit", "--sarif", "--html"])
def test_a_run_without_a_verdict_leaves_none_of_an_earlier_one(option: str, tmp_path: Path) -> None:
    """Whoever reads the file after a run that could not be asked finds none."""
    CliRunner().invoke(app, ["new", "lock", "--directory", str(tmp_path)])
    file = tmp_path / "verdicts"
    command = ["verify", f"{tmp_path / 'lock.py'}:LOCK", "--no-prove", "--no-cache", option, file]
    holds = CliRunner().invoke(app, [*map(str, command)])
    was_there = file.exists()
    asked = CliRunner().invoke(app, [*map(str, command), "--size", "Client=0"])

    assert (holds.exit_code, was_there) == (0, True)
    assert (asked.exit_code, file.exists()) == (2, False)
