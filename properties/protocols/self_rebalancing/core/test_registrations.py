"""Registrations and filters of self-rebalancing consumers: read and written as Kafka 0.8 does."""

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.consuming.subscription import InvalidSubscription, Named, Wildcard
from herdproof.protocols.self_rebalancing.registries.filters import TopicFilter, cleaned
from herdproof.protocols.self_rebalancing.registries.paths import GroupDirs, UnusableName, parents
from herdproof.protocols.self_rebalancing.registries.registrations import (
    BadRegistration,
    ConsumerRegistration,
    SubscriptionPattern,
    encoded,
    parsed,
    registration_of,
)

OF_A_REAL_CONSUMER = (
    b'{"version":1,"subscription":{"t1":1},"pattern":"white_list","timestamp":"1763724923441"}'
)
"""What a console consumer of Kafka 0.8.2.2 wrote."""

Pattern = SubscriptionPattern

TOPICS = st.from_regex(r"\A[a-zA-Z0-9_-]{1,20}\Z")
REGEXES = st.sampled_from(["t1", "orders|payments.*", r"[a-z]+\d{2,3}", r"(?:a|b)c\.d", "^x$"])
REGISTRATIONS = st.one_of(
    st.builds(
        lambda topics, at: ConsumerRegistration(tuple(sorted(topics.items())), Pattern.STATIC, at),
        st.dictionaries(TOPICS, st.integers(1, 1024), max_size=5), st.integers(0, 2**53),
    ),
    st.builds(
        lambda regex, threads, lists: ConsumerRegistration(((regex, threads),), lists, 7),
        REGEXES, st.integers(1, 1024), st.sampled_from([Pattern.WHITE_LIST, Pattern.BLACK_LIST]),
    ),
)  # fmt: skip


def test_a_real_registration_is_read_and_written_to_the_byte() -> None:
    """What a real consumer of 0.8 registered is understood, and written again it is the same."""
    found = parsed(OF_A_REAL_CONSUMER)

    assert found.pattern is Pattern.WHITE_LIST
    assert (found.threads("t1"), found.threads("t11")) == (1, 0)
    assert encoded(found) == OF_A_REAL_CONSUMER


@given(REGISTRATIONS)
def test_what_is_written_is_read_again(registration: ConsumerRegistration) -> None:
    """Every registration that is written is read as it was, timestamp and all."""
    assert parsed(encoded(registration)) == registration


def test_a_regex_is_escaped_as_0_8_escapes_it() -> None:
    """Backslashes and slashes of a regex are escaped in the node's JSON."""
    written = encoded(ConsumerRegistration(((r"a\.b\/c", 1),), Pattern.WHITE_LIST))

    assert rb'{"a\\.b\\\/c":1}' in written


BAD = {
    b"": "it is no JSON",
    b"t1": "it is no JSON",
    b"\xff\xfe{}": "it is no JSON",
    b"[" * 100_000: "it is no JSON",
    b"[1]": "it is no JSON object",
    b'{"subscription":{"t":1},"pattern":"static"}': "its version is None, not 1",
    b'{"version":2,"subscription":{"t":1},"pattern":"static"}': "its version is 2, not 1",
    b'{"version":true,"subscription":{"t":1},"pattern":"static"}': "its version is True, not 1",
    b'{"version":1,"pattern":"static"}': "its subscription is None, no map",
    b'{"version":1,"subscription":["t"],"pattern":"static"}': "no map of topics to threads",
    b'{"version":1,"subscription":{"t":0},"pattern":"static"}': "0 threads for 't', not 1 to 1024",
    b'{"version":1,"subscription":{"t":1000000},"pattern":"static"}': "1000000 threads for 't'",
    b'{"version":1,"subscription":{"t":true},"pattern":"static"}': "True threads for 't'",
    b'{"version":1,"subscription":{"t":"1"},"pattern":"static"}': "'1' threads for 't'",
    b'{"version":1,"subscription":{"t":1}}': "its pattern is None, none of static",
    b'{"version":1,"subscription":{"t":1},"pattern":"grey_list"}': "its pattern is 'grey_list'",
    b'{"version":1,"subscription":{"a":1,"b":1},"pattern":"white_list"}': "has 2 regexes, not one",
    b'{"version":1,"subscription":{"a/b":1},"pattern":"static"}': "cannot be a topic's name",
    b'{"version":1,"subscription":{"(?=a)b":1},"pattern":"white_list"}': "none of RE2's",
    b'{"version":1,"subscription":{"a++":1},"pattern":"black_list"}': "none of RE2's",
    b'{"version":1,"subscription":{"[a-z&&[^b]]":1},"pattern":"white_list"}': "may not read alike",
    b'{"version":1,"subscription":{"[[:alpha:]]":1},"pattern":"white_list"}': "may not read alike",
    b'{"version":1,"subscription":{"a{":1},"pattern":"white_list"}': "may not read alike",
}


