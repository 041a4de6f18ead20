"""
The generated parts of docs/pipeline.md and docs/tables.md: what sources can decide, the tables.

    python -m properties.pipeline.pipeline_page

writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from herdproof.pipeline.audit.protocols import auditors
from herdproof.pipeline.judging.figures import FIGURES
from herdproof.pipeline.judging.findings import SENTENCES
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets.judge import OBSERVABLE
from herdproof.pipeline.spark.tables import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
TABLES_PAGE = PAGE.parent / "tables.md"

SENTENCE_HEAD = "| sentence | what is promised |"


def sources() -> dict[str, Mapping[str, str]]:
    """Of each source, by sentence, why it cannot show that it holds; empty where it can."""
    return {**{name: a.observable for name, a in auditors().items()}, TOPIC: OBSERVABLE}


def sentences() -> Iterator[str]:
    """The table of the sentences, and whether each source can decide them."""
    told = sources()
    names = " | ".join(f"`{name}`" for name in told)
    yield f"{SENTENCE_HEAD} {names} |"
    yield "|---|---|" + "---|" * len(told)
    for sentence, promise in SENTENCES.items():
        cells = " | ".join("not observable" if o[sentence] else "judged" for o in told.values())
        yield f"| `{sentence}` | {promise} | {cells} |"


def tables() -> Iterator[str]:
    """Every table and its columns, and the figures."""
    for table in TABLES.values():
        yield f"## {table.name}\n\n{table.says}\n\n| column | kind | what it says |\n|---|---|---|"
        for column in table.columns[2:]:
            yield f"| `{column.name}` | {column.kind} | {column.says} |"
        yield ""
    yield "## The figures\n"
    yield "Those of each occurrence have its time; the others are of the whole group.\n"
    yield "| name | unit | of each | what it says |\n|---|---|---|---|"
    for name, figure in FIGURES.items():
        yield f"| `{name}` | {figure.unit} | {'yes' if figure.each else ''} | {figure.says} |"


def renewed(page: str) -> str:
    """The page of the pipeline with its table of sentences made anew."""
    found = re.compile(re.escape(SENTENCE_HEAD) + r".*\n(?:\|.*\n)*")
    return found.sub(lambda _: "\n".join(sentences()) + "\n", page, count=1)


def renewed_tables(page: str) -> str:
    """The page of the tables with all but its introduction made anew."""
    return page.partition("## ")[0] + "\n".join(tables()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    TABLES_PAGE.write_text(
        renewed_tables(TABLES_PAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )
