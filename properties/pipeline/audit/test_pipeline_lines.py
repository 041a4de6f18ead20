"""
Lines as the audit reads them: quickly, and with the same word for what is wrong as the readers.

And their order, and elections, whose lines the same pipeline takes.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from herdproof.conformance.traces.line import ANY_PROTOCOL, START, TraceError
from herdproof.conformance.traces.line import read_line as read_any_line
from herdproof.conformance.traces.ordering import Ordered, ordered
from herdproof.errors import Malformed
from herdproof.pipeline.audit.judge import CONFORMS, judge
from herdproof.pipeline.audit.lines import Reader
from herdproof.pipeline.audit.protocols import auditor, auditors, read_line
from herdproof.pipeline.spark.tables import Rows
from herdproof.protocols.central_coordinator.traces.lines import (
    TOLD,
    CentralStep,
    read_central_line,
)
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from herdproof.protocols.election.tracing import ELECTION, FORMATS
from properties.pipeline.pipeline_traces import judged, run_of, trace, violated
from properties.protocols.election.test_conform import walk

ELECTIONS = auditor(ELECTION)
TAKEN_UP = "an_epoch_is_taken_up_by_one"
ONLY = "only_the_present_epoch_writes"

# ── Reading ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_read_as_their_reader_reads_them(seed: int) -> None:
    """Every field of every line, and where it stands; and written again as they were."""
    for number, line in enumerate(run_of(seed)):
        text = line.written()
        read = read_line(text, f"f, line {number}")

        assert replace(read, place="") == read_central_line(text) == replace(line, place="")
        assert (read.place, read.written()) == (f"f, line {number}", text)


def raw(**changes: Any) -> dict[str, Any]:
    """A line's fields, with some changed; None takes one away."""
    fields: dict[str, Any] = json.loads(run_of(0)[40].written())
    for name, value in changes.items():
        of = fields["arguments"] if name in TOLD else fields
        of[name] = value
        if value is None:
            del of[name]
    return fields


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False),
    st.text(max_size=5), st.sampled_from(["7", "1.0", " 3 ", "1e3", "true"]),
    st.lists(st.one_of(st.integers(), st.text(max_size=2)), max_size=3),
    st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2), st.integers(-5, 5)), max_size=2),
    st.lists(st.lists(st.text(max_size=2), min_size=3, max_size=3), max_size=2),
)  # fmt: skip
WHO = ("schema", "protocol", "run", "node", "role", "sequence", "time_ns", "action", "group")
NAMES = st.sampled_from([*WHO, *TOLD, "unknown", "place", "(place)"])


def as_its_reader_reads(text: str) -> CentralStep | str:
    """A line, or what is wrong with it."""
    try:
        return read_central_line(text)
    except TraceError as problem:
        return str(problem)


@given(changes=st.dictionaries(NAMES, ODD, min_size=1, max_size=3))
@settings(max_examples=600, deadline=None)
def test_what_the_reader_takes_is_taken_and_what_it_refuses_is_refused(
    changes: dict[str, Any],
) -> None:
    """With the same value, or for the same reason."""
    text = json.dumps(raw(**changes))
    wanted = as_its_reader_reads(text)
    if isinstance(wanted, str):
        with pytest.raises(Malformed) as refused:
            auditor(CENTRAL).read(text, "f:1")
        assert refused.value.why == wanted
        return
    read = auditor(CENTRAL).read(text, "f:1")
    assert (replace(read, place=""), read.place) == (wanted, "f:1")
    told, line = json.loads(read.written()), json.loads(text)
    assert told.get("arguments", {}) == {n: line["arguments"][n] for n in told.get("arguments", ())}
    assert all(told.get(n, "") == value for n, value in line.items() if n in WHO)


