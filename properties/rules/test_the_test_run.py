"""The rules of the test run itself (conftest.py), shown on small suites that are run for real."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[2]
SKIPS = '''
"""A suite with one skip, one expected failure and one test that runs."""

import pytest


def test_needs_a_service() -> None:
    pytest.skip("no such service")


@pytest.mark.xfail(strict=True)
def test_is_known_to_fail() -> None:
    assert False


def test_measures(report) -> None:
    report("failover after 3.2 s")
'''


def pytest_on(suite: str, folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run pytest with our conftest.py on one test file; its exit code and what it printed."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra --import-mode=importlib\n")
    (folder / "test_suite.py").write_text(suite)
    unset = ("CI", "HERDPROOF_DOCKER", "PYTEST_ADDOPTS")
    clean = {name: value for name, value in os.environ.items() if name not in unset}
    clean = {name: value for name, value in clean.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def on_a_desk(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """What comes of the suite where no service is promised, and nothing is shared out."""
    return pytest_on(SKIPS, tmp_path_factory.mktemp("desk"))


def test_a_skip_is_a_skip_on_a_desk(on_a_desk: tuple[int, str]) -> None:
    """Where no service is promised, a skipped test is a skipped test."""
    code, told = on_a_desk

    assert "1 passed, 1 skipped, 1 xfailed" in told
    assert code == 0


@pytest.mark.parametrize("promise", [{"CI": "true"}, {"HERDPROOF_DOCKER": "required"}])
def test_a_skip_is_a_failure_where_services_are_promised(
    promise: dict[str, str], tmp_path: Path
) -> None:
    """Where services are promised, a skipped test is a failed one, and its reason is told."""
    code, told = pytest_on(SKIPS, tmp_path, **promise)

    assert "1 failed, 1 passed, 1 xfailed" in told
    assert "no such service" in told
    assert code == 1


def test_a_skipped_module_is_a_failure_where_services_are_promised(tmp_path: Path) -> None:
    """Where services are promised, a module that skips itself is an error."""
    suite = 'import pytest\n\npytest.importorskip("no_such_library")\n'

    code, told = pytest_on(suite, tmp_path, CI="true")

    assert "1 error" in told
    assert "no_such_library" in told
    assert code != 0


def test_a_story_that_code_cannot_follow_is_skipped_everywhere(tmp_path: Path) -> None:
    """It is named, and no service would change it; any other skip of the suite still fails."""
    suite = """
from herdproof.testing import stories
from properties.conformance.leases import Lease, Leases

LeaseStories = stories(Lease, Leases, Client=1)
"""
    code, told = pytest_on(suite, tmp_path, CI="true", PYTHONPATH=os.pathsep.join(sys.path))

    assert "skipped" in told
    assert "failed" not in told
    assert code == 0


def test_the_log_of_one_test_is_not_that_of_the_next(tmp_path: Path) -> None:
    """A command that logs to an output of its own test's leaves no handler and no level behind."""
    suite = """
import logging, sys

def test_sets_it_up():
    logging.getLogger().handlers[:] = [logging.StreamHandler(sys.stderr)]
    logging.getLogger().setLevel("INFO")

def test_finds_it_as_it_was():
    assert all(type(h) is not logging.StreamHandler for h in logging.getLogger().handlers)
    assert logging.getLogger().level == logging.WARNING
"""
    code, told = pytest_on(suite, tmp_path)

    assert "2 passed" in told
    assert code == 0


def test_hypothesis_fails_no_test_for_being_slow() -> None:
    """On a machine with much else to do, neither examples nor what makes them are too slow."""
    here = settings()

    assert here.deadline is None
    assert HealthCheck.too_slow in here.suppress_health_check


def test_what_a_test_measures_stands_in_the_summary(on_a_desk: tuple[int, str]) -> None:
    """What a test measures stands in the summary."""
    code, told = on_a_desk

    assert "= measured =" in told
    assert "\nfailover after 3.2 s\n" in told
    assert code == 0


def test_what_workers_measure_stands_in_the_summary_too(tmp_path: Path) -> None:
    """Also when xdist's workers ran the tests; those of a file are run by one of them."""
    tells = 'def test_tells(report, worker_id) -> None:\n    report(f"{__name__} by {worker_id}")\n'
    (tmp_path / "test_other.py").write_text(tells + tells.replace("tells", "tells_again", 1))

    code, told = pytest_on(SKIPS, tmp_path, "-n", "2")

    assert "= measured =" in told
    assert "\nfailover after 3.2 s\n" in told
    assert len(set(re.findall(r"^test_other by gw\d$", told, re.MULTILINE))) == 1
    assert told.count("test_other by gw") == 2
    assert code == 0
