"""Traces: every step of a core becomes one line; a line that is wrong is refused, with why."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from herdproof.conformance.traces import line as generic
from herdproof.conformance.traces.line import START, TraceError
from herdproof.conformance.traces.tracer import open_trace
from herdproof.protocols.election.elector import (
    Call,
    Elector,
    Event,
    LeaderChanged,
    LinkChanged,
    OperationAnswered,
    Resign,
    Stand,
    Woken,
    leader_data,
)
from herdproof.protocols.election.simulated import ElectorTracers
from herdproof.protocols.election.traces.ledger import NAMED, UNNAMED
from herdproof.protocols.election.tracing import (
    BEGINNING,
    FORMATS,
    AnswerLine,
    AskLine,
    ElectorArguments,
    ElectorLine,
    ElectorTracer,
    State,
)
from herdproof.zookeeper.operations import (
    Answer,
    Changed,
    Checked,
    Created,
    Data,
    Deleted,
    Done,
    Found,
    Link,
    Refusal,
    Stat,
    Why,
)

PAGE = Path(__file__).parents[3] / "docs" / "trace.md"
DOCS = PAGE.read_text(encoding="utf-8").partition("\n# Traces of elections\n")[2]
"""The page's second part."""
ME, OTHER = 7, 8
UP, DOWN, GONE = (LinkChanged(link, ME) for link in Link)


def read_line(text: str) -> ElectorLine:
    """One line of an election's trace."""
    line: ElectorLine = generic.read_line(text, formats=FORMATS)
    return line


def read_trace(path: Path) -> list[ElectorLine]:
    """Every line of an election's trace."""
    return generic.read_file(path, FORMATS)


def answered_line(
    call: str, number: int, outcome: str, *, owner: int = 0, epoch: int = 0, zxid: int = 0
) -> AnswerLine:
    """What a line tells of an answer."""
    return AnswerLine(
        call=call, number=number, outcome=outcome, owner=owner, epoch=epoch, zxid=zxid
    )


def stat(*, owner: int = 0, version: int = 0, zxid: int = 9) -> Stat:
    """A node's metadata."""
    return Stat(
        czxid=zxid, mzxid=zxid, version=version, cversion=0, ephemeral_owner=owner,
        data_length=0, num_children=0,
    )  # fmt: skip


ABSENT = Found(None)
WON = Done((Changed(stat(version=3, zxid=30)), Created("/leader")))
EPOCH = Data(b"", stat(version=2, zxid=20))


def trace_of(*events: Event | Answer) -> list[ElectorLine]:
    """What a core's tracer writes about these events; an answer is that to the last call."""
    core, stream = Elector("broker1"), io.StringIO()
    tracer = ElectorTracer("broker1", "run", stream)
    for event in events:
        told: Any = event
        if not isinstance(event, Event):
            told = OperationAnswered(core.number, event)
        tracer(core, told, core.receive(told))
    return [read_line(line) for line in stream.getvalue().splitlines()]


CASES: dict[str, tuple[Event | Answer, ...]] = {
    START: (),
    "handle_new_session": (UP,),
    "stand": (UP, Stand()),
    "ignore": (UP, Resign()),
    "handle_look": (UP, Stand(), ABSENT),
    "handle_read": (UP, Stand(), ABSENT, EPOCH),
    "handle_create": (UP, Stand(), ABSENT, EPOCH, WON),
    "handle_recall": (
        UP, Stand(), Found(stat(owner=ME)), Data(leader_data("broker1", 3), stat(owner=ME)),
    ),
    "resign": (UP, Stand(), ABSENT, EPOCH, WON, Resign()),
    "handle_delete": (UP, Stand(), ABSENT, EPOCH, WON, Resign(), Done((Checked(), Deleted()))),
    "look": (UP, Stand(), Found(stat(owner=OTHER)), LeaderChanged()),
    "handle_watch": (UP, Stand(), LeaderChanged()),
    "handle_wake": (UP, Woken()),
    "handle_suspended": (UP, DOWN),
    "handle_reconnected": (UP, DOWN, UP),
    "handle_lost": (UP, DOWN, GONE),
    "handle_late": (UP, Stand(), DOWN, OperationAnswered(1, ABSENT)),
}  # fmt: skip


