"""What a coordinator logs is a sentence, with the machine's name of the event beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from herdproof.protocols.central_coordinator import reports
from herdproof.protocols.central_coordinator.reports import SENTENCES, VOCABULARY, What


@pytest.mark.parametrize("what", sorted(SENTENCES))
def test_a_sentence_says_what_its_report_has(what: str) -> None:
    """The details that it names are those that its docstring lists, or the group."""
    named = set(re.findall(r"{(\w+)}", SENTENCES[what])) - {"group"}
    listed = {
        member.value: re.findall(r"\w+", text)
        for member, text in zip(What, documented(), strict=True)
    }

    assert named <= set(listed[what])


def documented() -> list[str]:
    """The docstrings of the names, in their order."""
    source = Path(str(reports.__file__)).read_text(encoding="utf-8")
    [body] = re.findall(r"class What\(StrEnum\):(.*?)\n\n\n", source, re.DOTALL)
    return re.findall(r'= "\w+"\n    """(.*?)"""', body, re.DOTALL)


def test_what_has_no_sentence_is_called_by_its_name() -> None:
    """And a detail that is missing spoils no line."""
    assert VOCABULARY.sentence("something", {"group": "g"}) == "something"
    assert VOCABULARY.sentence(What.MEMBER_LOST, {"group": "g"}) == "consumer ? has left group g: ?"


def test_nothing_is_said_in_the_numbers_of_drafts() -> None:
    """Whoever reads a log has no draft at hand."""
    assert not [text for text in SENTENCES.values() if re.search(r"\d\.\d", text)]


def test_an_id_cannot_forge_a_line() -> None:
    """Ids are what clients say they are."""
    said = {"group": "evil\n2026 ERROR all is lost", "consumer": "c\x1b[2J", "members": 1}

    told = VOCABULARY.sentence(What.MEMBER_JOINED, said)

    assert told.isprintable()
    assert "evil\\n2026 ERROR" in told
