"""
Traces of any code that are not as they should be: bad maps and lines, attacks, and the command.

Also what `herdproof conform` says of each. The code is a small lease server (`traced_leases.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdproof.cli.code.conform import map_of
from herdproof.conformance.traces import TraceError, TraceLine, Tracer
from herdproof.conformance.traces.line import START, read_file, read_line
from herdproof.conformance.traces.mapping import Row, TraceMap
from herdproof.conformance.traces.replay import conform_files, conform_lines
from herdspec.check.conformance.conform import Verdict
from herdspec.language.errors import UsageError
from properties.cli.files import run as command
from properties.conformance.traces.traced_leases import (
    LEASE,
    PLAIN,
    SPEC,
    ask,
    grant,
    lines_of,
    run,
)

# ── Bad input ───────────────────────────────────────────────────────────────────────────────


def bad_map(make: Callable[[], object]) -> str:
    """What is said of a map."""
    with pytest.raises(UsageError) as refused:
        make()
    return str(refused.value)


def test_a_map_that_cannot_be_says_what_to_write() -> None:
    """Actions, parameters and sorts that there are not."""
    maps: dict[str, Callable[[], object]] = {
        "row 'grnt' names 'grnt', which is no action of Lease (did you mean grant?)":
            lambda: TraceMap(LEASE, {"grnt": Row()}),
        "the scale 'Terms' of the map of Lease names 'x', which is no number of the spec: write"
        " some of term, token, written":
            lambda: TraceMap(LEASE, ranks={"Terms": ["term", "x"]}),
        "the scale 'Terms' of the map of Lease names 'holder', which is no number":
            lambda: TraceMap(LEASE, ranks={"Terms": ["holder"]}),
        "row 'given' of the map names 'gant', which is no action of Lease (did you mean grant?)":
            lambda: TraceMap(LEASE, {"given": Row("gant")}),
        "row 'grant' of the map of Lease says where 'client' stands, which is no parameter:"
        " grant has c": lambda: TraceMap(LEASE, {"grant": Row(arguments={"client": "node"})}),
        "silent of row 'grant' names 'expires', which is no action":
            lambda: TraceMap(LEASE, {"grant": Row(silent=["expires"])}),
        "silent of the map names 'x', which is no action": lambda: TraceMap(LEASE, silent=["x"]),
        "the map: silent='expire'; write a list: ['expire']":
            lambda: TraceMap(LEASE, silent="expire"),
        "the map of Lease names the sort 'Klient'; its sorts: Client":
            lambda: TraceMap(LEASE, names={"Klient": ["a"]}),
    }  # fmt: skip
    for wanted, make in maps.items():
        assert wanted in bad_map(make)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (("grnt", {"c": "a"}), "the line names 'grnt', which is no action of Lease (did you mean"),
        (("grant",), "it does not tell the parameter 'c' of grant: write it (c=…)"),
        (("grant", {"c": "a", "d": 1}), "'d' is no parameter of grant, which has c: write one of"),
        (("grant", {"c": 3}), "3 is no Client: write the name that the code has for it"),
        (("grant", {"c": "z"}), "'z' is none of the map's names of Client (a, b): add it to"),
        (("grant", {"c": "a"}, {"trm": 1}), "`trm` is no field of Lease, which has wish, holder"),
        (("grant", {"c": "a"}, {"term": "1"}), "`term` is '1': write an integer"),
        (("grant", {"c": "a"}, {"term": -1}), "`term` is -1: write a number of at least 0, or"),
        (("grant", {"c": "a"}, {"wish": {"a": "x"}}), "`wish` is 'x': write one of 'none', 'wai"),
        (("grant", {"c": "a"}, {"wish": "x"}), "`wish` is 'x': write an object from keys to"),
        (("grant", {"c": "a"}, {"holder": ["a"]}), "['a'] is no Client: write the name"),
    ],
)  # fmt: skip
def test_a_line_that_no_step_can_be_made_of_says_what_to_write(
    step: tuple[Any, ...], why: str
) -> None:
    """And where it stands."""
    with pytest.raises(TraceError) as refused:
        conform_lines(lines_of(step), TraceMap(LEASE, names={"Client": ["a", "b"]}))

    assert str(refused.value).startswith("server, line 2: ")
    assert why in str(refused.value)


def test_a_trace_of_another_protocol_is_refused() -> None:
    """With what to give instead."""
    lines = lines_of(ask("a"))
    lines[1].protocol = "Lock"

    with pytest.raises(TraceError, match="a trace of Lock, and the map is of Lease: give a map of"):
        conform_lines(lines, PLAIN)


def test_lines_with_numbers_that_cannot_be_are_refused() -> None:
    """Two that have one number; a first line that is a step. The same line twice is one."""
    lines = lines_of(ask("a"), grant("a"))
    again = read_line(lines[2].written(), "twin, line 3")
    assert conform_lines([*lines, again], PLAIN).verdict is Verdict.CONFORMS

    again.seen = {"term": 1}
    with pytest.raises(TraceError, match="twin, line 3: server has told another line 3 already"):
        conform_lines([*lines, again], PLAIN)
    with pytest.raises(TraceError, match=r"server, line 2: its number is 2, its action \(start\)"):
        conform_lines(lines_of((START,)), PLAIN)


def test_more_states_than_may_be_carried_are_no_verdict() -> None:
    """A bound that was hit is told, and no pass."""
    lines = lines_of(*(ask(f"c{n}") for n in range(6)), grant("c1"))

    outcome = conform_lines(lines, TraceMap(LEASE, silent=["ask", "expire", "write"]), cap=5)

    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "more than 5 states are possible at server, line 1"


# ── Attacks ─────────────────────────────────────────────────────────────────────────────────


def values_in(raw: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """Where single values stand in a JSON object."""
    if isinstance(raw, dict):
        for key, inner in raw.items():
            yield from values_in(inner, (*path, key))
    else:
        yield path


def others(value: Any) -> list[Any]:
    """Values that might stand there instead."""
    if isinstance(value, int):
        return [value + 1, value - 1, value + 7]
    names = ["client-1", "client-2", "client-3", "waits", "granted", None]
    return [name for name in names if name != value]


@given(data=st.data(), seed=st.integers(0, 5))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_one_value_that_was_changed_is_found_at_its_line_or_later(
    data: st.DataObject, seed: int, tmp_path: Path
) -> None:
    """Whatever one line says of its arguments, of what was seen, or of its number and action."""
    path = tmp_path / f"trace{seed}"
    lines = read_file(path if path.exists() else run(path, seed))
    at = data.draw(st.integers(1, len(lines) - 1))
    raw = json.loads(lines[at].written())
    ways = [w for w in values_in(raw) if w[0] in ("arguments", "seen", "sequence", "action")]
    way = data.draw(st.sampled_from(ways))
    holder = raw
    for key in way[:-1]:
        holder = holder[key]
    actions = [a.name for a in LEASE.actions]
    instead = [a for a in actions if a != raw["action"]] if way == ("action",) else others(
        holder[way[-1]]
    )  # fmt: skip
    holder[way[-1]] = data.draw(st.sampled_from(instead))
    lied = [*lines[:at], read_line(json.dumps(raw), lines[at].place), *lines[at + 1 :]]
    refused = ""
    try:
        outcome = conform_lines(lied, PLAIN)
    except TraceError as problem:
        refused = str(problem)
    if refused:
        numbered = way == ("sequence",)  # of two lines with one number, the later one is refused
        assert refused.startswith(f"{lines[at].place}: ") or numbered
        return
    assert outcome.verdict is not Verdict.CONFORMS or is_harmless(lines[at], way, lied[at])
    if outcome.verdict is Verdict.DIFFERS:
        assert outcome.matched >= at


def is_harmless(line: TraceLine, way: tuple[Any, ...], lied: TraceLine) -> bool:
    """
    Whether another client may have done it just as well.

    Who asks changes nothing that is seen if that client asks at no other time; who writes nothing,
    if the numbers of both are the same, which they never are.
    """
    return line.action == "ask" and way[-1] == "c" and lied.action == "ask"


# ── The command ─────────────────────────────────────────────────────────────────────────────

MAP = """
from herdproof.conformance.traces.mapping import Row, TraceMap

