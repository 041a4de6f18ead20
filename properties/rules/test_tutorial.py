"""
What the tutorial and the README tell a newcomer to do, done; what comes of it is what they show.

A page is followed from its top, in an empty folder. What is done with a block of it stands behind
its three backquotes, where no reader of the rendered page sees it:

- `python save=lease.py`: the block is the file, from now on;
- `python add=lease.py`: it is put at the file's end;
- `diff change=lease.py`: lines of it go (`-`) and come (`+`);
- `console`: after each `$` a command, and below it what it prints. `…` stands for anything, a line
  of its own for any lines; seconds may be others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy

import pytest

from properties.cli.files import run_alone

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)[ ]?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\b\d+\.\d+ s\b")
ANY = "…"


@dataclass(frozen=True)
class Block:
    """A block of a page: what to do with it (`save`, `add`, `change`, `run`), and its text."""

    deed: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that a reader does something with, in order."""
    for language, deed, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "console":
            yield Block("run", "", text)
        elif "=" in deed:
            kind, _, file = deed.partition("=")
            yield Block(kind, file, text)


def follow(page: Path, folder: Path) -> int:
    """Do what a page says, in this folder; how many commands there were."""
    commands = 0
    for block in blocks(page):
        file = folder / block.file
        match block.deed:
            case "save":
                file.parent.mkdir(exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
            case "add":
                text = file.read_text(encoding="utf-8")
                file.write_text(f"{text}\n\n{block.text}", encoding="utf-8")
            case "change":
                file.write_text(changed(file.read_text(encoding="utf-8"), block.text), "utf-8")
            case "run":
                for command, shown in commands_in(block.text):
                    check(command, shown, folder)
                    commands += 1
            case deed:
                pytest.fail(f"{page.name}: nobody knows how to {deed}")
    return commands


def changed(text: str, lines: str) -> str:
    """A file's text after a change: what stands there (` `), goes (`-`) and comes (`+`)."""
    marked = [(line[:1], line[1:]) for line in lines.splitlines(keepends=True)]
    old = "".join(line for mark, line in marked if mark != "+")
    new = "".join(line for mark, line in marked if mark != "-")
    assert text.count(old) == 1, f"these lines should stand in the file once:\n{old}"
    return text.replace(old, new)


def commands_in(text: str) -> Iterator[tuple[list[str], str]]:
    """The commands of a block, each with what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield line.partition("  #")[0].split(), shown


def check(command: list[str], shown: str, folder: Path) -> None:
    """Run a command; it must print what is shown."""
    program, *arguments = command
    arguments = [name for argument in arguments for name in named(argument, folder)]
    if program == "herdproof" and arguments[0] == "prove":
        # Which of equally small counterexamples z3 finds depends on what it was asked before.
        command = [sys.executable, "-c", "from herdproof.cli import app; app()", *arguments]
        told = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    elif program == "herdproof":
        told = run_alone(*arguments).output  # a new process to the reader
    else:
        plugin = ["-p", "herdproof.testing", "-p", "no:cacheprovider"] * (program == "pytest")
        module = [] if program == "python" else ["-m", program, *plugin]
        told = subprocess.run(
            [sys.executable, *module, *arguments], cwd=folder, capture_output=True, text=True,
            env={**os.environ, "PYTEST_ADDOPTS": ""},
        ).stdout  # fmt: skip
    assert is_shown(told, shown), f"$ {' '.join(command)}\n{told}\nis shown as\n{shown}"


def named(argument: str, folder: Path) -> list[str]:
    """The files that a pattern names, as a shell would have it."""
    if "*" not in argument:
        return [argument]
    return sorted(str(file.relative_to(folder)) for file in folder.glob(argument))


def is_shown(told: str, shown: str) -> bool:
    """Whether this is what a page shows."""
    pattern = ""
    for line in tidy(shown):
        if line.strip() == ANY:
            pattern += r"(?:.*\n)*"
        else:
            pattern += re.escape(line).replace(ANY, ".*") + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in tidy(told))) is not None


def tidy(text: str) -> list[str]:
    """Lines without what nobody sees, and without how long it took."""
    return [SECONDS.sub("… s", line.rstrip()) for line in text.strip("\n").splitlines()]


@pytest.mark.timeout(300)  # minutes of other tests beside it are no failure
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorial.md",
        "docs/refinement.md",
        "docs/conformance.md",
        "docs/trace.md",
    ],
)
def test_who_follows_a_page_sees_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever does what a page says, step by step in an empty folder, sees what it shows."""
    monkeypatch.chdir(tmp_path)
    copy(ROOT / "properties" / "published" / "exclusion" / "allocator.py", tmp_path)
    assert follow(ROOT / page, tmp_path)


def test_a_page_that_shows_something_else_is_found() -> None:
    """Another word, a line too many or too few are seen; seconds and `…` are passed over."""
    told = "found 3 states, 0.1 s\n\n  1. a step\n  2. a step\nIt fails.\n"

    assert is_shown(told, "found 3 states, 1.7 s\n\n  1. a step\n…\nIt fails.\n")
    assert is_shown(told, "found … states, 1.7 s\n…\n")
    assert not is_shown(told, "found 4 states, 0.1 s\n…\n")
    assert not is_shown(told, told + "It holds.\n")
    assert not is_shown(told, "found 3 states, 0.1 s\n")


def test_a_change_is_made_where_its_lines_stand() -> None:
    """A change takes lines away and puts lines in, where what is around them stands."""
    text = "class A:\n    one = 1\n    two = 2\n    one = 1\n"

    assert changed(text, "-    two = 2\n+    two = 3\n     one = 1\n") == text.replace("= 2", "= 3")
    with pytest.raises(AssertionError, match="once"):
        changed(text, "     one = 1\n+    three = 3\n")
