"""Bars of the benchmarks: what is missed is said, and ends the program with 1."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bars import Bar, are_kept

ROOT = Path(__file__).parents[3]
PROGRAMS = ("audit", "broker", "failover", "herd", "hostile", "rebalance")


def bars_of(program: str) -> list[Bar]:
    """The table of a program, as a process of its own has it."""
    script = (
        "import dataclasses, json, runpy\n"
        f"bars = runpy.run_path({str(ROOT / 'benchmarks' / program)!r})['BARS']\n"
        "print(json.dumps([dataclasses.asdict(bar) for bar in bars]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "benchmarks", capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    return [Bar(**fields) for fields in json.loads(told)]


@pytest.mark.parametrize(
    ("bar", "said"),
    [
        (Bar(figure="join.seconds", at_most=2.0), ""),
        (Bar(figure="join.seconds", at_most=1.0), "join.seconds is 1.5, at most 1"),
        (Bar(figure="join.seconds", at_least=2.0), "join.seconds is 1.5, at least 2"),
        (Bar(figure="join.seconds", at_most=1.5, times="kafka"), ""),
        (
            Bar(figure="join.seconds", at_most=0.5, times="kafka"),
            "join.seconds is 1.5, at most 0.5 times kafka, which is 2",
        ),
        (Bar(figure="join.seconds", at_most=1.0, times="kafka08"), None),
        (Bar(figure="leave.seconds", at_most=1.0), None),
        (Bar(figure="broken.seconds", at_most=1.0), None),
    ],
)
def test_a_bar_is_kept_missed_or_not_known(bar: Bar, said: str | None) -> None:
    """By itself or by another figure; one that failed is not known, and so is what has no unit."""
    figures = {"join": {"seconds": 1.5}, "kafka": 2, "broken": {"failed": "it hangs"}}

    assert bar.judged(figures) == said


def test_what_is_missed_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, so that JSON stays JSON; what was not measured misses nothing."""
    bars = (
        Bar(figure="a", at_most=1),
        Bar(figure="b", at_most=1),
        Bar(figure="c", at_most=1),
    )

    assert not are_kept({"a": 2, "b": 0.5}, bars)
    out, said = capsys.readouterr()
    assert out == ""
    assert said.splitlines() == [
        "bar missed: a is 2, at most 1",
        "not measured in this run: c",
        "1 of 3 bars are kept",
    ]
    assert are_kept({"b": 0.5}, bars)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_has_bars_of_figures_that_it_measures(
    program: str,
) -> None:
    """Their keys stand in the program, or in what it starts; `--bars` can be asked for."""
    sources = [ROOT / "benchmarks" / program, *(ROOT / "benchmarks").glob("*.py")]
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    told = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / program), "--help"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    bars = bars_of(program)
    assert bars
    for bar in bars:
        assert (bar.at_most is None) != (bar.at_least is None)
        for key in filter(None, (bar.figure, bar.times)):
            assert re.search(rf'["{{]{key.rpartition(".")[2]}["}}]', text), key
    assert "--bars" in told
