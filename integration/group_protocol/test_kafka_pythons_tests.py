"""
kafka-python's own integration tests at `herdproof broker`, by itself and in front of a real Kafka.

They are run as they are shipped: those of groups, and at length all those of consumers.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from herdproof.kafka.embedded import EmbeddedKafka
from integration.broker.test_broker import broker
from integration.group_protocol.kafka_pythons_tests import (
    LOCK,
    TestsMissing,
    outcomes,
    pinned,
    source,
    unpacked,
)

CONSUMER, ADMIN = "test_consumer_integration.py", "test_admin_integration.py"
JOIN = (
    "test_group", "test_heartbeat_thread", "test_kafka_consumer__offset_commit_resume",
    "test_kafka_consumer_max_bytes_one_msg",
)  # fmt: skip
"""The tests of consumers that join a group."""
ASK = ("test_describe_group_exists", "test_delete_groups", "test_delete_groups_with_errors")
"""The administrator's of groups."""
FOR_OLDER_KAFKAS = "test_kafka_consumer_offsets_for_time_old"
"""Of consumers the only one that is for Kafkas before 0.10.1 alone, and skipped."""


@dataclass(frozen=True)
class Plane:
    """A broker, and which version kafka-python takes it for, by what it announces."""

    bootstrap: str
    version: str


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where their tests lie."""
    return unpacked(tmp_path_factory.mktemp("kafka-python"))


@pytest.fixture(params=["by itself", "in front of Kafka"])
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plane]:
    """A broker of either plane."""
    if request.param == "by itself":
        with broker(tmp_path) as address:
            yield Plane(address, "3.5")
    else:
        kafka: EmbeddedKafka = request.getfixturevalue("kafka")
        with broker(tmp_path, "--in-front-of", kafka.bootstrap) as address:
            yield Plane(address, "3.6")


@pytest.mark.timeout(300)
def test_kafka_pythons_tests_of_groups_pass(
    tests: Path, plane: Plane, report: Callable[[str], None]
) -> None:
    """Each of them, and each has run."""
    chosen = [*(f"{CONSUMER}::{name}" for name in JOIN), *(f"{ADMIN}::{name}" for name in ASK)]

    found = outcomes(tests, plane.bootstrap, plane.version, *chosen, again=report)

    assert found == dict.fromkeys((*JOIN, *ASK), "passed")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_of_kafka_pythons_tests_of_consumers_pass(
    tests: Path, plane: Plane, report: Callable[[str], None]
) -> None:
    """Those without a group as well, and which version the broker is taken for."""
    found = outcomes(tests, plane.bootstrap, plane.version, CONSUMER, again=report)

    assert found.pop(FOR_OLDER_KAFKAS).startswith("skipped: Requires KAFKA_VERSION < 0.10.1")
    assert {*JOIN, "test_kafka_version_infer"} < set(found)
    assert set(found.values()) == {"passed"}, found


def test_other_bytes_than_those_that_are_locked_are_not_run(tmp_path: Path) -> None:
    """Neither if they are there already."""
    pin = pinned(LOCK.read_text(encoding="utf-8"))
    (tmp_path / pin.file).write_bytes(gzip.compress(b"another"))

    with pytest.raises(TestsMissing, match="is not the one we know: its SHA-256 is"):
        source(pin, tmp_path)


def test_what_cannot_be_fetched_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A version that nobody has published, which pip does not find."""
    locked = pinned(LOCK.read_text(encoding="utf-8"))
    pin = replace(locked, version="0.0", requirement="kafka-python==0.0\n")

    with pytest.raises(TestsMissing, match=r"pip could not fetch kafka-python 0\.0: "):
        source(pin, tmp_path)
    assert not [*tmp_path.iterdir()]
