"""
The records of `__consumer_offsets`: what Kafka 2.0 to 4.3 writes there, decoded.

A key begins with the record's kind, a value with its layout's version. Whatever cannot be read
raises `Malformed`: reason `unknown_version` for a kind or version that is not known, `malformed`
for the rest.

Source: apache/kafka, `group-coordinator/src/main/resources/common/message/*.json` of 3.7, 3.9 and
4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from herdproof.consuming.layouts import NEVER, VERSION_BYTES, Layout, Values, version_of
from herdproof.errors import Malformed

Partition: TypeAlias = tuple[str, str]
"""A topic and a partition's number, both as text."""

KEYS = 4096
"""The number of keys known again: a group writes each of its own again and again."""

# ── Layouts ─────────────────────────────────────────────────────────────────────────────────

OFFSET_COMMIT_VALUE = Layout(
    "OffsetCommitValue", (0, 4), 4,
    """
    offset int64
    leader_epoch int32 3+
    metadata string
    commit_timestamp int64
    expire_timestamp int64 1-1
    topic_id uuid 4+ tag=0
    """,
)  # fmt: skip

GROUP_METADATA_VALUE = Layout(
    "GroupMetadataValue", (0, 4), 4,
    """
    protocol_type string
    generation int32
    protocol string null
    leader string null
    current_state_timestamp int64 2+
    members []Member
    """,
    {
        "Member": """
        member_id string
        group_instance_id string 3+ null
        client_id string
        client_host string
        rebalance_timeout int32 1+
        session_timeout int32
        subscription bytes
        assignment bytes
        """
    },
)  # fmt: skip

_TOPIC = {
    "Topic": """
    topic_id uuid
    topic_name string
    num_partitions int32
    partition_metadata []PartitionRacks
    """,
    "PartitionRacks": "partition int32\nracks []string",
}
_BY_ID = {"Partitions": "topic_id uuid\npartitions []int32\nassignment_epochs []int32 null tag=0"}
_MEMBER = """
    instance_id string null
    rack_id string null
    client_id string
    client_host string
    subscribed_topic_names []string
    subscribed_topic_regex string null
    rebalance_timeout_ms int32
    server_assignor string null
"""


def _value(name: str, fields: str, structs: Mapping[str, str] | None = None) -> Layout:
    """A value of KIP-848: version 0, flexible."""
    return Layout(name, (0, 0), 0, fields, structs)


