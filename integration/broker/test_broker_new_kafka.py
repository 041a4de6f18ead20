"""`herdproof broker` in front of a Kafka 4, which has no ZooKeeper, and groups of its own kinds."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from herdproof.kafka.kraft import EmbeddedKRaft
from integration.broker.broker_group import PYTHON, BrokerGroup
from integration.broker.broker_judgement import judge_group
from integration.broker.test_broker import PARTITIONS, broker, traced


@pytest.mark.timeout(300)
def test_groups_in_front_of_kafka_4_are_ours(kraft: EmbeddedKRaft, tmp_path: Path) -> None:
    """
    Unmodified clients share a topic, one is killed, and every record comes to somebody.

    The records are that Kafka's, which itself has heard of no group.
    """
    topic, trace = f"orders-{uuid.uuid4()}", tmp_path / "broker.ndjson"
    kraft.create_topic(topic, PARTITIONS)
    plane = ("--in-front-of", kraft.bootstrap)
    with (
        broker(tmp_path, *plane, *traced(trace)) as address,
        BrokerGroup(address, "ours", topic, PARTITIONS) as group,
    ):
        for kind in PYTHON:
            group.start(kind, kind)
        group.settle(*PYTHON)
        killed, *left = PYTHON
        group.kill(killed)
        group.settle(*left)
        assert group.lost() == []
        behind = AdminClient({"bootstrap.servers": kraft.bootstrap})
        listed = behind.list_consumer_groups(request_timeout=30).result()

    assert "ours" not in {each.group_id for each in listed.valid}
    assert not listed.errors
    seen = judge_group(group, trace)
    assert seen["expire", ""] >= 1
