"""
What commands say of small specs, held against the oracle's truth.

Each function returns its disagreements, one sentence each: the spec, the command, what it said,
and what is true. Nothing that is said to hold may be false, nor may a bound have hidden the rest
of the states; what is said to fail must fail, with a shortest counterexample.
"""

from __future__ import annotations

import ast
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import typer.main

from herdproof.cli import app
from properties.oracle.graph import Limits
from properties.oracle.replay import Replay
from properties.oracle.source import Source
from properties.oracle.truth import DEFINED, Judged, Truth, judge

HOLDS, FAILS, REFUSED, UNKNOWN = 0, 1, 2, 3
STANDINGS = {"holds": HOLDS, "fails": FAILS, "unknown": UNKNOWN}
MARKS = {"exhausted": "○", "proved": "●", "fails": "✗", "unknown": "?"}
POSSIBLE = "every action is possible"
ALLOWED = "the promises allow every action"
PROMISES = "promises"
COMMAND = typer.main.get_command(app)
DOUBLED = 16
"""How far exploration raises the bound of naturals by itself: four times the double."""
ENDLESS = ("recoverable", "eventually", "eventually always", "leads to")
"""Kinds of rows that speak of all that may follow, and so of what was not gone on from."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """What a command printed, wrote as JSON, and ended with."""

    exit: int
    text: str
    error: str
    json: Any

    @property
    def rows(self) -> list[Row]:
        """The findings."""
        if not self.json:
            return []
        protocols = self.json.get("protocols", [self.json])
        return [row for protocol in protocols for row in protocol["findings"]]


def ran(*arguments: object) -> Ran:
    """Run a command in this process."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "said.json"
        words = [*map(str, arguments), "--json", str(file)]
        with redirect_stdout(out), redirect_stderr(error):
            try:
                COMMAND.main(args=words, prog_name="herdproof")
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
        said = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return Ran(code, out.getvalue(), error.getvalue(), said)


@dataclass(frozen=True)
class Spec:
    """A spec as commands take it, with its source, and a world of it."""

    path: Path
    name: str
    source: Source

    @property
    def argument(self) -> str:
        """The spec as commands take it."""
        return f"{self.path}:{self.name}"

    def sorts(self) -> list[str]:
        """The sorts of its file that the spec has to do with."""
        return self.source.sorts


