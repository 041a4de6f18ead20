"""The campaign on Spark: the very rows of the plain loop, however the runs are shared out."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from herdproof.errors import NotOurs
from herdproof.pipeline.campaign import campaign
from herdproof.pipeline.campaign.campaign import (
    WRITTEN,
    rows_on_spark,
    run_here,
    run_on_spark,
)
from herdproof.pipeline.campaign.work import Plan
from herdproof.pipeline.report.facts import facts_of
from herdproof.pipeline.report.reading import Tables
from herdproof.pipeline.spark.store import OutputDirectory

PLAN = Plan("central_coordinator", 4, 0, ("alone/calm", "alone/mixed"), "no_barrier")


def rows_of(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, in an order of their own, without what it took to make them."""
    tables = Tables(directory)
    return {
        name: sorted(
            (tuple(str(v) for k, v in row.items() if k != "seconds") for row in tables.rows(name)),
        )
        for name in WRITTEN
    }


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The plain loop's tables, and what it says that it came to."""
    out = tmp_path_factory.mktemp("here") / "tables"
    return out, run_here(PLAN, out).as_json()


def test_spark_s_tables_are_those_of_the_plain_loop(
    spark: Any, here: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Row by row; the summary and the report say the same as well; former tables are replaced."""
    plain, said = here
    out = tmp_path / "tables"
    run_here(Plan("election", 1, 0, ("2 brokers/calm",)), out)

    summary = run_on_spark(spark, PLAN, OutputDirectory(spark, str(out))).as_json()

    assert rows_of(out) == rows_of(plain)
    assert sum(map(len, rows_of(out).values())) > 500
    times = {"seconds", "cpu_s"}
    assert {k: v for k, v in summary.items() if k not in times} == {
        k: v for k, v in said.items() if k not in times
    }
    found, wanted = facts_of(out).campaign, facts_of(plain).campaign
    assert found is not None
    assert wanted is not None
    assert (found.failed, found.edges, found.curve) == (wanted.failed, wanted.edges, wanted.curve)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tables"]
    run_here(Plan("election", 1, 0, ("2 brokers/calm",)), out)
    assert Tables(out).counts("runs", "protocol") == {("election",): 1}


def test_how_runs_are_shared_out_does_not_matter(
    spark: Any, here: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task for all of them has the rows that the plain loop has."""
    monkeypatch.setattr(campaign, "task_count", Mock(return_value=1))

    frame = rows_on_spark(spark, PLAN)
    assert frame.rdd.getNumPartitions() == 1
    found = frame.select("table", "runs", "ownership", "violations").collect()

    wanted = rows_of(here[0])
    for name in ("runs", "ownership", "violations"):
        rows = [row[name].asDict() for row in found if row["table"] == name]
        assert (
            sorted(tuple(str(v) for k, v in row.items() if k != "seconds") for row in rows)
            == wanted[name]
        ), name


def test_spark_writes_over_nothing_but_a_campaign(spark: Any, tmp_path: Path) -> None:
    """A directory that holds something else is refused before anything runs."""
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(NotOurs):
        run_on_spark(spark, PLAN, OutputDirectory(spark, str(tmp_path)))
    with pytest.raises(NotOurs):
        run_here(PLAN, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
