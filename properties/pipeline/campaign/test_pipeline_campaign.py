"""
The campaign without Spark: a run is its seed alone, what breaks is told, edges are put together.

Seeds are not chosen: a flaw's runs are those from 0 on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.conformance.coarse import Edges, VisitedEdges
from herdproof.conformance.traces import compiled as of_traces
from herdproof.errors import NotOurs
from herdproof.pipeline.campaign import campaign as module
from herdproof.pipeline.campaign.campaign import (
    WRITTEN,
    _worker,
    framed,
    run_here,
    task_count,
)
from herdproof.pipeline.campaign.runs import UnknownName
from herdproof.pipeline.campaign.work import Merged, Plan, audited, curve
from herdproof.pipeline.report.facts import facts_of
from herdproof.pipeline.report.reading import Tables
from herdproof.protocols.central_coordinator.campaign import SHAPES, Central
from herdproof.protocols.central_coordinator.held.flawed import CONSUMERS as CONSUMER_FLAWS
from herdproof.protocols.central_coordinator.held.flawed import COORDINATORS as COORDINATOR_FLAWS
from herdproof.protocols.central_coordinator.simulated.random_runs import Kind
from herdproof.protocols.central_coordinator.simulated.traced import traced
from herdproof.protocols.central_coordinator.traces.trace_map import conform_lines
from herdproof.protocols.implementation import simulators
from herdproof.report.render import spoken
from herdspec import Nat, Sort, Spec, action, each
from herdspec.check.running.run import Machine
from herdspec.engine.ground import Ground
from herdspec.language.specification import specification
from herdspec.protocols.central_coordinator.properties import CENTRAL_COORDINATOR

CENTRAL, ELECTION = "central_coordinator", "election"
SMALL = ("alone/calm",)
QUICK = {
    CENTRAL: ("alone/calm", "alone/mixed"),
    ELECTION: ("2 brokers/calm", "2 brokers/mixed"),
    "group_protocol": ("calm", "mixed"),
    "self_rebalancing": ("mixed",),
}
"""Mixes whose runs take a part of a second."""


def timeless(rows: Any) -> Any:
    """Rows without what it took to make them."""
    return {
        name: [{k: v for k, v in row.items() if k != "seconds"} for row in of]
        for name, of in rows.items()
    }


UNTOLD = {
    "self_rebalancing": {
        "exclusive", "who_consumes_owns", "who_begins_does_so_at_the_stored_offset",
        "owners_change_with_a_claim",
    }
}  # fmt: skip
"""
By protocol, what may stay open: where somebody was killed, who has told of no lease's end, and
where a partition was never claimed.
"""

# ── A run ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", simulators())
def test_a_run_is_its_seed_alone(protocol: str) -> None:
    """The same question has the same rows, whatever was run in between."""
    plan = Plan(protocol, 2, 2, QUICK[protocol])

    first = [timeless(audited(plan.asked(number))) for number in (0, 1)]
    again = [timeless(audited(plan.asked(number))) for number in (1, 0)]

    assert again[::-1] == first
    assert first[0]["runs"][0]["digest"] != first[1]["runs"][0]["digest"]


def test_what_was_compiled_before_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is a worker's first has the rows that it has after many, words included."""
    asked = Plan(CENTRAL, 1, mixes=SMALL, flaw="no_barrier").asked(0)
    rows = []
    for worth in (10**9, 0):
        monkeypatch.setattr(of_traces, "COMPILER", of_traces.Compiler())
        monkeypatch.setattr(of_traces, "WORTH_IT", worth)
        rows.append(timeless(audited(asked)))

    assert "write_owners" in rows[0]["violations"][0]["told"]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("protocol", simulators())
def test_the_verified_protocol_keeps_its_promises(protocol: str) -> None:
    """Whatever goes wrong: no monitor, no sentence of the contract and no replay finds anything."""
    plan = Plan(protocol, 3, first_seed=40)

    for number in range(plan.runs):
        rows = audited(plan.asked(number))

        (run,) = rows["runs"]
        assert (run["outcome"], run["broken"]) == ("kept", []), run
        assert rows["violations"] == []
        said = {(v["property"], v["verdict"]) for v in rows["verdicts"]}
        assert ("conforms", "holds") in said
        assert {name for name, v in said if v == "unknown"} <= UNTOLD.get(protocol, set())
        assert run["replayed"] == sum(row["taken"] for row in rows["coverage"]) > 50
        assert run["edges"] == len(rows["edges"]) > 10


