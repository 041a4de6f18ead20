"""
What a group's records in `__consumer_offsets` say that happened, and what is judged of that.

Reference: apache/kafka, GroupMetadataManager and GroupCoordinatorService; KIP-345, KIP-848
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from herdproof.pipeline.offsets import events as e
from herdproof.pipeline.offsets.events import events
from herdproof.pipeline.offsets.fields import PROMISED, WATCHES
from herdproof.pipeline.offsets.judge import OBSERVABLE, REFUTABLE, OffsetsJudging, judge_records
from herdproof.pipeline.offsets.segments import LogRecord
from herdproof.pipeline.offsets.source import (
    KEYED_COLUMNS,
    RECORD_COLUMNS,
    judge_groups,
    keyed,
)
from herdproof.pipeline.spark.outgoing import OUT_ARROW
from herdproof.pipeline.spark.tables import ARROW, TABLES, Row, Rows
from properties.pipeline.offsets.offset_records import Pair, commit, generation, in_log, key, modern

P0, P1, P2 = ("t", "0"), ("t", "1"), ("t", "2")
TOPIC_ID = "ESIzRFVmd4iZqrvM3e7_AA"

CLEAN = [
    generation("g", 1, {"a": [("t", 0), ("t", 1)]}),
    commit("g", "t", 0, 5),
    generation("g", 2, {"a": [("t", 0)], "b": [("t", 1)]}),
    commit("g", "t", 0, 9),
    commit("g", "t", 1, 3),
    commit("g", "t", 1, 3),
    generation("g", 3, {"b": [("t", 0), ("t", 1)]}),
    commit("g", "t", 0, 12),
    generation("g", 4, {}),
]
"""A group whose members come and go."""

OFFSETS = [CLEAN[n] for n in (1, 3, 4, 5, 7)]


def told(pairs: Iterable[Pair]) -> list[tuple[str, Any]]:
    """Events by name, with what matters of them."""
    return [(type(event).__name__, brief(event)) for event in events(in_log(pairs))]


def brief(event: e.Event) -> Any:
    """What matters of an event."""
    match event:
        case e.Joined() | e.Left():
            return event.member, event.consumer
        case e.GenerationStored():
            return event.generation, len(event.consumers), dict(event.owners)
        case e.OffsetStored():
            return event.partition, event.offset, event.outcome, event.is_reset
        case e.Began() | e.Ended():
            return event.consumer, event.partition
        case e.Rebalance() | e.Settled():
            return event.generation
        case _:
            return None


def judged(pairs: Iterable[Pair]) -> Rows:
    """The rows of all tables."""
    return judge_records("c", "g", in_log(pairs))


def verdicts(rows: Rows) -> dict[str, str]:
    """By sentence, what it came to."""
    return {row["property"]: row["verdict"] for row in rows["verdicts"]}


def violated(rows: Rows) -> list[tuple[str, str]]:
    """What is violated, and where."""
    return [(row["property"], row["place"]) for row in rows["violations"]]


def figures(rows: Rows) -> dict[str, float]:
    """The figures of the whole group."""
    return {row["name"]: row["value"] for row in rows["figures"] if row["about"] is None}


# ── Classic groups ──────────────────────────────────────────────────────────────────────────


def test_a_generation_tells_who_came_who_went_and_what_each_is_to_have() -> None:
    """One record says all; who is not in it any more has gone, nobody says how."""
    found = told([CLEAN[0], CLEAN[2], CLEAN[6], CLEAN[8]])

    assert found == [
        ("Joined", ("a", "a")),
        ("GenerationStored", (1, 1, {P0: "a", P1: "a"})),
        ("Joined", ("b", "b")),
        ("GenerationStored", (2, 2, {P0: "a", P1: "b"})),
        ("Left", ("a", "a")),
        ("GenerationStored", (3, 1, {P0: "b", P1: "b"})),
        ("Left", ("b", "b")),
        ("GenerationStored", (4, 0, {})),
    ]
    assert {row["how"] for row in judged(CLEAN)["memberships"]} == {"unknown"}


def test_a_static_member_is_one_consumer_under_two_member_ids() -> None:
    """KIP-345: it comes back within the generation, under a new id."""
    pairs = [
        generation("g", 1, {"m1": [("t", 0)]}, static={"m1": "i"}),
        generation("g", 1, {"m2": [("t", 0)]}, static={"m2": "i"}),
    ]

    assert figures(judged(pairs))["rebalances"] == 1
    assert told(pairs)[2:] == [
        ("Left", ("m1", "i")), ("Joined", ("m2", "i")), ("GenerationStored", (1, 1, {P0: "m2"})),
    ]  # fmt: skip


def test_commits_are_stored_deleted_or_what_their_transaction_came_to() -> None:
    """Nobody is named; in a group without members, whoever commits may set it back."""
    records = in_log([commit("g", "t", 0, 7), CLEAN[0], *(commit("g", "t", 0, n) for n in (8, 9))])
    records.append(records[-1]._replace(offset=4, value=None))
    records[2] = records[2]._replace(transaction="aborted")
    records[3] = records[3]._replace(transaction="open")

    found = [brief(event) for event in events(records) if isinstance(event, e.OffsetStored)]

    assert found == [
        (P0, 7, "stored", True), (P0, 8, "refused", False), (P0, 9, "unknown", False),
        (P0, None, "stored", False),
    ]  # fmt: skip


def test_events_have_their_records_place_and_time() -> None:
    """Those of a format without times are as old as the last one, or as their commit says."""
    records = in_log(CLEAN[:3], partition=4)
    untimed = [records[0], *(record._replace(time_ns=None) for record in records[1:])]

    found = events(untimed)

    assert [event.place for event in found[:3]] == [
        "__consumer_offsets-4@0", "__consumer_offsets-4@0", "__consumer_offsets-4@1",
    ]  # fmt: skip
    assert {event.time_ns for event in found} == {1_700_000_000_000_000_000}


def test_a_member_of_another_protocol_is_known_by_its_id_alone() -> None:
    """What Kafka Connect's workers embed is their own."""
    from herdproof.pipeline.offsets.records import GROUP_METADATA_VALUE
    from properties.pipeline.offsets.offset_records import encoded

    member = {
        "member_id": "w", "group_instance_id": None, "client_id": "c", "client_host": "h",
        "rebalance_timeout": 1, "session_timeout": 1, "subscription": b"?", "assignment": b"?",
    }  # fmt: skip
    value = encoded(
        GROUP_METADATA_VALUE, 3,
        {"protocol_type": "connect", "generation": 1, "protocol": "x", "leader": "w",
         "current_state_timestamp": 0, "members": [member]},
    )  # fmt: skip

    assert told([(key(2, "g"), value)]) == [
        ("Joined", ("w", "w")),
        ("GenerationStored", (1, 1, {})),
    ]


