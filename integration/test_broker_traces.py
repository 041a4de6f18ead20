"""Traces of `herdproof broker`, whose clients are unmodified: what its coordinator does conforms."""

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
def test_a_group_that_was_there_before_is_taken_over(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """A trace may begin where a group has members; another broker goes on with the first one's."""
    traces = [tmp_path / f"{name}.ndjson" for name in ("untraced", "second", "third")]
    stored = ("--zookeeper", zookeeper.address, "--topic", f"{TOPIC}:{PARTITIONS}")
    generation = 0
    for number, trace in enumerate(traces):
        told = (*stored, "--broker-id", str(number + 1), "--trace", str(trace), "--run", trace.stem)
        with (
            broker(tmp_path, *told) as bootstrap,
            BrokerGroup(bootstrap, "kept", TOPIC, PARTITIONS) as group,
        ):
            group.start(f"first-{number}", PYTHON[0])
            group.settle(f"first-{number}")
            group.kill(f"first-{number}")
        seen = conforms(trace)
        generation += seen["complete_join", ""]

        assert seen["found", ""] == (number > 0)
    assert generation >= len(traces)