def first_broken(protocol: str, flaw: str, seeds: int) -> dict[str, Any]:
    """The rows of the first run, by seed, in which something was broken."""
    plan = Plan(protocol, seeds, flaw=flaw)
    for number in range(seeds):
        rows = audited(plan.asked(number))
        if rows["runs"][0]["outcome"] == "broken":
            return rows
    raise AssertionError(f"{flaw} was not found by {seeds} seeds")


@pytest.mark.parametrize(
    ("protocol", "flaw", "seeds"),
    [(CENTRAL, "no_barrier", 6), (CENTRAL, "stop_not_answered", 12), (ELECTION, "no_watch", 3)],
)
def test_a_flaw_is_found_and_told(protocol: str, flaw: str, seeds: int) -> None:
    """A broken run says what it broke, in which rows the story stands, and how to see it again."""
    rows = first_broken(protocol, flaw, seeds)

    (run,) = rows["runs"]
    assert run["told"]
    assert set(run["broken"]) == {v["property"] for v in rows["violations"]}
    for violation in rows["violations"]:
        assert violation["sentence"]
        assert len(violation["story"]) > 1
        times = [int(line.split("|", 3)[0]) for line in violation["story"]]
        assert times == sorted(times)
        assert violation["run"] == str(run["seed"])
    again = audited(Plan(protocol, 1, run["seed"], (run["mix"],), flaw).asked(0))
    assert again["runs"][0]["digest"] == run["digest"]


def test_a_monitor_s_finding_ends_what_the_others_know() -> None:
    """Where one promise broke the run ended: of the others nothing is said for the whole of it."""
    rows = first_broken(CENTRAL, "stale_offsets", 30)
    monitored = {v["property"]: v["verdict"] for v in rows["verdicts"] if not v["group"]}
    if set(monitored.values()) == {"holds"}:
        pytest.skip("the replay found it before any monitor did")

    assert sorted(set(monitored.values())) == ["unknown", "violated"]
    assert [*monitored.values()].count("violated") == 1
    (own,) = (v for v in rows["violations"] if not v["group"])
    assert monitored[own["property"]] == "violated"
    assert own["story"][-1].endswith(own["told"])


def test_every_flaw_of_the_cores_can_be_asked_for() -> None:
    """None is left out; of two cores' flaws of one name each has its own."""
    flaws = Central().flaws

    assert flaws.keys() >= COORDINATOR_FLAWS.keys()
    for name in CONSUMER_FLAWS:
        here = f"consumer_{name}" if name in COORDINATOR_FLAWS else name
        assert f"consumer_flaws: {name}" in flaws[here]
    assert "coordinator_flaws: no_lease" in flaws["no_lease"]


def test_mixes_differ_in_shape_and_in_faults() -> None:
    """Every shape meets every mix of faults, and every kind of fault is in some."""
    central = Central()

    kinds = {kind for config in central.configs.values() for kind in config.kinds}
    assert kinds == set(Kind)
    assert len(central.configs) == len(set(central.configs.values()))
    assert {name.split("/")[0] for name in central.configs} == set(SHAPES)


def test_what_a_mix_is_reads_the_same_in_every_process() -> None:
    """A configuration within another one is told by where it differs, and no set in its order."""
    for simulated in simulators().values():
        for told in (*simulated.mixes.values(), *simulated.flaws.values()):
            assert "frozenset(" not in told
            assert "Config(" not in told


def test_seeds_take_mixes_in_turn() -> None:
    """A seed's mix is known from the seed; whoever names mixes gets these alone."""
    names = list(simulators()[CENTRAL].mixes)
    plan = Plan(CENTRAL, 100, first_seed=5)

    assert [plan.asked(n).mix for n in range(3)] == names[5:8]
    assert plan.asked(7).seed == 12
    two = Plan(CENTRAL, 4, mixes=("usual/calm", "alone/calm"))
    assert [two.asked(n).mix for n in range(3)] == ["usual/calm", "alone/calm", "usual/calm"]


