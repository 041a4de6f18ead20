"""
The cores of system B say which steps of the protocol they take, and a trace is what they say.

What a step must be told for is read off the other effects here, by paths and messages, in runs of
the simulated world: that is this test's second opinion, and nobody else's business.

Reference: docs/central_trace.md, "Actions".
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from herdproof.conformance.traces.line import START
from herdproof.consuming.events import RevocationHandled, StartFetchers, StopFetchers
from herdproof.consuming.offsets import Offset
from herdproof.protocols.central_coordinator.events import (
    Ask,
    Close,
    CommitAsked,
    Received,
    Report,
    Send,
    Shutdown,
)
from herdproof.protocols.central_coordinator.judged.telling import TellingFields
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.settings import Settings
from herdproof.protocols.central_coordinator.simulated.broker import SimulatedBroker
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.story import digest
from herdproof.protocols.central_coordinator.simulated.world import DEFAULT, Run
from herdproof.protocols.central_coordinator.steps import (
    ConsumerAction,
    CoordinationStep,
    CoordinatorAction,
)
from herdproof.protocols.central_coordinator.traces.lines import TOLD, CentralStep
from herdproof.protocols.central_coordinator.tracing import ConsumerTracer, CoordinatorTracer
from herdproof.protocols.central_coordinator.wire.messages import (
    Commit,
    CommitResponse,
    ErrorCode,
    Frame,
    Leave,
    Message,
    Ping,
    PingResponse,
    Register,
    RegisterResponse,
    Start,
    StartResponse,
    Stop,
    StopResponse,
)
from herdproof.simulator.process import Process
from herdproof.zookeeper.names import unquoted
from herdproof.zookeeper.operations import Answer, Multi, Operation, Refusal, Set, Why
from properties.protocols.central_coordinator.client.consumer_script import SESSION_MS, T0, started
from properties.protocols.central_coordinator.coordinator.core_world import SETTINGS, elected

COORDINATORS, CONSUMERS = get_args(CoordinatorAction), get_args(ConsumerAction)
TROUBLED = Config(faults=40)
RUNS = [*((seed, DEFAULT) for seed in range(4)), (9, TROUBLED)]


class Observed(list[tuple[Process, object, list[object]]]):
    """Who took what, and what it led to, in the order of a run."""

    def __call__(self, who: Process, event: object, effects: Sequence[object]) -> None:
        """A core has taken an event."""
        self.append((who, event, list(effects)))


@cache
def observed(number: int) -> Observed:
    """A run of the simulated world, as an observer sees it."""
    told = Observed()
    seed, config = RUNS[number]
    Run(seed, config, observe=told).run()
    return told


def of(number: int, *, brokers: bool) -> Iterator[tuple[Process, object, list[object]]]:
    """What the brokers of a run do, or what its consumers do."""
    return (one for one in observed(number) if isinstance(one[0], SimulatedBroker) is brokers)


# ── Names ───────────────────────────────────────────────────────────────────────────────────

DOCS = (Path(__file__).parents[4] / "docs" / "central_trace.md").read_text()


@pytest.mark.parametrize(
    ("whose", "actions"),
    [("coordinator", COORDINATORS), ("consumer", CONSUMERS)],
    ids=["coordinator", "consumer"],
)
def test_the_steps_of_a_core_are_the_actions_of_the_page(
    whose: str, actions: tuple[str, ...]
) -> None:
    """Every step that a core may take is an action of a line, and the other way round."""
    table = DOCS.split(f"Those of a {whose}:")[1].split("\n\n")[1]
    told = re.findall(r"`([\w()]+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))

    assert set(told) == {START, *actions}  # which its tracer writes, when the process starts


@pytest.mark.parametrize("brokers", [True, False], ids=["coordinator", "consumer"])
def test_the_cores_take_every_step_that_there_is(brokers: bool) -> None:
    """No name stands for nothing, and none is taken that is not in the vocabulary."""
    taken = {
        effect.action
        for number in range(len(RUNS))
        for _, _, effects in of(number, brokers=brokers)
        for effect in effects
        if isinstance(effect, CoordinationStep)
    }

    assert taken == set(COORDINATORS if brokers else CONSUMERS)


def test_a_line_has_a_step_s_arguments_and_what_its_process_knows() -> None:
    """Who, when, and times by the clock that all share; all else is the core's to say."""
    who = {"schema", "protocol", "run", "node", "role", "sequence", "time_ns", "action", "group"}

    assert {*who, *TOLD} == who | {"until_ns", *CoordinationStep.__struct_fields__} - {"until_ms"}
    assert set(CentralStep.__struct_fields__) == {*who, *TOLD, "after", "place"}


