"""
What `verify`, `prove`, `search`, `simulate` and `mutate` say of small specs, and in which formats.

As in `compared`, each function returns its disagreements with the oracle's truth, and here also
those between the formats of one run.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from properties.oracle.graph import Limits
from properties.oracle.source import read_text
from properties.oracle.truth import DEFINED, NEXT, judge
from properties.oracle.values import key
from properties.oracle_agrees.compared import (
    ALLOWED,
    DOUBLED,
    FAILS,
    HOLDS,
    MARKS,
    POSSIBLE,
    REFUSED,
    STANDINGS,
    UNKNOWN,
    Row,
    Spec,
    Truths,
    disputed,
    every_size,
    missing,
    name_of,
    options,
    ran,
    sorts_of,
    used,
)

# ── verify ──────────────────────────────────────────────────────────────────────────────────


def of_verification(
    truths: Truths, path: Path, specs: list[Spec], *more: str, only: Spec | None = None
) -> Iterator[str]:
    """What `verify` says of all specs of a file, or of one, in every format, that is not so."""
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f"said.{kind}" for kind in ("junit", "sarif", "html")}
        formats = [f"--{kind}={file}" for kind, file in files.items()]
        run = ran("verify", only.argument if only else path, "--no-cache", *formats, *more)
        written = {k: f.read_text(encoding="utf-8") for k, f in files.items() if f.exists()}
    begin = f"{path.stem} verify {' '.join(more)}:"
    if run.json is None:
        yield f"{begin} exit {run.exit}: {run.error.strip()[-300:]}"
        return
    for spec in specs:
        rows = [row for row in run.rows if row["subject"] == spec.name]
        for wrong in of_rows(truths, spec, rows):
            yield f"{begin} {spec.name}: {wrong}"
    standings = {STANDINGS[row["standing"]] for row in run.rows}
    worst = next((w for w in (FAILS, UNKNOWN, HOLDS) if w in standings), UNKNOWN)
    if run.exit != worst or run.json["exit"] != worst:
        yield f"{begin} exit {run.exit}, in the JSON {run.json['exit']}, in its rows {worst}"
    yield from (f"{begin} {w}" for w in formats_differ(run.rows, written))


def is_proof(row: Row) -> bool:
    """Whether a row is about any number of elements."""
    any_number = str(row["bounds"]).startswith(("any numbers", "one or more"))
    return any_number or row["mark"] == "proved"


def of_rows(truths: Truths, spec: Spec, rows: list[Row]) -> Iterator[str]:
    """What is wrong with the rows of one spec."""
    sizes = dict.fromkeys(spec.source.sorts, 2)
    judged = truths.of(spec, sizes, 2)
    # No row says whether it was cut: nothing is that exploration can raise its bound to.
    cut = judged.graph.largest > DOUBLED * 3 or judged.graph.longest > 1
    defined = judged.truths[DEFINED].verdict == "holds"
    explored = [row for row in rows if not is_proof(row) and row["property"] != "proof"]
    proved = {name_of(row) for row in rows if row["mark"] == "proved"}
    for row in explored:
        if name_of(row) in proved and row["note"].startswith("within "):
            continue  # what was cut is settled by the proof, which is judged below
        if wrong := disputed(row, judged, cut=cut, defined=defined):
            yield f"{name_of(row)} {wrong}"
    yield from missing(explored, judged)
    for row in rows:
        if is_proof(row) and (wrong := _of_proof(truths, spec, row)):
            yield f"{name_of(row)} {wrong}"
    possible = [row["standing"] for row in rows if name_of(row) == POSSIBLE]
    if possible and set(possible) == {"holds"} and truths.dead(spec):
        yield f"{POSSIBLE} is {possible}, but {', '.join(truths.dead(spec))} is not"
    if all(row["standing"] == "holds" for row in rows):
        yield from (f"holds, but {name} {t}" for name, t in judged.truths.items()
                    if t.verdict == "fails")  # fmt: skip
        yield from (f"holds, but {a} is never possible" for a in truths.dead(spec))
        if not judged.of.properties:
            yield "holds, but nothing is promised"


def _of_proof(truths: Truths, spec: Spec, row: Row) -> str:
    """What is wrong with a row of a proof: it speaks of all sizes and all budgets."""
    name = name_of(row)
    if name == ALLOWED:
        return ""  # some state that keeps all promises allows it, reachable or not
    counter = [
        (sizes, found)
        for sizes in every_size(tuple(sorted(sorts_of(spec.source, spec.name))))
        if (found := truths.of(spec, sizes, 3, constrained=False).truths[name]).verdict == "fails"
    ]
    if row["standing"] == "holds" and counter:
        return f"is {MARKS[row['mark']]} ({row['note']}); at {counter[0][0]} it {counter[0][1]}"
    if row["standing"] == "fails" and not counter:
        return f"is ✗ ({row['note']}); no counterexample is reachable up to size 3"
    return ""


def formats_differ(rows: list[Row], written: dict[str, str]) -> Iterator[str]:
    """Where JUnit, SARIF or HTML say something else than the JSON."""
    if written.keys() != {"junit", "sarif", "html"}:
        yield f"only {', '.join(written)} were written"
        return
    said = Counter((row["subject"], name_of(row), row["standing"]) for row in rows)
    junit = Counter(in_junit(written["junit"]))
    if said != junit:
        yield f"JUnit differs: {(said - junit) + (junit - said)}"
    open_or_failed = Counter(
        (row["property"], row["standing"]) for row in rows if row["standing"] != "holds"
    )
    sarif = Counter(in_sarif(written["sarif"]))
    if open_or_failed != sarif:
        yield f"SARIF differs: {(open_or_failed - sarif) + (sarif - open_or_failed)}"
    shown = Counter(re.findall(r'<span class="(fails|unknown)">[✗?]', written["html"]))
    failed, unsure = (
        {(row["subject"], row["property"]) for row in rows if row["standing"] == standing}
        for standing in ("fails", "unknown")
    )
    # A property has one cell: of what fails at one size, it does not say what is unknown of all.
    for standing, several in (("fails", failed), ("unknown", unsure - failed)):
        if bool(several) != bool(shown[standing]):
            yield f"HTML has {shown[standing]} that are {standing}, the JSON {len(several)}"


def in_junit(text: str) -> Iterator[tuple[str, str, str]]:
    """The subject, property and standing of each test case."""
    for case in ElementTree.fromstring(text).iter("testcase"):
        outcomes = {child.tag for child in case}
        standing = "fails" if "failure" in outcomes else "holds"
        if outcomes & {"error", "skipped"}:
            standing = "unknown"
        name = case.attrib["name"].rsplit(" (", 1)[0]
        name = DEFINED if name == "every_value_is_defined" else name
        yield case.attrib["classname"].rsplit(".", 1)[1], name, standing


def in_sarif(text: str) -> Iterator[tuple[str, str]]:
    """The property and standing of each result."""
    for result in json.loads(text)["runs"][0]["results"]:
        kinds = {"fail": "fails", "open": "unknown"}
        yield result["ruleId"].rsplit("/", 1)[1], kinds[result["kind"]]


# ── prove, search, simulate, mutate ─────────────────────────────────────────────────────────


def of_prove(truths: Truths, spec: Spec) -> Iterator[str]:
    """What `prove` says of a spec that is not so."""
    run = ran("prove", spec.argument)
    begin = f"{spec.path.stem}.{spec.name} prove:"
    for row in run.rows:
        if wrong := _of_proof(truths, spec, row):
            yield f"{begin} {name_of(row)} {wrong}"
    standings = {STANDINGS[row["standing"]] for row in run.rows}
    worst = next((w for w in (FAILS, UNKNOWN, HOLDS) if w in standings), UNKNOWN)
    if run.json is not None and not run.exit == run.json["exit"] == worst:
        yield f"{begin} exit {run.exit}, in the JSON {run.json['exit']}, in its rows {worst}"
    if run.json is None and run.exit != REFUSED:
        yield f"{begin} exit {run.exit} without a word"
    if run.exit == HOLDS and not any(row["mark"] == "proved" for row in run.rows):
        yield f"{begin} exit 0, but nothing is proved"


def of_search(truths: Truths, spec: Spec, depth: int = 4) -> Iterator[str]:
    """What `search` says of runs up to a depth that is not so."""
    sizes = dict.fromkeys(spec.source.sorts, 2)
    truth = truths.of(spec, sizes, 2).truths
    run = ran("search", spec.argument, f"--depth={depth}", *options(used(spec, sizes), 2))
    begin = f"{spec.path.stem}.{spec.name} search --depth {depth}:"
    for row in run.rows:
        name, steps = name_of(row), (row["found"] or {}).get("steps")
        true = truth[name]
        if row["standing"] == "fails" and (true.verdict, true.length) != ("fails", steps):
            yield f"{begin} {name} is said to fail after {steps}; in truth it {true}"
        near = true.length is not None and true.length <= depth
        if row["standing"] == "holds" and true.verdict == "fails" and near:
            yield f"{begin} {name} is said to hold ({row['note']}); in truth it {true}"
    judged = ("always", "lemma", "never", "step")
    kinds = truths.of(spec, sizes, 2).of.properties
    near_failures = [
        name for name, kind in kinds.items()
        if kind in judged and truth[name].verdict == "fails" and (truth[name].length or 0) <= depth
    ]  # fmt: skip
    if run.exit == HOLDS and near_failures:
        yield f"{begin} exit 0, but {near_failures[0]} {truth[near_failures[0]]}"


def of_simulation(truths: Truths, spec: Spec) -> Iterator[str]:
    """What `simulate` has found that is not there."""
    sizes = dict.fromkeys(spec.source.sorts, 2)
    truth = truths.of(spec, sizes, 2).truths
    run = ran("simulate", spec.argument, "--steps=2000", *options(used(spec, sizes), 2))
    begin = f"{spec.path.stem}.{spec.name} simulate:"
    if run.json is None:
        if run.exit != REFUSED or truths.of(spec, sizes, 2).graph.states:
            yield f"{begin} exit {run.exit}: {run.error.strip()[-200:]}"
        return
    for name, story in run.json["violations"].items():
        true = truth[DEFINED if name == "every_value_is_defined" else name]
        steps = sum(1 for line in story if re.match(r" +[0-9]+\. ", line))
        if true.verdict != "fails" or steps < (true.length or 0):
            yield f"{begin} {name} fails after {steps}; in truth it {true}"
    for name in run.json["seen"]:
        if truth[name].verdict == "fails":
            yield f"{begin} {name} was seen; in truth it {truth[name]}"
    if run.json["deadlock"] is not None and truth[NEXT].verdict != "fails":
        yield f"{begin} a deadlock; in truth there is none"
    wrong = bool(run.json["failures"])
    if (run.exit == FAILS) != wrong:
        yield f"{begin} exit {run.exit}, with {len(run.json['failures'])} failures"


def of_mutation(spec: Spec) -> Iterator[str]:
    """Mutants that are said to make no difference, and reach other states."""
    sizes = dict.fromkeys(spec.source.sorts, 2)
    arguments = [*options(used(spec, sizes), 1), "--processes=1"]
    run = ran("mutate", spec.argument, *arguments)
    begin = f"{spec.path.stem}.{spec.name} mutate:"
    if run.json is None:
        yield f"{begin} exit {run.exit}: {run.error.strip()[-200:]}"
        return
    text = spec.path.read_text(encoding="utf-8")
    for name in run.json["equivalent"]:
        match = re.fullmatch(r"(\w+): `(.+)` becomes `(.+)`", name)
        if match is None:
            continue
        start = text.index(f"def {match[1]}(", text.index(f"class {spec.name}("))
        mutant = text[:start] + text[start:].replace(match[2], match[3], 1)
        if states(text, spec.name, sizes) != states(mutant, spec.name, sizes):
            yield f"{begin} {name!r} is said to make no difference; it reaches other states"


def states(text: str, name: str, sizes: dict[str, int]) -> set[object]:
    """All states that a spec reaches, up to the horizon."""
    graph = judge(read_text(text), name, sizes, Limits(faults=1, horizon=500)).graph
    return {key(state) for state in graph.states}