@pytest.mark.parametrize(
    "plan", [Plan("none", 1), Plan(CENTRAL, 1, mixes=("none",)), Plan(CENTRAL, 1, flaw="none")]
)
def test_a_name_that_is_none_is_refused(plan: Plan) -> None:
    """Before anything runs, with the names that there are."""
    with pytest.raises(UnknownName, match=r"'none'; there are \w+"):
        plan.check()


# ── Edges ───────────────────────────────────────────────────────────────────────────────────


class Clerk(Sort):
    """A clerk."""


class Desks(Spec):
    """Clerks count, and one of them is in charge."""

    open: dict[Clerk, bool] = each(False)
    count: dict[Clerk, Nat] = each(0)
    chief: Clerk | None = None

    @action
    def begin(self, c: Clerk) -> None:
        """{c} opens, and counts."""
        self.open[c] = True
        self.count[c] += 1

    @action
    def lead(self, c: Clerk) -> None:
        """{c} is in charge."""
        self.chief = c

    @action
    def rest(self, c: Clerk) -> None:
        """Where nobody is open, {c} opens."""
        self.open[c] = not any(self.open[d] for d in Clerk)


def steps(*calls: tuple[str, int]) -> Iterator[tuple[Any, str, tuple[Any, ...], Any]]:
    """What a watch hears of these calls, by clerks with these numbers."""
    machine = Machine(Ground(specification(Desks), {"Clerk": 3}, bound=9, faults=0))
    state, clerks = machine.initial(), machine.elements("Clerk")
    for name, clerk in calls:
        after = machine.take(state, name, (clerks[clerk],))
        yield state, name, (clerks[clerk],), after
        state = after  # type: ignore[assignment]


def edges(*calls: tuple[str, int]) -> list[str]:
    """The edges of these calls."""
    told = Edges(specification(Desks))
    return [told.edge(*step) for step in steps(*calls)]


def test_an_edge_does_not_say_who_it_was() -> None:
    """The same step of another is the same edge, whatever the others are like."""
    one, other = edges(("begin", 0), ("begin", 2))

    assert one == other


def test_an_edge_says_what_changed_in_whom() -> None:
    """A first step, a later one, and one beside somebody else in charge are three edges."""
    first, again, lead, third = edges(("begin", 0), ("begin", 0), ("lead", 1), ("begin", 0))

    assert len({first, again, lead, third}) == 4


def test_an_edge_says_what_it_led_to() -> None:
    """The same step of somebody like that is another edge where it ends otherwise."""
    opens, _, stays = edges(("rest", 1), ("begin", 0), ("rest", 2))

    assert opens != stays


def test_numbers_are_zero_or_not() -> None:
    """So there are finitely many edges, however far one counts."""
    assert len(set(edges(*[("begin", 0)] * 8))) == 2


def test_whoever_is_named_is_told_from_another() -> None:
    """That one takes over from oneself, from nobody or from another are three edges."""
    nobody, self_, another = edges(("lead", 0), ("lead", 0), ("lead", 1))

    assert len({nobody, self_, another}) == 3


def test_compiled_and_plain_replays_take_the_same_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """How steps are taken is no part of an edge: what is compiled depends on what ran before."""
    compiler = of_traces.Compiler()
    monkeypatch.setattr(of_traces, "COMPILER", compiler)
    monkeypatch.setattr(of_traces, "WORTH_IT", 0)
    told = Edges(CENTRAL_COORDINATOR)
    lines = traced(1, Central().configs["alone/mixed"]).lines
    compiled, plain = VisitedEdges(told), VisitedEdges(told)

    conform_lines(lines, watches=lambda: compiled)
    conform_lines(lines, watches=lambda: plain, plain=True)

    assert compiler.steps
    assert (compiled.actions, compiled.counts) == (plain.actions, plain.counts)
    assert len(plain.actions) > 30


