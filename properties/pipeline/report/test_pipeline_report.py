"""The report of tables: what it tells is what they say, and nothing that they say is run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.pipeline.report import facts as told
from herdproof.pipeline.report.diagrams import OTHERS, story_of
from herdproof.pipeline.report.facts import Facts, facts_json, facts_of
from herdproof.pipeline.report.figures import spread
from herdproof.pipeline.report.page import page
from herdproof.pipeline.report.reading import NoTables
from herdproof.pipeline.report.timelines import timelines_of
from properties.pipeline.report.report_tables import (
    HOSTILE,
    SENTENCE,
    STORY,
    S,
    audit,
    generation,
    hostile,
    many,
    owned,
    unread,
    verdict,
    violation,
    write,
)


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """What the tables of the small audit say."""
    return facts_of(write(tmp_path, audit()))


class Elements(HTMLParser):
    """The elements of a page, with their attributes; text is put together by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Text."""
        self.texts.append(data)

    @property
    def text(self) -> str:
        """What is read."""
        return re.sub(r"\s+", " ", " ".join(self.texts))


# ── Availability ────────────────────────────────────────────────────────────────────────────


def test_the_page_begins_with_partitions_that_nobody_read(facts: Facts) -> None:
    """Outages by their length, with causes; a group without members is none."""
    availability = facts.availability
    assert availability is not None
    shown = Elements(page(facts))

    assert [(o.group, o.many, round(o.seconds, 3)) for o in availability.outages] == [
        ("billing", 2, 7.0), ("billing", 1, 0.1),
    ]  # fmt: skip
    longest = availability.outages[0]
    assert {why: round(s, 3) for why, s in longest.causes.items()} == {
        "lease": 6.6, "election": 0.4
    }  # fmt: skip
    assert longest.who == ["broker1", "c1"]
    assert "Partitions had no reader for up to 7.0 s." in shown.text
    sections = [attributes["id"] for tag, attributes in shown.found if tag == "section"]
    assert sections[0] == "availability"


def test_a_long_outage_is_not_green(tmp_path: Path) -> None:
    """Though no promise is broken; one of a tenth of a second leaves it as it is."""
    rows = {"verdicts": [verdict("r", "g", "x", "holds")]}
    short = facts_of(
        write(tmp_path / "a", {**rows, "unread": [unread("r", "g", 0, 1, 1.1, "stop")]})
    )
    long = facts_of(
        write(tmp_path / "b", {**rows, "unread": [unread("r", "g", 0, 1, 20, "lease")]})
    )

    badges = [
        [a["class"] for _, a in Elements(page(f)).found if (a.get("class") or "")[:5] == "badge"]
        for f in (short, long)
    ]

    assert badges == [["badge holds"], ["badge unknown", "badge unknown"]]
    assert (short.worst, long.worst) == ("holds", "holds")


def test_violations_that_say_the_same_are_told_once(tmp_path: Path) -> None:
    """With how often they are there."""
    rows = {"violations": [violation("r", "g", at) for at in (12.1, 12.2, 12.3)]}

    shown = Elements(page(facts_of(write(tmp_path, rows))))

    assert sum(a.get("class") == "story" for _, a in shown.found) == 1
    assert "exclusive ×3" in shown.text


# ── Facts ───────────────────────────────────────────────────────────────────────────────────


def test_every_verdict_is_counted_once(facts: Facts) -> None:
    """Of each property it is known how many groups came to what; the broken ones are first."""
    counts = {p.name: dict(p.groups) for p in facts.promises}

    assert counts == {
        "exclusive": {"violated": 1, "holds": 1}, "fenced_commit": {"holds": 2},
        "monotone": {"unknown": 1, "holds": 1}, "settles": {"not observable": 1, "holds": 1},
    }  # fmt: skip
    assert facts.promises[0].name == "exclusive"
    assert facts.promises[0].sentence == f"{SENTENCE} (was EXCLUSIVE)"
    assert facts.promises[0].checked == 240
    assert facts.worst == "violated"


def test_groups_are_told_the_worst_first(facts: Facts) -> None:
    """Each group with what happened in it."""
    assert [(g.group, g.violations, g.generations, g.commits, g.refused) for g in facts.listed] == [
        ("billing", 1, 3, 9, 1), ("mail", 0, 1, 0, 0),
    ]  # fmt: skip
    assert facts.rows["ownership"] == 9
    assert facts.span_ns == (1 * S, 60 * S)


def test_whose_violations_are_most_is_the_worst(tmp_path: Path) -> None:
    """Then whoever is violated with no story, then whoever is in doubt; names come last."""
    rows = {
        "violations": [violation("r", name) for name in ("b", "c", "c", "c")],
        "verdicts": [
            verdict("r", "a", "x", "holds"), verdict("r", "d", "x", "violated"),
            verdict("r", "e", "x", "unknown"), verdict("r", "e", "y", "unknown"),
        ],
    }  # fmt: skip

    facts = facts_of(write(tmp_path, rows))

    assert [g.group for g in facts.listed] == ["c", "b", "d", "e", "a"]


def test_what_cannot_be_observed_neither_holds_nor_is_unknown(tmp_path: Path) -> None:
    """Only what was judged makes a verdict: a log that shows nothing does not hold."""
    rows = {"verdicts": [verdict("r", "g", "fenced", "not observable", "no member is named")]}
    nothing = facts_of(write(tmp_path / "nothing", rows))
    rows["verdicts"].append(verdict("r", "g", "monotone", "holds"))
    something = facts_of(write(tmp_path / "something", rows))

    assert nothing.worst == "unknown"
    assert something.worst == "holds"


def test_a_violation_without_a_verdict_counts(tmp_path: Path) -> None:
    """Tables that hold a violation never come to "holds"."""
    rows = {"violations": [violation("r", "g")], "verdicts": [verdict("r", "g", "x", "holds")]}

    assert facts_of(write(tmp_path, rows)).worst == "violated"


def test_coverage_is_summed_over_groups(facts: Facts) -> None:
    """An action that no replay took was never taken; one that was only supposed, somehow was."""
    assert {a.action: (a.taken, a.never) for a in facts.coverage} == {
        "send_stop": (24, False), "write_owners": (8, False), "fall_behind": (0, True),
        "elect": (0, False),
    }  # fmt: skip
    assert "3 of 4 actions were taken" in Elements(page(facts)).text


def test_quarantine_is_counted_with_examples(facts: Facts) -> None:
    """All records are counted, some are shown, and bytes that are no text are shown as bytes."""
    (malformed,) = facts.quarantine

    assert (malformed.reason, malformed.records) == ("malformed", 5)
    assert len(malformed.examples) == told.EXAMPLES
    assert malformed.examples[0]["raw"] == '{"schema":1,\\xff'


def test_quantiles_are_those_of_numpy() -> None:
    """A distribution's figures are right for values of all sizes, and its bars count each once."""
    values = np.exp(np.random.default_rng(3).normal(size=5_000) * 3)

    found = spread(values)

    assert found.quantiles["50 %"] == np.sort(values)[2_499]
    assert found.quantiles["100 %"] == values.max()
    assert sum(bar.count for bar in found.bars) == 5_000
    for bar in found.bars:
        assert bar.count == ((values >= bar.begin) & (values < bar.end)).sum()


