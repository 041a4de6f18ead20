"""
Our coordinator against Kafka's own: the same frames to both, and the same answers from both.

Histories are drawn by seeds: several members, static ones among them, that join, sync, send
heartbeats, commit and leave, rightly or wrongly, in any version, ask again on another connection,
fall silent until their time is over; and what administrators ask. Where the answers differ, it is
one of the differences that docs/broker.md lists; a history that differs otherwise is told, in its
shortest form, by which it can be tried again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from herdproof.kafka.embedded import EmbeddedKafka
from herdproof.kafka.kraft import EmbeddedKRaft
from herdproof.zookeeper.embedded import EmbeddedZooKeeper
from integration.group_protocol.wire_deeds import PARTITIONS, TOPIC, Deed, History, What, drawn
from integration.group_protocol.wire_differences import DIFFERENCES, is_a_commit_for_another, table
from integration.group_protocol.wire_twins import AS_THERE, SETTINGS, Compared, Twins, shrunk, twins

AT_ONCE = {False: 4, True: 8}
"""How many histories happen at a time; those that are timed wait most of it."""
DEEDS = {False: 25, True: 14}


def with_topics(kafka: EmbeddedKafka) -> EmbeddedKafka:
    """A Kafka with the topics that histories are about."""
    kafka.create_topic(TOPIC, PARTITIONS)
    kafka.create_topic("u", 1)
    return kafka


@pytest.fixture(scope="module")
def old_kafka(zookeeper: EmbeddedZooKeeper) -> Iterator[EmbeddedKafka]:
    """A Kafka 3.9, whose settings of groups are as ours, in a corner of its own."""
    corner = f"{zookeeper.hosts}/twins"
    with EmbeddedKafka(corner, settings=AS_THERE) as kafka:
        yield with_topics(kafka)


@pytest.fixture(scope="module")
def new_kafka() -> Iterator[EmbeddedKafka]:
    """A Kafka 4.3, whose settings of groups are as ours."""
    with EmbeddedKRaft(settings=AS_THERE) as kafka:
        yield with_topics(kafka)


async def compared(there: Twins, seeds: range, *, timed: bool) -> list[Compared]:
    """The histories of these seeds, some at a time."""
    gate = asyncio.Semaphore(AT_ONCE[timed])

    async def one(seed: int) -> Compared:
        """One history, when its turn comes."""
        async with gate:
            return await there.compare(drawn(seed, DEEDS[timed], timed=timed))

    return await asyncio.gather(*map(one, seeds))


async def agree(kafka: EmbeddedKafka, seeds: range, *, timed: bool) -> Counter[str]:
    """Let these histories happen at both; which known differences were seen, and how often."""
    async with twins(kafka) as there:
        found = await compared(there, seeds, timed=timed)
        differing = [each for each in found if each.mismatches]
        stories = [(await shrunk(there, each)).story() for each in differing[:3]]
        assert not stories, f"{len(differing)} differ:\n" + "\n\n".join(stories)
        in_time = [each for each in found if not each.is_late]
        assert len(in_time) >= len(found) / 3, "time ran away from most of them"
        assert sum(each.answers for each in in_time) > 5 * len(in_time)
        return there.explained


@pytest.mark.parametrize(("seeds", "timed"), [(range(40), False), (range(1_000, 1_010), True)])
def test_kafka_3_answers_as_ours_does(old_kafka: EmbeddedKafka, seeds: range, timed: bool) -> None:
    """Error, generation, members and state are the same, or a difference that is listed."""
    asyncio.run(agree(old_kafka, seeds, timed=timed))


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", ["old_kafka", "new_kafka"])
def test_both_kafkas_answer_as_ours_does_at_length(
    request: pytest.FixtureRequest, name: str, timed: bool
) -> None:
    """As above, of far more histories; and each listed difference is seen, or is none."""
    kafka: EmbeddedKafka = request.getfixturevalue(name)
    seen = asyncio.run(agree(kafka, range(160) if timed else range(1_500), timed=timed))
    if not timed:
        assert set(seen) == {
            each.name
            for each in DIFFERENCES
            if kafka.version in each.seen and each.is_it is not is_a_commit_for_another
        }


FOR_ANOTHER = (
    *[Deed(What.NEXT, seat) for seat in (3, 4, 3, 3, 3, 4)],
    Deed(What.COMMIT, 4, choice=0),
)
"""Two static members; the second commits for the partition of the first."""


@pytest.mark.parametrize("commits", ["owner", "as_kafka"])
def test_only_the_owner_commits_where_kafka_lets_any_member(
    old_kafka: EmbeddedKafka, commits: str
) -> None:
    """Kafka stores what a member commits for another one's partition; ours does if told so."""

    async def compare() -> Counter[str]:
        """All the histories, one after another."""
        settings = replace(SETTINGS, commits=commits)  # type: ignore[arg-type]
        async with twins(old_kafka, settings) as there:
            found = await there.compare(History(0, FOR_ANOTHER))
            assert not found.mismatches, found.story()
            return there.explained

    (known,) = (each.name for each in DIFFERENCES if each.is_it is is_a_commit_for_another)
    assert asyncio.run(compare())[known] == (commits == "owner")


def test_a_mistake_is_told_by_its_shortest_history(old_kafka: EmbeddedKafka) -> None:
    """With another limit ours takes what Kafka refuses: few deeds show it."""

    async def compare() -> Compared:
        """One history, at ours with the mistake and at Kafka."""
        async with twins(old_kafka, replace(SETTINGS, offset_metadata_max_bytes=10_000)) as there:
            for found in await compared(there, range(20), timed=False):
                if found.mismatches:
                    return await shrunk(there, found)
        raise AssertionError("nothing differs")

    found = asyncio.run(compare())
    assert len(found.history.deeds) <= 4, found.story()
    assert "! Kafka's" in found.story()


def test_the_page_lists_the_differences() -> None:
    """docs/broker.md has the table that histories are judged by."""
    page = (Path(__file__).parents[2] / "docs" / "broker.md").read_text(encoding="utf-8")

    assert table() in page, f"write into docs/broker.md:\n{table()}"
