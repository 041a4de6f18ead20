"""
Where a benchmark runs: with this checkout's packages, whatever Python has started it.

An executable of this directory calls `enter` once it has read its arguments, and imports what is
not Python's own after that.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"


def enter() -> None:
    """
    Find this checkout's packages, here and in processes that are started from here.

    Where this Python lacks what they need, `.venv`'s goes on in its place, from the beginning;
    SystemExit where there is none.
    """
    own = [str(ROOT), str(ROOT / "spec"), str(ROOT / "impl")]
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*own, *inherited]))
    sys.path[:0] = own
    if is_installed():
        return
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists() or Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        name = Path(sys.argv[0]).name
        raise SystemExit(f"benchmarks/{name}: herdproof is not installed here: run `make` first")
    os.execv(python, [str(python), *sys.argv])


def is_installed() -> bool:
    """Whether herdproof, and so what it needs, is installed for this Python."""
    try:
        distribution("herdproof")
    except PackageNotFoundError:
        return False
    return True
