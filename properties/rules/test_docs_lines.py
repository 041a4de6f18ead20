"""Pages are read in editors and in differences, too: their prose has at most 100 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import reflow


@pytest.mark.parametrize("page", reflow.pages(), ids=lambda page: page.name)
def test_prose_has_at_most_a_hundred_columns(page: Path) -> None:
    """No paragraph and no item of a page has a longer line that could be wrapped."""
    text = page.read_text(encoding="utf-8")
    assert not [
        block[0] for is_prose, block in reflow.blocks(text) if is_prose and reflow.too_long(block)
    ], "run: python docs/reflow.py"


@pytest.mark.parametrize("page", reflow.pages(), ids=lambda page: page.name)
def test_a_wrapped_page_stays_as_it_is(page: Path) -> None:
    """What the script has made, it makes again."""
    text = page.read_text(encoding="utf-8")
    assert reflow.reflowed(text) == text


def test_long_lines_are_wrapped_and_what_is_no_prose_is_left() -> None:
    """Words, items and indents stay; code, tables and headings are as they were."""
    word, code = "word " * 30, "`" + "code " * 10 + "`"
    text = f"# {word}\n{word}\n\n- {word}{code}\n| {word} |\n```\n{word}\n```\n"

    lines = reflow.reflowed(text).splitlines()

    assert lines[0] == f"# {word}"
    assert lines[1:3] == [("word " * 20).strip(), ("word " * 10).strip()]
    assert lines[4].startswith("- word")
    assert lines[5:7] == ["  " + ("word " * 11).strip(), f"  {code}"]
    assert lines[7:] == [f"| {word} |", "```", word, "```"]


def test_no_wrapped_line_begins_as_an_item_does() -> None:
    """A dash or a number amid a sentence stays on the line before, however long that gets."""
    text = "words " * 16 + "- and so on, until the line is full and has to be wrapped\n"
    assert [line[:2] for line in reflow.reflowed(text).splitlines()] == ["wo", "an"]


def test_a_long_line_is_found() -> None:
    """A paragraph with a line of 101 columns is too long; a word alone cannot be wrapped."""
    assert reflow.too_long(["a " * 50 + "b"])
    assert not reflow.too_long(["a" * 120])
