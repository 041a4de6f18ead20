"""
A campaign's work on one run, and what is put together of many: pure functions, no Spark.

A run is simulated, its trace judged group by group, its edges taken down; what comes of it are rows
of tables, which depend on nothing but what was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from time import process_time
from typing import Any

from herdproof.pipeline.audit.judge import CONFORMS, add_replay, judge
from herdproof.pipeline.campaign.runs import (
    Asked,
    Ran,
    Simulated,
    UnknownName,
    check_flaw,
    chosen_mix,
)
from herdproof.pipeline.spark.tables import Row, Rows
from herdproof.protocols.implementation import auditors, simulators

KEPT, BROKEN, UNKNOWN = "kept", "broken", "unknown"

STRETCHES = 20
"""Points of the curve of a small campaign; a large one has a point for every thousand runs."""
THOUSAND = 1_000


@dataclass(frozen=True)
class Plan:
    """A campaign: so many seeds, each with the mix that is its turn."""

    protocol: str
    runs: int
    first_seed: int = 0
    mixes: tuple[str, ...] = ()
    flaw: str = ""

    def check(self) -> None:
        """Raises `UnknownName` where a name of it is none."""
        if self.protocol not in simulators():
            known = ", ".join(simulators())
            raise UnknownName(f"there is no simulator of {self.protocol!r}; there are {known}")
        simulated = simulators()[self.protocol]
        chosen_mix(simulated, 0, self.mixes)
        check_flaw(simulated, self.flaw)

    def asked(self, number: int) -> Asked:
        """The run of this number."""
        seed = self.first_seed + number
        mix = chosen_mix(simulators()[self.protocol], seed, self.mixes)
        return Asked(self.protocol, number, seed, mix, self.flaw)

    @property
    def stretch(self) -> int:
        """The number of runs between two points of the curve."""
        return max(1, min(THOUSAND, ceil(self.runs / STRETCHES)))


# ── One run ─────────────────────────────────────────────────────────────────────────────────


class _Watched:
    """A protocol's auditor, whose replay takes down the edges, and counts all steps."""

    def __init__(self, simulated: Simulated, ran: Ran) -> None:
        self.name = simulated.name
        self._simulated = simulated
        self._ran = ran
        self.edges: dict[str, str] = {}
        self.steps = 0

    def replay(self, lines: Sequence[Any]) -> Any:
        """A group's lines in the spec."""
        found, edges, steps = self._simulated.replay(lines, self._ran)
        for edge, action in edges.items():
            self.edges.setdefault(edge, action)
        self.steps += steps
        return found


def audited(asked: Asked) -> Rows:
    """A run, and its audit where it was made: rows of all tables, `runs` and `edges` included."""
    began = process_time()
    simulated = simulators()[asked.protocol]
    auditor = auditors()[asked.protocol]
    ran = simulated.run(asked)
    lines = [
        auditor.read(text, f"{ran.place}, line {number}")
        for number, text in enumerate(ran.texts, start=1)
    ]
    run = str(asked.seed)
    watched: Any = _Watched(simulated, ran)
    rows: Rows = {}
    groups = sorted({line.group for line in lines} - {""}) or [""]
    for group in groups:
        own = [line for line in lines if line.group in ("", group)]
        found = judge(asked.protocol, run, group, own, replay=False, alone=len(groups) == 1)
        add_replay(found, watched, run, group, auditor.order(own), complete=True)
        _add(rows, found)
    judged = [*rows["violations"]]
    _add(rows, _monitored(asked, ran))
    edges: list[Row] = [
        {"run": run, "group": "", "protocol": asked.protocol, "edge": e, "action": a,
         "first": asked.number, "runs": 1}
        for e, a in sorted(watched.edges.items())
    ]  # fmt: skip
    spent = process_time() - began
    unjudged = (
        v["why"] for v in rows["verdicts"]
        if v["property"] == CONFORMS and v["verdict"] == "unknown"
    )  # fmt: skip
    unsure = ran.unsure or next(unjudged, "")
    row = {
        **_run(asked, ran), **_outcome(ran, judged, unsure), "replayed": watched.steps,
        "edges": len(edges), "seconds": spent,
    }  # fmt: skip
    return {**rows, "edges": edges, "runs": [row]}


