"""The corpus of small specs: its truths are declared, and the oracle finds the same."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from properties.oracle.graph import Limits
from properties.oracle.truth import judge
from properties.oracle_agrees.declared import CORPUS, Case, cases

CASES = list(cases())
ROOT = CORPUS.parent.parent


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_the_oracle_finds_what_a_spec_declares(case: Case) -> None:
    """Every verdict with its length, and the actions that are never possible."""
    for at in case.declared:
        judged = judge(case.source, case.name, at.sizes, Limits(faults=at.faults))
        found = {name: str(truth) for name, truth in judged.truths.items()}

        assert found == at.verdicts, at
        assert judged.never == at.dead, at


def test_the_corpus_is_large() -> None:
    """There are at least a hundred and fifty specs, each of its own name within its theme."""
    assert len({case.id for case in CASES}) == len(CASES) >= 150


def test_the_oracle_knows_nothing_of_herdspec() -> None:
    """None of its files imports it, nor anything but Python's own library and each other."""
    allowed = sys.stdlib_module_names
    files = sorted((CORPUS.parent / "oracle").glob("*.py"))

    assert len(files) > 5
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {a.name.split(".")[0] for a in node.names} <= allowed, path
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                assert module.startswith("properties.oracle") or module.split(".")[0] in allowed, (
                    path
                )


def test_the_oracle_judges_where_herdspec_is_missing() -> None:
    """A process that cannot import it judges a spec by its text alone."""
    script = (
        "import sys\n"
        "sys.modules['herdspec'] = sys.modules['herdproof'] = None\n"
        "from pathlib import Path\n"
        "from properties.oracle.graph import Limits\n"
        "from properties.oracle.source import read\n"
        "from properties.oracle.truth import judge\n"
        "found = judge(read(Path(sys.argv[1])), 'Jump', {}, Limits())\n"
        "print(found.truths['not_five'])\n"
        "assert not [m for m in sys.modules if m.startswith('herd') and sys.modules[m]]\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{script}",
         str(CORPUS / "values" / "bounds.py")], capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (run.stdout, run.stderr) == ("fails 1\n", "")
