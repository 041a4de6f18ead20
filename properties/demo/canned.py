"""A demonstration as it might stand after a minute, without any process."""

from __future__ import annotations

from herdproof.cli.run.demo.cluster import Child
from herdproof.cli.run.demo.judging import Ending
from herdproof.cli.run.demo.observation import Delivery, Observations
from herdproof.cli.run.demo.plan import Do
from herdproof.cli.run.demo.snapshot import Chapter, Played, Scene

PARTITIONS, EVERY_S, UNTIL_S = 3, 0.25, 60.0
BEGAN_S = 1_000.0
HOSTILE = "</script><img src=x onerror=alert(1)> & “quotes”"
"""What nobody of ours is called; the page must show it as it is."""


def observations() -> Observations:
    """
    Partition 2 changes hands after a silence from 20 s to 24 s.

    Who takes it over reads the two records before it again, and what came meanwhile.
    """
    seen = Observations(PARTITIONS)
    for number in range(int(UNTIL_S / EVERY_S)):
        at_s = number * EVERY_S
        generation = 1 if at_s <= 20.0 else 2
        for partition in range(PARTITIONS):
            seen.sent(partition, number)
            if partition < 2 or at_s <= 20.0:
                seen.delivered(_given(partition + 1, partition, number, generation, at_s))
            elif at_s == 24.0:
                for late in range(79, number + 1):
                    seen.delivered(_given(1, 2, late, 2, 24.0 + (late - 79) / 1_000))
            elif at_s > 24.0:
                seen.delivered(_given(1, 2, number, 2, at_s))
    return seen


def _given(reader: int, partition: int, number: int, generation: int, at_s: float) -> Delivery:
    had_s = BEGAN_S + at_s
    return Delivery(str(reader), 1, partition, number, generation, had_s - 0.0005, had_s)


def scene(chapter: Chapter = Chapter.RUNNING, ending: Ending | None = None) -> Scene:
    """Consumer 3 is killed at 20 s and not started yet; coordinator 2 leads."""
    coordinators = [Child(n, "coordinator", Do.START) for n in (1, 2, 3)]
    coordinators[2].done = Do.CUT
    consumers = [Child(n, "consumer", Do.START, has=[n - 1]) for n in (1, 2, 3)]
    consumers[0].has = [0, 2]
    consumers[2].done, consumers[2].has = Do.KILL, []
    played = [
        Played(BEGAN_S + 20.0, Do.KILL, "consumer 3 is killed (kill -9)"),
        Played(BEGAN_S + 40.0, Do.CUT, f"coordinator 3 is cut off {HOSTILE}"),
    ]
    return Scene(
        chapter=chapter, saying=played[-1].told, now_s=BEGAN_S + UNTIL_S, began_s=BEGAN_S,
        seconds=85.0, next_s=4.2, coordinators=coordinators, consumers=consumers, leader=2,
        played=played, seen=observations(), ending=ending,
    )  # fmt: skip