def test_the_audit_knows_no_step_that_no_core_takes() -> None:
    """What it reads in a line that nobody writes it would never tell."""
    vocabulary = {"coordinator": COORDINATORS, "consumer": CONSUMERS}

    for role, written in vocabulary.items():
        read = {n.removeprefix(f"{role}_") for n in dir(TellingFields) if n.startswith(f"{role}_")}
        assert read - {"start", *written} == set()
        assert len(read) > 6


# ── Order ───────────────────────────────────────────────────────────────────────────────────

SENDS: dict[type[Message], str] = {Ping: "send_ping", Stop: "send_stop", Start: "send_start"}
ASKS: dict[type[Message], str] = {
    Register: "register",
    Commit: "commit",
    Leave: "on_lost_connection",
}
HANDLES: dict[type[Message], str] = {
    PingResponse: "handle_ping",
    StopResponse: "handle_stop",
    StartResponse: "handle_start",
}
RESUMES = {"resume": "register", "handle_resume": "handle_register"}
"""Steps of a Register that resumes, beside those of any other."""
OFFSET = re.compile(r"/consumers/([^/]+)/offsets/([^/]+)/([^/]+)")
POINT = re.compile(r"/herdproof/groups/([^/]+)")


def written(operation: Operation) -> tuple[str, dict[tuple[str, str], int]] | None:
    """The step that a transaction is, by its paths, and the offsets that it writes, if any."""
    if not isinstance(operation, Multi):
        return None
    parts = {part.path: getattr(part, "data", b"") for part in operation.operations}
    offsets = {
        (unquoted(found[2]), unquoted(found[3])): int(data)
        for path, data in parts.items()
        if (found := OFFSET.fullmatch(path)) and data
    }
    if offsets:
        return "flush_offsets", offsets
    # A subscription may be written before its group's point: then that is made, and is empty.
    return ("write_owners", {}) if any(d and POINT.fullmatch(p) for p, d in parts.items()) else None


def action_of(step: CoordinationStep) -> str:
    """The action of a step; a Register is one, whether it resumes or not."""
    return RESUMES.get(step.action, step.action)


