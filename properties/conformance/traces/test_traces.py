"""Traces of any code: what the tracer writes, the reader reads, whatever stands in a file."""

from __future__ import annotations

import gzip
import io
import json
import re
import threading
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.conformance.traces import TraceError, TraceLine, Tracer, read_files, read_line
from herdproof.conformance.traces.line import START, protocol_of, read_file
from herdproof.conformance.traces.ordering import Causes, ordered
from herdproof.conformance.traces.tracer import plain


class Wish(Enum):
    """A value of a spec's."""

    WAITS = "waits"


@dataclass(frozen=True)
class Note:
    """A record of a spec's."""

    to: str
    number: int


def lines_of(stream: io.StringIO) -> list[TraceLine]:
    """What was written."""
    return [read_line(text) for text in stream.getvalue().splitlines()]


# ── Writing ─────────────────────────────────────────────────────────────────────────────────


def test_a_step_is_a_line_with_its_arguments_and_what_was_seen() -> None:
    """In the spec's own names; what is empty is not written."""
    stream, times = io.StringIO(), iter(range(10, 20))
    tracer = Tracer("Lease", "server", stream, run="monday", clock=lambda: next(times))
    tracer.step(
        "grant", c="client-3", seen={"wish": {"client-3": Wish.WAITS}, "term": 7},
        sent=["m1"], received=["m0"], zxid=5, since_ns=9,
    )  # fmt: skip

    first, second = stream.getvalue().splitlines()
    assert json.loads(first) == {
        "schema": 2, "protocol": "Lease", "run": "monday", "node": "server", "sequence": 1,
        "time_ns": 10, "action": START,
    }  # fmt: skip
    assert json.loads(second) == {
        "schema": 2, "protocol": "Lease", "run": "monday", "node": "server", "sequence": 2,
        "time_ns": 11, "action": "grant", "arguments": {"c": "client-3"},
        "seen": {"wish": {"client-3": "waits"}, "term": 7},
        "sent": ["m1"], "received": ["m0"], "zxid": 5, "since_ns": 9,
    }  # fmt: skip


def test_what_is_observed_is_asked_at_each_step() -> None:
    """Unless the step says itself what was seen."""
    stream, state = io.StringIO(), {"term": 1}
    tracer = Tracer("Lease", "server", stream, observe=lambda: state, role="server", group="a")
    tracer.step("grant")
    state["term"] = 2
    tracer.step("grant", group="b")
    tracer.step("expire", seen={"holder": None})

    lines = lines_of(stream)
    assert [line.seen for line in lines] == [{}, {"term": 1}, {"term": 2}, {"holder": None}]
    assert [(line.role, line.group) for line in lines] == [("server", g) for g in "aaba"]


def test_arguments_with_the_names_of_others_are_given_apart() -> None:
    """A parameter of a spec may be called `seen`, or `group`."""
    stream = io.StringIO()
    Tracer("X", "n", stream).step("act", arguments={"seen": 3, "group": "g"}, c=1)

    assert lines_of(stream)[1].arguments == {"seen": 3, "group": "g", "c": 1}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b", "a"}, ["a", "b"]),
        ((1, 2), [1, 2]),
        (Note("x", 3), {"to": "x", "number": 3}),
        ({("a", 1): Wish.WAITS}, [[["a", 1], "waits"]]),
        ({1: None}, [[1, None]]),
        ({Wish.WAITS: [Note("y", 1)]}, {"waits": [{"to": "y", "number": 1}]}),
    ],
)
def test_values_are_written_as_plain_json(value: Any, written: Any) -> None:
    """Sets as lists, records as objects, members by their values, maps as objects or pairs."""
    assert plain(value) == written


def test_a_value_that_json_cannot_hold_is_refused_and_takes_no_number() -> None:
    """An object of the code is no value of a spec's; the next line follows without a gap."""
    stream = io.StringIO()
    tracer = Tracer("Lease", "server", stream)
    with pytest.raises(TraceError, match="the step grant of server cannot be written"):
        tracer.step("grant", c=object())
    tracer.step("expire")

    assert [line.sequence for line in lines_of(stream)] == [1, 2]


def test_lines_of_many_threads_are_whole_and_numbered_without_a_gap(tmp_path: Path) -> None:
    """Eight threads, one tracer, one file."""
    path = tmp_path / "trace"
    with Tracer("Lease", "server", path) as tracer:

        def work() -> None:
            for _ in range(50):
                tracer.step("write", c="x")

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [line.sequence for line in read_file(path)] == list(range(1, 402))


def test_a_line_is_there_as_soon_as_step_returns(tmp_path: Path) -> None:
    """And a line that another process left cut off is ended before."""
    path = tmp_path / "trace"
    path.write_text('{"schema":2')
    tracer = Tracer("Lease", "server", path)
    tracer.step("grant", c="x")

    first, *rest = path.read_text().splitlines()
    assert first == '{"schema":2'
    assert [read_line(text).action for text in rest] == [START, "grant"]
    tracer.close()


# ── Reading ─────────────────────────────────────────────────────────────────────────────────

