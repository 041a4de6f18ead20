"""
Assumptions are switches: a promise holds in the variant that has the assumption's guard, and
without it yields its known counterexample; the fenced form of the promise holds without any.

Reference: docs/language.md, "Assumptions are switches"
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdspec import Specification
from herdspec.check.exploration.explore import Exploration, explore
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.verdict import Failure, Mark, Standing, explored, standing_of
from properties import clocks
from properties.clocks import CLOCKS_AGREE, CLOCKS_ALONE, LEASE, LEMMAS, TWO_BELIEVE, UNFENCED

BELIEF, FENCE = "one_client_at_a_time", "writes_never_go_back"


@cache
def found(name: str, clients: int = 2) -> Exploration:
    """Every state of one of the four variants."""
    spec: Specification = getattr(clocks, name)
    return explore(spec, {"Client": clients}, faults=clients)


def standing(name: str, declared: dict[str, Failure]) -> Standing:
    """What comes of a variant if this is declared of it."""
    return standing_of(explored(name, found(name), declared, may_end=True))


# ── With the assumption ─────────────────────────────────────────────────────────────────────


def test_under_the_assumption_the_promise_holds_in_every_state() -> None:
    """With the guard nothing fails, the lease still expires and is still passed on."""
    result = found("CLOCKS_AGREE", 3)

    assert (result.complete, result.violations, result.missing) == (True, {}, [])
    assert result.taken["expire"] > 0
    assert standing("CLOCKS_AGREE", {}) is Standing.HOLDS


@pytest.mark.parametrize("spec", [CLOCKS_AGREE, CLOCKS_ALONE], ids=lambda spec: spec.name)
def test_under_the_assumption_the_promise_is_proved(spec: Specification) -> None:
    """With the guard the promise is proved for any number of clients, the fence there or not."""
    proof = prove(spec)

    assert proof.proved
    assert proof.warnings == ()


def test_the_assumption_is_needed_where_its_guard_is() -> None:
    """Without the guard the very same proof fails at the guarded action, and nowhere else."""
    without = LEASE.with_properties(*LEMMAS)

    failed = [o for o in prove(without).obligations if o.outcome is not SolverAnswer.PROVED]

    assert [(o.promise, o.action) for o in failed] == [("whoever_believes_is_the_holder", "expire")]


# ── Without ─────────────────────────────────────────────────────────────────────────────────


def test_without_the_assumption_the_same_promise_yields_its_known_counterexample() -> None:
    """The switch turned off, the promise fails in three steps, the last by `grant`."""
    story = found("LEASE").violations[BELIEF]

    assert [s.action.name for s in story.steps] == ["grant", "expire", "grant"]
    assert standing("LEASE", {BELIEF: TWO_BELIEVE}) is Standing.HOLDS


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        pytest.param("LEASE", {}, id="not declared"),
        pytest.param("LEASE", {BELIEF: Failure(4, "grant")}, id="of another length"),
        pytest.param("LEASE", {BELIEF: Failure(3, "expire")}, id="by another action"),
        pytest.param(
            "LEASE", {BELIEF: TWO_BELIEVE, FENCE: Failure(5, "write")}, id="a missing one"
        ),
        pytest.param("UNFENCED", {BELIEF: TWO_BELIEVE}, id="a further one"),
        pytest.param("CLOCKS_AGREE", {BELIEF: TWO_BELIEVE}, id="the switch turned on again"),
    ],
)
def test_any_other_counterexample_than_the_known_one_is_a_failure(
    name: str, declared: dict[str, Failure]
) -> None:
    """A missing, a different or a further failure is a failure of the check."""
    assert standing(name, declared) is Standing.FAILS


# ── The fenced form ─────────────────────────────────────────────────────────────────────────


def test_the_fenced_form_needs_no_assumption() -> None:
    """Clocks or the fence keep writes in order; only clocks keep belief to one client."""
    kept = {
        name: {p for p in (BELIEF, FENCE) if p not in found(name).violations}
        for name in ("LEASE", "UNFENCED", "CLOCKS_AGREE", "CLOCKS_ALONE")
    }

    assert kept == {
        "LEASE": {FENCE},
        "UNFENCED": set(),
        "CLOCKS_AGREE": {BELIEF, FENCE},
        "CLOCKS_ALONE": {BELIEF, FENCE},
    }


def test_the_fenced_form_is_proved_without_the_assumption() -> None:
    """Without any assumption the fenced promise is proved; without the fence it is not."""
    fenced = prove(LEASE, leave_out=frozenset({BELIEF}))
    unfenced = prove(UNFENCED, leave_out=frozenset({BELIEF}))

    assert fenced.proved
    assert not unfenced.proved


# ── What a user sees ────────────────────────────────────────────────────────────────────────


def test_all_is_said_side_by_side(tmp_path: Path) -> None:
    """`verify` of the file passes, marks each variant, and prints what is assumed below."""
    file = tmp_path / "o.json"

    done = CliRunner().invoke(app, ["verify", "--no-cache", clocks.__file__, "--json", str(file)])

    told = json.loads(file.read_text(encoding="utf-8"))["protocols"][0]["findings"]
    marks = {(f["subject"], f["mark"]) for f in told if f["property"] == BELIEF}
    assert done.exit_code == 0, done.output
    assert ("LEASE", Mark.FAILS.name.lower()) in marks
    assert ("CLOCKS_AGREE", Mark.PROVED.name.lower()) in marks
    assert "Assumed: nothing of clocks in LEASE" in done.output
