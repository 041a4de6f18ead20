"""`topic_count`, and a partition's string: what they may say, and what is said of the rest."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import time
from weakref import WeakValueDictionary

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming import subscription as subscription_module
from herdproof.consuming.offsets import text_of
from herdproof.consuming.subscription import (
    MAX_STREAMS,
    REFUSALS,
    InvalidSubscription,
    Named,
    Wildcard,
    named,
    parse,
    wildcard,
)
from herdproof.errors import HerdError
from herdproof.protocols.central_coordinator.wire import partition
from herdproof.protocols.central_coordinator.wire.errors import WireError
from herdproof.protocols.central_coordinator.wire.messages import ErrorCode

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True).filter(
    lambda name: name not in (".", "..")
)
counts = st.integers(1, MAX_STREAMS)


def test_named_topics_are_json() -> None:
    """`{"topic": n}` names topics with their number of streams each; of others there are none."""
    subscription = parse('{"payments": 1, "orders": 2}')

    assert subscription == Named((("orders", 2), ("payments", 1)))
    assert not subscription.is_wildcard
    assert [subscription.streams(topic) for topic in ("orders", "payments", "a", "p", "z")] == [
        2, 1, 0, 0, 0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "matches", "others"),
    [
        ("*3*orders.*", ["orders", "orders-eu"], ["my-orders", "Orders", "order"]),
        ("!3!orders.*", ["my-orders", "Orders", "order"], ["orders", "orders-eu"]),
        ("*3*a|b", ["a", "b"], ["ab", "aa", ""]),
        ("*3*^a$", ["a"], ["aa", "a\n"]),
        ("*3*.*", ["a"], ["__consumer_offsets", "__transaction_state"]),
        ("!3!a", ["b"], ["a", "__consumer_offsets"]),
        ("*3*a*b", ["b", "aab"], ["a*b"]),
    ],
)
def test_a_wildcard_means_whole_names(text: str, matches: list[str], others: list[str]) -> None:
    """`*n*regex` means the topics whose whole name matches, `!n!regex` those whose does not."""
    subscription = parse(text)

    assert subscription.is_wildcard
    assert [subscription.streams(topic) for topic in matches] == [3] * len(matches)
    assert [subscription.streams(topic) for topic in others] == [0] * len(others)


@given(st.dictionaries(topics, counts, min_size=1, max_size=8))
def test_named_topics_are_read_back(streams: dict[str, int]) -> None:
    """A subscription to named topics is read back from its text, and knows its own numbers."""
    subscription = named(streams)
    assert parse(subscription.text()) == subscription
    assert {topic: subscription.streams(topic) for topic in streams} == streams


@given(st.sampled_from(["a.*", "*", "[*!]2", "x|\n"]), counts, st.booleans())
def test_wildcards_are_read_back(regex: str, count: int, excluding: bool) -> None:
    """A wildcard is read back from its text, whatever marks stand in its regex."""
    if regex == "*":
        regex = "\\*"
    subscription = wildcard(regex, count, excluding=excluding)
    assert parse(subscription.text()) == subscription == Wildcard(regex, count, excluding)


WRONG = {
    "": "'' is neither JSON nor a wildcard",
    "orders": "'orders' is neither JSON nor a wildcard",
    "{}": 'no topic is named; write {"topic": number of streams}',
    "[1]": "'[1]' is no JSON object",
    "2": "'2' is no JSON object",
    '{"a": 0}': "the number of streams of topic 'a' is '0', not one from 1 to 1024",
    '{"a": 1025}': "the number of streams of topic 'a' is '1025'",
    '{"a": -1}': "the number of streams of topic 'a' is '-1'",
    '{"a": true}': "the number of streams of topic 'a' is 'True'",
    '{"a": 1.0}': "the number of streams of topic 'a' is '1.0'",
    '{"a": "1"}': "the number of streams of topic 'a' is '1'",
    '{"a": NaN}': "the number of streams of topic 'a' is 'nan'",
    '{"a": 1, "a": 2}': "topic 'a' is named twice",
    '{"b": 1, "a/b": 1}': "'a/b' cannot be a topic's name",
    '{"": 1}': "'' cannot be a topic's name",
    '{"..": 1}': "'..' cannot be a topic's name",
    '{"a/b": 1}': "'a/b' cannot be a topic's name",
    '{"ü": 1}': "'ü' cannot be a topic's name",
    f'{{"{"a" * 250}": 1}}': "cannot be a topic's name: 1 to 249 of",
    "*2*": "the regex is empty",
    "*2*(": "the regex '(' is none of RE2's",
    "*2*(?!a).*": "no look-around and no back-references",
    r"*2*(a)\1": "no look-around and no back-references",
    "*0*a": "the number of streams of the wildcard is '0'",
    "*2!a": "'*2!a' is no wildcard; write *2*regex for two streams",
    "!a": "'!a' is no wildcard; write !2!regex for two streams",
    "**a": "'**a' is no wildcard",
    "*-1*a": "'*-1*a' is no wildcard",
    "*٣*a": "is no wildcard",
    "*2*\ud800": "has no UTF-8",
    "[" * 30_000: "is neither JSON nor a wildcard",
    '{"a": ' + "9" * 5000 + "}": "is neither JSON nor a wildcard",
    '{"a": 1e999}': "the number of streams of topic 'a' is 'inf'",
    "*2*" + "(a{1000})" * 100: "is too large: compiled it takes more than 131,072 bytes",
    "*2*" + "(a{1000})" * 1000: "has 9,000 characters, more than 1,024",
    "*2*" + r"\pL" * 9: "has 9 Unicode classes (\\p), more than 8; topics' names are ASCII",
    "*2*" + r"\PL" * 8: "is too large: compiled it takes more than 131,072 bytes",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:12])
def test_what_is_wrong_is_said(text: str) -> None:
    """A subscription that is none is refused, and what is wrong with it is said, in few words."""
    with pytest.raises(InvalidSubscription, match=re.escape(WRONG[text])) as caught:
        parse(text)
    assert isinstance(caught.value, HerdError)
    assert len(str(caught.value)) < 400


@given(st.text(max_size=40) | st.text('*!0123{}[]":,a', max_size=20))
def test_any_text_is_a_subscription_or_refused(text: str) -> None:
    """Any text is a subscription or refused as `InvalidSubscription`, in no other way."""
    try:
        subscription = parse(text)
    except InvalidSubscription:
        return
    assert parse(subscription.text()) == subscription


def test_no_regex_takes_long() -> None:
    """A regex on which backtracking takes ages is matched at once: it runs in the coordinator."""
    name = "a" * 248 + "!"
    started = time.thread_time()
    assert parse("*1*(a+)+$").streams(name) == 0
    assert parse("*1*" + "a?" * 200 + "a" * 200).streams(name) == 0
    assert time.thread_time() - started < 5


# ── What a regex costs ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What RE2 is told to compile, in order; nothing is known of any regex before."""
    told: list[str] = []
    really = re2.compile

    def compile_and_tell(regex: str, options: re2.Options) -> re2._Regexp:
        told.append(regex)
        return really(regex, options)

    monkeypatch.setattr(re2, "compile", compile_and_tell)
    monkeypatch.setattr(subscription_module, "_PATTERNS", WeakValueDictionary())
    monkeypatch.setattr(subscription_module, "_REFUSED", {})
    return told