def _add(rows: Rows, found: Rows) -> None:
    for table, of in found.items():
        rows.setdefault(table, []).extend(of)


def _monitored(asked: Asked, ran: Ran) -> Rows:
    """The rows of what the simulator's own monitors saw of all groups together."""
    who = {"run": str(asked.seed), "group": ""}
    broken = ran.broken
    rows: Rows = {"verdicts": [], "violations": []}
    for name in ran.watched:
        verdict, why = ("unknown", ran.unsure) if ran.unsure else ("holds", None)
        if broken is not None:
            verdict = "violated" if name == broken.property else "unknown"
            why = (
                None if name == broken.property else f"the run ended where {broken.property} broke"
            )
        rows["verdicts"].append(
            {**who, "protocol": asked.protocol, "property": name, "verdict": verdict, "why": why,
             "checked": ran.steps}
        )  # fmt: skip
    if broken is not None:
        rows["violations"].append(
            {**who, "property": broken.property, "sentence": broken.sentence,
             "time_ns": broken.time_ns, "place": ran.place, "told": broken.told,
             "story": list(broken.story)}
        )  # fmt: skip
    return rows


def _run(asked: Asked, ran: Ran) -> Row:
    """The run's own row: what it was."""
    return {
        "run": str(asked.seed), "group": "", "protocol": asked.protocol, "number": asked.number,
        "seed": asked.seed, "mix": asked.mix, "flaw": asked.flaw or None,
        "configuration": simulators()[asked.protocol].mixes[asked.mix], "steps": ran.steps,
        "lines": len(ran.texts), "digest": ran.digest,
    }  # fmt: skip


def _outcome(ran: Ran, judged: Sequence[Row], unsure: str) -> Row:
    """The outcome of a run: what a monitor saw first, then what the audit found, or could not."""
    monitored = [ran.broken.property] if ran.broken else []
    names = list(dict.fromkeys([*monitored, *sorted({v["property"] for v in judged})]))
    told = ran.broken.told if ran.broken else next((v["told"] for v in judged), unsure or None)
    outcome = BROKEN if names else UNKNOWN if unsure else KEPT
    return {"outcome": outcome, "broken": names, "told": told}


# ── Many runs ───────────────────────────────────────────────────────────────────────────────


class Merged:
    """The edges of many runs, each once; the runs may come in any order."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._found: dict[str, tuple[str, int, int]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """The edges of a run."""
        for row in rows:
            edge, first = row["edge"], row["first"]
            _, known, runs = self._found.get(edge, (row["action"], first, 0))
            self._found[edge] = (row["action"], min(first, known), runs + 1)

    def edges(self) -> list[Row]:
        """The table of edges."""
        return [
            {"run": str(self.plan.first_seed + first), "group": "", "edge": edge,
             "protocol": self.plan.protocol, "action": action, "first": first, "runs": runs}
            for edge, (action, first, runs) in sorted(self._found.items())
        ]  # fmt: skip

    def curve(self) -> list[Row]:
        """The table of the curve."""
        return curve(self.plan, (first for _, first, _ in self._found.values()))


def curve(plan: Plan, firsts: Iterable[int]) -> list[Row]:
    """The number of edges that each stretch of runs was the first to take."""
    stretch = plan.stretch
    new = [0] * ceil(plan.runs / stretch)
    for first in firsts:
        new[first // stretch] += 1
    total = 0
    rows: list[Row] = []
    for k, count in enumerate(new):
        total += count
        rows.append(
            {"run": "", "group": "", "protocol": plan.protocol, "new": count, "edges": total,
             "runs": min((k + 1) * stretch, plan.runs)}
        )  # fmt: skip
    return rows


def campaign_rows(plan: Plan) -> Iterator[Rows]:
    """The runs of a plan, one after the other."""
    for number in range(plan.runs):
        yield audited(plan.asked(number))