@pytest.mark.parametrize(
    ("text", "reason", "why"),
    [
        ("", "malformed", "no JSON"),
        ("{", "malformed", "no JSON"),
        ("[" * 100_000, "malformed", "no JSON"),
        ("[]", "malformed", "a JSON object"),
        ("null", "malformed", "a JSON object"),
        ("{}", "unknown_protocol", "the protocol is None"),
        (json.dumps(raw(protocol="raft")), "unknown_protocol", "the protocol is 'raft'"),
        (json.dumps(raw(protocol=7)), "unknown_protocol", "the protocol is 7"),
        (json.dumps(raw(protocol=[])), "unknown_protocol", r"the protocol is \[\]"),
        (json.dumps(raw(schema=3)), "unknown_version", "this reader knows versions 1 and 2"),
        (json.dumps(raw(schema=None)), "unknown_version", "this reader knows versions 1 and 2"),
        (json.dumps(raw(node=None)), "malformed", "`node`"),
        (json.dumps(raw(sequence="x")), "malformed", "`sequence`"),
        (json.dumps(raw(time_ns=2**63)), "malformed", "`time_ns` is beyond 64 bits"),
        (json.dumps(raw(until_ns=-(2**63) - 1)), "malformed", "`arguments.until_ns` is beyond"),
        (json.dumps(raw(partitions=[["t", "0"]])), "malformed", r"`arguments\.partitions\.0"),
        (json.dumps(raw(consumer="\ud800")), "malformed", "no JSON .*hex escape"),
    ],
)  # fmt: skip
def test_what_is_no_line_is_said_why(text: str, reason: str, why: str) -> None:
    """The quarantine's reason, and what exactly is wrong."""
    with pytest.raises(Malformed, match=why) as refused:
        read_line(text, "f:1")

    assert refused.value.reason == reason


@pytest.mark.parametrize("gone", [name for name in TOLD if name != "brought"])
def test_a_line_without_one_of_its_fields_is_malformed(gone: str) -> None:
    """What it would have told nobody knows: it is not taken for empty, on which promises hold."""
    without = json.dumps(raw(**{gone: None, f"{gone}_": 1}))
    with pytest.raises(Malformed, match=f"the field `arguments.{gone}` is missing") as refused:
        read_line(without, "f:1")

    assert refused.value.reason == "malformed"


def test_a_line_that_does_not_say_what_was_brought_is_one_in_which_nothing_was() -> None:
    """Coordinators that take no offsets from who registers have written none."""
    without = raw()
    assert "brought" not in without["arguments"]

    assert read_line(json.dumps(without), "f:1").brought == ()
    for offset in (7, "7"):  # as text, where places are a column of Parquet
        with_some = raw(brought=[["t", "0", offset]])
        assert read_line(json.dumps(with_some), "f:1").brought == (("t", "0", 7),)


def test_a_line_of_another_version_is_refused_by_who_reads_any_protocol() -> None:
    """It has all the fields; its number alone says that it is another."""
    text = '{"schema":3,"protocol":"Toy","run":"","node":"n","sequence":1,"time_ns":1,"action":"a"}'

    with pytest.raises(Malformed, match="this reader knows version 2") as refused:
        Reader(ANY_PROTOCOL)(text, "f:1")

    assert refused.value.reason == "unknown_version"
    assert Reader(ANY_PROTOCOL)(text.replace(":3", ":2"), "f:1").place == "f:1"


@given(text=st.one_of(st.text(), st.binary().map(lambda b: b.decode("latin-1"))))
@settings(max_examples=300, deadline=None)
def test_anything_else_is_malformed(text: str) -> None:
    """Whatever stands there, no other error comes of it."""
    with pytest.raises(Malformed):
        read_line(text, "f:1")


@pytest.mark.parametrize("offset", ["1_0", " 7 ", "+3", "007", "-0", "٣", "7.0", ""])
def test_a_text_that_no_number_is_written_as_is_no_offset(offset: str) -> None:
    """Only what Parquet makes of a number is one; Python's own `int` takes more."""
    with pytest.raises(Malformed, match=r"`arguments\.partitions\.0\.2` is text"):
        read_line(json.dumps(raw(partitions=[["t", "0", offset]])), "f:1")


@pytest.mark.parametrize("offset", [0, 7, -1, 2**40])
def test_an_offset_may_be_the_text_of_a_number(offset: int) -> None:
    """As Parquet's columns have it."""
    one, other = (
        read_line(json.dumps(raw(partitions=[["t", "0", written]])), "f:1")
        for written in (offset, str(offset))
    )

    assert one == other


def test_whitespace_and_the_order_of_fields_are_of_no_matter() -> None:
    """Another implementation writes its JSON as it likes."""
    fields = raw()
    text = json.dumps(dict(reversed(fields.items())), indent=2)

    assert replace(read_line(text, "f:1"), place="") == read_central_line(json.dumps(fields))


def test_an_error_survives_a_pickle() -> None:
    """Workers hand it on."""
    error = pickle.loads(pickle.dumps(Malformed("malformed", "it is blue")))

    assert (error.reason, error.why, str(error)) == ("malformed", "it is blue", "it is blue")


