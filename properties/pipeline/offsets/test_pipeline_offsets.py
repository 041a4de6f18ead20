"""
Every record that Kafka writes to `__consumer_offsets` is read; whatever is none is said to be none.

Reference: apache/kafka, group-coordinator/src/main/resources/common/message (3.7 to 4.3)
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdproof.consuming.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    read_assignment,
    read_subscription,
)
from herdproof.consuming.layouts import Field, Layout
from herdproof.errors import Malformed
from herdproof.pipeline.offsets.records import (
    KINDS,
    read_key,
    read_value,
)
from properties.pipeline.offsets.offset_records import encoded

GOLDEN = [
    line.split()
    for line in Path(__file__).with_name("offsets_golden.txt").read_text().splitlines()
    if not line.startswith("#")
]
TOPIC_ID = "ESIzRFVmd4iZqrvM3e7_AA"
OWNED = [("orders", 0), ("orders", 1), ("payments", 3)]
VALUES = {kind.name: kind for kind in KINDS.values()}

LAYOUTS = [
    *(layout for kind in {id(k): k for k in KINDS.values()}.values() for layout in kind.values),
    SUBSCRIPTION,
    ASSIGNMENT,
]
VERSIONS = [(one, version) for one in LAYOUTS for version in range(one.first, one.last + 1)]


def golden(name: str, kafka: str = "") -> bytes:
    """The bytes of that name, as that Kafka writes them."""
    (found,) = {data for versions, known, data in GOLDEN if known == name and kafka in versions}
    return bytes.fromhex(found)


def read_golden(name: str, data: bytes) -> Any:
    """A golden, read as what its name says."""
    base = name.partition(".")[0]
    if base.endswith("Key"):
        return read_key(data)
    if base == "ConsumerProtocolSubscription":
        return read_subscription(data)
    if base == "ConsumerProtocolAssignment":
        return read_assignment(data)
    return read_value(VALUES[base.removesuffix("Value")], data)


# ── What Kafka's own classes write ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", range(5))
def test_offset_commits_are_read_in_every_version(version: int) -> None:
    """An offset, and what the version has besides."""
    found = read_value(VALUES["OffsetCommit"], golden(f"OffsetCommitValue.{version}", "4.3.1"))

    also: list[dict[str, Any]] = [
        {},
        {"expire_timestamp": 1700000009999},
        {},
        {"leader_epoch": 5},
        {"leader_epoch": 5, "topic_id": TOPIC_ID},
    ]
    assert found == {
        "offset": 1234567890123, "metadata": "mé", "commit_timestamp": 1700000000123,
        **also[version],
    }  # fmt: skip


def test_an_offset_commit_of_before_4_1_has_no_topic_id() -> None:
    """The tagged field came later, within version 4."""
    found = read_value(VALUES["OffsetCommit"], golden("OffsetCommitValue.4", "3.9.1"))

    assert found["topic_id"] is None


@pytest.mark.parametrize("version", range(5))
def test_generations_are_read_in_every_version(version: int) -> None:
    """A generation, its members, and what each wants and is to have."""
    found = read_value(VALUES["GroupMetadata"], golden(f"GroupMetadataValue.{version}"))

    assert (found["generation"], found["protocol"], found["leader"]) == (7, "range", "c1-uuid")
    assert found.get("current_state_timestamp") == (1700000000456 if version >= 2 else None)
    first, second = found["members"]
    assert (first["client_id"], first["client_host"]) == ("c1", "/10.0.0.1")
    assert first.get("group_instance_id") == ("static-1" if version >= 3 else None)
    assert first.get("rebalance_timeout") == (300000 if version >= 1 else None)
    assert read_subscription(first["subscription"])["topics"] == ["orders", "payments"]
    assert read_assignment(first["assignment"]) == OWNED
    assert read_assignment(second["assignment"]) == []


@pytest.mark.parametrize("version", range(5))
def test_an_empty_generation_is_read_in_every_version(version: int) -> None:
    """A group that all have left has a generation too."""
    found = read_value(VALUES["GroupMetadata"], golden(f"GroupMetadataValue.empty.{version}"))

    assert (found["generation"], found["protocol"], found["members"]) == (8, None, [])


@pytest.mark.parametrize("version", range(4))
def test_what_members_embed_is_read_in_every_version(version: int) -> None:
    """Subscriptions and assignments are the clients' own messages."""
    wanted = read_subscription(golden(f"ConsumerProtocolSubscription.{version}"))

    assert wanted["topics"] == ["orders", "payments"]
    assert wanted.get("generation_id") == (6 if version >= 2 else None)
    assert wanted.get("rack_id") == ("r1" if version >= 3 else None)
    assert read_assignment(golden(f"ConsumerProtocolAssignment.{version}")) == OWNED


