"""
Traces of any code, replayed in its spec by a map: three levels, groups, what is missing, attacks.

The code is a small lease server (`traced_leases.py`), the spec the tutorial's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.traces import TraceLine
from herdproof.conformance.traces.groups import Missing
from herdproof.conformance.traces.line import START
from herdproof.conformance.traces.mapping import ANY, DecodedLine, Raw, Row, TraceMap
from herdproof.conformance.traces.replay import conform_files, conform_lines
from herdproof.conformance.traces.values import Scale
from herdspec import from_source
from herdspec.check.conformance.conform import Verdict
from herdspec.check.conformance.follow import Way
from herdspec.check.conformance.possible import Line
from herdspec.language.errors import UsageError
from herdspec.language.specification import sort_classes
from properties.conformance.traces.traced_leases import (
    LEASE,
    PLAIN,
    SPEC,
    ask,
    grant,
    lines_of,
    run,
    told,
)

Client: Any = sort_classes(LEASE)["Client"]


# ── Without a map, and with one ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(6))
def test_what_right_code_does_conforms(seed: int, tmp_path: Path) -> None:
    """A tracer that writes the spec's own names needs no map."""
    outcome = conform_files([run(tmp_path / "trace", seed)], PLAIN)

    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    assert outcome.matched == outcome.lines > 10


@pytest.mark.parametrize(
    ("mistake", "action", "why"),
    [
        ("same term", "grant", "term: the spec has 1, the trace 0"),
        ("grants twice", "grant", "require(self.holder is None)"),
        ("no fence", "write", "require(self.token[c] > 0 and self.token[c] >= self.written)"),
    ],
)
def test_what_mistaken_code_does_differs(
    mistake: str, action: str, why: str, tmp_path: Path
) -> None:
    """At the line of the mistake, in the code's own names."""
    outcome = conform_files([run(tmp_path / "trace", 1, mistake=mistake)], PLAIN)

    assert outcome.verdict is Verdict.DIFFERS, told(outcome)
    assert outcome.mismatch is not None
    assert re.match(rf"{action}\(client-\d\)", outcome.mismatch.action)
    assert why in outcome.mismatch.differences
    assert outcome.mismatch.where == f"{tmp_path}/trace, line {outcome.matched + 1}"


