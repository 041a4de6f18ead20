"""`herdproof.testing`: what it offers is there, documented, and imported when it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import herdproof.testing
from herdproof.testing import PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    """Each name of the table can be imported, and its docstring is its own."""
    found = getattr(herdproof.testing, name)

    assert found.__doc__
    assert found.__doc__ not in {base.__doc__ for base in getattr(found, "__mro__", ())[1:]}


def test_the_table_and_the_types_name_the_same() -> None:
    """What type checkers see of the module is what can be imported from it at run time."""
    text = Path(herdproof.testing.__file__).read_text(encoding="utf-8")
    seen = text.partition("if TYPE_CHECKING:")[2].partition("PUBLIC = ")[0]

    words = seen.split()
    typed = [words[i + 1].rstrip(",") for i, word in enumerate(words) if word == "as"]
    assert sorted(typed) == sorted(PUBLIC)


def test_a_name_that_is_none_is_said() -> None:
    """A misspelt name is an import error that names the module."""
    with pytest.raises(ImportError, match=r"Stateful.*herdproof\.testing"):
        from herdproof.testing import Stateful  # type: ignore[attr-defined]  # noqa: F401


def test_the_plugin_imports_no_checker(tmp_path: Path) -> None:
    """Whoever only has Herdproof installed pays nothing for it at the start of pytest."""
    program = (  # what other plugins import is theirs
        "import sys, pytest\n"
        "others = ['-p', 'no:cacheprovider', '-p', 'no:hypothesispytest', '-p', 'no:anyio']\n"
        "pytest.main(['-q', '-p', 'herdproof.testing', *others])\n"
        "print([m for m in sys.modules if m.startswith(('herdspec', 'hypothesis', 'z3', 'numpy',"
        " 'docker', 'testcontainers', 'herdproof.'))])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.stdout.splitlines()[-1] == "['herdproof.testing']", done.stderr