# ── KIP-848 ─────────────────────────────────────────────────────────────────────────────────


def given(*numbers: int) -> list[dict[str, Any]]:
    """Partitions of the one topic."""
    return [{"topic_id": TOPIC_ID, "partitions": list(numbers), "assignment_epochs": None}]


def member(name: str) -> Pair:
    """A member of KIP-848."""
    values = {
        "instance_id": None, "rack_id": None, "client_id": "c", "client_host": "h",
        "subscribed_topic_names": ["t"], "subscribed_topic_regex": None,
        "rebalance_timeout_ms": 1, "server_assignor": None, "classic_member_metadata": None,
    }  # fmt: skip
    return modern(5, ("g", name), values)


def has(name: str, epoch: int, *numbers: int, pending: Iterable[int] = (), state: int = 0) -> Pair:
    """What a member has, and what it is still to give up."""
    values = {
        "member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": state,
        "assigned_partitions": given(*numbers), "partitions_pending_revocation": given(*pending),
    }  # fmt: skip
    return modern(8, ("g", name), values)


def meant(name: str, *numbers: int) -> Pair:
    """What a member is to have."""
    return modern(7, ("g", name), {"topic_partitions": given(*numbers)})


def group_epoch(number: int) -> Pair:
    """Something has changed."""
    values = {"epoch": number, "metadata_hash": 0, "creation_time_ms": -1}
    return modern(3, ("g",), values)


def target(number: int) -> Pair:
    """The target of that epoch is written."""
    return modern(6, ("g",), {"assignment_epoch": number, "assignment_timestamp": 0})