def step_of(effect: object) -> str | None:
    """
    The step that an effect of a coordinator must follow at once, if there must be one.

    A ping's further copies are no steps; a refused Register's answer follows its report.
    """
    match effect:
        case Send(frame=Frame(message=Ping(num_retries=tries))) if tries:
            return None
        case Send(frame=Frame(message=RegisterResponse(error_code=ErrorCode.NONE))):
            return "handle_register"
        case Send(frame=Frame(message=message)):
            return SENDS.get(type(message))
        case Ask(operation=operation):
            found = written(operation)
            return None if found is None else found[0]
    return None


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_coordinator_tells_a_step_before_what_carries_it_out(number: int) -> None:
    """
    Each request, write and admission follows its step at once, and none is told of without.

    Of owners in several transactions the first follows it, and the last makes them valid.
    """
    carried = {*SENDS.values(), "flush_offsets", "write_owners"}
    found, under_way = 0, set[Process]()
    for node, _, effects in of(number, brokers=True):
        for before, effect in zip([None, *effects], [*effects, None], strict=True):
            action = step_of(effect)
            if (
                action == "write_owners"
                and node in under_way
                and not isinstance(before, CoordinationStep)
            ):
                under_way.discard(node)
            elif action is not None:
                assert isinstance(before, CoordinationStep)
                assert action_of(before) == action
                found += 1
            elif isinstance(before, CoordinationStep) and before.action == "write_owners":
                assert isinstance(effect, Ask)
                under_way.add(node)
            elif isinstance(before, CoordinationStep):
                assert before.action not in carried, f"{before} is followed by {effect}"

    assert found > 100


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_coordinator_s_steps_say_what_it_sends_and_writes(number: int) -> None:
    """Generation and partitions are the frame's; number and offsets those of the transaction."""
    for _, _, effects in of(number, brokers=True):
        for step, effect in pairwise(effects):
            if not isinstance(step, CoordinationStep) or step_of(effect) is None:
                continue
            if isinstance(effect, Ask):
                _, offsets = written(effect.operation) or ("", {})
                assert step.number == effect.number
                assert {(o.topic, o.partition): o.offset for o in step.partitions} == offsets
            elif action_of(step) != "handle_register":
                assert isinstance(effect, Send)
                assert step.generation == effect.frame.generation
                assert step.partitions == getattr(effect.frame.message, "partitions", ())


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_coordinator_closes_no_member_s_channel_before_it_tells_why(number: int) -> None:
    """It has failed, left, or been refused, or the coordinator steps down."""
    members: dict[tuple[int, int], str] = {}
    for who, event, effects in of(number, brokers=True):
        told: set[str] = set()
        for effect in effects:
            match effect:
                case CoordinationStep(
                    action="handle_register" | "handle_resume", outcome="accepted", member=member
                ):
                    told.add(member)
                case CoordinationStep(action=("fail" | "handle_closed") as action, member=member):
                    told.add(f"{action} {member}")
                case CoordinationStep(action="step_down"):
                    told.add("step_down")
                case Send(channel=channel, frame=Frame(message=RegisterResponse())):
                    members |= {(id(who), channel): member for member in told if "-" in member}
                case Close(channel=channel) if (id(who), channel) in members:
                    member = members.pop((id(who), channel))
                    assert told & {"step_down", f"fail {member}", f"handle_closed {member}"}, event


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_consumer_tells_a_step_before_what_carries_it_out(number: int) -> None:
    """Each request and each first answer follows its step; fetchers start after it."""
    answered: set[tuple[int, int, int]] = set()
    found = 0
    for who, _, effects in of(number, brokers=False):
        told: list[str] = []
        for before, effect in zip([None, *effects], effects, strict=False):
            if isinstance(effect, CoordinationStep):
                told.append(effect.action)
            elif isinstance(effect, StartFetchers):
                assert told == ["handle_start"]
            elif isinstance(effect, Send) and type(effect.frame.message) in ASKS:
                assert isinstance(before, CoordinationStep)
                assert action_of(before) == ASKS[type(effect.frame.message)]
                found += 1
            elif isinstance(effect, Send) and type(effect.frame.message) in HANDLES:
                key = (id(who), effect.channel, effect.frame.correlation_id)
                if key not in answered and effect.frame.error is not ErrorCode.STALE_EPOCH:
                    assert told[-1:] == [HANDLES[type(effect.frame.message)]]
                    found += 1
                answered.add(key)

    assert found > 50


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_consumer_s_steps_say_what_it_was_asked_and_answers(number: int) -> None:
    """Epoch and partitions of a Start are the request's, generation and offsets the answer's."""
    for _, event, effects in of(number, brokers=False):
        for step, effect in pairwise(e for e in effects if isinstance(e, CoordinationStep | Send)):
            if not isinstance(step, CoordinationStep) or not isinstance(effect, Send):
                continue
            request, frame = getattr(event, "frame", None), effect.frame
            told = (step.generation, step.partitions)
            match frame.message:
                case PingResponse(offsets=offsets) | StopResponse(offsets=offsets):
                    assert told == (frame.generation, offsets or ())
                case StartResponse():
                    assert request is not None
                    assert told == (request.generation, request.message.partitions)
                case Commit(offsets=offsets):
                    assert told == (frame.generation, offsets)
                case Register(topic_count=topic_count):
                    assert (step.subscription, step.connection) == (
                        topic_count,
                        frame.correlation_id,
                    )
            if request is not None and step.action in HANDLES.values():
                assert step.epoch == request.epoch


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_coordinator_s_steps_say_whose_they_are_and_what_was_answered(number: int) -> None:
    """A channel is its Register's; generation and offsets are those of the frame."""
    connections: dict[tuple[int, int], int] = {}
    for who, event, effects in of(number, brokers=True):
        if isinstance(event, Received) and isinstance(event.frame.message, Register):
            connections[id(who), event.channel] = event.frame.correlation_id
        for step, effect in pairwise([*effects, None]):
            if not isinstance(step, CoordinationStep):
                continue
            if step.action.startswith("send_") or action_of(step) == "handle_register":
                channel = getattr(effect, "channel", getattr(event, "channel", 0))
                assert step.connection == connections[id(who), channel]
            elif step.action.endswith("_response"):
                assert isinstance(event, Received)
                assert step.connection == connections[id(who), event.channel]
                assert step.generation == event.frame.generation
                assert step.partitions == (getattr(event.frame.message, "offsets", ()) or ())


