"""
The verdicts of tables as JUnit XML: a suite for each run and group, a case for each property.

What is violated is a failure with its story; what is unknown or not observable is skipped, with the
reason: neither has been found to hold. The document is written case by case, never held as a tree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import XMLGenerator

from herdproof.pipeline.report.facts import HOLDS, UNKNOWN, VIOLATED, unjudged
from herdproof.pipeline.report.reading import Tables
from herdproof.report.junit import plain
from herdspec.check.verdict import counted

TOLD = 3
"""Violations of one case whose stories are told."""
CASES = 500_000
"""Violations that are kept in memory, to be told with their cases."""


def write_junit(directory: Path, to: Path) -> None:
    """Write the verdicts of these tables; raises `NoTables`."""
    tables = Tables(directory)
    counts = tables.counts("verdicts", "run", "group", "verdict")
    suites: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (run, group, verdict), count in counts.items():
        suites[str(run or ""), str(group or "")][str(verdict or "")] += count
    stories, aside = _stories(tables), unjudged(tables)
    rows = sorted(
        tuple(str(row[name] or "") for name in _COLUMNS)
        for batch in tables.batches("verdicts", _COLUMNS)
        for row in batch.to_pylist()
    )
    with to.open("w", encoding="utf-8") as stream:
        xml = XMLGenerator(stream, "utf-8", short_empty_elements=True)
        xml.startDocument()
        every = sum(suites.values(), Counter({UNKNOWN: len(aside)}))
        _begin(xml, "testsuites", {"name": "herdproof report", **_numbers(every)})
        present: tuple[str, str] | None = None
        for row in rows:
            if row[:2] != present:
                if present is not None:
                    _end(xml, "testsuite")
                present = (row[0], row[1])
                named = {"name": plain(_name(*present)), **_numbers(suites[present])}
                _begin(xml, "testsuite", named)
            _case(xml, row, stories)
        if present is not None:
            _end(xml, "testsuite")
        if aside:
            _unjudged(xml, aside)
        xml.endElement("testsuites")
        xml.endDocument()


_COLUMNS = ("run", "group", "protocol", "property", "verdict", "why")


def _name(run: str, group: str) -> str:
    return f"run {run}, group {group}" if group else f"run {run}"


def _numbers(verdicts: Counter[str]) -> dict[str, str]:
    """The numbers that a suite gives of its cases."""
    skipped = verdicts.total() - verdicts[VIOLATED] - verdicts[HOLDS]
    return {
        "tests": str(verdicts.total()), "failures": str(verdicts[VIOLATED]), "errors": "0",
        "skipped": str(skipped),
    }  # fmt: skip


def _case(xml: Any, row: tuple[str, ...], stories: dict[tuple[str, ...], list[str]]) -> None:
    """One property of one group."""
    run, group, protocol, name, verdict, why = row
    named = {"name": plain(name), "classname": plain(f"{protocol}.{group}" if group else protocol)}
    _begin(xml, "testcase", named)
    if verdict == VIOLATED:
        told = stories.get((run, group, name), [])
        message = plain(told[0].partition("\n")[0] if told else why or VIOLATED)
        xml.startElement("failure", {"message": message, "type": plain(name)})
        xml.characters(plain("\n\n".join(told)))
        xml.endElement("failure")
    elif verdict != HOLDS:
        xml.startElement("skipped", {"message": plain(f"{verdict}: {why}" if why else verdict)})
        xml.endElement("skipped")
    _end(xml, "testcase")


def _unjudged(xml: Any, aside: Mapping[str, int]) -> None:
    """Records that nobody could judge: a case of each reason, which is skipped."""
    numbers = _numbers(Counter({UNKNOWN: len(aside)}))
    _begin(xml, "testsuite", {"name": "records in quarantine", **numbers})
    for reason, count in sorted(aside.items()):
        _begin(xml, "testcase", {"name": plain(reason), "classname": "quarantine"})
        message = f"{UNKNOWN}: {counted(count, 'record')} could not be judged"
        xml.startElement("skipped", {"message": message})
        xml.endElement("skipped")
        _end(xml, "testcase")
    _end(xml, "testsuite")


def _begin(xml: Any, name: str, attributes: dict[str, str]) -> None:
    xml.ignorableWhitespace("\n")
    xml.startElement(name, attributes)


def _end(xml: Any, name: str) -> None:
    xml.endElement(name)


def _stories(tables: Tables) -> dict[tuple[str, ...], list[str]]:
    """By run, group and property, the first violations as text."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    columns = ("run", "group", "property", "told", "place", "story")
    kept = 0
    for batch in tables.batches("violations", columns, largest=4_096):
        for row in batch.to_pylist():
            at = tuple(str(row[name] or "") for name in columns[:3])
            if len(found[at]) < TOLD and kept < CASES:
                place = f" ({row['place']})" if row["place"] else ""
                found[at].append("\n".join([f"{row['told'] or ''}{place}", *(row["story"] or [])]))
                kept += 1
    return found
