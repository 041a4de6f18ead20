"""What the page shows is what was observed and done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from herdproof.cli.run.demo.cluster import Child
from herdproof.cli.run.demo.demonstration import Demonstration, Size
from herdproof.cli.run.demo.judging import Ending
from herdproof.cli.run.demo.plan import Do
from herdproof.cli.run.demo.snapshot import Chapter, consumer, coordinator, snapshot
from properties.demo.canned import PARTITIONS, UNTIL_S, scene


def test_a_snapshot_is_json_with_times_from_the_beginning() -> None:
    """The page gets all of it as text, and counts from when records flowed."""
    shown = json.loads(json.dumps(snapshot(scene())))

    assert shown["chapter"] == "running"
    assert shown["now_s"] == UNTIL_S
    assert shown["ending"] is None
    assert [p["number"] for p in shown["partitions"]] == [*range(PARTITIONS)]
    assert shown["partitions"][0]["stretches"] == [["1", 0.0, 20.0], ["1", 20.25, 59.75]]


def test_a_silence_is_shown_with_who_read_before_and_after() -> None:
    """Consumer 3 had partition 2 until it was killed, consumer 1 has it since."""
    shown = snapshot(scene())["partitions"][2]

    assert [reader for reader, _, _ in shown["stretches"]] == ["3", "1"]
    [[since_s, until_s]] = shown["silences"]
    assert (since_s, until_s) == (20.0, 24.0)
    assert shown["longest_s"] == 4.0
    assert shown["reader"] == "1"


def test_before_anything_runs_there_is_a_page(tmp_path: Path) -> None:
    """Whoever opens it at once sees that everything starts, and nobody who reads."""
    size = Size(seconds=20, consumers=2, partitions=2)

    shown = Demonstration(size, tmp_path, lambda _sentence: None).snapshot()

    assert (shown["chapter"], shown["now_s"], shown["acts"]) == ("starting", 0.0, [])
    assert [p["reader"] for p in shown["partitions"]] == [None, None]
    assert [c["state"] for c in shown["consumers"]] == ["starting", "starting"]


def test_an_act_says_what_it_cost() -> None:
    """The silence is that of the act before it; the other cost nothing."""
    killed, cut = snapshot(scene())["acts"]

    assert killed["silence"] == {"lasted_s": 4.0, "partition": 2}
    assert cut["silence"] is None
    assert (killed["at_s"], killed["do"]) == (20.0, "killed")


def test_counts_are_those_of_the_observations() -> None:
    """None is lost, none read by two at once, and what was read again is said."""
    counts = snapshot(scene())["counts"]

    sent = PARTITIONS * int(UNTIL_S / 0.25)
    assert counts == {"sent": sent, "read": sent + 2, "two": 0, "lost": 0, "again": 2}


def test_the_end_is_shown() -> None:
    """The page says what it came to, and where the audit's page is."""
    ending = Ending(0, "The contract held.", "out/report.html")
    shown = snapshot(replace(scene(), chapter=Chapter.OVER, ending=ending))

    assert shown["chapter"] == "over"
    assert shown["ending"] == {
        "code": 0, "sentence": "The contract held.", "report": "out/report.html",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("done", "leader", "state", "more"),
    [
        (Do.START, 1, "leads", ""),
        (None, None, "starting", ""),
        (Do.START, 2, "stands by", ""),
        (Do.START, None, "stands by", ""),
        (Do.PAUSE, 1, "paused", "ZooKeeper still names it the leader"),
        (Do.CUT, 2, "cut off", ""),
        (Do.KILL, 1, "killed", "ZooKeeper still names it the leader"),
        (Do.STOP, 1, "ended", ""),
    ],
)
def test_a_coordinator_s_state(done: Do | None, leader: int | None, state: str, more: str) -> None:
    """What was done to it counts before what ZooKeeper says."""
    shown = coordinator(Child(1, "coordinator", done), leader)

    assert shown == {"name": "coordinator 1", "state": state, "more": more}


@pytest.mark.parametrize(
    ("done", "has", "state", "more"),
    [
        (None, [], "starting", ""),
        (Do.START, [0, 3], "reads", "partitions 0, 3"),
        (Do.START, [3], "reads", "partition 3"),
        (Do.START, [], "waits", "has no partition"),
        (Do.PAUSE, [0], "paused", "had partition 0"),
        (Do.KILL, [], "killed", ""),
        (Do.STOP, [], "ended", ""),
    ],
)
def test_a_consumer_s_state(done: Do | None, has: list[int], state: str, more: str) -> None:
    """What was done to it counts before what it says to have."""
    shown = consumer(Child(2, "consumer", done, has=has))

    assert shown == {"name": "consumer 2", "number": "2", "state": state, "more": more}