GOOD = {
    "schema": 2, "protocol": "Lease", "run": "r", "node": "n", "sequence": 1, "time_ns": 5,
    "action": "grant",
}  # fmt: skip


def changed(**values: Any) -> str:
    """A good line with other values; None takes a field away."""
    return json.dumps({k: v for k, v in {**GOOD, **values}.items() if v is not None})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no json", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "a JSON object"),
        ("[]", "a JSON object"),
        (changed(schema=3), "the schema's version is 3; this reader knows version 2"),
        (changed(schema=None), "the schema's version is None"),
        (changed(schema=True), "the schema's version is True"),
        (changed(protocol=7), "the protocol is 7; write the name of its spec"),
        (changed(node=None), "the field `node` is missing"),
        (changed(node=3), "the field `node` is an integer; it must be text"),
        (changed(sequence="x"), "the field `sequence` is text; it must be an integer"),
        (changed(time_ns=2**63), "the field `time_ns` is beyond 64 bits"),
        (changed(seen=[]), "the field `seen` is a list; it must be a JSON object"),
        (changed(sent=[1]), "the field `sent.0` is an integer; it must be text"),
    ],
)
def test_a_line_that_is_wrong_is_refused_with_its_place(
    line: str, reason: str, tmp_path: Path
) -> None:
    """A reader names the file, the line and what is wrong there."""
    path = tmp_path / "trace"
    path.write_text(f"{changed()}\n{line}\n")

    with pytest.raises(TraceError, match=re.escape(reason)) as caught:
        read_file(path)

    assert f"{path}, line 2: " in str(caught.value)


def test_a_last_line_that_was_cut_off_is_named_as_such(tmp_path: Path) -> None:
    """What a killed writer left of its last line is told from a line that is wrong."""
    path = tmp_path / "trace"
    path.write_text(f"{changed()}\n{changed()[:50]}")

    with pytest.raises(TraceError, match=r"line 2: the last line is cut off.* without that line"):
        read_file(path)


def test_traces_of_two_runs_and_empty_ones_are_refused(tmp_path: Path) -> None:
    """They say nothing together, and nothing at all."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(f"{changed()}\n")
    two.write_text(f"{changed(run='s')}\n")

    with pytest.raises(TraceError, match=r"different runs \(r, s\)"):
        read_files([one, two])
    two.write_text("")
    with pytest.raises(TraceError, match="was anything traced"):
        read_files([two])
    with pytest.raises(TraceError, match="cannot be read"):
        read_files([tmp_path / "nothing"])


def test_a_trace_that_was_packed_is_read(tmp_path: Path) -> None:
    """As an audit reads it; what is cut off, or no such file, is said in a sentence."""
    packed = tmp_path / "trace.ndjson.gz"
    packed.write_bytes(gzip.compress(f"{changed()}\n".encode()))

    (line,) = read_file(packed)

    assert line == read_line(changed(), place=f"{packed}, line 1")
    assert protocol_of(packed) == (2, line.protocol)
    for content in (packed.read_bytes()[:-12], b"hallo"):
        packed.write_bytes(content)
        assert protocol_of(packed)[0] in (None, 2)
        with pytest.raises(TraceError, match=r"gz cannot be read: (Compressed|Not a gzipped)"):
            read_file(packed)


def test_fields_that_a_reader_does_not_know_are_skipped() -> None:
    """A writer may add fields of its own."""
    assert read_line(changed(host="x")) == read_line(changed())


@given(text=st.one_of(st.text(), st.binary().map(lambda b: b.decode("latin-1"))))
def test_anything_else_is_no_line(text: str) -> None:
    """Whatever stands there, no other error comes of it."""
    with pytest.raises(TraceError):
        read_line(text)


# ── Order ───────────────────────────────────────────────────────────────────────────────────


def line_of(node: str, sequence: int, time_ns: int, **more: Any) -> TraceLine:
    """A line."""
    return TraceLine(
        schema=2, protocol="X", run="r", node=node, sequence=sequence, time_ns=time_ns,
        action="act", **more,
    )  # fmt: skip


def test_what_causes_a_line_comes_before_it_whatever_clocks_say() -> None:
    """A message is sent before it is received; transactions come in their order."""
    lines = [
        line_of("a", 1, 50, sent=("m",)), line_of("b", 1, 10), line_of("b", 2, 20, received=("m",)),
        line_of("c", 1, 5, zxid=9), line_of("b", 3, 25, zxid=8), line_of("d", 1, 1, zxid=7),
    ]  # fmt: skip
    for seed in range(5):
        Random(seed).shuffle(lines)
        found = ordered(lines, Causes(lines))
        told = [(line.node, line.sequence) for line in found.lines]
        assert told == [("d", 1), ("b", 1), ("a", 1), ("b", 2), ("b", 3), ("c", 1)]
        assert found.gaps == {}


def test_times_below_zero_order_lines_as_any_others_do() -> None:
    """A clock of a simulation may begin anywhere."""
    lines = [line_of("a", 1, -50), line_of("a", 2, -10), line_of("b", 1, -40), line_of("b", 2, -20)]

    found = ordered(lines, Causes(lines)).lines

    assert [line.time_ns for line in found] == [-50, -40, -20, -10]
