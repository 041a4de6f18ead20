"""What `herdproof groups` refuses before it looks at any group."""

from __future__ import annotations

import pytest

from herdproof.cli.run import groups
from properties.cli.files import run


@pytest.mark.parametrize("to", ["middle", "-1", "1.5", ""])
def test_a_reset_to_nowhere_is_refused_at_once(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a usage error with the values that there are, though there is no ZooKeeper to ask."""
    assert_refused_at_once(
        to, f"--to {to}: write earliest, latest, or an offset, which is 0 or more", monkeypatch
    )


@pytest.mark.parametrize("to", ["earliest", "latest"])
def test_an_end_that_nobody_knows_is_refused_at_once(
    to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a partition begins and ends, Kafka alone knows: its address is asked for."""
    assert_refused_at_once(to, f"--to {to} needs --bootstrap-servers", monkeypatch)


def assert_refused_at_once(to: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No group is looked at, and the exit code is that of a usage error."""
    monkeypatch.setattr(groups, "stored", lambda *_: pytest.fail("a group was looked at"))

    told = run("groups", "reset-offsets", "g", "--topic", "t", f"--to={to}")

    assert told.exit_code == 2, told.output
    assert why in told.stderr