REPORTED = {
    What.COORDINATOR_STARTUP: ("coordinator_startup",),
    What.STEPPED_DOWN: ("step_down",),
    What.MEMBER_JOINED: ("handle_register", "accepted"),
    What.MEMBER_RESUMED: ("handle_resume", "accepted"),
    What.MEMBER_LOST: ("fail", "handle_closed"),
    What.REBALANCE_STARTED: ("begin_rebalance", "necessary"),
    What.REBALANCE_UNNECESSARY: ("begin_rebalance", "unnecessary"),
    What.REBALANCE_DONE: ("finish_rebalance",),
    What.REBALANCE_FAILED: ("fail_rebalance",),
    What.COMMIT_REFUSED: ("handle_commit", "refused"),
}
"""Reports that tell operators of a step: its action, and its outcome, or another action."""


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_what_a_coordinator_reports_of_a_step_it_has_told(number: int) -> None:
    """So logs and traces say the same, though neither is made of the other."""
    for _, _, effects in of(number, brokers=True):
        steps: set[tuple[str, str]] = set()
        for effect in effects:
            if isinstance(effect, CoordinationStep):
                steps |= {(effect.action, effect.group), (effect.outcome, effect.group)}
            elif isinstance(effect, Report) and effect.what in REPORTED:
                told = [(name, effect.group) in steps for name in REPORTED[What(effect.what)]]
                assert any(told) if effect.what == What.MEMBER_LOST else all(told), effect


# ── Arguments ───────────────────────────────────────────────────────────────────────────────


def test_a_ping_s_copies_are_no_steps() -> None:
    """Neither their sending nor their answering: the request is the same."""
    w = elected()
    a = w.register("a", mute=True)
    w.speak(a)
    a.mute = True
    del w.steps[:]

    w.advance(2_500)
    w.speak(a)

    assert a.count(Ping) > 1
    assert [step.action for step in w.steps] == ["send_ping", "handle_ping_response"]

    script = started(T0)
    script.read(Ping(0), correlation_id=500)
    assert [step.action for step in script.steps] == ["handle_ping"]
    script.read(Ping(1), correlation_id=500, after_ms=10)
    assert script.sent == [PingResponse((T0,))]
    assert script.steps == []


def test_a_refused_commit_says_so() -> None:
    """Of another generation than the present one nothing is taken."""
    w = elected(partitions=1)
    a = w.register("a")
    del w.steps[:]

    w.send(a, Commit((Offset("t", "0-0", 7),)), generation=9)

    [step] = w.steps
    assert (step.action, step.outcome, step.generation) == ("handle_commit", "refused", 9)
    assert step.partitions == (Offset("t", "0-0", 7),)  # as it was sent


@pytest.mark.parametrize("why", [Why.CONNECTION_LOSS, Why.SESSION_EXPIRED])
def test_a_write_that_nobody_knows_of_is_asked_again_under_another_number(why: Why) -> None:
    """Each transaction is a step, and each of its answers."""
    w = elected(partitions=1)
    a = w.register("a")
    del w.steps[:]
    lost = [Refusal(why)]

    def spoil(operation: Operation) -> Answer | None:
        return lost.pop() if lost and written(operation) else None

    w.spoil = spoil
    w.send(a, Commit((Offset("t", "0", 7),)))
    w.advance(2_000)

    told = [s for s in w.steps if s.action in ("flush_offsets", "answered")]
    assert [s.action for s in told] == ["flush_offsets", "answered"] * 2
    assert [told[1].outcome, told[3].outcome] == ["unknown", "done"]
    assert [s.number for s in told] == sorted(s.number for s in told)
    assert told[0].number == told[1].number < told[2].number == told[3].number


def test_what_the_fence_refuses_is_refused_and_then_it_steps_down() -> None:
    """The answer is told first: it is why."""
    w = elected(partitions=1)
    a = w.register("a")
    epoch = w.core.epoch
    w.zookeeper.perform(w.operator, Set("/herdproof/election/epoch", b"2"))
    del w.steps[:]

    w.send(a, Commit((Offset("t", "0", 7),)))

    told = [(step.action, step.outcome) for step in w.steps]
    assert told == [
        ("handle_commit", "accepted"),
        ("flush_offsets", ""),
        ("answered", "refused"),
        ("step_down", ""),
    ]
    assert w.steps[-1].epoch == epoch


