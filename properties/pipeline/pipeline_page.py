"""
The generated parts of docs/pipeline.md and docs/tables.md: what sources can decide, the tables.

    python -m properties.pipeline.pipeline_page

writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from herdproof.pipeline.audit.protocols import auditors
from herdproof.pipeline.judging.figures import FIGURES
from herdproof.pipeline.judging.unread import CAUSES
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets.fields import PROMISED
from herdproof.pipeline.offsets.judge import REFUTABLE
from herdproof.pipeline.spark.tables import TABLES
from herdproof.protocols.sentences import OLD_NAMES

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
TABLES_PAGE = PAGE.parent / "tables.md"

SENTENCE_HEAD = "| property | what is promised |"


def sentences() -> dict[str, str]:
    """All that is promised of groups, or of elections."""
    made = [a.sentences for a in auditors().values()]
    return {
        name: next(some[name] for some in made if name in some)
        for name in dict.fromkeys(chain.from_iterable(made))
    }


def sources() -> dict[str, Mapping[str, str]]:
    """Of each source, by property, what it can decide."""
    made = {
        name: {p: "not observable" if p in a.undecided else "judged" for p in a.sentences}
        for name, a in auditors().items()
    }
    can = {p.name: "can be violated" for p in PROMISED if p.name in REFUTABLE}
    return {**made, TOPIC: {name: can.get(name, "not observable") for name in sentences()}}


def rows() -> Iterator[str]:
    """The table of the properties, what each was called before, and what sources can decide."""
    told = sources()
    names = " | ".join(f"`{name}`" for name in told)
    yield f"{SENTENCE_HEAD} was | {names} |"
    yield "|---|---|---|" + "---|" * len(told)
    for name, promise in sentences().items():
        cells = " | ".join(of.get(name, "") for of in told.values())
        former = ", ".join(f"`{old}`" for old, new in OLD_NAMES.items() if name in new)
        yield f"| `{name}` | {promise} | {former} | {cells} |"


def tables() -> Iterator[str]:
    """Every table and its columns, and the figures."""
    for table in TABLES.values():
        yield f"## {table.name}\n\n{table.says}\n\n| column | kind | what it says |\n|---|---|---|"
        for column in table.columns[2:]:
            yield f"| `{column.name}` | {column.kind} | {column.says} |"
        yield ""
    yield "## Why nobody reads a partition\n"
    yield "The values of `unread.why`.\n"
    yield "| why | what stood in the way |\n|---|---|"
    for why, says in CAUSES.items():
        yield f"| `{why}` | {says} |"
    yield ""
    yield "## The figures\n"
    yield "Those of each occurrence have its time; the others are of the whole group.\n"
    yield "| name | unit | of each | what it says |\n|---|---|---|---|"
    for name, figure in FIGURES.items():
        yield f"| `{name}` | {figure.unit} | {'yes' if figure.each else ''} | {figure.says} |"


def renewed(page: str) -> str:
    """The page of the pipeline with its table of properties made anew."""
    found = re.compile(re.escape(SENTENCE_HEAD) + r".*\n(?:\|.*\n)*")
    return found.sub(lambda _: "\n".join(rows()) + "\n", page, count=1)


def renewed_tables(page: str) -> str:
    """The page of the tables with all but its introduction made anew."""
    return page.partition("## ")[0] + "\n".join(tables()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    TABLES_PAGE.write_text(
        renewed_tables(TABLES_PAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )
