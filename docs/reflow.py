"""
Wraps the prose of the pages at 100 columns; tables, code and headings stay as they are.

    python docs/reflow.py [PAGE…]

Only paragraphs and items with a longer line are wrapped anew. Inline code and links are not broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
COLUMNS = 100
FROM_A_RUN = "verified.md"
"""A page that `make docs` prints."""

FENCE = re.compile(r"^\s*```")
APART = re.compile(r"^\s*(\||#|<!--|>|$)")
"""Lines that belong to no paragraph: tables, headings, remarks, quotations, nothing."""
ITEM = re.compile(r"^(\s*)([-*]|\d+\.)\s+")
WORD = re.compile(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+")
MARKER = re.compile(r"[-+*]|#+|\d+[.)]|[|>].*")
"""What would begin an item, or no paragraph, at the beginning of a line."""


def blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """The lines of a page, those of a paragraph or of an item together; whether they are prose."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = bool(FENCE.match(line))
        alone = fenced or fence or bool(APART.match(line))
        if block and (alone or ITEM.match(line)):
            yield True, block
            block = []
        if alone:
            yield False, [line]
        else:
            block.append(line)
        fenced ^= fence
    if block:
        yield True, block


def too_long(block: list[str]) -> bool:
    """Tells whether a paragraph has a line that could be wrapped, and is not."""
    return any(len(line) > COLUMNS and len(WORD.findall(line)) > 1 for line in block)


def wrapped(block: list[str]) -> list[str]:
    """A paragraph's lines, as many words on each as fit; an item's further lines stand below it."""
    item = ITEM.match(block[0])
    first = item[0] if item else block[0][: len(block[0]) - len(block[0].lstrip())]
    rest = " " * len(first)
    words = WORD.findall(" ".join([block[0][len(first) :], *block[1:]]))
    lines = [first + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= COLUMNS or MARKER.fullmatch(word):
            lines[-1] += f" {word}"
        else:
            lines.append(rest + word)
    return lines


def reflowed(text: str) -> str:
    """A page with its long lines of prose wrapped."""
    lines: list[str] = []
    for is_prose, block in blocks(text):
        lines += wrapped(block) if is_prose and too_long(block) else block
    return "\n".join(lines) + "\n"


def pages() -> list[Path]:
    """The pages that people write."""
    return [page for page in sorted(DOCS.glob("*.md")) if page.name != FROM_A_RUN]


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or pages():
        page.write_text(reflowed(page.read_text(encoding="utf-8")), encoding="utf-8")
