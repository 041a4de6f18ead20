"""Traces of self-rebalancing consumers, replayed in the spec: what the code does, it allows."""

from collections.abc import Callable
from io import StringIO

import pytest

from herdproof.conformance.traces.line import TraceLine, read_texts
from herdproof.conformance.traces.replay import conform_lines
from herdproof.consuming.events import Answered, Subscribe
from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.membership import ConsumerArguments, ignore_event
from herdproof.consuming.offsets import OffsetReset
from herdproof.consuming.subscription import Named
from herdproof.protocols.self_rebalancing.held.flawed import FLAWS, connector_with
from herdproof.protocols.self_rebalancing.shell.joining import SelfRebalancingConsumer
from herdproof.protocols.self_rebalancing.simulated.random_runs import WorldConfig
from herdproof.protocols.self_rebalancing.simulated.traced import traced
from herdproof.protocols.self_rebalancing.traces.trace_map import map_of
from herdproof.zookeeper.operations import Refusal, Why
from herdspec.check.conformance.conform import Outcome, Verdict
from herdspec.protocols.self_rebalancing.replayed import in_replays
from properties.protocols.self_rebalancing.held.rebalancing_variants import map_of_variant
from properties.protocols.self_rebalancing.simulated.test_simulated_rebalancing import (
    PAUSES,
    STORMY,
)
from properties.unrepeated import unrepeated

DIFFERS: dict[str, tuple[WorldConfig, int]] = {
    "split_brain": (PAUSES, 0),
    "stale_start": (PAUSES, 1),
    "zombie_commit": (PAUSES, 0),
    "zombie_release": (PAUSES, 3),
    "registry_before_owners": (PAUSES, 3),
    "pulled_before_owned": (STORMY, 1),
    "no_commit_at_closing": (STORMY, 0),
}
"""By mistake: a run whose trace the variant explains, and the corrected spec does not."""
FURTHER: dict[str, tuple[WorldConfig, int]] = {
    "released_before_stopped": (STORMY, 26),
}
"""Mistakes whose trace the corrected spec does not explain, and the variant's only further on."""
LEFT_UNDONE: dict[str, tuple[WorldConfig, int]] = {
    "lost_wake_up": (STORMY, 2),
    "retries_exhausted": (STORMY, 2),
    "self_conflict": (STORMY, 0),
}
"""Mistakes by which something is left undone for ever, which no trace can show."""
NOT_REPLAYED = {"suspended_for_good", "new_session_goes_on"}
"""Mistakes whose variants know fewer reasons to rebalance than the core has."""


def conform(lines: list[TraceLine], *, invariants: bool = False) -> Outcome:
    """The trace, replayed in the corrected spec."""
    return conform_lines(lines, map_of(), invariants=invariants)


def of_variant(lines: list[TraceLine], name: str) -> Outcome:
    """The trace, replayed in the variant of a mistake."""
    return conform_lines(lines, map_of_variant(name), invariants=False)


@pytest.mark.parametrize("first", [0, 10, 20])
def test_what_disturbed_members_do_the_spec_allows(first: int) -> None:
    """Killed, paused, cut off, late: every line is a step of the spec."""
    for seed in range(first, first + 10):
        outcome = conform(traced(seed))
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch), outcome.reason)


@pytest.mark.parametrize("config", [STORMY, PAUSES], ids=["stormy", "pauses"])
def test_where_more_goes_wrong_as_well(config: WorldConfig) -> None:
    """More of it, and members that are not heard of for longer than a session."""
    for seed in range(5):
        outcome = conform(traced(seed, config))
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch), outcome.reason)


def test_what_is_promised_holds_in_every_state_of_a_replay() -> None:
    """Promises and lemmas, though partitions are stored and released by themselves."""
    for seed in range(3):
        outcome = conform(traced(seed), invariants=True)
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch), outcome.reason)


@pytest.mark.long
@pytest.mark.parametrize("first", range(30, 1_030, 20))
def test_many_traces_conform(first: int) -> None:
    """A thousand runs."""
    for seed in range(first, first + 20):
        outcome = conform(traced(seed))
        assert outcome.verdict is Verdict.CONFORMS, (seed, str(outcome.mismatch), outcome.reason)


@pytest.mark.parametrize("flaw", DIFFERS)
def test_a_mistake_conforms_to_its_variant_alone(flaw: str) -> None:
    """What the flawed core does its variant allows, and the corrected spec does not."""
    config, seed = DIFFERS[flaw]
    lines = traced(seed, config, connector=connector_with(frozenset({flaw})))

    assert conform(lines).verdict is Verdict.DIFFERS
    assert of_variant(lines, flaw).verdict is Verdict.CONFORMS
    assert conform(traced(seed, config)).verdict is Verdict.CONFORMS