def test_zeros_have_a_bar_of_their_own() -> None:
    """A scale of powers has no place for zero; an edge belongs to the bar that begins there."""
    found = spread(np.array([0.0, 0.0, 2.0, 3.0]))

    assert [(bar.begin, bar.end, bar.count) for bar in found.bars] == [(0.0, 0.0, 2), (2.0, 5.0, 2)]


def test_the_worst_of_a_thousand_groups_are_shown(tmp_path: Path) -> None:
    """All are counted; the broken one is the first that has a column, a story and a timeline."""
    facts = facts_of(write(tmp_path, many(1_000)))

    assert facts.groups == 1_000
    assert facts.promises[0].groups == {"violated": 1, "holds": 999}
    assert facts.listed[0].group == facts.histories[0].group == "group-0998"
    assert len(facts.matrix) == told.COLUMNS
    assert len(facts.listed) == told.LISTED
    assert len(page(facts)) < 200_000


def test_of_a_long_history_the_violation_is_shown(tmp_path: Path) -> None:
    """A group with more intervals than can be drawn shows those around its first violation."""
    long = [owned("r", "g", 0, "c1", k, k + 1) for k in range(told.INTERVALS + 500)]
    at = told.INTERVALS // 2
    rows = {"ownership": long, "violations": [violation("r", "g", at + 0.5)]}

    (history,) = facts_of(write(tmp_path, rows)).histories

    assert history.cut == f"of {len(long):,} intervals, those around the first violation"
    begins = [i.begin_ns // S for i in history.intervals]
    assert begins == list(range(at - 30, at + 16))


def test_a_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """A directory without our tables, or with others of their names, is said to be none."""
    with pytest.raises(NoTables, match="there are no tables"):
        facts_of(tmp_path)
    (tmp_path / "verdicts").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "verdicts" / "a.parquet")
    with pytest.raises(NoTables, match="it has no column run, group"):
        facts_of(tmp_path)