CONSUMER_GROUP_METADATA = (
    _value(
        "ConsumerGroupMetadataValue",
        "epoch int32\nmetadata_hash int64 tag=0\ncreation_time_ms int64 tag=1",
    ),
)
CONSUMER_GROUP_PARTITION_METADATA = (
    _value("ConsumerGroupPartitionMetadataValue", "topics []Topic", _TOPIC),
    _value("ConsumerGroupPartitionMetadataValue of 3.7", "epoch int32\ntopics []Topic", _TOPIC),
)
CONSUMER_GROUP_MEMBER_METADATA = (
    _value(
        "ConsumerGroupMemberMetadataValue", f"{_MEMBER}classic_member_metadata Classic null tag=0",
        {
            "Classic": "session_timeout_ms int32\nsupported_protocols []Supported",
            "Supported": "name string\nmetadata bytes",
        },
    ),
    _value(
        "ConsumerGroupMemberMetadataValue of 3.7", f"{_MEMBER}assignors []Assignor",
        {
            "Assignor": "name string\nminimum_version int16\nmaximum_version int16\n"
            "reason int8\nversion int16\nmetadata bytes"
        },
    ),
)  # fmt: skip
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = (
    _value(
        "ConsumerGroupTargetAssignmentMetadataValue",
        "assignment_epoch int32\nassignment_timestamp int64 tag=0",
    ),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = (
    _value("ConsumerGroupTargetAssignmentMemberValue", "topic_partitions []Partitions", _BY_ID),
    _value(
        "ConsumerGroupTargetAssignmentMemberValue of 3.7",
        "error int8\ntopic_partitions []Partitions\nmetadata_version int16\nmetadata_bytes bytes",
        _BY_ID,
    ),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = (
    _value(
        "ConsumerGroupCurrentMemberAssignmentValue",
        "member_epoch int32\nprevious_member_epoch int32\nstate int8\n"
        "assigned_partitions []Partitions\npartitions_pending_revocation []Partitions",
        _BY_ID,
    ),
    _value(
        "ConsumerGroupCurrentMemberAssignmentValue of 3.7",
        "member_epoch int32\nprevious_member_epoch int32\ntarget_member_epoch int32\n"
        "assigned_partitions []Partitions\npartitions_pending_revocation []Partitions\n"
        "partitions_pending_assignment []Partitions\n"
        "error int8\nmetadata_version int16\nmetadata_bytes bytes",
        _BY_ID,
    ),
)
CONSUMER_GROUP_REGULAR_EXPRESSION = (
    _value(
        "ConsumerGroupRegularExpressionValue", "topics []string\nversion int64\ntimestamp int64"
    ),
)

# ── Kinds of records ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of record: what its key holds, and the layouts of its value, the likeliest first."""

    name: str
    key: Layout
    values: tuple[Layout, ...] = ()
    """Empty: it is known by its name alone, and its value is not looked into."""


def _kind(name: str, fields: str = "group", values: tuple[Layout, ...] = ()) -> RecordKind:
    """A kind whose key has these strings, and a partition at the end if it is named."""
    kinds = {"partition": "int32"}
    lines = "\n".join(f"{word} {kinds.get(word, 'string')}" for word in fields.split())
    return RecordKind(name, Layout(f"{name}Key", (0, 0), NEVER, lines), values)


_COMMIT = _kind("OffsetCommit", "group topic partition", (OFFSET_COMMIT_VALUE,))

KINDS: Mapping[int, RecordKind] = {
    0: _COMMIT,
    1: _COMMIT,
    2: _kind("GroupMetadata", values=(GROUP_METADATA_VALUE,)),
    3: _kind("ConsumerGroupMetadata", values=CONSUMER_GROUP_METADATA),
    4: _kind("ConsumerGroupPartitionMetadata", values=CONSUMER_GROUP_PARTITION_METADATA),
    5: _kind("ConsumerGroupMemberMetadata", "group member", CONSUMER_GROUP_MEMBER_METADATA),
    6: _kind(
        "ConsumerGroupTargetAssignmentMetadata", values=CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
    ),
    7: _kind(
        "ConsumerGroupTargetAssignmentMember", "group member",
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    ),
    8: _kind(
        "ConsumerGroupCurrentMemberAssignment", "group member",
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    ),
    9: _kind("ShareGroupPartitionMetadata"),
    10: _kind("ShareGroupMemberMetadata", "group member"),
    11: _kind("ShareGroupMetadata"),
    12: _kind("ShareGroupTargetAssignmentMetadata"),
    13: _kind("ShareGroupTargetAssignmentMember", "group member"),
    14: _kind("ShareGroupCurrentMemberAssignment", "group member"),
    15: _kind("ShareGroupStatePartitionMetadata"),
    16: _kind(
        "ConsumerGroupRegularExpression", "group expression", CONSUMER_GROUP_REGULAR_EXPRESSION
    ),
    17: _kind("StreamsGroupMetadata"),
    18: _kind("StreamsGroupPartitionMetadata"),
    19: _kind("StreamsGroupMemberMetadata", "group member"),
    20: _kind("StreamsGroupTargetAssignmentMetadata"),
    21: _kind("StreamsGroupTargetAssignmentMember", "group member"),
    22: _kind("StreamsGroupCurrentMemberAssignment", "group member"),
    23: _kind("StreamsGroupTopology"),
    24: _kind("StreamsGroupTargetAssignmentResolvedTopicIds"),
}  # fmt: skip
"""By the two bytes with which a key begins."""


@dataclass(frozen=True, slots=True)
class Key:
    """A record's key."""

    kind: RecordKind
    group: str
    values: Values = field(default_factory=dict)


def partition_of(key: Key) -> Partition:
    """The partition whose offset a key names."""
    return key.values["topic"], str(key.values["partition"])


@lru_cache(KEYS)
def read_key(data: bytes | None) -> Key:
    """A record's key; or `Malformed`."""
    if data is None:
        raise Malformed("malformed", "the record has no key")
    number = version_of(data, "the key")
    kind = KINDS.get(number)
    if kind is None:
        raise Malformed(
            "unknown_version", f"no kind of record is known whose key begins with {number}"
        )
    values = kind.key.read(data, VERSION_BYTES, 0)
    return Key(kind, values["group"], values)


def read_value(kind: RecordKind, data: bytes) -> Values:
    """
    The value of a record of that kind; or `Malformed`.

    Kafka 3.7 wrote some values of KIP-848 otherwise, under the same version: a value is what the
    first layout reads that it fills. (Its bytes never fill the later layout.)
    """
    if not kind.values:
        return {}
    version = version_of(data, f"the value of {kind.name}")
    first = kind.values[0]
    if not first.first <= version <= first.last:
        known = f"{first.first} to {first.last}"
        raise Malformed("unknown_version", f"{first.name} v{version}; known are {known}")
    try:
        return first.read(data, VERSION_BYTES, version)
    except Malformed:
        for other in kind.values[1:]:
            try:
                return other.read(data, VERSION_BYTES, version)
            except Malformed:
                continue
        raise