MAP = TraceMap(Lease, {"grant": Row(silent=["expire"])})
"""


def test_anybody_s_traces_are_replayed_by_the_command(tmp_path: Path) -> None:
    """With a spec, with a map, with both; exit 0, 1, 2 and 3."""
    spec, trace = tmp_path / "lease_of_my_own.py", run(tmp_path / "good", 1)
    spec.write_text(SPEC + MAP)
    bad = run(tmp_path / "bad", 1, mistake="no fence")
    torn = tmp_path / "torn"
    torn.write_text("".join(trace.read_text().splitlines(keepends=True)[1:]))
    for by in ([f"--spec={spec}:Lease"], [f"--map={spec}:MAP"], [f"--map={spec}"],
               [f"--spec={spec}", f"--map={spec}:MAP"]):  # fmt: skip
        good = command("conform", *by, trace)
        assert good.exit_code == 0, good.output
        assert "It conforms." in good.output
        assert command("conform", *by, bad).exit_code == 1
        unknown = command("conform", *by, torn)
        assert unknown.exit_code == 3
        assert "Unknown: lines are missing: of server, line 1" in unknown.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "which is no protocol that is installed: say its spec by --spec FILE.py:SPEC, and"),
        (["--map={0}:MAPP"], "has no trace map 'MAPP'; its maps: {0}:MAP"),
        (["--map=MAP"], "write a file and the name of a map in it, FILE.py:MAP"),
        (["--map={0}:MAP", "--spec=election"], "which is not --spec election: give the map of"),
        (["--spec={0}:Lease", "--slack=1"], "--slack: lines of Lease are ordered by their times"),
        (["--spec=election"], "this is a trace of Lease, and the map is of Election"),
    ],
)
def test_the_command_says_what_to_write(options: list[str], why: str, tmp_path: Path) -> None:
    """One sentence, exit 2."""
    spec, trace = tmp_path / "lease_of_my_own.py", run(tmp_path / "good", 1)
    spec.write_text(SPEC + MAP)

    refused = command("conform", *(o.format(spec) for o in options), trace)

    assert refused.exit_code == 2
    assert why.format(spec) in refused.output


def test_traces_of_different_protocols_are_not_replayed_together(tmp_path: Path) -> None:
    """In either order, and whatever the versions of their lines: one sentence, exit 2."""
    lease, former = run(tmp_path / "lease", 1), tmp_path / "former"
    former.write_text('{"schema":1,"protocol":"election","run":"r"}\n')
    why = f"traces of different protocols ({lease} of Lease and {former} of election): give one"

    for traces in ([lease, former], [former, lease]):
        refused = command("conform", *traces)

        assert refused.exit_code == 2
        assert why in refused.output


def test_a_field_that_no_line_shows_is_named(tmp_path: Path) -> None:
    """A place that no line has compares nothing: it conforms, and says so."""
    spec, trace = tmp_path / "lease_of_my_own.py", run(tmp_path / "good", 1)
    row = 'Row(silent=["expire"], seen={"holder": "seen.hodler"})'
    rows = f'dict.fromkeys(("grant", "expire", "write"), {row})'
    spec.write_text(SPEC + MAP + f"ELSEWHERE = TraceMap(Lease, {rows})\n")

    shown, not_shown = (command("conform", f"--map={spec}:{m}", trace)
                        for m in ("MAP", "ELSEWHERE"))  # fmt: skip

    assert (shown.exit_code, not_shown.exit_code) == (0, 0), not_shown.output
    assert "never shown" not in shown.output
    told = not_shown.output.partition("never shown: ")[2].splitlines()[0]
    assert told == "holder, term, token, written"


def test_the_only_map_of_a_file_needs_no_name(tmp_path: Path) -> None:
    """Of two, one has to be named."""
    spec = tmp_path / "lease_of_two_maps.py"
    spec.write_text(SPEC + MAP + "OTHER = TraceMap(Lease)\n")

    with pytest.raises(UsageError, match=r"its maps: .*:MAP, .*:OTHER"):
        map_of(str(spec))


def test_a_tracer_that_only_started_is_no_verdict(tmp_path: Path) -> None:
    """Nothing was done: nothing is wrong, and nothing was shown."""
    with Tracer("Lease", "server", tmp_path / "trace"):
        pass

    outcome = conform_files([tmp_path / "trace"], PLAIN)

    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "no step was traced")