# ── Drawings ────────────────────────────────────────────────────────────────────────────────


def test_a_story_is_drawn_line_by_line(facts: Facts) -> None:
    """Arrows go from sender to receiver, and what one does alone is a dot."""
    (violation,) = facts.stories
    drawn = story_of(violation).drawn

    assert drawn is not None
    assert [*drawn.lanes] == ["broker1", "c1", "c2"]
    at = {x: name for name, x in drawn.lanes.items()}
    assert [(at[m.start], at[m.end]) for m in drawn.moves] == [
        ("broker1", "c1"), ("broker1", "broker1"), ("broker1", "c2"), ("c2", "c2"), ("c1", "c1"),
    ]  # fmt: skip
    assert [m.words[0] for m in drawn.moves][2] == "3. Start orders-0 at 17, generation 2"


@pytest.mark.parametrize("line", ["", "|||", "no story", "x|a|b|c", "5|||alone", "1|a"])
def test_a_line_that_is_none_is_told_as_it_is(line: str) -> None:
    """Whatever stands in a story, it is told, and nothing breaks."""
    broken = told.ViolationFacts("r", "g", "p", "s", 5, "", "", [line, STORY[0]])

    story = story_of(broken)

    assert story.steps[0][2] == line
    assert story.steps[1][2] == "Stop, generation 1"


def test_many_who_take_part_share_a_lane() -> None:
    """A story of more than fit has a lane for the others, and tells who they are."""
    lines = [f"{k}|broker|consumer-{k:02}|Stop" for k in range(20)]

    drawn = story_of(told.ViolationFacts("r", "g", "p", "s", 20, "", "", lines)).drawn

    assert drawn is not None
    assert OTHERS in drawn.lanes
    assert len(drawn.lanes) == 7
    assert "broker → consumer-19" in drawn.moves[19].changes[0]


def test_two_owners_at_once_lie_below_each_other(facts: Facts) -> None:
    """Where two consumers have one partition, both bars are seen; else one line is enough."""
    around, whole = timelines_of(facts.histories[0])

    rows = {row.name: row for row in whole.rows}
    assert rows["orders-0"].height == 2 * rows["orders-1"].height == 36
    first, second = (b for b in whole.boxes if b.title.startswith("orders-0"))
    assert second.y == first.y + 18
    assert first.x + first.width > second.x
    assert around.about == "Around the first violation"


def test_a_timeline_tells_what_is_not_known_and_what_is_open(facts: Facts) -> None:
    """Intervals of which lines are missing are hatched; what has no end lasts until the end."""
    (*_, whole) = timelines_of(facts.histories[0], 70 * S)

    assert [b.title.split(":")[0] for b in whole.boxes if not b.known] == ["orders-2"]
    (still,) = (b for b in whole.boxes if b.open)
    assert still.label == "c3"
    assert still.x + still.width == pytest.approx(whole.width - 14)
    assert [m.label for m in whole.generations] == ["1", "2", "3"]
    assert len(whole.violations) == 1


