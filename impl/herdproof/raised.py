"""Places where errors were raised, as far as that is the user's own code."""

from __future__ import annotations

from pathlib import Path
from sysconfig import get_paths
from traceback import extract_tb

import herdspec

OURS = (Path(__file__).resolve().parent, Path(str(herdspec.__file__)).resolve().parent)
"""The folders of these packages, which are not installed where they are developed."""


def is_installed(path: Path) -> bool:
    """Tells whether a file is Python's own, or a library's."""
    return any(path.is_relative_to(place) for place in get_paths().values())


def line_of(error: BaseException) -> str:
    """Where it was raised, as far as that is the user's; a syntax error says it itself."""
    frames = [] if isinstance(error, SyntaxError) else extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_file() and not _is_foreign(Path(f.filename))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _is_foreign(file: Path) -> bool:
    return is_installed(file) or any(file.resolve().is_relative_to(place) for place in OURS)