# ── Order ───────────────────────────────────────────────────────────────────────────────────


def numbers(found: Ordered[Any]) -> list[tuple[str, int]]:
    """Who told which line."""
    return [(line.node, line.sequence) for line in found.lines]


def test_lines_come_by_number_and_time() -> None:
    """A process's lines by their numbers, though its clock goes back; the others' by time."""
    some = run_of(0)[0]
    lines = [
        replace(some, node=node, role="consumer", sequence=sequence, time_ns=time_ns)
        for node, sequence, time_ns in [
            ("a", 1, 10), ("a", 2, 30), ("a", 3, 20), ("b", 1, 15), ("b", 2, 25), ("b", 3, 35),
            ("a", 1, 40), ("a", 2, 41),
        ]
    ]  # fmt: skip
    Random(2).shuffle(lines)

    assert numbers(ordered(lines)) == [
        ("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3), ("a", 1), ("a", 2),
    ]  # fmt: skip
    assert ordered(lines).gaps == {}


def test_gaps_and_doubles_are_told() -> None:
    """What is missing at its beginning, too."""
    some = run_of(0)[0]
    lines = [
        replace(some, node="a", sequence=sequence, time_ns=10 * sequence, place=f"f:{sequence}")
        for sequence in (3, 4, 8)
    ]
    again = replace(lines[1], place="g:1")

    found = ordered([*lines, again])

    assert numbers(found) == [("a", 3), ("a", 4), ("a", 8)]
    assert found.gaps == {0: "of a, lines 1 to 2", 2: "of a, lines 5 to 7"}
    assert [line.place for line in found.twice] == ["g:1"]


def test_a_process_without_its_first_line_is_not_taken_for_the_next_one() -> None:
    """What came before the first start is of another process, where it has the same numbers."""
    some = run_of(0)[0]
    times = {(2, 10), (3, 20), (1, 30), (2, 40), (3, 50)}
    lines = [replace(some, node="a", sequence=n, time_ns=t, place=f"f:{t}") for n, t in times]

    found = ordered(lines)

    assert [line.time_ns for line in found.lines] == [10, 20, 30, 40, 50]
    assert found.gaps == {0: "of a, lines 1 to 1"}
    assert found.twice == []


def test_a_later_process_without_its_first_line_is_known_by_its_numbers() -> None:
    """They begin anew, long after: its lines do not come between those of the one before."""
    some, second = run_of(0)[0], 1_000_000_000
    told = [(1, 0), (2, second), (3, 2 * second), (2, 9 * second), (3, 10 * second)]
    lines = [replace(some, node="a", sequence=n, time_ns=t, place=f"f:{t}") for n, t in told]

    found = ordered(lines)

    assert [(line.sequence, line.time_ns) for line in found.lines] == told
    assert found.gaps == {3: "of a, lines 1 to 1"}
    assert found.twice == []


def test_a_process_that_begins_at_once_is_known_by_its_numbers_too() -> None:
    """A number comes again at another time, and what came just before it belongs to it."""
    some, ms = run_of(0)[0], 1_000_000
    told = [(1, 0), (2, 10), (4, 30), (5, 40), (3, 60), (4, 70), (5, 80), (6, 90)]
    lines = [replace(some, node="a", sequence=n, time_ns=t * ms, place=f"f:{t}") for n, t in told]

    found = ordered(lines)

    assert [(line.sequence, line.time_ns // ms) for line in found.lines] == told
    assert found.gaps == {2: "of a, lines 3 to 3", 4: "of a, lines 1 to 2"}
    assert found.twice == []


@pytest.mark.parametrize("later", [[(2, 50), (3, 60)], [(1, 50), (2, 60)], []])
def test_a_process_may_end_when_the_next_one_begins(later: list[tuple[int, int]]) -> None:
    """Two lines of one time: the next process goes on with other numbers, or has ended, too."""
    some = run_of(0)[0]
    told = [(1, 10), (2, 20), (3, 40), (4, 40), (1, 40), *later]
    lines = [replace(some, node="a", sequence=n, time_ns=t, place=f"f:{n},{t}") for n, t in told]
    Random(1).shuffle(lines)

    found = ordered(lines)

    assert [(line.sequence, line.time_ns) for line in found.lines] == told
    assert found.gaps == {}


def test_a_gap_when_a_process_begins_is_its_own() -> None:
    """Its next line goes on with what was told then."""
    some = run_of(0)[0]
    told = [(1, 10), (2, 20), (1, 40), (3, 40), (4, 50)]
    lines = [replace(some, node="a", sequence=n, time_ns=t, place=f"f:{n},{t}") for n, t in told]

    found = ordered(lines)

    assert [(line.sequence, line.time_ns) for line in found.lines] == told
    assert found.gaps == {3: "of a, lines 2 to 2"}


def test_numbers_that_go_on_in_a_later_process_are_a_gap() -> None:
    """Who speaks of a connection has registered there, and has told so in a line."""
    tried = 0
    for seed in range(12):
        lines = trace(seed)
        for node in sorted({x.node for x in lines if x.role == "consumer"}):
            own = [x for x in lines if (x.role, x.node) == ("consumer", node)]
            at = next((k for k, x in enumerate(own) if k and x.action == START), len(own))
            for kept in range(5, min(at, len(own) - at), 9):
                gone = {id(x) for x in own[kept : at + kept]}
                left = [x for x in lines if id(x) not in gone]
                gaps = [*auditor(CENTRAL).ordered(left).gaps.values()]
                goes_on = own[at + kept].sequence == kept + 1
                if goes_on and own[kept - 1].action != "on_lost_connection":
                    assert gaps == [f"of {node}, what came before line {kept + 1}"]
                    tried += 1
                assert violated(judged(left)) == set()
    assert tried > 5


def test_who_has_heard_a_missing_line_waits_for_no_later_one_that_says_the_same() -> None:
    """Heartbeats say the same again and again: each is heard at its time, missing or not."""
    lines = trace(0)
    heard = next(x for x in lines if x.action == "handle_ping_response")
    about = (heard.consumer, heard.connection, heard.partitions)
    said = [
        x for x in lines
        if x.action == "handle_ping" and (x.consumer, x.connection, x.partitions) == about
    ]  # fmt: skip
    assert len(said) > 1, "it is said again"

    found = auditor(CENTRAL).ordered([x for x in lines if x is not said[0]])

    assert all(a.time_ns <= b.time_ns for a, b in pairwise(found.lines))


def test_of_two_connections_that_go_by_one_number_each_is_ordered_by_itself() -> None:
    """Two processes of a consumer drew the same: the first one's Stop was before any Start."""
    consumer, coordinator = ("consumer", "c1"), ("coordinator", "")
    first = [
        (*consumer, START, 0), (*consumer, "register", 0), (*coordinator, "handle_register", 0),
        (*consumer, "handle_stop", 0), (*coordinator, "handle_stop_response", 0),
    ]  # fmt: skip
    second = [
        *first[:3], (*coordinator, "send_start", 9), (*consumer, "handle_start", 9),
        (*coordinator, "handle_start_response", 9), *first[3:],
    ]  # fmt: skip
    steps = [(role, node or "broker2", action, made) for role, node, action, made in first]
    steps += [(role, node or "broker1", action, made) for role, node, action, made in second]
    number = Counter[str]()
    lines = []
    for time_ns, (role, node, action, generation) in enumerate(steps, start=1):
        number[node] = 1 if action == START else number[node] + 1
        lines.append(
            replace(
                run_of(0)[0], role=role, node=node, action=action, sequence=number[node],
                time_ns=time_ns * 1_000_000_000, consumer="c1", connection=4097,
                generation=generation, outcome="accepted" if role == "coordinator" else "",
            )
        )  # fmt: skip

    assert auditor(CENTRAL).ordered(lines).lines == lines


def test_of_many_copies_the_first_place_counts_however_they_come() -> None:
    """So what is set aside is the same, and in the same order, for any order of the input."""
    some = run_of(0)[0]
    copies = [replace(some, sequence=1, place=place) for place in ("f:1", "g:1", "h:1")]

    for lines in permutations(copies):
        found = ordered(lines)
        assert [line.place for line in found.lines] == ["f:1"]
        assert [line.place for line in found.twice] == ["g:1", "h:1"]


@pytest.mark.parametrize("seed", range(4))
def test_true_times_are_kept(seed: int) -> None:
    """Where clocks agree, causes change nothing: every line stands at its time."""
    found = auditor(CENTRAL).ordered(trace(seed))

    assert all(a.time_ns <= b.time_ns for a, b in pairwise(found.lines))
    assert found.lines == ordered(trace(seed)).lines


def test_lines_that_contradict_each_other_are_ordered_all_the_same() -> None:
    """Who claims to have obeyed a Start before it sent what caused it gets no endless loop."""
    lines = [line for line in trace(0) if line.action in ("send_start", "handle_start_response")]
    start, response = lines[0], next(x for x in lines if x.action == "handle_start_response")
    odd = [
        replace(response, role="coordinator", node="x", sequence=1, time_ns=1),
        replace(start, role="coordinator", node="x", sequence=2, time_ns=2),
        replace(start, action="handle_start", role="consumer", node="c", sequence=1, time_ns=3),
    ]

    found = auditor(CENTRAL).ordered(odd)

    assert sorted(numbers(found)) == [("c", 1), ("x", 1), ("x", 2)]


# ── Elections ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def election(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The lines of an election in which all kinds of things happen."""
    path = tmp_path_factory.mktemp("election") / "trace"
    walk(path, 2, brokers=3, steps=130)
    return [json.loads(line) for line in path.read_text().splitlines()]


def elected(lines: Sequence[dict[str, Any]], *, replay: bool = False) -> Rows:
    """The rows of an election's run."""
    run = str(lines[0]["run"])
    read = [read_line(json.dumps(line), f"f, line {n}") for n, line in enumerate(lines, start=1)]
    return judge(ELECTION, run, "", read, replay=replay)


def leads_now(line: dict[str, Any]) -> bool:
    """True if its broker believes that it leads."""
    return bool(line.get("seen", {}).get("leads"))


def of(rows: Rows) -> dict[str, str]:
    """The verdicts."""
    return {row["property"]: row["verdict"] for row in rows["verdicts"]}


def test_an_election_is_audited_by_the_same_code(election: list[dict[str, Any]]) -> None:
    """The run is judged; of groups and members it says nothing."""
    rows = elected(election, replay=True)

    assert violated(rows) == set()
    found = of(rows)
    assert found.keys() == {*ELECTIONS.sentences, CONFORMS}
    assert {found[p] for p in (TAKEN_UP, ONLY, CONFORMS)} == {"holds"}
    taken = {row["action"]: row["taken"] for row in rows["coverage"]}
    assert taken["stand"] == sum(line["action"] == "stand" for line in election) > 1


def test_elections_are_read_as_their_reader_reads_them(election: list[dict[str, Any]]) -> None:
    """Every field, and written again as it was."""
    for line in election:
        text = json.dumps(line, separators=(",", ":"))
        read = read_line(text, "f:1")
        assert replace(read, place="") == read_any_line(text, formats=FORMATS)
        assert read.written() == text
    with pytest.raises(Malformed, match=r"`seen\.due`") as refused:
        read_line(json.dumps({**election[1], "seen": {**election[1]["seen"], "due": 1}}), "f:1")
    assert refused.value.reason == "malformed"


def test_two_leaders_of_one_epoch_are_found(election: list[dict[str, Any]]) -> None:
    """A broker says that it leads, in an epoch that was another one's."""
    leads = [line for line in election if leads_now(line)]
    one = leads[0]
    two = next(x for x in leads if x["node"] != one["node"])
    lied = {**two, "seen": {**two["seen"], "token": one["seen"]["token"]}}

    rows = elected([lied if line is two else line for line in election])

    assert violated(rows) == {TAKEN_UP}


def test_a_write_of_a_past_epoch_is_found(election: list[dict[str, Any]]) -> None:
    """It was sent when another one led, and was done."""
    first = next(line for line in election if leads_now(line))
    later = next(
        line
        for line in election
        if leads_now(line) and line["seen"]["token"] > first["seen"]["token"]
    )
    writes = [line for line in election if line["action"] == "write"]
    write = next(
        x for x in writes
        if x["arguments"]["answered"]["outcome"] == "done" and x["time_ns"] > later["time_ns"]
    )  # fmt: skip
    answered = {**write["arguments"]["answered"], "epoch": first["seen"]["token"]}
    lied = {**write, "arguments": {**write["arguments"], "answered": answered}}

    rows = elected([lied if line is write else line for line in election])

    assert violated(rows) == {ONLY}
    assert violated(elected(election)) == set()


def test_every_protocol_says_what_its_traces_can_decide() -> None:
    """Of every promise; and that is what its verdicts are about."""
    assert set(auditors()) == {CENTRAL, ELECTION, "group_protocol", "self_rebalancing"}
    for name, found in auditors().items():
        assert found.name == name
        rows = found.judging("r", "g").close()
        assert {row["property"] for row in rows["verdicts"]} == set(found.sentences)
        assert found.undecided.keys() <= found.sentences.keys()
