"""What all commands share: the version, short help, options from the environment, and their end."""

from __future__ import annotations

import signal
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.cli.run.serving import service
from herdproof.errors import Signalled


def test_the_version_is_said() -> None:
    """In one line, that of the distribution."""
    told = CliRunner().invoke(app, ["--version"])

    assert (told.exit_code, told.output) == (0, f"herdproof {version('herdproof')}\n")


@pytest.mark.parametrize("arguments", [["-h"], ["consume", "-h"], ["groups", "-h"]])
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
