"""The rules of the test run itself (conftest.py), shown on small suites that are run for real."""

import os
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


def test_a_skip_is_a_skip_on_a_desk(tmp_path: Path) -> None:
    """Where no service is promised, a skipped test is a skipped test."""
    code, told = pytest_on(SKIPS, tmp_path)

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


def test_hypothesis_fails_no_test_for_being_slow() -> None:
    """On a machine with much else to do, neither examples nor what makes them are too slow."""
    here = settings()

    assert here.deadline is None
    assert HealthCheck.too_slow in here.suppress_health_check


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_a_test_measures_stands_in_the_summary(workers: str, tmp_path: Path) -> None:
    """What a test measures stands in the summary, also when xdist's workers ran it."""
    code, told = pytest_on(SKIPS, tmp_path, "-n", workers)

    assert "= measured =" in told
    assert "\nfailover after 3.2 s\n" in told
    assert code == 0
