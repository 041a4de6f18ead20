"""What the consumer, and `herdproof consume`, refuse before they ask anybody; and how it prints."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from herdproof import Consumer
from herdproof.cli import app
from herdproof.cli.run.consume import line
from herdproof.consumer import (
    BadArgument,
    KafkaUnusable,
    Misused,
)
from herdproof.consuming.subscription import InvalidSubscription
from herdproof.protocols.central_coordinator.settings import BadSettings
from herdproof.record import Record


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"protocol": "paxos"}, "protocol is 'paxos': what is known is 'central'"),
        (
            {"coordinators": "nowhere"},
            "coordinators: 'nowhere' is no address: it must be host:port",
        ),
        ({"coordinators": []}, "coordinators is empty"),
        ({"bootstrap_servers": "h:0"}, "bootstrap_servers: 'h:0' is no address"),
        ({"auto_offset_reset": "none"}, "auto_offset_reset is 'none': it must be one of"),
        ({"group": ""}, "group is empty"),
        ({"max_queued_records": 0}, "max_queued_records is 0"),
        ({"kafka": {"group.id": "g"}}, "kafka sets 'group.id', which is the argument group:"),
    ],
)
def test_an_argument_that_cannot_work_is_refused(arguments: dict[str, Any], said: str) -> None:
    """The error names the argument, and says what it must be."""
    arguments = {
        "group": "g", "coordinators": "127.0.0.1:1", "bootstrap_servers": "127.0.0.1:1", **arguments
    }  # fmt: skip
    with pytest.raises(BadArgument, match=re.escape(said)):
        Consumer(**arguments)


def test_settings_that_do_not_go_together_are_refused() -> None:
    """A session that ends before the second ping could only flap."""
    with pytest.raises(BadSettings, match="more than twice ping_interval_ms"):
        Consumer("g", coordinators="h:1", bootstrap_servers="h:1", session_timeout_s=1)


def test_a_wrong_setting_of_kafkas_client_is_refused() -> None:
    """The error has librdkafka's own reason."""
    consumer = Consumer(
        "g", coordinators="h:1", bootstrap_servers="h:1", kafka={"no.such.thing": 1}
    )

    with pytest.raises(KafkaUnusable, match=r"no\.such\.thing"):
        consumer.subscribe("t")


def test_a_closed_consumer_says_so_whatever_it_is_asked() -> None:
    """Not that there is no record, or that it looks for a coordinator."""
    consumer = Consumer("g", coordinators="h:1", bootstrap_servers="h:1")
    consumer.close()

    for asked in (consumer.poll, consumer.commit, consumer.streams, lambda: next(iter(consumer))):
        with pytest.raises(Misused, match="the consumer is closed: make a new one"):
            asked()


@pytest.mark.parametrize(
    ("topics", "said"),
    [("no topic", "cannot be a topic's name"), ([], "no topic is named"), ("^(", "regex")],
)
def test_topics_that_cannot_be_are_refused(topics: Any, said: str) -> None:
    """The consumer says so before it asks anybody."""
    consumer = Consumer("g", coordinators="h:1", bootstrap_servers="h:1")
    with pytest.raises(InvalidSubscription, match=said):
        consumer.subscribe(topics)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no topic"], "cannot be a topic's name"),
        (["a", "^b"], "either one pattern or names of topics"),
        (["t", "--reset", "now"], "auto_offset_reset is 'now'"),
        (["t", "--session-timeout", "1"], "more than twice ping_interval_ms"),
    ],
)
def test_the_command_says_in_a_sentence_what_is_wrong(arguments: list[str], said: str) -> None:
    """`herdproof consume`: usage errors are sentences, and exit with 2."""
    brokers = ["--coordinators", "127.0.0.1:1", "--bootstrap-servers", "127.0.0.1:1"]
    done = CliRunner().invoke(app, ["consume", "g", *arguments, *brokers])

    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("record", "as_json", "printed"),
    [
        (Record("t", 1, 2, b"k", b"v", 3), False, "t-1@2 k: v"),
        (Record("t", 1, 2, None, None, None), False, "t-1@2 "),
        (Record("t", 1, 2, None, b"\xff\n", None), False, "t-1@2 \\xff\\n"),
        (
            Record("t", 1, 2, None, b"\xff", 3),
            True,
            '{"topic": "t", "partition": 1, "offset": 2, "timestamp_ms": 3, "key": null, '
            '"value": "\\\\xff"}',
        ),
    ],
)
def test_a_record_is_printed_as_one_line(record: Record, as_json: bool, printed: str) -> None:
    """Text or JSON; what is no UTF-8, or would begin a new line, is escaped."""
    assert line(record, as_json) == printed
