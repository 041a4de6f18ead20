"""
Specs as they were: `git:REVISION:path.py:Class` is the class in that file at a revision.

The Python files of the file's folder are taken out of the repository as they were, so that what the
file imports from its neighbours is as old as the file; what it imports from elsewhere is of today.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from herdproof.cli.specs import Subject, find
from herdspec.language.errors import UsageError

PREFIX = "git:"

_folders: list[TemporaryDirectory[str]] = []
"""Folders taken out of git, needed as long as the process: sources are read when looked at."""


def subject(name: str) -> Subject:
    """The spec of a name as commands know them, or of `git:REVISION:path.py:Class`."""
    before = set(sys.modules)
    if not name.startswith(PREFIX):
        found = find(name)
        folder = Path(name.rpartition(":")[0] or name).resolve().parent
    else:
        revision, colon, spec = name.removeprefix(PREFIX).partition(":")
        path, _, attribute = spec.rpartition(":") if not spec.endswith(".py") else (spec, "", "")
        if not (revision and colon and path.endswith(".py")):
            raise UsageError(f"{name}: write git:REVISION:path/to/file.py:ClassName")
        file = at_revision(Path(path), revision)
        found, folder = find(f"{file}:{attribute}" if attribute else str(file)), file.parent
    if ".py" in name:
        set_apart(before, folder)
    return found


def at_revision(path: Path, revision: str) -> Path:
    """The file as it was, in a folder with the Python files that stood beside it."""
    if revision.startswith("-"):
        raise UsageError(f"{revision!r} is no revision")
    folder = path.parent if str(path.parent) else Path()
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: name the file from where it is now")
    tree = f"{revision}:./"
    listed = git(folder, "ls-tree", "--name-only", tree).decode().splitlines()
    if path.name not in listed:
        raise UsageError(f"there is no {path.name} in {folder} at {revision}")
    files = [name for name in listed if name.endswith(".py")]
    packed = git(folder, "archive", "--format=tar", tree, "--", *files)
    place = TemporaryDirectory(prefix="herdproof-revision-")
    _folders.append(place)
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        # Before 3.11.4 (Debian 12 has 3.11.2) there are no filters; what git archives lies below.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        tar.extractall(place.name)
    return Path(place.name) / path.name


def git(folder: Path, *arguments: str) -> bytes:
    """The output of git; `UsageError` with its own words where it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        raise UsageError("git is not installed: it is needed for specs at a revision") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(f"git {arguments[0]} in {folder}: {said[0] if said else 'failed'}")
    return done.stdout


def set_apart(before: set[str], folder: Path) -> None:
    """
    Give the modules that a spec brought from its folder names of their own.

    Otherwise the other spec's import of a neighbour would find this one's.
    """
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        file = getattr(module, "__file__", None)
        if file is None or name.startswith("herdproof_spec_"):
            continue
        if Path(file).resolve().is_relative_to(folder.resolve()):
            apart = f"{name} of {folder}"
            sys.modules[apart] = sys.modules.pop(name)
            for value in vars(module).values():
                if isinstance(value, type) and value.__module__ == name:
                    value.__module__ = apart