@given(
    firsts=st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=30),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_edges_are_put_together_in_any_order(firsts: list[list[str]], seed: int) -> None:
    """Which run comes first to be counted does not matter; each edge is new once."""
    plan = Plan(CENTRAL, len(firsts), first_seed=100)
    rows = [
        [{"edge": edge, "action": f"of {edge}", "first": number, "runs": 1} for edge in taken]
        for number, taken in enumerate(firsts)
    ]
    mixed = [*rows]
    Random(seed).shuffle(mixed)
    merged, other = Merged(plan), Merged(plan)
    for taken in rows:
        merged.add(taken)
    for taken in mixed:
        other.add(taken)

    found = {row["edge"]: row for row in merged.edges()}
    assert merged.edges() == other.edges()
    assert merged.curve() == other.curve()
    for edge, row in found.items():
        numbers = [n for n, taken in enumerate(firsts) if edge in taken]
        assert (row["first"], row["runs"]) == (numbers[0], len(numbers))
        assert row["run"] == str(100 + numbers[0])
    assert merged.curve()[-1]["edges"] == sum(p["new"] for p in merged.curve()) == len(found)


def test_a_curve_has_a_point_for_every_stretch() -> None:
    """Some twenty of a small campaign; one for every thousand runs of a large one."""
    small, large = Plan(CENTRAL, 45), Plan(CENTRAL, 50_001)

    assert [p["runs"] for p in curve(small, [])] == list(range(3, 46, 3))
    assert len(curve(large, [])) == 51
    assert curve(large, [0, 999, 1_000, 50_000])[0]["new"] == 2
    assert curve(large, [0, 999, 1_000, 50_000])[-1] == {
        "run": "", "group": "", "protocol": CENTRAL, "new": 1, "edges": 4, "runs": 50_001,
    }  # fmt: skip


# ── Many runs, here ─────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign's tables: six runs of a flawed coordinator."""
    out = tmp_path_factory.mktemp("campaign") / "tables"
    run_here(Plan(CENTRAL, 6, mixes=SMALL, flaw="no_barrier"), out)
    return out


def test_a_campaign_s_tables_are_read_by_the_report(tables: Path) -> None:
    """Runs, mixes, broken runs and the curve are told, and the verdicts of each run's groups."""
    facts = facts_of(tables)

    assert facts.campaign is not None
    assert (facts.campaign.runs, [m.mix for m in facts.campaign.mixes]) == (6, [*SMALL])
    assert facts.campaign.broken == len(facts.campaign.failed) > 0
    assert facts.worst == "violated"
    points = facts.campaign.curve[CENTRAL]
    assert points[-1].runs == 6
    assert points[-1].edges == sum(facts.campaign.edges.values()) == sum(p.new for p in points)
    assert {p.name for p in facts.promises} > {"conforms", "exclusive"}


def test_a_campaign_s_tables_are_what_its_runs_say(tables: Path) -> None:
    """Every row of every run is there, once."""
    plan = Plan(CENTRAL, 6, mixes=SMALL, flaw="no_barrier")
    wanted: dict[str, list[Any]] = {name: [] for name in WRITTEN}
    for number in range(plan.runs):
        for name, rows in timeless(audited(plan.asked(number))).items():
            wanted[name] += rows

    read = Tables(tables)
    for name in WRITTEN.keys() - {"edges", "curve"}:
        found = timeless({name: read.rows(name)})[name]
        columns = [c.name for c in WRITTEN[name].columns if c.name != "seconds"]
        assert found == [{c: row.get(c) for c in columns} for row in wanted[name]], name