TOPICS = modern(
    4, ("g",),
    {"topics": [{"topic_id": TOPIC_ID, "topic_name": "t", "num_partitions": 2,
                 "partition_metadata": []}]},
)  # fmt: skip

MODERN = [
    member("a"), TOPICS, group_epoch(1), meant("a", 0, 1), target(1), has("a", 1, 0, 1),
    member("b"), group_epoch(2), meant("a", 0), meant("b", 1), target(2),
    has("b", 2, state=2), has("a", 1, 0, pending=[1], state=1), has("a", 2, 0), has("b", 2, 1),
    modern(8, ("g", "a"), None), modern(7, ("g", "a"), None), modern(5, ("g", "a"), None),
    group_epoch(3), meant("b", 0, 1), target(3), has("b", 3, 0, 1),
]  # fmt: skip
"""A member, then another one, then the first is gone."""


def test_a_group_of_kip_848_is_told_in_pieces() -> None:
    """A partition moves when its old owner has given it up, not when it is meant for the new."""
    assert told(MODERN) == [
        ("Joined", ("a", "a")),
        ("Rebalance", 1),
        ("GenerationStored", (1, 1, {P0: "a", P1: "a"})),
        ("Began", ("a", P0)), ("Began", ("a", P1)), ("Settled", 1),
        ("Joined", ("b", "b")),
        ("Rebalance", 2),
        ("GenerationStored", (2, 2, {P0: "a", P1: "b"})),
        ("Ended", ("a", P1)), ("Began", ("b", P1)), ("Settled", 2),
        ("Ended", ("a", P0)), ("Left", ("a", "a")),
        ("Rebalance", 3),
        ("GenerationStored", (3, 1, {P0: "b", P1: "b"})),
        ("Began", ("b", P0)), ("Settled", 3),
    ]  # fmt: skip


def test_ownership_latency_and_downtime_of_kip_848_are_measured() -> None:
    """A second passes between two records here."""
    rows = judged(MODERN)

    latencies = [r["value"] for r in rows["figures"] if r["name"] == "rebalance_latency_s"]
    assert latencies == [3.0, 7.0, 3.0]
    assert figures(rows)["partition_downtime_total_s"] == 1.0 + 6.0
    assert figures(rows)["rebalances"] == 3
    assert Counter(r["member"] for r in rows["ownership"]) == {"a": 2, "b": 2}
    assert violated(rows) == []


def test_a_topic_whose_name_was_told_too_late_is_shown_by_its_id_for_good() -> None:
    """Since 4.1 the names are not in the log; an owner must not seem to be another topic's."""
    late = [pair for pair in MODERN if pair != TOPICS]
    late.insert(8, TOPICS)

    partitions = {
        event.partition[0] for event in events(in_log(late)) if isinstance(event, e.Began)
    }

    assert partitions == {TOPIC_ID}


def test_a_partition_that_another_member_still_has_is_given_to_nobody() -> None:
    """Coordinators of KIP-848 wait; one that does not is found."""
    forged = list(MODERN)
    forged.insert(13, has("b", 2, 1))

    assert violated(judged(forged)) == [("exclusive", "__consumer_offsets-0@13")]


# ── What is judged ──────────────────────────────────────────────────────────────────────────


def test_nothing_is_said_to_hold() -> None:
    """A group without a flaw: compaction erases history, so that nothing can be sworn to."""
    for pairs in (CLEAN, MODERN, []):
        rows = judged(pairs)

        assert violated(rows) == []
        assert rows["quarantine"] == []
        assert verdicts(rows) == dict.fromkeys(OBSERVABLE, "not observable")
        assert all(row["why"] == OBSERVABLE[row["property"]] for row in rows["verdicts"])


def test_every_promise_has_its_reason() -> None:
    """Why it cannot be seen to hold; four can be seen to be violated."""
    assert OBSERVABLE.keys() == {p.name for p in PROMISED}
    assert all(OBSERVABLE.values())
    assert {
        "exclusive", "generations_never_go_back", "committed_offsets_never_go_back",
        "owners_change_with_the_generation",
    } <= REFUTABLE  # fmt: skip


BACK = "an offset goes back"
EARLIER = "a generation goes back"
TWICE = "a partition is assigned to two members"
TAKEN = "a partition changes hands within a generation"


