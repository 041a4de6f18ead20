"""The table at the end of `verify`: every cell is computed from findings, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from herdproof.report.kept import (
    assumptions_json,
    discharged,
    print_sentences,
    sentences_json,
)
from herdproof.report.render import Output
from herdspec.check.cache import Result
from herdspec.check.plans import QUICK, plan_of
from herdspec.check.protocol import names, protocol
from herdspec.check.sentences import (
    NO_MEANING,
    Cell,
    Column,
    Discharge,
    Kept,
    Sentence,
    ShownBy,
    judged,
    shown,
)
from herdspec.check.verdict import Finding, Mark
from herdspec.check.verdict import Shown as Story
from herdspec.check.verify import Done, Plan, PlanReport

SAFE = Sentence("1", "safe", ("safe", "sound"))
ASSUMED = shown("verified", "safe", assuming="clocks", without=[("careless", "safe")])
CLOCKS = Discharge("clocks", ("timed", "refines Safe"), "clocks drift little")


def finding(subject: str, row: str, mark: Mark, bounds: str = "", steps: int = 0) -> Finding:
    """What was found of a row; a story of so many steps was declared, if there is one."""
    story = Story(steps, "act") if steps else None
    return Finding(
        subject=subject, row=row, kind="always", mark=mark, bounds=bounds, found=story,
        expected=story,
    )  # fmt: skip


PROVED = finding("verified", "safe", Mark.PROVED, "any number")
SMALL = finding("verified", "safe", Mark.EXHAUSTED, "2 clients")
LARGE = finding("verified", "safe", Mark.EXHAUSTED, "3 clients")
CUT = finding("verified", "safe", Mark.UNKNOWN)
STORY = finding("verified", "safe", Mark.FAILS, "2 clients", 9)
SOUND = finding("verified", "sound", Mark.EXHAUSTED, "2 clients")
BROKEN = finding("verified", "sound", Mark.FAILS, "2 clients", 7)
CARELESS = finding("careless", "safe", Mark.FAILS, "2 clients", 5)
TIMED = finding("timed", "refines Safe", Mark.PROVED)
BOTH = shown("verified", "safe", "sound")
ALONE = shown("verified", "safe")

CELLS = {
    "proved": (ALONE, [PROVED, SMALL], "● proved"),
    "a proof needs no size": (ALONE, [PROVED, CUT], "● proved"),
    "exhausted": (ALONE, [SMALL, LARGE], "○ 2 clients; 3 clients"),
    "cut": (ALONE, [SMALL, CUT], "? unknown"),
    "not run": (ALONE, [SOUND], "? unknown"),
    "nothing shows it": (ShownBy(()), [PROVED], "? unknown"),
    "a story": (ALONE, [STORY, SMALL], "✗ 9 steps"),
    "the shortest story": (BOTH, [STORY, BROKEN], "✗ 7 steps"),
    "the weakest": (BOTH, [PROVED, SOUND], "○ 2 clients"),
    "one is not run": (BOTH, [PROVED], "? unknown"),
    "a story beside what is not run": (BOTH, [BROKEN], "✗ 7 steps"),
    "no meaning": (NO_MEANING, [PROVED], "no meaning"),
    "assumed": (ASSUMED, [PROVED, CARELESS], "● proved under clocks; without ✗ 5 steps"),
    "assumed, not shown to be needed": (ASSUMED, [PROVED], "● proved under clocks"),
    "discharged": (
        ASSUMED, [PROVED, CARELESS, TIMED], "● proved under clocks, discharged; without ✗ 5 steps"
    ),
    "assumed, and it fails": (ASSUMED, [STORY, CARELESS, TIMED], "✗ 9 steps"),
    "discharged by what was not proved": (
        ASSUMED, [SMALL, replace(TIMED, mark=Mark.UNKNOWN)], "○ 2 clients under clocks"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
def test_a_cell_says_what_was_found(case: str) -> None:
    """The weakest of the rows, the shortest of the stories; what was not run is unknown."""
    of, findings, text = CELLS[case]
    cells = judged(Column("verified", {SAFE: of}), findings, [CLOCKS])

    assert cells[SAFE].text == text


def test_what_was_declared_to_fail_and_was_not_found_to_is_not_proved() -> None:
    """A proof that was declared a failure is no pass, and no cell makes one of it."""
    odd = replace(PROVED, expected=Story(3, "act"))

    assert judged(Column("verified", {SAFE: ALONE}), [odd])[SAFE].verdict is not Kept.PROVED


def reported(*findings: Finding, title: str = "verified") -> PlanReport:
    """A report with one column."""
    column = Column(title, {SAFE: ASSUMED})
    plan = Plan("locks", (), sentences=(column,), discharges=(CLOCKS,))
    return PlanReport(plan, (Done("all", Result(findings, ""), 0.0),))


def test_other_programs_read_the_same() -> None:
    """A cell as JSON: its verdict, and all that the text is made of."""
    (cell,) = sentences_json([reported(PROVED, CARELESS, TIMED)])

    assert cell == {
        "protocol": "locks", "column": "verified", "sentence": "1 safe",
        "properties": ["safe", "sound"], "verdict": "proved", "bounds": "", "steps": None,
        "assuming": "clocks", "steps_without": 5, "discharged": True,
        "text": "● proved under clocks, discharged; without ✗ 5 steps",
    }  # fmt: skip


def test_a_report_says_what_became_of_an_assumption() -> None:
    """It follows where this run has proved that; else that is said."""
    with_it, without = reported(TIMED), reported(PROVED)

    assert discharged(with_it, CLOCKS) == "follows, as `timed` refines Safe, if clocks drift little"
    assert "is not shown to follow" in discharged(without, CLOCKS)
    assert [a["discharged"] for of in (with_it, without) for a in assumptions_json(of)] == [
        True, False,
    ]  # fmt: skip


def test_columns_stand_system_by_system(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was verified first, A stands before B, each as its protocol orders its columns."""
    two = [reported(PROVED, CARELESS, title=title) for title in ("B drafted", "A drafted")]
    print_sentences(Output(), two)
    heading, _, row = capsys.readouterr().out.split("\n")[1:4]

    assert heading.split() == ["contract", "A", "drafted", "B", "drafted"]
    assert row.count("● proved under clocks; without ✗ 5 steps") == 2
    assert [cell["column"] for cell in sentences_json(two)] == ["A drafted", "B drafted"]


def test_nothing_is_printed_where_nobody_has_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Specs of one's own have no such table."""
    print_sentences(Output(), [PlanReport(Plan("own", ()), ())])

    assert capsys.readouterr().out == ""


def test_no_number_is_no_story() -> None:
    """What fails without a story says so."""
    assert Cell(Kept.FAILS).text == "✗ fails"


# ── Ours ────────────────────────────────────────────────────────────────────────────────────

WITH_COLUMNS = [name for name in names() if protocol(name).columns()]


@pytest.mark.parametrize("name", WITH_COLUMNS)
def test_every_row_that_a_column_speaks_of_is_in_the_plan(name: str) -> None:
    """No cell waits for a subject that nobody looks at, or a property that it has not."""
    plan = plan_of(name, QUICK)
    rows = {
        row for c in plan.sentences for of in c.cells.values() for row in (*of.rows, *of.without)
    }
    rows |= {d.by for d in plan.discharges}

    promised = {p.name for spec in plan.specs.values() for p in spec.properties}

    for subject, row in sorted(rows):
        assert [check for check in plan.checks if f" {subject}" in check.name], subject
        assert row in promised or row.startswith("refines "), row
