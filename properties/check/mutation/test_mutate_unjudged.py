"""Mutants that were not judged, or are those of another text: neither is told as a verdict."""

from __future__ import annotations

import pytest

from herdspec import Specification
from herdspec.check.mutation.mutate import Mutation, mutate
from herdspec.check.plans import noticed
from herdspec.check.verdict import Standing
from herdspec.language.errors import UsageError
from properties.specs import LOCK_SERVER, TWO_PHASE_COMMIT


def another_text() -> Specification:
    """A spec that is read from its file when somebody has edited that meanwhile."""
    return TWO_PHASE_COMMIT


def test_a_file_that_was_changed_meanwhile_is_not_judged_as_what_it_was() -> None:
    """Processes that read another spec than was asked about say so: its mutants are others."""
    with pytest.raises(UsageError, match="was changed meanwhile"):
        mutate(LOCK_SERVER, {"Client": 2}, faults=0, source=another_text, processes=2)


def test_where_no_mutant_was_judged_there_is_no_score() -> None:
    """Nothing noticed of nothing is neither all nor none, and nothing is known."""
    none = Mutation("none", {}, 0, 1)

    assert (none.score, none.standing) == (None, Standing.UNKNOWN)
    assert "%" not in noticed("none", none).bounds
