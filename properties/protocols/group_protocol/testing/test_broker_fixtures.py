"""The fixtures `herdproof_broker` and `herdproof_brokers`, as a user's own test run has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import threading

import pytest


def test_one(herdproof_broker):
    herdproof_broker.create_topic("t")
    herdproof_broker.fault("drop", api="Heartbeat", client="a")


def test_one_that_fails(herdproof_broker):
    herdproof_broker.fault("drop", api="Heartbeat", client="b")
    assert False, "as it was to be"


@pytest.mark.parametrize("herdproof_broker", [{"topics": {"t": 3}}], indirect=True)
def test_one_with_topics(herdproof_broker):
    assert len(herdproof_broker.produce("t", "a", "b", "c")) == 3


def test_two(herdproof_brokers):
    assert herdproof_brokers().bootstrap != herdproof_brokers(topics={"t": 1}).bootstrap


def test_that_is_interrupted(herdproof_broker):
    raise KeyboardInterrupt
"""
CONFTEST = """
import threading


def pytest_unconfigure():
    print("left:", [each.name for each in threading.enumerate() if "herdproof" in each.name])
"""


def test_a_users_tests_have_brokers_that_end_with_them(tmp_path: Path) -> None:
    """
    A fault that never came fails its test after it, in one sentence; a test that failed has enough.

    No thread is left, though the last test is interrupted.
    """
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-p", "herdproof.testing", "test_it.py"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip

    assert "1 failed, 3 passed, 1 error" in done.stdout
    assert "the fault 'drop' on Heartbeat number 1 of client 'a' never came" in done.stdout
    assert "client 'b' never came" not in done.stdout
    assert "left: []" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