def test_what_would_take_long_to_compile_is_refused_before(compiled: list[str]) -> None:
    """Neither a long regex nor one of many Unicode classes gets as far as RE2."""
    for regex in ("a" * 1_025, r"\pL" * 10_900, r"\PL" * 9):
        with pytest.raises(InvalidSubscription, match="more than"):
            parse(f"*1*{regex}")

    assert compiled == []
    assert parse("*1*" + "a" * 1_024).streams("a" * 1_024) == 1


def test_a_refused_regex_is_compiled_once(compiled: list[str]) -> None:
    """To refuse a regex again costs nothing, and says the same."""
    said = []
    for _ in range(3):
        for regex in ("(", r"\PL" * 8):
            with pytest.raises(InvalidSubscription) as caught:
                parse(f"*1*{regex}")
            said.append(str(caught.value))

    assert compiled == ["(", r"\PL" * 8]
    assert said == said[:2] * 3


def test_only_so_many_refusals_are_remembered(compiled: list[str]) -> None:
    """Refusals take no more memory than so many; the oldest is forgotten."""
    for number in range(REFUSALS + 1):
        with pytest.raises(InvalidSubscription):
            parse(f"*1*({number}")

    assert len(compiled) == REFUSALS + 1
    assert len(subscription_module._REFUSED) == REFUSALS
    assert "(0" not in subscription_module._REFUSED


def test_every_wildcard_in_use_is_compiled_once(compiled: list[str]) -> None:
    """However many distinct wildcards there are, matching compiles none of them again."""
    wildcards = [parse(f"*1*orders-{number}-.*") for number in range(600)]

    for topic in ("orders-1-a", "orders-2-b", "payments"):
        assert sum(wildcard.streams(topic) for wildcard in wildcards) == (topic != "payments")

    assert len(compiled) == len(wildcards)


def test_a_compiled_regex_is_shared_and_lives_as_long_as_it_is_used(compiled: list[str]) -> None:
    """Who wants the same shares one; when the last wildcard of it is gone, so is it."""
    one, other = parse("*1*a.*"), parse("!2!a.*")
    assert isinstance(one, Wildcard)
    assert isinstance(other, Wildcard)
    assert one.pattern is other.pattern
    assert compiled == ["a.*"]

    del one, other
    gc.collect()

    assert not subscription_module._PATTERNS


def test_a_wildcard_can_be_copied_and_pickled() -> None:
    """A copy is equal and matches the same; a compiled regex is never written anywhere."""
    wildcard = parse("!2!a.*")

    for other in (copy.deepcopy(wildcard), pickle.loads(pickle.dumps(wildcard))):
        assert other == wildcard
        assert hash(other) == hash(wildcard)
        assert [other.streams(topic) for topic in ("a1", "b")] == [0, 2]


# ── A partition's string ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("12", 12), ("0-3", 3), ("4711-12", 12), ("007", 7)]
)
def test_a_partition_s_number_is_read_from_both_of_its_forms(text: str, number: int) -> None:
    """A partition is its number, or `002`'s broker and number."""
    assert partition.number_of(text) == number
    assert partition.number_of(text_of(number)) == number


@pytest.mark.parametrize("text", ["", "-1", "a", "1-", "-", "1-2-3", "1 ", "٣", "9" * 10, "1\n"])
def test_another_string_is_no_partition(text: str) -> None:
    """Any other string is refused, none is guessed at."""
    with pytest.raises(WireError, match="is no partition") as caught:
        partition.number_of(text)
    assert caught.value.code is ErrorCode.MALFORMED
