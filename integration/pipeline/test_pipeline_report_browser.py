"""The report's page in a real browser: it is shown whole, on a phone as well, and asks nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from herdproof.pipeline.report.facts import facts_of
from herdproof.pipeline.report.page import page
from integration.browser import DESKTOP, PHONE, Browser, browser, find_browser
from properties.pipeline.report.report_tables import Rows, audit, hostile, many, write

PAGES: dict[str, Callable[[], Rows]] = {
    "audit": audit,
    "hostile": hostile,
    "many": partial(many, 1_000),
}
SEEN = """
(selector => {
  const found = document.querySelector(selector);
  const box = found && found.getBoundingClientRect();
  return !!box && box.width > 0 && box.height > 0 && found.checkVisibility();
})
"""
"""Whether something is there, and shown."""
TOO_WIDE = """
(width => [...document.querySelectorAll("body *")].filter(e =>
  !e.closest(".wide *, svg, .steps") && e.getBoundingClientRect().right > width + 1
).map(e => e.tagName + "." + e.className))
"""
"""What reaches beyond the page, and lies in no box that scrolls by itself."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for all of these tests."""
    command = find_browser()
    if command is None and "CI" not in os.environ:
        pytest.skip("there is no browser here: install Debian's package `chromium`, or Chrome")
    assert command, "CI has a browser: apt-get install chromium"
    with browser(command) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages, by what is in them."""
    made = {}
    for name, rows in PAGES.items():
        directory = write(tmp_path_factory.mktemp(name), rows())
        made[name] = directory / "report.html"
        made[name].write_text(page(facts_of(directory)), encoding="utf-8")
    return made


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_shown_at_any_width(
    name: str, width: int, pages: dict[str, Path], chromium: Browser
) -> None:
    """No message, no request but for itself, nothing to scroll sideways; what matters is seen."""
    chromium.open(pages[name], width)

    assert chromium.told("Log.entryAdded", "Runtime.consoleAPICalled") == []
    assert chromium.told("Runtime.exceptionThrown", "Page.javascriptDialogOpening") == []
    asked = [e["request"]["url"] for e in chromium.told("Network.requestWillBeSent")]
    assert asked == [pages[name].as_uri()]
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    assert chromium.evaluate(f"{TOO_WIDE}({width})") == []
    for selector in (".matrix td .fails", ".story .drawing circle", ".owned .cross", ".chart rect"):
        assert chromium.evaluate(f"{SEEN}({selector!r})"), selector


def test_a_story_is_read_on_a_phone(pages: dict[str, Path], chromium: Browser) -> None:
    """Where a drawing's sentences are out of sight, they stand below it, broken to the width."""
    sentence = "document.querySelector('.steps li').getBoundingClientRect().width"
    chromium.open(pages["audit"], PHONE)
    on_a_phone = chromium.evaluate(sentence)
    text = chromium.evaluate("document.querySelector('.steps').innerText")
    chromium.open(pages["audit"], DESKTOP)

    assert 200 < on_a_phone < PHONE
    assert "Start orders-0 at 17, generation 2" in text
    assert chromium.evaluate("document.querySelector('.steps').getBoundingClientRect().width") <= 1


def test_a_page_follows_the_reader_s_choice_of_dark(
    pages: dict[str, Path], chromium: Browser
) -> None:
    """Paper and ink change places, and what is written on a bar can still be read."""
    colour = "getComputedStyle(document.{}).{}"
    looks = {}
    for dark in (False, True):
        chromium.open(pages["audit"], DESKTOP, dark=dark)
        paper = chromium.evaluate(colour.format("body", "backgroundColor"))
        ink = chromium.evaluate(colour.format("body", "color"))
        bar = chromium.evaluate(colour.format("querySelector('.owned .c0 rect')", "fill"))
        looks[dark] = tuple(_brightness(told) for told in (paper, ink, bar))

    assert looks[False][0] > 240 > 60 > looks[False][1]
    assert looks[True][0] < 40 < 200 < looks[True][1]
    for _, ink_, bar_ in looks.values():
        assert abs(ink_ - bar_) > 90


def _brightness(colour: str) -> float:
    """Of `rgb(1, 2, 3)`."""
    red, green, blue = (float(part) for part in colour.strip("rgb()").split(","))
    return 0.3 * red + 0.59 * green + 0.11 * blue


def test_these_tests_see_what_they_look_for(tmp_path: Path, chromium: Browser) -> None:
    """A page that is too wide, calls out and fetches is found to do so."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<body><p style="width: 900px">wide<p hidden class=x>no<img src="http://127.0.0.1:9/a.png">'
        "<script>console.error('called')</script>"
    )

    chromium.open(bad, PHONE)

    assert chromium.told("Runtime.consoleAPICalled")
    assert len(chromium.told("Network.requestWillBeSent")) == 2
    assert "P." in chromium.evaluate(f"{TOO_WIDE}({PHONE})")
    assert not chromium.evaluate(f"{SEEN}('.x')")