@pytest.mark.parametrize("action", CASES)
def test_each_event_becomes_one_line_with_its_name(action: str) -> None:
    """Every event of a core becomes one line, named as the spec's action that it is."""
    lines = trace_of(*CASES[action])

    assert len(lines) == len(CASES[action]) + 1
    assert lines[-1].action == action
    assert [line.sequence for line in lines] == list(range(1, len(lines) + 1))


def test_all_actions_are_covered_by_these_cases() -> None:
    """No action is left out of the tests: what a trace may name is what they show."""
    assert set(CASES) | {"write", "restart"} == NAMED | UNNAMED


def test_a_line_tells_the_core_s_fields_and_the_call() -> None:
    """A line holds the core's fields after the step, the answer with its numbers, and the call."""
    line = trace_of(*CASES["handle_read"])[-1]

    assert line.state == replace(BEGINNING, link=Link.CONNECTED, stands=True, call=Call.CREATE)
    assert line.arguments.answered == answered_line("read", 2, "epoch", epoch=2, zxid=20)
    assert line.arguments.asked == AskLine(call=Call.CREATE, number=3, watch=False, epoch=2)
    assert (line.node, line.run, line.arguments.session) == ("broker1", "run", ME)


def test_whose_node_was_found_is_left_to_the_reader() -> None:
    """A line tells the owner that ZooKeeper named, not what the core made of it."""
    told = trace_of(UP, Stand(), Found(stat(owner=OTHER, zxid=12)))[-1].arguments.answered

    assert told == answered_line("look", 1, "found", owner=OTHER, zxid=12)


def test_an_answer_that_nobody_knows_is_late() -> None:
    """An answer that leaves open whether the call was done is no step of the protocol."""
    line = trace_of(UP, Stand(), Refusal(Why.CONNECTION_LOSS))[-1]

    assert line.action == "handle_late"
    assert line.arguments.answered == answered_line("look", 1, "unknown")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Done((Checked(), Changed(stat(version=1, zxid=44)))), "done"),
        (Refusal(Why.BAD_VERSION, 0), "refused"),
        (Refusal(Why.NO_NODE, 1), "unknown"),
        (Refusal(Why.CONNECTION_LOSS), "unknown"),
    ],
)
def test_a_write_tells_whether_its_epoch_was_the_present_one(answer: Answer, outcome: str) -> None:
    """A write is refused if the check of its epoch failed; other refusals say nothing of that."""
    stream = io.StringIO()
    ElectorTracer("broker1", "run", stream).wrote(3, answer, since_ns=5)

    line = read_line(stream.getvalue().splitlines()[-1])

    assert (line.action, line.since_ns) == ("write", 5)
    told = line.arguments.answered
    assert told is not None
    assert (told.outcome, told.epoch) == (outcome, 3)
    assert told.zxid == (44 if outcome == "done" else 0)


def test_a_new_core_of_the_same_name_is_a_new_process() -> None:
    """Tracers tell a restarted node by its new core: its lines begin anew."""
    tracers = ElectorTracers("run")
    for _ in range(2):
        core = Elector("broker1")
        tracers(core, UP, core.receive(UP))

    lines = [*map(read_line, tracers.texts())]

    assert [(line.action, line.sequence) for line in lines] == [
        (START, 1), ("handle_new_session", 2), (START, 1), ("handle_new_session", 2),
    ]  # fmt: skip


def test_a_line_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path) -> None:
    """Nothing waits in a buffer: another process reads a line while the writer lives."""
    path = tmp_path / "trace"
    with open_trace(path) as stream:
        ElectorTracer("broker1", "run", stream)

        assert [line.action for line in read_trace(path)] == [START]


