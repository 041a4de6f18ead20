"""
Traces of system B in version 1: what is kept of them is read as ever, and judged as ever.

`version1.ndjson` is the beginning of a simulated run, written when that was the version.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.traces.line import TraceError, read_file
from herdproof.pipeline.audit.judge import CONFORMS, judge
from herdproof.pipeline.audit.protocols import read_line
from herdproof.protocols.central_coordinator.traces.lines import FORMATS, read_central_line
from herdproof.protocols.central_coordinator.tracing import CENTRAL
from herdproof.protocols.implementation import implementation
from herdspec.check.conformance.conform import Outcome, Verdict

FORMER = Path(__file__).parent / "version1.ndjson"
TEXTS = FORMER.read_text(encoding="utf-8").splitlines()


def at(action: str) -> int:
    """The first line of an action."""
    return next(k for k, text in enumerate(TEXTS) if json.loads(text)["action"] == action)


def present(text: str) -> str:
    """A line of version 1, as one of version 2 is written."""
    return read_central_line(text).written()


def put(path: Path, texts: list[str]) -> Path:
    """A file of these lines."""
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def conform(path: Path) -> Outcome:
    """The replay of a trace."""
    return implementation(CENTRAL).conform([path], 0, lambda *_: None, invariants=False)


def test_a_line_of_version_1_is_one_of_version_2_and_tells_the_same() -> None:
    """Nothing that it says is lost, and nothing is added."""
    for text in TEXTS:
        was, line = json.loads(text), json.loads(present(text))
        told = line.pop("arguments", {})
        if was["action"] == "start":
            was["action"] = "(start)"
            assert told == {}
            told = {name: was[name] for name in was.keys() - line.keys() - {"group"}}
            assert not any(told.values())

        assert {"group": "", **line, **told} == {**was, "schema": 2}


def test_a_trace_of_version_1_conforms_and_is_audited() -> None:
    """As it did and was when it was written; and as one of version 2 that says the same."""
    outcome = conform(FORMER)
    tables = []
    for texts in (TEXTS, [present(text) for text in TEXTS]):
        lines = [read_line(text, f"f, line {n}") for n, text in enumerate(texts, start=1)]
        tables.append(judge(CENTRAL, lines[0].run, "g1", lines, replay=True))

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.matched == outcome.lines == len(TEXTS)
    assert tables[0] == tables[1]
    found = {row["property"]: row["verdict"] for row in tables[0]["verdicts"]}
    assert {found[name] for name in ("exclusive", "epochs_never_go_back", CONFORMS)} == {"holds"}


def test_both_versions_may_be_mixed(tmp_path: Path) -> None:
    """In one file, too: each line is what it says that it is."""
    mixed = [present(text) if k % 3 else text for k, text in enumerate(TEXTS)]

    outcome = conform(put(tmp_path / "mixed", mixed))

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.matched == len(TEXTS)


def test_columns_of_parquet_may_hold_both_versions() -> None:
    """Offsets are texts there, and what only the other version has is null."""
    line = next(x for x in map(json.loads, TEXTS) if x["partitions"])
    places = [[topic, n, str(offset)] for topic, n, offset in line["partitions"]]

    read = read_line(json.dumps({**line, "partitions": places, "arguments": None}), "")

    assert read == read_central_line(json.dumps(line))


def test_a_changed_line_of_version_1_differs(tmp_path: Path) -> None:
    """At that line, and for the reason for which one of version 2 does."""
    lines = [json.loads(text) for text in TEXTS]
    where = next(
        k for k, x in enumerate(lines) if x["action"] == "handle_start" and x["partitions"]
    )
    line = lines[where]
    line["partitions"] = [[topic, n, offset + 1000] for topic, n, offset in line["partitions"]]
    texts = [*TEXTS[:where], json.dumps(line), *TEXTS[where + 1 :]]

    told = set()
    for path in (put(tmp_path / "former", texts), put(tmp_path / "now", [*map(present, texts)])):
        outcome = conform(path)

        assert outcome.verdict is Verdict.DIFFERS
        assert outcome.mismatch is not None
        told.add((outcome.matched, outcome.mismatch.differences))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"partitions": None}, "the field `partitions` is missing"),
        ({"group": None}, "the field `group` is missing"),
        ({"epoch": "7"}, "the field `epoch` is text; it must be an integer"),
        ({"schema": 2}, "the field `arguments` is missing"),
        ({"schema": 2, "group": ""}, "the field `group` is missing"),
        ({"schema": 3}, "the schema's version is 3; this reader knows versions 1 and 2"),
        ({"schema": 2, "protocol": "election"}, "the protocol is 'election'; known is 'central_"),
    ],
)
def test_a_line_that_is_of_neither_version_is_refused(
    change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """With its place, in a sentence."""
    line = json.loads(TEXTS[at("handle_stop")]) | change
    odd = json.dumps({name: value for name, value in line.items() if value is not None})
    path = put(tmp_path / "trace", [TEXTS[0], odd])

    with pytest.raises(TraceError, match=re.escape(f"{path}, line 2: {why}")):
        read_file(path, FORMATS)