@pytest.mark.parametrize(
    ("pair", "sentence", "words"),
    [
        (commit("g", "t", 0, 8), "committed_offsets_never_go_back",
         "8 of t-0 is stored (was 9)"),
        (generation("g", 1, {"a": [], "b": []}), "generations_never_go_back",
         "generation 1 is written (was 2)"),
        (generation("g", 3, {"a": [("t", 2)], "b": [("t", 2)]}),
         "owners_change_with_the_generation", "t-2 is b's (was a)"),
        (generation("g", 2, {"a": [("t", 0), ("t", 1)], "b": []}),
         "owners_change_with_the_generation", "t-1 is a's (was b)"),
    ],
    ids=[BACK, EARLIER, TWICE, TAKEN],
)  # fmt: skip
def test_a_forged_record_is_found_and_nothing_else(pair: Pair, sentence: str, words: str) -> None:
    """In a group that is otherwise without a flaw."""
    rows = judged([*CLEAN[:5], pair, *CLEAN[7:]])

    (found,) = rows["violations"]
    assert (found["property"], found["place"]) == (sentence, "__consumer_offsets-0@5")
    assert words in found["told"]
    assert found["story"]
    others = {name: verdict for name, verdict in verdicts(rows).items() if name != sentence}
    assert verdicts(rows)[sentence] == "violated"
    assert set(others.values()) == {"not observable"}


@pytest.mark.parametrize("pair", [pair for pair in CLEAN if pair[1]])
def test_a_record_that_cannot_be_read_is_set_aside_and_leaves_a_doubt(pair: Pair) -> None:
    """It is in quarantine, with its bytes; of what follows nothing false is said."""
    cut = (pair[0], (pair[1] or b"")[:-1])
    rows = judged([*CLEAN[:5], cut, *CLEAN[5:]])

    (aside,) = rows["quarantine"]
    assert (aside["reason"], aside["place"]) == ("malformed", "__consumer_offsets-0@5")
    assert aside["raw"].endswith(cut[1])
    assert violated(rows) == []
    field = "committed" if pair in OFFSETS else "generation"
    unknown = {name for name in REFUTABLE if field in WATCHES.needs[name]}
    assert {name for name, verdict in verdicts(rows).items() if verdict == "unknown"} == unknown


def test_a_commit_may_go_back_in_a_group_without_members() -> None:
    """An operator resets offsets: kafka-consumer-groups --reset-offsets."""
    rows = judged([*CLEAN, commit("g", "t", 0, 1)])

    assert violated(rows) == []
    assert verdicts(rows)["committed_offsets_never_go_back"] == "unknown"
    assert figures(rows)["commit_regressions"] >= 1


def test_what_was_deleted_begins_anew() -> None:
    """An offset that expired, a group that was deleted: later ones are compared with nothing."""
    gone: list[Pair] = [
        (key(1, "g", "t", 0), None),
        (key(1, "g", "t", 1), None),
        (key(2, "g"), None),
    ]
    rows = judged([*CLEAN, *gone, *CLEAN])

    assert violated(rows) == []
    assert figures(rows)["rebalances"] == 8
    assert violated(judged([*CLEAN, gone[0], *CLEAN])) != []
    assert violated(judged([*CLEAN, gone[2], *CLEAN[:1], commit("g", "t", 0, 3)])) != []


REBORN = [*CLEAN, *((k, None) for k in dict(CLEAN)), *CLEAN, commit("g", "t", 0, 1), *CLEAN[:2]]
"""It is deleted, offsets and all, and founded again; then a user resets an offset."""


def compacted(pairs: list[Pair], until: int, *, is_old: bool) -> list[Pair]:
    """What Kafka leaves of a log whose first records it has compacted; of old ones, no deletion."""
    last = {k: n for n, (k, _) in enumerate(pairs[:until])}
    left = [n for n, (k, v) in enumerate(pairs[:until]) if last[k] == n and (v or not is_old)]
    return [*(pairs[n] for n in left), *pairs[until:]]


