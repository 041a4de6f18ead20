"""
Draws the architecture from the code: which package imports which, and one line for each folder.

    python docs/draw_architecture.py

writes the two parts of `architecture.md` anew that stand between its markers; all else there is
written by hand. Folders are described in the words of their own docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = Path(__file__).parent / "architecture.md"
TOPS = {"herdspec": ROOT / "spec" / "herdspec", "herdproof": ROOT / "impl" / "herdproof"}

JUDGED = ("entry", "campaign", "held", "judged", "traces")
"""The parts of a protocol's folder that hold its code to its spec, and so see both."""
SIMULATED = ("simulated", "gated", "real")
"""The world in which a protocol's code is tried."""
LAYERS = (
    "herdproof/cli",
    "herdproof/protocols/NAME: entry, held, traces",
    "herdproof/protocols/NAME: simulated",
    "herdproof/pipeline",
    "herdproof/report",
    "herdproof/protocols",
    "herdproof/protocols/NAME: code",
    "herdproof/conformance",
    "herdproof/simulator",
    "herdproof/consuming",
    "herdproof/broker",
    "herdproof/shells",
    "herdproof/kafka",
    "herdproof/zookeeper",
    "herdspec/protocols",
    "herdspec/check",
    "herdspec/engine",
    "herdspec/language",
)
"""The nodes of the diagram, from top to bottom, as imports are meant to go."""

Edge = tuple[str, str]
"""From a node to one whose modules it imports."""


@cache
def modules() -> dict[str, Path]:
    """The files of both packages by dotted name; a package's name is that of its `__init__`."""
    return {
        ".".join(path.relative_to(top.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for top in TOPS.values()
        for path in sorted(top.rglob("*.py"))
    }


def is_package(name: str) -> bool:
    """Tells a folder from a single module."""
    return modules()[name].name == "__init__.py"


def node(name: str) -> str | None:
    """The node of the diagram that a module belongs to; modules right below a top have none."""
    top, *rest = name.split(".")
    if not rest or (len(rest) == 1 and not is_package(name)):
        return None
    if top == "herdproof" and rest[0] == "protocols" and ".".join(rest[:2]) in rooms():
        return f"{top}/protocols/NAME: {part_of_a_room(rest[2:])}"
    return f"{top}/{rest[0]}"


@cache
def rooms() -> frozenset[str]:
    """The folders of single protocols in the implementation, as `protocols.NAME`."""
    return frozenset(
        name.removeprefix("herdproof.")
        for name in modules()
        if re.fullmatch(r"herdproof\.protocols\.\w+", name) and is_package(name)
    )


def part_of_a_room(rest: list[str]) -> str:
    """The part of a protocol's folder in which a module stands, by its path within."""
    part = rest[0] if rest else ""
    if part in JUDGED:
        return "entry, held, traces"
    return "simulated" if part in SIMULATED else "code"


def imported(file: Path) -> Iterator[str]:
    """The modules of both packages that a file imports, wherever in it."""
    for statement in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            whole = [f"{statement.module}.{alias.name}" for alias in statement.names]
            names = [name if name in modules() else statement.module for name in whole]
        yield from (name for name in names if name in modules())


@cache
def edges() -> frozenset[Edge]:
    """The nodes whose modules import those of another node, with that node."""
    pairs = ((node(name), node(to)) for name, file in modules().items() for to in imported(file))
    return frozenset((start, end) for start, end in pairs if start and end and start != end)


def upwards(edge: Edge) -> bool:
    """Tells whether an import goes against the order of the layers."""
    start, end = edge
    return LAYERS.index(end) < LAYERS.index(start)


def reached(start: str, along: Iterable[Edge]) -> set[str]:
    """The nodes that a path of one edge or more leads to."""
    steps = list(along)
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        here = waiting.pop()
        new = {end for begin, end in steps if begin == here} - seen
        seen |= new
        waiting += new
    return seen


def reduced(found: Set[Edge]) -> list[Edge]:
    """The transitive reduction of an acyclic graph: the edges that do not follow from others."""
    return [edge for edge in sorted(found) if edge[1] not in reached(edge[0], found - {edge})]


def mermaid(found: Set[Edge]) -> str:
    """The diagram: arrows down the layers, without those that follow; dotted arrows go up."""
    back = {edge for edge in found if upwards(edge)}
    lines = ["flowchart TD"]
    for top in reversed(TOPS):
        inside = [name for name in LAYERS if name.startswith(f"{top}/")]
        labels = [f'    {identifier(name)}["{name.partition("/")[2]}"]' for name in inside]
        lines += [f"  subgraph {top}", *labels, "  end"]
    lines += [f"  {identifier(a)} --> {identifier(b)}" for a, b in reduced(found - back)]
    lines += [f"  {identifier(a)} -.-> {identifier(b)}" for a, b in sorted(back)]
    return "\n".join(["```mermaid", *lines, "```"])


def identifier(name: str) -> str:
    """A node's name in Mermaid's own language."""
    return re.sub(r"\W+", "_", name)


def first_paragraph(file: Path) -> str:
    """The beginning of a module's docstring, in one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def folders() -> str:
    """A table of all packages, and of the modules that stand right below a top."""
    rows = ["| place | what it is |", "|---|---|"]
    for name, file in modules().items():
        if is_package(name):
            rows.append(f"| `{place(file.parent)}/` | {first_paragraph(file)} |")
        elif name.count(".") == 1:
            rows.append(f"| `{place(file)}` | {first_paragraph(file)} |")
    return "\n".join(rows)


def place(path: Path) -> str:
    """A path from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def drawn(page: str) -> str:
    """The page with both drawn parts as the code is now."""
    for marker, text in (("imports", mermaid(edges())), ("folders", folders())):
        begin, end = f"<!-- {marker}: drawn -->\n", "\n<!-- end -->"
        before, found, rest = page.partition(begin)
        if not found or end not in rest:
            raise ValueError(f"the page has no place for its {marker}")
        page = f"{before}{begin}{text}{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
