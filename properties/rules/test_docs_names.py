"""Files, folders, modules and links that pages, docstrings and comments name are really there."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("spec", "impl", "properties", "integration", "benchmarks", "docs")
PACKAGES = {"herdspec": ROOT / "spec", "herdproof": ROOT / "impl"}
ELSEWHERE = {"herdproof.zip", "specifications/"}
"""What is made by a job, and a folder of the TLA+ examples."""
FROM_A_RUN = "verified.md"
"""A page that is printed by `make docs`, and names files where that run found them."""

FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?<![\w/.{}*-])[\w./-]*\w\.py\b(?!\.)")
FOLDER = re.compile(r"`([\w.]+(?:/\w+)*)/`")
DOTTED = re.compile(r"(?<![\w./-])herd(?:proof|spec)(?:\.\w+)+(?!/)\b")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SAVED = re.compile(r"^```\w+ (?:save|change)=(\S+)", re.MULTILINE)

EXAMPLES = {
    "FILE.py", "NAME.py", "NAME_code.py", "a.py", "changed.py", "file.py", "group_lock.py",
    "group_lock_code.py", "lock.py", "path.py", "test_NAME.py", "test_group_lock.py",
}  # fmt: skip
"""Files of a reader, in examples and usages; and what pages save (`save=`)."""


def pages() -> list[Path]:
    """The pages that people write."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in found if page.name != FROM_A_RUN]


@cache
def tree() -> frozenset[str]:
    """The paths of all files and folders of this repository, from the root, a slash before each."""
    found = [path for top in TREES for path in (ROOT / top).rglob("*")]
    everything = [*found, *(ROOT / top for top in TREES), *ROOT.glob("*.py")]
    return frozenset(
        f"/{path.relative_to(ROOT).as_posix()}"
        for path in everything
        if "__pycache__" not in path.parts
    )


@cache
def examples() -> frozenset[str]:
    """The names of files that readers make, as pages tell them to."""
    saved = {name for page in pages() for name in SAVED.findall(page.read_text(encoding="utf-8"))}
    return frozenset({Path(name).name for name in saved} | EXAMPLES)


def there(name: str) -> bool:
    """Some path of the repository ends with this one; `NAME` stands for any protocol."""
    ending = re.compile(f"/{re.escape(name).replace('NAME', '[a-z_]+')}$")
    return any(map(ending.search, tree()))


@cache
def defined(file: Path) -> frozenset[str]:
    """The names that a module has at its top."""
    top = ast.parse(file.read_text(encoding="utf-8")).body
    nodes = [node for statement in top for node in ast.walk(statement)]
    assigned = {node.id for node in nodes if isinstance(node, ast.Name)}
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    made = {node.name for node in top if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return frozenset(assigned | imported | made)


def importable(name: str) -> bool:
    """A dotted name leads to a package, a module, or what stands at the top of one."""
    package, *rest = name.split(".")
    place = PACKAGES[package] / package
    while rest:
        step = rest.pop(0)
        if (place / step).is_dir():
            place = place / step
        elif (module := place / f"{step}.py").is_file():
            return not rest or rest[0] in defined(module)
        else:
            return step in defined(place / "__init__.py")
    return True


def unimportable(text: str) -> Iterator[str]:
    """Dotted names of this project in a text that lead nowhere."""
    for name in DOTTED.findall(text):
        if name not in ELSEWHERE and not importable(name):
            yield name


def missing(text: str) -> Iterator[str]:
    """Files and dotted names in a text that are not there."""
    for name in FILE.findall(text):
        if Path(name).name not in examples() and not there(name):
            yield name
    yield from unimportable(text)


def missing_of_a_page(text: str) -> Iterator[str]:
    """What a page names, outside of its blocks, and is not there; and links that lead nowhere."""
    prose = FENCED.sub("", text)
    for code in CODE.findall(prose):
        yield from missing(code)
    folders = (name for name in FOLDER.findall(prose) if f"{name}/" not in ELSEWHERE)
    yield from (f"{name}/" for name in folders if not there(name))
    blocks = "\n".join(FENCED.findall(text))
    yield from unimportable(blocks)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in headings}


def dead_links(page: Path, text: str) -> Iterator[str]:
    """Links of a page to files, and to headings, that are not there."""
    for link, anchor in LINK.findall(FENCED.sub("", text)):
        target = page.parent / link if link else page
        if not target.exists():
            yield link
        elif anchor and anchor not in anchors(target):
            yield f"{link}#{anchor}"


def remarks(text: str) -> Iterator[str]:
    """The comments and the docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def missing_of_a_module(text: str) -> Iterator[str]:
    """What the comments and the docstrings of a module name, and is not there."""
    for remark in remarks(text):
        yield from missing(remark)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    """Each file, folder and module that a page names in code exists."""
    assert not list(missing_of_a_page(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Each link within the repository leads to a file, and to a heading of it where it says so."""
    assert not list(dead_links(page, page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("top", ["spec", "impl", "properties", "integration"])
def test_what_docstrings_and_comments_name_is_there(top: str) -> None:
    """Each file and module that a docstring or a comment names exists."""
    assert not [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / top).rglob("*.py"))
        for name in missing_of_a_module(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("look", "text", "found"),
    [
        (missing_of_a_page, "see `check/explore.py`", "check/explore.py"),
        (missing_of_a_page, "see `pipeline/jobs/`", "pipeline/jobs/"),
        (missing_of_a_page, "see `herdproof.link.central`", "herdproof.link.central"),
        (missing_of_a_page, "```\nfrom herdproof.link import x\n```", "herdproof.link"),
        (missing_of_a_module, '"""Read by `central_trace.py`."""', "central_trace.py"),
        (missing_of_a_module, "# as herdspec.check.nothing has it", "herdspec.check.nothing"),
    ],
)
def test_what_is_not_there_is_found(
    look: Callable[[str], Iterator[str]], text: str, found: str
) -> None:
    """A name that leads nowhere is told, in prose, blocks, docstrings and comments."""
    assert list(look(text)) == [found]


def test_links_that_lead_nowhere_are_found() -> None:
    """A file that is gone, and a heading that is called otherwise now."""
    page = ROOT / "docs" / "pipeline.md"
    text = "[a](gone.md), [b](performance.md#an-audit), [c](#no-such), [d](https://example.org/x)"
    assert list(dead_links(page, text)) == ["gone.md", "#no-such"]


def test_what_is_there_is_not_told() -> None:
    """Names of files, folders, modules and functions that exist, and of examples, pass."""
    text = "`pipeline/audit/judge.py`, `herdproof/pipeline/`, `herdproof.testing`, `lock.py`"
    assert not list(missing_of_a_page(text))
    assert importable("herdproof.pipeline.audit.judge.judge")
