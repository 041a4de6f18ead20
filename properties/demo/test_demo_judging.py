"""What a demonstration comes to: 0 where the contract held, 1 where not, 3 where nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from herdproof.cli.run.demo.judging import concluded
from herdproof.cli.run.demo.observation import Delivery, Observations
from herdproof.pipeline.audit.summary import Summary
from properties.demo.canned import observations

HOLDS = Summary("8 traces", 9, 9, {}, 1, 1, {"exclusive": {"holds": 1}}, [], 0, [])
UNKNOWN = replace(HOLDS, verdicts={"exclusive": {"unknown": 1}}, unknown=["lines are missing (1)"])
VIOLATED = replace(HOLDS, verdicts={"exclusive": {"violated": 1}}, violations=2)


def two_at_once() -> Observations:
    """Consumer 2 is given a record amid consumer 1's."""
    seen = observations()
    seen.delivered(Delivery("9", 1, 0, 5, 7, 1_010.0, 1_010.01))
    return seen


def one_lost() -> Observations:
    """A record that nobody was given, below others that were."""
    seen = observations()
    seen.sent(0, -1)
    return seen


def one_waiting() -> Observations:
    """A last record that nobody was given so far."""
    seen = observations()
    seen.sent(0, 10_000)
    return seen


@pytest.mark.parametrize(
    ("summary", "seen", "code", "words"),
    [
        (HOLDS, observations(), 0, "of 720 records none was lost"),
        (UNKNOWN, observations(), 3, "could not judge all: lines are missing (1)."),
        (VIOLATED, observations(), 1, "2 × a violation that the audit found"),
        (HOLDS, two_at_once(), 1, "1 × a partition read by two at once"),
        (UNKNOWN, two_at_once(), 1, "read by two at once"),
        (HOLDS, one_lost(), 1, "1 × a record lost"),
        (HOLDS, one_waiting(), 3, "1 record had been given to nobody"),
        (VIOLATED, one_waiting(), 1, "2 × a violation"),
    ],
)
def test_what_it_comes_to(summary: Summary, seen: Observations, code: int, words: str) -> None:
    """A failure outweighs an unknown, and either source is enough for both."""
    found, sentence = concluded(summary, seen)

    assert found == code
    assert words in sentence


def test_an_audit_that_saw_nothing_is_unknown() -> None:
    """Traces without a verdict show nothing."""
    code, sentence = concluded(replace(HOLDS, verdicts={}), observations())

    assert code == 3
    assert sentence == "Unknown: the audit could not judge all."
