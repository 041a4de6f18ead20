"""Traces of our client, replayed beside its coordinator's, and alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof import Consumer
from herdproof.conformance.traces.line import TraceLine, read_files
from herdproof.conformance.traces.mapping import TraceMap
from herdproof.conformance.traces.replay import conform_lines
from herdproof.consumer import BadArgument
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.held.drafted_client import printed_client
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.testing.broker import LocalBroker
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdspec.check.conformance.conform import Outcome, Verdict
from properties.unrepeated import unrepeated

BLOCK = 4
CALM = 6
"""A run in which nothing goes wrong, and members join one after another."""
Spoils = Callable[[dict[str, Any]], object]


def conform(lines: Sequence[TraceLine], table: TraceMap | None = None) -> Outcome:
    """The trace, replayed in the verified spec."""
    return conform_lines(lines, table or map_of(), invariants=False)


@cache
def calm() -> tuple[TraceLine, ...]:
    """The lines of a coordinator and its clients."""
    return tuple(traced_groups(CALM, clients=True, config=MIXES["calm"]))


def of_clients(lines: Sequence[TraceLine]) -> list[TraceLine]:
    """The lines of clients alone, as against a Kafka."""
    return [line for line in lines if line.role == CONSUMER]


# ── What conforms ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", range(0, 8, BLOCK))
def test_what_clients_do_the_spec_allows(first: int) -> None:
    """With their coordinators' lines, and without; whatever goes wrong."""
    for seed in range(first, first + BLOCK):
        lines = traced_groups(seed, clients=True)
        for each in (lines, of_clients(lines)):
            outcome = conform(each)
            assert outcome.verdict is Verdict.CONFORMS, (seed, outcome.mismatch, outcome.reason)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(8, 508, 50))
def test_many_traces_of_clients_conform(first: int) -> None:
    """Five hundred runs, in which every promise is evaluated in every state."""
    for seed in range(first, first + 50):
        outcome = conform_lines(traced_groups(seed, clients=True), map_of())
        assert outcome.verdict is Verdict.CONFORMS, (seed, outcome.mismatch, outcome.reason)


def test_what_coordinators_are_supposed_to_have_told_is_named() -> None:
    """Of a trace without theirs: what each client was answered."""
    alone = conform(of_clients(calm()))

    assert alone.verdict is Verdict.CONFORMS
    assert {"be_given_an_id", "be_told_of_generation", "be_assigned"} <= alone.inferred
    assert {"initiate_join_group", "on_join_complete", "consume"} <= alone.named.keys()


@pytest.mark.parametrize("habit", ["join_future_never_reset", "joins_with_partitions"])
def test_a_printed_habit_differs(habit: str) -> None:
    """What such a client writes of itself is no step of the spec, whoever coordinates."""
    lines = traced_groups(0, clients=True, client=printed_client(habit))

    assert conform(of_clients(lines)).verdict is Verdict.DIFFERS


# ── What does not ───────────────────────────────────────────────────────────────────────────


def adds(name: str, number: int) -> Spoils:
    """A number is another one."""
    return lambda of: of.__setitem__(name, of.get(name, 0) + number)


def is_nobodys(of: dict[str, Any]) -> None:
    """It is another member's."""
    of["member"] = "nobody"


def has_less(of: dict[str, Any]) -> None:
    """It was given one partition less."""
    del of["owners"][0]


def has_another(of: dict[str, Any]) -> None:
    """It was given another partition."""
    who, topic, number = of["owners"][0]
    of["owners"][0] = [who, topic, number + 1]


def is_given_to_nobody(of: dict[str, Any]) -> None:
    """What it was given is another one's."""
    of["owners"][0] = ["nobody", *of["owners"][0][1:]]


def at(number: int) -> Spoils:
    """The offset is another one."""
    return lambda of: of["offsets"][0].__setitem__(2, of["offsets"][0][2] + number)


def elsewhere(of: dict[str, Any]) -> None:
    """It is of a partition that it does not have."""
    of["offsets"][0][1] += 77


def of_no_kind(of: dict[str, Any]) -> None:
    """It is an error that there is not."""
    of["outcome"] = "FINE"


NEXT, LAST = adds("generation", 1), adds("generation", -1)
OF_MEMBERS: list[tuple[str, Spoils]] = [
    (action, spoil)
    for action in (
        "on_join_complete", "refused", "update_fetch_positions", "resolve_start", "consume",
        "commit", "on_join_follower", "on_join_leader",
    )
    for spoil in (NEXT, LAST, is_nobodys)
]  # fmt: skip
SPOILED: list[tuple[str, Spoils]] = [
    *OF_MEMBERS,
    ("initiate_join_group", is_nobodys), ("learn_member_id", is_nobodys),
    ("join_again", is_nobodys),
    ("on_join_complete", has_less), ("on_join_complete", has_another),
    ("on_join_complete", is_given_to_nobody), ("refused", of_no_kind),
    ("update_fetch_positions", at(1)), ("update_fetch_positions", at(-1)),
    ("update_fetch_positions", elsewhere), ("resolve_start", elsewhere), ("consume", at(-1)),
    ("consume", elsewhere), ("commit", at(1)), ("commit", elsewhere),
]  # fmt: skip


