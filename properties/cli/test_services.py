"""The fixtures of real services say in one sentence what they miss on a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TEST = '''
def test_it(herdproof_zookeeper):
    """Something about a service."""
    assert herdproof_zookeeper.hosts
'''


def pytest_in(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a test that wants a ZooKeeper."""
    (folder / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [*command, "-p", "herdproof.testing", *options, "test_it.py"],
        cwd=folder, capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip


def test_without_a_java_it_is_said_what_to_install(tmp_path: Path) -> None:
    """An embedded service without a Java fails its tests, and says what to do."""
    done = pytest_in(tmp_path, JAVA_HOME="", PATH=str(tmp_path))

    assert done.returncode == 1
    assert "No Java was found" in done.stdout
    assert "apt install" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_without_docker_it_is_said_what_to_start(tmp_path: Path) -> None:
    """A service in Docker fails its tests in one sentence where no engine answers."""
    done = pytest_in(tmp_path, "--herdproof-services=docker", DOCKER_HOST=f"unix://{tmp_path}/no")

    assert done.returncode == 1
    assert "no Docker engine answers" in done.stdout
    assert "set herdproof_services to embedded" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_setting_that_is_none_is_said(tmp_path: Path) -> None:
    """Another word in the setting is refused, with those that there are."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nherdproof_services = cloud\n")

    done = pytest_in(tmp_path)

    assert done.returncode == 1
    assert "herdproof_services is 'cloud': write 'embedded' or 'docker'" in done.stdout