def test_a_later_version_of_what_members_embed_is_read_as_the_last_known() -> None:
    """As clients do: later versions add fields at the end."""
    later = b"\x00\x09" + golden("ConsumerProtocolAssignment.3")[2:] + b"new"

    assert read_assignment(later) == OWNED


@pytest.mark.parametrize("kafka", ["3.7.2", "3.9.1", "4.3.1"])
def test_what_members_of_kip_848_have_is_read(kafka: str) -> None:
    """Kafka 3.7 wrote these values otherwise, and called them by the same version."""
    has = read_value(
        VALUES["ConsumerGroupCurrentMemberAssignment"],
        golden("ConsumerGroupCurrentMemberAssignmentValue.0", kafka),
    )
    meant = read_value(
        VALUES["ConsumerGroupTargetAssignmentMember"],
        golden("ConsumerGroupTargetAssignmentMemberValue.0", kafka),
    )
    member = read_value(
        VALUES["ConsumerGroupMemberMetadata"], golden("ConsumerGroupMemberMetadataValue.0", kafka)
    )
    topics = read_value(
        VALUES["ConsumerGroupPartitionMetadata"],
        golden("ConsumerGroupPartitionMetadataValue.0", kafka),
    )

    assert (has["member_epoch"], has["previous_member_epoch"]) == (11, 10)
    assert has.get("state") == (None if kafka == "3.7.2" else 1)
    (assigned,), (pending,) = has["assigned_partitions"], has["partitions_pending_revocation"]
    assert (assigned["topic_id"], assigned["partitions"]) == (TOPIC_ID, [0, 1])
    assert pending["partitions"] == [2]
    assert meant["topic_partitions"][0]["partitions"] == [0, 1, 2]
    assert (member["instance_id"], member["rack_id"]) == ("i1", None)
    assert member["subscribed_topic_names"] == ["orders"]
    (topic,) = topics["topics"]
    assert (topic["topic_id"], topic["topic_name"]) == (TOPIC_ID, "orders")
    assert topic["partition_metadata"] == [{"partition": 0, "racks": ["r1", "r2"]}]


def test_epochs_and_tagged_fields_of_kip_848_are_read() -> None:
    """Tagged fields of 4.1 and later are there or not, within version 0."""
    epoch, target = VALUES["ConsumerGroupMetadata"], VALUES["ConsumerGroupTargetAssignmentMetadata"]
    plain = read_value(epoch, golden("ConsumerGroupMetadataValue.0"))
    tagged = read_value(epoch, golden("ConsumerGroupMetadataValue.tagged.0"))
    timed = read_value(target, golden("ConsumerGroupTargetAssignmentMetadataValue.tagged.0"))

    assert plain == {"epoch": 11, "metadata_hash": None, "creation_time_ms": None}
    assert tagged == {"epoch": 11, "metadata_hash": -77, "creation_time_ms": None}
    assert timed == {"assignment_epoch": 11, "assignment_timestamp": 1700000001111}
    assert read_value(target, golden("ConsumerGroupTargetAssignmentMetadataValue.0"))
    classic = read_value(
        VALUES["ConsumerGroupMemberMetadata"], golden("ConsumerGroupMemberMetadataValue.classic.0")
    )["classic_member_metadata"]
    assert classic["supported_protocols"][0]["name"] == "range"
    wild = read_value(
        VALUES["ConsumerGroupRegularExpression"], golden("ConsumerGroupRegularExpressionValue.0")
    )
    assert wild == {"topics": ["orders"], "version": 3, "timestamp": 1700000002222}