def test_long_traces_are_compiled_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are the same, and so is what is told of a mistake."""
    for mistake in ("", "no fence"):
        path = run(tmp_path / f"trace{mistake}", 3, mistake=mistake)
        plain = conform_files([path], PLAIN)
        monkeypatch.setattr("herdproof.conformance.traces.compiled.WORTH_IT", 0)
        compiled = conform_files([path], PLAIN)
        monkeypatch.undo()
        assert told(compiled) == told(plain)


def test_other_names_are_a_matter_of_a_table() -> None:
    """Level one: actions, arguments, fields and elements of other names; numbers that are ranks."""
    table = TraceMap(
        LEASE,
        rows={
            "asked": Row("ask", arguments={"c": "client"}),
            "granted": Row(
                "grant",
                arguments={"c": lambda line: line.arguments["to"].lower()},
                seen={"term": "number", "token[c]": "number"},
            ),
            "wrote": Row("write", arguments={"c": "node"}, seen=["written"]),
            "pinged": Row(None),
        },
        ranks={"term": Scale(["term", "token", "written"], zero=6)},
        names={"Client": ["b", "a"]},
        protocol="lease-server",
    )
    lines = [
        *lines_of(
            ("asked", {"client": "a"}), ("granted", {"to": "A", "c": "a", "number": 57}),
            ("pinged",), node="server",
        ),
        *lines_of(("wrote", {}, {"written": 57, "other": 3}), node="a"),
    ]  # fmt: skip
    for line in lines:
        line.protocol = "lease-server"
        line.time_ns += 100 * (line.node == "a")

    outcome = conform_lines(lines, table)

    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    assert outcome.named == {"ask": 1, "grant": 1, "write": 1}


def test_silent_steps_are_supposed() -> None:
    """A lease that expired without a line: before a grant, where the table says that it may."""
    lines = lines_of(ask("a"), ask("b"), grant("a"), grant("b", holder="b", term=2))
    for table in (
        TraceMap(LEASE, {"grant": Row(silent=["expire"])}),
        TraceMap(LEASE, silent=["expire", "give_back"]),
    ):
        outcome = conform_lines(lines, table)
        assert outcome.verdict is Verdict.CONFORMS, told(outcome)
        assert outcome.inferred & {"expire", "give_back"}

    without = conform_lines(lines, TraceMap(LEASE, {"write": Row(silent=["expire"])}))
    assert without.verdict is Verdict.DIFFERS
    assert without.matched == 4


def test_a_variant_without_a_silent_step_has_no_such_step_and_keeps_the_row() -> None:
    """Its map says nothing of the step; to lines of the action that is gone nothing leads."""
    table = TraceMap(LEASE, {"grant": Row(silent=["expire"]), "look": Row(None, before=["expire"])})
    endless = table.of(LEASE.drop("Endless", "expire"))

    granted = [ask("a"), ask("b"), grant("a")]
    outcome = conform_lines(lines_of(*granted), endless)
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    for more in (grant("b", holder="b", term=2), ("expire",)):
        assert conform_lines(lines_of(*granted, more), table).verdict is Verdict.CONFORMS
        outcome = conform_lines(lines_of(*granted, more), endless)
        assert (outcome.verdict, outcome.matched) == (Verdict.DIFFERS, 4), told(outcome)


FUSE = '''
"""A machine that may lose its guard before it is started, and shows it when it stops."""
from herdspec import *


class Machine(Spec):
    """It runs, with its guard or without."""

    bare: bool = False
    runs: bool = False

    @action(kind=fault)
    def lose(self) -> None:
        """The guard is lost, while the machine stands."""
        require(not self.runs)
        self.bare = True

    @action
    def start(self) -> None:
        """It is started."""
        self.runs = True

    @action
    def look(self) -> None:
        """Somebody looks at it."""
'''


def test_a_silent_fault_may_have_come_where_no_line_needed_it() -> None:
    """It is supposed late at first; before the trace differs, everywhere."""
    table = TraceMap(from_source(FUSE, "Machine"), silent=["lose"], protocol="Lease")

    found = conform_lines(lines_of(("start",), ("look", {}, {"bare": True})), table)
    assert found.verdict is Verdict.CONFORMS, told(found)
    assert found.inferred == {"lose"}

    clean = conform_lines(lines_of(("start",), ("look", {}, {"bare": False})), table)
    assert (clean.verdict, clean.largest) == (Verdict.CONFORMS, 1)
    never = conform_lines(lines_of(("start",), ("look", {}, {"runs": False})), table)
    assert never.verdict is Verdict.DIFFERS


def test_a_parameter_that_nobody_tells_may_be_anything() -> None:
    """The line says that somebody gave the lease back: it can only be its holder."""
    lines = lines_of(ask("a"), ask("b"), grant("a"), ("give_back",), grant("b"), ("write",))
    table = TraceMap(LEASE, {n: Row(arguments={"c": ANY}) for n in ("give_back", "write")})

    outcome = conform_lines(lines, table)

    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    assert outcome.largest == 2


# ── With steps by hand, and with raw lines ──────────────────────────────────────────────────


def moved(line: DecodedLine, state: Any) -> Iterable[Way]:
    """One line for two steps of the spec: the lease goes from its holder to another client."""
    before = [("give_back", (state.holder,))] if state.holder is not None else []
    yield [*before, ("grant", (line.arguments["c"],))]


def test_a_step_by_hand_stands_beside_the_table() -> None:
    """Level two: a function of the line and the state gives the ways to it."""
    table = TraceMap(LEASE, {"moved": Row("grant", ways=moved)})
    good = lines_of(ask("a"), ask("b"), ("moved", {"c": "a"}), ("moved", {"c": "b"}, {"term": 2}))

    outcome = conform_lines(good, table)
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)

    bad = [*good[:-1], lines_of(*[("moved", {"c": "b"}, {"term": 3})] * 4)[-1]]
    outcome = conform_lines(bad, table)
    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert outcome.mismatch.differences == ("term: the spec has 2, the trace 3",)


def raw(lines: Sequence[TraceLine]) -> Raw:
    """All lines at once, as those of a replay that supposes what is not named."""
    clients: dict[str, int] = {}
    made = []
    for line in lines:
        if line.action == START:
            continue
        c = clients.setdefault(line.arguments["c"], len(clients))
        made.append(
            Line(
                node=c,
                action=line.action,
                arguments=(Client(c),),
                time=line.time_ns,
                before=line.arguments.get("before", {}),
                where=line.place,
            )
        )
    return Raw(
        {"Client": len(clients)}, made, named=["ask", "grant", "write", "give_back"],
        at=[k for k, line in enumerate(lines) if line.action != START], names=list(clients),
    )  # fmt: skip


def test_raw_lines_are_the_third_level() -> None:
    """What was seen *before* a step counts, and what no line names is supposed."""
    table = TraceMap(LEASE, raw=raw)
    good = lines_of(ask("a"), ask("b"), grant("a"), ("grant", {"c": "b", "before": {"token": 0}}))
    outcome = conform_lines(good, table)
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)
    assert outcome.inferred == {"expire"}

    bad = lines_of(ask("a"), ask("b"), grant("a"), ("grant", {"c": "b", "before": {"token": 1}}))
    outcome = conform_lines(bad, table)
    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert outcome.mismatch.where == "server, line 5"
    assert outcome.matched == 4
    assert outcome.mismatch.action == "grant(b)"
    assert outcome.mismatch.differences == ("token of b: the spec has 0, the trace 1",)


def test_what_a_raw_map_objects_to_counts_where_nothing_differs_before() -> None:
    """Beside the spec, a map may keep books of its own; the first line that is refused counts."""

    def objecting(lines: Sequence[TraceLine]) -> Raw:
        whole = raw(lines)
        return replace(whole, lines=whole.lines[:2], at=whole.at[:2], objection=(3, "too many"))

    table = TraceMap(LEASE, raw=objecting)
    outcome = conform_lines(lines_of(ask("a"), ask("b"), grant("a")), table)
    assert (outcome.verdict, outcome.matched, outcome.lines) == (Verdict.DIFFERS, 3, 4)
    assert outcome.mismatch is not None
    assert outcome.mismatch.differences == ("too many",)

    bad = lines_of(ask("a"), ("ask", {"c": "b", "before": {"token": 1}}), grant("a"))
    outcome = conform_lines(bad, table)
    assert (outcome.verdict, outcome.matched) == (Verdict.DIFFERS, 2)


def test_who_has_no_trace_is_known_to_a_raw_map() -> None:
    """Up to where that shows, lines are judged; then nothing is known."""

    def untraced(lines: Sequence[TraceLine]) -> Iterator[Missing]:
        yield Missing("the trace of c is missing", len(lines) - 1)

    table = TraceMap(LEASE, raw=raw, untraced=untraced)
    outcome = conform_lines(lines_of(ask("a"), grant("a")), table)

    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "the trace of c is missing")
    known = conform_lines(lines_of(ask("a"), grant("a")), table, whole=False)
    assert known.verdict is Verdict.CONFORMS


def test_clocks_that_are_apart_are_for_raw_lines_only() -> None:
    """Other lines are ordered by what they sent and received."""
    lines = lines_of(ask("a"), grant("a"))

    assert conform_lines(lines, TraceMap(LEASE, raw=raw), slack_ns=5).verdict is Verdict.CONFORMS
    with pytest.raises(UsageError, match="--slack: lines of Lease are ordered"):
        conform_lines(lines, PLAIN, slack_ns=5)


# ── Several nodes ───────────────────────────────────────────────────────────────────────────


def test_an_answer_that_came_late_may_have_been_a_step_much_earlier() -> None:
    """A client's own line of a write comes after the next lease's, and was under way before it."""
    server = lines_of(
        ask("a"), ask("b"), grant("a"), ("expire",), grant("b"), ("write", {"c": "b"})
    )
    client = lines_of(("write", {"c": "a"}, {"written": 1}), node="a")
    client[1].time_ns, client[1].since_ns = 900, 45

    outcome = conform_lines([*server, *client], PLAIN)
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)

    client[1].since_ns = 0
    assert conform_lines([*server, *client], PLAIN).verdict is Verdict.DIFFERS
    client[1].since_ns = 75  # it was sent when the other one's write was done
    assert conform_lines([*server, *client], PLAIN).verdict is Verdict.DIFFERS


def test_messages_order_lines_where_clocks_do_not() -> None:
    """The server's clock is far behind its client's."""
    server = lines_of(ask("a"), grant("a"))
    client = lines_of(("write", {"c": "a"}), node="a")
    client[1].time_ns = 1
    assert conform_lines([*server, *client], PLAIN).verdict is Verdict.DIFFERS

    server[2].sent = client[1].received = ("m1",)
    outcome = conform_lines([*server, *client], PLAIN)
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)


# ── What is missing ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gone", [0, 3])
def test_where_a_line_is_missing_nothing_is_known(gone: int) -> None:
    """In the middle, or the first ones; what was wrong before is wrong all the same."""
    lines = lines_of(ask("a"), ask("b"), grant("a"), ("expire",), grant("b", term=2))
    without = [*lines[:gone], *lines[gone + 1 :]]

    outcome = conform_lines(without, PLAIN)

    assert outcome.verdict is Verdict.UNKNOWN
    wanted = "line 1" if gone == 0 else "line 4"
    assert outcome.reason == f"lines are missing: of server, {wanted}"


def test_what_differs_before_a_gap_differs() -> None:
    """Up to there everything was told."""
    lines = lines_of(ask("a"), ask("a"), grant("a"), ("expire",))

    outcome = conform_lines([*lines[:3], *lines[4:]], PLAIN)

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.matched == 2


def test_a_group_has_its_verdict_though_another_is_not_whole() -> None:
    """Three groups: one conforms, one differs, of one a line is missing, and it is named."""
    groups = {
        "good": lines_of(ask("a"), grant("a"), node="s1", group="good"),
        "bad": lines_of(ask("a"), grant("a"), grant("a"), node="s2", group="bad"),
        "torn": lines_of(ask("a"), grant("a"), node="s3", group="torn")[:1]
        + lines_of(ask("a"), grant("a"), node="s3", group="torn")[2:],
    }

    outcome = conform_lines([line for lines in groups.values() for line in lines], PLAIN)

    found = {group: of.verdict for group, of in outcome.groups.items()}
    assert found == {
        "good": Verdict.CONFORMS, "bad": Verdict.DIFFERS, "torn": Verdict.UNKNOWN,
    }  # fmt: skip
    assert outcome.groups["torn"].reason == "lines are missing: of s3, line 2"
    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch == outcome.groups["bad"].mismatch

    del groups["bad"]
    outcome = conform_lines([line for lines in groups.values() for line in lines], PLAIN)
    assert outcome.verdict is Verdict.UNKNOWN


def test_a_message_that_nobody_sent_names_a_missing_trace() -> None:
    """Whoever sent it has a trace that is not here."""
    lines = lines_of(ask("a"), grant("a"))
    lines[1].received = ("m7",)

    outcome = conform_lines(lines, PLAIN)

    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == (
        "message m7, which server received (server, line 2), was sent by nobody whose trace is here"
    )


def test_who_should_write_a_trace_and_has_none_is_named() -> None:
    """The map says that clients write traces of their own."""
    lines = [*lines_of(ask("a"), ask("b"), grant("a")), *lines_of(node="a")]

    outcome = conform_lines(lines, TraceMap(LEASE, nodes=["Client"]))
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "the trace of b, a Client, is missing"

    outcome = conform_lines([*lines, *lines_of(node="b")], TraceMap(LEASE, nodes=["Client"]))
    assert outcome.verdict is Verdict.CONFORMS, told(outcome)


# ── Promises ────────────────────────────────────────────────────────────────────────────────

CARELESS = SPEC.replace("        require(self.token[c] >= self.written)\n", "").replace(
    "return all(s.token[c] <= s.term for c in Client)",
    "return all(s.token[c] <= s.written for c in Client)",
)


def test_a_promise_that_a_replay_breaks_is_named_with_its_line() -> None:
    """A spec that nobody has proved: its promise fails in what really ran."""
    table = TraceMap(from_source(CARELESS, "Lease"))
    lines = lines_of(ask("a"), grant("a"))

    outcome = conform_lines(lines, table)

    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert outcome.mismatch.kind == "promise"
    assert outcome.mismatch.where == "server, line 3"
    head, state = outcome.mismatch.differences
    assert head == "terms_are_told: No client has a number that was not given out."
    assert state.startswith("in the state Lease(wish={a: ")

    for quiet in ({"failing": ["terms_are_told"]}, {"invariants": False}):
        assert conform_lines(lines, table, **quiet).verdict is Verdict.CONFORMS


def test_a_promise_is_evaluated_in_sets_of_states_too() -> None:
    """By the replay that looks back: broken in every state that is possible, or in some."""
    careless = from_source(CARELESS, "Lease")
    clients = sort_classes(careless)["Client"]

    def made(lines: Sequence[TraceLine], named: Sequence[str]) -> Raw:
        found = [
            Line(node=0, action=x.action, arguments=(clients(0),), where=x.place)
            for x in lines
            if x.action in named
        ]
        return Raw({"Client": 1}, found, named=named)

    lines = lines_of(ask("a"), grant("a"), ("write", {"c": "a"}))
    every = ["ask", "grant", "write", "give_back"]
    outcome = conform_lines(lines, TraceMap(careless, raw=lambda x: made(x, every)))
    assert outcome.verdict is Verdict.DIFFERS
    assert outcome.mismatch is not None
    assert (outcome.mismatch.kind, outcome.mismatch.where) == ("promise", "server, line 3")
    assert "terms_are_told" in outcome.mismatch.differences[0]

    some = conform_lines(lines[:2], TraceMap(careless, raw=lambda x: made(x, ["ask"])))
    assert some.verdict is Verdict.UNKNOWN
    assert "server, line 2: a promise may be broken after it: terms_are_told" in some.reason
