"""The Python of the pages runs, page by page; the commands and options that they name exist."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import typer

from herdproof.cli import app

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
CALL = re.compile(r"(?:`|^|\$ )herdproof ([a-z]+)\b([^`\n#]*)", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> str:
    """The Python of a page, as one module."""
    return "\n\n".join(BLOCK.findall(page.read_text()))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name
)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """A page's Python blocks, put one after another into a file, run as they are."""
    name = f"page_{page.stem.lower()}"
    file = tmp_path / f"{name}.py"
    file.write_text(blocks(page))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]


def test_a_page_that_is_wrong_is_found(tmp_path: Path) -> None:
    """A block that raises makes its page's test fail: the pattern really picks blocks up."""
    page = tmp_path / "page.md"
    page.write_text("text\n```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        exec(compile(blocks(page), "page", "exec"))


def sections() -> dict[str, str]:
    """The section of each command on the page of commands."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    return dict(
        re.findall(r"^## herdproof (\w+).*?\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    )


def options() -> dict[str, set[str]]:
    """The options of each command, those of the commands below it included."""
    return {
        name: {
            word
            for each in (command, *getattr(command, "commands", {}).values())
            for o in each.params
            for word in (*o.opts, *o.secondary_opts)
            if "--" in word
        }
        for name, command in typer.main.get_group(app).commands.items()
    }


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    """The page of commands tells of every command that there is, and of no other."""
    assert set(sections()) == set(options())


@pytest.mark.parametrize("name", sorted(options()))
def test_a_section_names_its_command_s_options(name: str) -> None:
    """The section of a command names each of its options, and none that no command has."""
    named = set(OPTION.findall(sections()[name]))
    elsewhere = set().union(*options().values())

    assert options()[name] <= named
    assert named <= elsewhere


def test_pages_name_no_command_that_there_is_not() -> None:
    """Wherever a page says `herdproof WORD`, that is a command, with options that it has."""
    known = options()
    for page in PAGES:
        for name, rest in CALL.findall(page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name}: herdproof {name}"
            assert set(OPTION.findall(rest)) <= known[name] | {"--help"}, f"{page.name}: {rest}"