def test_generations_too_close_to_be_read_have_no_number() -> None:
    """A mark's number is left out where it would lie upon the one before; its title stays."""
    rows = [told.GenerationBegun(n, 1, n * S // 100, "settled") for n in range(1, 4)]
    intervals = [told.DeliveryInterval("p-0", "c", 0, 90 * S, "stopped", True, 1)]
    history = told.History("r", "g", intervals,
                           rows, [], "")  # fmt: skip

    (drawn,) = timelines_of(history)

    assert [m.label for m in drawn.generations] == ["1", "", ""]
    assert drawn.generations[2].title.startswith("generation 3")


# ── The page ────────────────────────────────────────────────────────────────────────────────

FETCHING = {"src", "href", "srcset", "data", "action", "poster", "background", "xlink:href"}


@pytest.mark.parametrize("rows", [audit, hostile], ids=["audit", "hostile"])
def test_a_page_asks_for_nothing(rows: Any, tmp_path: Path) -> None:
    """No element fetches anything, no style does, no script is there, and the policy forbids it."""
    text = page(facts_of(write(tmp_path, rows())))

    elements = Elements(text)
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use"}
    for _, attributes in elements.found:
        assert not attributes.keys() & FETCHING
        assert not any(name.startswith("on") for name in attributes)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {"#hatched", "#step"}
    (policy,) = (a["content"] for t, a in elements.found if a.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_all_that_comes_from_a_trace_is_text(tmp_path: Path) -> None:
    """A name that looks like a page's elements is shown as it is, wherever it stands."""
    text = page(facts_of(write(tmp_path, hostile())))

    assert "<script" not in text
    assert "<img" not in text
    shown = Elements(text).text
    for name in ("billing", "exclusive", "send_stop", "broker1", "no JSON at 0", "orders-0"):
        assert re.search(rf"{name.replace('_', '[ _]')}.{{0,40}}<script>", shown), name
    assert HOSTILE in shown


def test_a_page_can_be_read_without_colours(facts: Facts) -> None:
    """Each verdict has a mark and a word of its own."""
    shown = Elements(page(facts)).text

    for words in ("✗ violated", "● holds", "– not observable", "? unknown", "✗ 1 violated"):
        assert words in shown
    assert "late lines: 3" in shown
    assert "a trace shows no end" in shown


@pytest.mark.parametrize("left_out", sorted(audit()))
def test_a_page_is_made_whatever_is_missing(left_out: str, tmp_path: Path) -> None:
    """A table that is not there, or is empty, leaves the others as they are."""
    rows = audit()
    without = {name: of for name, of in rows.items() if name != left_out}
    empty = {**without, left_out: []}

    pages = [page(facts_of(write(tmp_path / n, r))) for n, r in (("x", without), ("y", empty))]

    assert all("What the tables of" in text for text in pages)
    assert left_out == "verdicts" or "exclusive" in pages[0]


def test_a_page_of_rows_with_nothing_in_them_is_made(tmp_path: Path) -> None:
    """Columns that nobody knew are null; that breaks nothing."""
    rows = {name: [{"run": "r", "group": "g"}] for name in audit()}
    rows["ownership"].append(owned("r", "g", 0, "c", 0, 0))
    rows["generations"].append(generation("r", "g", 1, 0, 0))

    assert "unknown" in page(facts_of(write(tmp_path, rows)))


# ── JSON, JUnit, the command ────────────────────────────────────────────────────────────────


def test_the_same_facts_as_json(facts: Facts) -> None:
    """What the page tells is in the JSON, each verdict with its group and its reason."""
    read = json.loads(json.dumps(facts_json(facts)))

    billing = next(m for m in read["matrix"] if m["group"] == "billing")
    assert {v["property"]: (v["verdict"], v["why"]) for v in billing["verdicts"]} == {
        "exclusive": ("violated", ""), "fenced_commit": ("holds", ""),
        "monotone": ("unknown", "late lines: 3"),
        "settles": ("not observable", "a trace shows no end"),
    }  # fmt: skip
    assert read["stories"][0]["story"] == STORY
    assert read["figures"][1]["name"] == "rebalance_latency_s"
    assert read["figures"][1]["spread"]["count"] == 14


@pytest.mark.parametrize("rows", [audit, hostile], ids=["audit", "hostile"])
def test_the_same_verdicts_as_junit(rows: Any, tmp_path: Path) -> None:
    """A violation is a failure with its story; unknown and not observable are skipped, and why."""
    directory = write(tmp_path, rows())

    CliRunner().invoke(app, ["report", str(directory), "--junit", str(tmp_path / "j.xml")])

    suites = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert {n: suites.get(n) for n in ("tests", "failures", "skipped")} == {
        "tests": "9", "failures": "1", "skipped": "3",
    }  # fmt: skip
    billing, mail, aside = suites.findall("testsuite")
    assert "billing" in str(billing.get("name"))
    assert not mail.findall("testcase/*")
    assert "could not be judged" in str(aside.findall("testcase/skipped")[0].get("message"))
    (failure,) = billing.findall("testcase/failure")
    assert "c1 and c2 both consume orders-0" in str(failure.get("message"))
    assert all(line in str(failure.text) for line in STORY)
    skipped = [str(s.get("message")) for s in billing.findall("testcase/skipped")]
    assert [m.partition(" <")[0] for m in skipped] == [
        "unknown: late lines: 3", "not observable: a trace shows no end",
    ]  # fmt: skip


def test_the_command_writes_all_three(tmp_path: Path) -> None:
    """`herdproof report` prints the verdicts, and its exit code is theirs."""
    directory = write(tmp_path / "tables", audit())
    sound = write(tmp_path / "sound", {"verdicts": [verdict("r", "g", "exclusive", "holds")]})
    unknown = write(tmp_path / "unknown", {"verdicts": [verdict("r", "g", "x", "unknown")]})

    told = CliRunner().invoke(
        app, ["report", str(directory), "-o", str(tmp_path / "p.html"), "--json", "-"]
    )

    assert told.exit_code == 1
    assert json.loads(told.stdout)["worst"] == "violated"
    assert "✗ There are violations." in (tmp_path / "p.html").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["report", str(sound)]).exit_code == 0
    assert (sound / "report.html").is_file()
    assert CliRunner().invoke(app, ["report", str(unknown)]).exit_code == 3


@pytest.mark.parametrize(("reason", "code"), [("malformed", 3), ("late", 3), ("duplicate", 0)])
def test_a_record_that_nobody_could_judge_leaves_it_open(
    tmp_path: Path, reason: str, code: int
) -> None:
    """What a record says that is aside is known only of a duplicate."""
    holds = [verdict("r", "g", "exclusive", "holds")]
    aside = [{"run": "r", "group": "g", "reason": reason, "why": "so", "place": "a:1", "raw": b""}]
    directory = write(tmp_path / "tables", {"verdicts": holds, "quarantine": aside})

    junit = tmp_path / "junit.xml"
    told = CliRunner().invoke(app, ["report", str(directory), "--junit", str(junit)])

    assert told.exit_code == code
    assert ('skipped="1"' in junit.read_text(encoding="utf-8")) == (code == 3)


def test_a_directory_without_tables_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """Exit code 2, and why."""
    for directory in (tmp_path, tmp_path / "nowhere"):
        told = CliRunner().invoke(app, ["report", str(directory)])

        assert told.exit_code == 2
        assert told.stderr.startswith("herdproof: there ")


def test_what_nobody_can_see_is_said_to_be_not_observable(tmp_path: Path) -> None:
    """It is no 0, and in no sum."""
    figure = {"run": "r", "group": "g", "name": "redelivered_total", "unit": "records"}

    facts = facts_of(write(tmp_path, {"figures": [{**figure, "value": None}]}))

    assert facts.unseen == {"redelivered_total": 1}
    assert facts.figures == []
    assert "redelivered total: not observable in 1" in page(facts)
