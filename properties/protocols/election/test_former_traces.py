"""
Traces of elections in version 1: what is kept of them is read as ever, and judged as ever.

`version1.ndjson` was written when that was the version, along a walk of three brokers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.traces.line import TraceError, read_file, read_line
from herdproof.pipeline.audit.judge import CONFORMS, judge
from herdproof.pipeline.audit.protocols import read_line as audited
from herdproof.protocols.election.tracing import ELECTION, FORMATS, ElectorLine
from herdspec.check.conformance.conform import Verdict
from properties.protocols.election.test_conform import conform_files

FORMER = Path(__file__).parent / "version1.ndjson"
TEXTS = FORMER.read_text(encoding="utf-8").splitlines()
NODES = ("broker1", "broker2", "broker3")


def present(text: str) -> str:
    """A line of version 1, as one of version 2 is written."""
    line: ElectorLine = read_line(text, formats=FORMATS)
    return line.written()


def put(path: Path, texts: list[str]) -> Path:
    """A file of these lines."""
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def test_a_line_of_version_1_is_one_of_version_2_and_tells_the_same() -> None:
    """Nothing that it says is lost, and nothing is added."""
    for text in TEXTS:
        was = json.loads(text)
        was["since_ns"] -= was["sequence"] % 2  # as real writes have been sent before
        line = json.loads(present(json.dumps(was)))
        now = line.get("arguments", {})

        assert line["schema"] == 2
        assert (now.get("session", 0), now.get("answered"), now.get("asked")) == (
            was["session"], was["answered"], was["asked"],
        )  # fmt: skip
        assert line.get("seen", was["state"]) == was["state"]
        assert line["action"] == {"start": "(start)"}.get(was["action"], was["action"])
        assert line.get("since_ns", line["time_ns"]) == was["since_ns"]
        for same in ("protocol", "run", "node", "sequence", "time_ns"):
            assert line[same] == was[same]


def test_a_trace_of_version_1_conforms_and_is_audited() -> None:
    """As it did and was when it was written."""
    outcome = conform_files([FORMER])
    lines = [audited(text, f"f, line {n}") for n, text in enumerate(TEXTS, start=1)]
    rows = judge(ELECTION, "seed 2", "", lines, replay=True)

    assert outcome.verdict is Verdict.CONFORMS
    assert outcome.matched == outcome.lines == len(TEXTS)
    found = {row["property"]: row["verdict"] for row in rows["verdicts"]}
    holds = ("an_epoch_is_taken_up_by_one", "only_the_present_epoch_writes", CONFORMS)
    assert {found[name] for name in holds} == {"holds"}


def at(action: str) -> int:
    """The first line of an action."""
    return next(k for k, text in enumerate(TEXTS) if json.loads(text)["action"] == action)


FIRST_LOOK, FIRST_WON = at("handle_look"), at("handle_create")


@pytest.mark.parametrize(
    ("where", "way", "value", "why"),
    [
        (FIRST_LOOK, ("state", "leads"), True, "the spec has False, the trace True"),
        (FIRST_WON, ("answered", "epoch"), 2, "the spec has 1, the trace 2"),
        (FIRST_LOOK, ("action",), "handle_glance", "the action 'handle_glance' is unknown"),
        (0, ("state", "link"), "connected", "a process starts with a session, or with knowledge"),
    ],
)
def test_a_changed_line_of_version_1_differs(
    where: int, way: tuple[str, ...], value: Any, why: str, tmp_path: Path
) -> None:
    """At that line, for the reason for which one of version 2 does."""
    part = line = json.loads(TEXTS[where])
    for name in way[:-1]:
        part = part[name]
    part[way[-1]] = value
    texts = [*TEXTS[:where], json.dumps(line), *TEXTS[where + 1 :]]

    for path in (put(tmp_path / "former", texts), put(tmp_path / "now", [*map(present, texts)])):
        outcome = conform_files([path])

        assert (outcome.verdict, outcome.matched) == (Verdict.DIFFERS, where)
        assert outcome.mismatch is not None
        assert why in "; ".join(outcome.mismatch.differences)


def test_both_versions_may_be_mixed(tmp_path: Path) -> None:
    """Nodes of one run, or one file's processes: each line is what it says that it is."""
    of = {node: [t for t in TEXTS if json.loads(t)["node"] == node] for node in NODES}
    files = [put(tmp_path / node, of[node]) for node in NODES[:2]]
    files.append(put(tmp_path / NODES[2], [*map(present, of[NODES[2]])]))
    mixed = [present(text) if k % 3 else text for k, text in enumerate(TEXTS)]

    for paths in (files, [put(tmp_path / "mixed", mixed)]):
        outcome = conform_files(paths)

        assert outcome.verdict is Verdict.CONFORMS
        assert outcome.matched == len(TEXTS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state": None}, "the field `state` is missing"),
        ({"since_ns": None}, "the field `since_ns` is missing"),
        ({"state": {"link": "lost"}}, "the field `state.stands` is missing"),
        ({"session": "7"}, "the field `session` is text; it must be an integer"),
        ({"schema": 2}, "the field `seen` is missing"),
        ({"schema": 3}, "the schema's version is 3; this reader knows versions 1 and 2"),
        ({"schema": 2, "protocol": "Lease"}, "the protocol is 'Lease'; known is 'election'"),
        ({"protocol": "Lease"}, "the protocol is 'Lease'; known is 'election'"),
    ],
)
def test_a_line_that_is_of_neither_version_is_refused(
    change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """With its place, in a sentence."""
    line = json.loads(TEXTS[FIRST_LOOK]) | change
    odd = json.dumps({name: value for name, value in line.items() if value is not None})
    path = put(tmp_path / "trace", [TEXTS[0], odd])

    with pytest.raises(TraceError, match=re.escape(f"{path}, line 2: {why}")):
        read_file(path, FORMATS)


def test_a_line_of_version_1_that_is_cut_off_is_named(tmp_path: Path) -> None:
    """Its writer died."""
    path = tmp_path / "trace"
    path.write_text(f"{TEXTS[0]}\n{TEXTS[1][:90]}")

    with pytest.raises(TraceError, match="line 2: the last line is cut off"):
        read_file(path, FORMATS)
