"""Traces of `herdproof broker` with unmodified clients: what its coordinator does conforms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from herdproof.conformance.traces.line import read_files
from herdproof.protocols.implementation import implementation
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from herdspec.check.conformance.conform import Verdict
from integration.broker_group import PYTHON, BrokerGroup
from integration.test_broker import PARTITIONS, broker

TOPIC = "orders"


def conforms(*traces: Path) -> Counter[tuple[str, str]]:
    """The traces conform; how often each action had each outcome."""
    code = implementation("group_protocol")
    outcome = code.conform(traces, 0, lambda *_: None, invariants=True)
    assert outcome.verdict is Verdict.CONFORMS, (str(outcome.mismatch)[:2000], outcome.reason)
    assert outcome.matched == outcome.lines
    lines = read_files(traces, code.table.formats)
    return Counter((line.action, line.arguments.get("outcome", "")) for line in lines)


@pytest.mark.timeout(180)
def test_what_the_coordinator_of_real_clients_does_the_spec_allows(tmp_path: Path) -> None:
    """Members join, commit, leave, are killed, are paused for longer than their session."""
    trace = tmp_path / "broker.ndjson"
    told = ("--topic", f"{TOPIC}:{PARTITIONS}", "--trace", str(trace), "--run", "monday")
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
    seen = conforms(trace)

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
            seen = conforms(trace)

            assert seen["found", ""] == number
            assert seen["complete_join", ""] > 0
