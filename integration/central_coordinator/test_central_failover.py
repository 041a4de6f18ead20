"""
Failover: whoever leads goes, or cannot tell that it leads, and the group reads on.

How fast is what `benchmarks/failover` measures, but for the clean stop: there who has said that it
has stopped is waited for by nobody. Of the others it is looked at who leads, and what was read:
every record of each partition, from its first one on, by somebody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.failover_group import (
    PARTITIONS,
    SILENT_S,
    Cluster,
    CoordinatedGroup,
    clean_stop,
    cluster,
    measured,
)
from herdproof.record import Record
from herdproof.servers import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SESSION_MS = 6_000
"""Of members and of ZooKeeper's sessions: a lease would be waited for longer than that."""
BLINK_S = 0.3
"""For so long a partition may be without a reader, beyond what the election takes."""
TRIES = 4


def test_a_leader_that_ends_leaves_no_partition_without_a_reader_for_long(
    report: Callable[[str], None],
) -> None:
    """
    After SIGTERM of the leader its members say that they have stopped, and start at the next one;
    they had leases that run for 6 s, which nobody may wait for. A busy machine gets more tries.
    """
    tries: list[float] = []
    while len(tries) < TRIES and min(tries, default=BLINK_S) >= BLINK_S:
        found = measured(clean_stop, SESSION_MS)
        tries.append(found["idle_seconds"] - found["mended_seconds"])

    report(f"SIGTERM of the leader: {min(tries):.2f} s without a reader beyond the election")
    assert min(tries) < BLINK_S


# ── Who leads, and what is read ─────────────────────────────────────────────────────────────

MORE = 20
"""The group reads on if so many more records of each partition have come."""
PATIENCE_S = 240.0


class ReadingGroup(CoordinatedGroup):
    """A group that notes which records its members were given."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.read: list[set[int]] = [set() for _ in range(PARTITIONS)]

    def take(self, record: Record) -> None:
        """A record was handed out."""
        super().take(record)
        self.read[record.partition].add(record.offset)

    def ends(self) -> list[int]:
        """How far each partition was read."""
        return [max(offsets, default=-1) for offsets in self.read]

    def reads_on(self) -> None:
        """Wait until more records of each partition have come."""
        before = self.ends()
        until(
            lambda: all(b - a >= MORE for a, b in zip(before, self.ends(), strict=True)),
            f"not all of {before} were read on: {self.ends()}",
        )

    def left_out(self) -> list[set[int]]:
        """The records before the last that nobody was given."""
        return [
            set(range(end)) - offsets for end, offsets in zip(self.ends(), self.read, strict=True)
        ]


def until(holds: Callable[[], bool], otherwise: str) -> None:
    """Wait until it holds."""
    assert eventually(holds, PATIENCE_S), otherwise


@contextmanager
def reading(**more: Any) -> Iterator[tuple[Cluster, str, ReadingGroup]]:
    """A cluster whose group reads, and who leads; in the end it has read all that there was."""
    with cluster(SESSION_MS, ReadingGroup, **more) as made:
        group = made.group
        assert isinstance(group, ReadingGroup)
        group.reads_on()
        yield made, made.leader(), group
        group.reads_on()
        assert group.left_out() == [set()] * PARTITIONS


@pytest.mark.long
def test_another_leads_once_the_leader_is_killed() -> None:
    """`kill -9`: its session ends, the other is elected, and reads on for all."""
    with reading() as (made, leader, group):
        made.coordinators[leader].kill()
        made.next_after(leader)
        group.reads_on()

        until(lambda: made.leader() not in ("", leader), "nobody leads")


@pytest.mark.long
def test_another_leads_while_the_leader_is_paused_and_after_it_wakes() -> None:
    """SIGSTOP: the one that wakes finds that it leads no more, and its members stay away."""
    with reading() as (made, leader, group):
        paused = made.coordinators[leader]
        paused.pause()
        made.next_after(leader)
        group.reads_on()
        paused.resume()
        until(
            lambda: any("event=stepped_down" in line for line in paused.lines()),
            "who was paused believes that it leads",
        )
        group.reads_on()

        until(lambda: made.leader() != "", "nobody leads")


@pytest.mark.long
def test_another_leads_once_the_leader_hears_nothing_of_zookeeper() -> None:
    """Its connections stand, and nothing passes: it steps down by itself, and stands by later."""
    with reading(roads=True) as (made, leader, group):
        cut_off = made.coordinators[leader]
        made.roads[leader].freeze()
        made.next_after(leader)
        until(
            lambda: any("event=stepped_down" in line for line in cut_off.lines()),
            "who hears nothing of ZooKeeper leads on",
        )
        group.reads_on()
        until(lambda: made.leader() not in ("", leader), "who is cut off leads")
        made.roads[leader].thaw()


@pytest.mark.long
def test_somebody_leads_after_zookeeper_was_silent() -> None:
    """All of ZooKeeper stands still, shorter than a session: the same one, as a rule."""
    with reading() as (made, _, group):
        made.zookeeper.pause(0)
        time.sleep(SILENT_S)
        made.zookeeper.resume(0)
        until(lambda: made.leader() != "", "nobody leads")
        group.reads_on()


@pytest.mark.long
def test_somebody_leads_once_zookeeper_is_back() -> None:
    """It is killed, so that nobody can tell who leads, and comes back with what it had stored."""
    with reading() as (made, leader, group):
        made.zookeeper.kill(0)
        until(
            lambda: any("event=stepped_down" in line for line in made.coordinators[leader].lines()),
            "it leads on without ZooKeeper",
        )
        made.zookeeper.restart(0)
        until(lambda: made.leader() != "", "nobody leads")
        group.reads_on()