@pytest.mark.parametrize("data", BAD, ids=lambda data: data[:60].decode("ascii", "replace"))
def test_what_is_wrong_with_a_registration_is_said(data: bytes) -> None:
    """A node that is no registration is refused, and what is wrong with it is said in few words."""
    with pytest.raises(BadRegistration, match=re.escape(BAD[data])) as caught:
        parsed(data)

    assert len(str(caught.value)) < 300


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.dictionaries(
            st.sampled_from(["version", "subscription", "pattern", "timestamp", "static", "t"]),
            inner, max_size=4,
        ),
    ).map(lambda found: json.dumps(found).encode())
)  # fmt: skip
def test_any_bytes_are_a_registration_or_refused(data: bytes) -> None:
    """Whatever stands in a node is a registration or refused as `BadRegistration`, nothing else."""
    with contextlib.suppress(BadRegistration):
        assert isinstance(parsed(data), ConsumerRegistration)


def test_a_wildcard_without_a_regex_wants_nothing() -> None:
    """A white list without a regex is what 0.8 takes it for: no topics."""
    found = parsed(b'{"version":1,"subscription":{},"pattern":"white_list","timestamp":1}')

    assert (found.is_wildcard, found.threads("t"), found.topics_of(["t"])) == (False, 0, ())


@pytest.mark.parametrize(
    ("written", "regex"),
    [
        ("a,b", "a|b"),
        (" a , b ", "a|b"),
        ("\"'orders.*'\"", "orders.*"),
        ("' a'", "a"),
        ("it's", "it's"),
    ],
)
def test_a_filter_is_cleaned_as_0_8_does(written: str, regex: str) -> None:
    """A comma means "or"; blanks go, and quotes at both ends."""
    assert cleaned(written) == regex


def test_the_whole_name_has_to_match() -> None:
    """A white list allows what it matches as a whole, a black list all else."""
    white, black = TopicFilter("orders|pay.*"), TopicFilter("orders|pay.*", excluding=True)
    topics = ["orders", "orders2", "payments", "xpay", "__consumer_offsets"]

    assert [t for t in topics if white.is_topic_allowed(t)] == ["orders", "payments"]
    assert [t for t in topics if black.is_topic_allowed(t)] == ["orders2", "xpay"]


def test_internal_topics_are_left_out() -> None:
    """Neither list takes Kafka's offsets in; of a later Kafka's topics, 0.8 knows nothing."""
    everything = TopicFilter(".*")

    assert not everything.is_topic_allowed("__consumer_offsets")
    assert everything.is_topic_allowed("__transaction_state")


def test_a_subscription_becomes_a_registration() -> None:
    """Named topics are static, wildcards a white or a black list, cleaned."""
    static = registration_of(Named((("a", 2), ("b", 1))), 5)
    white = registration_of(Wildcard("a.*, b", 3), 5)

    assert static == ConsumerRegistration((("a", 2), ("b", 1)), Pattern.STATIC, 5)
    assert white == ConsumerRegistration((("a.*|b", 3),), Pattern.WHITE_LIST, 5)
    black = registration_of(Wildcard("a.*", 1, excluding=True), 5)
    assert black.pattern is Pattern.BLACK_LIST
    assert black.topics_of(["b", "a1", "__consumer_offsets", "a"]) == ("b",)


def test_a_filter_that_java_reads_otherwise_cannot_be_registered() -> None:
    """Our own members' filters keep to what every member reads alike, too."""
    with pytest.raises(InvalidSubscription, match="may not read alike"):
        registration_of(Wildcard("[a[bc]]", 1), 5)


@pytest.mark.parametrize("group", ["", "a/b", ".", "..", "a\nb", "a\0b", "a\ud800"])
def test_a_group_that_no_node_can_be_called_is_refused(group: str) -> None:
    """A group has its name as its node's, as in 0.8: what none can be called is refused."""
    with pytest.raises(UnusableName, match="cannot be a group's name"):
        GroupDirs(group)


def test_a_group_has_its_nodes_where_0_8_has_them() -> None:
    """Registrations, owners and offsets lie where strangers look for them."""
    dirs = GroupDirs("g")

    assert dirs.id("g_host-1-0a1b2c3d") == "/consumers/g/ids/g_host-1-0a1b2c3d"
    assert dirs.owner(("t", "0")) == "/consumers/g/owners/t/0"
    assert dirs.offset(("t", "0")) == "/consumers/g/offsets/t/0"
    assert list(parents(dirs.owner(("t", "0")))) == [
        "/consumers", "/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t"
    ]  # fmt: skip
