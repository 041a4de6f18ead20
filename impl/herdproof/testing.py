"""
The pytest plugin: every `*.story.json` in a test folder is a regression test.

A story file (see `herdproof replay`) says what is expected of it: that its property `fails` along
it, that it `holds` now, or that the story is `impossible` now. The test replays the story on the
spec, and on the code if there is one, and fails where either does something else. A fixed bug is
kept by saving its story, fixing it, and `herdproof replay --accept FILE`.

The plugin comes with the package; nothing of the checkers is imported before a story is collected.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

SUFFIX = ".story.json"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> StoryModule | None:
    """Collect a story file."""
    if not file_path.name.endswith(SUFFIX):
        return None
    return StoryModule.from_parent(parent, path=file_path)


class StoryModule(pytest.File):
    """A story file, which holds one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """The test, named after the property."""
        _, _, name = self.path.name.removesuffix(SUFFIX).rpartition(".")
        yield StoryItem.from_parent(self, name=name)


NOT_SHOWN = "herdproof: not shown"
"""Under which name a test's report carries what the test does not show."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what a generated test does not show into its report; workers of xdist send it on."""
    report = yield
    gaps = getattr(getattr(item, "cls", None), "gaps", None)
    if report.when == "call" and callable(gaps):
        report.user_properties.extend((NOT_SHOWN, gap) for gap in gaps())
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end what was not shown by what passed: a test that sees little shows little."""
    lines = [
        f"{test.nodeid}: {value}"
        for test in terminalreporter.getreports("passed")
        for name, value in getattr(test, "user_properties", ())
        if name == NOT_SHOWN
    ]
    if lines:
        terminalreporter.section("held to a spec, but not shown")
        terminalreporter.write_line("\n".join(lines))


class Unexpected(Exception):
    """A story did not come as its file expects, or the code went elsewhere; lines tell how."""


class StoryItem(pytest.Item):
    """The replay of one story."""

    def runtest(self) -> None:
        """Replay it."""
        from herdproof.cli.stories import judged

        verdict = judged(self.path)
        if not verdict.as_expected:
            raise Unexpected("\n".join(verdict.lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """The story without a traceback; what is wrong with a file in one sentence."""
        expected = type(excinfo.value).__name__ in ("Unexpected", "UsageError", "SpecError")
        return str(excinfo.value) if expected else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands, and what it is called."""
        return self.path, None, f"story: {self.name}"