@pytest.mark.parametrize(
    ("name", "kind", "group", "more"),
    [
        ("OffsetCommitKey.0", "OffsetCommit", "gé", {"topic": "orders", "partition": 7}),
        ("OffsetCommitKey.1", "OffsetCommit", "gé", {"topic": "orders", "partition": 7}),
        ("GroupMetadataKey.2", "GroupMetadata", "gé", {}),
        ("ConsumerGroupMetadataKey.3", "ConsumerGroupMetadata", "kip", {}),
        ("ConsumerGroupPartitionMetadataKey.4", "ConsumerGroupPartitionMetadata", "kip", {}),
        ("ConsumerGroupMemberMetadataKey.5", "ConsumerGroupMemberMetadata", "kip",
         {"member": "m1"}),
        ("ConsumerGroupTargetAssignmentMetadataKey.6", "ConsumerGroupTargetAssignmentMetadata",
         "kip", {}),
        ("ConsumerGroupTargetAssignmentMemberKey.7", "ConsumerGroupTargetAssignmentMember", "kip",
         {"member": "m1"}),
        ("ConsumerGroupCurrentMemberAssignmentKey.8", "ConsumerGroupCurrentMemberAssignment",
         "kip", {"member": "m1"}),
        ("ShareGroupMetadataKey.11", "ShareGroupMetadata", "share", {}),
        ("ConsumerGroupRegularExpressionKey.16", "ConsumerGroupRegularExpression", "kip",
         {"expression": "or.*"}),
        ("StreamsGroupMetadataKey.17", "StreamsGroupMetadata", "streams", {}),
    ],
)  # fmt: skip
def test_keys_are_read(name: str, kind: str, group: str, more: dict[str, Any]) -> None:
    """A key's first two bytes are its kind."""
    found = read_key(golden(name))

    assert (found.kind.name, found.group) == (kind, group)
    assert found.values == {"group": group, **more}


def test_kafka_writes_the_same_bytes_since_3_7_where_nothing_has_changed() -> None:
    """The goldens cover what they should: each layout in each of its versions."""
    names = {name for _, name, _ in GOLDEN}

    for one, version in VERSIONS:
        if not one.name.endswith("of 3.7"):
            assert f"{one.name}.{version}" in names, one.name
    assert {kafka for versions, _, _ in GOLDEN for kafka in versions.split(",")} == {
        "3.7.2", "3.9.1", "4.3.1",
    }  # fmt: skip


def test_groups_of_other_kinds_are_known_by_name() -> None:
    """Share and streams groups: their keys name the group, their values are not looked into."""
    for number, kind in KINDS.items():
        if kind.name.startswith(("Share", "Streams")):
            words = b"\x00\x01g" * len(kind.key.fields())
            assert read_key(number.to_bytes(2, "big") + words).group == "g"
            assert read_value(kind, b"whatever") == {}


# ── Another hand writes what we read ────────────────────────────────────────────────────────

WHOLE = {8: (-(2**7), 2**7 - 1), 16: (-(2**15), 2**15 - 1), 32: (-(2**31), 2**31 - 1)}


def values_of(layout: Layout, version: int, struct: str = "") -> st.SearchStrategy[dict[str, Any]]:
    """Values of a message: those fields that the version has."""
    there = [f for f in layout.fields(struct) if f.first <= version <= f.last]
    return st.fixed_dictionaries({f.name: value_of(layout, version, f) for f in there})


def value_of(layout: Layout, version: int, field: Field) -> st.SearchStrategy[Any]:
    """Values of a field."""
    inner = field.kind.removeprefix("[]")
    one: st.SearchStrategy[Any]
    if inner.startswith("int"):
        bits = int(inner[3:])
        least, most = WHOLE.get(bits, (-(2**63), 2**63 - 1))
        one = st.integers(least, most)
    elif inner == "uuid":
        one = st.binary(min_size=16, max_size=16).map(
            lambda b: base64.urlsafe_b64encode(b).decode().rstrip("=")
        )
    elif inner in ("string", "bytes"):
        one = st.text(max_size=5) if inner == "string" else st.binary(max_size=5)
    else:
        one = values_of(layout, version, inner)
    if field.kind.startswith("[]"):
        one = st.lists(one, max_size=3)
    if field.tag is not None and not field.nullable:
        one = one.filter(bool)  # what is no more than the default is not written
    return st.none() | one if field.nullable else one


@pytest.mark.parametrize(("layout", "version"), VERSIONS, ids=lambda x: getattr(x, "name", x))
@settings(max_examples=15)
@given(data=st.data())
def test_what_kafka_pythons_encoder_writes_is_read_back(
    layout: Layout, version: int, data: st.DataObject
) -> None:
    """Every message in every version: what was written is what is read."""
    values = data.draw(values_of(layout, version))

    found = layout.read(encoded(layout, version, values), 2, version)

    assert found == values