@pytest.mark.parametrize(("action", "spoil"), SPOILED)
def test_one_other_value_in_one_line_is_rejected_there(action: str, spoil: Spoils) -> None:
    """In a line from the middle of the run, whose members have been in another generation."""
    lines = unrepeated(deepcopy([*calm()]))
    own = [line for line in lines if line.role == CONSUMER and line.action == action]
    line = own[len(own) // 2]

    spoil(line.arguments)
    outcome = conform(lines)

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert outcome.mismatch.where == line.place


@pytest.mark.parametrize("action", ["on_join_follower", "on_join_complete", "consume"])
def test_a_step_that_was_not_taken_is_rejected(action: str) -> None:
    """The line before it says another step instead."""
    lines = deepcopy([*calm()])
    at_ = next(
        k for k, line in enumerate(lines)
        if line.role == CONSUMER and line.action == action and line.arguments["generation"] > 1
    )  # fmt: skip
    node = lines[at_].node
    before = next(k for k in range(at_ - 1, 0, -1) if lines[k].node == node)
    spoiled = unrepeated(lines)
    spoiled[before] = with_action(spoiled[before], "close")

    assert conform(spoiled).verdict is Verdict.DIFFERS


def with_action(line: TraceLine, action: str) -> TraceLine:
    """The line of another step."""
    return replace(line, action=action)


def test_what_nobody_told_is_missing() -> None:
    """The coordinator's lines end before the client was told: no line is wrong, one is missing."""
    lines = [*calm()]
    heard = next(
        k for k, line in enumerate(lines)
        if line.action == "on_join_follower" and line.arguments["generation"] > 1
    )  # fmt: skip
    told = max(k for k in range(heard) if lines[k].action == "answer_joins")
    cut = [line for k, line in enumerate(lines) if k < told or line.role == CONSUMER]

    outcome = conform(cut)

    assert outcome.verdict is Verdict.UNKNOWN
    assert "no coordinator's line tells generation" in outcome.reason


# ── Deleted lines ───────────────────────────────────────────────────────────────────────────


@st.composite
def with_lines_deleted(draw: st.DrawFn) -> list[TraceLine]:
    """A disturbed run's trace, of which some processes lack some lines, or their last ones."""
    lines = traced(draw(st.integers(0, 7)))
    nodes = sorted({(line.role, line.node) for line in lines})
    hurt = draw(st.sets(st.sampled_from(nodes), min_size=1, max_size=3))
    gone: set[int] = set()
    for role, node in sorted(hurt):
        own = [id(line) for line in lines if (line.role, line.node) == (role, node)]
        first = draw(st.integers(0, len(own)))
        last = draw(st.sampled_from([first + 1, first + 3, len(own)]))
        gone.update(own[first:last])
    return [line for line in lines if id(line) not in gone]


@cache
def traced(seed: int) -> tuple[TraceLine, ...]:
    """A run's trace, of which no line tells another one again."""
    return tuple(unrepeated(traced_groups(seed, clients=True)))


@settings(max_examples=15, deadline=None)
@given(with_lines_deleted())
def test_without_some_lines_no_clients_line_is_wrong(lines: list[TraceLine]) -> None:
    """It is unknown, or what is left conforms."""
    outcome = conform(lines)

    wrong = outcome.mismatch
    assert wrong is None or line_at(lines, wrong.where).role != CONSUMER


def line_at(lines: Sequence[TraceLine], place: str) -> TraceLine:
    """The line that stands there."""
    return next(line for line in lines if line.place == place)


# ── The real one ────────────────────────────────────────────────────────────────────────────


def test_a_consumer_writes_its_trace(tmp_path: Path) -> None:
    """Of two lives, to one file: joins, positions, what is finished, commits, and its end."""
    trace = tmp_path / "client.ndjson"
    with LocalBroker({"orders": 2}) as broker:
        broker.produce("orders", *[b"%d" % n for n in range(10)])
        for _ in range(2):
            with Consumer(
                "billing", protocol="group_protocol", bootstrap_servers=broker.bootstrap,
                consumer_id="reader", auto_offset_reset="smallest", trace=trace, run="monday",
            ) as own:  # fmt: skip
                own.subscribe("orders")
                for _ in range(5):
                    assert own.poll(10) is not None

    lines = read_files([trace], map_of().formats)
    outcome = conform(lines)

    assert outcome.verdict is Verdict.CONFORMS, str(outcome.mismatch)
    assert {(line.node, line.role, line.run) for line in lines} == {("reader", CONSUMER, "monday")}
    assert {
        "initiate_join_group", "learn_member_id", "on_join_leader", "on_join_complete",
        "update_fetch_positions", "resolve_start", "consume", "commit", "close",
    } <= {line.action for line in lines}  # fmt: skip


STATIC_COOPERATIVE = {"assignors": "cooperative-sticky", "group_instance_id": "till"}


@pytest.mark.parametrize("of", [STATIC_COOPERATIVE, {}])
def test_a_trace_of_what_the_spec_does_not_have_is_refused(
    tmp_path: Path, of: dict[str, Any]
) -> None:
    """In a sentence: members both static and cooperative, partitions that are assigned by hand."""

    def begin() -> None:
        """Make a consumer, and assign by hand."""
        with Consumer(
            "g", protocol="group_protocol", bootstrap_servers="127.0.0.1:1", trace=tmp_path / "t",
            **of,
        ) as own:  # fmt: skip
            assert not of
            own.assign([("orders", 0)])

    with pytest.raises(BadArgument, match=r"^trace: "):
        begin()
