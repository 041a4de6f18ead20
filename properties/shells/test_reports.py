"""What a coordinator logs is a sentence, with the machine's name of the event beside it."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import ModuleType

import pytest

from herdproof.protocols.central_coordinator import reports as central
from herdproof.protocols.group_protocol import reports as grouped
from herdproof.shells.logs import TextLines
from herdproof.shells.reports import Vocabulary

PAGE = (Path(__file__).parents[2] / "docs" / "broker.md").read_text(encoding="utf-8")
NAMED = re.compile(r"{(\w+)(?::\w+)?}")


def documented(module: ModuleType) -> dict[str, str]:
    """By their values, the docstrings of a vocabulary's names."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    [body] = re.findall(r"class What\(StrEnum\):(.*?)\n\n\n", source, re.DOTALL)
    found = re.findall(r'= "(\w+)"\n    """(.*?)"""', body, re.DOTALL)
    return {what: " ".join(text.split()) for what, text in found}


@pytest.mark.parametrize("module", [central, grouped], ids=lambda module: module.__name__)
def test_sentences_say_what_their_reports_have(module: ModuleType) -> None:
    """The details that one names are those that its docstring lists, or the group."""
    listed = {what: set(re.findall(r"\w+", text)) for what, text in documented(module).items()}

    assert [*listed] == [what.value for what in module.What]
    for what, sentence in module.SENTENCES.items():
        assert {*NAMED.findall(sentence)} - {"group"} <= listed[what], what
    assert {*module.LEVELS, *module.SENTENCES} <= {*module.What}


@pytest.mark.parametrize("module", [central, grouped], ids=lambda module: module.__name__)
def test_nothing_is_said_in_the_numbers_of_drafts(module: ModuleType) -> None:
    """Whoever reads a log has no draft at hand."""
    assert not [text for text in module.SENTENCES.values() if re.search(r"\d\.\d", text)]


def test_what_has_no_sentence_is_called_by_its_name() -> None:
    """And a detail that is missing spoils no line."""
    words = Vocabulary({"lost": "{who} has left group {group}: {why}"})

    assert words.sentence("something", {"group": "g"}) == "something"
    assert words.sentence("lost", {"group": "g"}) == "? has left group g: ?"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (central.VOCABULARY, central.What.MEMBER_JOINED),
        (grouped.VOCABULARY, grouped.What.MEMBER_JOINED),
    ],
)
def test_an_id_cannot_forge_a_line(
    words: Vocabulary, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ids are what clients say they are."""
    details = [(name, "c\x1b[2J") for name in ("consumer", "member", "client", "host")]
    with caplog.at_level(logging.INFO):
        words.log(logging.getLogger("test"), what, "evil\n2026 ERROR all is lost", details)

    [record] = caplog.records
    line = TextLines().format(record)
    assert line.isprintable()
    assert "evil\\n2026 ERROR" in record.getMessage()
    assert " event=member_joined " in line


def test_the_page_names_every_report_of_a_broker() -> None:
    """docs/broker.md has a row for each: its gravity and its details, and no other."""
    told = PAGE.partition("## Its log\n")[2].partition("\n## ")[0]
    rows = {
        what: (level, {*re.findall(r"`(\w+)`", details)} - {"group"})
        for what, level, details in re.findall(
            r"^\| `(\w+)` \| (\w+) \| .* \| (.*) \|$", told, re.M
        )
    }
    named = {
        what: {*re.findall(r"(\w+)(?: \([^)]*\))?(?:,|\.|$)", text.partition("Details: ")[2])}
        for what, text in documented(grouped).items()
    }

    assert {what: details for what, (_, details) in rows.items()} == named
    for what, (level, _) in rows.items():
        assert getattr(logging, level) == grouped.LEVELS.get(what, logging.INFO), what