@pytest.mark.parametrize("pairs", [CLEAN, REBORN[:-2], MODERN], ids=["clean", "reborn", "modern"])
def test_what_compaction_leaves_violates_nothing(pairs: list[Pair]) -> None:
    """However far it has come; whether or not deletions are gone too; and if one is not read."""
    for until in range(len(pairs) + 1):
        for some in (compacted(pairs, until, is_old=is_old) for is_old in (False, True)):
            assert violated(judged(some)) == [], until
            for n, (k, value) in enumerate(some):
                cut = [*some[:n], (k, (value or b"\x00\x63")[:-1]), *some[n + 1 :]]
                assert violated(judged(cut)) == [], (until, n)


def test_an_aborted_transaction_commits_nothing() -> None:
    """What it would have stored is no offset to go back from, and goes back itself unseen."""
    records = in_log([*CLEAN[:5], commit("g", "t", 0, 99), commit("g", "t", 0, 10)])
    records[5] = records[5]._replace(transaction="aborted")

    rows = judge_records("c", "g", records)

    assert violated(rows) == []
    assert [r["outcome"] for r in rows["commits"]].count("refused") == 1


def test_what_this_log_does_not_tell_is_no_figure() -> None:
    """A zero would say that it was looked for."""
    assert figures(judged(CLEAN)).keys() == {
        "rebalances", "members_joined", "members_left", "churn", "commit_regressions",
    }  # fmt: skip


def test_a_judge_can_be_drained_at_any_record() -> None:
    """The rows are the same: a group may be larger than memory."""
    records = in_log([*CLEAN[:5], commit("g", "t", 0, 8), (key(1, "g", "t", 0), b"?"), *CLEAN[5:]])
    judge = OffsetsJudging("c", "g")
    pieces: list[Rows] = []
    for record in records:
        judge.feed(record)
        pieces.append(judge.drain())
    pieces.append(judge.close())

    whole = judge_records("c", "g", records)

    for table in TABLES:
        assert [row for piece in pieces for row in piece.get(table, [])] == whole[table], table
    assert whole["violations"]
    assert whole["quarantine"]
    for table, rows in whole.items():
        TABLES[table].filled(rows)


# ── What Spark's workers do ─────────────────────────────────────────────────────────────────


def record_batch(records: Iterable[LogRecord]) -> pa.RecordBatch:
    """Records as a worker gets them."""
    kinds = {**ARROW, "int": pa.int32()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in RECORD_COLUMNS.items()])
    rows = [{"place": record.place, **record._asdict()} for record in records]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def test_no_record_is_lost_on_its_way_through_the_workers() -> None:
    """Each one is judged with its group, or is in quarantine; and all are counted."""
    other = [(k.replace(b"\x00\x01g", b"\x00\x01h"), v) for k, v in CLEAN]
    records = in_log([*CLEAN, *other, (b"\x00\x63", b"?"), (b"", None), (CLEAN[1][0], b"?")])
    records.append(LogRecord(0, 99, value=b"rest", reason="malformed", why="the file ends"))
    records.append(records[2]._replace(reason="duplicate", why="twice"))

    keys = [row for b in keyed([record_batch(records)], "c", 3) for row in b.to_pylist()]
    keys.sort(key=lambda row: (row["group"] or "", row["offset"]))
    out = list(judge_groups([pa.RecordBatch.from_pylist(keys, schema=keyed_schema())], "c"))

    assert {row["bucket"] for row in keys} <= {0, 1, 2}
    assert all(b.schema == OUT_ARROW for b in out)
    found: dict[str, list[Row]] = {}
    for row in (row for b in out for row in b.to_pylist()):
        rows = pa.ipc.open_stream(row["payload"]).read_all().to_pylist()
        found.setdefault(row["table"], []).extend(rows)
    assert sum(row["lines"] for row in found["counted"]) == len(records)
    assert {row["group"] for row in found["generations"]} == {"g", "h"}
    assert sorted((row["group"], row["reason"]) for row in found["quarantine"]) == [
        ("", "malformed"), ("", "malformed"), ("", "unknown_version"),
        ("g", "duplicate"), ("g", "malformed"),
    ]  # fmt: skip
    assert b"rest" in {row["raw"] for row in found["quarantine"]}


def keyed_schema() -> pa.Schema:
    """Records with their groups."""
    kinds = {**ARROW, "int": pa.int32()}
    return pa.schema([(name, kinds[kind]) for name, kind in KEYED_COLUMNS.items()])
