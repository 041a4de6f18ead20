"""
Starts the command line: `python -m herdproof`, and the script `herdproof`.

It needs nothing but Python itself, so that an installation without the libraries that commands need
says which these are, instead of a traceback.
"""

from __future__ import annotations

import re
import sys
import traceback
from importlib.metadata import PackageNotFoundError, requires, version

CANNOT_START = 2
"""The exit code of who cannot even look at what was asked."""
UNKNOWN = 3
"""The exit code where nothing is known: Python's own, 1, would say that something fails."""
OWN_MISTAKE = "herdproof: that is a mistake of its own, and nothing is known of what was asked"


def main() -> None:
    """Run the command that was asked for."""
    try:
        from herdproof.cli import app
    except ModuleNotFoundError as problem:
        gone = missing()
        if not gone:
            raise
        print(sentence(problem.name or "", gone), file=sys.stderr)
        raise SystemExit(CANNOT_START) from None
    try:
        app()
    except Exception:
        traceback.print_exc()
        print(OWN_MISTAKE, file=sys.stderr)
        raise SystemExit(UNKNOWN) from None


def missing() -> list[str]:
    """The libraries that this distribution requires, and that are not installed."""
    try:
        required = requires("herdproof") or []
    except PackageNotFoundError:
        return []
    names = [
        re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in required if "extra ==" not in each
    ]
    return [name for name in names if not is_installed(name)]


def is_installed(name: str) -> bool:
    """Tells whether a distribution is there."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def sentence(module: str, gone: list[str]) -> str:
    """The sentence on what to do about it."""
    lines = [f"✗ {name}: missing" for name in gone]
    return "\n".join(
        [
            *lines,
            f"herdproof: it cannot start without {module}: run `{sys.executable} -m pip install "
            f"herdproof`, or of its wheel, without --no-deps",
        ]
    )


if __name__ == "__main__":
    main()