@pytest.mark.parametrize("flaw", FURTHER)
def test_a_mistake_differs_from_the_corrected_spec(flaw: str) -> None:
    """The corrected spec does not allow it, and its variant explains at least as much of it."""
    config, seed = FURTHER[flaw]
    lines = traced(seed, config, connector=connector_with(frozenset({flaw})))
    corrected = conform(lines)

    assert corrected.verdict is Verdict.DIFFERS
    assert of_variant(lines, flaw).matched >= corrected.matched


@pytest.mark.parametrize("flaw", LEFT_UNDONE)
def test_what_is_left_undone_no_trace_shows(flaw: str) -> None:
    """Both specs allow to do less."""
    config, seed = LEFT_UNDONE[flaw]
    lines = traced(seed, config, connector=connector_with(frozenset({flaw})))

    assert conform(lines).verdict is of_variant(lines, flaw).verdict is Verdict.CONFORMS


def test_every_mistake_is_told_of() -> None:
    """Each stands in one of the tables."""
    tables = [*DIFFERS, *FURTHER, *LEFT_UNDONE, *NOT_REPLAYED]

    assert sorted(tables) == sorted(FLAWS)


def elsewhere(line: TraceLine) -> None:
    """An offset that was told is another one."""
    topic, number, offset = line.arguments["partitions"][0]
    line.arguments["partitions"][0] = [topic, number, offset + 1]


def another(line: TraceLine) -> None:
    """What was refused is told to be done."""
    line.arguments["outcome"] = "done"


def is_told(line: TraceLine, action: str, outcome: str = "") -> bool:
    """Whether a line is of this action, and had this outcome."""
    is_so = line.action == action and line.arguments.get("outcome", "") == outcome
    return is_so and bool(line.arguments["partitions"])


EDITED: dict[str, tuple[Callable[[TraceLine], None], str, str, int, int]] = {
    "a start at another offset": (elsewhere, "read_offsets", "", 0, 200),
    "a claim that was refused": (another, "answered", "node exists", 1, 50),
}


@pytest.mark.parametrize("edited", EDITED)
def test_a_line_that_tells_otherwise_differs(edited: str) -> None:
    """A replay that would allow anything were none; the next line does not contradict it here."""
    change, action, outcome, seed, first = EDITED[edited]
    lines = unrepeated(traced(seed))
    chosen = next(line for line in lines[first:] if is_told(line, action, outcome))
    change(chosen)

    assert conform(lines).verdict is Verdict.DIFFERS


def test_a_missing_line_is_unknown() -> None:
    """What is not there, and no other line tells, is named, and not taken for a pass."""
    lines = unrepeated(traced(1))
    del lines[100]
    outcome = conform(lines)

    assert outcome.verdict is Verdict.UNKNOWN
    assert "lines are missing" in outcome.reason


def test_the_spec_of_replays_adds_single_partitions_alone() -> None:
    """Its other actions are the proved spec's own."""
    spec = map_of().specification
    added = {a.name for a in spec.actions} - {"store", "give_back"}

    assert in_replays.__doc__
    assert added == {a.name for a in map_of_variant("lost_wake_up").specification.actions} - {
        "store", "give_back", "renew_watches"
    }  # fmt: skip


def test_a_real_consumer_writes_its_trace() -> None:
    """Its shell tells the tracer of each event; what its core takes is a line."""
    trace = StringIO()
    arguments = ConsumerArguments(
        group="g", consumer_id="c", auto_offset_reset=OffsetReset.SMALLEST, auto_commit=True,
        session_timeout_s=None, listens=False, trace=trace, run="monday",
        options={"zookeeper": "127.0.0.1:1"},
    )  # fmt: skip
    consumer = SelfRebalancingConsumer(arguments)
    wanted = Named((("t", 1),))
    session = consumer.begin(wanted, Streams(), None, ignore_event)
    session.core.link, session.core.context.session = session.core.link.CONNECTED, 7
    nobody = Answered(1, Refusal(Why.NO_NODE))  # of another protocol is a member
    for event in (Subscribe(), nobody):
        session._observe(session.core, event, session.core.receive(event, 0))
    lines = read_texts(trace.getvalue().splitlines(), "trace")

    assert [line.action for line in lines] == ["(start)", "register"]
    assert {line.run for line in lines} == {"monday"}
    assert lines[1].arguments["session"] == 7
