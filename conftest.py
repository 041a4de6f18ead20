"""What all suites share: Hypothesis' settings, no silent skips in CI, measurements in the summary.

Seven promises:

- Hypothesis never fails a test for being slow: a shared machine is.
- Where services are promised (`CI=true`, or `HERDPROOF_DOCKER=required`), a skipped test failed:
  a green run must not mean that nothing ran. A generated test whose story the code cannot follow is
  skipped all the same: it is named, and no service would change it.
- What was collected is no garbage: thousands of tests and specs, that live until the run ends, are
  not searched for it again and again.
- Worlds that a file's tests share (in its `@cache`d functions) are let go of when the last is done.
- A command under test sets up the log of its process, which is this one: the next test finds it as
  it was, and nobody writes to an output that is closed by then.
- A command under test hears Ctrl-C, also where the whole run is a shell's background job.
- A test that measures (a failover time, steps per second) hands its line to the fixture `report`;
  the lines stand together at the end of the run, also when xdist's workers ran the tests.
"""

import gc
import logging
import os
import signal
from collections.abc import Callable, Generator
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

MEASURED = "measured"
SERVICES_ARE_PROMISED = os.environ.get("CI") == "true" or (
    os.environ.get("HERDPROOF_DOCKER") == "required"
)

STORY_TESTS = str(Path("herdproof", "conformance", "story_tests.py"))
"""Where a generated test is skipped whose story the code cannot follow."""

settings.register_profile(
    "herdproof", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("herdproof"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "herdproof")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # and what is ignored is inherited
    signal.signal(signal.SIGINT, signal.default_int_handler)


class FilesToWorkers(LoadScopeScheduling):  # type: ignore[misc]
    """
    Integration tests share servers and the clock, so one worker runs them, in order.

    A file of properties is for one worker, too: what its tests share (worlds that were explored,
    proofs) is made once. Files of many tests come first, so that workers end together.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "integration" if nodeid.startswith("integration/") else nodeid.partition("::")[0]


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks are carried out here, in turn: tests run beside each other, with threads of theirs."""
    monkeypatch.setattr("herdspec.check.side_by_side.processors", lambda: 1)


@pytest.fixture(autouse=True)
def own_log() -> Generator[None]:
    """Let the log of the process be what it was, whatever a test made of it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    if root.level != level:
        root.setLevel(level)  # which tells all loggers


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage once, after all is collected, and not again among what is left then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.collect()  # how often all is searched depends on how much the last search has left
        gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forget what the functions of a file of tests have kept, after its last test."""
    if nextitem is not None and nextitem.path == item.path:
        return
    if not isinstance(item, pytest.Function):
        return
    for kept in vars(item.module).values():
        if isinstance(kept, _lru_cache_wrapper) and kept.__module__ == item.module.__name__:
            kept.cache_clear()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesToWorkers:
    """Give integration to one worker, each file of properties to whoever is free."""
    return FilesToWorkers(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where services are promised, a skipped test failed (an expected failure is no skip)."""
    report = yield
    if SERVICES_ARE_PROMISED and not isinstance(item, pytest.DoctestItem):
        fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Where services are promised, a skipped module failed."""
    report = yield
    if SERVICES_ARE_PROMISED:
        fail_if_skipped(report)
    return report


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip into that of a failure that says why it is one."""
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        if isinstance(report.longrepr, tuple) and report.longrepr[0].endswith(STORY_TESTS):
            return
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} must run here (CI, or HERDPROOF_DOCKER=required): {why}"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """A function that puts one measured line into the summary at the end of the run."""
    return lambda line: record_property(MEASURED, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests measured."""
    lines = [
        str(value)
        for outcome in ("passed", "failed")
        for test in terminalreporter.getreports(outcome)
        for name, value in getattr(test, "user_properties", ())
        if name == MEASURED
    ]
    if lines:
        terminalreporter.section("measured")
        terminalreporter.write_line("\n".join(lines))