class Truths:
    """What is true of specs, judged once for each size."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.known: dict[Any, Judged] = {}

    def of(
        self, spec: Spec, sizes: dict[str, int], faults: int, *, constrained: bool = True
    ) -> Judged:
        """All that is true of a spec at a size, within its constraints or without."""
        limited = "constraint" in spec.source.specification(spec.name).properties.values()
        constrained = constrained and limited
        key = (spec.path, spec.name, tuple(sorted(sizes.items())), faults, constrained)
        if key not in self.known:
            limits = Limits(faults=faults, horizon=self.horizon, constrained=constrained)
            self.known[key] = judge(spec.source, spec.name, sizes, limits)
        return self.known[key]

    def dead(self, spec: Spec) -> set[str]:
        """The actions that are never possible, at no size and with no budget."""
        few, many = dict.fromkeys(spec.source.sorts, 2), dict.fromkeys(spec.source.sorts, 3)
        return self.of(spec, few, 2).never & self.of(spec, many, 3).never


def options(sizes: dict[str, int], faults: int) -> list[str]:
    """Sizes and faults as a command takes them."""
    return [*(f"--size={s}={n}" for s, n in sizes.items()), f"--faults={faults}"]


# ── Explored rows ───────────────────────────────────────────────────────────────────────────


def name_of(row: Row) -> str:
    """The property that a row is about."""
    return DEFINED if row["property"] == "every_value_is_defined" else str(row["property"])


def disputed(row: Row, judged: Judged, *, cut: bool, defined: bool) -> str:
    """What is wrong with a row that exploration has found; nothing where it is right."""
    truth = judged.truths.get(name_of(row))
    if row["property"] == POSSIBLE:
        beyond = "fails" if judged.graph.whole else "open"
        truth = Truth(beyond if impossible(judged) else "holds")
    elif row["property"] == PROMISES:
        right = row["standing"] == "unknown" and not judged.of.properties
        return "" if right else "is said of a spec that has promises"
    elif truth is not None and is_vacuous(row["kind"], truth):
        truth = Truth("fails")
    if truth is None:
        return "is no property"
    match row["standing"]:
        case "holds":
            return _not_held(row, truth, cut or bool(judged.graph.outside))
        case "fails":
            return _not_failed(row, judged, truth, cut)
        case "unknown" if row["kind"] in ENDLESS and judged.graph.outside:
            return ""
        case "unknown" if not cut and defined and truth.verdict != "open":
            return f"is unknown though nothing was cut; in truth it {truth}"
    return ""


def impossible(judged: Judged) -> set[str]:
    """The actions that are never possible, though the budget has room for them."""
    choices = judged.judge.interpreter.choices(judged.of.spec)
    costly = {c.name for c in choices if c.costs}
    return judged.never - (set() if judged.judge.limits.faults else costly)


def is_vacuous(kind: str, truth: Truth) -> bool:
    """Whether a promise that holds counts as a failure: nothing ever has its premise."""
    return kind == "leads to" and truth.vacuous and truth.verdict == "holds"


def _not_held(row: Row, truth: Truth, cut: bool) -> str:
    if truth.verdict == "fails":
        return f"is said to hold ({row['note']}); in truth it {truth}"
    if truth.verdict == "open":
        return f"is said to hold ({row['note']}), though states were cut off" if cut else ""
    if row["kind"] == "sometimes" and f"after {truth.length} step" not in row["note"]:
        return f"is witnessed otherwise ({row['note']}); the shortest witness has {truth.length}"
    if truth.vacuous and not row["note"]:
        return "is said to hold without a word that nothing has its premise"
    return ""


def _not_failed(row: Row, judged: Judged, truth: Truth, cut: bool) -> str:
    steps = (row["found"] or {}).get("steps")
    if truth.verdict == "open" and (steps is None or steps > judged.graph.looked):
        return ""  # further away than the oracle has looked
    if truth.verdict != "fails":
        return f"is said to fail after {steps}; in truth it {truth}"
    if truth.length is None or steps is None or steps == truth.length:
        return ""
    if cut and steps > truth.length:  # a shortest one within the bound
        return ""
    return f"is said to fail after {steps}; in truth it {truth}"


def of_exploration(
    truths: Truths, spec: Spec, sizes: dict[str, int], faults: int, *more: str
) -> Iterator[str]:
    """What `explore` says of a spec at a size that is not so."""
    judged = truths.of(spec, sizes, faults)
    dead = partial(truths.dead, spec)
    run = ran("explore", spec.argument, *options(used(spec, sizes), faults), *more)
    begin = f"{spec.path.stem}.{spec.name} explore {sizes} faults={faults} {' '.join(more)}:"
    if run.json is None:
        if run.exit != REFUSED or judged.graph.states:
            yield f"{begin} exit {run.exit}: {run.error.strip()[-200:]}"
        return
    cut = bool(run.json["dropped"] or run.json["truncated"])
    defined = judged.truths[DEFINED].verdict == "holds"
    for row in run.rows:
        if wrong := disputed(row, judged, cut=cut, defined=defined):
            yield f"{begin} {name_of(row)} {wrong}"
    yield from (f"{begin} {w}" for w in missing(run.rows, judged))
    yield from (f"{begin} {w}" for w in of_stories(run.rows, judged))
    yield from (f"{begin} {w}" for w in of_exit(run, run.rows, judged, dead))
    yield from (f"{begin} {w}" for w in of_text(run))
    if not cut and judged.graph.complete and run.json["orbits"] != len(judged.graph.states):
        states = len(judged.graph.states)
        yield f"{begin} {run.json['orbits']} states; in truth {states}"
    if cut and judged.graph.complete and not more and _within_reach(judged, faults):
        yield f"{begin} is cut, though the bound might have been raised"


def _within_reach(judged: Judged, faults: int) -> bool:
    """Whether naturals stay within what exploration raises its bound to, and channels are short."""
    return judged.graph.largest <= DOUBLED * (faults + 1) and judged.graph.longest <= 1


def used(spec: Spec, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes of the sorts that a spec has: commands refuse those of others."""
    return {s: n for s, n in sizes.items() if s in sorts_of(spec.source, spec.name)}


def sorts_of(source: Source, name: str) -> set[str]:
    """The sorts that occur in a spec, in its parts, or in a property of it."""
    of = source.specification(name)
    methods = [a.function for a in (*of.spec.actions.values(), *of.spec.initials.values())]
    methods += [*of.spec.helpers.values(), *(source.functions[p] for p in of.properties)]
    nodes: list[ast.AST] = [*source.with_called(methods)]
    nodes += [note for note, _ in of.spec.fields.values()]
    names = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
    found = names & set(source.sorts)
    for part in names & source.specs.keys() - {of.spec.name}:
        found |= sorts_of(source, part)
    for record in names & source.records.keys():
        notes = [note for note, _ in source.records[record].values()]
        found |= {n.id for note in notes for n in ast.walk(note)
                  if isinstance(n, ast.Name) and n.id in source.sorts}  # fmt: skip
    return found


