"""
Forms of protocols, by name: their stories are replayed on the code that is entered for them.

A form that no code is held to is said to be so; what nobody looked at is unknown.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdproof.cli.code.stories import judged
from herdproof.cli.specs import find
from herdproof.conformance.adapter import check_adapter
from herdproof.protocols.implementation import adapter_of, without_code
from herdspec.check.protocol import in_order, protocol
from herdspec.check.running.replay import Expect, file_name, story_file
from herdspec.check.running.run import machine
from herdspec.language.errors import UsageError

STORIES = Path(__file__).parents[1] / "stories"
FORMS = [f"{name}-{form}" for name in in_order() for form in protocol(name).variants()]
HELD = [
    "central_coordinator-bringing", "central_coordinator-resuming", "group_protocol-choice",
    "group_protocol-administered", "group_protocol-positions", "group_protocol-subscriptions",
]  # fmt: skip
"""Forms that code is held to."""
OF_A_FORM = [
    ("central_coordinator-bringing", "a_start_is_at_the_stored_offset"),
    ("central_coordinator-resuming", "exclusive"),
    ("central_coordinator/adopts_meanwhile", "exclusive"),
    ("central_coordinator/brought_by_id", "a_start_is_at_the_stored_offset"),
    ("central_coordinator/resumes_too_late", "exclusive"),
    ("group_protocol/start_unstored", "nothing_is_skipped"),
]
"""A form, and forms with a mistake that the code can have: a story of each is kept."""


def replayed(*arguments: str | Path) -> tuple[int, str]:
    """The exit code of `herdproof replay`, and what it printed."""
    done = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A saved path of one step, of a form that no code is held to."""
    name = "group_protocol-static"
    spec = find(name).spec
    at = machine(spec, **dict.fromkeys(spec.sorts, 1))
    start = at.initial()
    path = tmp_path / file_name(name, "path")
    found = story_file(name, at, "", start, [next(at.steps(start))])
    found.expecting(Expect.HOLDS).write(path)
    return path


@pytest.mark.parametrize("name", FORMS)
def test_each_form_has_code_or_is_said_to_have_none(name: str) -> None:
    """Code that is entered for a form fits it."""
    code = adapter_of(name)

    assert (code is not None) is (name in HELD)
    assert bool(without_code(name)) is (code is None)
    if code is not None:
        check_adapter(find(name).spec, code)


def test_only_a_form_is_said_to_have_no_code() -> None:
    """A contract is none of the code's, a mistake may be the spec's alone, a file has its own."""
    assert adapter_of("group_protocol-contract") is None
    for name in ("group_protocol-contract", "election/no_watch", "lease.py:Lease", "nothing-known"):
        assert without_code(name) == ""


@pytest.mark.parametrize(("name", "broken"), OF_A_FORM)
def test_a_kept_story_of_a_form_is_followed_by_its_code(name: str, broken: str) -> None:
    """The cores that resume by default, and those with a mistake of their form, to the end."""
    verdict = judged(STORIES / file_name(name, broken))

    assert verdict.code is not None
    assert verdict.code.follows, verdict.lines
    assert verdict.as_expected


def test_the_code_without_a_forms_mistake_differs_from_its_story() -> None:
    """Who has asked to resume lets go when its lease is over: the story is not the code's."""
    story = STORIES / file_name("central_coordinator/resumes_too_late", "exclusive")

    code, told = replayed(story, "--spec", "central_coordinator-resuming")

    assert code == 1
    assert "time_out" in told


def test_a_story_of_a_form_without_code_is_unknown(begun: Path, tmp_path: Path) -> None:
    """It is possible in the spec; that nobody asked any code is said in one sentence."""
    code, told = replayed(begun, "--json", tmp_path / "out.json")

    said = (
        "no code is held to group_protocol-static: the entry of group_protocol has no adapter for"
        " that form"
    )
    [found] = json.loads((tmp_path / "out.json").read_text())["stories"]
    assert code == 3
    assert told.count(said) == 1
    assert (found["code"], found["unknown"], found["as_expected"]) == (None, said, True)
    assert "Unknown: 1 would need code that there is none of." in told


def test_flaws_of_a_form_are_flaws_of_the_protocol() -> None:
    """They are found by name, and listed where another one is asked for; each names its form."""
    flaws = protocol("central_coordinator").flaws()
    with pytest.raises(UsageError) as none:
        find("central_coordinator/resumes_never")

    for name, form in (("adopts_meanwhile", "resuming"), ("over_by_id", "returning")):
        assert name in str(none.value)
        assert find(f"central_coordinator/{name}").spec is flaws[name].spec
        assert flaws[name].form == form
    for of in map(protocol, in_order()):
        assert {flaw.form for flaw in of.flaws().values()} <= {"", *of.variants()}
