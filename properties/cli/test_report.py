"""Reports: what is broken is red in every format, in the right place, and nothing is forged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from herdproof.cli import app
from herdproof.report.diagrams import LANE, PAD, WORLD, drawing, sequence
from herdproof.report.github import commands
from herdproof.report.html import page
from herdproof.report.junit import junit
from herdproof.report.sarif import sarif
from herdproof.report.table import to_tell
from herdspec.check.cache import Coverage
from herdspec.check.cache import Result as Found
from herdspec.check.exploration.transitions import StateMachine, state_machines
from herdspec.check.running.run import Machine
from herdspec.check.verdict import Finding, Mark, Shown, StoryStep
from herdspec.check.verify import Done, Plan, PlanReport
from herdspec.engine.ground import Ground
from herdspec.language.specification import Specification
from herdspec.protocols.election.properties import ELECTION
from properties.check.test_cache import LOCK, changed

HOLDS, FAILS, NOT_ASKED, UNKNOWN = 0, 1, 2, 3
RETURNED = "        self.lease[c] = Lease.NONE\n        self.holder = None"
MISTAKE = (RETURNED, "        self.holder = None")
HOSTILE = (
    "</title></svg><script>alert(1)</script> ]]> & \"'\n::error::%0A, x: \x1b[31m\x00 ß {{ 7 }}"
)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec in a file that does not hold, in the directory in which commands are called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    file = tmp_path / "a lock.py"
    file.write_text(LOCK)
    changed(file, *MISTAKE)
    return file


def run(*arguments: str | Path) -> Result:
    """Run `verify` in this process."""
    return CliRunner().invoke(app, ["verify", "--no-cache", *(str(a) for a in arguments)])


def found(mark: Mark, **more: Any) -> Finding:
    """A finding."""
    plain: dict[str, Any] = {"subject": "x", "row": "p", "kind": "always", "bounds": "2 lamps"}
    return Finding(**(plain | {"mark": mark} | more))


def report_of(*findings: Finding, **more: Any) -> PlanReport:
    """A report of one check with these findings."""
    plan = Plan("toy", (), verified="x", compared=("x",), **more)
    return PlanReport(plan, (Done("look", Found(findings, "all of it"), 0.25),))


def line_of(file: str | Path, number: int) -> str:
    """A line of a file."""
    return Path(file).read_text().splitlines()[number - 1]


# ── A broken spec ───────────────────────────────────────────────────────────────────────────


def test_a_broken_spec_is_red_in_every_format(broken: Path) -> None:
    """With one mistake the exit code is 1, and each report names the property that fails."""
    done = run(broken, "--json", "o.json", "--junit", "o.xml", "--sarif", "o.sarif",
               "--html", "o.html", "--annotations")  # fmt: skip

    assert done.exit_code == FAILS
    assert json.loads(Path("o.json").read_text())["exit"] == FAILS
    (failure, *_) = ElementTree.parse("o.xml").iter("failure")
    assert "1. client1 is given the lock." in (failure.text or "")
    result = json.loads(Path("o.sarif").read_text())["runs"][0]["results"][0]
    assert (result["level"], result["ruleId"]) == ("error", f"{broken}/the_server_knows")
    assert '<p class="badge fails">It fails.</p>' in Path("o.html").read_text()
    assert "::error file=a lock.py,line=" in done.stdout


def test_a_spec_that_holds_alarms_nobody(broken: Path) -> None:
    """Where all is well no report has a failure, and the exit code is 0."""
    broken.write_text(LOCK)

    done = run(broken, "--junit", "o.xml", "--sarif", "o.sarif", "--html", "o.html",
               "--annotations")  # fmt: skip

    assert done.exit_code == HOLDS
    assert not list(ElementTree.parse("o.xml").iter("failure"))
    assert json.loads(Path("o.sarif").read_text())["runs"][0]["results"] == []
    assert '<p class="badge holds">It holds.</p>' in Path("o.html").read_text()
    assert "::error" not in done.stdout


def test_a_run_that_two_checks_found_is_told_once() -> None:
    """An exploration and a proof may fail by one run; another run, or property, is told, too."""
    failing = found(Mark.FAILS, row="p", story=("1. it breaks",))
    others = replace(failing, row="q"), replace(failing, story=("1. otherwise",))
    report = report_of(failing, replace(failing, bounds="any number"), *others)

    assert to_tell(report, all_stories=False) == [failing, *others]
    assert to_tell(report, all_stories=True) == [failing, *others]
    assert page([report]).count("1. it breaks") == 2


def test_what_is_unknown_is_no_pass_anywhere() -> None:
    """An unknown verdict is an error of JUnit, `open` in SARIF, a warning on GitHub."""
    report = report_of(found(Mark.UNKNOWN, note="cut short"), found(Mark.PROVED))

    suites = ElementTree.fromstring(junit([report]))
    assert (suites.get("errors"), suites.get("failures"), suites.get("tests")) == ("1", "0", "2")
    assert [case.tag for case in suites.iter("error")] == ["error"]
    (result,) = json.loads(sarif([report]))["runs"][0]["results"]
    assert (result["kind"], result["level"]) == ("open", "none")
    (line,) = commands([report])
    assert line.startswith("::warning title=toy%3A p::")
    assert '<p class="badge unknown">' in page([report])


def test_a_failure_as_declared_is_a_pass_that_says_so() -> None:
    """A declared failure is no failure in any report, and its story can still be read."""
    shown = Shown(2, "a")
    report = report_of(found(Mark.FAILS, found=shown, expected=shown, story=("1. it breaks",)))

    suites = ElementTree.fromstring(junit([report]))
    assert suites.get("failures") == "0"
    texts = [out.text or "" for out in suites.iter("system-out")]
    assert any("as declared" in text and "1. it breaks" in text for text in texts)
    assert json.loads(sarif([report]))["runs"][0]["results"] == []
    assert list(commands([report])) == []
    assert "(as declared)" in page([report])


def test_a_failure_that_differs_from_the_declared_one_is_red() -> None:
    """A failure of another length than declared is a failure, and both lengths are told."""
    report = report_of(found(Mark.FAILS, found=Shown(2, "a"), expected=Shown(3, "b")))

    (line,) = commands([report])

    assert "✗ 2 steps (expected 3 steps, the last b)" in line


# ── Places ──────────────────────────────────────────────────────────────────────────────────


def test_every_failure_stands_where_its_property_is_defined(broken: Path) -> None:
    """File and line lead to the property; those of a story's steps to their actions."""
    run(broken, "--sarif", "o.sarif", "--junit", "o.xml")

    result = json.loads(Path("o.sarif").read_text())["runs"][0]["results"][0]
    (place,) = result["locations"]
    physical = place["physicalLocation"]
    file = unquote(physical["artifactLocation"]["uri"])
    assert file == "a lock.py"
    assert "def the_server_knows" in line_of(file, physical["region"]["startLine"])
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    lines = [s["location"]["physicalLocation"]["region"]["startLine"] for s in steps]
    assert [re.findall(r"def (\w+)", line_of(file, n)) for n in lines] == [["grant"], ["release"]]
    failed = [
        c for c in ElementTree.parse("o.xml").iter("testcase") if c.find("failure") is not None
    ]
    case = failed[0]
    assert (case.get("file"), case.get("line")) == (file, str(physical["region"]["startLine"]))


