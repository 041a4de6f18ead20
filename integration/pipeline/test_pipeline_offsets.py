"""
The log of groups of a real Kafka, audited: from copied segments, and from the live topic.

What real clients do violates nothing; records that were forged into the log are found, and nothing
else.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.pipeline.offsets import TOPIC
from herdproof.pipeline.offsets import events as e
from herdproof.pipeline.offsets.events import events
from herdproof.pipeline.offsets.judge import group_of, judge_records
from herdproof.pipeline.offsets.records import read_key
from herdproof.pipeline.offsets.segments import LogRecord, read_partition
from herdproof.pipeline.offsets.source import (
    file_of,
    find_segments,
    judged,
    segment_records,
    topic_records,
)
from herdproof.pipeline.spark.connector import connector_jars
from herdproof.pipeline.spark.sources import Topic
from herdproof.pipeline.spark.tables import Row, Rows
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.pipeline.group_clients import SETTINGS, Herd, copied, forge, herd, transactions
from properties.pipeline.offsets.offset_records import Pair, commit, generation, key

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

STICKY = {"partition.assignment.strategy": "cooperative-sticky"}


@pytest.fixture(scope="module")
def groups_kafka(zookeeper: EmbeddedZooKeeper) -> Iterator[EmbeddedKafka]:
    """A broker of its own whose groups change quickly."""
    with EmbeddedKafka(f"{zookeeper.hosts}/groups", settings=SETTINGS) as broker:
        yield broker


class Log(NamedTuple):
    """A copied log of groups, read."""

    records: dict[str, list[LogRecord]]
    """By group."""
    damaged: list[LogRecord]

    def rows(self) -> Rows:
        """The rows of all groups."""
        found: Rows = {}
        for group, records in self.records.items():
            for table, rows in judge_records("here", group, records).items():
                found.setdefault(table, []).extend(rows)
        return found


def read_log(folder: Path) -> Log:
    """Read it as a worker does, without Spark."""
    log = Log({}, [])
    for partition, paths in find_segments([str(folder)]).items():
        for record in read_partition(partition, [file_of(path) for path in paths]):
            if record.reason is not None:
                log.damaged.append(record)
            else:
                log.records.setdefault(group_of(record), []).append(record)
    return log


def violations(rows: Rows) -> list[tuple[str, str, str]]:
    """What is violated, where."""
    return sorted((r["group"], r["property"], r["place"]) for r in rows["violations"])


def in_spark(records: Any) -> Rows:
    """The rows that Spark makes of records, in one job."""
    found: Rows = {}
    for row in judged(records, "here", 2).collect():
        unpacked = pa.ipc.open_stream(row["payload"]).read_all().to_pylist()
        found.setdefault(row["table"], []).extend(unpacked)
    return found


def compared(rows: Rows, table: str) -> Counter[str]:
    """Rows of a table, whatever their order."""
    return Counter(repr(sorted(row.items(), key=lambda item: item[0])) for row in rows[table])


# ── A short life ────────────────────────────────────────────────────────────────────────────


def short_life(members: Herd) -> None:
    """Members of two groups come, commit, leave and are killed; a third commits in transactions."""
    lives = [
        members.live(members.confluent, "range", "a", 4.5),
        members.live(members.confluent, "range", "b", 2.5),
        members.live(members.kafka_python, "range", "c", 3.0),
        members.live(members.confluent, "sticky", "d", 5.0, **STICKY),
        members.live(members.killed, "sticky", "e", 1.0, **STICKY),
        members.live(transactions, members.kafka, "transactional", members.topic),
    ]
    members.wait(lives)


def forged_records(group: str, records: list[LogRecord]) -> list[Pair]:
    """An offset and a generation that go back, and a partition that is given to two."""
    told = events(records)
    last = [event for event in told if isinstance(event, e.GenerationStored)][-1]
    assert last.owners, "the group has a member"
    (topic, number), member = last.owners[0]
    owned = [(topic, int(number))]
    return [
        commit(group, topic, int(number), 0),
        generation(group, last.generation - 1, {member: owned}),
        generation(group, last.generation, {member: owned, "ghost": owned}),
    ]


def test_what_real_clients_do_is_clean_and_what_is_forged_is_found(
    groups_kafka: EmbeddedKafka, spark: Any, tmp_path: Path
) -> None:
    """From copied segments and from the live topic, in Spark as without it."""
    kafka = groups_kafka
    with herd(kafka, "short") as members:
        members.live(members.confluent, "stays", "s", 60.0)
        short_life(members)
        clean = eventually_committed(kafka, tmp_path, "stays")
        rows = clean.rows()
        assert violations(rows) == []
        assert (rows["quarantine"], clean.damaged) == ([], [])
        assert {row["verdict"] for row in rows["verdicts"]} == {"not observable"}
        assert lived(rows)

        stays = clean.records["stays"]
        places = forge(kafka, stays[0].partition, forged_records("stays", stays))
        garbage = [(key(1, "range", "short", 0), b"\x00\x03garbage"), (b"\x00\x63", b"?")]
        partition = clean.records["range"][0].partition
        aside = forge(kafka, partition, garbage)

    assert_forged_are_found(kafka, spark, copied(kafka, tmp_path / "after"), places, aside)


def assert_forged_are_found(
    kafka: EmbeddedKafka, spark: Any, folder: Path, places: list[str], aside: list[str]
) -> None:
    """From both sources; and both say the same."""
    for jar in connector_jars(print):
        spark.sql(f"ADD JAR '{jar}'").collect()
    from_files = in_spark(segment_records(spark, [str(folder)]))
    from_topic = in_spark(topic_records(spark, Topic(kafka.bootstrap, TOPIC)))

    back, earlier, twice = places
    for rows in (from_files, from_topic):
        assert violations(rows) == sorted(
            [("stays", "committed_offsets_never_go_back", back),
             ("stays", "generations_never_go_back", earlier),
             ("stays", "owners_change_with_the_generation", twice)]
        )  # fmt: skip
        assert sorted((r["place"], r["group"], r["reason"]) for r in rows["quarantine"]) == sorted(
            [(aside[0], "range", "malformed"), (aside[1], "", "unknown_version")]
        )
    for table in ("generations", "memberships", "violations"):
        assert compared(from_files, table) == compared(from_topic, table)
    unseen = [row for row in from_files["commits"] if row["outcome"] == "refused"]
    assert len(unseen) == 1, "the live topic leaves out what was aborted"
    assert len(from_files["commits"]) == len(from_topic["commits"]) + 1


def eventually_committed(kafka: EmbeddedKafka, tmp_path: Path, group: str) -> Log:
    """The log as soon as that group has committed more than nothing; its member lives."""
    for attempt in range(100):
        log = read_log(copied(kafka, tmp_path / f"copy {attempt}"))
        told = events(log.records.get(group, []))
        offsets = [event.offset or 0 for event in told if isinstance(event, e.OffsetStored)]
        if max(offsets, default=0) > 0:
            return log
        time.sleep(0.3)
    raise AssertionError(f"{group} commits nothing")


def lived(rows: Rows) -> bool:
    """Whether what was to happen did: members of both libraries, generations, commits."""
    members = {row["member"].partition("-")[0] for row in rows["memberships"]}
    assert {"a", "b", "c", "d", "e"} <= members, members
    assert {row["outcome"] for row in rows["commits"]} == {"stored", "refused"}
    generations = Counter(row["group"] for row in rows["generations"])
    assert generations["range"] >= 3
    assert generations["sticky"] >= 3
    return True


# ── Long ones ───────────────────────────────────────────────────────────────────────────────

WHOLE = {**SETTINGS, "log.cleaner.enable": "false"}
"""A broker that forgets nothing."""

COMPACTING = {
    **SETTINGS, "offsets.topic.segment.bytes": "100000", "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.05", "log.roll.ms": "20000",
}  # fmt: skip
"""One whose log of groups has small segments, and is cleaned all the time."""


def churned(kafka: EmbeddedKafka, members: Herd, seconds: float) -> None:
    """Six groups, members by chance; whose offsets are reset now and then, or who are deleted."""
    chance, end = random.Random(1), time.monotonic() + seconds
    threads = [
        members.live(churn, members, f"group {n}", random.Random(chance.random()), end)
        for n in range(6)
    ]
    for thread in threads:
        thread.join(seconds + 120)
    members.wait(threads)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_of_minutes_of_churn_only_what_was_forged_is_found(tmp_path: Path, spark: Any) -> None:
    """The whole log: joins, kills, resets and deletions, and three records that nobody wrote."""
    with (
        EmbeddedZooKeeper() as own,
        EmbeddedKafka(own.hosts, settings=WHOLE) as kafka,
        herd(kafka, "long") as members,
    ):
        churned(kafka, members, 180)
        members.live(members.confluent, "stays", "s", 120.0)
        clean = eventually_committed(kafka, tmp_path, "stays")
        stays = clean.records["stays"]
        places = forge(kafka, stays[0].partition, forged_records("stays", stays))
        folder = copied(kafka, tmp_path / "whole log")

    rows = clean.rows()
    print_figures(clean, rows)
    assert violations(rows) == []
    assert (rows["quarantine"], clean.damaged) == ([], [])
    assert len(rows["generations"]) > 50
    assert sum(row["name"] == "commit_regression" for row in rows["figures"]) > 0
    found = in_spark(segment_records(spark, [str(folder)]))
    assert sorted(place for _, _, place in violations(found)) == sorted(places)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_log_that_kafka_compacts_is_clean(tmp_path: Path) -> None:
    """What is left of it violates nothing either."""
    with (
        EmbeddedZooKeeper() as own,
        EmbeddedKafka(own.hosts, settings=COMPACTING) as kafka,
        herd(kafka, "long") as members,
    ):
        churned(kafka, members, 60)
        log = read_log(copied(kafka, tmp_path))

    rows = log.rows()
    written, left = print_figures(log, rows)
    assert left < written / 2
    assert violations(rows) == []
    assert (rows["quarantine"], log.damaged) == ([], [])


def churn(members: Herd, group: str, chance: random.Random, end: float) -> None:
    """Members of one group come and go; when all have gone, an operator resets or deletes it."""
    kinds = [members.confluent, members.confluent, members.kafka_python, members.killed]
    style = STICKY if chance.random() < 0.5 else {}
    while time.monotonic() < end:
        lives = []
        for _ in range(chance.randrange(1, 4)):
            kind = chance.choice(kinds if not style else [members.confluent, members.killed])
            more = {} if kind == members.kafka_python else style
            name = f"{group[-1]}{chance.randrange(1000)}"
            lives.append(members.live(kind, group, name, chance.uniform(2, 12), **more))
            time.sleep(chance.uniform(0, 3))
        for life in lives:
            life.join(60)
        operate(members, group, chance)


def operate(members: Herd, group: str, chance: random.Random) -> None:
    """Set a group's offsets back, delete it, or neither; Kafka obeys where it is empty."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": members.kafka.bootstrap, "log_level": 0})
    what = chance.choice(["reset", "delete", "nothing"])
    offsets = [TopicPartition(members.topic, n, 1) for n in range(members.partitions)]
    try:
        if what == "reset":
            asked = admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, offsets)]
            )
        elif what == "delete":
            asked = admin.delete_consumer_groups([group])
        else:
            return
        asked[group].result(20)
    except KafkaException:
        return  # a member that was killed is still counted


def print_figures(log: Log, rows: Rows) -> tuple[int, int]:
    """What there was, for whoever runs it with `-s`; how much was written, and is left."""
    records = [record for own in log.records.values() for record in own]
    kinds = Counter((read_key(r.key).kind.name, "deleted" * (r.value is None)) for r in records)
    ends: dict[int, int] = {}
    for record in records:
        ends[record.partition] = max(ends.get(record.partition, 0), record.offset + 1)
    print(f"{sum(ends.values())} records written, {len(records)} left: {dict(kinds)}")
    print({table: len(found) for table, found in rows.items()})
    print(sum_of(rows["figures"]))
    return sum(ends.values()), len(records)


def sum_of(figures: list[Row]) -> dict[str, float]:
    """Figures of whole groups, summed up."""
    found: Counter[str] = Counter()
    for row in figures:
        if row["about"] is None:
            found[row["name"]] += row["value"]
    return dict(found)
