"""The judgement of groups at `herdproof broker` sees each thing that it is there to see."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from integration.broker.broker_judgement import Brokers, judge_members

TOPIC = "t"
UUID = "-00000000-0000-0000-0000-00000000000"
A, B, JAVA = (f"{name}{UUID}{n}" for n, name in enumerate(("a.1", "b.1", "java.1")))


@dataclass
class Run:
    """Two members, one after the other, and what their broker has told; `JAVA` has the rest."""

    topic: str = TOPIC
    told: list[dict[str, Any]] = field(default_factory=list)
    printed: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    stems: dict[str, str] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def says(self, consumer: str, at: float, event: str, **more: Any) -> None:
        """A line of a member's."""
        self.stems[consumer] = consumer
        self.told.append({
            "event": event, "consumer": consumer, "at": at, "topic": TOPIC, **more,
        })  # fmt: skip

    def gets(self, consumer: str, at: float, *offsets: int) -> None:
        """Records of partition 0, a tenth of a second each."""
        for n, offset in enumerate(offsets):
            self.says(consumer, at + n / 10, "record", partition=0, offset=offset)

    def does(self, at: float, action: str, **arguments: Any) -> None:
        """A line of the broker's."""
        self.lines.append({
            "schema": 2, "protocol": "group_protocol", "run": "monday", "node": "1",
            "sequence": len(self.lines) + 1, "time_ns": int(at * 1e9), "action": action,
            "group": "g", "arguments": arguments,
        })  # fmt: skip

    def shares(self, at: float, generation: int, owner: str) -> None:
        """A generation, in which partition 0 is this member's."""
        owners = [[owner, TOPIC, 0], [JAVA, TOPIC, 1]]
        self.does(at, "complete_join", generation=generation, members=[owner, JAVA], number=1)
        self.does(at, "share_out", generation=generation, owners=owners, number=2)
        self.does(at, "answer_syncs", generation=generation, members=[owner, JAVA], owners=owners)

    def stores(self, at: float, offset: int, partition: int = 0) -> None:
        """An offset is sent, and stored."""
        self.does(at, "flush_offsets", offsets=[[TOPIC, partition, offset]], number=9)
        self.does(at, "answered", outcome="done", number=9)

    def judged(self, folder: Path) -> int:
        """As scenarios are."""
        trace = folder / "broker.ndjson"
        trace.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines))
        return judge_members(self, Brokers([trace], "g"))


def good() -> Run:
    """All is as it must be: `a` is evicted, `b` has what it had, Java's goes on."""
    run = Run()
    run.shares(1.0, 1, A)
    run.does(1.1, "handle_offset_fetch", offsets=[[TOPIC, 0, -1], [TOPIC, 1, -1]], number=2)
    run.says("a.1", 1.2, "assigned", partitions=[[TOPIC, 0]])
    run.gets("a.1", 2.0, 0, 1, 2)
    run.stores(3.0, 2)
    run.does(4.0, "expire", member=A)
    run.does(5.0, "handle_join_group", member=JAVA, outcome="waits")
    run.shares(6.0, 2, B)
    run.does(6.1, "handle_offset_fetch", offsets=[[TOPIC, 0, 2], [TOPIC, 1, 3]], number=2)
    run.says("b.1", 6.2, "assigned", partitions=[[TOPIC, 0]])
    run.gets("b.1", 7.0, 2, 3)
    run.stores(8.0, 4)
    run.stems["java.1"] = "java.1"
    run.printed["java.1"] = [(1, 0), (1, 1), (1, 2), (1, 3)]
    run.stores(8.1, 3, partition=1)
    return run


def test_what_is_as_it_must_be_passes(tmp_path: Path) -> None:
    """Partition 0 changed hands once."""
    assert good().judged(tmp_path) == 1


def test_who_is_evicted_hears_of_it_late(tmp_path: Path) -> None:
    """Records that it gets after that are of nobody's tenure, and count as got."""
    run = good()
    run.gets("a.1", 7.05, 3)
    run.says("a.1", 7.06, "stray", partition=0, offset=4)

    assert run.judged(tmp_path) == 1


def both_have_it(run: Run) -> None:
    """The first one was not evicted, and goes on."""
    run.lines = [line for line in run.lines if line["action"] not in ("expire", "complete_join")]
    run.gets("a.1", 7.05, 3)


def is_anothers(run: Run) -> None:
    """Somebody has what is assigned to Java's."""
    run.says("b.1", 6.3, "assigned", partitions=[[TOPIC, 0], [TOPIC, 1]])


def nobody_told_it(run: Run) -> None:
    """Somebody has a partition before the coordinator has told anybody anything."""
    run.told[0]["at"] = 0.5


def leaves_one_out(run: Run) -> None:
    """Within a tenure a record is not delivered."""
    run.told.pop(2)


def begins_too_early(run: Run) -> None:
    """The successor begins before what is stored."""
    run.told[-2:] = []
    run.gets("b.1", 7.0, 1, 2, 3)


def begins_too_late(run: Run) -> None:
    """The successor passes a record that nobody got."""
    run.told[-2:] = []
    run.gets("b.1", 7.0, 4, 5)


def stores_what_nobody_got(run: Run) -> None:
    """An offset beyond all records that came."""
    run.stores(9.0, 7)


def goes_back(run: Run) -> None:
    """A stored offset is followed by a smaller one."""
    run.stores(9.0, 1)


def java_skips(run: Run) -> None:
    """Java's leaves one out, and nobody had told it to."""
    run.printed["java.1"] = [(1, 0), (1, 2)]


def java_begins_often(run: Run) -> None:
    """Java's gets the same again and again in one tenure."""
    run.printed["java.1"] = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 3), (1, 3)]


@pytest.mark.parametrize(("plant", "why"), [
    (both_have_it, "exclusive"),
    (is_anothers, "it is java.1's"),
    (nobody_told_it, "no broker has told"),
    (leaves_one_out, " after "),
    (begins_too_early, "who_begins_does_so_at_the_stored_offset"),
    (begins_too_late, "nobody_is_past_the_unfinished"),
    (stores_what_nobody_got, "only_finished_is_committed"),
    (goes_back, "committed_offsets_never_go_back"),
    (java_skips, "nobody told it"),
    (java_begins_often, "3 times"),
])  # fmt: skip
def test_what_is_not_is_found(tmp_path: Path, plant: Callable[[Run], None], why: str) -> None:
    """One thing was otherwise than it must be."""
    run = good()
    plant(run)

    with pytest.raises(AssertionError, match=why):
        run.judged(tmp_path)
