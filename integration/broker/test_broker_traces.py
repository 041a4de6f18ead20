"""Traces of `herdproof broker` with unmodified clients: what its coordinator does conforms."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from herdproof import Consumer
from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.topics import TopicRecord, Topics
from herdproof.protocols.group_protocol.tracing import GROUP_PROTOCOL
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.broker.broker_group import PYTHON, BrokerGroup
from integration.broker.broker_judgement import HOLD, judge_group
from integration.broker.test_broker import PARTITIONS, broker, traced
from integration.clients import eventually
from integration.trace_judgement import conforms, judge_traces

TOPIC = "orders"


@pytest.mark.timeout(180)
def test_what_the_coordinator_of_real_clients_does_the_spec_allows(tmp_path: Path) -> None:
    """Members join, commit, leave, are killed, are paused for longer than their session."""
    trace = tmp_path / "broker.ndjson"
    told = ("--topic", f"{TOPIC}:{PARTITIONS}", *traced(trace))
    with (
        broker(tmp_path, *told) as bootstrap,
        BrokerGroup(bootstrap, "mixed", TOPIC, PARTITIONS) as group,
    ):
        killed, paused = PYTHON[:2]
        for kind in PYTHON:
            group.start(kind, kind)
        group.settle(*PYTHON)
        group.kill(killed)
        group.pause(paused)
        group.start("another", PYTHON[0])
        group.settle("another", *PYTHON[2:])
        group.resume(paused)
        group.settle("another", *PYTHON[1:])
        group.leave("another")
        group.settle(*PYTHON[1:])
        assert group.lost() == []
    seen = judge_group(group, trace)

    assert seen["expire", ""] >= 2
    assert seen["handle_leave_group", "NONE"] >= 1
    assert seen["answer_commits", ""] > 0
    assert seen["handle_join_group", "waits"] > 2 * len(PYTHON)


@pytest.mark.timeout(180)
def test_a_trace_may_begin_where_a_group_has_members(tmp_path: Path) -> None:
    """A second broker takes over what the first one has stored, in a run of its own."""
    with EmbeddedZooKeeper() as zookeeper:
        stored = ("--zookeeper", zookeeper.hosts, "--topic", f"{TOPIC}:{PARTITIONS}")
        for number, kind in enumerate(PYTHON[:2]):
            trace = tmp_path / f"{number}.ndjson"
            told = (*stored, "--broker-id", f"{number + 1}", "--trace", str(trace), "--run", kind)
            with (
                broker(tmp_path, *told) as bootstrap,
                BrokerGroup(bootstrap, "kept", TOPIC, PARTITIONS) as group,
            ):
                group.start(kind, kind)
                group.settle(kind)
                group.kill(kind)
            seen = judge_traces(GROUP_PROTOCOL, [trace], hold=HOLD)

            assert seen["found", ""] == number
            assert seen["complete_join", ""] > 0


# ── Our own clients trace, too ──────────────────────────────────────────────────────────────


def shared(bootstrap: str, traces: Path) -> list[Path]:
    """Two clients of ours share a topic, one after the other leaves; their traces."""
    files = [traces / f"client{number}.ndjson" for number in range(2)]
    Topics(bootstrap).produce(
        TOPIC, [TopicRecord(b"%d" % n, partition=n % PARTITIONS) for n in range(40)]
    )
    with ExitStack() as stack:

        def member(number: int) -> Consumer:
            """One that has subscribed."""
            made = Consumer(
                "traced", protocol="group_protocol", bootstrap_servers=bootstrap,
                consumer_id=f"c{number}", auto_offset_reset="smallest", session_timeout_s=10,
                heartbeat_interval_s=0.1, trace=files[number], run="monday",
            )  # fmt: skip
            made.subscribe(TOPIC)
            return stack.enter_context(made)

        first = member(0)
        assert first.poll(30) is not None
        second = member(1)
        eventually(lambda: all(has_its_part(each) for each in (first, second)))
        first.close()
        eventually(lambda: second.poll(0.02) is None and len(second.assignment) == PARTITIONS)
    return files


def has_its_part(consumer: Consumer) -> bool:
    """Whether a consumer, which asks for records, has half of the partitions."""
    consumer.poll(0.02)
    return len(consumer.assignment) == PARTITIONS // 2


@pytest.mark.timeout(180)
def test_our_clients_and_their_coordinator_do_what_the_spec_allows(tmp_path: Path) -> None:
    """The lines of all together: what a client heard, its coordinator has told."""
    trace = tmp_path / "broker.ndjson"
    told = ("--topic", f"{TOPIC}:{PARTITIONS}", *traced(trace))
    with broker(tmp_path, *told) as bootstrap:
        files = shared(bootstrap, tmp_path)

    seen = judge_traces(GROUP_PROTOCOL, [trace, *files], hold=HOLD)

    assert seen["on_join_leader", ""] >= 1
    assert seen["on_join_complete", ""] >= 3
    assert seen["answer_syncs", ""] >= 1


@pytest.mark.timeout(180)
def test_our_clients_of_a_real_kafka_do_what_the_spec_allows(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """Theirs alone: what Kafka 3.9.1 told them is supposed."""
    kafka.create_topic(TOPIC, PARTITIONS)

    seen = conforms(GROUP_PROTOCOL, *shared(kafka.bootstrap, tmp_path))

    assert seen["on_join_complete", ""] >= 3
    assert seen["consume", ""] >= 1
    assert seen["close", ""] == 2
