"""The page of a demonstration in a real browser: shown whole at any width, light and dark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from herdproof.cli.run.demo.judging import Ending
from herdproof.cli.run.demo.page import PageServer, page
from herdproof.cli.run.demo.snapshot import Chapter, snapshot
from integration.browser import DESKTOP, Browser, browser, find_browser
from properties.demo.canned import HOSTILE, PARTITIONS, scene

NARROW = 400
OVER = replace(
    scene(), chapter=Chapter.OVER, next_s=None,
    ending=Ending(0, "The contract held in this run.", "out/report.html"),
)  # fmt: skip
TEXT = "document.querySelector({!r}).innerText"
SCROLLS = """
[...document.querySelectorAll("body *")].filter(e =>
  !e.closest("svg, .unseen, .wide *") && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.tagName + "." + e.className)
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


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The page that is kept of a demonstration that is over."""
    file = tmp_path / "demo.html"
    file.write_text(page(snapshot(OVER)), encoding="utf-8")
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, DESKTOP])
def test_the_page_is_shown_whole(width: int, dark: bool, kept: Path, chromium: Browser) -> None:
    """No message, no request but for itself, nothing to scroll sideways; all is drawn."""
    chromium.open(kept, width, dark=dark)

    assert chromium.told("Log.entryAdded", "Runtime.consoleAPICalled") == []
    assert chromium.told("Runtime.exceptionThrown", "Page.javascriptDialogOpening") == []
    asked = [e["request"]["url"] for e in chromium.told("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [kept.as_uri()]
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    assert chromium.evaluate(SCROLLS) == []
    assert chromium.evaluate("document.querySelectorAll('#chart .row').length") == PARTITIONS
    assert chromium.evaluate("document.querySelectorAll('#chart .silence').length") == 1
    assert chromium.evaluate("document.querySelectorAll('#chart .flag').length") == 2


def test_the_page_says_in_words_what_it_draws(kept: Path, chromium: Browser) -> None:
    """Verdict, counts, states, acts and their cost; whatever a name is, it is text."""
    chromium.open(kept, DESKTOP)

    assert chromium.evaluate(TEXT.format("#badge")) == "● holds"
    assert chromium.evaluate(TEXT.format("#again")) == "2"
    assert "✗ killed" in chromium.evaluate(TEXT.format("#consumers"))
    assert "★ leads" in chromium.evaluate(TEXT.format("#coordinators"))
    acts = chromium.evaluate(TEXT.format("#acts"))
    assert "longest without a reader after that: 4.0 s, partition 2" in acts
    assert HOSTILE in acts
    label = chromium.evaluate("document.querySelector('#chart').getAttribute('aria-label')")
    assert "partition 2: consumer 1" in label
    assert chromium.evaluate("document.querySelector('#ending a').href").endswith("/report.html")


def test_paper_and_ink_change_places(kept: Path, chromium: Browser) -> None:
    """The reader's choice of dark is followed, and what is written on a bar is read on both."""
    papers = []
    for dark in (False, True):
        chromium.open(kept, DESKTOP, dark=dark)
        papers.append(chromium.evaluate("getComputedStyle(document.body).backgroundColor"))
        label = chromium.evaluate("getComputedStyle(document.querySelector('#chart .of')).fill")
        assert label == "rgb(20, 23, 28)"

    assert papers == ["rgb(255, 255, 255)", "rgb(20, 23, 28)"]


def test_a_live_page_shows_the_end_and_keeps_the_report(tmp_path: Path, chromium: Browser) -> None:
    """It asks until all is over; its link to the report holds when nobody serves it any more."""
    (tmp_path / "report.html").write_text("<title>the report</title>", encoding="utf-8")
    shown = [snapshot(scene()), snapshot(OVER)]
    done = """new Promise(done => { const look = () => {
        const link = document.querySelector("#ending a");
        link && link.href.startsWith("blob:") ? done(true) : setTimeout(look, 20);
    }; look(); })"""

    def asked() -> dict[str, object]:
        return shown.pop(0) if len(shown) > 1 else shown[0]

    with PageServer(0, asked, tmp_path / "report.html") as server:
        chromium.navigate(server.url)
        chromium.call("Runtime.evaluate", expression=done, awaitPromise=True)
        server.await_watchers()

    assert chromium.evaluate(TEXT.format("#badge")) == "● holds"
    chromium.follow("#ending a")
    assert chromium.evaluate("document.title") == "the report"