def test_paths_begin_at_the_workspace(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within GitHub Actions paths are those of the repository, wherever the command is called."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(broken.parent.parent))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    done = run(broken)

    assert f"::error file={broken.parent.name}/a lock.py,line=" in done.stdout


def test_annotations_can_be_switched_off(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within GitHub Actions annotations are printed, unless they are not wanted."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    assert "::error" in run(broken).stdout
    assert "::error" not in run(broken, "--no-annotations").stdout


@pytest.mark.parametrize("option", ["--junit", "--sarif", "--html"])
def test_a_file_that_cannot_be_written_is_refused_at_once(broken: Path, option: str) -> None:
    """A report whose directory does not exist is refused before anything is checked."""
    done = run(broken, option, "no/such/place")

    assert done.exit_code == NOT_ASKED
    assert f"{option} no/such/place" in done.stderr
    assert "explore" not in done.stdout


# ── SARIF ───────────────────────────────────────────────────────────────────────────────────


def test_a_sarif_log_has_the_form_that_its_readers_ask_for(broken: Path) -> None:
    """Version, tool, rules by index, messages, locations: what SARIF 2.1.0 requires is there."""
    run(broken, "--sarif", "o.sarif")

    log = json.loads(Path("o.sarif").read_text())
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (only,) = log["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["kind"] == "fail" or result["level"] == "none"
        for place in result["locations"]:
            assert place["physicalLocation"]["region"]["startLine"] >= 1
            assert place["physicalLocation"]["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
    prints = [r["partialFingerprints"]["finding/v1"] for r in only["results"]]
    assert len(set(prints)) == len(prints)


# ── Nothing is forged ───────────────────────────────────────────────────────────────────────


def hostile() -> PlanReport:
    """A report in which every text is hostile."""
    step = StoryStep(HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE, (HOSTILE,))
    finding = found(
        Mark.FAILS, subject="x", row=HOSTILE, kind=HOSTILE, bounds=HOSTILE, sentence=HOSTILE,
        note=HOSTILE, found=Shown(1, HOSTILE), story=(HOSTILE,), steps=(step,),
    )  # fmt: skip
    untold = found(Mark.FAILS, row="q", note=HOSTILE, story=(HOSTILE,))
    result = Found((finding, untold), HOSTILE, (Coverage("x", ((HOSTILE, 1),), ((HOSTILE, 2),)),))
    plan = Plan(HOSTILE, (), verified="x", compared=("x",), assumed=HOSTILE, not_modelled=HOSTILE)
    return PlanReport(plan, (Done(HOSTILE, result, 0.0),))


def test_hostile_text_stays_text_in_junit() -> None:
    """Whatever a sentence holds, the XML can be parsed and says it, without what XML forbids."""
    suites = ElementTree.fromstring(junit([hostile()]))

    case = next(suites.iter("testcase"))
    replaced = HOSTILE.replace("\x1b", "\ufffd").replace("\x00", "\ufffd")
    assert case.get("name") == f"{replaced} ({replaced})"
    (failure, _) = suites.iter("failure")
    assert failure.text == replaced


def test_hostile_text_stays_on_its_line_on_github() -> None:
    """No text can end its command, its property, or begin another command."""
    lines = list(commands([hostile()]))

    assert len(lines) == 2
    for line in lines:
        assert "\n" not in line
        assert "\r" not in line
        properties = line.removeprefix("::error ").partition("::")[0]
        assert [p.partition("=")[0] for p in properties.split(",")] == ["title"]


@given(st.text())
def test_a_workflow_command_says_what_was_meant(text: str) -> None:
    """What GitHub reads of a command, after its own unescaping, is the sentence and the story."""
    (line,) = commands([report_of(found(Mark.FAILS, sentence=text or "s", story=(text,)))])

    told = line.partition(" title=")[2].partition("::")[2]
    for code, plain in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        told = told.replace(code, plain)
    assert told.endswith(text)
    assert told.startswith(text)


def test_hostile_text_stays_text_in_sarif() -> None:
    """A sentence is one string of JSON, as it is."""
    results = json.loads(sarif([hostile()]))["runs"][0]["results"]

    assert HOSTILE in results[0]["message"]["text"]


class Tags(HTMLParser):
    """Notes tags, attributes and the text of a page, and that what is opened is closed."""

    VOID = ("meta", "circle", "line", "path", "rect", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """What is closed is what was opened last."""
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collect the text."""
        self.text += data


def test_hostile_text_stays_text_on_the_page() -> None:
    """No text of a spec becomes a tag, an attribute or a template: it is read as it was written."""
    tags = Tags(page([hostile()]))

    assert "script" not in tags.tags
    assert tags.open == []
    assert "<script>alert(1)</script> ]]> &" in tags.text
    assert "{{ 7 }}" in tags.text


def test_hostile_sentences_of_a_spec_reach_all_reports(broken: Path) -> None:
    """A spec whose own sentences and values are hostile is reported like any other."""
    text = broken.read_text().replace("{c} is given the lock.", "{c} <script>]]>&amp;")
    broken.write_text(text.replace('"held"', '"<script>"'))

    run(broken, "--junit", "o.xml", "--sarif", "o.sarif", "--html", "o.html")

    assert "client1 <script>]]>&amp;" in "".join(ElementTree.parse("o.xml").getroot().itertext())
    assert (
        "client1 <script>]]>&amp;"
        in json.loads(Path("o.sarif").read_text())["runs"][0]["results"][0]["message"]["text"]
    )
    tags = Tags(Path("o.html").read_text())
    assert "script" not in tags.tags
    assert "1. client1 <script>]]>&amp;" in tags.text
    assert "lease[client1]: none → <script>" in tags.text


# ── The page ────────────────────────────────────────────────────────────────────────────────


def test_the_page_asks_for_nothing_from_anywhere(broken: Path) -> None:
    """The page has no script and refers to nothing outside itself."""
    run(broken, "--html", "o.html")

    text = Path("o.html").read_text()
    tags = Tags(text)
    assert not {"script", "link", "img", "iframe", "object", "base"} & tags.tags
    assert not {"src", "href", "srcset", "style", "onload"} & set(tags.attributes)
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert "@import" not in text


def test_the_page_shows_table_story_machines_and_coverage(broken: Path) -> None:
    """The page holds the verdicts, a drawing for each story, state machines and coverage."""
    run(broken, "--html", "o.html")

    tags = Tags(Path("o.html").read_text())
    for told in (
        "the server knows", "✗ 2 steps", "Whoever holds a lease is the holder.", "the world",
        "2. client1 gives it back.", "State machines of Lock", "lease: none, held", "Coverage",
        "grant", "explore Lock: 2 clients, 2 faults", "a lock.py:",
    ):  # fmt: skip
        assert told in tags.text
    assert "svg" in tags.tags


def test_flaws_have_a_table_of_their_own_on_the_page() -> None:
    """Each flaw is told with what it breaks, its steps, and whether that is as declared."""
    shown = Shown(4, "grant")
    finding = found(Mark.FAILS, subject="no_fence", found=shown, expected=shown, story=("1. x",))
    tags = Tags(page([report_of(found(Mark.PROVED), finding, flaws=("no_fence",))]))

    assert re.search(r"no_fence\s*p\s*4\s*grant\s*yes", tags.text)


def test_branches_that_no_step_took_are_told_with_their_place(broken: Path) -> None:
    """A branch is told by its file and line, counted from its action's line of today."""
    spec = lock_of(broken)
    missed = (("release", 3),)
    result = Found((found(Mark.PROVED),), "m", (Coverage("x", (("release", 0),), missed),))
    plan = Plan("toy", (), verified="x", compared=("x",), specs={"x": spec})

    text = Tags(page([PlanReport(plan, (Done("look", result, 0.0),))])).text

    assert f"release, a lock.py:{spec.action('release').line + 3}" in text
    assert "never" in text


def test_a_branch_that_is_never_taken_is_found_and_told(broken: Path) -> None:
    """The page names the line of a branch that no step of the explored size takes."""
    broken.write_text(LOCK)
    end_of_release = "        self.holder = None\n\n    @action(kind=fault)"
    unused = "        if self.losses > 9:\n            self.losses = 9\n"
    changed(broken, end_of_release, unused + end_of_release)

    run(broken, "--html", "o.html")

    text = Tags(Path("o.html").read_text()).text
    (number,) = re.findall(r"Branches that no step took: release, a lock.py:(\d+)", text)
    assert line_of(broken, int(number)).strip() in ("if self.losses > 9:", "self.losses = 9")


# ── Drawings ────────────────────────────────────────────────────────────────────────────────


def told(*elements: str, action: str = "a") -> StoryStep:
    """A step in which these elements take part."""
    return StoryStep(action, elements, elements, "It happens.", ("x: 1 → 2",))


def test_a_story_has_a_lane_for_each_element_and_the_world() -> None:
    """Elements have lanes in order, the world the last; a step goes from the first to the next."""
    steps = (told("b2", "b1"), told("b1"), told())
    drawn = sequence(found(Mark.FAILS, steps=steps), None)

    at = {name: PAD + LANE // 2 + LANE * k for k, name in enumerate(["b1", "b2", WORLD])}
    assert dict(drawn.lanes) == at
    assert [(m.start, m.end) for m in drawn.moves] == [
        (at["b2"], at["b1"]), (at["b1"], at["b1"]), (at[WORLD], at[WORLD]),
    ]  # fmt: skip
    assert all(b.y >= a.y + a.height for a, b in zip(drawn.moves, drawn.moves[1:], strict=False))
    assert drawn.moves[-1].y < drawn.height


def test_a_fault_comes_from_the_world(broken: Path) -> None:
    """A fault's arrow begins in the world's lane and leads to the element that it befalls."""
    steps = (told("client1", action="grant"), told("client1", action="lose"))

    grant, lose = sequence(found(Mark.FAILS, steps=steps), lock_of(broken)).moves

    assert (grant.start, grant.fault) == (grant.end, False)
    assert (lose.start, lose.end, lose.fault) == (grant.start + LANE, grant.start, True)


def test_a_story_that_goes_on_for_ever_says_from_where() -> None:
    """The steps that repeat are framed, from the first of them on."""
    finding = found(Mark.FAILS, steps=(told("b1"), told("b1")), repeats=1)

    drawn = sequence(finding, None)

    assert drawn.repeats is not None
    assert drawn.moves[0].y < drawn.repeats < drawn.moves[1].y
    assert "for ever" in page([report_of(replace(finding, story=("x",)))])


def lock_of(file: Path) -> Specification:
    """The spec of a file."""
    from herdproof.cli.specs import find

    return find(f"{file}:Lock").spec


def steps_of(spec: Specification, sizes: dict[str, int], faults: int) -> Iterator[tuple[Any, ...]]:
    """Every step of the plain Python within a budget of faults: state, action, state."""
    machine = Machine(Ground(spec, sizes, faults + 1, faults))
    todo = [(machine.initial(), 0)]
    seen = {machine.numbers(*todo[0])}
    while todo:
        state, taken = todo.pop()
        for step in machine.steps(state):
            after = taken + step.action.disturbs
            if after > faults:
                continue
            yield vars(state), step.action.name, vars(step.state)
            numbers = machine.numbers(step.state, after)
            if numbers not in seen:
                seen.add(numbers)
                todo.append((step.state, after))


@pytest.mark.parametrize("name", ["lock", "election"])
def test_a_state_machine_is_what_the_plain_python_does(name: str, broken: Path) -> None:
    """The arrows between an enum's members are those of all steps of the plain Python."""
    spec, sort = (lock_of(broken), "Client") if name == "lock" else (ELECTION, "Broker")
    sizes = {sort: 2 if name == "lock" else 1}
    fields = ["lease"] if name == "lock" else ["view", "answer", "link", "call"]
    seen = list(steps_of(spec, sizes, faults=1))

    found = state_machines(spec, sizes, faults=1)

    assert [m.field for m in found] == fields
    for machine in found:
        naive = {
            (a[machine.field][x].name.lower(), b[machine.field][x].name.lower(), action)
            for a, action, b in seen
            for x in a[machine.field]
        }
        drawn = {(a, b, action) for a, b, actions in machine.arrows for action in actions}
        assert drawn == {(a, b, action) for a, b, action in naive if a != b}
        assert machine.complete


def test_a_drawing_holds_every_member_and_arrow() -> None:
    """Members and arrows lie within the drawing; an arrow with many actions tells the rest."""
    names = tuple(f"member{k}" for k in range(7))
    arrows = tuple((a, b, ("p", "q", "r", "s")) for a in names for b in names if a != b)
    drawn = drawing(StateMachine("f", names, names[:1], arrows, complete=True))

    assert [node.name for node in drawn.nodes] == list(names)
    assert [node.initial for node in drawn.nodes] == [True] + [False] * 6
    for node in drawn.nodes:
        assert node.width / 2 <= node.x <= drawn.width - node.width / 2
        assert 0 < node.y < drawn.height
    assert {arrow.words for arrow in drawn.arrows} == {("p", "q", "+ 2 more")}
    assert drawn.arrows[0].whole == "member0 → member1: p, q, r, s"
