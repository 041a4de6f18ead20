"""Transactions are written and read as kazoo does, whose frames are the oracle."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol import serialization as frames
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from herdproof.zookeeper.kazoo_frames import Reply, answer_of, frame_of
from herdproof.zookeeper.operations import (
    Check,
    Checked,
    Create,
    Created,
    Delete,
    Deleted,
    Done,
    Multi,
    Refusal,
    Set,
    Stat,
    Why,
)
from herdproof.zookeeper.transactions import TransactionFrame

PATHS = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).map("/".__add__)
VERSIONS = st.integers(-1, 2**31 - 1)
OPERATIONS = st.lists(
    st.builds(Create, PATHS, st.binary(), st.booleans())
    | st.builds(Set, PATHS, st.binary(), VERSIONS)
    | st.builds(Delete, PATHS, VERSIONS)
    | st.builds(Check, PATHS, VERSIONS)
)
ACLS = st.sampled_from([OPEN_ACL_UNSAFE, [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]])
STATS = st.tuples(*[st.integers(0, 2**31 - 1)] * 11)


def rooted(path: str) -> str:
    """A path below some root."""
    return f"/root{path}"


def unrooted(path: str) -> str:
    """A path as it was."""
    return path.removeprefix("/root")


def kazoos(operation: Create | Set | Delete | Check, acl: Any) -> Any:
    """The operation as kazoo has it."""
    path = rooted(operation.path)
    match operation:
        case Create(_, data, is_ephemeral):
            return frames.Create(path, data, acl, 1 if is_ephemeral else 0)
        case Set(_, data, version):
            return frames.SetData(path, data, version)
        case Delete(_, version):
            return frames.Delete(path, version)
        case Check(_, version):
            return frames.CheckVersion(path, version)


@given(OPERATIONS, ACLS)
def test_what_is_written_is_what_kazoo_writes(
    operations: list[Create | Set | Delete | Check], acl: Any
) -> None:
    """Byte by byte, whatever is in it."""
    theirs = frames.Transaction([kazoos(each, acl) for each in operations])

    ours = frame_of(Multi(tuple(operations)), rooted, acl=acl)

    assert ours.type == theirs.type
    assert ours.serialize() == bytes(theirs.serialize())


def result(kind: int, body: bytes = b"", error: int = 0) -> bytes:
    """One result, as a server writes it."""
    return bytes(frames.MultiHeader(kind, False, error).serialize() + body)


END = frames.MultiHeader(-1, True, -1).serialize()


def done(operation: Create | Set | Delete | Check, stat: tuple[int, ...]) -> bytes:
    """The result of an operation that was done."""
    match operation:
        case Create(path):
            return result(1, frames.write_string(rooted(path)))
        case Set():
            return result(5, frames.stat_struct.pack(*stat))
        case Delete():
            return result(2)
        case Check():
            return result(13)


def came(value: Any) -> Reply:
    """A reply with this in it, as kazoo hands it over."""
    reply = Reply(lambda _: None)
    reply.value = value
    return reply


@given(OPERATIONS, STATS)
def test_what_is_read_is_what_kazoo_reads(
    operations: list[Create | Set | Delete | Check], stat: tuple[int, ...]
) -> None:
    """Paths, metadata and, of the others, nothing; not a byte less is enough."""
    data = b"head" + b"".join(done(each, stat) for each in operations) + END
    theirs = frames.Transaction.deserialize(data, 4)

    ours = TransactionFrame.deserialize(data, 4)

    assert [plain(each) for each in ours] == [plain(each) for each in theirs]
    with pytest.raises((struct.error, UnicodeDecodeError)):
        TransactionFrame.deserialize(data[:-1], 4)


def plain(value: Any) -> Any:
    """A result without its class."""
    match value:
        case Stat():
            return (
                value.czxid, value.mzxid, value.modified_ms, value.version, value.cversion,
                value.ephemeral_owner, value.data_length, value.num_children,
            )  # fmt: skip
        case frames.ZnodeStat():
            return (
                value.czxid, value.mzxid, value.mtime, value.version, value.cversion,
                value.ephemeralOwner, value.dataLength, value.numChildren,
            )  # fmt: skip
        case None:
            return True
    return value


def test_the_operation_to_blame_has_its_own_error() -> None:
    """Those before it were rolled back, those after it not tried: neither is to blame."""
    multi = Multi((Check("/a", 1), Delete("/b"), Set("/c", b"")))
    errors = (RolledBackError.code, NoNodeError.code, RuntimeInconsistency.code)
    data = b"".join(result(-1, frames.int_struct.pack(code), code) for code in errors) + END

    answer = answer_of(multi, came(TransactionFrame.deserialize(data, 0)), unrooted)

    assert answer == Refusal(Why.NO_NODE, 1)


def test_what_was_done_is_answered_in_our_words() -> None:
    """One answer for each operation."""
    multi = Multi((Check("/a", 1), Create("/b"), Delete("/c")))
    data = b"".join(done(each, ()) for each in multi.operations) + END
    results = [unrooted(each) if isinstance(each, str) else each
            for each in TransactionFrame.deserialize(data, 0)]  # fmt: skip

    assert answer_of(multi, came(results), unrooted) == Done((Checked(), Created("/b"), Deleted()))


def test_a_result_of_no_known_type_is_no_result() -> None:
    """Nobody can tell what follows it."""
    with pytest.raises(ValueError, match="type 99"):
        TransactionFrame.deserialize(result(99) + END, 0)