# ── What is no record ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "data"), [(name, data) for _, name, data in GOLDEN])
def test_a_record_that_is_cut_off_anywhere_is_malformed(name: str, data: str) -> None:
    """No part of a record is taken for a whole one."""
    whole = bytes.fromhex(data)
    read_golden(name, whole)

    taken = {end for end in range(len(whole)) if outcome(name, whole[:end]) is None}

    if name.startswith("ConsumerProtocolAssignment"):
        assert taken == {0}, "nothing is assigned"
    elif name == "ConsumerGroupMemberMetadataValue.classic.0":
        assert len(taken) == 1, "one part of it is what Kafka 3.7 wrote"
    else:
        assert not taken


def outcome(name: str, data: bytes) -> Malformed | None:
    """What reading raises: `Malformed` or nothing."""
    try:
        read_golden(name, data)
    except Malformed as wrong:
        return wrong
    return None


@settings(max_examples=300)
@given(which=st.sampled_from(GOLDEN), where=st.integers(0, 400), what=st.integers(1, 255))
def test_a_changed_byte_is_read_or_malformed(which: list[str], where: int, what: int) -> None:
    """Nothing else comes of it, whatever it makes of lengths and counts."""
    _, name, data = which
    changed = bytearray.fromhex(data)
    changed[where % len(changed)] ^= what

    wrong = outcome(name, bytes(changed))

    assert wrong is None or (wrong.reason in ("malformed", "unknown_version") and wrong.why)


@settings(max_examples=300)
@given(which=st.sampled_from(GOLDEN), head=st.integers(-1, 25), data=st.binary(max_size=60))
def test_garbage_is_malformed_or_happens_to_be_a_record(
    which: list[str], head: int, data: bytes
) -> None:
    """Neither key nor value raises anything but what is documented."""
    for garbage in (data, head.to_bytes(2, "big", signed=True) + data):
        wrong = outcome(which[1], garbage)

        assert wrong is None or wrong.why


@pytest.mark.parametrize(
    ("data", "reason", "why"),
    [
        (None, "malformed", "no key"),
        (b"", "malformed", "no version"),
        (b"\x00", "malformed", "1 are left"),
        (b"\x00\x63", "unknown_version", "begins with 99"),
        (b"\xff\xff", "unknown_version", "begins with -1"),
        (b"\x00\x02\xff\xff", "malformed", "group: a length is -1"),
        (b"\x00\x02\x00\x01\xff", "malformed", "no UTF-8"),
        (b"\x00\x02\x00\x01gg", "malformed", "1 bytes too many"),
        (b"\x00\x02\x7f\xffgg", "malformed", "32767 bytes are needed, 2 are left"),
    ],
)
def test_what_is_wrong_with_a_key_is_said(data: bytes | None, reason: str, why: str) -> None:
    """In words that name the field."""
    with pytest.raises(Malformed, match=why) as found:
        read_key(data)

    assert found.value.reason == reason


@pytest.mark.parametrize(
    ("kind", "data", "reason", "why"),
    [
        ("OffsetCommit", "0005" + "00" * 30, "unknown_version", "v5; known are 0 to 4"),
        ("OffsetCommit", "ffff", "unknown_version", "v-1"),
        ("OffsetCommit", "0003" + "00" * 9, "malformed", "leader_epoch: 4 bytes are needed"),
        ("GroupMetadata", "0000000163" + "00000001" + "ffffffff" + "7fffffff", "malformed",
         "members: a count is 2147483647, and 0 bytes are left"),
        ("GroupMetadata", "0000000163" + "00000001" + "ffffffff" + "fffffffe", "malformed",
         "a count is -2"),
        ("ConsumerGroupMetadata", "0001", "unknown_version", "v1"),
        ("ConsumerGroupMetadata", "00000000000bffffffffff0f", "malformed", "varint is longer"),
        ("ConsumerGroupMetadata", "00000000000b02010000000000000000000001", "malformed",
         "tag|length|needed"),
        ("ConsumerGroupMetadata", "00000000000b0100020000", "malformed", "8 bytes are needed"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_value_is_said(kind: str, data: str, reason: str, why: str) -> None:
    """And no count is believed before its elements are there."""
    with pytest.raises(Malformed, match=why) as found:
        read_value(VALUES[kind], bytes.fromhex(data))

    assert found.value.reason == reason


def test_an_unknown_tagged_field_is_skipped() -> None:
    """That is how Kafka adds to a version: an older reader goes on."""
    found = read_value(VALUES["ConsumerGroupMetadata"], bytes.fromhex("00000000000b0163024142"))

    assert found["epoch"] == 11
