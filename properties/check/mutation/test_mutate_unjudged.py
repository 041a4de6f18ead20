"""Mutants of which none was judged: nothing is told as a verdict."""

from __future__ import annotations

from herdspec.check.mutation.mutate import Mutation
from herdspec.check.plans import noticed
from herdspec.check.verdict import Standing


def test_where_no_mutant_was_judged_there_is_no_score() -> None:
    """Nothing noticed of nothing is neither all nor none, and nothing is known."""
    none = Mutation("none", {}, 0, 1)

    assert (none.score, none.standing) == (None, Standing.UNKNOWN)
    assert "%" not in noticed("none", none).bounds
