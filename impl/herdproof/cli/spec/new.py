"""`herdproof new NAME`: a small spec to start from, code that is held to it, and their test."""

from __future__ import annotations

import keyword
import re
import sys
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated

import typer

import herdspec
from herdproof.report.render import Output
from herdspec.language.errors import UsageError

TAKEN = {"client", "drafted", "expected", "failure", "herdproof", "herdspec", "test"}
"""Names that mean something else in the new files; so do herdspec's words and Python's modules."""
PLACES = {"spec": "{}.py", "code": "{}_code.py", "test": "test_{}.py"}
"""The files that are written, by their templates."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called: group_lock.")],
    directory: Annotated[
        Path, typer.Option("--directory", metavar="DIR", help="Where it is put.")
    ] = Path(),
) -> None:
    """Write a spec that verifies at once, its code, and their test."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        what = "write lower-case words, joined by _, such as group_lock"
        raise UsageError(f"{name!r} cannot name a spec: {what}")
    words = {word.lower() for word in vars(herdspec)}
    if name in TAKEN | words | sys.stdlib_module_names:
        raise UsageError(f"{name!r} means something else already: choose another name")
    if not directory.is_dir():
        raise UsageError(f"--directory {directory}: there is no such directory")
    files = {template: directory / place.format(name) for template, place in PLACES.items()}
    for path in files.values():
        if path.exists():
            raise UsageError(f"{path} exists already: choose another name, or remove it")
    for template, path in files.items():
        write(path, filled(template, name))
    spec, code = files["spec"], f"{name}_code:{class_of(name)}Code"
    out = Output()
    out.line(f"{spec}: a spec; check it with `herdproof verify {spec}`")
    out.line(
        f"{files['code']}: its code; hold it to it with `herdproof verify {spec} --code {code}`"
    )
    out.line(f"{files['test']}: their test; run it with `pytest {files['test']}`")


def filled(template: str, name: str) -> str:
    """A template's text, about this name."""
    text = (
        resources.files("herdproof.cli")
        .joinpath("templates", f"{template}.py.txt")
        .read_text("utf-8")
    )
    cls, const = class_of(name), name.upper()
    both = ", ".join(sorted((const, "DRAFTED")))
    return Template(text).substitute(name=name, cls=cls, const=const, both=both)


def class_of(name: str) -> str:
    """The name as that of a class: GroupLock."""
    return "".join(word.title() for word in name.split("_"))


def write(path: Path, text: str) -> None:
    """Write a file that must not be there yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
