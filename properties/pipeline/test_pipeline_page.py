"""docs/pipeline.md and docs/tables.md say of sentences, tables and figures what the code says."""

from __future__ import annotations

from herdproof.pipeline.judging.figures import FIGURES
from herdproof.pipeline.spark.tables import TABLES
from herdproof.protocols.sentences import OLD_NAMES
from properties.pipeline.pipeline_page import PAGE, TABLES_PAGE, renewed, renewed_tables, sentences
from properties.pipeline.pipeline_traces import judged, trace


def test_the_generated_parts_of_the_pages_are_as_they_were_generated() -> None:
    """Else: `python -m properties.pipeline.pipeline_page`."""
    page = PAGE.read_text(encoding="utf-8")
    tables = TABLES_PAGE.read_text(encoding="utf-8")

    assert renewed(page) == page
    assert renewed_tables(tables) == tables
    assert all(f"\n## {name}\n" in tables for name in TABLES)
    assert all(f"| `{name}` |" in tables for name in FIGURES)
    assert all(f"| `{name}` |" in page for name in sentences())
    assert renewed(page.replace("| `complete` |", "| `compete` |")) == page
    assert renewed_tables(tables.replace("| `churn` |", "| `chum` |")) == tables


def test_every_old_name_says_what_it_is_now() -> None:
    """By properties that there are."""
    assert {name for names in OLD_NAMES.values() for name in names} <= sentences().keys()


def test_every_figure_is_measured() -> None:
    """Runs with faults have occurrences of all, and of no other."""
    seen: dict[str, set[bool]] = {}
    for seed in range(8):
        for row in judged(trace(seed))["figures"]:
            seen.setdefault(row["name"], set()).add(row["time_ns"] is not None)
            assert row["unit"] == FIGURES[row["name"]].unit

    assert seen == {name: {figure.each} for name, figure in FIGURES.items()}
