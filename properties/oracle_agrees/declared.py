"""What the specs of `properties/corpus` declare of themselves: their true verdicts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from properties.oracle.source import Source, read
from properties.oracle.truth import DEFINED, NEXT

CORPUS = Path(__file__).parents[1] / "corpus"
SHORT = {"meaning": DEFINED, "next": NEXT}
AT = re.compile(r"at ((?:\w+=\d+(?:, )?)+):")
LINE = re.compile(r"(\w+): ((?:holds|fails|open)(?: \d+)?|[\w., ]+)")


@dataclass
class Declared:
    """The verdicts that are declared of one spec at one size, and its actions that are dead."""

    sizes: dict[str, int]
    faults: int
    verdicts: dict[str, str] = field(default_factory=lambda: {DEFINED: "holds", NEXT: "holds"})
    dead: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Case:
    """One spec of the corpus, with what it declares."""

    path: Path
    name: str
    source: Source
    declared: tuple[Declared, ...]

    @property
    def argument(self) -> str:
        """The spec as commands take it."""
        return f"{self.path}:{self.name}"

    @property
    def id(self) -> str:
        """What a test calls it."""
        return f"{self.path.stem}.{self.name}"


def cases() -> Iterator[Case]:
    """Every spec of the corpus."""
    for path in sorted(CORPUS.rglob("*.py"), key=lambda path: path.name):
        source = read(path)
        behind = strings_behind(path)
        for name in source.named():
            text = behind.get(name) or source.specification(name).spec.sentence
            yield Case(path, name, source, tuple(declared(text)))


def strings_behind(path: Path) -> dict[str, str]:
    """The string behind the assignment of each name of a module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = {}
    for node, after in pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            match after:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[node.targets[0].id] = text
    return found


def declared(text: str) -> list[Declared]:
    """What a docstring declares, size by size."""
    found = [Declared({}, 2)]
    for line in map(str.strip, text.splitlines()):
        if at := AT.fullmatch(line):
            sizes = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", at[1])}
            found.append(Declared(sizes, sizes.pop("faults", 2)))
        elif match := LINE.fullmatch(line):
            name, said = match.groups()
            if name == "dead":
                found[-1].dead = set(said.split(", "))
            else:
                found[-1].verdicts[SHORT.get(name, name)] = said
    return found
