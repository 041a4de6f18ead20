"""A verdict about an entered protocol's code is kept while nothing that it imports changes."""

from __future__ import annotations

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from herdproof.protocols.implementation import Implementation
from herdproof.protocols.imports import digest_of_imports
from herdspec.check.protocol import Protocol
from properties.conformance.leases import LEASE

FILES = {
    "kept_adapter/__init__.py": "",
    "kept_adapter/adapter.py": (
        "from kept_code.server import LIMIT\n"
        "from herdproof.conformance.adapter import Adapter\n"
        "class Served(Adapter):\n    limit = LIMIT\n"
    ),
    "kept_code/__init__.py": "",
    "kept_code/server.py": "def turn():\n    import kept_far\n\nLIMIT = 1\n",
    "kept_code/late.py": "",
    "kept_far.py": "FAR = 1\n",
    "kept_other.py": "OTHER = 1\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution whose adapter is in one package, and its code in others."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("kept_")]:
        monkeypatch.delitem(sys.modules, name)
    invalidate_caches()
    return tmp_path


def keys() -> list[object]:
    """What the verdicts about the code rest on."""
    adapter = import_module("kept_adapter.adapter").Served
    made = Implementation(Protocol("lease", lambda: LEASE), adapter=lambda _: adapter)
    return [check.rests_on() for check in made.checks_for("lease") if check.rests_on is not None]


@pytest.mark.parametrize(
    "changed",
    ["kept_adapter/adapter.py", "kept_code/server.py", "kept_code/late.py", "kept_far.py"],
)
def test_what_the_adapter_imports_counts(project: Path, changed: str) -> None:
    """In another package, in a module of it that nobody has imported yet, or within a call."""
    before = keys()
    (project / changed).write_text(FILES[changed] + "# changed\n")

    assert all(new != old for new, old in zip(keys(), before, strict=True))


def test_what_it_does_not_import_does_not(project: Path) -> None:
    """A neighbour that nothing imports, and the same once more."""
    before = keys()
    (project / "kept_other.py").write_text("OTHER = 2\n")

    assert keys() == before


def test_libraries_count_by_their_version(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """Their files are not read: another version is another library."""
    (project / "kept_far.py").write_text("import numpy\n")
    before = digest_of_imports("kept_adapter.adapter")
    monkeypatch.setattr(
        "herdproof.protocols.imports.versions", lambda names: f"{[*names]} of another day"
    )

    assert digest_of_imports("kept_adapter.adapter") != before