def test_a_line_that_was_cut_off_is_ended_before_the_next_process_writes(tmp_path: Path) -> None:
    """A restarted process does not glue its first line to the rest of a killed one's last."""
    path = tmp_path / "trace"
    path.write_text('{"schema":2')
    with open_trace(path) as stream:
        ElectorTracer("broker1", "run", stream)

    first, second = path.read_text().splitlines()

    assert first == '{"schema":2'
    assert read_line(second).action == START


GOOD = trace_of(*CASES["handle_create"])[-1]


def changed(**values: Any) -> str:
    """A good line with other values; None takes a field away."""
    raw = json.loads(GOOD.written())
    for name, value in values.items():
        inner = raw
        *way, last = name.split("__")
        for step in way:
            inner = inner[step]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no json", "no JSON"),
        ("[]", "a JSON object"),
        (changed(schema=3), "schema's version is 3; this reader knows versions 1 and 2"),
        (changed(schema=None), "schema's version is None"),
        (changed(protocol="raft"), "protocol is 'raft'"),
        (changed(node=None), "field `node` is missing"),
        (changed(node=3), "field `node` is an integer; it must be text"),
        (changed(sequence=True), "field `sequence` is true or false; it must be an integer"),
        (changed(seen=3), "field `seen` is an integer; it must be a JSON object"),
        (changed(seen=None), "field `seen` is missing"),
        (changed(seen__leads=None), "field `seen.leads` is missing"),
        (changed(seen__link="up"), "field `seen.link`: Invalid enum value 'up'"),
        (changed(seen__leads="yes"), "field `seen.leads` is text; it must be true or false"),
        (changed(arguments__answered__zxid=None), "field `arguments.answered.zxid` is missing"),
    ],
)
def test_a_line_that_is_wrong_is_refused_with_its_place(
    line: str, reason: str, tmp_path: Path
) -> None:
    """A reader names the file, the line and what is wrong there."""
    path = tmp_path / "trace"
    path.write_text(f"{GOOD.written()}\n{line}\n")

    with pytest.raises(TraceError, match=re.escape(reason)) as caught:
        read_trace(path)

    assert f"{path}, line 2: " in str(caught.value)


def test_a_last_line_that_was_cut_off_is_named_as_such(tmp_path: Path) -> None:
    """What a killed writer left of its last line is told from a line that is wrong."""
    path = tmp_path / "trace"
    path.write_text(f"{GOOD.written()}\n{GOOD.written()[:50]}")

    with pytest.raises(TraceError, match="line 2: the last line is cut off"):
        read_trace(path)


def test_fields_that_a_reader_does_not_know_are_skipped() -> None:
    """A writer may add fields of its own."""
    assert read_line(changed(host="x", seen__mood="good")) == GOOD


def test_a_trace_that_is_not_there_is_an_error_of_its_reader(tmp_path: Path) -> None:
    """A missing file is told as a sentence, not as a traceback of the operating system."""
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "nothing")


# ── The documentation ───────────────────────────────────────────────────────────────────────


def documented() -> Iterator[ElectorLine]:
    """The example lines of the page."""
    for block in re.findall(r"^```json\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL):
        yield from map(read_line, block.splitlines())


def test_the_page_shows_a_line_of_every_action() -> None:
    """The schema's page holds one example of each action, and each is a line of this version."""
    assert {line.action for line in documented()} == (NAMED | UNNAMED) - {"restart"}


def test_the_page_names_every_field() -> None:
    """No field is left undocumented."""
    rows = set(re.findall(r"^\| `(\w+)` \| (?:int|string|bool|object)", DOCS, re.M))
    parts = (ElectorArguments, AnswerLine, AskLine, State)

    assert rows == {name for part in parts for name in part.__struct_fields__}


def test_the_calls_of_the_page_are_the_core_s() -> None:
    """The calls and links that the page lists are those that a core has."""
    text = DOCS

    assert all(f"`{call.value}`" in text for call in Call)
    assert all(f"`{link.value}`" in text for link in Link)