def test_of_a_split_write_only_the_part_that_makes_it_valid_is_a_step() -> None:
    """It names all owners; those before it change nothing that anybody goes by."""
    w = elected(partitions=40, settings=Settings(max_transaction_bytes=4_096))
    del w.effects[:]

    w.register("a")

    [step] = [step for step in w.steps if step.action == "write_owners"]
    parts = [e for e in w.effects if isinstance(e, Ask) and isinstance(e.operation, Multi)]
    assert len(step.owners) == 40
    assert len([e for e in parts if e.number < step.number]) > 1
    assert (step.epoch, step.generation) == (w.core.epoch, w.generation())


def test_who_was_paused_tells_of_nothing_that_it_does_not_do() -> None:
    """Its channels are closed before the frame is looked at: no answer was handled."""
    w = elected()
    a = w.register("a", mute=True)
    assert isinstance(a.requests[-1], Stop)
    del w.steps[:]
    w.now_ms += SETTINGS.leadership_lease_ms + 1

    w.answer(a)

    assert [step.action for step in w.steps] == ["step_down"]


def test_a_stop_that_waits_for_a_listener_is_told_when_it_is_answered() -> None:
    """That nothing is delivered meanwhile is told at once."""
    script = started(T0, listens=True)

    script.read(Stop(), generation=1, epoch=3)
    [ends] = script.steps
    assert StopFetchers() in script.effects
    assert (ends.action, ends.until_ms) == ("renew_lease", 0)

    script(RevocationHandled(), after_ms=1_000)
    [stop] = script.steps
    assert (stop.action, stop.epoch, stop.partitions) == ("handle_stop", 3, (T0,))


def test_a_step_tells_until_when_may_be_delivered() -> None:
    """While no fetcher runs: not at all."""
    script = started(T0)
    [start] = script.steps
    assert (start.action, start.until_ms) == ("handle_start", script.core.delivers_until_ms)

    script.read(Ping(0), after_ms=1_000)
    [ping] = script.steps
    assert ping.until_ms == script.core.delivers_until_ms == SESSION_MS

    script(CommitAsked(1, (Offset("t", "0", 44),)), after_ms=1_000)
    [commit] = script.steps
    assert (commit.action, commit.until_ms) == ("commit", SESSION_MS)


def test_who_has_left_takes_no_step_any_more() -> None:
    """What it still answers changes nothing: its coordinator has been told that it fetches none."""
    script = started(T0)
    script(Shutdown())
    assert [step.action for step in script.steps] == ["commit"]
    script.answer(CommitResponse(ErrorCode.NONE))
    assert script.sent == [Leave()]
    assert [step.action for step in script.steps] == ["on_lost_connection"]

    script.read(Ping(0))

    assert script.sent == [PingResponse(())]
    assert script.steps == []


# ── Who makes use of them ───────────────────────────────────────────────────────────────────


def test_a_tracer_looks_at_nothing_but_the_steps() -> None:
    """Neither at a core nor at an event, and at no effect that is not a step."""
    stream = io.StringIO()
    step = CoordinationStep(
        action="commit", group="g", partitions=(Offset("t", "1-3", 42),), until_ms=1_250
    )
    other = Send(1, Frame(Leave(), 1))

    CoordinatorTracer("1", "run", stream, lambda: 7)(None, None, [other, step])
    ConsumerTracer("c", "run", stream, lambda: 1_000, lambda: 7)(None, None, [step, other])

    lines = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [line["action"] for line in lines] == [START, "commit"] * 2
    assert [line["sequence"] for line in lines] == [1, 2] * 2
    assert lines[1]["arguments"]["partitions"] == [["t", "3", 42]]
    assert [line["arguments"]["until_ns"] for line in lines[1::2]] == [0, 250_000_007]


def test_a_run_is_the_same_whether_its_steps_are_told_or_not() -> None:
    """They name what the other effects do, and do nothing."""
    run = Run(0, DEFAULT)
    run.run()
    silent = [
        (
            time_ms,
            who,
            event,
            [e for e in effects if not isinstance(e, CoordinationStep)] if effects else effects,
        )
        for time_ms, who, event, effects in run.log
    ]

    assert any(isinstance(e, CoordinationStep) for _, _, _, effects in run.log for e in effects)
    assert digest(run.log) == digest(silent)
