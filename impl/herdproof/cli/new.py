"""`herdproof new NAME`: a small, complete spec to start from, and a test file that runs it."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

import herdspec
from herdproof.cli.render import Output
from herdspec.language.errors import UsageError

TAKEN = {"client", "drafted", "expected", "failure", "herdproof", "test"}
"""Names that mean something else in the new files; so do herdspec's words and Python's modules."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called: group_lock.")],
    directory: Annotated[
        Path, typer.Option("--directory", metavar="DIR", help="Where it is put.")
    ] = Path(),
) -> None:
    """Write NAME.py, a spec that verifies at once, and test_NAME.py, which runs it in pytest."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        what = "write lower-case words, joined by _, such as group_lock"
        raise UsageError(f"{name!r} cannot name a spec: {what}")
    words = {word.lower() for word in vars(herdspec)}
    if name in TAKEN | words | sys.stdlib_module_names:
        raise UsageError(f"{name!r} means something else already: choose another name")
    if not directory.is_dir():
        raise UsageError(f"--directory {directory}: there is no such directory")
    spec, test = directory / f"{name}.py", directory / f"test_{name}.py"
    for path in (spec, test):
        if path.exists():
            raise UsageError(f"{path} exists already: choose another name, or remove it")
    write(spec, filled("spec", name))
    write(test, filled("test", name))
    out = Output()
    out.line(f"{spec}: a spec; check it with `herdproof verify {spec}`")
    out.line(f"{test}: its test; run it with `pytest {test}`")


def filled(template: str, name: str) -> str:
    """A template's text, about this name."""
    text = files("herdproof.cli").joinpath("templates", f"{template}.py.txt").read_text("utf-8")
    cls, const = "".join(word.title() for word in name.split("_")), name.upper()
    both = ", ".join(sorted((const, "DRAFTED")))
    return Template(text).substitute(name=name, cls=cls, const=const, both=both)


def write(path: Path, text: str) -> None:
    """Write a file that must not be there yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
