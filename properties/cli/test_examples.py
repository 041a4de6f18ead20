"""Each command's --help begins with a line that fits, and ends with an example that is right."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from herdproof.cli import app
from herdproof.cli.examples import EXAMPLES

SHORT = 65
"""Characters of a summary that a terminal of 80 columns shows beside the longest name."""


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands that can be called, by their whole names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


ALL = dict(commands(typer.main.get_command(app)))


def test_each_command_has_an_example() -> None:
    """And no example is of a command that is gone."""
    assert {*ALL} == {*EXAMPLES}


@pytest.mark.parametrize("name", ALL)
def test_an_example_can_be_called(name: str) -> None:
    """It names the command, its options and as many arguments as it takes; its help shows it."""
    command = ALL[name]
    words = shlex.split(EXAMPLES[name])[1:]
    context = command.context_class(command, info_name=name)

    assert words[: len(name.split())] == name.split()
    assert command.epilog == f"Example: {EXAMPLES[name]}"
    options, rest, _ = command.make_parser(context).parse_args(words[len(name.split()) :])
    assert rest == []
    wanted = [p for p in command.params if p.required]
    assert all(options.get(p.name or "") for p in wanted)


@pytest.mark.parametrize("name", ALL)
def test_a_summary_is_not_cut_short(name: str) -> None:
    """The first sentence is short enough for the list of commands."""
    summary = ALL[name].get_short_help_str(SHORT)

    assert summary
    assert not summary.endswith("...")
