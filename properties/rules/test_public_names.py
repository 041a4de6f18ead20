"""Public names: what `herdspec` and `herdproof` offer, and the concepts that README opens with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import herdproof
import herdspec

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CONCEPTS = {
    "Spec": herdspec,
    "Property": herdspec,
    "Protocol": herdspec,
    "GroupContract": herdspec,
    "Adapter": herdproof,
    "Tracer": herdproof,
    "TraceMap": herdproof,
}
FIRST_SCREEN_LINES = 30


@pytest.mark.parametrize("package", [herdspec, herdproof], ids=lambda package: package.__name__)
def test_every_public_name_is_there(package: object) -> None:
    """What `__all__` names can be imported, in whatever module it stands."""
    assert [name for name in vars(package)["__all__"] if not hasattr(package, name)] == []


@pytest.mark.parametrize("name", CONCEPTS)
def test_each_concept_has_a_public_name(name: str) -> None:
    """Whoever knows a concept finds it in its package, not somewhere below."""
    assert getattr(CONCEPTS[name], name).__name__ == name


def test_the_first_screen_names_the_concepts() -> None:
    """README says within a screen what the concepts are."""
    screen = "\n".join(README.splitlines()[:FIRST_SCREEN_LINES])
    concepts = ("spec", "property", "protocol", "adapter", "trace", "contract")
    assert [word for word in concepts if f"**{word}**" not in screen] == []


def test_a_spec_that_imports_everything_gets_no_other_spec() -> None:
    """What `from herdspec import *` brings is no spec: the contract comes by name only."""
    assert "Protocol" in herdspec.__all__
    assert "GroupContract" not in herdspec.__all__
    assert [name for name in herdspec.__all__ if hasattr(getattr(herdspec, name), "actions")] == []


def test_other_names_are_refused() -> None:
    """A name that is none is an `AttributeError`, as of any module."""
    for package in (herdspec, herdproof):
        with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
            _ = package.Nothing


def test_to_import_them_brings_no_solver_and_no_client() -> None:
    """A spec, and a program that consumes, start without what they do not use."""
    code = (
        "import sys, herdspec, herdproof; print([m for m in sys.modules if m.startswith("
        "('z3', 'numpy', 'llvmlite', 'pyspark', 'kazoo', 'confluent_kafka', 'herdspec.check'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
