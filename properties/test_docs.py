"""What the pages under docs/ and the README show in Python runs, page by page."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> str:
    """The Python of a page, as one module."""
    return "\n\n".join(BLOCK.findall(page.read_text()))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name
)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """A page's Python blocks, put one after another into a file, run as they are."""
    name = f"page_{page.stem.lower()}"
    file = tmp_path / f"{name}.py"
    file.write_text(blocks(page))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]


def test_a_page_that_is_wrong_is_found(tmp_path: Path) -> None:
    """A block that raises makes its page's test fail: the pattern really picks blocks up."""
    page = tmp_path / "page.md"
    page.write_text("text\n```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        exec(compile(blocks(page), "page", "exec"))