def test_what_no_campaign_wrote_is_not_overwritten(tmp_path: Path, tables: Path) -> None:
    """A directory with something else in it is refused; a campaign's own is replaced."""
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(NotOurs, match="holds something else"):
        run_here(Plan(ELECTION, 1), tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "mine"

    out = tmp_path / "new"
    run_here(Plan(ELECTION, 2), out)
    run_here(Plan(ELECTION, 1), out)
    assert Tables(out).counts("runs", "protocol") == {(ELECTION,): 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "precious.txt"]


def test_a_campaign_says_what_it_does_from_the_beginning(tmp_path: Path) -> None:
    """Before the first run is done, which can take long, and after the last one."""
    said: list[tuple[str, float | None]] = []

    run_here(Plan(ELECTION, 2), tmp_path / "new", lambda *words: said.append(words))

    assert said == [
        ("0 of 2 runs", 0.0),
        ("1 of 2 runs, 0 broken", 0.5),
        ("2 of 2 runs, 0 broken", 1.0),
        ("writing the tables", None),
    ]


def test_a_campaign_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither half of its tables, nor what it had begun; what was there before stays."""
    out = tmp_path / "out"
    run_here(Plan(ELECTION, 1), out)

    def fails(plan: Plan) -> Iterator[Any]:
        yield audited(plan.asked(0))
        raise RuntimeError("no more")

    monkeypatch.setattr(module, "campaign_rows", fails)
    with pytest.raises(RuntimeError, match="no more"):
        run_here(Plan(ELECTION, 3), out)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert Tables(out).counts("runs", "run") == {("0",): 1}


# ── What Spark is given ─────────────────────────────────────────────────────────────────────


def test_a_task_that_is_tried_again_gives_the_same_rows() -> None:
    """A task that dies in the middle has changed nothing: the next try is the first one."""
    plan = Plan(ELECTION, 4, mixes=QUICK[ELECTION])
    batch = pa.record_batch([pa.array([1, 3])], names=["id"])
    work = _worker(plan)
    next(work(iter([batch])))  # it begins, and dies

    tries = [
        {b.column(0)[0].as_py(): b.to_pylist() for b in _worker(plan)(iter([batch]))}
        for _ in range(2)
    ]
    for rows in (row["runs"] for found in tries for row in found["runs"]):
        rows.pop("seconds")
    assert tries[0] == tries[1]
    assert [row["runs"]["number"] for row in tries[0]["runs"]] == [1, 3]


@given(runs=st.integers(1, 10**6), cores=st.integers(1, 256))
def test_tasks_are_neither_too_few_nor_too_large(runs: int, cores: int) -> None:
    """Every core has work, if there is any, and no task has more than two hundred runs."""
    tasks = task_count(runs, cores)

    assert min(runs, cores) <= tasks <= runs
    assert runs / tasks <= 200


def test_rows_come_out_of_a_frame_as_they_went_in() -> None:
    """A frame has a column for each table, all but one of them null."""
    rows = audited(Plan(ELECTION, 1).asked(0))

    for name, of in rows.items():
        if not of:
            continue
        batch = framed(name, of)
        assert batch.column("table").to_pylist() == [name] * len(of)
        columns = [c.name for c in WRITTEN[name].columns]
        assert batch.column(name).to_pylist() == [{c: row.get(c) for c in columns} for row in of]
        others = [n for n in WRITTEN if n != name]
        assert all(batch.column(n).null_count == len(of) for n in others)


# ── The command ─────────────────────────────────────────────────────────────────────────────


def test_the_command_tells_one_run(tmp_path: Path) -> None:
    """A broken run's number is all that is needed to see it again, as a story and as JSON."""
    called = ["campaign", CENTRAL, "--seed", "0", "--mix", SMALL[0], "--flaw", "no_barrier"]

    told = CliRunner().invoke(app, [*called, "--json", str(tmp_path / "j.json")])

    assert told.exit_code == 1
    assert "flaw no_barrier: coordinator_flaws: no_barrier" in told.stdout
    read = json.loads((tmp_path / "j.json").read_text(encoding="utf-8"))
    assert (read["seed"], read["outcome"]) == (0, "broken")
    assert read["violations"][0]["told"] in told.stdout
    assert told.stdout.rstrip().endswith(f"It fails: {', '.join(map(spoken, read['broken']))}.")


def test_the_command_writes_tables(tmp_path: Path) -> None:
    """The exit code is what came of all runs; the curve is printed."""
    out = tmp_path / "out"

    told = CliRunner().invoke(app, ["campaign", ELECTION, "--runs", "2", "--out", str(out)])

    assert told.exit_code == 0
    assert "election: 2 runs, seeds 0 to 1" in told.stdout
    assert "No promise was broken in 2 runs, which proves nothing." in told.stdout
    assert facts_of(out).worst == "holds"
    refused = CliRunner().invoke(app, ["campaign", ELECTION, "--shrink"])
    assert (refused.exit_code, refused.stderr) == (2, "herdproof: --shrink is for --seed\n")