def missing(rows: list[Row], judged: Judged) -> Iterator[str]:
    """Properties of which nothing is said."""
    said = {name_of(row) for row in rows}
    for name, truth in judged.truths.items():
        if name not in said and not (name == DEFINED and truth.verdict != "fails"):
            yield f"says nothing of {name}; in truth it {truth}"


def of_stories(rows: list[Row], judged: Judged) -> Iterator[str]:
    """Stories that the oracle cannot follow, or that show something else than they are told for."""
    replay = Replay(judged.judge)
    for row in rows:
        ends = row["kind"] not in ENDLESS
        if row["story"] and ends and (wrong := replay.breaks(row["story"], name_of(row))):
            yield f"the story of {name_of(row)}: {wrong}"


def of_exit(
    run: Ran, rows: list[Row], judged: Judged, dead: Callable[[], set[str]]
) -> Iterator[str]:
    """What is wrong with an exit code, beside its rows and the truth."""
    if run.exit == HOLDS:
        for name, truth in judged.truths.items():
            if truth.verdict == "fails":
                yield f"exit 0, but {name} {truth}"
        for action in sorted(impossible(judged) & dead()):
            yield f"exit 0, but {action} is never possible"
        if not judged.of.properties:
            yield "exit 0, but nothing is promised"
    kinds = {name_of(row): row["kind"] for row in rows}
    fails = impossible(judged) or any(
        t.verdict != "holds" or is_vacuous(kinds.get(name, ""), t)
        for name, t in judged.truths.items()
    )
    if run.exit == FAILS and not fails:
        yield "exit 1, but nothing fails"
    standings = {STANDINGS[row["standing"]] for row in rows}
    worst = next((w for w in (FAILS, UNKNOWN, HOLDS) if w in standings), UNKNOWN)
    if run.exit != worst:
        yield f"exit {run.exit}, but its rows come to {worst}"
    if run.json["exit"] != run.exit:
        yield f"exit {run.exit}, but the JSON says {run.json['exit']}"


def of_text(run: Ran) -> Iterator[str]:
    """Rows whose mark in the table is another than in the JSON."""
    lines = run.text.splitlines()
    for row in run.rows:
        name = row["property"].replace("_", " ")
        line = next((x for x in lines if x.startswith(f"{name} ")), "")
        if MARKS.get(row["mark"], "!") not in line:
            yield f"{name} is {row['mark']} in the JSON, in the table {line!r}"
    if ("It holds" in run.text) != (run.exit == HOLDS):
        yield f"exit {run.exit}, but says {lines[-1]!r}"


@cache
def every_size(sorts: tuple[str, ...]) -> list[dict[str, int]]:
    """All sizes up to three."""
    return [dict(zip(sorts, n, strict=True)) for n in product((1, 2, 3), repeat=len(sorts))]


def within(spec: Spec, sizes: dict[str, int], faults: int, bound: int) -> Iterator[str]:
    """What `explore --bound N --within` says that is not so of the states within the bound."""
    limits = Limits(faults=faults, bound=bound, capacity=True)
    judged = judge(spec.source, spec.name, sizes, limits)
    more = (f"--bound={bound}", "--within")
    run = ran("explore", spec.argument, *options(used(spec, sizes), faults), *more)
    begin = f"{spec.path.stem}.{spec.name} explore {sizes} faults={faults} {' '.join(more)}:"
    if run.json is None:
        yield f"{begin} exit {run.exit}: {run.error.strip()[-200:]}"
        return
    for row in run.rows:
        if row["property"] in (POSSIBLE, PROMISES):
            if wrong := disputed(row, judged, cut=True, defined=True):
                yield f"{begin} {name_of(row)} {wrong}"
            continue
        truth = judged.truths[name_of(row)]
        if is_vacuous(row["kind"], truth):
            truth = Truth("fails")
        if row["standing"] == "holds" and truth.verdict == "fails":
            yield f"{begin} {name_of(row)} is said to hold; within the bound it {truth}"
        if row["standing"] == "holds" and row["kind"] in ENDLESS and truth.verdict == "open":
            yield f"{begin} {name_of(row)} is said to hold, though states were cut off"
        if row["standing"] == "fails" and truth.verdict != "fails":
            yield f"{begin} {name_of(row)} is said to fail; within the bound it {truth}"
    yield from missing(run.rows, judged)
    if run.exit == HOLDS and judged.graph.dropped and "within" not in run.text:
        yield f"{begin} exit 0 without a word of the bound"
