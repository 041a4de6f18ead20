"""Places where errors were raised, as far as that is the user's own code."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_paths
from traceback import extract_tb

OURS = ("herdproof", "herdspec")
"""These packages, which are not among what is installed where they are developed."""


def is_installed(path: Path) -> bool:
    """Tells whether a file is Python's own, or a library's."""
    return any(path.is_relative_to(place) for place in get_paths().values())


def line_of(error: BaseException) -> str:
    """Where it was raised, as far as that is the user's; a syntax error says it itself."""
    frames = [] if isinstance(error, SyntaxError) else extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_file() and not _is_foreign(Path(f.filename))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _is_foreign(file: Path) -> bool:
    return is_installed(file) or any(file.resolve().is_relative_to(place) for place in _homes())


@cache
def _homes() -> tuple[Path, ...]:
    """The folders of our packages."""
    origins = [found.origin for name in OURS if (found := find_spec(name)) is not None]
    return tuple(Path(origin).resolve().parent for origin in origins if origin)
